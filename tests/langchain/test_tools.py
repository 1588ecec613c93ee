"""Tools of sessions and of specs as LangChain tools, in chains, graphs and programs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool, ToolAnnotations

from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec
from mcp_magic.errors import ArgumentsError, UnreachableError
from mcp_magic.langchain.content import result_of
from mcp_magic.langchain.names import Names
from mcp_magic.langchain.tools import Options, spec_tools
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.bundled import command, load
from tests.support.dying_server import DYING
from tests.support.lowlevel import serving_tools
from tests.support.processes import start_http

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool

    from mcp_magic.notebook import NotebookHost

EMPTY: dict[str, Any] = {"type": "object"}
ONE_AND_TWO = {"a": 1, "b": 2}


def named(host: NotebookHost, name: str, **settings: Any) -> StructuredTool:
    return next(tool for tool in host.langchain_tools(**settings) if tool.name == name)


async def message(tool: StructuredTool, **arguments: Any) -> Any:
    return await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": arguments})


async def test_a_tool_keeps_its_schema_and_returns_a_message(math, host):
    await host.connect(load("showcase_server").server, name="show")
    names = [tool.name for tool in host.langchain_tools()]
    assert len(names) == len(set(names))
    assert {"math__add", "show__slow"} < set(names)
    assert {tool.metadata["server"] for tool in host.langchain_tools("math")} == {"math"}  # type: ignore[index]
    add = named(host, "math__add")
    assert add.args_schema is math.tools.add.definition.input_schema
    assert set(add.args) == {"a", "b"}
    answer = await message(add, a=1, b=2)
    assert (answer.content, answer.status, answer.name) == ("3", "success", "math__add")
    assert result_of(answer).data == 3
    assert await add.ainvoke(ONE_AND_TWO) == "3"
    with pytest.raises(ArgumentsError, match="math__add takes a dict of arguments, not the text '1, 2'"):
        await add.ainvoke("1, 2")


async def test_a_call_evaluates_no_annotations_again(math, host):
    add = named(host, "math__add")
    await message(add, a=1, b=2)  # what is imported and kept at the first call
    compiled: list[object] = []
    sys.setprofile(lambda frame, event, callee: compiled.append(callee) if callee is compile else None)
    try:
        await message(add, a=1, b=2)
    finally:
        sys.setprofile(None)
    assert compiled == []


async def test_errors_and_denials_are_tool_exceptions(math, host):
    divide = named(host, "math__divide")
    with pytest.raises(ToolException, match="Cannot divide by zero"):
        await divide.ainvoke({"a": 1, "b": 0})
    for handling in (True, lambda error: f"mine: {error}"):  # how a program handles errors is left to it
        divide.handle_tool_error = handling  # type: ignore[assignment]
        answer = await message(divide, a=1, b=0)
        assert answer.status == "error"
        assert "Cannot divide by zero" in answer.content
        assert answer.content.startswith("mine: ") is (handling is not True)
    host.consent.policy, sent = "deny", math.calls
    with pytest.raises(ToolException, match=r"math:add was not called; denied by approval = 'deny'\."):
        await named(host, "math__add").ainvoke(ONE_AND_TWO)
    assert math.calls == sent


HINTS: dict[str, dict[str, Any]] = {
    "hint_none": {},
    "hint_title": {"title": "A title among the hints"},
    "hint_contradiction": {"readOnlyHint": True, "destructiveHint": True},
    "hint_closed_world": {"openWorldHint": False},
    "hint_not_idempotent": {"idempotentHint": False},
}


async def test_the_metadata_has_all_five_hints_that_allow_nothing(show, host):
    nothing = dict.fromkeys(["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
    for tool, said in HINTS.items():
        metadata = {"server": "show", "tool": tool, "annotations": nothing | said}
        assert named(host, f"show__{tool}").metadata == metadata
    hinted = Tool(name="t", input_schema=EMPTY, annotations=ToolAnnotations(read_only_hint=True))
    await host.connect(serving_tools(hinted), name="doubted")
    host.consent.policy = "readonly"
    with pytest.raises(ToolException, match="you cannot be asked here"):
        await named(host, "doubted__t").ainvoke({})


async def test_arguments_may_have_the_names_of_langchains_own(host):
    names = ["self", "config", "run_manager", "callbacks", "args", "kwargs", "tool_input", "input", "type", "state"]
    arguments = {name: name.upper() for name in (*names, "runtime")}
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in arguments}}
    await host.connect(serving_tools(Tool(name="t", input_schema=schema)), name="odd")
    odd = named(host, "odd__t")
    assert await odd.ainvoke(dict(arguments)) == str(sorted(arguments.items()))
    answer = await odd.ainvoke({"type": "tool_call", "id": "1", "name": odd.name, "args": arguments})
    assert (answer.content, answer.artifact["arguments"]) == (str(sorted(arguments.items())), arguments)


async def test_names_that_clash_lead_to_their_own_tools(host):
    for number in range(20):
        listed = [Tool(name=name, input_schema=EMPTY) for name in ("get item", "get.item", "x" * 70)]
        await host.connect(serving_tools(*listed), name=f"s{number}")
    tools = host.langchain_tools()
    assert len({tool.name for tool in tools}) == 60
    names = Names((tool.metadata["server"], tool.metadata["tool"]) for tool in tools)  # type: ignore[index]
    for tool in tools:
        artifact = (await message(tool)).artifact
        assert names.person(tool.name) == f"{artifact['server']}:{artifact['tool']}"


async def test_a_tool_goes_on_when_you_reconnect_its_server(host, spec):
    await host.connect_spec(spec, "show")
    process = named(host, "show__pid")
    before = await process.ainvoke({})
    await host.reconnect("show")
    assert await process.ainvoke({}) != before


async def test_timeout_limit_and_images_are_settings(show, host):
    with pytest.raises(ToolException, match=r"show:slow: timed out: no progress for 0\.2 s"):
        await named(host, "show__slow", timeout=0.2).ainvoke({"seconds": 30})
    text = await named(host, "show__one_text", limit=10).ainvoke({"text": "x" * 50})
    assert text.startswith("xxxxxxxxxx\n[cut here")
    [image] = await named(host, "show__image_png", images=True).ainvoke({})
    assert (image["type"], image["mime_type"]) == ("image", "image/png")


async def test_langgraphs_tool_node_calls_them(math, show, host):
    calls = [("math__add", ONE_AND_TWO), ("show__slow", {"seconds": 0.1}), ("math__divide", {"a": 1, "b": 0})]
    wanted: Any = [{"name": name, "args": arguments, "id": name} for name, arguments in calls]
    graph = StateGraph(MessagesState)
    graph.add_node("act", ToolNode(host.langchain_tools(), handle_tool_errors=True))
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    async with asyncio.timeout(60):
        state = await graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=wanted)]})
    added, waited, divided = state["messages"][1:]
    assert (added.content, added.artifact["structured_content"]) == ("3", {"result": 3})
    assert waited.content == "waited 0.1 s"
    assert divided.status == "error"
    assert "Cannot divide by zero" in divided.content


async def test_tools_for_apps_only_are_not_for_models(host):
    app = Tool(name="resize", input_schema=EMPTY, _meta={"ui": {"visibility": ["app"]}})
    both = Tool(name="draw", input_schema=EMPTY, _meta={"ui": {"visibility": ["model", "app"]}})
    server = serving_tools(app, both)
    assert [tool.name for tool in await host.langchain_spec_tools(server, name="charts")] == ["charts__draw"]
    await host.connect(server, name="charts")
    assert [tool.name for tool in host.langchain_tools()] == ["charts__draw"]


def test_tools_work_without_await_in_cells_threads_and_scripts():
    arguments = [sys.executable, "-W", "error", "-m", "tests.support.blocking_script"]
    ran = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stdout == "done\n", ran.stdout + ran.stderr
    assert ran.stderr == ""


# Tools of a spec: each call opens a session of its own


@pytest.fixture
def spec(tmp_path):
    """A server that is started again and again."""
    (tmp_path / "log").touch()
    return StdioSpec(command=sys.executable, args=(str(DYING), str(tmp_path / "log")))


@pytest.fixture
def processes():
    """Counts the processes that the test has started and that have not been waited for."""
    before = set(psutil.Process().children())
    return lambda: len(set(psutil.Process().children()) - before)


def pick(tools: list[StructuredTool], name: str) -> StructuredTool:
    return next(tool for tool in tools if tool.metadata["tool"] == name)  # type: ignore[index]


async def test_each_call_opens_a_session_and_closes_it(host, spec, processes):
    tools = await host.langchain_spec_tools(spec, name="show")
    pid, die = pick(tools, "pid"), pick(tools, "die")
    assert (pid.name, processes()) == ("show__pid", 0)
    assert (await message(pid)).content != (await message(pid)).content
    assert (processes(), list(host)) == (0, [])
    with pytest.raises(ToolException, match="show:die: the session has ended"):
        await die.ainvoke({})
    assert processes() == 0
    mine = await host.connect_spec(spec, "mine")
    own = (await mine.call("pid")).text
    assert (await message(pid)).content == own, "the host's open session to the same server is used"
    assert processes() == 1
    await host.disconnect("mine")
    assert (await message(pid)).content != own


async def test_consent_uses_the_name_of_the_spec(host):
    server = load("math_server").server
    add = pick(await host.langchain_spec_tools(InProcessSpec(server=server), name="calc"), "add")
    assert await add.ainvoke(ONE_AND_TWO) == "3"
    host.consent.policy = "deny"
    with pytest.raises(ToolException, match="calc:add was not called"):
        await add.ainvoke(ONE_AND_TWO)
    with pytest.raises(ToolException, match="denied by default: you cannot be asked here"):
        await pick(await spec_tools(server), "add").ainvoke(ONE_AND_TWO)


async def test_an_old_url_is_asked_over_sse(host):
    with start_http(command("showcase_server", "--transport", "sse", "--port", "0")) as server:
        tools = await host.langchain_spec_tools(server.url, name="old")
        assert await pick(tools, "one_text").ainvoke({}) == "Hello!"


async def test_an_absent_server_fails_the_listing_and_tells_the_model(host):
    with pytest.raises(UnreachableError, match="nothing listens"):
        await host.langchain_spec_tools("http://127.0.0.1:9/mcp")
    server = MCPServer("counting")
    server.add_tool(lambda: 1, "count")
    async with serving(server.streamable_http_app()) as url:
        [count] = await host.langchain_spec_tools(HttpSpec(url=f"{url}/mcp"), name="counting")
        assert await count.ainvoke({}) == "1"
    for said in ("counting: nothing listens", "counting: not called: its session has failed 3 times in a row"):
        with pytest.raises(ToolException, match=said):
            await count.ainvoke({})


async def test_options_hold_for_calls_of_a_spec(host):
    options: Any = Options(timeout=0.2, limit=5)
    tools = await host.langchain_spec_tools(load("showcase_server").server, name="show", options=options)
    with pytest.raises(ToolException, match=r"no progress for 0\.2 s"):
        await pick(tools, "slow").ainvoke({"seconds": 30})
    assert str(await pick(tools, "one_text").ainvoke({"text": "x" * 9})).startswith("xxxxx\n[cut")


async def test_a_reading_tool_with_own_session_is_not_repeated(host, spec):
    # There is no session to go on with: the next call opens the next one
    read = pick(await host.langchain_spec_tools(replace(spec, trust=True), name="dying"), "read")
    with pytest.raises(ToolException, match="the session has ended"):
        await read.ainvoke({})
    assert await read.ainvoke({}) == "read"
