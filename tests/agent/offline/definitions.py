"""The tools of the servers of the suites, written down once: `python -m tests.agent.offline.definitions`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

from tests.environments import ROOT, everything_command, git_command, time_command

FILE = Path(__file__).with_name("definitions.json")

Definitions = dict[str, list[dict[str, Any]]]


@cache
def definitions() -> Definitions:
    """Return by server the tools as `tools/list` gives them."""
    found: Definitions = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def bindable(*servers: str) -> list[dict[str, Any]]:
    """Return the tools of these servers (none named: of all) as `bind_tools` takes them, named `server__tool`."""
    return [
        {
            "type": "function",
            "function": {
                "name": f"{server}__{tool['name']}",
                "description": tool.get("description") or tool.get("title") or tool["name"],
                "parameters": tool["inputSchema"],
            },
        }
        for server, tools in definitions().items()
        if not servers or server in servers
        for tool in tools
    ]


def commands(repo: Path) -> dict[str, list[str]]:
    """Return by server the command that starts it; git works on `repo`."""
    bundled = {
        name: [sys.executable, str(ROOT / "notebooks" / "servers" / f"{name}_server.py"), "--transport", "stdio"]
        for name in ("math", "weather", "showcase", "paging")
    }
    bundled["math"] = bundled["math"][:2]
    return bundled | {"everything": everything_command(), "time": time_command(), "git": git_command(repo)}


async def listed(command: list[str]) -> list[dict[str, Any]]:
    """Return what a server lists, all pages, to a client without capabilities."""
    tools: list[dict[str, Any]] = []
    with Path("/dev/null").open("w") as nowhere:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]), errlog=nowhere)
        async with Client(transport) as client:
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    return tools


async def ask_servers() -> Definitions:
    """Return by server what the live servers list."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        return {name: await listed(command) for name, command in commands(Path(folder)).items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(asyncio.run(ask_servers()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
