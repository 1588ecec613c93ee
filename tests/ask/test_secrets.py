"""Inputs of a configuration are asked for once a kernel, without echo, and kept in memory only."""

from __future__ import annotations

import asyncio

import pytest

from mcp_magic.ask.question import Question, Reply
from mcp_magic.ask.secrets import UNATTENDED, VALUE, Secrets, input_question
from mcp_magic.config.references import Input
from mcp_magic.errors import SecretError
from mcp_magic.ipython.ask import InputAsker


class Typed:
    """Answers with the same reply, and keeps the questions."""

    def __init__(self, reply: Reply | Exception) -> None:
        self.reply = reply
        self.questions: list[Question] = []

    async def __call__(self, question: Question, seconds: float) -> Reply:
        self.questions.append(question)
        await asyncio.sleep(0)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


KEY = Input("key", "x.json", "The key\nof acme", default="")


async def test_an_input_is_asked_for_once():
    values, typed = Secrets(), Typed(Reply("accept", {VALUE: "sesame"}))
    values.asker = typed
    assert await asyncio.gather(*(values.ask_input(server, KEY) for server in "abc")) == ["sesame"] * 3
    assert len(typed.questions) == 1
    text = typed.questions[0].about(None).plain
    assert text == "Server a needs the input key of x.json\n  The key of acme"
    assert await values.ask_input("a", Input("key", "other.json")) == "sesame"
    assert len(typed.questions) == 2, "another file does not get it unasked"
    assert "sesame" not in repr(values)
    assert await values.forget("key") is True
    assert values.inputs == []


REPLIES = [
    (Reply(reason=UNATTENDED, by="default"), "a: the input key is needed, and you cannot be asked here"),
    (Reply("cancel"), "a: the input key was not entered, so nothing was started."),
    (Reply("accept", {}), "a: the input key was not entered, so nothing was started."),
    (TimeoutError(), "a: the input key was not entered within 600 s."),
]


@pytest.mark.parametrize(("reply", "message"), REPLIES, ids=["nobody", "cancelled", "empty", "late"])
async def test_an_input_that_is_not_entered_is_an_error(reply, message):
    values = Secrets()
    values.asker = Typed(reply)
    with pytest.raises(SecretError) as caught:
        await values.ask_input("a", KEY)
    assert str(caught.value).startswith(message)


async def test_without_an_asker_nobody_is_asked():
    with pytest.raises(SecretError, match="you cannot be asked here"):
        await Secrets().ask_input("a", KEY)


async def test_a_secret_is_typed_without_echo():
    shown, hidden = [], []

    def read_secret(prompt: str) -> str:
        hidden.append(prompt)
        return "sesame"

    asker = InputAsker(lambda prompt: "", shown.append, 60, read_secret=read_secret)
    reply = await asker.ask(input_question("a", KEY))
    assert (reply.choice, reply.values) == ("accept", {VALUE: "sesame"})
    assert len(hidden) == 1
    assert "sesame" not in "".join([*shown, *hidden])


async def test_options_are_offered_by_their_labels():
    lines = iter(["US"])
    shown: list[str] = []
    asker = InputAsker(lambda prompt: next(lines), shown.append, 60)
    question = input_question("a", Input("region", options=(("Europe", "eu"), ("US", "us")), is_secret=False))
    reply = await asker.ask(question)
    assert reply.values == {VALUE: "us"}
    assert any("Europe" in text for text in shown)
