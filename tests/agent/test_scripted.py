"""The scripted model plays its turns and remembers what it was given."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage

from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.errors import ModelError

TOOL = {"type": "function", "function": {"name": "shop__price", "parameters": {"type": "object", "properties": {}}}}


def test_turns_are_played_in_order() -> None:
    model = ScriptedModel(["one", AIMessage("two"), [("shop:price", {"item": "apple"}), ("shop__buy", {})]])
    assert [model.invoke("go").text, model.invoke("go").text] == ["one", "two"]
    calls = model.invoke("go").tool_calls
    assert [(call["name"], call["args"]) for call in calls] == [("shop__price", {"item": "apple"}), ("shop__buy", {})]
    assert len({call["id"] for call in calls}) == 2


USAGE: Any = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}


@pytest.mark.parametrize(
    ("turn", "usage"),
    [("one", None), ([("shop:price", {})], None), (AIMessage("one", usage_metadata=USAGE), USAGE)],
    ids=["text", "calls", "message"],
)
def test_only_a_turn_that_has_usage_reports_it(turn: Any, usage: Any) -> None:
    assert ScriptedModel([turn]).invoke("go").usage_metadata == usage


def test_a_function_makes_a_turn_of_the_messages() -> None:
    def echo(messages: list[BaseMessage]) -> str:
        return messages[-1].text.upper()

    assert ScriptedModel([echo]).invoke("hello").text == "HELLO"


async def test_a_function_may_be_awaited() -> None:
    async def echo(messages: list[BaseMessage]) -> Any:
        return [("shop:price", {"item": messages[-1].text})]

    assert (await ScriptedModel([echo]).ainvoke("pear")).tool_calls[0]["args"] == {"item": "pear"}


def test_an_error_is_raised() -> None:
    with pytest.raises(ConnectionError, match="no line"):
        ScriptedModel([ConnectionError("no line")]).invoke("go")


def test_a_script_that_is_over_says_so_and_how_to_begin_again() -> None:
    model = ScriptedModel(["one"])
    model.invoke("go")
    with pytest.raises(ModelError, match="the script is over: it has 1 turn, and a further one was asked for") as over:
        model.invoke("go")
    names = {"ScriptedModel": ScriptedModel, "model": model}
    exec(str(over.value).split("`")[1], names)
    assert names["model"].invoke("go").text == "one"


def test_the_last_turn_can_be_repeated() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [model.invoke("go").text for _ in range(4)] == ["one", "two", "two", "two"]


def test_what_was_given_is_kept_for_each_turn() -> None:
    model = ScriptedModel(["one", "two"])
    model.invoke("plain")
    model.bind_tools([TOOL], tool_choice="any").invoke([HumanMessage("with tools")])
    assert [[message.text for message in seen.messages] for seen in model.seen] == [["plain"], ["with tools"]]
    assert [seen.tools for seen in model.seen] == [[], [TOOL]]
    assert model.seen[1].kwargs == {"tool_choice": "any"}


async def test_a_turn_streams_in_words_then_calls_and_adds_up() -> None:
    turn = AIMessage("a few words", tool_calls=[{"name": "shop__price", "args": {"item": "x"}, "id": "1"}])
    chunks = [chunk async for chunk in ScriptedModel([turn]).astream("go")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["a ", "few ", "words"]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert isinstance(whole, AIMessageChunk)
    assert (whole.text, whole.tool_calls[0]["args"]) == ("a few words", {"item": "x"})


def test_streaming_in_a_plain_function_gives_the_same() -> None:
    assert "".join(chunk.text for chunk in ScriptedModel(["a few words"]).stream("go")) == "a few words"
