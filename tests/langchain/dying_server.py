"""A stdio server that writes down what happens to it, and dies: `python dying_server.py LOG`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

LOG = Path(sys.argv[1])

server = MCPServer("dying")


def note(what: str) -> int:
    """Write down that something happened, and return how often it has."""
    with LOG.open("a") as file:
        file.write(f"{what}\n")
    return LOG.read_text().splitlines().count(what)


@server.tool()
def die() -> str:
    """Die."""
    note("die")
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read() -> str:
    """Die the first time, then read."""
    if note("read") == 1:
        os._exit(3)
    return "read"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def always_die() -> str:
    """Die every time, and say that it does no harm."""
    note("always_die")
    os._exit(3)


@server.tool()
def pid() -> int:
    """Return the process id."""
    note("pid")
    return os.getpid()


if __name__ == "__main__":
    note("start")
    server.run()
