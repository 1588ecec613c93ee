"""Servers that ask without end: what that may take of the person."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import ElicitRequestURLParams

from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Review, Sampled
from tests.support import SUPPORT

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.ask.elicitation import Elicitation

FLOOD = [sys.executable, str(SUPPORT / "flood_server.py")]
LIMIT = "the user is asked 20 questions in a call at most (max_questions)"


class Person:
    """Declines what is asked, and counts how much is asked at the same time."""

    def __init__(self, host: Host) -> None:
        self.asked: list[str] = []
        self.most = self.now = 0
        host.elicitation.elicitor = host.sampling.reviewer = self
        host.sampling.sampler = self._look  # never asked: each review has its reply

    async def __call__(self, question: Elicitation) -> Answer:
        await self._look(question.message)
        return Answer.decline()

    async def request(self, asked: Any, expected: Any) -> Review:
        await self._look(asked.messages[-1].content.text)
        return Review.approve(reply=Sampled.of("words", model="me"))

    async def _look(self, text: str) -> None:
        self.asked.append(text.strip())
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1


@pytest.mark.parametrize(("tool", "done"), [("ask", "decline"), ("sample", "replied")])
async def test_questions_come_one_at_a_time_up_to_a_limit(host, tool, done):
    person = Person(host)
    flood = await host.connect(FLOOD, name="flood")
    result = await flood.call_tool(tool, {"count": 300}, timeout=60)
    assert json.loads(result.text) == {done: 20, LIMIT: 280}
    assert person.most == 1
    assert person.asked == [f"question {number}" for number in range(20)]
    assert len(flood.notices.messages) == 21
    result = await flood.call_tool(tool, {"count": 15}, timeout=60)
    assert json.loads(result.text) == {done: 15}, "each call has questions of its own"


async def test_questions_of_a_finished_call_are_not_asked_later(host):
    asked: list[str] = []
    first = asyncio.Event()

    async def away(question: Elicitation) -> Answer:
        asked.append(question.message)
        first.set()
        await asyncio.sleep(60)
        return Answer.decline()

    host.elicitation.elicitor = away
    flood = await host.connect(FLOOD, name="flood")
    call = asyncio.create_task(flood.call_tool("ask", {"count": 2000, "size": 1000}))
    await first.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await flood.call_tool("echo", {}, timeout=60)).text == "done"
    assert len(asked) == 1


async def test_a_page_whose_address_is_too_long_is_declined(host):
    person = Person(host)
    flood = await host.connect(FLOOD, name="flood")
    params = ElicitRequestURLParams(message="Go", url=f"https://a.example/{'x' * 100_000}")
    assert (await flood.notices.questions.elicitation(None, params)).action == "decline"
    assert person.asked == []
