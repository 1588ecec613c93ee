"""Many tools: a model is given those that fit, finds others, and calls them under their own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from mcp_types import Tool

from mcp_magic._host import Host
from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.offline import OfflineModel
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.search import Index, stems, words_of_tool
from mcp_magic.agent.threads import memory_threads
from mcp_magic.consent.rules import Rule
from tests.support.clocks import cpu_time
from tests.support.lowlevel import serving_tools
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TEXT = {"type": "string"}


def tool(name: str, description: str, **properties: Any) -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object", "properties": properties})


TOOLS = [
    tool("forecast", "Tells the weather of the next days.", city=TEXT),
    tool("send_mail", "Sends a message to a person.", to=TEXT),
    tool("convert", "Converts an amount of money.", currency={"enum": ["euro", "krona"]}),
    *(tool(f"register_{number}", f"Reads the register {number} of a device.") for number in range(150)),
]


@pytest.fixture
async def many() -> AsyncIterator[Host]:
    host = Host()
    host.consent.policy = "auto"
    await host.connect(serving_tools(*TOOLS), name="office")
    try:
        yield host
    finally:
        await host.close()


def bound(model: ScriptedModel) -> list[set[str]]:
    return [{each["function"]["name"] for each in seen.tools} for seen in model.seen]


def asked(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


async def test_what_a_search_finds_is_bound_from_the_next_turn_on(many: Host) -> None:
    script = [
        [("search_tools", {"query": "money in another currency"})],
        [("office:convert", {"currency": "euro"})],
        ".",
    ]
    model = ScriptedModel(script)
    state = await build_graph(model, many).ainvoke(asked("Good morning"))
    first, second, third = bound(model)
    assert first == {"search_tools"}
    assert second == third == {"search_tools", "office__convert"}
    found, answer = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert found.text == "office__convert: Converts an amount of money."
    assert answer.status == "success"
    for seen in model.seen:
        assert not openai_refuses(seen.tools)
        assert not anthropic_refuses(to_anthropic(seen.tools))


async def test_the_tools_that_fit_the_request_are_bound_at_once(many: Host) -> None:
    model = ScriptedModel(["Rain."])
    await build_graph(model, many).ainvoke(asked("What will the weather be in Oslo?"))
    assert bound(model) == [{"search_tools", "office__forecast"}]


async def test_a_tool_that_the_request_names_is_bound(many: Host) -> None:
    model = ScriptedModel(["."])
    await build_graph(model, many).ainvoke(asked("call office:register_142, please"))
    assert "office__register_142" in bound(model)[0]
    assert len(bound(model)[0]) == 6


async def test_tools_searched_or_called_stay_bound_after_a_restart(many: Host) -> None:
    thread = memory_threads()
    first = ScriptedModel([[("search_tools", {"query": "currency"})], [("office:send_mail", {"to": "Ada"})], "."])
    await run_agent(build_graph(first, many, checkpointer=thread), many, "hello", thread="search")
    second = ScriptedModel(["."])
    await run_agent(build_graph(second, many, checkpointer=thread), many, "go on", thread="search")
    assert bound(second) == [{"search_tools", "office__convert", "office__send_mail"}]


async def test_pinned_tools_are_always_bound(many: Host) -> None:
    model = ScriptedModel(["."])
    await build_graph(model, many, pinned=["office:register_1?", "send_*"]).ainvoke(asked("Good morning"))
    tens = {f"office__register_1{digit}" for digit in range(10)}
    assert bound(model) == [{"search_tools", "office__send_mail"} | tens]


@pytest.mark.parametrize(("above", "searches"), [(152, True), (153, False), (0.5, False), (0.01, True), (None, False)])
async def test_setting_is_a_tool_count_or_a_context_share(many: Host, above: float | None, searches: bool) -> None:
    model = ScriptedModel(["."])
    await build_graph(model, many, search_above=above).ainvoke(asked("Good morning"))
    assert ("search_tools" in bound(model)[0]) is searches
    assert (len(bound(model)[0]) == 153) is not searches


async def test_rules_cards_and_audit_name_the_tool_that_was_found(many: Host) -> None:
    many.consent.add(Rule("deny", "office:convert"))
    script = [[("search_tools", {"query": "currency"})], [("office:convert", {}), ("office:forecast", {})], "."]
    graph = build_graph(ScriptedModel(script), many, checkpointer=memory_threads())
    run = await run_agent(graph, many, "hello", thread="rules")
    search, denied, allowed = run.transcript.calls
    assert (search.name, search.by, search.status) == ("search_tools", "", "ok")
    assert (denied.name, denied.status) == ("office:convert", "denied")
    assert (allowed.name, allowed.status) == ("office:forecast", "ok")
    records = [(record.server, record.tool, record.decision) for record in many.consent.audit.records]
    assert sorted(records) == [("office", "convert", "deny"), ("office", "forecast", "approve")]


async def test_no_tool_with_these_words_is_said(many: Host) -> None:
    model = ScriptedModel([[("search_tools", {"query": "xylophone"})], "."])
    state = await build_graph(model, many).ainvoke(asked("hello"))
    [answer] = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    assert answer == "No tool has any of these words. Try others; the servers are: office"


async def test_the_demo_model_works_with_the_tools_that_fit(many: Host) -> None:
    state = await build_graph(OfflineModel(), many).ainvoke(asked('the weather in city "Oslo"'))
    calls = [call for m in state["messages"] if isinstance(m, AIMessage) for call in m.tool_calls]
    assert [(call["name"], call["args"]) for call in calls] == [("office__forecast", {"city": "Oslo"})]


# The index


def test_words_of_parameters_and_choices_count() -> None:
    found = words_of_tool(tool("convert", "Converts money.", to={"enum": ["krona"], "description": "the currency"}))
    assert found["convert"] == 4
    assert {*stems("money krona currency")} <= set(found)


def test_rare_words_score_higher_and_ties_keep_their_order() -> None:
    index = Index([{"read": 1, "file": 1}, {"read": 1, "mail": 1}, {"read": 1, "page": 1}])
    assert index.best("read mail", 3) == [1, 0, 2]
    assert index.best("nothing", 3) == []
    assert Index([]).best("read", 3) == []


def test_a_search_among_many_tools_takes_a_moment() -> None:
    index = Index([words_of_tool(each) for _ in range(20) for each in TOOLS])
    with cpu_time() as cost:
        index.best("tell me the weather of the next days and the register of each device", 10)
    assert cost.seconds < 0.1


def test_a_schema_of_a_stranger_is_read_within_limits() -> None:
    deep: dict[str, Any] = {"description": "end"}
    for _ in range(3000):
        deep = {"properties": {"a": deep, "b": {"enum": [1, None, {"x": 2}]}}, "enum": ["c"]}
    assert words_of_tool(Tool(name="x", input_schema={"type": "object", **deep}))
