"""What servers report in the course of a call, and time-outs that begin anew, on both protocol eras."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._text import duration
from mcp_magic.errors import CallCancelledError, RequestTimeoutError
from mcp_magic.inflight import ProgressMeter, Report
from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.proxy import proxied
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

SERVER = [sys.executable, str(SUPPORT / "reporting_server.py")]
WAYS = ("in process", "stdio, handshake", "http")


class Watching:
    """A reporter that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Report] = []
        self.changes = 0
        self.seen: list[str] = []

    @property
    def reports(self) -> list[Report]:
        """Those with progress or log messages; on a busy machine others may take a second, too."""
        return [report for report in self.shown if report.meter.count or report.logged]

    def __call__(self, report: Report) -> Callable[[], None]:
        self.shown.append(report)

        def changed() -> None:
            self.changes += 1
            if report in self.reports:
                self.seen.append(report.state)

        return changed


@pytest.fixture(params=WAYS)
async def target(request: pytest.FixtureRequest, host: Host) -> AsyncIterator[Any]:
    """The server over each transport, on both eras."""
    if request.param == "http":
        async with serving(reporting_server().streamable_http_app()) as url:
            yield f"{url}/mcp"
            await host.close()
    else:
        yield reporting_server() if request.param == "in process" else [*SERVER, "--era", "handshake"]


@pytest.fixture
def watching(host: Host) -> Watching:
    host.reports.reporter = watching = Watching()
    return watching


async def reports(host: Host, target: Any = None, **options: Any) -> Connection:
    return await host.connect(reporting_server() if target is None else target, name="reports", **options)


async def reported(watching: Watching, count: int = 1) -> None:
    """Wait until as many calls have reported."""
    async with asyncio.timeout(60):
        while len(watching.reports) < count:
            await asyncio.sleep(0.01)


async def test_calls_reads_and_prompts_report_progress_and_outcome(
    host: Host, target: Any, watching: Watching, request: pytest.FixtureRequest
) -> None:
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


async def test_calls_at_the_same_time_report_apart(host: Host, watching: Watching) -> None:
    connection = await reports(host, protocol="handshake")

    await asyncio.gather(*(connection.call("work", values=[n, n + 1], total=100) for n in (10, 20, 30)))

    assert sorted(report.meter.done for report in watching.reports) == [11, 21, 31]


async def test_a_call_that_reports_nothing_is_not_shown(host: Host, watching: Watching) -> None:
    connection = await reports(host)

    await connection.call("level")

    assert watching.reports == []


async def test_a_tool_that_fails_says_so(host: Host, watching: Watching) -> None:
    connection = await reports(host)

    assert (await connection.call_tool("fail", {})).is_error

    assert watching.reports[0].state == "failed"


async def test_who_follows_a_call_itself_has_it_alone(host: Host, watching: Watching) -> None:
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    connection = await reports(host)
    await connection.call_tool("work", {"values": [1, 2], "total": 2}, on_progress=on_progress)

    assert seen == [(1, 2, None), (2, 2, None)]
    assert watching.reports == []


async def test_nobody_asks_for_progress_where_nobody_looks_on(host: Host) -> None:
    connection = await reports(host)
    await connection.call("work", values=[1], total=1)

    asked = next(entry for entry in connection.trace.entries if entry.method == "tools/call")
    assert "progressToken" not in asked.text.decode()


async def test_a_reporter_that_fails_does_not_fail_the_call(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    def broken(report: Report) -> None:
        raise RuntimeError("no screen")

    host.reports.reporter = broken
    connection = await reports(host)

    assert (await connection.call("work", values=[1, 2])).text == "2 reports"
    assert caplog.text.count("what reports:work reports cannot be shown") == 1


async def test_thousands_of_reports_all_arrive(host: Host, watching: Watching) -> None:
    connection = await reports(host, SERVER)

    await connection.call("burst", count=2000)

    assert watching.reports[0].meter.count == 2000


# Cancelling


async def test_silent_call_is_shown_after_a_second_until_its_end(host: Host, watching: Watching) -> None:
    server = MCPServer("quiet", log_level="ERROR")
    release = asyncio.Event()

    @server.tool()
    async def hi() -> str:
        await release.wait()
        return "hi"

    connection = await host.connect(server, name="quiet")
    call = asyncio.create_task(connection.call("hi"))
    await until(lambda: watching.changes >= 2)
    [report] = watching.shown
    assert (report.title, report.waits, report.words()) == ("quiet:hi", True, duration(report.seconds))
    assert report.seconds >= 1.5
    release.set()
    assert (await call).text == "hi"
    assert (report.state, report.waits) == ("done", False)
    await connection.call("hi")
    assert watching.shown == [report], "a quick call is not shown"


async def test_slow_start_shows_last_line_and_can_be_cancelled(host: Host, watching: Watching) -> None:
    program = "import sys, time; print('installing', file=sys.stderr, flush=True); time.sleep(60)"
    opening = asyncio.create_task(host.connect([sys.executable, "-c", program], name="slow"))
    await until(lambda: bool(watching.shown))
    [report] = watching.shown
    assert report.title.startswith("starting ")
    assert report.words().endswith("s · installing")
    report.cancel()
    with pytest.raises(CallCancelledError, match=r"^slow: not connected: cancelled\.$"):
        await opening
    assert report.state == "cancelled"
    assert "slow" not in host.connections


async def test_call_waiting_for_session_shows_next_attempt(host: Host, watching: Watching) -> None:
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


async def test_cancelling_call_tells_server_and_keeps_session(
    host: Host, target: Any, watching: Watching, tmp_path: Path
) -> None:
    connection = await reports(host, target)
    failures = connection.failures
    calling = asyncio.create_task(connection.call("hold", folder=str(tmp_path), done=1, total=2))
    await reported(watching)

    watching.reports[0].cancel()
    with pytest.raises(CallCancelledError) as caught:
        await calling

    assert str(caught.value) == "reports:hold: cancelled."
    assert caught.value.__context__ is None
    assert not calling.cancelled()
    assert watching.reports[0].state == "cancelled"
    assert connection.failures == failures
    async with asyncio.timeout(60):
        while not (tmp_path / "cancelled").exists():
            await asyncio.sleep(0.01)
    assert (await connection.call("work", values=[1])).text == "1 reports"


async def test_one_of_several_calls_is_cancelled_and_the_others_go_on(
    host: Host, watching: Watching, tmp_path: Path
) -> None:
    connection = await reports(host)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    calling = asyncio.gather(
        *(connection.call("hold", folder=str(folder), done=n) for n, folder in enumerate(folders)),
        return_exceptions=True,
    )
    await reported(watching, 2)

    next(report for report in watching.reports if report.meter.done == 0).cancel()
    (folders[1] / "go").touch()
    cancelled, done = await calling

    assert isinstance(cancelled, CallCancelledError)
    assert done.text == "gone on"


async def test_a_task_that_is_cancelled_from_outside_stays_cancelled(
    host: Host, watching: Watching, tmp_path: Path
) -> None:
    connection = await reports(host)
    calling = asyncio.create_task(connection.call("hold", folder=str(tmp_path), done=1))
    await reported(watching)

    watching.reports[0].cancel()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert watching.reports[0].state == "interrupted"


async def test_cancelling_what_has_ended_does_nothing(host: Host, watching: Watching) -> None:
    connection = await reports(host)
    await connection.call("work", values=[1])

    watching.reports[0].cancel()

    assert (await connection.call("work", values=[1])).text == "1 reports"


# Time-outs


async def test_a_time_out_begins_anew_with_each_report(host: Host) -> None:
    connection = await reports(host)

    result = await connection.call_tool("work", {"values": list(range(8)), "every": 0.25}, timeout=1.5)

    assert result.text == "8 reports"
    assert result.seconds > 1.5


async def test_after_the_last_report_the_time_runs(host: Host, tmp_path: Path) -> None:
    connection = await reports(host)
    with pytest.raises(RequestTimeoutError) as caught:
        await connection.call_tool("hold", {"folder": str(tmp_path), "done": 1}, timeout=1)

    assert str(caught.value) == ("reports:hold: timed out: no progress for 1 s. The call was cancelled.")


@pytest.mark.parametrize(
    ("timeout", "options"), [(30, {"max_total_timeout": 0.5}), (None, {"max_total_timeout": 0.5}), (0.5, {})]
)
async def test_a_call_that_reports_for_ever_ends_all_the_same(
    host: Host, timeout: float | None, options: dict[str, float]
) -> None:
    host.reports.max_total_timeout = 0.5
    connection = await reports(host)
    with pytest.raises(RequestTimeoutError) as caught:
        await connection.call_tool("work", {"values": [1] * 10_000, "every": 0.01}, timeout=timeout, **options)

    assert "reports:work: timed out: no answer within 0.5 s in total (--max-total-timeout S waits longer)" in str(
        caught.value
    )


# Figures


def metered(*notes: tuple[float, float | None], seconds: float = 1.0) -> ProgressMeter:
    meter = ProgressMeter()
    for number, (progress, total) in enumerate(notes):
        meter.note(progress, total, None, number * seconds)
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
def test_figures_say_what_can_be_said(notes: list[tuple[float, float | None]], figures: list[str]) -> None:
    assert metered(*notes).figures() == figures


@pytest.mark.parametrize(("progress", "share"), [(-1, 0), (0, 0), (3, 0.3), (10, 1), (1e9, 1)])
def test_the_share_stays_between_nothing_and_all(progress: float, share: float) -> None:
    assert metered((progress, 10)).share == pytest.approx(share)


def test_a_report_on_one_line_has_no_line_end_of_the_server() -> None:
    report = Report("x", "x:y")
    report.meter.note(1, 2, "a\nb\x1b[2J", 0.0)

    assert report.words().endswith("a b\\x1b[2J")
