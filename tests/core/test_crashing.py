"""What functions of a server in this kernel raise beyond an `Exception`: an error of one request."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import ProtocolError
from mcp_magic.results.crashes import ToolCrashError

if TYPE_CHECKING:
    from mcp_types import ListToolsResult, PaginatedRequestParams

    from mcp_magic.core.host import Host


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

    @server.tool()
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.resource("leaving://now")
    async def now() -> str:
        """Leave while it is read."""
        raise SystemExit("no more")

    @server.prompt()
    def ask() -> str:
        """Leave while it is made."""
        sys.exit("not today")

    return server


@pytest.mark.parametrize(
    ("tool", "arguments", "cause", "said"),
    [
        ("leave", {"code": 3}, SystemExit, "SystemExit: 3"),
        ("interrupt", {}, KeyboardInterrupt, "KeyboardInterrupt"),
    ],
)
async def test_a_tool_that_ends_the_program_fails_like_any_other_and_the_session_goes_on(
    host: Host, tool: str, arguments: dict[str, Any], cause: type[BaseException], said: str
) -> None:
    connection = await host.connect(leaving())
    with pytest.raises(ToolCrashError, match=f"^leaving:{tool} failed: {said}$") as failed:
        await connection.call(tool, arguments)
    assert isinstance(failed.value.__cause__, cause)
    assert [entry.name for entry in failed.traceback[-1:]] == [tool]
    answer = await connection.call_tool(tool, arguments)
    assert (answer.is_error, answer.text) == (True, f"Error executing tool {tool}: {said}")
    assert (await connection.call("add", a=1, b=2)).data == 3


async def test_resources_and_prompts_that_end_the_program_are_errors_of_their_request(host: Host) -> None:
    connection = await host.connect(leaving())
    with pytest.raises(ProtocolError, match="the server raised SystemExit: no more"):
        await connection.read("leaving://now")
    with pytest.raises(ProtocolError, match="the server raised SystemExit: not today"):
        await connection.prompt("ask")
    assert (await connection.call("add", a=1, b=2)).data == 3


async def test_a_low_level_server_that_ends_the_program_while_it_lists_fails_by_that_alone(host: Host) -> None:
    async def listing(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        sys.exit("no tools")

    connection = await host.connect(Server("low", on_list_tools=listing), name="low")
    with pytest.raises(ProtocolError, match="SystemExit: no tools"):
        await connection.catalog.get("tools")
    assert connection.state == "open"


async def test_a_call_that_is_cancelled_stays_cancelled(host: Host) -> None:
    connection = await host.connect(leaving())
    waiting = asyncio.ensure_future(connection.call("wait"))
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_server_object_is_left_as_it_was(host: Host) -> None:
    server = leaving()
    before = list(server.middleware)
    await host.connect(server)
    await host.close()
    assert server.middleware == before
