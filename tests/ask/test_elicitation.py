"""Servers that ask the person in the middle of a call, on both protocol eras; pages and forms that deceive."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from mcp_magic.ask.elicitation import Answer, Elicitation, elicitation_question, question_part, secrets_marked
from mcp_magic.ask.question import Reply, outcome_bundle
from mcp_magic.calls.call import Call
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import ProtocolError, RequestTimeoutError, ToolError
from mcp_magic.flight import progress
from mcp_magic.flight.request import Answerers, InFlightRequest, Limits, person_asked
from mcp_magic.ui.form import Form
from tests.support.clocks import assert_linear, jump
from tests.support.eliciting_server import trip_server, url_server
from tests.support.hosts import logged
from tests.support.persons import Scripted
from tests.support.waiting import until
from tests.support.widgets import widgets

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.flight.progress import Report
    from mcp_magic.session.connection import Connection

OSLO = Answer.accept({"city": "Oslo"})


async def connect_trip(host: Host, elicitor: Any) -> Connection:
    host.elicitation.elicitor = elicitor
    return await host.connect(trip_server(), name="trip")


async def test_answer_reaches_the_tool_unless_it_cannot_be_sent(host):
    answers = {
        "accept Oslo 2": Answer.accept({"city": "Oslo", "days": 2}),
        "accept Oslo 3": OSLO,
        "decline": Answer.decline(),
        "cancel": Answer.cancel(),
    }
    scripted = Scripted(*answers.values())
    connection = await connect_trip(host, scripted)
    assert connection.protocol_version == "2026-07-28"
    for text, answer in answers.items():
        assert (await connection.call("plan")).text == text
        asked = scripted.asked[-1]
        assert (asked.server, asked.message, asked.mode) == ("trip", "Where to?", "form")
        assert asked.defaults == {"days": 3}
        assert f"elicitation 'Where to?': {answer.action} (" in logged(connection).splitlines()[-1]
    assert len(scripted.asked) == len(answers)
    scripted.answers += [Answer.accept({"city": "Osl\ud800"}), OSLO]
    assert (await connection.call("plan")).text == "accept Oslo 3", "a lone surrogate is not sent"
    assert "'Where to?' is asked again: the answer.city: character 4 is '\\ud800'" in logged(connection)
    assert connection.failures == 0
    own = Scripted(Answer.accept({"city": "Rome"}))
    call = Call(connection, "plan", {}, answerers=Answerers(own))
    assert (await host.caller.call(call)).text == "accept Rome 3", "a call may bring its own"
    host.elicitation.elicitor = None
    assert (await connection.call("plan")).text == "decline"
    assert "decline: you cannot be asked: host.elicitor is None" in logged(connection)


async def test_session_announces_only_what_somebody_answers(host):
    seen: list[Any] = []
    server = MCPServer("capabilities", log_level="ERROR")

    @server.tool()
    def look(context: Context) -> str:
        seen.append(context.request_context.session.client_params.capabilities.elicitation)
        return ""

    quiet = await host.connect(server, name="quiet")
    host.elicitation.elicitor = Scripted()
    asking = await host.connect_spec(quiet.spec, "asking")
    await quiet.call("look")
    await asking.call("look")
    assert seen[0] is None
    assert seen[1].form is not None
    assert seen[1].url is not None


async def test_values_that_do_not_fit_are_asked_for_thrice(host):
    scripted = Scripted(*[Answer.accept({"city": "O", "days": "many"})] * 4)
    connection = await connect_trip(host, scripted)
    assert (await connection.call("plan")).text == "decline"
    assert [bool(asked.problem) for asked in scripted.asked] == [False, True, True]
    assert "'many'" in question_part(scripted.asked[-1]).plain
    assert "your values do not fit: " in logged(connection)
    assert "'many'" in logged(connection)


async def test_elicitor_that_fails_declines_and_an_absent_one_cancels(host):
    async def broken(asked: Elicitation) -> Answer:
        raise LookupError(asked.message)

    async def away(asked: Elicitation) -> Answer:
        await asyncio.Event().wait()
        return OSLO

    connection = await connect_trip(host, broken)
    assert (await connection.call("plan")).text == "decline"
    assert "the elicitor failed: LookupError: Where to?" in logged(connection)
    host.elicitation.elicitor, host.elicitation.timeout = away, 0.05
    assert (await connection.call("plan")).text == "cancel"
    assert "cancel: you did not answer within 0.05 s" in logged(connection)


async def test_two_questions_at_once_are_asked_one_by_one(host):
    asked: list[str] = []
    waiting = 0

    async def answers(question: Elicitation) -> Answer:
        nonlocal waiting
        waiting += 1
        asked.append(question.message)
        for _ in range(10):
            await asyncio.sleep(0)
        assert waiting == 1
        waiting -= 1
        return OSLO if question.message == "Where to?" else Answer.decline()

    connection = await connect_trip(host, answers)
    assert (await connection.call_tool("two", {}, timeout=60)).text == "accept decline"
    assert sorted(asked) == ["And then?", "Where to?"]


# The clock of a call


async def test_time_out_stands_still_while_a_person_is_asked(host):
    async def slow(asked: Elicitation) -> Answer:
        jump(100)  # longer than the call may take
        await asyncio.sleep(0.01)
        return OSLO

    connection = await connect_trip(host, slow)
    assert (await connection.call_tool("plan", {}, timeout=60)).text == "accept Oslo 3"
    host.elicitation.elicitor = Scripted(OSLO)
    with pytest.raises(RequestTimeoutError, match=r"trip:slow: timed out: no answer within 0\.2 s"):
        await connection.call_tool("slow", {}, timeout=0.2)  # it goes on after the answer
    assert connection.state == "open"


async def test_person_asked_stops_the_clock_of_its_call():
    async def logs_in() -> str:
        with person_asked():
            jump(100)
            await asyncio.sleep(0.01)
        return "in"

    assert await InFlightRequest(limits=Limits(60)).wait(logs_in(), []) == "in"
    with person_asked():  # outside of a call nothing happens
        pass


async def test_time_of_a_question_is_not_the_servers(host, monkeypatch):
    monkeypatch.setattr(progress, "WAIT_SECONDS", 0.15)
    shown: list[Report] = []
    host.reports.reporter = shown.append  # type: ignore[assignment]
    asked: list[str] = []

    usual = time.perf_counter

    async def elicitor(request: Elicitation) -> Answer:
        jump(30)
        monkeypatch.setattr(time, "perf_counter", lambda: usual() + 30)
        await asyncio.sleep(0.01)
        assert not any(report.waits for report in shown), "the panel with the question says what is waited for"
        asked.append(request.message)
        return OSLO

    connection = await connect_trip(host, elicitor)
    calling = asyncio.create_task(connection.call("slow"))
    await until(lambda: bool(asked) and any(report.waits for report in shown))
    assert shown[-1].seconds < 30
    calling.cancel()
    await asyncio.wait({calling})


async def test_cancelled_call_takes_its_question_with_it(host):
    started, ended = asyncio.Event(), asyncio.Event()

    async def waits(asked: Elicitation) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return OSLO

    connection = await connect_trip(host, waits)
    call = asyncio.create_task(connection.call("plan"))
    await asyncio.wait_for(started.wait(), 60)
    call.cancel()
    await asyncio.wait({call}, timeout=60)
    assert call.cancelled()
    await asyncio.wait_for(ended.wait(), 60)
    assert connection.in_flight == 0


# Pages


def refusing_server(*data: Any) -> MCPServer:
    """A server whose tool refuses with these data of error -32042, one call after the other, and then answers."""
    server = MCPServer("refusing", log_level="ERROR")
    refusals = iter(data)

    @server.tool()
    async def pay() -> str:
        for pages in refusals:
            raise MCPError(code=-32042, message="pages first", data=pages)
        return "paid"

    return server


async def test_call_is_repeated_after_page_visits_else_fails(host):
    urls = ["https://example.org/1", "https://example.org/2"]
    pages = [{"mode": "url", "message": "Pay there", "url": url, "elicitationId": url} for url in urls]
    scripted = host.elicitation.elicitor = Scripted(Answer.accept(), Answer.accept(), Answer.accept(), Answer.decline())
    connection = await host.connect(refusing_server({"elicitations": pages}), name="pay")
    assert (await connection.call("pay")).text == "paid"
    assert [(asked.mode, asked.url) for asked in scripted.asked] == [("url", url) for url in urls]
    connection = await host.connect(refusing_server({"elicitations": pages}), name="other")
    with pytest.raises(ProtocolError, match="URL elicitation required"):
        await connection.call("pay")


async def test_error_that_names_no_page_stays_an_error(host):
    scripted = host.elicitation.elicitor = Scripted()
    data: list[Any] = [None, {}, {"elicitations": []}, {"elicitations": [{"url": 7}]}, "text"]
    connection = await host.connect(refusing_server(*data), name="broken")
    for _ in data:
        with pytest.raises(ProtocolError, match="pages first"):
            await connection.call("pay")
    assert (await connection.call("pay")).text == "paid"
    assert scripted.asked == []


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_page_is_asked_for_with_its_whole_address(host, action):
    scripted = host.elicitation.elicitor = Scripted(Answer(action, {"never": "sent"}))
    connection = await host.connect(url_server("https://pay.example.org/x?id=1"), name="pay")
    assert (await connection.call("pay")).text == action
    assert (scripted.asked[0].mode, scripted.asked[0].url) == ("url", "https://pay.example.org/x?id=1")


NO_URL = "is not an http(s) URL"
NO_HTTPS = "has no https, so others on the network could read what you type there"
NEVER_SHOWN = {
    "javascript:alert(document.cookie)": NO_URL,
    "data:text/html,<script>alert(1)</script>": NO_URL,
    "file:///etc/passwd": NO_URL,
    "ftp://example.org/": NO_URL,
    "https://": NO_URL,
    "https:///path": NO_URL,
    "https://a b/": NO_URL,
    "https://example.org:port/": NO_URL,
    "https://bank.example\\@evil.example/": NO_URL,
    "https://github.com@evil.example/login": "has a user name, which looks like the host: 'github.com@'",
    "https://github.com%2Flogin@evil.example/": "has a user name, which looks like the host: 'github.com%2Flogin@'",
    "http://intranet.example/login": NO_HTTPS,
    "http://127.0.0.1.evil.example/": NO_HTTPS,
    "https://evil.example/?" + "a" * 20_000: "has more than 8,000 characters",
}


@pytest.mark.parametrize("url", NEVER_SHOWN, ids=lambda url: url[:30])
async def test_page_whose_address_deceives_is_not_shown(host, url):
    scripted = host.elicitation.elicitor = Scripted()
    connection = await host.connect(url_server(url), name="pay")
    assert (await connection.call("pay")).text == "decline"
    assert scripted.asked == []
    assert f"a page whose address {NEVER_SHOWN[url]}" in logged(connection)


SHOWN_AS = {
    "https://example.org/a": "example.org",
    "HTTPS://Example.org:444/": "example.org:444",
    "http://[::1]:8000/": "::1:8000",
    "https://\u0430pple.com/login": "xn--pple-43d.com",
    "https://xn--pple-43d.com/login": "xn--pple-43d.com",
    "https://evil.example/\u202emoc.buhtig//:sptth": "evil.example",
    "https://evil.example/https://github.com/login": "evil.example",
    "https://github.com.evil.example/": "github.com.evil.example",
}


@pytest.mark.parametrize("url", SHOWN_AS)
def test_page_is_shown_with_the_host_that_it_leads_to(url):
    part = question_part(Elicitation("pay", "Log in to GitHub", "url", url=url))
    for shown in (part.html, part.plain):
        assert "\u202e" not in shown.replace(f'href="{url}"', "")
    assert f'<b style="font-size:1.15em">{SHOWN_AS[url]}</b>' in part.html
    assert f"open a page at {SHOWN_AS[url]}\n" in part.plain


# Forms that ask for secrets

SECRETS = {
    "password": {"type": "string"},
    "value": {"type": "string", "title": "Your API key"},
    "answer": {"type": "string", "description": "The number on your credit card"},
    "pin": {"type": "integer"},
    "key": {"type": "string", "format": "password"},
}
ENTERED: dict[str, Any] = {
    "password": "hunter2-hunter2",
    "value": "sk-0123456789",
    "answer": "4111111111111111",
    "pin": 9753,
    "key": "s3cr3t-s3cr3t",
}


def asking_server(properties: dict[str, Any], message: str = "Who are you?") -> Server[Any]:
    """Return a low-level server that asks for these, and repeats in its answer what texts it got."""

    def got(content: dict[str, Any]) -> CallToolResult:
        texts = [value for value in content.values() if isinstance(value, str)]
        return CallToolResult(content=[TextContent(text=f"got {len(content)}: {texts}")])

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        schema = {"type": "object", "properties": properties}
        if context.session.protocol_version != "2026-07-28":
            return got((await context.session.elicit_form(message, schema)).content)
        if params.input_responses:
            return got(params.input_responses["form"].content)
        asked = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
        return InputRequiredResult(input_requests={"form": asked}, request_state="s")

    return Server("asker", on_list_tools=tools, on_call_tool=call)


@pytest.mark.parametrize("protocol", ["handshake", "2026-07-28"])
async def test_form_secrets_are_warned_of_and_not_recorded(host, tmp_path, protocol):
    scripted = host.elicitation.elicitor = Scripted(Answer.accept(ENTERED))
    with deck.holding(tmp_path / "cassette.jsonl", "record"):
        connection = await host.connect(asking_server(SECRETS), name="asker", protocol=protocol)
        assert (await connection.call("ask")).text.startswith("got 5: ['hunter2-hunter2'")
        await host.close()
    [asked] = scripted.asked
    for text in (question_part(asked).html, question_part(asked).plain):
        assert "This seems to ask for a secret: password, value, answer, pin, key" in text
        assert "Decline, unless you know why it asks." in text
    outcome = elicitation_question(asked).outcome(Reply("accept", ENTERED), 1.0)
    recorded = [(tmp_path / "cassette.jsonl").read_text(), json.dumps([e.message for e in connection.trace.entries])]
    for text in [*recorded, json.dumps(outcome_bundle([outcome]))]:
        assert "***" in text
        assert not [value for value in ENTERED.values() if str(value) in text]


@pytest.mark.parametrize(
    ("message", "field", "secret"),
    [
        ("Enter your one-time code", {"type": "string"}, True),
        ("Your PIN, please", {"type": "string"}, True),
        ("Paste your GitHub personal access token", {"type": "string"}, True),
        ("Which city?", {"type": "string"}, False),
        ("How many tokens at most?", {"type": "integer", "title": "Max tokens"}, False),
        ("Pin which tab?", {"type": "string", "description": "Its name"}, False),
    ],
    ids=["code", "PIN", "token", "city", "tokens", "tab"],
)
async def test_words_tell_whether_a_form_asks_for_a_secret(host, message, field, secret):
    scripted = host.elicitation.elicitor = Scripted(Answer.decline())
    connection = await host.connect(asking_server({"it": field}, message), name="asker", protocol="handshake")
    with pytest.raises(ToolError):
        await connection.call("ask")
    assert bool(scripted.asked[0].secrets) is secret
    assert ("MCP forbids" in question_part(scripted.asked[0]).plain) is secret


@pytest.mark.parametrize("word", ["a", "pass ", "api key ", "card-", "(?<", "\u202e"])
def test_long_message_is_searched_for_secrets_quickly(word):
    def search(length: int) -> None:
        properties = {str(number): {"type": "string", "description": word * (length // 100)} for number in range(50)}
        secrets_marked({"properties": properties}, word * length)

    assert_linear(search, 6_250, 100_000)


def test_panel_masks_a_field_that_asks_for_a_secret():
    asked = secrets_marked({"type": "object", "properties": {"value": {"type": "string", "title": "Your PIN"}}}, "")
    form = Form(asked)
    assert form.draft == {}
    form.set_arguments({"value": "sk-0123456789"})
    assert ipywidgets.Password in {type(widget) for widget in widgets(form.widget, ipywidgets.Text)}
    form.close()
