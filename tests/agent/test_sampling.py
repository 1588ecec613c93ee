"""The configured model answers servers: a real provider package before a fake provider, and `offline`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from mcp_types import (
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)

from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.ask.sampling import Review, SamplingRequest
from mcp_magic.errors import ModelError
from tests.support.fake_openai import KEY, FakeOpenAI, Refusal, Turn, chat
from tests.support.sampling_servers import ADD, PIXEL, said, sampling_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


def asking(text: str = "Hello. How are you? Fine.", **more: Any) -> SamplingRequest:
    return replace(SamplingRequest("writer", (said(text),), 100), **more)


def hinting(*names: str, **priorities: float) -> ModelPreferences:
    return ModelPreferences(hints=[ModelHint(name=name) for name in names], **priorities)


def used_tool() -> tuple[SamplingMessage, ...]:
    use = ToolUseContent(name="add", id="c1", input={"a": 3, "b": 4})
    result = ToolResultContent(tool_use_id="c1", content=[TextContent(text="7")])
    return (
        said("What is 3 plus 4?"),
        SamplingMessage(role="assistant", content=[use]),
        SamplingMessage(role="user", content=[result]),
    )


async def test_limits_go_to_the_provider_and_its_answer_comes_back(client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("I am fi", finish="length"))
    async with fake.running():
        model = chat(fake, client, model="gpt-4o")
        request = asking(max_tokens=7, temperature=0.2, stop_sequences=("END",), system_prompt="Be brief.")
        reply = await ModelSampler(lambda: model)(request)
    [body] = fake.requests
    assert body["max_completion_tokens"] == 7
    assert body["temperature"] == 0.2
    assert body["stop"] == ["END"]
    assert [message["content"] for message in body["messages"]] == ["Be brief.", "Hello. How are you? Fine."]
    assert (reply.text, reply.model, reply.stop_reason) == ("I am fi", "gpt-4o-2026-01-01", "maxTokens")
    assert reply.notes == ()
    assert model.max_tokens is None  # the person's own model is as it was


async def test_the_persons_own_limit_stays_one(client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("Hi"))
    async with fake.running():
        await ModelSampler(lambda: chat(fake, client, model="gpt-4o", max_tokens=50))(asking(max_tokens=4000))
    assert fake.requests[0]["max_completion_tokens"] == 50


async def test_a_model_that_reasons_is_spared_what_it_refuses(client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("One. END Two."))
    async with fake.running():
        sampler = ModelSampler(lambda: chat(fake, client, model="gpt-5"))
        request = asking(temperature=0.2, stop_sequences=("END",))
        expected = sampler.expected(request)
        reply = await sampler(request)
    assert not {"stop", "temperature"} & set(fake.requests[0])
    assert (reply.text, reply.stop_reason) == ("One. ", "stopSequence")
    assert expected.model == "gpt-5"
    assert expected.notes == ("the temperature 0.2 is not passed on: gpt-5 takes none",)


async def test_sampling_tool_calls_return_under_the_server_names(client: httpx.AsyncClient) -> None:
    properties = {"filter[id]": {"type": "string"}}
    odd = Tool(name="files/find it", input_schema={"type": "object", "properties": properties})
    fake = FakeOpenAI(Turn(), Turn("Found."))
    async with fake.running():
        sampler = ModelSampler(lambda: chat(fake, client))
        from mcp_magic.agent.sampling import called

        fake.turns[0].calls = [("add", {"a": 1, "b": 2}), (called(odd.name), {"filter_id": "7"})]  # type: ignore[union-attr]
        request = asking(tools=(ADD, odd), tool_choice="required")
        reply = await sampler(request)
        results = [ToolResultContent(tool_use_id=b.id, content=[TextContent(text="x")]) for b in reply.content]  # type: ignore[union-attr]
        turns = (
            SamplingMessage(role="assistant", content=list(reply.content)),
            SamplingMessage(role="user", content=results),
        )
        last = await sampler(replace(request, messages=(*request.messages, *turns), tool_choice="none"))
    assert fake.refused == []
    assert [(b.name, b.input) for b in reply.content] == [("add", {"a": 1, "b": 2}), (odd.name, {"filter[id]": "7"})]  # type: ignore[union-attr]
    assert reply.stop_reason == "toolUse"
    first, second = fake.requests
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "none")
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert (last.text, last.stop_reason) == ("Found.", "endTurn")


async def test_images_go_to_a_model_that_says_it_takes_them(client: httpx.AsyncClient) -> None:
    image = SamplingMessage(role="user", content=ImageContent(data=PIXEL, mime_type="image/png"))
    fake = FakeOpenAI(Turn("A pixel."))
    async with fake.running():
        await ModelSampler(lambda: chat(fake, client))(asking(messages=(image,)))
    [part] = fake.requests[0]["messages"][0]["content"]
    assert part == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    expected = ModelSampler(lambda: "offline").expected(asking(messages=(image,)))
    assert expected.notes == ("1 image is not shown to the model",)


async def test_images_in_results_of_a_server_follow_its_tools(client: httpx.AsyncClient) -> None:
    call = ToolUseContent(name="add", id="c1", input={"a": 1, "b": 2})
    result = ToolResultContent(tool_use_id="c1", content=[ImageContent(data=PIXEL, mime_type="image/jpeg")])
    messages = (
        said("Look."),
        SamplingMessage(role="assistant", content=[call]),
        SamplingMessage(role="user", content=[result]),
    )
    fake = FakeOpenAI(Turn("A pixel."), strict=True)
    async with fake.running():
        await ModelSampler(lambda: chat(fake, client))(asking(messages=messages, tools=(ADD,)))
    assert fake.refused == []
    assert [message["role"] for message in fake.requests[0]["messages"]] == ["user", "assistant", "tool", "user"]
    [_, part] = fake.requests[0]["messages"][3]["content"]
    assert part["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


async def test_a_provider_that_refuses_is_one_line_without_the_key(client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Refusal(429, f"Rate limit reached for {KEY}"))
    async with fake.running():
        with pytest.raises(ModelError) as raised:
            await ModelSampler(lambda: chat(fake, client))(asking())
    assert "the rate limit or the quota is used up" in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("hints", "name", "notes"),
    [
        (("nothing-like-it", "CRIPT"), "scripted", ()),
        (("no-such-model",), "scripted", ("'no-such-model'",)),
        (
            ("huggingface:evil/weights",),
            "scripted",
            ("huggingface:evil/weights') is not used: only the configured model answers",),
        ),
    ],
)
def test_hint_for_another_model_adds_a_note(hints: tuple[str, ...], name: str, notes: tuple[str, ...]) -> None:
    model = ScriptedModel(["Hi"])
    expected = ModelSampler(lambda: model).expected(asking(preferences=hinting(*hints)))
    assert expected.model == name
    said_about_it = [note for note in expected.notes if "prefers" in note]
    assert len(said_about_it) == len(notes)
    assert all(note in said_about_it[0] for note in notes)


def test_what_is_not_done_is_said() -> None:
    model = ScriptedModel(["Hi"])
    request = asking(temperature=1.0, include_context="thisServer", metadata={"user": "me"})
    assert ModelSampler(lambda: model).expected(request).notes == (
        "the limit of 100 tokens is not passed on: scripted takes none",
        "the temperature 1 is not passed on: scripted takes none",
        "no context of servers is added",
        "its metadata are not passed on",
    )


@pytest.mark.parametrize(
    ("setting", "takes"),
    [("offline", True), ("openai:gpt-5", True), (ScriptedModel([]), True), (FakeListChatModel(responses=["x"]), False)],
)
def test_a_model_that_takes_no_tools_is_known(setting: Any, takes: bool) -> None:
    assert ModelSampler(lambda: setting).takes_tools is takes


async def test_sampling_model_without_tool_support_says_so() -> None:
    sampler = ModelSampler(lambda: FakeListChatModel(responses=["x"]))
    with pytest.raises(ModelError) as caught:
        await sampler(asking(tools=(ADD,)))
    said = "FakeListChatModel cannot be given tools (it has no bind_tools); choose a model that can"
    assert str(caught.value) == said


async def test_a_model_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    sampler = ModelSampler(lambda: "openai:gpt-5")
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        sampler.expected(asking())
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        await sampler(asking())


async def test_sampling_calls_with_a_duplicate_id_get_their_own() -> None:
    calls = [{"name": "add", "args": {"a": 1, "b": b}, "id": "call_1"} for b in (1, 2)]
    reply = await ModelSampler(lambda: ScriptedModel([AIMessage("", tool_calls=calls)]))(asking(tools=(ADD,)))
    assert [block.id for block in reply.content] == ["call_1", "call_1_2"]  # type: ignore[union-attr]


async def test_a_tool_that_was_required_and_not_called_is_said() -> None:
    reply = await ModelSampler(lambda: ScriptedModel(["No."]))(asking(tools=(ADD,), tool_choice="required"))
    assert "the model called no tool, which the server required" in reply.notes


async def test_a_model_without_that_choice_is_told_to_call_no_tool() -> None:
    model = ScriptedModel([[("add", {"a": 1, "b": 1})]])
    reply = await ModelSampler(lambda: model)(asking(messages=used_tool(), tools=(ADD,), tool_choice="none"))
    [seen] = model.seen
    assert seen.messages[0].text == "No tool can be called now: answer with what is known."
    assert [tool["function"]["name"] for tool in seen.tools] == ["add"]
    assert reply.stop_reason == "endTurn"
    assert "calls of tools that the server did not offer were left out" in reply.notes


async def test_offline_quotes_where_it_is_given_no_tools() -> None:
    sampler = ModelSampler(lambda: "offline")
    reply = await sampler(asking("Summarise this: Cats sleep. They purr. They eat."))
    cut = await sampler(asking("Cats sleep. They purr.", max_tokens=2))
    done = await sampler(asking(messages=used_tool(), tools=(ADD,), tool_choice="none"))
    assert reply.text == "Cats sleep. They purr. (offline, a model without weights, which quotes)"
    assert (reply.model, reply.stop_reason) == ("offline", "endTurn")
    assert (cut.text, cut.stop_reason) == ("Cats sle", "maxTokens")
    assert done.text.startswith("The tools gave: 7")


async def test_offline_sampling_calls_tools_and_uses_their_results() -> None:
    sampler = ModelSampler(lambda: "offline")
    first = await sampler(asking("What is 3 plus 4?", tools=(ADD,)))
    last = await sampler(asking(messages=used_tool(), tools=(ADD,)))
    [use] = first.content
    assert isinstance(use, ToolUseContent)
    assert (use.name, use.input, first.stop_reason) == ("add", {"a": 3, "b": 4}, "toolUse")
    assert last.text == "`add(a=3, b=4)` gives **7**."


async def test_sampled_text_stays_out_of_the_agent_run(host: Host) -> None:
    class Yes:
        async def request(self, asked: SamplingRequest, expected: Any) -> Review:
            return Review.approve()

        reply: Any = request

    sampled = ScriptedModel(["Only the server reads this."])
    host.sampling.sampler, host.sampling.reviewer = ModelSampler(lambda: sampled), Yes()
    await host.connect(sampling_server(), name="writer")
    agent = ScriptedModel([[("writer:summarise", {})], "Done."])
    graph = build_graph(agent, host, approve="auto")
    words: list[str] = []
    async for message, _ in graph.astream({"messages": [HumanMessage("summarise")]}, stream_mode="messages"):
        words += [message.text] if message.type == "AIMessageChunk" else []
    assert len(sampled.seen) == 1
    assert "".join(words) == "Done."
