"""What functions of a server in this kernel raise: it ends their call, not the kernel, and the caller sees it.

The SDK keeps the exception of a tool from the client and logs it with forty lines of its own frames. Here client and
server are the same notebook, so the answer leads to the exception instead.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import PydanticSerializationError, ValidationError

from mcp_magic.results.crashes import remember
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import TracebackType

    from mcp_types import CallToolResult

__all__ = ["contained", "crashed"]

_CALLERS = ("mcp", "mcp_magic", "anyio", "pydantic", "asyncio", "pyodide")
"""Packages whose frames say nothing about a tool."""

_BYTES = (
    "it returned bytes, which are no JSON; return Image(data=..., format='png') or Audio(data=..., format='wav') "
    "of mcp.server.mcpserver, or base64.b64encode(data).decode()"
)


@contextmanager
def contained(server: Any) -> Iterator[None]:
    """Let what a server's functions raise end nothing but the request, and say what it was.

    Args:
        server: An `MCPServer` or a low-level `Server`. A middleware of ours is in front of its own meanwhile.
    """

    async def contain(context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except (MCPError, ValidationError, asyncio.CancelledError, GeneratorExit):
            raise  # what the SDK answers by itself
        except BaseException as error:
            crash = error
        return _answer(crash, context)

    from mcp import MCPError

    server.middleware.insert(0, contain)
    try:
        with _told(server, "call_tool", _failed_call), _told(server, "read_resource", _failed_reading):
            yield
    finally:
        server.middleware.remove(contain)


@contextmanager
def _told(server: Any, method: str, failed: Callable[[BaseException, str], Any]) -> Iterator[None]:
    """Let `failed` answer for what a method of an `MCPServer` raises, for as long as one of its sessions is open."""
    if not hasattr(server, method):  # a low-level server, whose exceptions reach the middleware
        yield
        return
    found = getattr(server, method)
    told = found if isinstance(found, _Told) else _Told(found, failed)
    setattr(server, method, told)
    told.sessions += 1
    try:
        yield
    finally:
        told.sessions -= 1
        if not told.sessions:
            delattr(server, method)


class _Told:
    """A method of an `MCPServer` that answers for what the functions of the server raise, before the SDK logs it."""

    def __init__(self, method: Callable[..., Awaitable[Any]], failed: Callable[[BaseException, str], Any]) -> None:
        self._method = method
        self._failed = failed
        self.sessions = 0

    async def __call__(self, name: Any, *arguments: Any, **named: Any) -> Any:
        from mcp.server.mcpserver.exceptions import ToolError, UnexpectedResourceError

        try:
            return await self._method(name, *arguments, **named)
        except (ToolError, UnexpectedResourceError) as error:
            crash = error
        return self._failed(crash, str(name))


def _cause(crash: BaseException) -> BaseException:
    """Return what a function raised, without the SDK's exceptions around it."""
    while crash.__cause__ is not None and _package(_last_frame(crash.__traceback__)) == "mcp":
        crash = crash.__cause__
    return crash


def _failed_call(crash: BaseException, tool: str) -> CallToolResult:
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
    from mcp_types import CallToolResult, TextContent

    if isinstance(crash, ToolError) and not isinstance(crash, UnexpectedToolError):  # the tool says so on purpose
        return CallToolResult(content=[TextContent(type="text", text=str(crash))], is_error=True)
    crash = _cause(crash)
    if isinstance(crash, PydanticSerializationError) and "utf-8" in str(crash):
        crash = TypeError(_BYTES)
    return crashed(crash, tool)


def _failed_reading(crash: BaseException, uri: str) -> NoReturn:
    from mcp.server.mcpserver.exceptions import ResourceError

    raise ResourceError(f"Error reading resource {uri}: {_said(_cause(crash))}")


def _answer(crash: BaseException, context: Any) -> CallToolResult:
    if context.method == "tools/call":
        return _failed_call(crash, str((context.params or {}).get("name", "")))
    from mcp import MCPError

    raise MCPError(-32603, f"the server raised {_said(_cause(crash))}")


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
    """Return a traceback from the user's own function on: without the SDK, pydantic and anyio, which called it."""
    while traceback is not None and _package(traceback) in _CALLERS:
        traceback = traceback.tb_next
    return traceback


def _last_frame(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _package(traceback: TracebackType | None) -> str:
    name = traceback.tb_frame.f_globals.get("__name__", "") if traceback is not None else ""
    return str(name).partition(".")[0]
