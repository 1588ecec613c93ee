"""The scripted model plays its turns and remembers what it was given."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage

from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.errors import ModelError

TOOL = {"type": "function", "function": {"name": "shop__price", "parameters": {"type": "object", "properties": {}}}}
USAGE: Any = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}


async def test_turns_are_texts_messages_calls_functions_or_errors():
    def shout(messages: list[BaseMessage]) -> str:
        return messages[-1].text.upper()

    async def price(messages: list[BaseMessage]) -> Any:
        return [("shop:price", {"item": messages[-1].text})]

    calls = [("shop:price", {"item": "apple"}), ("shop__buy", {})]
    model = ScriptedModel(
        ["one", AIMessage("two", usage_metadata=USAGE), calls, shout, price, ConnectionError("no line")]
    )
    first, second, third = (model.invoke("go") for _ in range(3))
    assert [first.text, second.text] == ["one", "two"]
    assert [turn.usage_metadata for turn in (first, second, third)] == [None, USAGE, None]
    assert [(call["name"], call["args"]) for call in third.tool_calls] == [
        ("shop__price", {"item": "apple"}),
        ("shop__buy", {}),
    ]
    assert len({call["id"] for call in third.tool_calls}) == 2
    assert model.invoke("hello").text == "HELLO"
    assert (await model.ainvoke("pear")).tool_calls[0]["args"] == {"item": "pear"}
    with pytest.raises(ConnectionError, match="no line"):
        model.invoke("go")


def test_a_script_that_is_over_says_how_to_begin_again():
    model = ScriptedModel(["one"])
    model.invoke("go")
    with pytest.raises(ModelError, match="the script is over: it has 1 turn, and a further one was asked for") as over:
        model.invoke("go")
    names = {"ScriptedModel": ScriptedModel, "model": model}
    exec(str(over.value).split("`")[1], names)
    assert names["model"].invoke("go").text == "one"
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [model.invoke("go").text for _ in range(4)] == ["one", "two", "two", "two"]


def test_the_model_keeps_what_it_was_given_at_each_turn():
    model = ScriptedModel(["one", "two"])
    model.invoke("plain")
    model.bind_tools([TOOL], tool_choice="any").invoke([HumanMessage("with tools")])
    assert [[message.text for message in seen.messages] for seen in model.seen] == [["plain"], ["with tools"]]
    assert [seen.tools for seen in model.seen] == [[], [TOOL]]
    assert model.seen[1].kwargs == {"tool_choice": "any"}


async def test_a_turn_streams_in_words_then_calls_and_adds_up():
    turn = AIMessage("a few words", tool_calls=[{"name": "shop__price", "args": {"item": "x"}, "id": "1"}])
    chunks = [chunk async for chunk in ScriptedModel([turn]).astream("go")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["a ", "few ", "words"]
    whole = sum(chunks[1:], chunks[0])  # type: ignore[arg-type]
    assert isinstance(whole, AIMessageChunk)
    assert (whole.text, whole.tool_calls[0]["args"]) == ("a few words", {"item": "x"})
    assert "".join(chunk.text for chunk in ScriptedModel(["a few words"]).stream("go")) == "a few words"
