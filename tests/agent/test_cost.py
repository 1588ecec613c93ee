"""What runs cost: tokens and dollars, and the bounds that end a run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from mcp_magic.agent.cost import Bounds, cost_of, price_of
from mcp_magic.agent.graph import LAST_TURN, build_graph
from mcp_magic.agent.offline import OfflineModel
from mcp_magic.errors import ModelError
from tests.support.agents import Agent, answers, play


def turn(read: int, written: int = 0, *, calls: bool = True, model: str = "gpt-5", number: int = 1) -> AIMessage:
    """Return a turn that buys an apple, as OpenAI's models report it."""
    call: Any = {"name": "shop__buy", "args": {"item": "apple", "count": number}, "id": f"c{number}"}
    usage: Any = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    about = {"model_name": model, "model_provider": "openai"}
    return AIMessage("", tool_calls=[call] if calls else [], usage_metadata=usage, response_metadata=about)


def looping(*tokens: int) -> list[AIMessage]:
    return [turn(count, number=number) for number, count in enumerate(tokens, 1)]


def test_a_price_counts_what_was_read_from_the_cache():
    plain, cached = price_of(turn(1_000_000)) or 0, turn(1_000_000)
    assert cached.usage_metadata is not None
    cached.usage_metadata["input_token_details"] = {"cache_read": 1_000_000}
    assert 0 < (price_of(cached) or 0) < plain / 2
    for name in ("gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-5", "google_genai:gemini-2.5-pro"):
        assert price_of(turn(1000, 10, model=""), name)
    assert price_of(turn(1000, 10, model="offline")) == 0
    assert price_of(turn(1000, 10, model="a-model-of-mine")) is None
    assert price_of(AIMessage("no tokens")) is None
    assert cost_of([turn(1000, 10), turn(1000, 10, model="a-model-of-mine")]) is None
    assert cost_of([]) is None


async def test_the_usage_of_a_run_has_its_cost(host):
    run = await Agent(host, turn(1000, 100), turn(2000, 10, calls=False)).run()
    assert run.usage["total_tokens"] == 3110
    assert run.usage["cost"] == pytest.approx(price_of(turn(3000, 110)))
    assert "cost" not in (await Agent(host, "hello").run()).usage


async def test_a_limit_of_tokens_ends_the_run_and_keeps_the_thread(host, shop):
    agent = Agent(host, *looping(100, 200, 300, 400), max_tokens=850)
    run = await agent.run("buy")
    assert run.stopped == "max_tokens"
    assert run.usage["total_tokens"] == 600  # a further turn takes 300 at least
    assert len(shop.called) == 2
    assert run.answer.startswith("Stopped after 600 of 850 tokens, before the work was done. Known so far:")
    assert "Stopped after 600 of 850 tokens" in str(run.transcript)
    again = Agent(host, "Fine.", max_tokens=1000, checkpointer=agent.saver)
    assert (await again.run("and now?")).answer == "Fine."


async def test_the_last_turn_that_fits_is_told_to_answer(host):
    played = await play(host, turn(100), turn(150, number=2), turn(200, calls=False), max_tokens=500)
    assert [LAST_TURN in seen.messages[0].text for seen in played.model.seen] == [False, False, True]
    assert played.messages[-1].tool_calls == []  # type: ignore[attr-defined]
    answer = turn(9000, calls=False).model_copy(update={"content": "It is 3."})
    assert (await play(host, answer, max_tokens=100)).answer == "It is 3.", "also above the bound"


async def test_a_run_ends_before_the_turn_that_exceeds_its_cost(host, shop):
    price = price_of(turn(10_000))
    assert price is not None
    run = await Agent(host, *looping(*[10_000] * 5), max_cost=3.5 * price).run("buy")
    assert run.stopped == "max_cost"
    assert run.usage["cost"] == pytest.approx(3 * price)
    assert run.answer.startswith("Stopped after $0.0375 of $0.04375, before the work was done.")
    assert answers(run)[-1][1] == "not called: the run ends after $0.0375 of $0.04375"
    assert len(shop.called) == 2


async def test_tokens_that_a_model_does_not_report_are_estimated(host):
    call: Any = {"name": "shop__buy", "args": {"item": "apple"}, "id": "c1"}
    played = await play(host, AIMessage("x" * 400, tool_calls=[call]), max_tokens=150)
    assert played.answer.startswith("Stopped after 100 of 150 tokens")


def test_a_bound_in_dollars_needs_prices(host):
    with pytest.raises(ModelError) as error:
        Bounds(dollars=1, model="my-model").check()
    assert str(error.value) == "the prices of my-model are not known; bound the tokens instead: `--max-tokens 50000`"
    Bounds(dollars=1, model="openai:gpt-5").check()
    build_graph(OfflineModel(), host, max_cost=0.1)
