from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from langchain_core.tools import ToolException
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec
from mcp_magic.errors import UnreachableError
from mcp_magic.langchain.tools import Options, spec_tools
from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.bundled import command, load
from tests.support.processes import start_http

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.tools import StructuredTool

    from mcp_magic.notebook import NotebookHost

DYING = SUPPORT / "dying_server.py"


@pytest.fixture
def spec(tmp_path: Path) -> StdioSpec:
    """A server that is started again and again."""
    (tmp_path / "log").touch()
    return StdioSpec(command=sys.executable, args=(str(DYING), str(tmp_path / "log")))


@pytest.fixture
def processes() -> Callable[[], int]:
    """Counts the processes that the test has started and that have not been waited for."""
    before = set(psutil.Process().children())
    return lambda: len(set(psutil.Process().children()) - before)


def pick(tools: list[StructuredTool], name: str) -> StructuredTool:
    return next(tool for tool in tools if tool.metadata["tool"] == name)  # type: ignore[index]


async def pid(tool: StructuredTool) -> int:
    message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {}})
    return int(message.content)


async def test_each_call_opens_a_session_and_closes_it(
    host: NotebookHost, spec: StdioSpec, processes: Callable[[], int]
) -> None:
    tools = await host.langchain_spec_tools(spec, name="show")
    assert processes() == 0
    process = pick(tools, "pid")
    assert process.name == "show__pid"
    assert await pid(process) != await pid(process)
    assert processes() == 0
    assert list(host) == []


async def test_the_hosts_open_session_to_the_same_server_is_used(
    host: NotebookHost, spec: StdioSpec, processes: Callable[[], int]
) -> None:
    process = pick(await host.langchain_spec_tools(spec, name="show"), "pid")
    mine = await host.connect_spec(spec, "mine")
    own = int((await mine.call("pid")).text)
    assert await pid(process) == own
    assert processes() == 1
    await host.disconnect("mine")
    assert await pid(process) != own


async def test_a_call_that_kills_its_server_leaves_nothing_behind(
    host: NotebookHost, spec: StdioSpec, processes: Callable[[], int]
) -> None:
    die = pick(await host.langchain_spec_tools(spec, name="show"), "die")
    with pytest.raises(ToolException, match="show:die: the session has ended"):
        await die.ainvoke({})
    assert processes() == 0


async def test_consent_of_the_host_is_asked_under_the_name(host: NotebookHost) -> None:
    server = load("math_server").server
    add = pick(await host.langchain_spec_tools(InProcessSpec(server=server), name="calc"), "add")
    assert await add.ainvoke({"a": 1, "b": 2}) == "3"
    host.consent.policy = "deny"
    with pytest.raises(ToolException, match="calc:add was not called"):
        await add.ainvoke({"a": 1, "b": 2})


async def test_without_a_host_nobody_can_be_asked_so_it_is_denied() -> None:
    add = pick(await spec_tools(load("math_server").server), "add")
    with pytest.raises(ToolException, match="denied by default: you cannot be asked here"):
        await add.ainvoke({"a": 1, "b": 2})


async def test_an_old_url_is_asked_over_sse(host: NotebookHost) -> None:
    with start_http(command("showcase_server", "--transport", "sse", "--port", "0")) as server:
        tools = await host.langchain_spec_tools(server.url, name="old")
        assert await pick(tools, "one_text").ainvoke({}) == "Hello!"


async def test_absent_server_fails_the_listing_and_tells_the_model(host: NotebookHost) -> None:
    with pytest.raises(UnreachableError, match="nothing listens"):
        await host.langchain_spec_tools("http://127.0.0.1:9/mcp")
    async with serving(counting().streamable_http_app()) as url:
        [count] = await host.langchain_spec_tools(HttpSpec(url=f"{url}/mcp"), name="counting")
        assert await count.ainvoke({}) == "1"
    with pytest.raises(ToolException, match="counting: nothing listens"):
        await count.ainvoke({})
    with pytest.raises(ToolException, match="counting: not called: its session has failed 3 times in a row"):
        await count.ainvoke({})


def counting() -> MCPServer:
    server = MCPServer("counting")
    runs: list[int] = []

    @server.tool()
    def count() -> int:
        """Count."""
        runs.append(1)
        return len(runs)

    return server


async def test_options_hold_for_the_calls(host: NotebookHost) -> None:
    options: Any = Options(timeout=0.2, limit=5)
    tools = await host.langchain_spec_tools(load("showcase_server").server, name="show", options=options)
    with pytest.raises(ToolException, match=r"no progress for 0\.2 s"):
        await pick(tools, "slow").ainvoke({"seconds": 30})
    assert str(await pick(tools, "one_text").ainvoke({"text": "x" * 9})).startswith("xxxxx\n[cut")


async def test_trusted_reading_tool_with_own_session_is_not_repeated(host: NotebookHost, spec: StdioSpec) -> None:
    """There is no session to go on with: the next call opens the next one."""
    read = pick(await host.langchain_spec_tools(replace(spec, trust=True), name="dying"), "read")
    with pytest.raises(ToolException, match="the session has ended"):
        await read.ainvoke({})
    assert await read.ainvoke({}) == "read"
