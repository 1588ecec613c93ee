"""Views of an agent's calls that are shown while the model still writes the arguments."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.agent.graph import DRAFT_INTERVAL, MAX_DRAFT, build_graph, healed, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.threads import memory_threads
from mcp_magic.apps.app import App
from mcp_magic.apps.calls import views_of
from mcp_magic.cassette.cassette import deck
from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ModelError
from tests.support.agents import add_server, ask, interrupt
from tests.support.clocks import assert_linear, sixteenth
from tests.support.dash_server import server
from tests.support.dictating import Dictating, PageScreen, begins, goes_on, has, heard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic.consent.consent import Request

SALES = "dash__sales"
CANCELLED, RESULT = "tool-cancelled", "tool-result"
WITH_VIEW = {"ui": {"resourceUri": "ui://dash/view"}}
U, US = ("partial", {"region": "U"}), ("whole", {"region": "US"})


@pytest.fixture
async def host():
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(server, name="dash")
        yield host


@pytest.fixture
def screen():
    return PageScreen()


def sales(region: str) -> str:
    return region


def other_sales(description: str) -> MCPServer:
    """A server whose tool `sales` has another view."""
    server = MCPServer("other")
    server.add_tool(sales, meta=WITH_VIEW, description=description)

    @server.resource("ui://dash/view", mime_type="text/html;profile=mcp-app")
    def view() -> str:
        return "<p>"

    return server


def add(a: int) -> str:
    return str(a)


async def run(host: Host, screen: PageScreen, *turns: Callable[[], Any], **options: Any) -> AgentRun:
    graph = build_graph(Dictating(turns=list(turns)), host, checkpointer=memory_threads(), **options)
    thread = uuid.uuid4().hex  # all runs of a process have the same memory
    return await run_agent(graph, host, AgentRun("Show the sales", thread, "dictating"), screen=screen)


def writes(*pieces: str) -> Callable[[], AsyncIterator[AIMessageChunk]]:
    """Return a turn that writes one call in pieces."""

    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins(SALES)
        for piece in pieces:
            yield goes_on(piece)

    return turn


def shows(screen: PageScreen, *pieces: str, then: str | BaseException | None = "") -> Callable[[], Any]:
    """Return a turn that writes pieces of a call, which the view has to show, then the rest; or it fails, or hangs."""

    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins(SALES)
        page = await screen.page()
        for count, piece in enumerate(pieces, 1):
            yield goes_on(piece)
            await page.until(has(**healed("".join(pieces[:count])) or {}))
        if isinstance(then, BaseException):
            raise then
        if then is None:
            await asyncio.Event().wait()
        yield goes_on(str(then))

    return turn


async def test_a_view_shows_drafts_then_input_and_result(host, screen):
    done = await run(host, screen, shows(screen, '{"region": "U', "S", then='"}'))
    [page] = screen.pages
    assert heard(page) == [U, ("partial", {"region": "US"}), US, RESULT]
    [result] = done.results
    assert result is not None
    assert isinstance(result.app, App)
    assert list(views_of(host["dash"])) == [result.app]
    assert screen.written == [{}]
    assert [type(entry).__name__ for entry in done.transcript.entries] == [
        "RequestEntry",
        "TurnEntry",
        "CallEntry",
        "TurnEntry",
    ]
    [called] = done.transcript.calls
    assert (called.arguments, called.turn, called.status) == ({"region": "US"}, 1, "ok")
    assert done.transcript.entries[1].turn == 1  # type: ignore[attr-defined]
    page.messages.clear()
    assert (await page.shown())["outcome"]["params"]["content"][0]["text"] == "US: 42"
    [event] = [event for _, event in host.events.under_way()]
    page.tell(kind="gone")
    await host["dash"].ping()
    assert (event.name, host.events.under_way()) == ("sales", [])


async def test_a_turn_in_parts_of_different_ids_is_still_one(host, screen):
    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins(SALES).model_copy(update={"id": "part_1"})
        await screen.page()
        yield AIMessageChunk("One moment.", id="part_2")
        yield goes_on('{"region": "EU"}').model_copy(update={"id": "part_3"})

    async def after() -> AsyncIterator[AIMessageChunk]:
        assert screen.transcript is not None
        entries.extend(screen.transcript.entries)
        yield AIMessageChunk("Done.")

    entries: list[Any] = []
    await run(host, screen, turn, after)
    assert [type(entry).__name__ for entry in entries] == ["RequestEntry", "TurnEntry", "CallEntry"]
    assert entries[1].text == "One moment."


SECRET = {"region": "secret*"}


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("ask", []),
        ("plan", []),
        ("deny", []),
        ("readonly", []),
        ("auto", [Rule("ask", "dash:*")]),
        ("auto", [Rule("deny", "*", SECRET)]),
        ("auto", [Rule("ask", "*", SECRET), Rule("allow", "dash:sales")]),
        ("ask", [Rule("allow", "dash:sales", {"region": "*"})]),
        ("ask", [Rule("allow", "dash:sales", {}, exact=True)]),
        ("ask", [Rule("allow", "dash:sales", run="another")]),
        ("ask", [Rule("allow", "other:*")]),
        ("ask", [Rule("allow", "*", definition="of another tool")]),
    ],
)
async def test_a_call_that_may_need_an_answer_shows_no_draft(host, screen, policy, rules):
    ask(host, Decision.deny("no"))
    host.consent.policy = policy
    host.consent.rules.extend(rules)
    await run(host, screen, writes('{"region": "U', 'S"}'))
    assert {} not in screen.written
    assert [told for page in screen.pages for told in heard(page) if told[0] == "partial"] == []


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("deny", [Rule("allow", "dash:sales")]),
        ("ask", [Rule("allow", "dash:*", {"region": "EU"}), Rule("allow", "*"), Rule("deny", "*", {"region": "x"})]),
        ("auto", [Rule("allow", "dash:sales", {"region": "EU"}), Rule("deny", "other:*")]),
    ],
)
async def test_a_call_that_is_allowed_anyway_shows_its_draft(host, screen, policy, rules):
    host.consent.policy = policy
    for rule in rules:
        host.consent.add(rule)
    await run(host, screen, shows(screen, '{"region": "U', then='S"}'))
    assert heard(screen.pages[0])[0] == U


async def test_a_changed_tool_shows_drafts_after_a_new_rule(host, screen):
    await host.disconnect("dash")
    await host.connect(other_sales("Sales, changed"), name="dash")
    await run(host, screen, writes('{"region": "U', 'S"}'))
    assert screen.written == [{"region": "US"}]
    host.consent.add(Rule("allow", "dash:sales"))
    screen.pages.clear()
    await run(host, screen, shows(screen, '{"region": "U', then='S"}'))
    assert screen.written == [{"region": "US"}, {}]
    await run(host, screen, writes('{"region": "US"}'), writes('{"region": "US"}'))
    assert screen.written[2:] == [{}, {"region": "US"}], "a call of a used id gets its view when it is sent"


async def test_a_tool_changed_during_the_draft_shows_another_view(host, screen):
    await host.disconnect("dash")
    changing = other_sales("Sales")
    await host.connect(changing, name="other")

    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins("other__sales")
        yield goes_on('{"region": "U')
        await (await screen.page()).until(has(region="U"))
        changing.remove_tool("sales")
        changing.add_tool(sales, meta=WITH_VIEW, description="Sales, and more")
        await host["other"].listing("tools", refresh=True)
        yield goes_on('S"}')
        await screen.pages[0].until(has(region="US"))

    await run(host, screen, turn)
    first, second = screen.pages
    assert heard(first) == [U, ("partial", {"region": "US"}), CANCELLED]
    await second.until(lambda message: message["kind"] == "view")
    assert heard(second) == [US, RESULT]


@pytest.mark.parametrize(
    ("rest", "options"),
    [
        pytest.param('5, "region": {"no": "text"}}', {}, id="misfit"),
        pytest.param("", {}, id="broken off"),
        pytest.param(']"', {}, id="no JSON"),
        pytest.param('"}', {"max_turns": 1}, id="last turn"),
    ],
)
async def test_the_view_of_a_call_that_is_not_made_is_cancelled(host, screen, rest, options):
    async def after() -> AsyncIterator[AIMessageChunk]:
        assert heard(screen.pages[0])[-1] == CANCELLED, "before the model goes on"
        yield AIMessageChunk("Then not.")

    await run(host, screen, shows(screen, '{"region": "U', then=rest), after, **options)
    [page] = screen.pages
    told = heard(page)
    assert (told[0], told[-1]) == (U, CANCELLED)
    assert [line for line in told if line[0] == "whole" or line == RESULT] == []
    assert page.messages[-1]["params"] == {"reason": "the call was not made"}
    page.messages.clear()
    assert (await page.shown())["partial"] is True


async def test_the_view_is_cancelled_if_the_turn_fails_or_stops(host, screen):
    with pytest.raises(ModelError):
        await run(host, screen, shows(screen, '{"region": "U', then=OSError("the line is dead")))
    assert heard(screen.pages[0]) == [U, CANCELLED]
    screen.pages.clear()
    running = asyncio.create_task(run(host, screen, shows(screen, '{"region": "U', then=None)))
    await (await screen.page()).until(has(region="U"))
    await interrupt(running)
    assert heard(screen.pages[0]) == [U, CANCELLED]


async def test_a_rule_that_denies_the_call_cancels_the_view(host, screen):
    async def turn() -> AsyncIterator[AIMessageChunk]:
        async for chunk in shows(screen, '{"region": "U')():
            yield chunk
        host.consent.add(Rule("deny", "dash:sales"))
        yield goes_on('S"}')

    done = await run(host, screen, turn)
    assert heard(screen.pages[0])[-1] == CANCELLED
    assert [called.status for called in done.transcript.calls] == ["denied"]


@pytest.mark.parametrize("policy", ["auto", "ask"])
async def test_cards_stand_in_the_order_of_the_calls(host, screen, policy):
    cards: list[Any] = []

    async def approve(request: Request) -> Decision:
        assert screen.transcript is not None
        cards.extend((called.tool, called.arguments) for called in screen.transcript.calls)
        page = await screen.page()
        await page.until(has(region="US"))
        assert [told for told in heard(page) if told[0] != "partial"] == [], "it keeps its draft while another waits"
        return Decision.approve()

    await add_server(host, "plain", add)
    host.consent.policy, host.consent.approver = policy, approve
    host.consent.add(Rule("allow", "dash:sales"))

    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins("plain__add", "first", 0)
        yield goes_on('{"a": 1}', 0)
        yield begins(SALES, "second", 1)
        yield goes_on('{"region": "U', 1)
        await (await screen.page()).until(has(region="U"))
        yield goes_on('S"}', 1)
        if policy == "auto":
            yield begins("plain__add", "third", 2)
            yield goes_on('{"a": 3}', 2)

    done = await run(host, screen, turn)
    whole = [("add", {"a": 1}), ("sales", {"region": "US"}), ("add", {"a": 3})]
    count = 3 if policy == "auto" else 2
    assert cards == ([] if policy == "auto" else whole[:2])
    assert [(called.tool, called.arguments) for called in done.transcript.calls] == whole[:count]
    assert [result and result.text for result in done.results] == ["1", "US: 42", "3"][:count]
    assert heard(screen.pages[0])[-2:] == [US, RESULT]


async def test_drafts_are_limited_in_rate_and_size(host, screen):
    began = time.monotonic()

    async def turn() -> AsyncIterator[AIMessageChunk]:
        yield begins(SALES)
        page = await screen.page()
        yield goes_on('{"region": "')
        for _ in range(300):
            yield goes_on("x")
            await asyncio.sleep(0.001)
        await page.until(has(region="x" * 300))
        yield goes_on("y" * MAX_DRAFT)
        yield goes_on('"}')

    await run(host, screen, turn)
    told = heard(screen.pages[0])
    assert 2 <= len(told) - 2 <= (time.monotonic() - began) / DRAFT_INTERVAL + 1
    assert [len(line[1]["region"]) for line in told[-3:-1]] == [300, 300 + MAX_DRAFT]


async def test_a_recorded_turn_shows_the_view_in_the_same_way(host, screen, tmp_path):
    with deck.holding(tmp_path / "a.jsonl", "record"):
        await run(host, screen, shows(screen, '{"region": "U', then='S"}'))
    again = PageScreen()
    with deck.holding(tmp_path / "a.jsonl", "replay"):
        await run(host, again)
        assert heard(await again.page())[-2:] == [US, RESULT]
    assert (screen.written, again.written) == ([{}], [{}])


# Arguments that are not whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.booleans(), st.data())
def test_every_prefix_of_an_object_heals_to_an_object(value, ascii_only, data):
    text = json.dumps(value, ensure_ascii=ascii_only)
    whole = healed(text[: data.draw(st.integers(0, len(text)))])
    assert isinstance(whole, dict)
    assert set(whole) <= set(value)
    json.dumps(whole, allow_nan=False, ensure_ascii=False).encode()


@example('{"a": 1e999')
@example('{"a": NaN')
@example('{"a": "\\ud800"')
@given(st.text() | st.text(alphabet='{}[]":,\\u0d8e-1.n '))
def test_any_text_is_an_object_or_none(text):
    if (whole := healed(text)) is not None:
        assert isinstance(whole, dict)
        json.dumps(whole, allow_nan=False, ensure_ascii=False).encode()


HOSTILE = ["[" * MAX_DRAFT, '{"a":' * (MAX_DRAFT // 5), '{"a" ' + "x" * MAX_DRAFT, '{"a": "' + "\\" * MAX_DRAFT]


@pytest.mark.parametrize("text", HOSTILE, ids=["lists", "objects", "words", "backslashes"])
def test_hostile_arguments_cost_little(text):
    assert_linear(lambda part: [healed(part) for _ in range(20)], sixteenth(text), text)
