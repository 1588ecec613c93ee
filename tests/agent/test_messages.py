"""Messages and tools of an agent, looked at."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from mcp_magic.agent.run import CALL_COLUMNS, calls_frame, display_messages, get_final_answer, tools_summary, usage_of
from mcp_magic.notebook import NotebookHost
from tests.support.showcase import showcase
from tests.support.telling import answer, called, decided, definition, html, result, texts, told, turn, usage


async def thread() -> list[Any]:
    approval = {"decision": "approve", "by": "person", "reason": ""}
    first = {"id": "1", "name": "showcase__add", "args": {"a": 3, "b": 4}}
    second = {"id": "2", "name": "showcase__fails", "args": {"city": "Atlantis", "api_key": "sk-abc"}}
    return [
        HumanMessage("add"),
        AIMessage("I add.", tool_calls=[first], usage_metadata=usage(10, 2), response_metadata={"model_name": "m-1"}),
        answer("1", await called("add", a=3, b=4), approval=approval),
        AIMessage("", tool_calls=[second], usage_metadata=usage(20, 3), response_metadata={"model_name": "m-1"}),
        answer("2", await called("fails")),
        AIMessage("It is 7.", usage_metadata=usage(30, 4), response_metadata={"model": "m-2"}),
    ]


async def test_the_final_answer_is_the_last_text_that_asks_for_nothing() -> None:
    messages = await thread()
    assert get_final_answer(messages) == "It is 7."
    assert get_final_answer(messages[:-1]) == ""
    assert get_final_answer([]) == ""


def test_the_final_answer_may_stand_in_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Seven."}]
    assert get_final_answer([{"role": "user", "content": "?"}, AIMessage(blocks)]) == "Seven."


def test_an_old_message_that_calls_is_no_answer() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    assert get_final_answer([AIMessage("7"), AIMessage("wait", additional_kwargs={"tool_calls": calls})]) == "7"


async def test_usage_is_told_in_all_and_by_model() -> None:
    assert usage_of(await thread()) == {
        **usage(60, 9),
        "models": {"m-1": usage(30, 5), "m-2": usage(30, 4)},
    }


def test_usage_that_nobody_tells_is_zero() -> None:
    assert usage_of([HumanMessage("a"), AIMessage("b")]) == {**usage(0, 0), "models": {}}


async def test_the_frame_has_a_row_for_each_call_with_secrets_masked() -> None:
    frame = calls_frame(await thread())
    assert tuple(frame.columns) == CALL_COLUMNS
    assert frame.to_dict("records") == [
        {
            "turn": 1,
            "server": "showcase",
            "tool": "add",
            "arguments": {"a": 3, "b": 4},
            "approved by": "person",
            "seconds": 0.12,
            "error": None,
        },
        {
            "turn": 2,
            "server": "showcase",
            "tool": "fails",
            "arguments": {"city": "Atlantis", "api_key": "***"},
            "approved by": None,
            "seconds": 0.12,
            "error": "no such city: <Atlantis>",
        },
    ]


def test_the_frame_of_no_calls_has_the_columns_and_their_types() -> None:
    frame = calls_frame([HumanMessage("a")])
    assert tuple(frame.columns) == CALL_COLUMNS
    assert (len(frame), frame["seconds"].dtype, frame["turn"].dtype) == (0, "float64", "int64")


def test_transcript_frame_hides_secrets_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    event = {"kind": "call", "id": "1", "server": "a", "tool": "b", "arguments": {"pin": "1234"}, "turn": 1}
    frame = calls_frame(told({**event, "definition": definition("b", schema)}))
    assert frame["arguments"][0] == {"pin": "***"}


def test_the_frame_says_why_a_call_did_not_happen() -> None:
    message = ToolMessage("refused", tool_call_id="1", status="error")
    events = [{"kind": "call", "id": "1", "server": "a", "tool": "b", "arguments": {}, "turn": 1}]
    frame = calls_frame(told(*events, decided("1", False, reason="too dear"), result("1", message)))
    assert (frame["error"][0], frame["approved by"][0]) == ("too dear", None)


async def test_display_messages_shows_or_omits_calls() -> None:
    messages = await thread()
    assert "showcase:add" in html(display_messages(messages))
    brief = html(display_messages(messages, trace=False, tokens=False))
    assert "It is 7." in brief
    assert "showcase:add" not in brief
    assert "tokens" not in brief
    assert display_messages(messages).results[0].data == 7  # type: ignore[union-attr]


# -- tools ----------------------------------------------------------------------------------------------


@tool
def search(query: str, limit: int = 10) -> str:
    """Look things up."""
    return query * limit


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(description="which one")
    days: list[int] | None = None


def test_tools_of_any_kind_are_listed_with_their_arguments() -> None:
    provider = {"name": "plain", "description": "A dict", "parameters": {"type": "object", "properties": {}}}
    listing = tools_summary([search, Weather, {"type": "function", "function": provider}])
    assert [row["tool"] for row in listing] == ["search", "Weather", "plain"]
    assert [row["description"] for row in listing] == ["Look things up.", "The weather of a city.", "A dict"]
    assert listing[0]["arguments"] == "query: string, [limit: integer]"
    assert "hints" not in listing[0]


async def test_tools_of_servers_have_their_own_names_and_badges() -> None:
    host = NotebookHost()
    try:
        await host.connect(showcase(), name="show")
        listing = tools_summary(host.langchain_tools())
    finally:
        await host.close()
    row = next(row for row in listing if row["tool"] == "show:add")
    assert row["arguments"] == "a: integer, b: integer"
    assert [str(badge) for badge in row["hints"]] == ["[no hints]"]


def test_what_tools_say_is_escaped() -> None:
    listing = tools_summary([{"name": "x", "description": "<script>alert(1)</script>", "parameters": {}}])
    assert "<script>" not in listing._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("messages", [[], [HumanMessage("a")]])
def test_short_threads_display_too(messages: list[Any]) -> None:
    assert "text/plain" in display_messages(messages)._repr_mimebundle_()


def test_several_texts_are_one_result() -> None:
    frame = calls_frame([turn("", "1=tool"), answer("1", texts("a", "b"))])
    assert list(frame["error"]) == [None]
