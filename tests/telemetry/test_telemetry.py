"""Telemetry is off unless it is asked for, and keeps what the program has set up."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_magic import errors
from mcp_magic.telemetry.telemetry import check, telemetry
from tests.support.processes import PLAIN


async def test_nothing_is_made_or_sent_while_it_is_off(host):
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
def test_a_value_that_is_no_target_is_refused(to, message):
    with pytest.raises(errors.ConfigError) as caught:
        telemetry.export(to)
    assert str(caught.value) == message
    assert telemetry.to == ""


@pytest.mark.parametrize(("to", "module"), [("console", "opentelemetry.sdk"), ("otlp", "opentelemetry.exporter")])
def test_a_missing_package_is_named_with_its_install_line(monkeypatch, to, module):
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # this is how Python itself marks a module that is not there
    with pytest.raises(errors.MissingDependencyError, match=r"pip install 'mcp-magic\[otel\]'$"):
        check(to)


PROGRAM = """
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


def test_a_call_imports_no_exporter_and_keeps_the_provider():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    both = ["['execute_tool hi', 'their request']", "['execute_tool hi']"]
    assert ran.stdout.splitlines() == ["[]", *both], ran.stderr
