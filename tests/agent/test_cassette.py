"""Chat models that are recorded on a cassette, and replayed from it without being asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from mcp_types import SamplingMessage, TextContent

from mcp_magic.agent.calls import take_turn
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.models import make_model
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import open_threads
from mcp_magic.ask.sampling import SamplingRequest
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import CassetteError, ModelError
from tests.support.agents import asked
from tests.support.cassettes import lines
from tests.support.fake_openai import KEY, Refusal, Turn

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host


@pytest.fixture
def tape(tmp_path):
    return tmp_path / "a.jsonl"


async def run(host: Host, model: Any, request: str = "What do an apple and a pear cost?") -> list[Any]:
    state = await build_graph(make_model(model), host).ainvoke(asked(request))
    return [(m.type, m.text, getattr(m, "tool_calls", None)) for m in state["messages"]]


@pytest.mark.lowest
async def test_a_run_is_recorded_and_played_without_the_model(host, tape):
    model = ScriptedModel([[("shop:price", {"item": "apple"}), ("shop:price", {"item": "pear"})], "It is done."])
    with deck.holding(tape, "record"):
        seen = await run(host, model)
        async with open_threads(None) as opened:
            assert opened.where == "memory", "while a cassette is in"
    assert (seen[-1][1], len(model.seen)) == ("It is done.", 2)
    first, second = (line for line in lines(tape) if "digest" in line)
    assert [message["role"] for message in first["messages"]] == ["system", "human"]
    assert {tool["name"] for tool in first["tools"]} == {"shop__price", "shop__buy", "shop__wait", "shop__fail"}
    assert (second["after"], second["tools"]) == ([1, 2], 1), "messages and tools are kept once"
    assert [message["role"] for message in second["messages"]] == ["ai", "tool", "tool"]
    assert [call["id"] for call in second["messages"][0]["calls"]] == ["call 1", "call 2"]
    chunks = [line["chunk"]["content"] for line in lines(tape) if line.get("turn") == 2 and "chunk" in line]
    assert chunks == ["It ", "is ", "done.", ""]
    nobody = ScriptedModel([])
    with deck.holding(tape, "replay"):
        assert await run(host, nobody) == seen
    assert nobody.seen == []
    assert deck.cassette is None


async def turn_of(model: Any, text: str) -> AIMessage:
    """Return a turn of a model as the agent has it."""
    return await take_turn(make_model(model), [HumanMessage(text)])


async def texts(tape: Path, mode: str, turns: list[Any], *requests: str) -> list[str]:
    """Return what a model says to requests while the cassette is in."""
    with deck.holding(tape, mode):
        model = ScriptedModel(turns)
        return [(await turn_of(model, request)).text for request in requests]


async def test_missing_turns_are_added_and_equal_ones_keep_order(tape, tmp_path):
    assert await texts(tape, "record", ["one"], "1") == ["one"]
    assert await texts(tape, "auto", ["two"], "1", "2") == ["one", "two"]
    assert await texts(tape, "replay", [], "2", "1", "2") == ["two", "one", "two"]
    other = tmp_path / "b.jsonl"
    assert await texts(other, "record", ["first", "second"], "again", "again") == ["first", "second"]
    assert await texts(other, "replay", [], "again", "again", "again") == ["first", "second", "second"]


async def test_an_unstreamed_turn_is_replayed_unstreamed(tape):
    whole = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "x"}])
    with deck.holding(tape, "record"):
        await turn_of(FakeMessagesListChatModel(responses=[whole]), "go")
    assert ["answer" in line for line in lines(tape) if line.get("turn")] == [False, True, False]
    with deck.holding(tape, "replay"):
        answer = await turn_of(FakeMessagesListChatModel(responses=[]), "go")
    assert answer.tool_calls == whole.tool_calls


async def test_the_offline_model_is_recorded_like_any_other(host, tape):
    with deck.holding(tape, "record"):
        seen = await run(host, "offline", "price of an apple")
    with deck.holding(tape, "replay"):
        assert await run(host, "offline", "price of an apple") == seen
        with pytest.raises(CassetteError) as failed:
            await run(host, "offline", "price of a pear")
    assert str(failed.value) == (
        f'offline: a turn after "price of a pear" is not in the cassette {tape}; the nearest differs: '
        'messages[1].content is "price of a pear" here, "price of an apple" there.\n'
        "  `%mcp record FILE --mode auto` adds what is missing."
    )


async def test_agent_fails_when_cassette_lacks_the_call(host, tape):
    with deck.holding(tape, "record"):
        await run(host, ScriptedModel([[("shop:price", {"item": "apple"})], "It is 1.50."]))
    head = [line for line in lines(tape) if "session" not in line or "server" in line]
    tape.write_text("\n".join(json.dumps(line) for line in head) + "\n", "utf-8")  # the server's answers are gone
    with deck.holding(tape, "record"):
        await host.reconnect("shop")
        await run(host, ScriptedModel([[("shop:price", {"item": "apple"})], "It is 1.50."]))
    text = tape.read_text("utf-8").replace('"arguments": {"item": "apple"}', '"arguments": {"item": "plum"}')
    tape.write_text(text, "utf-8")
    with deck.holding(tape, "replay", in_process="replay"):
        await host.reconnect("shop")
        with pytest.raises(CassetteError, match=r'arguments\.item is "apple" here, "plum" there'):
            await run(host, ScriptedModel([]))


async def test_model_made_before_the_cassette_is_recorded(tape):
    setting = ScriptedModel(["one", "two"])
    sampler = ModelSampler(lambda: setting)
    asked = SamplingRequest("s", (SamplingMessage(role="user", content=TextContent(text="1")),), 100)
    assert (await sampler(asked)).content == (TextContent(text="one"),)
    with deck.holding(tape, "record"):
        assert (await sampler(asked)).content == (TextContent(text="two"),)
    assert sum("digest" in line for line in lines(tape)) == 1


async def test_a_secret_that_is_spread_over_chunks_is_not_written(tape, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "spread-secret-4711 over words")
    secret = "spread-secret-4711 over words"
    calls = AIMessage(f"the key is {secret} .", tool_calls=[{"name": "use", "args": {"text": secret}, "id": "x"}])
    with deck.holding(tape, "record"):
        model = ScriptedModel([calls])
        assert secret in (await turn_of(model, f"say {secret}")).text
    assert "4711" not in tape.read_text("utf-8")
    with deck.holding(tape, "replay"):
        model = ScriptedModel([])
        answer = await turn_of(model, f"say {secret}")
        assert answer.text == "the key is *** ."
        assert answer.tool_calls[0]["args"] == {"text": "***"}


async def test_a_provider_is_recorded_and_not_reached_on_replay(host, tape, openai, monkeypatch):
    fake, model = await openai(Turn("I look.", [("shop__price", {"item": "apple"})]), Turn("It is **1.50**."))
    with deck.holding(tape, "record"):
        seen = await run(host, model)
    assert len(fake.requests) == 2
    assert KEY not in tape.read_text("utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with deck.holding(tape, "replay"):
        assert await run(host, model.model_copy(update={"openai_api_base": "http://127.0.0.1:9/v1"})) == seen
        assert await run(host, "openai:gpt-5") == seen, "without a key, by its name"
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
            make_model("openai:gpt-6")
    assert len(fake.requests) == 2


async def test_a_refusal_is_played_as_it_was(host, tape, openai):
    _, model = await openai(Refusal(429, "Rate limit reached"))
    said = []
    for mode in ("record", "replay"):
        with deck.holding(tape, mode), pytest.raises(ModelError) as failed:
            await run(host, model)
        said.append(str(failed.value))
    assert said[0] == said[1]
