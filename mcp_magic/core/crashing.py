"""Functions of a server in this kernel that raise no `Exception`: `sys.exit()` ends their call, not the kernel."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.results.crashes import remember
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from mcp_types import CallToolResult

__all__ = ["contained", "crashed"]

_CALLERS = ("mcp", "mcp_magic", "anyio", "pydantic", "asyncio", "pyodide")
"""Packages whose frames say nothing about a tool."""


@contextmanager
def contained(server: Any) -> Iterator[None]:
    """Let what a server's functions raise end nothing but the request; asyncio ends its loop by a SystemExit.

    Args:
        server: An `MCPServer` or a low-level `Server`. A middleware of ours is in front of its own meanwhile.
    """

    async def contain(context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except (Exception, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            crash = error
        return _answer(crash, context)

    server.middleware.insert(0, contain)
    try:
        yield
    finally:
        server.middleware.remove(contain)


def _answer(crash: BaseException, context: Any) -> CallToolResult:
    if context.method == "tools/call":
        return crashed(crash, str((context.params or {}).get("name", "")))
    from mcp import MCPError

    raise MCPError(-32603, f"the server raised {_said(crash)}")


def crashed(crash: BaseException, tool: str) -> CallToolResult:
    """Return the error result of a tool that raised; `ToolResult.raise_for_error` finds the exception by it."""
    from mcp_types import CallToolResult, TextContent

    crash.__traceback__ = _own_frames(crash.__traceback__)
    crash.__context__ = crash.__context__ if crash.__cause__ is None else None
    text = f"Error executing tool {tool}: {_said(crash)}"
    answer = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
    answer.meta = remember(crash)
    return answer


def _said(crash: BaseException) -> str:
    return f"{type(crash).__name__}: {one_line(str(crash), 500)}".rstrip(": ")


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of whoever called the tool: the SDK, pydantic, anyio."""
    found = traceback
    while found is not None:
        package = found.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _CALLERS:
            return found
        found = found.tb_next
    return traceback
