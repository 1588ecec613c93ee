"""OpenTelemetry spans of requests."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from mcp_magic.config.specs import InProcessSpec, StdioSpec, UrlSpec, WebSocketSpec
from mcp_magic.trace.trace import OUT, Tap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import ModuleType, TracebackType

    from opentelemetry.trace import Span, Tracer

    from mcp_magic.config.specs import Spec

__all__ = [
    "SCOPE",
    "SDK_SCOPE",
    "SERVER",
    "TOOL_ERROR",
    "CallCounter",
    "Measured",
    "WireSpans",
    "error_kind",
    "fail",
    "place",
    "recording",
    "span",
    "span_taps",
]


# Spans of OpenTelemetry: our own around calls, models and agents, and what the SDK's are given besides.
#
# The API is a dependency of the SDK and does nothing unless somebody has set up a provider
# (`telemetry/telemetry.py`, or the program that we run in). Names follow the semantic conventions for MCP and
# for generative AI. A span never has arguments, results, or the text of an error: those are a server's or a person's,
# and may be secret.

SCOPE, SDK_SCOPE = "mcp_magic", "mcp-python-sdk"
"""The instrumentation scopes of our spans and of the SDK's."""

SERVER = "mcp_magic.server"
"""The attribute with the connection's name; the conventions have none for it."""

TOOL_ERROR = "tool_error"
"""`error.type` of a call whose tool reported an error (semantic conventions for MCP)."""

WAITING = 1000
"""Spans that are remembered until their answer comes."""

_TARGETS = {"tools/call": ("execute_tool", "gen_ai.tool.name"), "prompts/get": ("", "gen_ai.prompt.name")}
"""Method -> `gen_ai.operation.name`, and the attribute that its `name` is."""


def error_kind(error: BaseException) -> str:
    """Return what kind of failure an error is: the name of its class, never its text.

    >>> error_kind(ValueError("secret")), error_kind(asyncio.CancelledError())
    ('ValueError', 'cancelled')
    """
    return "cancelled" if isinstance(error, asyncio.CancelledError | KeyboardInterrupt) else type(error).__name__


def place(spec: Spec) -> dict[str, str | int]:
    """Return the attributes that say where a server is: host and port, nothing else of a URL.

    >>> place(StdioSpec(command="server"))
    {'network.transport': 'pipe'}
    >>> place(WebSocketSpec(url="wss://user:pw@example.org:9000/mcp?key=1"))["server.address"]
    'example.org'
    """
    if isinstance(spec, StdioSpec):
        return {"network.transport": "pipe"}
    if not isinstance(spec, UrlSpec):
        return {}
    protocol = "websocket" if isinstance(spec, WebSocketSpec) else "http"
    found: dict[str, str | int] = {"network.transport": "tcp", "network.protocol.name": protocol}
    try:
        parts = urlsplit(spec.url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return found
    port = port or (443 if parts.scheme in ("https", "wss") else 80)
    return {**found, "server.address": host, "server.port": port} if host else found


@contextmanager
def span(name: str, attributes: Mapping[str, Any], *, client: bool = False) -> Iterator[Span]:
    """Make a span around what is done inside; one that fails has `error.type` and nothing of the error's text.

    Args:
        name: Its name.
        attributes: Its attributes.
        client: Whether it stands for a request to somebody else.
    """
    from opentelemetry.trace import INVALID_SPAN, SpanKind

    if not recording():
        yield INVALID_SPAN
        return
    kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
    with _tracer().start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except BaseException as error:
            fail(made, error_kind(error))
            raise


def recording() -> bool:
    """Whether somebody has set up a provider: without one spans are not even made."""
    api, named = _api()
    # Not public, and not needed: get_tracer_provider() looks into os.environ, which costs 2 % of a call in-process.
    if not named and getattr(api, "_TRACER_PROVIDER", api) is None:
        return False
    return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


@cache
def _api() -> tuple[ModuleType, bool]:
    """Return the API, and whether the environment names a provider, which is loaded when it is asked for."""
    from opentelemetry import trace
    from opentelemetry.environment_variables import OTEL_PYTHON_TRACER_PROVIDER

    return trace, OTEL_PYTHON_TRACER_PROVIDER in os.environ


@cache
def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    from mcp_magic import __version__

    return get_tracer(SCOPE, __version__)


def fail(made: Span, kind: str) -> None:
    """Mark a span as failed."""
    from opentelemetry.trace import StatusCode

    made.set_attribute("error.type", kind)
    made.set_status(StatusCode.ERROR)


class WireSpans(Tap):
    """What the SDK's spans of one connection's requests are given: server, place, tool, and the tool's own error.

    Args:
        server: The connection's name.
        spec: Where the server is.
    """

    def __init__(self, server: str, spec: Spec) -> None:
        self._attributes: dict[str, str | int] = {SERVER: server, **place(spec)}
        self._waiting: dict[str, Span] = {}

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Complete the span of a request that is sent, which the SDK does within its span; note how it is answered."""
        if direction != OUT:
            if self._waiting and "method" not in message:
                self._came(message)
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

    def _came(self, message: dict[str, Any]) -> None:
        """Note of an answer whether its tool reported an error; the SDK ends the span after that."""
        waiting = self._waiting.pop(str(message.get("id")), None)
        result = message.get("result")
        if waiting is not None and isinstance(result, dict) and result.get("isError") is True:
            fail(waiting, TOOL_ERROR)


def span_taps(server: str, spec: Spec) -> tuple[Tap, ...]:
    """Return what completes the SDK's spans of one connection: nothing where the server is in this kernel."""
    return () if isinstance(spec, InProcessSpec) else (WireSpans(server, spec),)


def _target(message: dict[str, Any]) -> dict[str, str]:
    operation, attribute = _TARGETS.get(message["method"], ("", ""))
    name = (message.get("params") or {}).get("name") if attribute else None
    if not isinstance(name, str):
        return {}
    return {attribute: name, **({"gen_ai.operation.name": operation} if operation else {})}


# One tool call as counters and spans see it, whatever becomes of it.


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
