"""A server with 10,000 tools: connect and list, against the bare SDK; `%mcp tools` and its search."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

from benchmarks.cells import execute, kernel
from benchmarks.explorer import many_servers, timed
from benchmarks.timing import Result, async_pairs, at_most, compared

__all__ = ["run"]

TOOLS = 10_000
GOAL = 1.05
GOAL_LISTING = 100  # milliseconds

SETUP = """
import sys; sys.path.insert(0, {root!r})
%load_ext mcp_magic
from benchmarks.explorer import many_servers
from mcp_magic import host
await host.connect_many(many_servers(1, {tools}))
await host["server0"].listing("tools")
"""
LINES = {"%mcp tools": "%mcp tools", "search": "%mcp tools --search 'thing 42'"}


def run(*, quick: bool = False) -> list[Result]:
    """Measure connecting in this process, each side with a server of its own; the lines in a real kernel."""
    tools, count = (200, 3) if quick else (TOOLS, 15)
    results = [asyncio.run(_connected(tools, count))]
    root = str(Path(__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory() as folder, kernel(folder) as client:
        execute(client, SETUP.format(root=root, tools=tools))
        for name, line in LINES.items():
            timed(client, line)  # imports what shows listings
            taken = statistics.median(timed(client, line) for _ in range(count))
            results.append(at_most(f"{tools:,} tools: {name}", taken, GOAL_LISTING, "ms"))
    return results


async def _connected(tools: int, count: int) -> Result:
    from mcp import Client

    from mcp_magic._host import Host

    ours, theirs = (many_servers(1, tools)["server0"] for _ in range(2))

    async def connect() -> None:
        async with Host() as host:
            connection = await host.connect(ours)
            assert len(await connection.listing("tools")) == tools

    async def bare() -> None:
        async with Client(theirs.server) as client:
            assert len((await client.list_tools()).tools) == tools

    taken = await async_pairs(connect, bare, count, warm_up=1)
    return compared(f"{tools:,} tools: connect and list", taken, goal=GOAL)
