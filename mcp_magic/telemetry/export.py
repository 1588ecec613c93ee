"""The path from spans to an exporter: a switch, and a filter that removes secrets.

Needs `opentelemetry-sdk`. Only `telemetry/telemetry.py` imports this module, when spans are to be exported.

A span is copied through a list of allowed attributes, because the SDK puts the texts of errors into its spans.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracer, Span, Status, Tracer

from mcp_magic._text import clean
from mcp_magic.telemetry.spans import SCOPE, SDK_SCOPE

if TYPE_CHECKING:
    from collections.abc import Sequence


SCOPES = (SCOPE, SDK_SCOPE)

MAX_ATTRIBUTE = 200  # most characters of a name or an attribute

ALLOWED = frozenset(
    (
        *("mcp.method.name", "mcp.protocol.version", "jsonrpc.request.id", "jsonrpc.protocol.version"),
        *("rpc.response.status_code", "error.type", "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.prompt.name"),
        *("gen_ai.agent.name", "gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        *("server.address", "server.port", "network.transport", "network.protocol.name", "mcp_magic.server"),
    )
)
"""The only attributes that are exported: the SDK may add others, and some of those could hold secrets."""

_NAMED_METHODS = ("tools/call", "prompts/get")
"""Methods whose `name` is that of a tool or a prompt; with other methods it may be anything."""


def cleaned(span: ReadableSpan) -> ReadableSpan:
    """Return a span without events, status text and attributes not in `ALLOWED`: the SDK puts text of errors there."""
    attributes = {name: _cut(value) for name, value in (span.attributes or {}).items() if name in ALLOWED}
    return ReadableSpan(
        name=_name(span, attributes),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _name(span: ReadableSpan, attributes: dict[str, Any]) -> str:
    method = attributes.get("mcp.method.name")
    if _scope(span) == SDK_SCOPE and isinstance(method, str) and method not in _NAMED_METHODS:
        before = "MCP send " if span.name.startswith("MCP send ") else ""
        return f"{before}{method}"
    return str(_cut(span.name))


def _cut(value: Any) -> Any:
    return value[:MAX_ATTRIBUTE] if isinstance(value, str) else value


def _scope(span: ReadableSpan) -> str:
    return span.instrumentation_scope.name if span.instrumentation_scope is not None else ""


class CleanExporter(SpanExporter):
    """Exports cleaned spans and counts the results."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.sent = self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans; an exporter that raises has failed."""
        result = None
        with suppress(Exception):  # a foreign exporter, on a thread that cannot report an error
            result = self._exporter.export([cleaned(span) for span in spans])
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
            return SpanExportResult.SUCCESS
        self.failed += len(spans)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()


def console_line(span: ReadableSpan) -> str:
    """Return a span as the line that the target "console" writes below the cell that made it."""
    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e6
    own = f"{span.context.span_id:016x}" if span.context else ""
    above = f"{span.parent.span_id:016x}" if span.parent else "none"
    facts = f"{milliseconds:.1f} ms, {span.status.status_code.name}, id {own}, parent {above}"
    attributes = json.dumps(dict(span.attributes or {}), ensure_ascii=False, default=list)
    return clean(f"span {span.name}: {facts}, {attributes}").replace("\n", "\\n") + "\n"


class Switch(SpanProcessor):
    """A processor that stays in a provider, which cannot remove one; passes spans on while it has a `target`."""

    def __init__(self) -> None:
        self.target: SpanProcessor | None = None

    def on_end(self, span: ReadableSpan) -> None:
        """Pass on spans of the SDK and this package; spans of other libraries may hold secrets."""
        target = self.target
        if target is not None and _scope(span) in SCOPES:
            target.on_end(span)

    def shutdown(self) -> None:
        """Shut the target down with the provider."""
        if self.target is not None:
            self.target.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export the pending spans."""
        return self.target is None or self.target.force_flush(timeout_millis)


class SwitchedProvider(TracerProvider):
    """A provider that makes no spans while the switch is off, so that servers get no trace context either."""

    def __init__(self, switch: Switch) -> None:
        from mcp_magic import __version__

        own = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": SCOPE, "service.version": __version__}
        super().__init__(resource=Resource.create(dict(own)), shutdown_on_exit=False)
        self._switch = switch

    def get_tracer(self, *arguments: Any, **keywords: Any) -> Tracer:
        """Return a tracer that obeys the switch."""
        return _SwitchedTracer(self._switch, super().get_tracer(*arguments, **keywords))


class _SwitchedTracer(Tracer):
    def __init__(self, switch: Switch, tracer: Tracer) -> None:
        self._switch = switch
        self._tracer = tracer
        self._none = NoOpTracer()

    @property
    def _current(self) -> Tracer:
        return self._none if self._switch.target is None else self._tracer

    def start_span(self, *arguments: Any, **keywords: Any) -> Span:
        return self._current.start_span(*arguments, **keywords)

    def start_as_current_span(self, *arguments: Any, **keywords: Any) -> Any:
        return self._current.start_as_current_span(*arguments, **keywords)
