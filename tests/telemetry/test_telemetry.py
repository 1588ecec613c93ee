"""Spans: what they say, that they say nothing secret, and that nothing leaves unless it was asked for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_magic import errors
from mcp_magic.telemetry.telemetry import EXIT_SECONDS, check, telemetry
from tests.support.asgi import serving
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SECRET = "canary-7f3a91"
own_server = MCPServer("telemetry", log_level="ERROR")


@own_server.tool()
def echo(text: str) -> str:
    """Repeat."""
    return text


@own_server.tool()
def fail(text: str) -> str:
    """Report an error that repeats an argument."""
    raise ToolError(f"cannot do {text}")


@own_server.tool()
def refuse(text: str) -> str:
    """Answer with a JSON-RPC error that repeats an argument."""
    raise MCPError(code=-32602, message=f"no good: {text}")


class Spans:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    def all(self) -> list[ReadableSpan]:
        assert telemetry.flush()
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        found = [span for span in self.all() if span.name == name]
        assert len(found) == 1, [span.name for span in self.all()]
        return found[0]


@pytest.fixture
def spans() -> Iterator[Spans]:
    exported = Spans()
    telemetry.export(exported.exporter)
    yield exported
    telemetry.export("")


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and parent.context is not None and span.parent.span_id == parent.context.span_id


# What they say


async def test_the_spans_of_a_call_carry_server_tool_and_place(host: Host, spans: Spans) -> None:
    connection = await host.connect(PLAIN, name="far")
    await connection.call("echo", text="hi")
    ours, sdks = spans.one("execute_tool echo"), spans.one("MCP send tools/call echo")
    assert is_child(sdks, ours)
    assert attributes(ours) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
        "mcp_magic.server": "far",
        "network.transport": "pipe",
        "mcp.protocol.version": connection.protocol_version,
    }
    number = attributes(sdks).pop("jsonrpc.request.id")
    assert attributes(sdks) == {
        "mcp.method.name": "tools/call",
        "jsonrpc.request.id": number,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
        "mcp_magic.server": "far",
        "network.transport": "pipe",
    }
    assert ours.status.is_unset


async def test_a_server_over_http_is_told_by_its_host_and_port(host: Host, spans: Spans) -> None:
    async with serving(own_server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="far")
        await connection.call("echo", text="hi")
        await host.disconnect("far")
    found = attributes(spans.one("MCP send tools/call echo"))
    assert (found["server.address"], found["server.port"]) == ("127.0.0.1", int(url.rpartition(":")[2]))
    assert (found["network.transport"], found["network.protocol.name"]) == ("tcp", "http")


async def test_the_server_is_handed_the_trace_context(host: Host, spans: Spans) -> None:
    connection = await host.connect(PLAIN, name="far")
    told = (await connection.call("meta")).text
    context = spans.one("MCP send tools/call meta").context
    assert context is not None
    assert told.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


async def test_span_of_kernel_server_is_below_that_of_its_call(host: Host, spans: Spans) -> None:
    connection = await host.connect(own_server, name="near")
    await connection.call("echo", text="hi")
    assert is_child(spans.one("tools/call echo"), spans.one("execute_tool echo"))


@pytest.mark.parametrize(
    ("tool", "of_ours", "of_the_sdks"),
    [("fail", "tool_error", "tool_error"), ("refuse", "ProtocolError", "-32602")],
)
async def test_a_failure_is_told_by_its_kind(
    host: Host, spans: Spans, tool: str, of_ours: str, of_the_sdks: str
) -> None:
    connection = await host.connect(PLAIN, name="far")
    with pytest.raises((errors.ToolError, errors.ProtocolError)):
        await connection.call(tool, text="x")
    for name, kind in ((f"execute_tool {tool}", of_ours), (f"MCP send tools/call {tool}", of_the_sdks)):
        span = spans.one(name)
        assert (attributes(span)["error.type"], span.status.status_code.name) == (kind, "ERROR")


async def test_the_calls_of_an_agent_are_below_its_run(host: Host, spans: Spans) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    from mcp_magic.agent.graph import build_graph, run_agent
    from mcp_magic.agent.scripted import ScriptedModel

    host.consent.policy = "auto"
    await host.connect(own_server, name="near")
    model = ScriptedModel([[("near:echo", {"text": SECRET})], "done"])
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    await run_agent(graph, host, SECRET, thread=SECRET, model="scripted", asker="agent analyst")
    run = spans.one("invoke_agent analyst")
    assert attributes(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "analyst",
        "gen_ai.request.model": "scripted",
    }
    turns = [span for span in spans.all() if span.name.startswith("chat ")]
    assert len(turns) == 2
    assert all(is_child(span, run) for span in [*turns, spans.one("execute_tool echo")])
    assert SECRET not in "".join(span.to_json() for span in spans.all())


async def test_calls_at_the_same_time_have_a_trace_each(host: Host, spans: Spans) -> None:
    connection = await host.connect(PLAIN, name="far")
    await asyncio.gather(*(connection.call("echo", text=str(n)) for n in range(5)))
    calls = [span for span in spans.all() if span.name == "execute_tool echo"]
    sent = [span for span in spans.all() if span.name == "MCP send tools/call echo"]
    assert len({span.context.trace_id for span in calls if span.context}) == 5
    assert all(sum(is_child(span, call) for span in sent) == 1 for call in calls)


# What they do not say


async def test_spans_have_no_argument_result_secret_or_error_text(host: Host, spans: Spans) -> None:
    async with serving(own_server.streamable_http_app()) as url:
        headers = {"Authorization": f"Bearer {SECRET}"}
        near = await host.connect(own_server, name="near")
        far = await host.connect(f"{url}/mcp?key={SECRET}", name="far", headers=headers)
        for connection in (near, far):
            await _say_it_everywhere(connection)
        await host.close()
    told = "".join(span.to_json() for span in spans.all())
    assert "execute_tool fail" in told
    assert "MCP send custom/method" in told
    assert SECRET not in told
    assert not any(span.events for span in spans.all())


async def _say_it_everywhere(connection: Connection) -> None:
    await connection.call("echo", text=SECRET)
    for tool in ("fail", "refuse"):
        with pytest.raises((errors.ToolError, errors.ProtocolError)):
            await connection.call(tool, text=SECRET)
    with pytest.raises(errors.MCPMagicError):
        await connection.read(f"file:///{SECRET}")
    with pytest.raises(errors.MCPMagicError):
        await connection.request("custom/method", {"name": SECRET})


# That nothing leaves unasked


async def test_nothing_is_made_and_no_context_is_sent_while_it_is_off(host: Host) -> None:
    exporter = InMemorySpanExporter()
    telemetry.export(exporter)
    telemetry.export("")
    connection = await host.connect(PLAIN, name="far")
    assert (await connection.call("meta")).text == ""
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("consol", "telemetry: 'consol' is none of '', 'console' and 'otlp'. Did you mean 'console'?"),
        (5, "telemetry: a int is not a SpanExporter; '', 'console' and 'otlp' are names."),
    ],
)
def test_what_is_no_target_is_refused(to: Any, message: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        telemetry.export(to)
    assert str(caught.value) == message
    assert telemetry.to == ""


@pytest.mark.parametrize(("to", "module"), [("console", "opentelemetry.sdk"), ("otlp", "opentelemetry.exporter")])
def test_telemetry_names_missing_package_and_install_line(
    monkeypatch: pytest.MonkeyPatch, to: str, module: str
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # this is how Python itself marks a module that is not there
    with pytest.raises(errors.MissingDependencyError, match=r"pip install 'mcp-magic\[otel\]'$"):
        check(to)


# Where they go


class Collector(BaseHTTPRequestHandler):
    """An OTLP receiver."""

    received: list[tuple[str, dict[str, str], ExportTraceServiceRequest]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        type(self).received.append((self.path, dict(self.headers), request))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Collector]]:
    handler = type("Receiving", (Collector,), {"received": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc123")
    yield handler
    telemetry.export("")
    server.shutdown()
    thread.join()
    server.server_close()


def exported(collector: type[Collector]) -> list[Any]:
    return [
        span
        for _, _, request in collector.received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


async def test_otlp_goes_to_environment_endpoint_until_turned_off(host: Host, collector: type[Collector]) -> None:
    before = {thread for thread in threading.enumerate() if thread.is_alive()}
    telemetry.export("otlp")
    connection = await host.connect(PLAIN, name="far")
    await connection.call("echo", text="hi")
    await asyncio.to_thread(telemetry.flush)
    call = next(span for span in exported(collector) if span.name == "execute_tool echo")
    assert {a.key: a.value.string_value for a in call.attributes}["mcp_magic.server"] == "far"
    path, headers, request = collector.received[0]
    assert (path, headers["api-key"]) == ("/v1/traces", "abc123")
    resource = {a.key: a.value.string_value for a in request.resource_spans[0].resource.attributes}
    assert resource["service.name"] == "mcp_magic"
    assert telemetry.status == f"telemetry: {len(exported(collector))} spans went to otlp"
    await asyncio.to_thread(telemetry.export, "")
    count = len(exported(collector))
    await connection.call("echo", text="again")
    await asyncio.to_thread(telemetry.flush)
    assert len(exported(collector)) == count
    left = {thread for thread in threading.enumerate() if thread.is_alive()} - before
    assert not [thread for thread in left if "Otel" in thread.name or "telemetry" in thread.name]


async def test_what_waits_is_delivered_when_it_is_turned_off(host: Host, collector: type[Collector]) -> None:
    telemetry.export("otlp")
    connection = await host.connect(PLAIN, name="far")
    await connection.call("echo", text="hi")
    await asyncio.to_thread(telemetry.export, "")
    assert "execute_tool echo" in [span.name for span in exported(collector)]


async def test_missing_collector_harms_no_call_and_is_reported(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    telemetry.export("otlp")
    connection = await host.connect(PLAIN, name="far")
    assert (await connection.call("echo", text="hi")).text == "hi"
    threading.Thread(target=telemetry.flush, args=(10.0,), daemon=True).start()
    await until(lambda: "could not be delivered" in telemetry.status)
    started = time.monotonic()
    telemetry.export("")
    assert time.monotonic() - started < EXIT_SECONDS + 10
    assert capfd.readouterr().err == ""


@pytest.mark.lowest
async def test_the_console_gets_a_line_a_span(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.export("console")
    connection = await host.connect(own_server, name="near")
    await connection.call("echo", text=SECRET)
    telemetry.export("")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("span execute_tool echo: ")]
    assert len(lines) == 1
    assert json.loads(lines[0][lines[0].index("{") :])["mcp_magic.server"] == "near"
    assert SECRET not in lines[0]


def test_call_imports_no_exporter_and_keeps_provider_of_program() -> None:
    code = """
import asyncio, sys
from mcp.server.mcpserver import MCPServer
from mcp_magic import host

server = MCPServer("s")
@server.tool()
def hi() -> str: return "hi"
async def main():
    await host.connect(server, name="s")
    await host.call("s:hi")
    print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from mcp_magic.telemetry.telemetry import telemetry

    theirs, ours = InMemorySpanExporter(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(theirs))
    trace.set_tracer_provider(provider)
    telemetry.export(ours)
    with trace.get_tracer("their program").start_as_current_span("their request"):
        await host.call("s:hi")
    telemetry.flush()
    await host.close()
    assert trace.get_tracer_provider() is provider
    for exporter in (theirs, ours):
        print(sorted({s.name for s in exporter.get_finished_spans()} & {"their request", "execute_tool hi"}))
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    both = ["['execute_tool hi', 'their request']", "['execute_tool hi']"]
    assert ran.stdout.splitlines() == ["[]", *both], ran.stderr
