"""What functions of a server in this kernel raise, even beyond an `Exception`: an error of one request."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ListToolsResult, Tool

from mcp_magic.errors import ProtocolError
from mcp_magic.errors import ToolError as MCPToolError
from mcp_magic.results.results import ToolCrashError


def leaving() -> MCPServer:
    server: MCPServer = MCPServer("leaving", log_level="CRITICAL")

    @server.tool()
    def leave(code: int) -> str:
        """Leave on a worker thread."""
        sys.exit(code)

    @server.tool()
    async def interrupt() -> str:
        """Leave on the loop of the kernel."""
        raise KeyboardInterrupt

    @server.tool()
    async def wait() -> str:
        """Take as long as it takes."""
        await asyncio.Event().wait()
        return "never"

    @server.resource("leaving://now")
    async def now() -> str:
        """Leave while it is read."""
        raise SystemExit("no more")

    @server.prompt()
    def ask() -> str:
        """Leave while it is made."""
        sys.exit("not today")

    return server


async def test_exit_fails_its_request_and_session_goes_on(host):
    server = leaving()
    before = list(server.middleware), dict(vars(server))
    connection = await host.connect(server)
    for tool, arguments, cause, said in (
        ("leave", {"code": 3}, SystemExit, "SystemExit: 3"),
        ("interrupt", {}, KeyboardInterrupt, "KeyboardInterrupt"),
    ):
        with pytest.raises(ToolCrashError, match=f"^leaving:{tool} failed: {said}$") as failed:
            await connection.call(tool, arguments)
        assert isinstance(failed.value.__cause__, cause)
        assert [entry.name for entry in failed.traceback[-1:]] == [tool]
        answer = await connection.call_tool(tool, arguments)
        assert (answer.is_error, answer.text) == (True, f"Error executing tool {tool}: {said}")
    with pytest.raises(ProtocolError, match="the server raised SystemExit: no more"):
        await connection.read("leaving://now")
    with pytest.raises(ProtocolError, match="the server raised SystemExit: not today"):
        await connection.prompt("ask")

    waiting = asyncio.ensure_future(connection.call("wait"))
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await host.close()
    assert (server.middleware, vars(server)) == before, "the object is left as it was"


def failing() -> MCPServer:
    server: MCPServer = MCPServer("failing")

    def look_up(item: str) -> str:
        return {"pear": "2.0"}[item]

    @server.tool()
    def price(item: str) -> str:
        """Look up on a worker thread."""
        return look_up(item)

    @server.tool()
    async def refuse() -> str:
        """Fail on purpose."""
        raise ToolError("the shop is closed")

    @server.tool()
    async def read(ctx: Context) -> str:
        """Read a resource that fails."""
        return str(await ctx.read_resource("failing://stock"))

    @server.tool()
    def count() -> int:
        """Return what is no int."""
        return "many"  # type: ignore[return-value]

    @server.resource("failing://stock")
    def stock() -> str:
        """Fail while it is read."""
        return look_up("melon")

    @server.prompt()
    def sell() -> str:
        """Fail while it is made."""
        return look_up("plum")

    return server


async def test_tool_error_shows_own_words_and_frames_without_sdk(host, caplog):
    server = failing()
    await host.connect(server, name="one")
    second = await host.connect(server, name="two")
    for name in ("one", "two"):
        with pytest.raises(ToolCrashError, match=f"^{name}:price failed: KeyError: 'melon'$") as failed:
            await host[name].call("price", item="melon")
        cause = failed.value.__cause__
        assert isinstance(cause, KeyError)
        assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["price", "look_up"]
    await host.disconnect("one")
    with pytest.raises(ToolCrashError, match="KeyError: 'melon'"):
        await second.call("price", item="melon")
    with pytest.raises(MCPToolError, match=r"^two:refuse failed: the shop is closed$") as refused:
        await second.call("refuse")
    assert not isinstance(refused.value, ToolCrashError)
    assert (await second.call("price", item="pear")).text == "2.0"
    assert caplog.records == []
    with pytest.raises(MCPToolError) as wrong:
        await second.call("count")
    assert str(wrong.value) == "two:count failed: count returned 'many'; its return type is int"
    assert wrong.value.__cause__ is None


async def test_resources_prompts_and_low_level_tools_say_their_error(host, caplog):
    connection = await host.connect(failing())
    with pytest.raises(ProtocolError, match="KeyError: 'melon'"):
        await connection.read("failing://stock")
    with pytest.raises(ProtocolError, match="the server raised KeyError: 'plum'"):
        await connection.prompt("sell")
    with pytest.raises(MCPToolError, match=r"failing:read failed: .*KeyError: 'melon'"):
        await connection.call("read")

    async def listing(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="divide", input_schema={"type": "object"})])

    async def calling(context: Any, params: Any) -> CallToolResult:
        raise ZeroDivisionError("by nothing")

    async def leaves(context: Any, params: Any) -> ListToolsResult:
        sys.exit("no tools")

    low = await host.connect(Server("low", on_list_tools=listing, on_call_tool=calling), name="low")
    with pytest.raises(ToolCrashError, match=r"^low:divide failed: ZeroDivisionError: by nothing$"):
        await low.call("divide")
    assert [record.name for record in caplog.records if record.exc_info] == []
    low = await host.connect(Server("low", on_list_tools=leaves), name="low")
    with pytest.raises(ProtocolError, match="SystemExit: no tools"):
        await low.catalog.get("tools")
    assert low.state == "open"
