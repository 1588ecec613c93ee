"""Parts of the agent as middleware of LangChain's `create_agent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool

from mcp_magic import (
    BudgetMiddleware,
    Host,
    LargeResultsMiddleware,
    ScriptedModel,
    SkillsMiddleware,
    ToolSearchMiddleware,
)
from mcp_magic.langchain.content import result_of
from mcp_magic.langchain.tools import langchain_tools
from tests.support.lowlevel import serving_tools
from tests.support.skills_server import SkillServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CITIES = [{"city": f"c{number}", "rain": number / 2} for number in range(2000)]


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    server = MCPServer("weather", log_level="ERROR")

    @server.tool()
    def rain() -> list[dict[str, Any]]:
        """Tells how much it rains."""
        return CITIES

    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(server, name="weather")
        yield host


def bound(model: ScriptedModel) -> list[set[str]]:
    return [{each["function"]["name"] for each in seen.tools} for seen in model.seen]


def asked(text: str = "go") -> dict[str, Any]:
    return {"messages": [("user", text)]}


async def test_large_results_of_any_tool_are_read_in_parts(host: Host) -> None:
    @tool
    def lines() -> str:
        """Returns many lines."""
        return "\n".join(f"line {number}" for number in range(5000))

    script = [
        [("weather:rain", {}), ("lines", {})],
        [("read_result", {"handle": "result_1", "rows": "1999"}), ("read_result", {"handle": "result_2", "rows": "7"})],
        [("read_result", {"handle": "result_9"})],
        "done",
    ]
    model = ScriptedModel(script)
    agent = create_agent(model, [*langchain_tools(*host.find()), lines], middleware=[LargeResultsMiddleware()])
    state = await agent.ainvoke(asked())
    rain, text, row, line, wrong = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert rain.text.startswith("[result_1: table of 2,000 rows x 2 columns (city, rain).")
    assert len(result_of(rain).df) == 2000
    assert text.text.startswith("[result_2: text of 48,889 characters, 5,000 lines.")
    assert (row.text, line.text) == (
        "[rows 1999 to 1999 of 2,000]\ncity,rain\nc1999,999.5",
        "[lines 7 to 7 of 5,000]\nline 7",
    )
    assert (wrong.status, wrong.text) == (
        "error",
        "no large result 'result_9'. Did you mean 'result_2'? There are: result_1, result_2",
    )
    assert bound(model)[:2] == [{"weather__rain", "lines"}, {"weather__rain", "lines", "read_result"}]


async def test_relevant_tools_are_bound_and_others_are_searchable(host: Host) -> None:
    schema = {"type": "object", "properties": {"currency": {"type": "string"}}}
    tools = [Tool(name="convert", description="Converts money.", input_schema=schema)]
    tools += [Tool(name=f"register_{n}", description="Reads a device.", input_schema=schema) for n in range(90)]
    await host.connect(serving_tools(*tools), name="office")
    script = [[("search_tools", {"query": "money"})], [("office:convert", {"currency": "euro"})], "done"]
    model = ScriptedModel(script)
    search = ToolSearchMiddleware(pinned=["office:register_7"])
    agent = create_agent(model, langchain_tools(*host.find()), middleware=[search])
    state = await agent.ainvoke(asked("How much does it rain?"))
    first = {"search_tools", "weather__rain", "office__register_7"}
    assert bound(model) == [first, first | {"office__convert"}, first | {"office__convert"}]
    assert [m.status for m in state["messages"] if isinstance(m, ToolMessage)] == ["success", "success"]


async def test_few_tools_are_all_bound_without_a_search(host: Host) -> None:
    model = ScriptedModel(["done"])
    await create_agent(model, langchain_tools(*host.find()), middleware=[ToolSearchMiddleware()]).ainvoke(asked())
    assert bound(model) == [{"weather__rain"}]


async def test_a_budget_ends_the_run_with_what_is_known(host: Host) -> None:
    calls = [{"name": "weather__rain", "args": {}, "id": "a"}]
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    model = ScriptedModel([AIMessage("", tool_calls=calls, usage_metadata=usage)], repeat_last=True)
    budget = BudgetMiddleware(max_tokens=40)
    agent = create_agent(model, langchain_tools(*host.find()), middleware=[budget])
    state = await agent.ainvoke(asked())
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    assert last.text.startswith(
        "Stopped after 30 of 40 tokens, before the work was done. Known so far:\n\n- weather:rain"
    )
    assert len(model.seen) == 2
    refused = state["messages"][-2]
    assert (refused.status, refused.text) == ("error", "not called: the run ends after 30 of 40 tokens")


async def test_skills_are_told_and_read(host: Host) -> None:
    await host.connect(SkillServer("refunds").server(), name="acme")
    model = ScriptedModel([[("load_skill", {"skill": "acme:refunds"})], "done"])
    agent = create_agent(model, [], system_prompt="Be brief.", middleware=[SkillsMiddleware(host)])
    state = await agent.ainvoke(asked())
    system = model.seen[0].messages[0].text
    assert system.startswith("Be brief.\n\nSkills are instructions")
    assert "- acme:refunds: About refunds" in system
    [skill] = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert skill.text.startswith("Do it with care.")
