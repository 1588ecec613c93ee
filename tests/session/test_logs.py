"""Log messages: how much a server is asked to log, which call they concern, and following them; on both eras."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import pytest
from mcp_types import LoggingLevel

from mcp_magic.errors import ArgumentsError, ProtocolError
from mcp_magic.protocol import LEVELS, at_least
from mcp_magic.watch import LogFollower
from tests.support.processes import PLAIN
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until
from tests.support.watching import SERVER, Watching, reports

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


def texts(connection: Connection) -> list[Any]:
    return [message.data for message in connection.notices.messages]


async def logged(connection: Connection, count: int) -> list[Any]:
    """Return what was logged, once there is as much."""
    async with asyncio.timeout(60):
        while len(texts(connection)) < count:
            await asyncio.sleep(0.01)
    return texts(connection)


def test_the_levels_are_those_of_the_protocol() -> None:
    assert get_args(LoggingLevel) == LEVELS
    assert [level for level in LEVELS if at_least(level, "error")] == ["error", "critical", "alert", "emergency"]
    assert not any(at_least(level, "off") for level in LEVELS)


async def test_log_level_is_obeyed_and_messages_belong_to_calls(
    host: Host,
    target: Any,
    watching: Watching,
    request: pytest.FixtureRequest,
) -> None:
    connection = await reports(host, target)

    await connection.call("log", level="info", data="unimportant")
    await connection.call("log", level="error", data={"disk": "full"}, count=2)
    await connection.call("level")
    [report] = watching.reports
    assert (report.title, report.logged, dict(report.levels)) == ("reports:log", 2, {"error": 2})
    assert [(message.logger, message.data) for message in report.messages] == [("reports", '{"disk": "full"}')] * 2

    watching.shown.clear()
    await asyncio.gather(*(connection.call("log", level="error", data=str(n)) for n in range(5)))
    assert sorted(message.data for report in watching.reports for message in report.messages) == list("01234")
    assert "stdio" in request.node.name or all(report.logged == 1 for report in watching.reports), "told apart"

    seen = len(await logged(connection, 8))
    assert await connection.set_log_level("error")
    await connection.call("log", level="warning", data="quiet")
    await connection.call("log", level="error", data="loud")
    assert (await logged(connection, seen + 1))[seen:] == ["loud"]
    await connection.set_log_level("debug")
    await connection.call("log", level="debug", data="soft")
    assert (await logged(connection, seen + 2))[seen:] == ["loud", "soft"]


@pytest.mark.parametrize("era", ["2026-07-28", "2025-06-18"])
async def test_the_level_is_kept_when_the_session_is_opened_again(host: Host, era: str) -> None:
    connection = await host.connect([*PLAIN, era], name="reports")
    await connection.set_log_level("debug")

    again = await host.reconnect("reports")
    await again.call("log", text="soft", level="debug")

    assert await logged(again, 1) == ["soft"]
    assert (await again.call("level")).text == ("debug" if era == "2025-06-18" else "")


async def test_a_server_is_told_nothing_unless_the_person_says_so(host: Host) -> None:
    connection = await reports(host, protocol="handshake")

    assert (await connection.call("level")).text == "None"
    assert "logging/setLevel" not in [entry.method for entry in connection.trace.entries]


async def test_an_unknown_level_is_refused_before_anything_is_sent(host: Host) -> None:
    connection = await reports(host)

    with pytest.raises(ArgumentsError, match=r"'warn' is not a log level\. Did you mean 'warning'\? There are: debug"):
        await connection.set_log_level("warn")
    assert connection.notices.logs.level is None


async def test_a_server_that_refuses_leaves_all_as_it_was(host: Host) -> None:
    connection = await reports(host, reporting_server(refusing=True), protocol="handshake")

    with pytest.raises(ProtocolError, match=r"reports: logging/setLevel: .*no levels here"):
        await connection.set_log_level("debug")
    assert connection.notices.logs.level is None


# Which call a message concerns


async def test_stdio_log_message_says_if_its_call_is_uncertain(
    host: Host,
    tmp_path: Path,
    watching: Watching,
) -> None:
    connection = await reports(host, [*SERVER, "--era", "handshake"])
    holding = asyncio.create_task(connection.call("hold", folder=str(tmp_path)))
    await until(lambda: (tmp_path / "started").exists())

    await connection.call("log", level="error", data="whose?")
    (tmp_path / "go").touch()
    await holding
    await connection.call("log", level="error", data="mine")

    told = [(report.title, report.state, report.messages[0].logger) for report in watching.reports]
    assert told == [("reports:log", "done", "reports (of one of 2 calls)"), ("reports:log", "done", "reports")]
    assert [message.logger for message in connection.notices.messages] == ["reports", "reports"]


async def test_a_report_keeps_the_last_messages_and_counts_all(host: Host, watching: Watching) -> None:
    connection = await reports(host)

    await connection.call("log", level="error", data="again", count=500)

    assert (watching.reports[0].logged, len(watching.reports[0].messages)) == (500, 50)


async def test_secrets_are_masked_in_reports(host: Host, watching: Watching) -> None:
    connection = await host.connect(PLAIN, name="reports", env={"API_TOKEN": "sesame-123"})

    await connection.call("log", text="using sesame-123")
    await connection.call("work", text="with sesame-123")

    assert watching.reports[0].messages[0].data == "using ***"
    assert "sesame" not in watching.reports[1].words()


# Following


async def test_what_is_new_is_followed_also_on_the_next_session(host: Host) -> None:
    connection = await host.connect(PLAIN, name="reports", env={"API_TOKEN": "sesame-123"})
    await connection.call("stderr", text="before")
    seen: list[tuple[str, str]] = []

    async def until(text: str) -> None:
        async with asyncio.timeout(60):
            while not any(text in said for _, said in seen):
                seen.extend((message.logger, message.data) for message in await follower.take() or ())

    with LogFollower(lambda: host.connections.get("reports")) as follower:
        await connection.call("log", text="first")
        await until("first")
        await connection.call("stderr", text="using sesame-123")
        await until("using")
        again = await host.reconnect("reports")
        await follower.take()
        await again.call("stderr", text="of the next")
        await until("of the next")
        await host.disconnect("reports")
        async with asyncio.timeout(60):
            while await follower.take() is not None:
                pass

    assert seen == [("plain", "first"), ("stderr", "using ***"), ("stderr", "of the next")]
    assert again.notices.logs.watchers == []


async def test_following_ends_with_its_context(host: Host) -> None:
    connection = await host.connect(reporting_server(), name="reports")
    with LogFollower(lambda: connection) as follower:
        assert len(connection.notices.logs.watchers) == 1
        assert await follower.take() == []
    assert connection.notices.logs.watchers == []
