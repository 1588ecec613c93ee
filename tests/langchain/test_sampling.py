"""Sampling requests as LangChain messages, and models' messages as replies."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolResultContent,
    ToolUseContent,
)

from mcp_magic.agent.sampling import Renamed, Takes, called, to_messages, to_sampled, unread
from mcp_magic.ask.sampling import SamplingRequest
from tests.support.sampling_servers import PIXEL

IMAGE = ImageContent(data=PIXEL, mime_type="image/png")
SOUND = AudioContent(data="aGk=", mime_type="audio/wav")
ALL = Takes(images=True, audio=True, tool_images=True)


def text(words: str) -> TextContent:
    return TextContent(text=words)


def asked(*messages: tuple[Any, list[Any]], system: str = "") -> SamplingRequest:
    made = tuple(SamplingMessage(role=role, content=content) for role, content in messages)
    return SamplingRequest("s", made, 100, system)


def test_texts_are_strings_and_the_system_prompt_comes_first() -> None:
    request = asked(
        ("user", [text("Hi")]), ("assistant", [text("Hello")]), ("user", [text("Go on")]), system="Be kind."
    )
    told = to_messages(request, Takes(), {})
    assert [type(message) for message in told] == [SystemMessage, HumanMessage, AIMessage, HumanMessage]
    assert [message.content for message in told] == ["Be kind.", "Hi", "Hello", "Go on"]


def test_several_texts_stay_apart() -> None:
    [message] = to_messages(asked(("user", [text("one"), text("two")])), Takes(), {})
    assert message.content == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


def test_images_and_sound_are_blocks_where_the_model_takes_them() -> None:
    request = asked(("user", [text("Look"), IMAGE, SOUND]))
    [message] = to_messages(request, ALL, {})
    assert message.content == [
        {"type": "text", "text": "Look"},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
    ]
    assert unread(request, ALL) == []


def test_what_a_model_does_not_take_it_is_told_about() -> None:
    tiff = ImageContent(data=base64.b64encode(b"II*\0" + bytes(40)).decode(), mime_type="image/png")
    request = asked(("user", [text("Look"), IMAGE, tiff, SOUND]), ("assistant", [IMAGE]), ("user", [text("?")]))
    told = to_messages(request, Takes(), {})
    assert [block["type"] for block in told[0].content] == ["text"] * 4
    assert told[0].content[1]["text"].startswith("[image/png image, ")
    assert unread(request, Takes()) == ["3 images are not shown to the model", "1 sound is not shown to the model"]
    assert unread(request, ALL) == ["2 images are not shown to the model"]  # no provider takes TIFF, or a model's own


def test_calls_and_their_results_keep_their_ids_and_order() -> None:
    uses = [ToolUseContent(name="add", id=f"c{n}", input={"a": n}) for n in (1, 2)]
    results = [
        ToolResultContent(tool_use_id="c1", content=[text("1")]),
        ToolResultContent(tool_use_id="c2", content=[text("no")], is_error=True),
    ]
    told = to_messages(
        asked(("user", [text("go")]), ("assistant", [text("I add."), *uses]), ("user", results)), ALL, {}
    )
    assert [call["id"] for call in told[1].tool_calls] == ["c1", "c2"]  # type: ignore[attr-defined]
    assert told[1].content == "I add."
    answers = [message for message in told if isinstance(message, ToolMessage)]
    assert [(m.tool_call_id, m.content, m.status) for m in answers] == [("c1", "1", "success"), ("c2", "no", "error")]


def test_results_that_are_no_text_are_read_too() -> None:
    embedded = EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside"))
    results = [
        ToolResultContent(tool_use_id="a", content=[IMAGE]),
        ToolResultContent(tool_use_id="b", content=[embedded]),
        ToolResultContent(tool_use_id="c", content=[], structured_content={"n": 1}),
    ]
    plain = to_messages(asked(("user", results)), Takes(images=True), {})
    seeing = to_messages(asked(("user", results)), ALL, {})
    assert str(plain[0].content).startswith("[image/png image")
    assert seeing[0].content[0]["type"] == "image"  # type: ignore[index]
    assert [message.content for message in plain[1:]] == ["inside", '{"n": 1}']


def test_names_and_ids_providers_refuse_are_replaced_everywhere() -> None:
    use = ToolUseContent(name="files/read it", id="id with spaces", input={"filter[id]": 1})
    result = ToolResultContent(tool_use_id="id with spaces", content=[text("x")])
    tools = {"files/read it": Renamed(called("files/read it"), {"filter_id": "filter[id]"})}
    told = to_messages(asked(("assistant", [use]), ("user", [result])), ALL, tools)
    [call] = told[0].tool_calls  # type: ignore[attr-defined]
    assert call["name"].startswith("tool__files_read_it_")
    assert call["args"] == {"filter_id": 1}
    assert call["id"] == told[1].tool_call_id  # type: ignore[attr-defined]
    assert " " not in call["id"]


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
def test_the_reason_of_the_end_is_the_protocols_word(metadata: dict[str, Any], reason: str) -> None:
    reply = to_sampled(AIMessage("Hi", response_metadata=metadata), model="tiny")
    assert (reply.stop_reason, reply.model, reply.text) == (reason, "tiny", "Hi")


def test_the_model_is_named_as_the_provider_names_it() -> None:
    message = AIMessage("Hi", response_metadata={"model_name": "gpt-5-2026-01-01"})
    assert to_sampled(message, model="openai:gpt-5").model == "gpt-5-2026-01-01"


def test_stop_sequence_ends_the_reply_for_every_provider() -> None:
    reply = to_sampled(AIMessage("one, two END three"), model="m", stop_sequences=["###", "END"])
    assert (reply.text, reply.stop_reason) == ("one, two ", "stopSequence")


def test_parallel_calls_get_the_names_of_the_server() -> None:
    calls = [{"name": "t", "args": {"x": n}, "id": f"c{n}"} for n in (1, 2)]
    message = AIMessage("See.", tool_calls=calls, response_metadata={"finish_reason": "tool_calls"})
    reply = to_sampled(message, model="m", own=lambda name, args: (f"own {name}", {"y": args["x"]}))
    assert reply.stop_reason == "toolUse"
    assert reply.content == (
        text("See."),
        ToolUseContent(name="own t", id="c1", input={"y": 1}),
        ToolUseContent(name="own t", id="c2", input={"y": 2}),
    )


def test_calls_that_nobody_may_make_are_left_out_and_said_to_be() -> None:
    broken = {"name": "t", "args": '{"path": "/home/me/pro', "id": "c1", "error": "not whole"}
    message = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "c2"}], invalid_tool_calls=[broken])
    reply = to_sampled(message, model="m")
    assert reply.content == (text(""),)
    assert reply.stop_reason == "endTurn"
    assert len(reply.notes) == 2


def test_an_image_that_a_model_has_made_is_sent() -> None:
    content: Any = [{"type": "text", "text": "Here"}, {"type": "image", "base64": PIXEL, "mime_type": "image/png"}]
    assert to_sampled(AIMessage(content), model="m").content == (text("Here"), IMAGE)
