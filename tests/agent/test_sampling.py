"""The configured model answers servers: requests as messages, answers as replies, and what of them reaches a model."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolResultContent,
    ToolUseContent,
)

from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.sampling import ModelSampler, Renamed, Takes, model_name_of, to_messages, to_sampled, unread
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.ask.sampling import Review, SamplingRequest
from mcp_magic.errors import ModelError
from tests.support.agents import asked
from tests.support.fake_openai import KEY, Refusal, Turn
from tests.support.sampling_servers import ADD, PIXEL, said, sampling_server

IMAGE = ImageContent(data=PIXEL, mime_type="image/png")
SOUND = AudioContent(data="aGk=", mime_type="audio/wav")
ALL = Takes(images=True, audio=True, tool_images=True)


def text(words: str) -> TextContent:
    return TextContent(text=words)


def use(name: str, id_: str = "c1", **arguments: Any) -> ToolUseContent:
    return ToolUseContent(name=name, id=id_, input=arguments)


def gave(*content: Any, id_: str = "c1", **more: Any) -> ToolResultContent:
    return ToolResultContent(tool_use_id=id_, content=[*content], **more)


def saying(*messages: tuple[Any, list[Any]], system: str = "") -> SamplingRequest:
    made = tuple(SamplingMessage(role=role, content=content) for role, content in messages)
    return SamplingRequest("s", made, 100, system)


def asking(words: str = "Hello. How are you? Fine.", **more: Any) -> SamplingRequest:
    return replace(SamplingRequest("writer", (said(words),), 100), **more)


def used_tool(tool_choice: Any = None) -> SamplingRequest:
    """Return a request in which a tool has been used."""
    turns = (("user", [text("What is 3 plus 4?")]), ("assistant", [use("add", a=3, b=4)]), ("user", [gave(text("7"))]))
    return replace(saying(*turns), tools=(ADD,), **({"tool_choice": tool_choice} if tool_choice else {}))


# Requests as messages


def test_texts_are_strings_and_the_system_prompt_comes_first():
    turns = (("user", [text("Hi")]), ("assistant", [text("Hello")]), ("user", [text("Go on"), text("again")]))
    told = to_messages(saying(*turns, system="Be kind."), Takes(), {})
    assert [type(message) for message in told] == [SystemMessage, HumanMessage, AIMessage, HumanMessage]
    several = [{"type": "text", "text": "Go on"}, {"type": "text", "text": "again"}]
    assert [message.content for message in told] == ["Be kind.", "Hi", "Hello", several]


def test_images_and_sound_are_blocks_where_the_model_takes_them():
    tiff = ImageContent(data=base64.b64encode(b"II*\0" + bytes(40)).decode(), mime_type="image/png")
    looking = saying(("user", [text("Look"), IMAGE, SOUND]))
    [message] = to_messages(looking, ALL, {})
    assert message.content == [
        {"type": "text", "text": "Look"},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
    ]
    assert unread(looking, ALL) == []
    request = saying(("user", [text("Look"), IMAGE, tiff, SOUND]), ("assistant", [IMAGE]), ("user", [text("?")]))
    content: Any = to_messages(request, Takes(), {})[0].content
    assert [block["type"] for block in content] == ["text"] * 4
    assert content[1]["text"].startswith("[image/png image, ")
    assert unread(request, Takes()) == ["3 images are not shown to the model", "1 sound is not shown to the model"]
    assert unread(request, ALL) == ["2 images are not shown to the model"]  # no provider takes TIFF, or a model's own


def test_calls_and_their_results_keep_their_ids_and_order():
    results = [gave(text("1")), gave(text("no"), id_="c2", is_error=True)]
    turn = [text("I add."), use("add", a=1), use("add", "c2", a=2)]
    told: Any = to_messages(saying(("user", [text("go")]), ("assistant", turn), ("user", results)), ALL, {})
    assert [call["id"] for call in told[1].tool_calls] == ["c1", "c2"]
    assert told[1].content == "I add."
    results = [message for message in told if isinstance(message, ToolMessage)]
    assert [(m.tool_call_id, m.content, m.status) for m in results] == [("c1", "1", "success"), ("c2", "no", "error")]


def test_results_that_are_no_text_are_read_too():
    embedded = EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside"))
    request = saying(("user", [gave(IMAGE, id_="a"), gave(embedded), gave(id_="c", structured_content={"n": 1})]))
    plain = to_messages(request, Takes(images=True), {})
    seeing: Any = to_messages(request, ALL, {})
    assert str(plain[0].content).startswith("[image/png image")
    assert seeing[0].content[0]["type"] == "image"
    assert [message.content for message in plain[1:]] == ["inside", '{"n": 1}']


def test_names_and_ids_that_providers_refuse_are_replaced():
    turn, result = use("files/read it", "id with spaces", **{"filter[id]": 1}), gave(text("x"), id_="id with spaces")
    tools = {"files/read it": Renamed(model_name_of("files/read it"), {"filter_id": "filter[id]"})}
    told: Any = to_messages(saying(("assistant", [turn]), ("user", [result])), ALL, tools)
    [call] = told[0].tool_calls
    assert call["name"].startswith("tool__files_read_it_")
    assert call["args"] == {"filter_id": 1}
    assert call["id"] == told[1].tool_call_id
    assert " " not in call["id"]


# Answers as replies


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "stop"}, "endTurn"),
        ({"stop_reason": "end_turn"}, "endTurn"),
        ({"finish_reason": "length"}, "maxTokens"),
        ({"finish_reason": "MAX_TOKENS"}, "maxTokens"),
        ({"stop_reason": "max_tokens"}, "maxTokens"),
        ({"stop_reason": "stop_sequence"}, "stopSequence"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({}, "endTurn"),
    ],
)
def test_stop_reasons_are_those_of_the_protocol(metadata, reason):
    reply = to_sampled(AIMessage("Hi", response_metadata=metadata), model="tiny")
    assert (reply.stop_reason, reply.model, reply.text) == (reason, "tiny", "Hi")


def test_a_reply_names_the_model_and_ends_at_a_stop_sequence():
    named = AIMessage("Hi", response_metadata={"model_name": "gpt-5-2026-01-01"})
    assert to_sampled(named, model="openai:gpt-5").model == "gpt-5-2026-01-01"
    reply = to_sampled(AIMessage("one, two END three"), model="m", stop_sequences=["###", "END"])
    assert (reply.text, reply.stop_reason) == ("one, two ", "stopSequence")
    content: Any = [{"type": "text", "text": "Here"}, {"type": "image", "base64": PIXEL, "mime_type": "image/png"}]
    assert to_sampled(AIMessage(content), model="m").content == (text("Here"), IMAGE)


def test_calls_get_the_names_of_the_server_or_are_left_out():
    calls: Any = [{"name": "t", "args": {"x": n}, "id": f"c{n}"} for n in (1, 2)]
    message = AIMessage("See.", tool_calls=calls, response_metadata={"finish_reason": "tool_calls"})
    reply = to_sampled(message, model="m", own=lambda name, args: (f"own {name}", {"y": args["x"]}))
    assert reply.stop_reason == "toolUse"
    assert reply.content == (text("See."), use("own t", y=1), use("own t", "c2", y=2))
    broken: Any = {"name": "t", "args": '{"path": "/home/me/pro', "id": "c1", "error": "not whole"}
    reply = to_sampled(AIMessage("", tool_calls=calls[:1], invalid_tool_calls=[broken]), model="m")
    assert (reply.content, reply.stop_reason, len(reply.notes)) == ((text(""),), "endTurn", 2)


# A real provider package before a fake provider


async def test_limits_go_to_the_provider_and_its_answer_comes_back(openai):
    fake, model = await openai(Turn("I am fi", finish="length"), model="gpt-4o")
    request = asking(max_tokens=7, temperature=0.2, stop_sequences=("END",), system_prompt="Be brief.")
    reply = await ModelSampler(lambda: model)(request)
    [body] = fake.requests
    assert (body["max_completion_tokens"], body["temperature"], body["stop"]) == (7, 0.2, ["END"])
    assert [message["content"] for message in body["messages"]] == ["Be brief.", "Hello. How are you? Fine."]
    assert (reply.text, reply.model, reply.stop_reason) == ("I am fi", "gpt-4o-2026-01-01", "maxTokens")
    assert reply.notes == ()
    assert model.max_tokens is None  # the person's own model is as it was
    fake, model = await openai(Turn("Hi"), model="gpt-4o", max_tokens=50)
    await ModelSampler(lambda: model)(asking(max_tokens=4000))
    assert fake.requests[0]["max_completion_tokens"] == 50, "the person's own limit stays one"


async def test_a_model_that_reasons_is_spared_what_it_refuses(openai):
    fake, model = await openai(Turn("One. END Two."))
    sampler = ModelSampler(lambda: model)
    request = asking(temperature=0.2, stop_sequences=("END",))
    expected = sampler.expected(request)
    reply = await sampler(request)
    assert not {"stop", "temperature"} & set(fake.requests[0])
    assert (reply.text, reply.stop_reason) == ("One. ", "stopSequence")
    assert expected.model == "gpt-5"
    assert expected.notes == ("the temperature 0.2 is not passed on: gpt-5 takes none",)


async def test_calls_return_under_the_names_of_the_server(openai):
    properties = {"filter[id]": {"type": "string"}}
    odd = Tool(name="files/find it", input_schema={"type": "object", "properties": properties})
    turn = Turn(calls=[("add", {"a": 1, "b": 2}), (model_name_of(odd.name), {"filter_id": "7"})])
    fake, model = await openai(turn, Turn("Found."))
    sampler = ModelSampler(lambda: model)
    request = asking(tools=(ADD, odd), tool_choice="required")
    reply: Any = await sampler(request)
    assert [(b.name, b.input) for b in reply.content] == [("add", {"a": 1, "b": 2}), (odd.name, {"filter[id]": "7"})]
    assert reply.stop_reason == "toolUse"
    results = [gave(text("x"), id_=block.id) for block in reply.content]
    turns = saying(("assistant", list(reply.content)), ("user", results)).messages
    last = await sampler(replace(request, messages=(*request.messages, *turns), tool_choice="none"))
    first, second = fake.requests
    assert fake.refused == []
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "none")
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert (last.text, last.stop_reason) == ("Found.", "endTurn")


async def test_images_go_to_a_model_that_takes_them(openai):
    fake, model = await openai(Turn("A pixel."), Turn("A pixel."), strict=True)
    looking = replace(saying(("user", [IMAGE])), messages=(SamplingMessage(role="user", content=IMAGE),))
    await ModelSampler(lambda: model)(looking)
    [part] = fake.requests[0]["messages"][0]["content"]
    assert part == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    expected = ModelSampler(lambda: "offline").expected(looking)
    assert expected.notes == ("1 image is not shown to the model",)
    jpeg = ImageContent(data=PIXEL, mime_type="image/jpeg")
    turns = saying(("user", [text("Look.")]), ("assistant", [use("add", a=1, b=2)]), ("user", [gave(jpeg)]))
    await ModelSampler(lambda: model)(replace(turns, tools=(ADD,)))
    assert fake.refused == []
    assert [message["role"] for message in fake.requests[1]["messages"]] == ["user", "assistant", "tool", "user"]
    [_, part] = fake.requests[1]["messages"][3]["content"]
    assert part["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


async def test_a_refusal_is_one_line_without_the_key(openai):
    _, model = await openai(Refusal(429, f"Rate limit reached for {KEY}"))
    with pytest.raises(ModelError) as raised:
        await ModelSampler(lambda: model)(asking())
    assert "the rate limit or the quota is used up" in str(raised.value)
    assert KEY not in str(raised.value)


# Models in this process


@pytest.mark.parametrize(
    ("hint", "note"),
    [
        (("nothing-like-it", "CRIPT"), ""),
        (("no-such-model",), "'no-such-model'"),
        (("huggingface:evil/weights",), "huggingface:evil/weights') is not used: only the configured model answers"),
    ],
)
def test_a_hint_for_another_model_adds_a_note(hint, note):
    preferences = ModelPreferences(hints=[ModelHint(name=name) for name in hint])
    expected = ModelSampler(lambda: ScriptedModel(["Hi"])).expected(asking(preferences=preferences))
    assert expected.model == "scripted"
    notes = [line for line in expected.notes if "prefers" in line]
    assert len(notes) == bool(note)
    assert note in "".join(notes)


def test_a_wish_that_is_not_granted_is_a_note():
    request = asking(temperature=1.0, include_context="thisServer", metadata={"user": "me"})
    assert ModelSampler(lambda: ScriptedModel(["Hi"])).expected(request).notes == (
        "the limit of 100 tokens is not passed on: scripted takes none",
        "the temperature 1 is not passed on: scripted takes none",
        "no context of servers is added",
        "its metadata are not passed on",
    )


async def test_a_model_that_takes_no_tools_says_so():
    for setting in ("offline", "openai:gpt-5", ScriptedModel([])):
        assert ModelSampler(lambda setting=setting: setting).takes_tools
    sampler = ModelSampler(lambda: FakeListChatModel(responses=["x"]))
    assert not sampler.takes_tools
    with pytest.raises(ModelError) as caught:
        await sampler(asking(tools=(ADD,)))
    words = "FakeListChatModel cannot be given tools (it has no bind_tools); choose a model that can"
    assert str(caught.value) == words


async def test_a_model_that_cannot_be_made_is_an_error(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    sampler = ModelSampler(lambda: "openai:gpt-5")
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        sampler.expected(asking())
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        await sampler(asking())


async def test_ids_choices_and_tools_of_a_model_are_checked():
    calls: Any = [{"name": "add", "args": {"a": 1, "b": b}, "id": "call_1"} for b in (1, 2)]
    twins: Any = await ModelSampler(lambda: ScriptedModel([AIMessage("", tool_calls=calls)]))(asking(tools=(ADD,)))
    assert [block.id for block in twins.content] == ["call_1", "call_1_2"]
    reply = await ModelSampler(lambda: ScriptedModel(["No."]))(asking(tools=(ADD,), tool_choice="required"))
    assert "the model called no tool, which the server required" in reply.notes
    model = ScriptedModel([[("add", {"a": 1, "b": 1})]])
    reply = await ModelSampler(lambda: model)(used_tool("none"))
    [seen] = model.seen
    assert seen.messages[0].text == "No tool can be called now: answer with what is known."
    assert [tool["function"]["name"] for tool in seen.tools] == ["add"]
    assert reply.stop_reason == "endTurn"
    assert "calls of tools that the server did not offer were left out" in reply.notes


async def test_offline_quotes_calls_tools_and_uses_results():
    sampler = ModelSampler(lambda: "offline")
    reply = await sampler(asking("Summarise this: Cats sleep. They purr. They eat."))
    assert reply.text == "Cats sleep. They purr. (offline, a model without weights, which quotes)"
    assert (reply.model, reply.stop_reason) == ("offline", "endTurn")
    cut = await sampler(asking("Cats sleep. They purr.", max_tokens=2))
    assert (cut.text, cut.stop_reason) == ("Cats sle", "maxTokens")
    assert (await sampler(used_tool("none"))).text.startswith("The tools gave: 7")
    first: Any = await sampler(asking("What is 3 plus 4?", tools=(ADD,)))
    [block] = first.content
    assert (block.name, block.input, first.stop_reason) == ("add", {"a": 3, "b": 4}, "toolUse")
    assert (await sampler(used_tool())).text == "`add(a=3, b=4)` gives **7**."


async def test_sampled_text_stays_out_of_the_agent_run(host):
    class Yes:
        async def request(self, asked: SamplingRequest, expected: Any) -> Review:
            return Review.approve()

        reply: Any = request

    sampled = ScriptedModel(["Only the server reads this."])
    host.sampling.sampler, host.sampling.reviewer = ModelSampler(lambda: sampled), Yes()
    await host.connect(sampling_server(), name="writer")
    graph = build_graph(ScriptedModel([[("writer:summarise", {})], "Done."]), host, approve="auto")
    words: list[str] = []
    async for message, _ in graph.astream(asked("summarise"), stream_mode="messages"):
        words += [message.text] if message.type == "AIMessageChunk" else []
    assert len(sampled.seen) == 1
    assert "".join(words) == "Done."
