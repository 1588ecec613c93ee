"""One tool call as counters and spans see it, whatever becomes of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.core.telemetry.spans import SERVER, TOOL_ERROR, error_kind, fail, place, recording, span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from opentelemetry.trace import Span

    from mcp_magic.config.specs import Spec

__all__ = ["CallCounter", "Measured"]


class CallCounter(Protocol):
    """What counts calls."""

    def record(self, server: str, tool: str, seconds: float, error: str = "") -> None:
        """Count one call; `error` is the kind of its failure, "" if it has not failed."""


class Measured:
    """A context around a call that has been allowed: counted and timed, and a span `execute_tool NAME`.

    The SDK's span of each request that the call needs is a child of it, and so is the server's own.

    Args:
        server: The connection's name.
        tool: The tool's name.
        spec: Where the server is.
        counter: Counts the call, or None.

    Attributes:
        seconds: How long it took, when it is over.
    """

    __slots__ = ("_counter", "_server", "_span", "_spec", "_started", "_tool", "_tool_failed", "seconds")

    def __init__(self, server: str, tool: str, spec: Spec, counter: CallCounter | None) -> None:
        self._server = server
        self._tool = tool
        self._spec = spec
        self._counter = counter
        self._span: tuple[AbstractContextManager[Span], Span] | None = None
        self.seconds = 0.0
        self._tool_failed = False

    def __enter__(self) -> Measured:
        if recording():
            context = span(f"execute_tool {self._tool}", self._attributes())
            self._span = context, context.__enter__()
        self._started = time.perf_counter()
        return self

    def sent(self, version: str) -> None:
        """Note that the call is sent on a session of this protocol version."""
        if self._span is not None:
            self._span[1].set_attribute("mcp.protocol.version", version)

    def answered(self, *, failed: bool) -> None:
        """Note whether the answer is an error that the tool reports."""
        self._tool_failed = failed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._started
        failure = error_kind(error) if error is not None else TOOL_ERROR if self._tool_failed else ""
        if self._counter is not None:
            self._counter.record(self._server, self._tool, self.seconds, failure)
        if self._span is not None:
            context, made = self._span
            if self._tool_failed:
                fail(made, TOOL_ERROR)
            context.__exit__(kind, error, traceback)

    def _attributes(self) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._tool,
            SERVER: self._server,
            **place(self._spec),
        }
