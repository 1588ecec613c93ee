"""Tools about the server's own process. They are there only if it has one: not in a notebook's kernel."""

import os
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import Field

from showcase.app import READS, server


class Process(TypedDict):
    """What the server sees of its process."""

    pid: int
    cwd: str
    python: str
    arguments: list[str]
    environment: dict[str, str]


def process() -> Process:
    """Return the process id, working directory, arguments, and the variables whose name starts with SHOWCASE_."""
    visible = {name: value for name, value in os.environ.items() if name.startswith("SHOWCASE_")}
    return Process(
        pid=os.getpid(),
        cwd=str(Path.cwd()),
        python=sys.executable,
        arguments=sys.argv[1:],
        environment=visible,
    )


def headers(ctx: Context) -> dict[str, str]:
    """Return the HTTP headers of this request; an empty object over stdio."""
    return dict(ctx.headers or {})


def write_stderr(text: Annotated[str, Field(description="What to write, a line feed is added")]) -> str:
    """Write a line to the server's stderr."""
    print(text, file=sys.stderr, flush=True)
    return "written"


def die(
    code: Annotated[int, Field(description="The exit code", ge=0, le=255)] = 3,
    message: Annotated[str, Field(description="The last words, on stderr")] = "showcase: dying as asked",
) -> str:
    """End the server's process at once, without an answer."""
    print(message, file=sys.stderr, flush=True)
    os._exit(code)


def add() -> None:
    """Put these tools on the server."""
    server.add_tool(process, annotations=READS)
    server.add_tool(headers, annotations=READS)
    server.add_tool(write_stderr, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    server.add_tool(die, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
