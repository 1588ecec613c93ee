"""What runs cost: tokens and dollars, and the bounds that end a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mcp_magic.agent.cost import Bounds, cost_of, price_of
from mcp_magic.agent.graph import LAST_TURN, build_graph, run_agent
from mcp_magic.agent.offline import OfflineModel
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import memory_threads
from mcp_magic.agent.tools import tool_costs
from mcp_magic.errors import ModelError

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from tests.support.agents import Shop


def turn(read: int, written: int, *, calls: bool = True, model: str = "gpt-5", number: int = 1) -> AIMessage:
    """Return a turn that buys an apple, as OpenAI's models report it."""
    call: Any = {"name": "shop__buy", "args": {"item": "apple", "count": number}, "id": f"c{number}"}
    usage: Any = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    about = {"model_name": model, "model_provider": "openai"}
    return AIMessage("", tool_calls=[call] if calls else [], usage_metadata=usage, response_metadata=about)


def looping(*tokens: int) -> ScriptedModel:
    return ScriptedModel([turn(each, 0, number=number) for number, each in enumerate(tokens, 1)])


# Money


def test_the_price_of_a_turn_counts_what_was_read_from_the_cache() -> None:
    plain = price_of(turn(1_000_000, 0))
    cached = turn(1_000_000, 0)
    assert cached.usage_metadata is not None
    cached.usage_metadata["input_token_details"] = {"cache_read": 1_000_000}
    assert plain is not None
    assert plain > 0
    assert 0 < (price_of(cached) or 0) < plain / 2


@pytest.mark.parametrize(
    "name", ["gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-5", "google_genai:gemini-2.5-pro"]
)
def test_a_model_is_known_by_the_names_that_langchain_takes(name: str) -> None:
    assert price_of(turn(1000, 10, model=""), name)


def test_what_costs_nothing_and_what_is_not_known() -> None:
    assert price_of(turn(1000, 10, model="offline")) == 0
    assert price_of(turn(1000, 10, model="a-model-of-mine")) is None
    assert price_of(AIMessage("no tokens")) is None
    assert cost_of([turn(1000, 10), turn(1000, 10, model="a-model-of-mine")]) is None
    assert cost_of([]) is None


async def test_the_usage_of_a_run_has_its_cost(host: Host) -> None:
    model = ScriptedModel([turn(1000, 100), turn(2000, 10, calls=False)])
    graph = build_graph(model, host, checkpointer=memory_threads())
    run = await run_agent(graph, host, "go", thread="money")
    assert run.usage["total_tokens"] == 3110
    assert run.usage["cost"] == pytest.approx(price_of(turn(3000, 110)))
    assert "cost" not in (await run_agent(graph_of("hello", host), host, "go", thread="none")).usage


def graph_of(text: str, host: Host) -> Any:
    return build_graph(ScriptedModel([text]), host, checkpointer=memory_threads())


# Bounds


async def test_token_limit_ends_the_run_and_keeps_the_thread(host: Host, shop: Shop) -> None:
    model = looping(100, 200, 300, 400)
    graph = build_graph(model, host, max_tokens=850, checkpointer=memory_threads())
    run = await run_agent(graph, host, "buy", thread="bound")
    assert run.stopped == "max_tokens"
    assert run.usage["total_tokens"] == 600  # a further turn takes 300 at least
    assert len(shop.called) == 2
    assert run.answer.startswith("Stopped after 600 of 850 tokens, before the work was done. Known so far:")
    assert "Stopped after 600 of 850 tokens" in str(run.transcript)
    again = build_graph(ScriptedModel(["Fine."]), host, max_tokens=1000, checkpointer=memory_threads())
    assert (await run_agent(again, host, "and now?", thread="bound")).answer == "Fine."


async def test_the_last_turn_that_fits_is_told_to_answer(host: Host) -> None:
    model = ScriptedModel([turn(100, 0), turn(150, 0, number=2), turn(200, 0, calls=False)])
    state = await build_graph(model, host, max_tokens=500).ainvoke({"messages": [HumanMessage("go")]})
    told = [LAST_TURN in seen.messages[0].text for seen in model.seen]
    assert told == [False, False, True]
    assert state["messages"][-1].tool_calls == []


async def test_a_run_ends_before_the_turn_that_would_exceed_its_cost(host: Host, shop: Shop) -> None:
    price = price_of(turn(10_000, 0))
    assert price is not None
    model = looping(*[10_000] * 5)
    graph = build_graph(model, host, max_cost=3.5 * price, checkpointer=memory_threads())
    run = await run_agent(graph, host, "buy", thread="dollars")
    assert run.stopped == "max_cost"
    assert run.usage["cost"] == pytest.approx(3 * price)
    assert run.answer.startswith("Stopped after $0.0375 of $0.04375, before the work was done.")
    refused = [m.text for m in run.messages if isinstance(m, ToolMessage)][-1]
    assert refused == "not called: the run ends after $0.0375 of $0.04375"
    assert len(shop.called) == 2


async def test_tokens_that_a_model_does_not_report_are_estimated(host: Host) -> None:
    call: Any = {"name": "shop__buy", "args": {"item": "apple"}, "id": "c1"}
    model = ScriptedModel([AIMessage("x" * 400, tool_calls=[call])])
    state = await build_graph(model, host, max_tokens=150).ainvoke({"messages": [HumanMessage("go")]})
    assert state["messages"][-1].text.startswith("Stopped after 100 of 150 tokens")


async def test_an_answer_above_the_bound_is_an_answer(host: Host) -> None:
    model = ScriptedModel([turn(9000, 0, calls=False).model_copy(update={"content": "It is 3."})])
    state = await build_graph(model, host, max_tokens=100).ainvoke({"messages": [HumanMessage("go")]})
    assert state["messages"][-1].text == "It is 3."


def test_a_bound_in_dollars_needs_known_prices(host: Host) -> None:
    with pytest.raises(ModelError) as error:
        Bounds(dollars=1, model="my-model").check()
    assert str(error.value) == ("the prices of my-model are not known; bound the tokens instead: `--max-tokens 50000`")
    Bounds(dollars=1, model="openai:gpt-5").check()
    build_graph(OfflineModel(), host, max_cost=0.1)


# What tools cost


async def test_servers_and_tools_are_ranked_by_token_cost(host: Host) -> None:
    from mcp.server.mcpserver import MCPServer

    other = MCPServer("wordy", instructions="Be careful. " * 100, log_level="ERROR")

    @other.tool()
    def small() -> str:
        """Tells."""
        return ""

    await host.connect(other, name="wordy")
    listing = await tool_costs(host)
    rows = list(listing.rows)
    assert [(row["name"], row["what"]) for row in rows[:3]] == [
        ("wordy", "1 tool"),
        ("shop", "4 tools"),
        ("wordy", "instructions"),
    ]
    assert rows[0]["tokens"] == rows[2]["tokens"] + rows[-1]["tokens"]
    assert [row["tokens"] for row in rows[2:]] == sorted((row["tokens"] for row in rows[2:]), reverse=True)
    assert rows[-1]["name"] == "wordy:small"
    assert "tokens at each turn of the model" in str(listing)
    assert "only those that fit" in str(await tool_costs(host, search_above=4))
