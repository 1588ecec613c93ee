"""Where spans go: a collector, or the console."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mcp_magic.telemetry.telemetry import EXIT_SECONDS, telemetry
from tests.support.processes import PLAIN
from tests.support.waiting import until


class Collector(HTTPServer):
    """An OTLP receiver.

    Attributes:
        received: Path, headers and content of the requests.
    """

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], ExportTraceServiceRequest]] = []
        super().__init__(("127.0.0.1", 0), Receiving)

    def spans(self) -> list[Any]:
        resources = [resource for _, _, request in self.received for resource in request.resource_spans]
        return [span for resource in resources for scope in resource.scope_spans for span in scope.spans]


class Receiving(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, dict(self.headers), ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector(monkeypatch):
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc123")
        yield server
        telemetry.export("")
        server.shutdown()
        thread.join()


def texts(attributes: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}


async def test_spans_go_to_the_collector_until_it_is_turned_off(host, collector):
    before = {thread for thread in threading.enumerate() if thread.is_alive()}
    telemetry.export("otlp")
    connection = await host.connect(PLAIN, name="far")
    await connection.call("echo", text="hi")
    await asyncio.to_thread(telemetry.flush)
    call = next(span for span in collector.spans() if span.name == "execute_tool echo")
    assert texts(call.attributes)["mcp_magic.server"] == "far"
    path, headers, request = collector.received[0]
    assert (path, headers["api-key"]) == ("/v1/traces", "abc123")
    assert texts(request.resource_spans[0].resource.attributes)["service.name"] == "mcp_magic"
    assert telemetry.status == f"telemetry: {len(collector.spans())} spans went to otlp"
    await connection.call("echo", text="waits")
    await asyncio.to_thread(telemetry.export, "")
    spans = collector.spans()
    assert [span.name for span in spans].count("execute_tool echo") == 2, "what waits is delivered at the end"
    await connection.call("echo", text="again")
    await asyncio.to_thread(telemetry.flush)
    assert len(collector.spans()) == len(spans)
    left = {thread for thread in threading.enumerate() if thread.is_alive()} - before
    assert not [thread for thread in left if "Otel" in thread.name or "telemetry" in thread.name]


async def test_a_missing_collector_harms_no_call_and_is_reported(host, monkeypatch, caplog, capfd):
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
async def test_the_console_gets_a_line_a_span(host, capsys):
    server = MCPServer("near")
    server.add_tool(lambda text: text, name="echo")
    telemetry.export("console")
    connection = await host.connect(server, name="near")
    await connection.call("echo", text="canary-7f3a91")
    telemetry.export("")
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("span execute_tool echo: ")]
    assert json.loads(line[line.index("{") :])["mcp_magic.server"] == "near"
    assert "canary" not in line
