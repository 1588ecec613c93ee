from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp_types import Tool, ToolAnnotations

from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import result_of
from mcp_magic.langchain.names import Names
from tests.support.bundled import command, load
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool

    from mcp_magic.notebook import NotebookHost


def named(host: NotebookHost, name: str, **settings: Any) -> StructuredTool:
    return next(tool for tool in host.langchain_tools(**settings) if tool.name == name)


def tool_call(tool: StructuredTool, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "1", "name": tool.name, "args": arguments}


async def test_tools_of_all_sessions_or_one_become_langchain_tools(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("showcase_server").server, name="show")
    names = [tool.name for tool in host.langchain_tools()]
    assert len(names) == len(set(names))
    assert "math__add" in names
    assert "show__slow" in names
    assert {tool.metadata["server"] for tool in host.langchain_tools("math")} == {"math"}  # type: ignore[index]


async def test_tool_keeps_its_schema_and_returns_a_message_with_result(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    add = named(host, "math__add")
    assert add.args_schema is host["math"].tools.add.definition.input_schema
    assert set(add.args) == {"a", "b"}
    message = await add.ainvoke(tool_call(add, a=1, b=2))
    assert (message.content, message.status, message.name) == ("3", "success", "math__add")
    assert result_of(message).data == 3
    assert await add.ainvoke({"a": 1, "b": 2}) == "3"


async def test_a_call_evaluates_no_annotations_again(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    add = named(host, "math__add")
    await add.ainvoke(tool_call(add, a=1, b=2))  # what is imported and kept at the first call
    compiled: list[object] = []
    sys.setprofile(lambda frame, event, callee: compiled.append(callee) if callee is compile else None)
    try:
        await add.ainvoke(tool_call(add, a=1, b=2))
    finally:
        sys.setprofile(None)
    assert compiled == []


async def test_an_error_of_the_tool_is_a_tool_exception(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    divide = named(host, "math__divide")
    with pytest.raises(ToolException, match="Cannot divide by zero"):
        await divide.ainvoke({"a": 1, "b": 0})
    divide.handle_tool_error = True
    message = await divide.ainvoke(tool_call(divide, a=1, b=0))
    assert message.status == "error"
    assert "Cannot divide by zero" in message.content


async def test_without_consent_the_model_is_told_why(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    host.consent.policy = "deny"
    add = named(host, "math__add")
    sent = host["math"].calls
    with pytest.raises(ToolException, match=r"math:add was not called; denied by approval = 'deny'\."):
        await add.ainvoke({"a": 1, "b": 2})
    assert host["math"].calls == sent


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("hint_none", {}),
        ("hint_title", {"title": "A title among the hints"}),
        ("hint_contradiction", {"readOnlyHint": True, "destructiveHint": True}),
        ("hint_closed_world", {"openWorldHint": False}),
        ("hint_not_idempotent", {"idempotentHint": False}),
    ],
)
async def test_the_metadata_has_all_five_hints(host: NotebookHost, tool: str, said: dict[str, Any]) -> None:
    await host.connect(load("showcase_server").server, name="show")
    nothing = dict.fromkeys(["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
    assert named(host, f"show__{tool}").metadata == {"server": "show", "tool": tool, "annotations": nothing | said}


async def test_arguments_may_have_the_names_of_langchains_own(host: NotebookHost) -> None:
    names = [
        "self",
        "config",
        "run_manager",
        "callbacks",
        "args",
        "kwargs",
        "tool_input",
        "input",
        "type",
        "state",
        "runtime",
    ]
    properties = {name: {"type": "string"} for name in names}
    await host.connect(
        serving_tools(Tool(name="t", input_schema={"type": "object", "properties": properties})), name="odd"
    )
    odd = named(host, "odd__t")
    arguments = {name: name.upper() for name in names}
    assert await odd.ainvoke(dict(arguments)) == str(sorted(arguments.items()))
    message = await odd.ainvoke(tool_call(odd, **arguments))
    assert message.content == str(sorted(arguments.items()))
    assert message.artifact["arguments"] == arguments


async def test_a_text_instead_of_arguments_is_refused(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    with pytest.raises(ArgumentsError, match="math__add takes a dict of arguments, not the text '1, 2'"):
        await named(host, "math__add").ainvoke("1, 2")


async def test_names_that_clash_over_servers_lead_to_their_own_tools(host: NotebookHost) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for number in range(20):
        listed = [Tool(name=name, input_schema=schema) for name in ("get item", "get.item", "x" * 70)]
        await host.connect(serving_tools(*listed), name=f"s{number}")
    tools = host.langchain_tools()
    assert len({tool.name for tool in tools}) == 60
    names = Names((tool.metadata["server"], tool.metadata["tool"]) for tool in tools)  # type: ignore[index]
    for tool in tools:
        message = await tool.ainvoke(tool_call(tool))
        assert names.person(tool.name) == f"{message.artifact['server']}:{message.artifact['tool']}"


async def test_a_tool_goes_on_when_the_person_reconnects_its_server(host: NotebookHost) -> None:
    await host.connect(command("showcase_server"), name="show")
    process = named(host, "show__process")
    before = (await process.ainvoke(tool_call(process))).artifact["structured_content"]["pid"]
    await host.reconnect("show")
    after = (await process.ainvoke(tool_call(process))).artifact["structured_content"]["pid"]
    assert before != after


async def test_a_time_out_holds_for_each_call(host: NotebookHost) -> None:
    await host.connect(load("showcase_server").server, name="show")
    with pytest.raises(ToolException, match=r"show:slow: timed out: no progress for 0\.2 s"):
        await named(host, "show__slow", timeout=0.2).ainvoke({"seconds": 30})


async def test_the_limit_and_images_are_settings(host: NotebookHost) -> None:
    await host.connect(load("showcase_server").server, name="show")
    text = await named(host, "show__one_text", limit=10).ainvoke({"text": "x" * 50})
    assert text.startswith("xxxxxxxxxx\n[cut here")
    [image] = await named(host, "show__image_png", images=True).ainvoke({})
    assert (image["type"], image["mime_type"]) == ("image", "image/png")


async def test_langgraphs_tool_node_calls_them_at_the_same_time(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("showcase_server").server, name="show")
    wanted = [
        {"name": "math__add", "args": {"a": 1, "b": 2}, "id": "1"},
        {"name": "show__slow", "args": {"seconds": 0.3}, "id": "2"},
        {"name": "math__divide", "args": {"a": 1, "b": 0}, "id": "3"},
    ]
    graph = StateGraph(MessagesState)
    graph.add_node("act", ToolNode(host.langchain_tools(), handle_tool_errors=True))
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    async with asyncio.timeout(60):
        state = await graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=wanted)]})
    added, waited, divided = state["messages"][1:]
    assert (added.content, added.artifact["structured_content"]) == ("3", {"result": 3})
    assert waited.content == "waited 0.3 s"
    assert divided.status == "error"
    assert "Cannot divide by zero" in divided.content


async def test_tools_for_apps_only_are_not_made_into_tools_for_models(host: NotebookHost) -> None:
    app = Tool(name="resize", input_schema={"type": "object"}, _meta={"ui": {"visibility": ["app"]}})
    both = Tool(name="draw", input_schema={"type": "object"}, _meta={"ui": {"visibility": ["model", "app"]}})
    server = serving_tools(app, both)
    assert [tool.name for tool in await host.langchain_spec_tools(server, name="charts")] == ["charts__draw"]
    await host.connect(server, name="charts")
    assert [tool.name for tool in host.langchain_tools()] == ["charts__draw"]


async def test_a_hint_of_a_server_changes_nothing_but_the_metadata(host: NotebookHost) -> None:
    hints = ToolAnnotations(read_only_hint=True)
    await host.connect(
        serving_tools(Tool(name="t", input_schema={"type": "object"}, annotations=hints)), name="doubted"
    )
    host.consent.policy = "readonly"
    with pytest.raises(ToolException, match="you cannot be asked here"):
        await named(host, "doubted__t").ainvoke({})
