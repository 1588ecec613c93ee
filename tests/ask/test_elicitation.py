"""Servers that ask the person in the middle of a call, on both protocol eras."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import inflight
from mcp_magic.ask.elicitation import Answer, Elicitation, question_part
from mcp_magic.display.text import host_of
from mcp_magic.errors import ProtocolError, RequestTimeoutError
from mcp_magic.inflight import InFlightRequest, Report, person_asked
from tests.environments import everything_command, needs_node
from tests.support import SUPPORT
from tests.support.eliciting_server import trip_server, url_server
from tests.support.hosts import logged
from tests.support.persons import Scripted
from tests.support.processes import free_port, start_http
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic._host import Host

TRIP = SUPPORT / "eliciting_server.py"


@pytest.fixture(params=["in process", "stdio"])
def trip(request: pytest.FixtureRequest) -> Any:
    """A server of 2026-07-28: it answers with `input_required` rounds."""
    return trip_server() if request.param == "in process" else [sys.executable, str(TRIP)]


async def test_elicitation_answer_reaches_tool_unless_unsendable(host: Host, trip: Any) -> None:
    answers = {
        "accept Oslo 2": Answer.accept({"city": "Oslo", "days": 2}),
        "accept Oslo 3": Answer.accept({"city": "Oslo"}),
        "decline": Answer.decline(),
        "cancel": Answer.cancel(),
    }
    scripted = host.elicitation.elicitor = Scripted(*answers.values())
    connection = await host.connect(trip, name="trip")

    assert connection.protocol_version == "2026-07-28"
    for text, answer in answers.items():
        assert (await connection.call("plan")).text == text
        asked = scripted.asked[-1]
        assert (asked.server, asked.message, asked.mode) == ("trip", "Where to?", "form")
        assert asked.defaults == {"days": 3}
        assert f"elicitation 'Where to?': {answer.action} (" in logged(connection).splitlines()[-1]
    assert len(scripted.asked) == len(answers)

    scripted.answers += [Answer.accept({"city": "Osl\ud800"}), Answer.accept({"city": "Oslo"})]
    assert (await connection.call("plan")).text == "accept Oslo 3", "a lone surrogate is not sent"
    assert "'Where to?' is asked again: the answer.city: character 4 is '\\ud800'" in logged(connection)
    assert connection.failures == 0


async def test_elicitation_without_elicitor_declines_and_logs_why(host: Host) -> None:
    host.elicitation.elicitor = Scripted()
    connection = await host.connect(trip_server(), name="trip")
    host.elicitation.elicitor = None

    assert (await connection.call("plan")).text == "decline"
    assert "decline: you cannot be asked: host.elicitor is None" in logged(connection)


async def test_a_session_announces_only_what_somebody_answers(host: Host) -> None:
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


async def test_what_does_not_fit_the_schema_is_not_sent(host: Host) -> None:
    scripted = host.elicitation.elicitor = Scripted(*[Answer.accept({"city": "O", "days": "many"})] * 4)
    connection = await host.connect(trip_server(), name="trip")

    assert (await connection.call("plan")).text == "decline"
    assert [bool(asked.problem) for asked in scripted.asked] == [False, True, True]
    assert "'many'" in question_part(scripted.asked[-1]).plain
    assert "your values do not fit: " in logged(connection)
    assert "'many'" in logged(connection)


async def test_an_elicitor_that_fails_declines(host: Host) -> None:
    async def broken(asked: Elicitation) -> Answer:
        raise LookupError(asked.message)

    host.elicitation.elicitor = broken
    connection = await host.connect(trip_server(), name="trip")

    assert (await connection.call("plan")).text == "decline"
    assert "the elicitor failed: LookupError: Where to?" in logged(connection)


async def test_nobody_who_answers_in_time_cancels(host: Host) -> None:
    async def away(asked: Elicitation) -> Answer:
        await asyncio.Event().wait()
        return Answer.accept()

    host.elicitation.elicitor = away
    host.elicitation.timeout = 0.05
    connection = await host.connect(trip_server(), name="trip")

    assert (await connection.call("plan")).text == "cancel"
    assert "cancel: you did not answer within 0.05 s" in logged(connection)


async def test_two_questions_at_once_are_asked_one_after_the_other(host: Host) -> None:
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
        return Answer.accept({"city": "Oslo"}) if question.message == "Where to?" else Answer.decline()

    host.elicitation.elicitor = answers
    connection = await host.connect(trip_server(), name="trip")

    assert (await connection.call_tool("two", {}, timeout=60)).text == "accept decline"
    assert sorted(asked) == ["And then?", "Where to?"]


async def test_the_time_out_stands_still_while_a_person_is_asked(host: Host) -> None:
    loop = asyncio.get_running_loop()

    async def slow(asked: Elicitation) -> Answer:
        until = loop.time() + 1.5  # longer than the call may take
        while loop.time() < until:
            await asyncio.wait({loop.create_future()}, timeout=0.05)
        return Answer.accept({"city": "Oslo"})

    host.elicitation.elicitor = slow
    connection = await host.connect(trip_server(), name="trip")

    assert (await connection.call_tool("plan", {}, timeout=1)).text == "accept Oslo 3"


async def test_the_time_out_goes_on_after_the_answer(host: Host) -> None:
    host.elicitation.elicitor = Scripted(Answer.accept({"city": "Oslo"}))
    connection = await host.connect(trip_server(), name="trip")

    with pytest.raises(RequestTimeoutError, match=r"trip:slow: timed out: no answer within 0\.2 s"):
        await connection.call_tool("slow", {}, timeout=0.2)
    assert connection.state == "open"


async def test_a_call_that_is_cancelled_takes_its_question_with_it(host: Host) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def waits(asked: Elicitation) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Answer.accept()

    host.elicitation.elicitor = waits
    connection = await host.connect(trip_server(), name="trip")
    call = asyncio.create_task(connection.call("plan"))
    await asyncio.wait_for(started.wait(), 60)
    call.cancel()
    await asyncio.wait({call}, timeout=60)

    assert call.cancelled()
    await asyncio.wait_for(ended.wait(), 60)
    assert connection.in_flight == 0


async def test_a_call_may_bring_its_own_elicitor(host: Host) -> None:
    host.elicitation.elicitor = Scripted()
    connection = await host.connect(trip_server(), name="trip")
    own = Scripted(Answer.accept({"city": "Rome"}))

    assert (await connection.call_tool("plan", {}, elicitor=own)).text == "accept Rome 3"


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_page_is_asked_for_with_its_whole_address(host: Host, action: Any) -> None:
    scripted = host.elicitation.elicitor = Scripted(Answer(action, {"never": "sent"}))
    connection = await host.connect(url_server("https://pay.example.org/x?id=1"), name="pay")

    assert (await connection.call("pay")).text == action
    assert scripted.asked[0].mode == "url"
    assert scripted.asked[0].url == "https://pay.example.org/x?id=1"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b/"])
async def test_nobody_is_asked_to_open_anything_but_a_page(host: Host, url: str) -> None:
    scripted = host.elicitation.elicitor = Scripted()
    connection = await host.connect(url_server(url), name="pay")

    assert (await connection.call("pay")).text == "decline"
    assert scripted.asked == []
    assert "not an http(s) URL" in logged(connection)


@pytest.mark.parametrize(
    ("url", "host_"),
    [
        ("https://example.org/a", "example.org"),
        ("HTTPS://Example.org:444/", "example.org:444"),
        ("https://bank.example@evil.example/", "evil.example"),
        ("https://bank.example\\@evil.example/", ""),
        ("http://[::1]:8000/", "::1:8000"),
        ("ftp://example.org/", ""),
        ("https://example.org:port/", ""),
        ("https:///path", ""),
    ],
)
def test_the_host_of_a_page_is_where_it_leads(url: str, host_: str) -> None:
    assert host_of(url) == host_


EVERYTHING = {
    "name": "Ada",
    "check": True,
    "email": "ada@example.org",
    "integer": 7,
    "untitledSingleSelectEnum": "Joey",
}


@needs_node
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_server_everything_asks_by_a_request_of_its_own(host: Host, transport: str) -> None:
    scripted = host.elicitation.elicitor = Scripted(Answer.accept(EVERYTHING), Answer.decline(), Answer.cancel())

    async def check(target: Any) -> None:
        connection = await host.connect(target, name="everything")
        assert connection.protocol_version < "2026"
        texts = ["\n".join((await connection.call_tool(TOOL, {}, timeout=60)).text) for _ in range(3)]
        assert "Ada" in texts[0]
        assert "ada@example.org" in texts[0]
        assert "declined" in texts[1]
        assert "cancelled" in texts[2]
        assert scripted.asked[0].defaults["firstLine"].startswith("It was a dark")
        await host.disconnect("everything")

    await _with_everything(transport, check)


TOOL = "trigger-elicitation-request"


async def _with_everything(transport: str, check: Callable[[Any], Any]) -> None:
    if transport == "stdio":
        await check([*everything_command(), "stdio"])
        return
    port = free_port()
    ready = rf"(?i)(listening|running).*?(?P<port>{port})"
    with start_http(everything_command("streamableHttp"), env={"PORT": str(port)}, ready=ready) as server:
        await check(server.url)


@needs_node
async def test_elicitation_repeats_call_after_page_visits_else_fails(host: Host) -> None:
    scripted = host.elicitation.elicitor = Scripted(*[Answer.accept()] * 3, Answer.decline())
    connection = await host.connect([*everything_command(), "stdio"], name="everything")
    url = "https://example.org/authorize?id=7"
    pages = ["https://modelcontextprotocol.io", url]

    assert not (await connection.call_tool("trigger-url-elicitation", {"url": url}, timeout=60)).is_error
    assert [(asked.mode, asked.url) for asked in scripted.asked] == [("url", url)]
    arguments = {"url": url, "errorPath": True}
    assert not (await connection.call_tool("trigger-url-elicitation", arguments, timeout=60)).is_error
    assert [asked.url for asked in scripted.asked[1:]] == pages
    with pytest.raises(ProtocolError, match="URL elicitation required"):
        await connection.call_tool("trigger-url-elicitation", arguments, timeout=60)


@pytest.mark.parametrize("data", [None, {}, {"elicitations": []}, {"elicitations": [{"url": 7}]}, "text"])
async def test_an_error_that_names_no_page_stays_an_error(host: Host, data: Any) -> None:
    scripted = host.elicitation.elicitor = Scripted()
    server = MCPServer("broken", log_level="ERROR")

    @server.tool()
    async def pay() -> str:
        raise MCPError(code=-32042, message="pages first", data=data)

    connection = await host.connect(server, name="broken")

    with pytest.raises(ProtocolError, match="pages first"):
        await connection.call("pay")
    assert scripted.asked == []


async def test_the_time_of_a_question_is_not_the_servers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflight, "WAIT_SECONDS", 0.3)
    shown: list[Report] = []
    host.reports.reporter = shown.append  # type: ignore[assignment]
    asked: list[float] = []

    async def elicitor(request: Elicitation) -> Answer:
        started = time.perf_counter()
        while time.perf_counter() < started + 0.9:
            assert not any(report.waits for report in shown), "the panel with the question says what is waited for"
            await asyncio.sleep(0.05)
        asked.append(time.perf_counter() - started)
        return Answer.accept({"city": "Oslo"})

    host.elicitation.elicitor = elicitor
    connection = await host.connect(trip_server(), name="trip")
    started = time.perf_counter()
    calling = asyncio.create_task(connection.call("slow"))
    await until(lambda: bool(asked) and any(report.waits for report in shown))

    assert shown[-1].seconds <= time.perf_counter() - started - asked[0]
    calling.cancel()
    await asyncio.wait({calling})


async def test_a_log_in_in_the_course_of_a_call_stops_its_clock() -> None:
    loop = asyncio.get_running_loop()
    call = InFlightRequest(seconds=0.5)

    async def logs_in() -> str:
        with person_asked():
            until = loop.time() + 0.8
            while loop.time() < until:
                await asyncio.wait({loop.create_future()}, timeout=0.05)
        return "in"

    assert await call.wait(logs_in(), []) == "in"
    with person_asked():  # outside of a call nothing happens
        pass
