"""What servers report in the course of a call, and how a call is cancelled, on both protocol eras."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._text import duration
from mcp_magic.ask.elicitation import Answer
from mcp_magic.errors import CallCancelledError, RequestTimeoutError, SessionError
from mcp_magic.flight import progress
from mcp_magic.flight.progress import ProgressMeter, Report, Reports
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.processes import PLAIN
from tests.support.proxy import proxied
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until
from tests.support.watching import Watching, reported, reports


@pytest.fixture
def impatient(monkeypatch):
    """Show what waits after half a second."""
    monkeypatch.setattr(progress, "WAIT_SECONDS", 0.5)


async def test_calls_reads_and_prompts_report_progress_and_outcome(host, target, watching, request):
    connection = await reports(host, target)
    assert connection.protocol_version == ("2025-11-25" if "handshake" in request.node.name else "2026-07-28")
    await connection.call("work", values=[1, 2, 3], total=4, message="<b>hi</b>")
    report = watching.reports[0]
    assert (report.server, report.title, report.state) == ("reports", "reports:work", "done")
    assert (report.meter.done, report.meter.total, report.meter.count) == (3, 4, 3)
    assert report.meter.message == "<b>hi</b>"
    assert watching.seen == ["running"] * 3 + ["done"]

    await connection.read("reports://long")
    await connection.prompt("slow")
    assert [(report.title, report.meter.done, report.meter.message) for report in watching.reports[1:]] == [
        ("reports: reports://long", 4, "reading"),
        ("reports:slow", 1, "thinking"),
    ]


async def test_only_calls_that_report_are_shown_each_apart(host, watching):
    connection = await reports(host, protocol="handshake")
    await connection.call("level")
    assert watching.reports == []
    await asyncio.gather(*(connection.call("work", values=[n, n + 1], total=100) for n in (10, 20, 30)))
    assert sorted(report.meter.done for report in watching.reports) == [11, 21, 31]
    watching.reports[0].cancel()  # which has ended
    assert (await connection.call_tool("fail", {})).is_error
    assert watching.reports[-1].state == "failed"


async def test_a_progress_callback_replaces_the_reporter(host, watching, caplog):
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    def broken(report: Report) -> None:
        raise RuntimeError("no screen")

    connection = await reports(host)
    await connection.call_tool("work", {"values": [1, 2], "total": 2}, on_progress=on_progress)
    assert (seen, watching.reports) == ([(1, 2, None), (2, 2, None)], [])
    host.reports.reporter = broken
    assert (await connection.call("work", values=[1, 2])).text == "2 reports"
    assert caplog.text.count("what reports:work reports cannot be shown") == 1


async def test_progress_is_asked_for_only_where_somebody_looks_on(host):
    connection = await host.connect(PLAIN, name="plain")
    await connection.call("add", a=1, b=1)
    host.reports.reporter = Watching()
    await connection.call("add", a=1, b=1)
    asked = [entry for entry in connection.trace.entries if entry.method == "tools/call" and entry.kind == "request"]
    assert ["progressToken" in entry.text.decode() for entry in asked] == [False, True]


async def test_thousands_of_reports_all_arrive(host, watching):
    await (await host.connect(PLAIN, name="plain")).call("burst", count=2000)
    assert watching.reports[0].meter.count == 2000


# What waits


@pytest.mark.usefixtures("impatient")
async def test_silent_call_is_shown_after_a_while_until_its_end(host, watching):
    server, release = MCPServer("quiet", log_level="ERROR"), asyncio.Event()

    @server.tool()
    async def hi() -> str:
        await release.wait()
        return "hi"

    connection = await host.connect(server, name="quiet")
    call = asyncio.create_task(connection.call("hi"))
    await until(lambda: watching.changes >= 2)
    [report] = watching.shown
    assert (report.title, report.waits, report.words()) == ("quiet:hi", True, duration(report.seconds))
    assert report.seconds >= 0.75
    release.set()
    assert (await call).text == "hi"
    assert (report.state, report.waits) == ("done", False)
    await connection.call("hi")
    assert watching.shown == [report], "a quick call is not shown"


@pytest.mark.usefixtures("impatient")
def test_a_wait_is_shown_after_a_loop_has_closed_with_another(impatient):
    shown = []

    class Waiting:
        def show(self) -> None:
            shown.append(self)

    async def begin_and_leave() -> None:
        reports_of_kernel.begin(Waiting())

    async def begin_and_wait() -> None:
        reports_of_kernel.begin(late := Waiting())
        await until(lambda: late in shown)

    reports_of_kernel = Reports()
    asyncio.run(begin_and_leave())
    asyncio.run(begin_and_wait())


async def test_slow_start_shows_last_line_and_can_be_cancelled(host, watching):
    program = "import sys, time; print('installing', file=sys.stderr, flush=True); time.sleep(60)"
    opening = asyncio.create_task(host.connect([sys.executable, "-c", program], name="slow"))
    await until(lambda: any(report.words().endswith("s · installing") for report in watching.shown))
    [report] = watching.shown
    assert report.title.startswith("starting ")
    report.cancel()
    with pytest.raises(CallCancelledError, match=r"^slow: not connected: cancelled\.$"):
        await opening
    assert report.state == "cancelled"
    assert "slow" not in host.connections


@pytest.mark.usefixtures("impatient")
async def test_call_waiting_for_session_shows_next_attempt(host, watching):
    async with serving(reporting_server().streamable_http_app()) as url, proxied(url) as proxy:
        connection = await host.connect(proxy.url("/mcp"), name="away")
        proxy.refuse()
        proxy.cut()
        call = asyncio.create_task(connection.call("work"))
        await until(lambda: any("reconnecting, lost" in report.words() for report in watching.shown))
        assert re.search(
            r"reconnecting, lost \S+ s ago, tried .*, (next in \d+ s|being tried now)", watching.shown[-1].words()
        )
        call.cancel()
        await asyncio.wait({call})
        await host.close()


# Cancelling


@pytest.mark.parametrize("way", ["in process", "http"])
async def test_cancelling_call_tells_server_and_keeps_session(host, watching, tmp_path, way):
    server = reporting_server()
    async with serving(server.streamable_http_app()) as url:
        connection = await reports(host, server if way == "in process" else f"{url}/mcp")
        failures = connection.failures
        calling = asyncio.create_task(connection.call("hold", folder=str(tmp_path), done=1, total=2))
        await reported(watching)
        watching.reports[0].cancel()
        with pytest.raises(CallCancelledError) as caught:
            await calling
        assert (str(caught.value), caught.value.__context__) == ("reports:hold: cancelled.", None)
        assert not calling.cancelled()
        assert (watching.reports[0].state, connection.failures) == ("cancelled", failures)
        await until((tmp_path / "cancelled").exists)
        assert (await connection.call("work", values=[1])).text == "1 reports"
        await host.close()


async def test_one_call_is_cancelled_or_interrupted_and_others_go_on(host, watching, tmp_path):
    connection = await reports(host)
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    calls = [
        asyncio.create_task(connection.call("hold", folder=str(folder), done=n)) for n, folder in enumerate(folders)
    ]
    await reported(watching, 3)
    first, _, last = sorted(watching.reports, key=lambda report: report.meter.done)
    first.cancel()
    last.cancel()
    calls[2].cancel()  # from outside, which counts
    (folders[1] / "go").touch()
    cancelled, done, interrupted = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(cancelled, CallCancelledError)
    assert getattr(done, "text", "") == "gone on"
    assert isinstance(interrupted, asyncio.CancelledError)
    assert last.state == "interrupted"


@pytest.mark.parametrize(
    ("timeout", "options"), [(30, {"max_total_timeout": 0.5}), (None, {"max_total_timeout": 0.5}), (0.5, {})]
)
async def test_a_call_that_reports_for_ever_ends_all_the_same(host, timeout, options):
    host.reports.max_total_timeout = 0.5
    connection = await reports(host)
    said = r"reports:work: timed out: no answer within 0\.5 s in total \(--max-total-timeout S waits longer\)"
    with pytest.raises(RequestTimeoutError, match=said):
        await connection.call_tool("work", {"values": [1] * 10_000, "every": 0.01}, timeout=timeout, **options)


# Servers that ask again although they were refused

ASKS_AGAIN = """
import json, sys
from tests.support.speaking import LEGACY, answer_to

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") != "tools/call":
        if (answer := answer_to(message, LEGACY, ["go"])) is not None:
            say(**answer)
        continue
    asked, answer = 0, {}
    while answer.get("method") != "notifications/cancelled" and answer.get("result", {}).get("action") != "accept":
        asked += 1
        say(id=f"q{asked}", method=METHOD, params=PARAMS)
        answer = {}
        while answer.get("id") != f"q{asked}" and answer.get("method") != "notifications/cancelled":
            answer = json.loads(sys.stdin.readline())
"""
SAID = {"role": "user", "content": {"type": "text", "text": "hi"}}
FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("elicitation/create", FORM, id="elicitation"),
        pytest.param("sampling/createMessage", {"messages": [SAID], "maxTokens": 9}, id="sampling"),
        pytest.param("sampling/createMessage", {"messages": [], "maxTokens": 9}, id="senseless"),
    ],
)
async def test_a_call_that_repeats_refused_questions_is_ended(host, method, params):
    async def declines(question: Any) -> Answer:
        return Answer.decline()

    async def fails(request: Any) -> Any:
        raise ValueError("no model here")

    host.elicitation.elicitor, host.sampling.sampler = declines, fails
    host.elicitation.max_questions = 2
    command = [sys.executable, "-c", ASKS_AGAIN.replace("METHOD", repr(method)).replace("PARAMS", repr(params))]
    connection = await host.connect(command, name="asks", protocol="handshake", sampling="auto", cwd=str(ROOT))
    with pytest.raises(SessionError) as error:
        await connection.call("go")
    assert str(error.value) == "asks:go: asked 4 times and was refused; given up. It was cancelled."
    await connection.ping()


# Figures


def metered(*notes: tuple[float, float | None]) -> ProgressMeter:
    meter = ProgressMeter()
    for number, (value, total) in enumerate(notes):
        meter.note(value, total, None, float(number))
    return meter


@pytest.mark.parametrize(
    ("notes", "figures"),
    [
        ([(1, 4), (2, 4)], ["2 of 4 (50 %)", "1/s", "2 s left"]),
        ([(1, None), (3, None)], ["3", "2/s"]),
        ([(5, 0)], ["5"]),
        ([(5, -1)], ["5"]),
        ([(5, math.nan)], ["5"]),
        ([(5, math.inf)], ["5"]),
        ([(1, 10), (2, None)], ["2 of 10 (20 %)", "1/s", "8 s left"]),
        ([(12, 10)], ["12 of 10 (100 %)"]),
        ([(-3, 10)], ["-3 of 10 (0 %)"]),
        ([(3, 10), (math.nan, 10)], ["3 of 10 (30 %)"]),
        ([(math.inf, 10)], ["0 of 10 (0 %)"]),
        ([(90, 100), (100, 100), (10, 50), (20, 50)], ["20 of 50 (40 %)", "10/s", "3 s left"]),
        ([(999, 1000)], ["999 of 1,000 (99 %)"]),
        ([(1e300, 1e308)], ["1e+300 of 1e+308 (0 %)"]),
    ],
)
def test_progress_figures_are_formatted(notes, figures):
    assert metered(*notes).figures() == figures


def test_the_share_stays_between_nothing_and_all_on_one_line():
    for value, share in ((-1, 0), (0, 0), (3, 0.3), (10, 1), (1e9, 1)):
        assert metered((value, 10)).share == pytest.approx(share)
    report = Report("x", "x:y")
    report.meter.note(1, 2, "a\nb\x1b[2J", 0.0)
    assert report.words().endswith("a b\\x1b[2J")
