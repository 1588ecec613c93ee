"""Spans: what they say, and that they say nothing secret."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_magic import errors
from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.telemetry.telemetry import telemetry
from tests.support.asgi import serving
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


SECRET = "canary-7f3a91"
own_server = MCPServer("telemetry", log_level="ERROR")


@own_server.tool()
def echo(text: str) -> str:
    return text


@own_server.tool()
def fail(text: str) -> str:
    raise ToolError(f"cannot do {text}")


@own_server.tool()
def refuse(text: str) -> str:
    raise MCPError(code=-32602, message=f"no good: {text}")


class Spans:
    """Spans that were exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    def all(self) -> list[ReadableSpan]:
        assert telemetry.flush()
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        named = [span for span in self.all() if span.name == name]
        assert len(named) == 1, [span.name for span in self.all()]
        return named[0]


@pytest.fixture
def spans():
    exported = Spans()
    telemetry.export(exported.exporter)
    yield exported
    telemetry.export("")


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and parent.context is not None and span.parent.span_id == parent.context.span_id


async def test_spans_of_a_call_carry_server_tool_and_place(host, spans):
    connection = await host.connect(PLAIN, name="far")
    await connection.call("echo", text="hi")
    ours, sdks = spans.one("execute_tool echo"), spans.one("MCP send tools/call echo")
    assert is_child(sdks, ours)
    common = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "echo",
        "mcp_magic.server": "far",
        "network.transport": "pipe",
    }
    assert attributes(ours) == {**common, "mcp.protocol.version": connection.protocol_version}
    sent = attributes(sdks)
    assert isinstance(sent.pop("jsonrpc.request.id"), str | int)
    assert sent == {**common, "mcp.method.name": "tools/call"}
    assert ours.status.is_unset
    told = (await connection.call("meta")).text
    context = spans.one("MCP send tools/call meta").context
    assert context is not None
    assert told.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-"), "the server is handed the context"


async def test_spans_say_places_and_nothing_secret(host, spans):
    async with serving(own_server.streamable_http_app()) as url:
        near = await host.connect(own_server, name="near")
        headers = {"Authorization": f"Bearer {SECRET}"}
        far = await host.connect(f"{url}/mcp?key={SECRET}", name="far", headers=headers)
        for connection in (near, far):
            await connection.call("echo", text=SECRET)
            for tool, error in (("fail", errors.ToolError), ("refuse", errors.ProtocolError)):
                with pytest.raises(error):
                    await connection.call(tool, text=SECRET)
            with pytest.raises(errors.MCPMagicError):
                await connection.read(f"file:///{SECRET}")
            with pytest.raises(errors.MCPMagicError):
                await connection.request("custom/method", {"name": SECRET})
        await host.close()
    told = "".join(span.to_json() for span in spans.all())
    assert "execute_tool fail" in told
    assert "MCP send custom/method" in told
    assert SECRET not in told
    assert not any(span.events for span in spans.all())
    calls = [span for span in spans.all() if span.name == "execute_tool echo"]
    served = [span for span in spans.all() if span.name == "tools/call echo"]
    assert is_child(served[0], calls[0]), "in this kernel it is below that of its call"
    [sent] = [s for s in spans.all() if s.name == "MCP send tools/call echo" and "server.port" in attributes(s)]
    place = attributes(sent)
    assert (place["server.address"], place["server.port"]) == ("127.0.0.1", int(url.rpartition(":")[2]))
    assert (place["network.transport"], place["network.protocol.name"]) == ("tcp", "http")


async def test_a_failure_is_told_by_its_kind(host, spans):
    connection = await host.connect(PLAIN, name="far")
    for tool, error, ours, sdks in (
        ("fail", errors.ToolError, "tool_error", "tool_error"),
        ("refuse", errors.ProtocolError, "ProtocolError", "-32602"),
    ):
        with pytest.raises(error):
            await connection.call(tool, text="x")
        for name, kind in ((f"execute_tool {tool}", ours), (f"MCP send tools/call {tool}", sdks)):
            span = spans.one(name)
            assert (attributes(span)["error.type"], span.status.status_code.name) == (kind, "ERROR")


async def test_calls_of_an_agent_are_below_its_run(host, spans):
    host.consent.policy = "auto"
    await host.connect(own_server, name="near")
    model = ScriptedModel([[("near:echo", {"text": SECRET})], "done"])
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    await run_agent(graph, host, AgentRun(SECRET, SECRET, "scripted"), asker="agent analyst")
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


async def test_calls_at_the_same_time_have_a_trace_each(host, spans):
    connection = await host.connect(PLAIN, name="far")
    await asyncio.gather(*(connection.call("echo", text=str(n)) for n in range(5)))
    calls = [span for span in spans.all() if span.name == "execute_tool echo"]
    sent = [span for span in spans.all() if span.name == "MCP send tools/call echo"]
    assert len({span.context.trace_id for span in calls if span.context}) == 5
    assert all(sum(is_child(span, call) for span in sent) == 1 for call in calls)
