"""Parts of the agent as middleware of LangChain's `create_agent`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from mcp_types import CallToolResult, ImageContent, Tool

from mcp_magic import (
    BudgetMiddleware,
    ConversationMiddleware,
    Decision,
    LargeResultsMiddleware,
    PlanMiddleware,
    Rule,
    ScriptedModel,
    SkillsMiddleware,
    ToolSearchMiddleware,
)
from mcp_magic.langchain.content import result_of
from mcp_magic.langchain.tools import langchain_tools
from tests.pictures import png
from tests.support.agents import add_server, answers, asked, bound
from tests.support.bundled import load
from tests.support.fake_openai import Turn
from tests.support.lowlevel import serving_tools
from tests.support.skills_server import SkillServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic import Request
    from mcp_magic.consent.consent import PlannedRequest


def rain() -> list[dict[str, Any]]:
    """Tells how much it rains."""
    return [{"city": f"c{number}", "rain": number / 2} for number in range(2000)]


@pytest.fixture
async def weather(host):
    """The tools of a server, for LangChain."""
    await host.disconnect("shop")
    await add_server(host, "weather", rain)
    return [*langchain_tools(*host.find())]


async def test_large_results_of_any_tool_are_read_in_parts(weather):
    @tool
    def lines() -> str:
        """Returns many lines."""
        return "\n".join(f"line {number}" for number in range(5000))

    reads = [{"handle": "result_1", "rows": "1999"}, {"handle": "result_2", "rows": "7"}]
    script = [
        [("weather:rain", {}), ("lines", {})],
        [("read_result", arguments) for arguments in reads],
        [("read_result", {"handle": "result_9"})],
        "done",
    ]
    model = ScriptedModel(script)
    agent = create_agent(model, [*weather, lines], middleware=[LargeResultsMiddleware()])
    state = await agent.ainvoke(asked())
    table, text, row, line, wrong = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert table.text.startswith("[result_1: table of 2,000 rows x 2 columns (city, rain).")
    assert len(result_of(table).df) == 2000
    assert text.text.startswith("[result_2: text of 48,889 characters, 5,000 lines.")
    assert row.text == "[rows 1999 to 1999 of 2,000]\ncity,rain\nc1999,999.5"
    assert line.text == "[lines 7 to 7 of 5,000]\nline 7"
    said = "no large result 'result_9'. Did you mean 'result_2'? There are: result_1, result_2"
    assert (wrong.status, wrong.text) == ("error", said)
    assert [sorted(names) for names in bound(model)[:2]] == [
        ["lines", "weather__rain"],
        ["lines", "read_result", "weather__rain"],
    ]


async def test_relevant_tools_are_bound_and_others_searchable(host, weather):
    model = ScriptedModel(["done"])
    await create_agent(model, weather, middleware=[ToolSearchMiddleware()]).ainvoke(asked())
    assert bound(model) == [["weather__rain"]], "few tools are all bound without a search"
    schema = {"type": "object", "properties": {"currency": {"type": "string"}}}
    tools = [Tool(name="convert", description="Converts money.", input_schema=schema)]
    tools += [Tool(name=f"register_{n}", description="Reads a device.", input_schema=schema) for n in range(90)]
    await host.connect(serving_tools(*tools), name="office")
    script = [[("search_tools", {"query": "money"})], [("office:convert", {"currency": "euro"})], "done"]
    model = ScriptedModel(script)
    search = ToolSearchMiddleware(pinned=["office:register_7"])
    state = await create_agent(model, langchain_tools(*host.find()), middleware=[search]).ainvoke(
        asked("How much does it rain?")
    )
    first = {"search_tools", "weather__rain", "office__register_7"}
    assert list(map(set, bound(model))) == [first, first | {"office__convert"}, first | {"office__convert"}]
    assert [status for status, _ in answers(state)] == ["success", "success"]


async def test_a_budget_ends_the_run_with_what_it_knows(weather):
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    turn = AIMessage("", tool_calls=[{"name": "weather__rain", "args": {}, "id": "a"}], usage_metadata=usage)
    model = ScriptedModel([turn], repeat_last=True)
    state = await create_agent(model, weather, middleware=[BudgetMiddleware(max_tokens=40)]).ainvoke(asked())
    stopped = "Stopped after 30 of 40 tokens, before the work was done. Known so far:\n\n- weather:rain"
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    assert last.text.startswith(stopped)
    assert len(model.seen) == 2
    assert answers(state)[-1] == ("error", "not called: the run ends after 30 of 40 tokens")


async def test_skills_are_told_and_read(host):
    await host.connect(SkillServer("refunds").server(), name="acme")
    model = ScriptedModel([[("load_skill", {"skill": "acme:refunds"})], "done"])
    agent = create_agent(model, [], system_prompt="Be brief.", middleware=[SkillsMiddleware(host)])
    state = await agent.ainvoke(asked())
    system = model.seen[0].messages[0].text
    assert system.startswith("Be brief.\n\nSkills are instructions")
    assert "- acme:refunds: About refunds" in system
    [(_, skill)] = answers(state)
    assert skill.startswith("Do it with care.")


async def test_images_are_sent_where_the_model_reads_them(host, openai):
    async def look(name: str, arguments: Any) -> CallToolResult:
        data = base64.b64encode(png(2, 2)).decode()
        return CallToolResult(content=[ImageContent(data=data, mime_type="image/png")])

    server = serving_tools(Tool(name="look", input_schema={"type": "object"}), handler=look)
    camera = await host.connect(server, name="camera")
    await camera.listing("tools")
    turns = (Turn(calls=[("camera__look", {})]), Turn(calls=[("camera__look", '{"message": "al')]), Turn("A square."))
    profile = {"image_inputs": True, "image_tool_message": True}
    fake, model = await openai(*turns, strict=True, model="local", profile=profile)
    tools = langchain_tools(camera, images=True)
    state = await create_agent(model, tools, middleware=[ConversationMiddleware()]).ainvoke(asked())
    assert fake.refused == []
    assert [message["role"] for message in fake.requests[1]["messages"]] == ["user", "assistant", "tool", "user"]
    assert state["messages"][2].content[0]["type"] == "image"


class Planner:
    """Approves a = 1, denies a = 2, makes 30 of 3; keeps what it is asked."""

    def __init__(self) -> None:
        self.plans: list[list[bool]] = []
        self.single: list[Any] = []

    async def __call__(self, request: Request) -> Decision:
        self.single.append(request.arguments["a"])
        return Decision.deny("alone")

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        self.plans.append([call.decision is None for call in calls])
        decisions = {1: Decision.approve(), 2: Decision.deny("not that"), 3: Decision.approve({"a": 30, "b": 0})}
        return {at: decisions[call.request.arguments["a"]] for at, call in enumerate(calls) if call.decision is None}


async def test_calls_of_a_turn_are_one_plan_that_ends_with_it(host):
    await host.connect(load("math_server").server, name="math")
    host.consent.policy = "ask"
    host.consent.add(Rule("deny", "math:add", {"a": 4}))
    host.consent.approver = planner = Planner()
    turn: list[Any] = [("math__add", {"a": a, "b": 0}) for a in (1, 2, 3, 4)]
    model = ScriptedModel([[*turn, ("math__add", {"a": "one"})], turn[:1], "Done."])
    tools = langchain_tools(*host.find())
    state = await create_agent(model, tools, middleware=[PlanMiddleware(host, tools)]).ainvoke(asked())
    assert [text.partition("\n")[0].partition(" `from")[0] for _, text in answers(state)] == [
        "1",
        "math:add was not called; denied by the user: not that.",
        "30",
        "math:add was not called; denied by rule `deny math:add a:=4`.",
        "missing: b (integer or number)",
        "math:add was not called; denied by the user: alone.",
    ]
    assert planner.plans == [[True, True, True, False]]
    assert planner.single == [1], "the same call in the next turn is asked about again"
    assert [record.decision for record in host.consent.audit.records] == ["approve", "deny", "edit", "deny", "deny"]
