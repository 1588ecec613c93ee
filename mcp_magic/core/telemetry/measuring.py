"""One tool call as counters and spans see it, whatever becomes of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.telemetry.spans import SERVER, TOOL_ERROR, error_kind, fail, place, recording, span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from opentelemetry.trace import Span

    from mcp_magic.core.connection import Connection

__all__ = ["Measured"]


class Measured:
    """A context around a call that has been allowed: counted and timed, and a span `execute_tool NAME`.

    The SDK's span of each request that the call needs is a child of it, and so is the server's own.

    Args:
        connection: Whose tool it is.
        tool: The tool's name.

    Attributes:
        seconds: How long it took, when it is over.
        tool_failed: Set by whoever has the answer: whether the tool reported an error.
    """

    __slots__ = ("_connection", "_span", "_started", "_tool", "seconds", "tool_failed")

    def __init__(self, connection: Any, tool: str) -> None:
        self._connection: Connection = connection
        self._tool = tool
        self._span: tuple[AbstractContextManager[Span], Span] | None = None
        self.seconds = 0.0
        self.tool_failed = False

    def __enter__(self) -> Measured:
        if recording():
            context = span(f"execute_tool {self._tool}", self._attributes())
            self._span = context, context.__enter__()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._started
        failure = error_kind(error) if error is not None else TOOL_ERROR if self.tool_failed else ""
        if (metrics := self._connection.metrics) is not None:
            metrics.record(self._connection.name, self._tool, self.seconds, failure)
        if self._span is not None:
            context, made = self._span
            if self.tool_failed:
                fail(made, TOOL_ERROR)
            context.__exit__(kind, error, traceback)

    def _attributes(self) -> dict[str, Any]:
        version = self._connection.protocol_version
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._tool,
            SERVER: self._connection.name,
            **place(self._connection.spec),
            **({"mcp.protocol.version": version} if version else {}),
        }
