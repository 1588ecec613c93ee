"""What the trace costs: calls on one session that take turns, traced and not traced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks import servers
from benchmarks.timing import Result, async_pairs, compared
from mcp_magic._host import Host

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["run"]

GOAL = 1.05

PAIRS = {"in-process": 2000, "stdio": 600, "http": 400}


def run(*, quick: bool = False) -> list[Result]:
    """Measure the three transports."""
    results = [measured(servers.in_process(), quick), measured(servers.stdio(), quick)]
    with servers.http() as spec:
        results.append(measured(spec, quick))
    return results


def measured(spec: Spec, quick: bool) -> Result:
    """Measure one transport."""
    return asyncio.run(_measured(spec, 3 if quick else PAIRS[spec.transport]))


async def _measured(spec: Spec, count: int) -> Result:
    traced = Host()
    connection = await traced.connect_spec(spec, "math")
    kept = traced.trace.messages

    async def call(messages: int) -> None:
        traced.trace.messages = messages
        await connection.call(servers.TOOL, servers.ADD)

    try:
        taken = await async_pairs(lambda: call(kept), lambda: call(0), count)
    finally:
        await traced.close()
    return compared(f"call with its trace, {spec.transport}", taken, goal=GOAL)
