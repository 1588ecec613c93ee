"""A host that meets `flood_server` with 150 MB to spare, and says what it kept of each flood."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

import psutil

from mcp_magic._host import Host
from mcp_magic.ask.elicitation import Answer, Elicitation

MEMORY = 150_000_000
MB = 1_000_000
FLOODS = {
    "log": {"count": 34, "size": 5 * MB},
    "progress": {"count": 10, "size": 5 * MB},
    "ask": {"count": 165, "size": MB},
    "update": {"count": 20, "size": MB},
    "change": {"count": 1000},
    "stderr": {"count": 10, "size": 5 * MB},
}


async def decline(asked: Elicitation) -> Answer:
    return Answer.decline()


async def main() -> None:
    host = Host()
    host.elicitation.elicitor = decline
    host.reports.reporter = lambda report: None
    connection = await host.connect([sys.executable, str(Path(__file__).parent / "flood_server.py")], name="flood")
    for tool in FLOODS:  # what is imported is not what is measured
        await connection.call_tool(tool, {"count": 1, "size": 1})
    limit = psutil.Process().memory_info().vms + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for tool, arguments in FLOODS.items():
        result = await connection.call_tool(tool, arguments)
        kept = sum(len(str(message.data)) for message in connection.notices.messages)
        told = [tool, result.text[:20], kept, host.trace.size, len(connection.stderr())]
        print("FLOOD", json.dumps(told), flush=True)
    for _ in range(34):
        await connection.call_tool("change", {"size": 5 * MB})
        listed = await connection.listing("tools")
    print("FLOOD", json.dumps(["list", listed[-1].name[:3], 0, host.trace.size, 0]), flush=True)
    await host.close()


if __name__ == "__main__":
    asyncio.run(main())
