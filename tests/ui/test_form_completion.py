"""Forms whose server is slow, fails, or goes away while it completes what is typed."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import Completion

from mcp_magic.ui.request_form import RequestForm
from tests.support.widgets import until

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


class Completing:
    """A server that completes `word`: what begins with "slow" waits, what begins with "bad" fails.

    Attributes:
        asked: What it was asked for: the text, and the other arguments.
        slow: Set to let the slow answers go.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.slow = asyncio.Event()
        self.server = MCPServer("completing", log_level="CRITICAL")
        self.server.prompt(name="ask")(ask)
        self.server.completion()(self.complete)

    async def complete(self, reference: Any, argument: Any, context: Any) -> Completion:
        self.asked.append((argument.value, dict(context.arguments or {}) if context else {}))
        if argument.value.startswith("slow"):
            await self.slow.wait()
        if argument.value.startswith("bad"):
            raise ValueError("no")
        return Completion(values=[f"{argument.value}er", f"{argument.value}est"])


def ask(word: str, language: str = "") -> str:
    """Ask about a word."""
    return word


@pytest.fixture
async def completing() -> Completing:
    return Completing()


@pytest.fixture
async def connection(completing: Completing, host: Host) -> Connection:
    return await host.connect(completing.server, name="completing")


async def form_of(connection: Connection) -> tuple[RequestForm, Any]:
    form = RequestForm(connection, await connection.find_prompt("ask"))
    word = form.form.root.at("word").input.widget
    await until(lambda: word.options == ("er", "est"))
    return form, word


async def test_an_answer_that_comes_late_is_not_shown(connection: Connection, completing: Completing) -> None:
    form, word = await form_of(connection)
    with closing(form):
        word.value = "slow"
        await until(lambda: "slow" in dict(completing.asked))
        word.value = "fast"
        await until(lambda: word.options == ("faster", "fastest"))
        completing.slow.set()
        word.value = "new"
        await until(lambda: word.options == ("newer", "newest"))


async def test_a_server_that_never_answers_keeps_nobody_from_typing(
    connection: Connection, completing: Completing
) -> None:
    form, word = await form_of(connection)
    with closing(form):
        word.value = "slow"
        await until(lambda: "slow" in dict(completing.asked))
        form.form.root.at("language").input.widget.value = "en"
        async with asyncio.timeout(60):
            assert (await form.run()).messages[0].content == "slow"


async def test_a_server_that_fails_offers_nothing_and_is_no_error(
    connection: Connection, completing: Completing
) -> None:
    form, word = await form_of(connection)
    with closing(form):
        word.value = "bad"
        await until(lambda: word.options == ())
        word.value = "good"
        await until(lambda: word.options == ("gooder", "goodest"))


async def test_the_other_arguments_are_sent_as_the_context(connection: Connection, completing: Completing) -> None:
    form, word = await form_of(connection)
    with closing(form):
        form.form.root.at("language").input.widget.value = "de"
        word.value = "gut"
        await until(lambda: ("gut", {"language": "de"}) in completing.asked)


async def test_a_session_that_is_gone_offers_nothing(connection: Connection) -> None:
    form, word = await form_of(connection)
    with closing(form):
        await connection.close()
        word.value = "x"
        await until(lambda: word.options == ())
