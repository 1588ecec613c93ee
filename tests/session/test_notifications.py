"""Log messages: how much a server is asked to log, which call they concern, and how much of a flood is kept."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import LoggingMessageNotificationParams

from mcp_magic.errors import ArgumentsError, ProtocolError
from mcp_magic.session.notifications import Logs
from tests.environments import ROOT
from tests.support import SUPPORT
from tests.support.processes import PLAIN
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until
from tests.support.watching import SERVER, reports

if TYPE_CHECKING:
    from mcp_magic.session.connection import Connection

FLOOD = [sys.executable, str(SUPPORT / "flood_server.py")]


async def logged(connection: Connection, count: int) -> list[Any]:
    """Return what was logged, once there is as much."""
    await until(lambda: len(connection.notices.messages) >= count)
    return [message.data for message in connection.notices.messages]


async def test_the_level_is_obeyed_and_messages_belong_to_calls(host, target, watching, request):
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
async def test_the_level_is_kept_on_the_next_session(host, era):
    connection = await host.connect([*PLAIN, era], name="reports")
    await connection.set_log_level("debug")
    again = await host.reconnect("reports")
    await again.call("log", text="soft", level="debug")
    assert await logged(again, 1) == ["soft"]
    assert (await again.call("level")).text == ("debug" if era == "2025-06-18" else "")


async def test_only_a_level_that_exists_is_sent(host):
    connection = await reports(host, protocol="handshake")
    assert (await connection.call("level")).text == "None"
    assert "logging/setLevel" not in [entry.method for entry in connection.trace.entries]
    with pytest.raises(ArgumentsError, match=r"'warn' is not a log level\. Did you mean 'warning'\? There are: debug"):
        await connection.set_log_level("warn")
    assert connection.notices.logs.level is None
    assert "logging/setLevel" not in [entry.method for entry in connection.trace.entries]


async def test_a_server_that_refuses_a_level_keeps_its_own(host):
    connection = await reports(host, reporting_server(refusing=True), protocol="handshake")
    with pytest.raises(ProtocolError, match=r"reports: logging/setLevel: .*no levels here"):
        await connection.set_log_level("debug")
    assert connection.notices.logs.level is None


async def test_a_message_says_if_its_call_is_uncertain(host, tmp_path, watching):
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


async def test_a_report_keeps_the_last_messages_masked(host, watching):
    connection = await reports(host)
    await connection.call("log", level="error", data="again", count=500)
    assert (watching.reports[0].logged, len(watching.reports[0].messages)) == (500, 50)
    connection = await host.connect(PLAIN, name="plain", env={"API_TOKEN": "sesame-123"})
    await connection.call("log", text="using sesame-123")
    await connection.call("work", text="with sesame-123")
    assert watching.reports[1].messages[0].data == "using ***"
    assert "sesame" not in watching.reports[2].words()


# Floods


def test_floods_leave_little_in_the_memory():
    command = [sys.executable, "-m", "tests.support.flood_victim"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = [json.loads(line.removeprefix("FLOOD ")) for line in ran.stdout.splitlines() if line.startswith("FLOOD ")]
    assert [tool for tool, *_ in told] == ["log", "progress", "ask", "update", "change", "stderr", "list"]
    for _, _, kept, traced, written in told:
        assert (kept <= 4_000_000, traced <= 64_000_000, written <= 1 << 16) == (True, True, True)


async def test_long_log_messages_are_cut_and_only_the_last_kept(host):
    connection = await host.connect(FLOOD, name="flood")
    await connection.call_tool("log", {"count": 1, "size": 1_000_000})
    [message] = connection.notices.messages
    assert message.data == f"0 {'x' * 19_998}… (1,000,002 characters)"
    await connection.call_tool("log", {"count": 400, "size": 20_000})
    kept = [message.data.partition(" ")[0] for message in connection.notices.messages]
    assert kept == [str(number) for number in range(400 - len(kept), 400)]
    assert 150 < len(kept) < 200


async def test_a_huge_structure_is_kept_cut_and_masked():
    long = "x" * 100_000
    logs = Logs(masked=lambda text: text.replace("hunter2-hunter2", "***"))
    data = {"rows": [{"a": long}] * 9999}
    await logs(LoggingMessageNotificationParams(level="info", logger="l" * 10**6, data=data))
    await logs(LoggingMessageNotificationParams(level="info", data="x" * 19_990 + "hunter2-hunter2" + long))
    first, second = logs.messages
    assert len(first.logger) == 200
    assert len(str(first.data)) < 100_000
    assert "hunter" not in second.data, "a secret is masked before a message is cut"
