"""A server inside a sandbox against the same server without one: the connect, and a call."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace

from benchmarks import servers
from benchmarks.timing import Pairs, Result, async_pairs, at_most, compared, not_measured
from mcp_magic._host import Host
from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.sandbox.backends import Sandlock
from tests.environments import ROOT

__all__ = ["run"]

CONNECT_SECONDS = 0.6
CALL_RATIO = 1.05
CONNECTS, CALLS = 7, 1280


def run(*, quick: bool = False) -> list[Result]:
    """Measure connects that take turns, then calls on two sessions that are open."""
    if problem := Sandlock().problem():
        return [not_measured("connect inside a sandbox", problem)]
    return asyncio.run(_run(2 if quick else CONNECTS, 20 if quick else CALLS))


async def _run(connects: int, calls: int) -> list[Result]:
    plain = servers.stdio()
    isolated = replace(plain, sandbox=make_sandbox(f"read={ROOT}"))
    async with Host() as host:
        await host.connect_spec(plain, "first")  # imports the SDK, which no other connect does again
        connect_times = Pairs()
        for _ in range(connects):
            for spec, seconds in ((isolated, connect_times.ours), (plain, connect_times.theirs)):
                started = time.perf_counter()
                await host.connect_spec(spec, "math")
                seconds.append(time.perf_counter() - started)
                await host.disconnect("math")
        inside = await host.connect_spec(isolated, "inside")
        outside = await host.connect_spec(plain, "outside")
        call_times = await async_pairs(
            lambda: inside.call(servers.TOOL, servers.ADD),
            lambda: outside.call(servers.TOOL, servers.ADD),
            calls,
            settle=host.trace.settle,
        )
    slower = statistics.median(a - b for a, b in zip(connect_times.ours, connect_times.theirs, strict=True))
    note = f"{statistics.median(connect_times.ours):.2f} s instead of {statistics.median(connect_times.theirs):.2f} s"
    # sandlock looks at each `send` on a socket (30 us), and asyncio wakes itself by three of them in a call
    return [
        at_most("connect inside a sandbox, longer by", slower, CONNECT_SECONDS, "s", note),
        compared("call inside a sandbox", call_times, goal=CALL_RATIO, group=64),
    ]
