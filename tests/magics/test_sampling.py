"""What servers ask of models, decided line by line; and `%mcp connect --sampling`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.ask.sampling import (
    Expected,
    Review,
    Sampled,
    SamplingRequest,
    reply_question,
    reply_review,
    request_question,
    request_review,
)
from mcp_magic.errors import CommandError, ProtocolError
from mcp_magic.ipython.ask import InputAsker
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.sampling_servers import said, sampling_server

ASKED = SamplingRequest("writer", (said("Hello"), said("Hi.", "assistant")), 100, "Be brief.")
REPLY = Sampled.of("Hello to you.", "tiny")


class Typist:
    """Types lines; keeps the prompts and what was written."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.written: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self._lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    async def request(self) -> Review:
        question = request_question(ASKED, Expected("tiny", ("no context",)))
        return request_review(ASKED, await InputAsker(self.read, self.written.append, 30).ask(question))

    async def reply(self) -> Review:
        question = reply_question(ASKED, REPLY)
        return reply_review(ASKED, REPLY, await InputAsker(self.read, self.written.append, 30).ask(question))


@pytest.mark.parametrize(
    ("lines", "review"),
    [
        (["a"], Review.approve()),
        (["r"], Review.approve(show_reply=True)),
        (["?", "", "D", ""], Review.deny()),
        (["d", "it is private"], Review.deny("it is private")),
        ([EOFError()], Review.deny("the input ended")),
        ([KeyboardInterrupt()], Review.deny("interrupted")),
        (["e", "", "", "", "a"], Review.approve()),
        (["e", "", "Good day", "-", "a"], Review.approve(replace(ASKED, messages=(said("Good day"),)))),
        (["e", "-", "", "", "r"], Review.approve(replace(ASKED, system_prompt=""), show_reply=True)),
    ],
)
async def test_a_request_is_decided_about_line_by_line(lines: list[Any], review: Review) -> None:
    typist = Typist(*lines)

    assert await typist.request() == review
    assert typist.written[0].startswith("Server writer asks a model to answer:\n  system:\n    Be brief.\n")
    assert "not as asked: no context" in typist.written[0]


async def test_a_request_without_messages_is_not_approved() -> None:
    typist = Typist("e", "", "-", "-", "d", "")

    assert await typist.request() == Review.deny()
    assert "no message is left: nothing would be asked" in typist.written


@pytest.mark.parametrize(
    ("lines", "review"),
    [
        (["s"], Review.approve()),
        (["r", ""], Review.deny()),
        (["r", "it says too much"], Review.deny("it says too much")),
        (["e", "Mine.", "s"], Review.approve(reply=Sampled.of("Mine.", "tiny"))),
        (["e", "-", "r", ""], Review.deny()),
        ([EOFError()], Review.deny("the input ended")),
    ],
)
async def test_a_reply_is_decided_about_line_by_line(lines: list[Any], review: Review) -> None:
    typist = Typist(*lines)

    assert await typist.reply() == review
    assert typist.written[0] == "Reply of tiny to server writer (endTurn):\n    Hello to you."


async def test_a_server_is_connected_with_its_mode(magic: Any) -> None:
    connection = await magic("connect server --name other --sampling off", server=sampling_server())

    assert connection.spec.sampling == "off"
    assert host["math"].spec.sampling == "ask"
    with pytest.raises(CommandError, match="--sampling"):
        await magic("connect server --sampling never", server=sampling_server())


async def test_rules_for_sampling_are_typed_like_those_for_tools(magic: Any) -> None:
    connection = await magic("connect server --name writer --sampling auto", server=sampling_server())
    before = host.sampling.sampler
    host.sampling.sampler = ModelSampler(lambda: "offline")
    await host.reconnect("writer")
    await magic("deny writer:sampling --reason 'not today'")
    try:
        with pytest.raises(ProtocolError, match="denied by rule `deny writer:sampling`: not today"):
            await host["writer"].call("summarise")
    finally:
        host.sampling.sampler = before
    [row] = (await magic("audit")).rows
    assert (connection.name, row["decision"]) == ("writer", "deny")


def test_tab_offers_the_modes() -> None:
    assert candidates("connect math --sampling ", {}).texts == ["off", "ask", "auto"]
