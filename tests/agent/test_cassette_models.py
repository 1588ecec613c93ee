"""Chat models that are recorded on a cassette, and replayed from it without being asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_openai import ChatOpenAI
from mcp_types import SamplingMessage, TextContent

from mcp_magic.agent.cassette import recorded
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.models import make_model
from mcp_magic.agent.offline import OfflineModel
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import open_threads
from mcp_magic.ask.sampling import SamplingRequest
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import CassetteError, ModelError
from tests.agent.fake_openai import KEY, FakeOpenAI, Refusal, Turn

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from tests.agent.conftest import Shop

PRICES = [("shop:price", {"item": "apple"}), ("shop:price", {"item": "pear"})]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def told(state: dict[str, Any]) -> list[Any]:
    return [(m.type, m.text, getattr(m, "tool_calls", None)) for m in state["messages"]]


async def run(host: Host, model: Any, request: str = "What do an apple and a pear cost?") -> list[Any]:
    return told(await build_graph(make_model(model), host).ainvoke({"messages": [HumanMessage(request)]}))


def lines(tape: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tape.read_text("utf-8").splitlines()]


@pytest.mark.lowest
async def test_a_run_of_an_agent_is_played_without_asking_the_model(host: Host, tape: Path) -> None:
    model = ScriptedModel([PRICES, "They cost **3.50** together."])
    with deck.holding(tape, "record"):
        seen = await run(host, model)
    assert seen[-1][1] == "They cost **3.50** together."
    assert len(model.seen) == 2

    nobody = ScriptedModel([])
    with deck.holding(tape, "replay"):
        assert await run(host, nobody) == seen
    assert nobody.seen == []


async def test_the_file_has_each_message_and_each_tool_once_and_the_chunks_as_they_came(host: Host, tape: Path) -> None:
    with deck.holding(tape, "record"):
        await run(host, ScriptedModel([PRICES, "It is done."]))

    first, second = (line for line in lines(tape) if "digest" in line)
    assert [message["role"] for message in first["messages"]] == ["system", "human"]
    assert {tool["name"] for tool in first["tools"]} == {"shop__price", "shop__buy", "shop__wait", "shop__fail"}
    assert second["after"] == [1, 2]
    assert second["tools"] == 1
    assert [message["role"] for message in second["messages"]] == ["ai", "tool", "tool"]
    assert [call["id"] for call in second["messages"][0]["calls"]] == ["call 1", "call 2"]
    chunks = [line["chunk"]["content"] for line in lines(tape) if line.get("turn") == 2 and "chunk" in line]
    assert chunks == ["It ", "is ", "done.", ""]


async def test_what_streamed_streams_again_and_can_be_had_whole(tape: Path) -> None:
    with deck.holding(tape, "record"):
        model = make_model(ScriptedModel(["one two three"]))
        first = [chunk.text async for chunk in model.astream("count")]

    with deck.holding(tape, "replay"):
        model = make_model(ScriptedModel([]))
        assert [chunk.text async for chunk in model.astream("count")] == first
        assert [chunk.text for chunk in model.stream("count")] == first
        assert (await model.ainvoke("count")).text == model.invoke("count").text == "one two three"


async def test_what_was_had_whole_can_be_streamed(tape: Path) -> None:
    answer = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "x"}])
    with deck.holding(tape, "record"):
        whole = await make_model(ScriptedModel([answer])).ainvoke("go")

    with deck.holding(tape, "replay"):
        chunks = [chunk async for chunk in make_model(ScriptedModel([])).astream("go")]
        assert isinstance(chunks[0], AIMessageChunk)
        assert chunks[0].tool_calls == whole.tool_calls


async def test_a_recorded_model_is_still_what_it_is(tape: Path) -> None:
    with deck.holding(tape, "record"):
        model = make_model("offline")
        assert isinstance(model, OfflineModel)
        assert recorded(model) is model
        assert type(model).__name__ == "OfflineModel"
        chat = make_model(ChatOpenAI(model="gpt-5", api_key=KEY))
        assert chat.model_copy(update={"max_tokens": 5}).max_tokens == 5
    assert type(make_model("offline")) is OfflineModel


async def test_the_offline_model_is_recorded_like_any_other(host: Host, tape: Path) -> None:
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


async def test_an_agent_fails_where_the_cassette_has_not_the_call_that_its_model_wants(
    host: Host, shop: Shop, tape: Path
) -> None:
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


async def test_the_mode_auto_asks_for_the_turns_that_are_missing(tape: Path) -> None:
    with deck.holding(tape, "record"):
        await make_model(ScriptedModel(["one"])).ainvoke("1")
    with deck.holding(tape, "auto"):
        model = make_model(ScriptedModel(["two"]))
        assert [(await model.ainvoke(text)).text for text in ("1", "2")] == ["one", "two"]
    with deck.holding(tape, "replay"):
        model = make_model(ScriptedModel([]))
        assert [(await model.ainvoke(text)).text for text in ("2", "1", "2")] == ["two", "one", "two"]


async def test_turns_of_one_request_are_played_in_their_order(tape: Path) -> None:
    with deck.holding(tape, "record"):
        model = make_model(ScriptedModel(["first", "second"]))
        assert [(await model.ainvoke("again")).text for _ in range(2)] == ["first", "second"]
    with deck.holding(tape, "replay"):
        model = make_model(ScriptedModel([]))
        assert [(await model.ainvoke("again")).text for _ in range(3)] == ["first", "second", "second"]


async def test_a_model_that_was_made_before_the_cassette_came_in_is_recorded_all_the_same(tape: Path) -> None:
    setting = ScriptedModel(["one", "two"])
    sampler = ModelSampler(lambda: setting)
    asked = SamplingRequest("s", (SamplingMessage(role="user", content=TextContent(text="1")),), 100)
    assert (await sampler(asked)).content == (TextContent(text="one"),)
    with deck.holding(tape, "record"):
        assert (await sampler(asked)).content == (TextContent(text="two"),)
    assert sum("digest" in line for line in lines(tape)) == 1


async def test_a_secret_that_is_spread_over_chunks_is_not_written(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "spread-secret-4711 over words")
    secret = "spread-secret-4711 over words"
    calls = AIMessage(f"the key is {secret} .", tool_calls=[{"name": "use", "args": {"text": secret}, "id": "x"}])
    with deck.holding(tape, "record"):
        model = make_model(ScriptedModel([calls]))
        assert secret in "".join([chunk.text async for chunk in model.astream(f"say {secret}")])

    assert "4711" not in tape.read_text("utf-8")
    with deck.holding(tape, "replay"):
        model = make_model(ScriptedModel([]))
        answer = await model.ainvoke(f"say {secret}")
        assert answer.text == "the key is *** ."
        assert answer.tool_calls[0]["args"] == {"text": "***"}


async def openai(fake: FakeOpenAI, host: Host, tape: Path, mode: str, *, url: str = "") -> list[Any]:
    async with httpx.AsyncClient() as client:
        model = ChatOpenAI(
            model="gpt-5",
            api_key=KEY,
            max_retries=0,
            stream_usage=True,
            base_url=url or fake.url,
            http_async_client=client,
        )
        with deck.holding(tape, mode):
            return await run(host, model)


async def test_a_provider_is_recorded_and_not_reached_when_it_is_replayed(host: Host, tape: Path) -> None:
    fake = FakeOpenAI(Turn("I look.", [("shop__price", {"item": "apple"})]), Turn("It is **1.50**."))
    async with fake.running():
        seen = await openai(fake, host, tape, "record")
    assert len(fake.requests) == 2
    assert KEY not in tape.read_text("utf-8")

    assert await openai(fake, host, tape, "replay", url="http://127.0.0.1:9/v1") == seen
    assert len(fake.requests) == 2


async def test_a_provider_without_key_is_replayed_by_its_name(
    host: Host, tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeOpenAI(Turn(calls=[("shop__price", {"item": "apple"})]), Turn("It is **1.50**."))
    async with fake.running():
        seen = await openai(fake, host, tape, "record")

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with deck.holding(tape, "replay"):
        assert await run(host, "openai:gpt-5") == seen
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
            make_model("openai:gpt-6")


async def test_a_refusal_of_the_provider_is_played_as_it_was(host: Host, tape: Path) -> None:
    fake = FakeOpenAI(Refusal(429, "Rate limit reached"))
    async with fake.running():
        with pytest.raises(ModelError) as failed:
            await openai(fake, host, tape, "record")
    with pytest.raises(ModelError) as again:
        await openai(fake, host, tape, "replay", url="http://127.0.0.1:9/v1")
    assert str(again.value) == str(failed.value)


async def test_threads_are_kept_in_memory_while_a_cassette_is_in(tape: Path) -> None:
    with deck.holding(tape, "record"):
        async with open_threads(None) as opened:
            assert opened.where == "memory"
    assert deck.cassette is None
