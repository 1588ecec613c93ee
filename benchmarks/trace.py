"""What the trace costs: calls on one session that take turns, traced and not traced; its memory; its longest step."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

import psutil

from benchmarks import servers
from benchmarks.timing import Pairs, Result, async_pairs, at_most, compared
from mcp_magic._host import Host
from mcp_magic.trace.trace import BATCH, IN, Recorder

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["run"]

GOAL, GOAL_STEP_MS, GOAL_MB = 1.1, 100, 40

SIZES = {100_000: 600, 1_000_000: 200, 50_000_000: 7}
"""Characters of an answer -> pairs of calls over stdio."""

RESULTS = 5000


def run(*, quick: bool = False) -> list[Result]:
    """Measure the three transports."""
    with servers.over_each_transport() as specs:
        results = [asyncio.run(_measured(spec, 3 if quick else servers.PAIRS[spec.transport])) for spec in specs]
    for characters, count in SIZES.items():
        if not quick or characters < 50_000_000:
            results.append(asyncio.run(_measured(servers.stdio(), 3 if quick else count, characters)))
    results.append(longest_step(100 if quick else 1))
    results.append(asyncio.run(_memory(50 if quick else RESULTS)))
    return results


def longest_step(part: int) -> Result:
    """Measure how long recording an answer of 50 MB, or of a part of it, holds up the event loop: text or rows."""
    rows = [{"number": number, "name": "x" * 40} for number in range(800_000 // part)]
    recorder = Recorder("math", servers.in_process())
    seconds = []
    for result in (
        {"content": [{"type": "text", "text": "words\n" * (8_000_000 // part)}]},
        {"structuredContent": rows},
    ):
        started = time.thread_time()
        recorder.message(IN, {"jsonrpc": "2.0", "id": 1, "result": result})
        seconds.append(time.thread_time() - started)
    return at_most(
        "an answer of 50 MB into the trace", max(seconds) * 1e3, GOAL_STEP_MS, "ms", "the loop stands still so long"
    )


async def _memory(count: int) -> Result:
    megabytes = []
    async with Host() as host:
        connection = await host.connect_spec(servers.in_process(), "math")
        for messages in (0, host.trace.messages):
            host.trace.messages = messages
            for _ in range(count):
                await connection.call("text", {"characters": 100_000})
            gc.collect()
            megabytes.append(psutil.Process().memory_info().rss / 1e6)
    return at_most(
        f"memory of {count:,} answers of 100 kB", megabytes[1] - megabytes[0], GOAL_MB, "MB", "over trace off"
    )


async def _measured(spec: Spec, count: int, characters: int = 0) -> Result:
    tool, arguments = ("text", {"characters": characters}) if characters else (servers.TOOL, servers.ADD)
    async with Host() as host:
        connection = await host.connect_spec(spec, "math")
        kept = host.trace.messages

        async def call(messages: int) -> None:
            host.trace.messages = messages
            await connection.call(tool, arguments)

        taken = await async_pairs(lambda: call(kept), lambda: call(0), count, settle=host.trace.settle)
    if characters >= 50_000_000:  # these take a fifth more or less each time, and few of them fit into a run
        taken = Pairs([min(taken.ours)], [min(taken.theirs)])
    size = f" {characters / 1e6:g} MB," if characters else ""
    return compared(
        f"call with its trace,{size} {spec.transport}", taken, goal=GOAL, group=1 if characters else BATCH // 2
    )
