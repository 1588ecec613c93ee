"""A server with 10,000 tools: connect and list, against the bare SDK; `%mcp tools` and its search."""

from __future__ import annotations

import asyncio

from benchmarks.explorer import connect, listings, many_servers
from benchmarks.kernels import frontend
from benchmarks.timing import Result, async_pairs, compared

__all__ = ["run"]

TOOLS = 10_000
GOAL = 1.2


def run(*, quick: bool = False) -> list[Result]:
    """Measure connecting in this process, each side with a server of its own; the lines in a real kernel."""
    tools, count = (200, 3) if quick else (TOOLS, 15)
    results = [asyncio.run(_connected(tools, count))]
    with frontend(connect(1, tools)) as shown:
        shown.kernel.ok('await host["server0"].listing("tools")')
        return [*results, *listings(shown, f"{tools:,} tools of one server", "thing 42", count)]


async def _connected(tools: int, count: int) -> Result:
    from mcp import Client

    from mcp_magic._host import Host

    ours, theirs = (many_servers(1, tools)["server0"] for _ in range(2))

    async def connect_and_list() -> None:
        async with Host() as host:
            connection = await host.connect(ours)
            assert len(await connection.listing("tools")) == tools

    async def bare() -> None:
        async with Client(theirs.server) as client:
            assert len((await client.list_tools()).tools) == tools

    taken = await async_pairs(connect_and_list, bare, count, warm_up=1)
    return compared(f"{tools:,} tools: connect and list", taken, goal=GOAL)
