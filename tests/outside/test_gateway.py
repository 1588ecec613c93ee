"""The server of the kernel: real clients of both eras call the tools of its sessions, over real HTTP."""

from __future__ import annotations

import asyncio
import threading

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic.consent.consent import Decision
from mcp_magic.outside.gateway import KernelServer
from tests.support.hosts import host as host
from tests.support.outside import served


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    """The era of the SDK's client: 2026-07-28 by `server/discover`, or the handshake."""
    return request.param


def math_server() -> MCPServer:
    server = MCPServer("math", log_level="ERROR")

    @server.tool(title="Add two", description="Adds.")
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def steps(context: Context) -> str:
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "done"

    return server


@pytest.fixture
async def math(host):
    """A host with a session, whose calls are allowed."""
    host.consent.policy = "auto"
    await host.connect(math_server(), name="math")
    return host


def texts(result) -> str:
    return "".join(block.text for block in result.content)


async def test_tools_are_those_of_the_sessions(math, mode):
    async with Client(KernelServer(math).server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["math__add", "math__steps"]
        own = math["math"].catalog.tools["add"]
        assert tools["math__add"] == own.model_copy(update={"name": "math__add"})
        result = await client.call_tool("math__add", {"a": 1, "b": 2})
        assert (texts(result), result.structured_content, result.is_error) == ("3", {"result": 3}, False)
        with pytest.raises(MCPError, match="there is no tool 'math__ad'"):
            await client.call_tool("math__ad", {})


async def test_call_goes_through_consent_as_outside(math, mode):
    asked = []

    async def approver(request):
        asked.append((request.asker, request.name, dict(request.arguments)))
        return Decision.approve() if request.arguments["a"] else Decision.deny("not zero")

    math.consent.policy, math.consent.approver = "ask", approver
    async with Client(KernelServer(math).server, mode=mode) as client:
        assert texts(await client.call_tool("math__add", {"a": 1, "b": 2})) == "3"
        denied = await client.call_tool("math__add", {"a": 0, "b": 2})
        assert denied.is_error
        assert texts(denied) == "math:add was not called; denied by the user: not zero."
        wrong = await client.call_tool("math__add", {"a": "x", "b": 2})
        assert (wrong.is_error, texts(wrong)) == (True, "a: expected integer, got 'x'")
    assert asked == [("outside mcp", "math:add", {"a": a, "b": 2}) for a in (1, 0)]
    assert [(record.asker, record.decision) for record in math.consent.audit.records] == [
        ("outside mcp", "approve"),
        ("outside mcp", "deny"),
    ]


async def test_progress_reaches_the_client(math, mode):
    steps = []

    async def progressed(progress, total, message):
        steps.append((progress, total, message))

    async with served(KernelServer(math)) as url, Client(url, mode=mode) as client:
        assert texts(await client.call_tool("math__steps", {}, progress_callback=progressed)) == "done"
    assert steps == [(step, 3, f"step {step}") for step in range(3)]


async def test_listing_is_answered_while_a_cell_computes(math, mode):
    kernel, free = KernelServer(math, patience=lambda: 0.0), threading.Event()
    entered = threading.Event()

    async def outside(url):
        async with Client(url, mode=mode) as client:
            math.loop.call_soon_threadsafe(lambda: (entered.set(), free.wait()))
            entered.wait()
            names = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("math__add", {"a": 1, "b": 2})
            free.set()
            return names, result

    async with served(kernel) as url:
        names, result = await asyncio.to_thread(lambda: asyncio.run(outside(url)))
    assert names == ["math__add", "math__steps"]
    assert result.is_error
    assert texts(result).startswith("the kernel has been running a cell for 0 s. Nothing was called")
    assert math["math"].calls == 0


async def test_client_sees_servers_come_and_go(math):
    changes = asyncio.Queue()

    async def take(message):
        changes.put_nowait(getattr(message, "method", ""))

    async with served(KernelServer(math)) as url:
        async with Client(url, mode="legacy", message_handler=take) as client:
            await math.connect(MCPServer("more", log_level="ERROR"), name="more")
            assert await asyncio.wait_for(changes.get(), 30) == "notifications/tools/list_changed"
            await math.disconnect("math")
            while "math__add" in {tool.name for tool in (await client.list_tools()).tools}:
                await asyncio.wait_for(changes.get(), 30)
        async with Client(url) as client, client.listen(tools_list_changed=True) as events:
            await math.connect(math_server(), name="math")
            async for _ in events:
                break
            assert "math__add" in {tool.name for tool in (await client.list_tools()).tools}
