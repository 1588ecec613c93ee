"""`Connection.call` against the bare SDK's `Client.call_tool`, each on a session of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks import servers
from benchmarks.timing import Result, async_pairs, at_most, compared
from mcp_magic._host import Host
from mcp_magic.trace.trace import BATCH

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["run"]

GOALS = {"in-process": 1.3, "stdio": 1.15, "http": 1.1}

CALLS_IN_A_BATCH = BATCH // 2
"""The trace masks and pairs the messages of so many calls at once: their sums are compared, so that this counts."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure the three transports."""
    with servers.over_each_transport() as specs:
        results = [asyncio.run(_measured(spec, 3 if quick else servers.PAIRS[spec.transport])) for spec in specs]
        results.append(asyncio.run(_lost(specs[-1], *((20, 0.5) if quick else (300, 10.0)))))
    results.append(asyncio.run(_kept(5 if quick else 1000)))
    return results


async def _kept(count: int) -> Result:
    """Measure a read that needs no request, against one that the SDK's own cache answers."""
    from mcp import Client
    from mcp.server.caching import CacheHint
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("notes", cache_hints={"resources/read": CacheHint(3_600_000)})
    server.resource("notes://long", name="long")(lambda: "x" * 2000)
    async with Host() as host, Client(server) as client:
        connection = await host.connect(server, name="notes")
        taken = await async_pairs(
            lambda: connection.read("notes://long"),
            lambda: client.read_resource("notes://long"),
            count,
            settle=host.trace.settle,
        )
    return compared("kept read, in-process", taken, group=CALLS_IN_A_BATCH)


async def _lost(spec: Spec, count: int, seconds: float) -> Result:
    async with Host() as host:
        connection = await host.connect_spec(spec, "math")
        calls = [connection.call("wait", {"seconds": seconds}) for _ in range(count)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    lost = [answer for answer in answers if isinstance(answer, BaseException)]
    note = str(lost[0]).partition("\n")[0] if lost else ""
    return at_most(f"lost of {count} calls of {seconds:g} s at once, http", len(lost), 0, "calls", note)


async def _measured(spec: Spec, count: int) -> Result:
    async with Host() as host, servers.bare(spec) as client:
        connection = await host.connect_spec(spec, "math")
        taken = await async_pairs(
            lambda: connection.call(servers.TOOL, servers.ADD),
            lambda: client.call_tool(servers.TOOL, servers.ADD),
            count,
            settle=host.trace.settle,
        )
    return compared(f"call, {spec.transport}", taken, goal=GOALS[spec.transport], group=CALLS_IN_A_BATCH)
