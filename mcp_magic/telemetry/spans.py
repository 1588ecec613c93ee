"""OpenTelemetry spans of requests.

Our own spans are around calls, turns and runs. The spans of the SDK are completed where their request is written, and
where its answer is read. `telemetry/export.py` exports both.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.calls.call import CallObserver
from mcp_magic.config.specs import InProcessSpec, Spec, StdioSpec, UrlSpec, WebSocketSpec
from mcp_magic.trace.trace import OUT, Tap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import Span

    from mcp_magic.calls.call import Call
    from mcp_magic.results.results import ToolResult
    from mcp_magic.telemetry.metrics import Metrics


# Our spans around calls, models and agents, and our additions to the SDK's spans. The API is a dependency of the SDK
# and does nothing without a provider, which `telemetry/telemetry.py` or the program around us sets up. Names follow the
# semantic conventions for MCP and for generative AI. A span never holds arguments, results or the text of an error,
# because those may be secret.

SCOPE, SDK_SCOPE = "mcp_magic", "mcp-python-sdk"  # the instrumentation scopes of our spans and of the SDK's

SERVER = "mcp_magic.server"  # the attribute for the connection's name; the conventions define none

TOOL_ERROR = "tool_error"  # `error.type` of a call whose tool reported an error (semantic conventions for MCP)

WAITING = 1000  # most spans that wait for the answer to their request

_TARGETS = {"tools/call": ("execute_tool", "gen_ai.tool.name"), "prompts/get": ("", "gen_ai.prompt.name")}
"""Method -> `gen_ai.operation.name`, and the attribute for its `name`."""


def error_kind(error: BaseException) -> str:
    """Return the kind of an error: the name of its class, never its text."""
    return "cancelled" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else type(error).__name__


def place(spec: Spec) -> dict[str, str | int]:
    """Return the attributes for the address of a server: host and port, no other part of a URL."""
    if isinstance(spec, StdioSpec):
        return {"network.transport": "pipe"}
    if not isinstance(spec, UrlSpec):
        return {}
    protocol = "websocket" if isinstance(spec, WebSocketSpec) else "http"
    attributes: dict[str, str | int] = {"network.transport": "tcp", "network.protocol.name": protocol}
    try:
        host, port = spec.address
    except ValueError:
        return attributes
    return {**attributes, "server.address": host, "server.port": port} if host else attributes


@contextmanager
def span(name: str, attributes: Mapping[str, Any], *, client: bool = False) -> Iterator[Span]:
    """Make a span around a block (`client`: a request to another party); a failure sets `error.type`, not its text."""
    from opentelemetry.trace import INVALID_SPAN, SpanKind, get_tracer

    from mcp_magic import __version__

    if not recording():
        yield INVALID_SPAN
        return
    kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
    with get_tracer(SCOPE, __version__).start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as new_span:
        try:
            yield new_span
        except BaseException as error:
            fail(new_span, error_kind(error))
            raise


def recording() -> bool:
    """Whether a provider is set up; without one no spans are made."""
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


def fail(span_: Span, kind: str) -> None:
    """Mark a span as failed."""
    from opentelemetry.trace import StatusCode

    span_.set_attribute("error.type", kind)
    span_.set_status(StatusCode.ERROR)


class WireSpans(Tap):
    """Adds server, place and tool to the SDK's spans of one connection, and the errors that tools report."""

    def __init__(self, server: str, spec: Spec) -> None:
        self._attributes: dict[str, str | int] = {SERVER: server, **place(spec)}
        self._waiting: dict[str, Span] = {}

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Complete the span of a request, which the SDK sends within that span, and take its answer."""
        if direction != OUT:
            if self._waiting and "method" not in message:
                self._take_answer(message)
            return
        if "method" not in message or "id" not in message:
            return
        from opentelemetry.trace import get_current_span

        current = get_current_span()
        if not current.is_recording() or not getattr(current, "name", "").startswith("MCP send "):
            return
        current.set_attributes({**self._attributes, **_target(message)})
        self._waiting[str(message["id"])] = current
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _take_answer(self, message: dict[str, Any]) -> None:
        """Mark the span as failed if the tool reported an error; the SDK ends the span after that."""
        waiting = self._waiting.pop(str(message.get("id")), None)
        result = message.get("result")
        if waiting is not None and isinstance(result, dict) and result.get("isError") is True:
            fail(waiting, TOOL_ERROR)


def span_taps(server: str, spec: Spec) -> tuple[Tap, ...]:
    """Return the taps that complete the SDK's spans of one connection; none for an in-process server."""
    return () if isinstance(spec, InProcessSpec) else (WireSpans(server, spec),)


def _target(message: dict[str, Any]) -> dict[str, str]:
    operation, attribute = _TARGETS.get(message["method"], ("", ""))
    name = (message.get("params") or {}).get("name") if attribute else None
    if not isinstance(name, str):
        return {}
    return {attribute: name, **({"gen_ai.operation.name": operation} if operation else {})}


# One call with its counters and its span, however it ends.


class MeasuredCall(CallObserver):
    """Counts and times an approved call, in a span above those of the SDK; `metrics` may be missing."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._span: tuple[AbstractContextManager[Span], Span] | None = None
        self._started = 0.0

    def sent(self, call: Call) -> None:
        """Begin the span."""
        self._started = time.perf_counter()
        if recording():
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool,
                SERVER: call.connection.name,
                **place(call.connection.spec),
            }
            if (version := call.connection.protocol_version) is not None:
                attributes["mcp.protocol.version"] = version
            context = span(f"execute_tool {call.tool}", attributes)
            self._span = context, context.__enter__()

    def ended(self, call: Call, outcome: ToolResult | BaseException) -> None:
        """Count the call, and end the span; an error that the tool reports is a failure."""
        error = outcome if isinstance(outcome, BaseException) else None
        tool_failed = error is None and outcome.is_error  # type: ignore[union-attr]
        if self._metrics is not None:
            failure = error_kind(error) if error is not None else TOOL_ERROR if tool_failed else ""
            seconds = time.perf_counter() - self._started
            self._metrics.record(call.connection.name, call.tool, seconds, failure)
        if self._span is not None:
            context, own_span = self._span
            if tool_failed:
                fail(own_span, TOOL_ERROR)
            if error is None:
                context.__exit__(None, None, None)
            else:
                context.__exit__(type(error), error, error.__traceback__)
