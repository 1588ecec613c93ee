"""How often, how long and whether at all a lost session is tried again."""

from __future__ import annotations

import asyncio
import re
import sys
import time

import pytest

from mcp_magic import errors
from mcp_magic.session.failures import away
from mcp_magic.session.reconnect import Reconnection
from tests.environments import ROOT
from tests.support.counting import Counting, behind_proxy
from tests.support.waiting import until


async def test_a_call_that_waits_in_vain_says_so_and_was_not_sent(quick):
    quick.reconnection.wait = 1.0  # in which it is tried at least once
    server = Counting()
    async with behind_proxy(quick, server.app()) as (connection, proxy):
        proxy.lose()
        with pytest.raises(errors.SessionClosedError) as caught:
            await connection.call("count")
        assert str(caught.value).startswith("counting:count: not sent: the session did not come back within 1 s")
        assert "`%mcp reconnect counting` tries it at once.\n  last: counting: nothing listens at" in str(caught.value)
        assert (caught.value.sent, caught.value.waited) == (False, True)
        with pytest.raises(errors.SessionClosedError, match=r"within 0\.05 s"):
            await connection.call_tool("count", {}, timeout=0.05)
        assert server.runs == []


async def test_reconnecting_gives_up_and_reports_attempts(quick):
    quick.reconnection.total = 0.1
    async with behind_proxy(quick, Counting().app()) as (connection, proxy):
        proxy.lose()
        with pytest.raises(errors.SessionClosedError, match="given up after") as caught:
            await connection.call("count")
        assert connection.state == "lost"
        assert "`%mcp reconnect counting` opens it again" in str(caught.value)
        await proxy.listen()
        assert await quick.reconnect("counting") is connection
        assert (await connection.call("count")).data == 1


async def test_reconnect_or_disconnect_by_hand_act_at_once(quick):
    quick.reconnection.first = quick.reconnection.longest = 60.0
    quick.reconnection.wait = 30.0
    async with behind_proxy(quick, Counting().app()) as (connection, proxy):
        proxy.lose()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        await proxy.listen()
        assert await quick.reconnect("counting") is connection
        assert (await waiting).data == 1, "the calls that wait go on"
        proxy.lose()
        waiting = asyncio.create_task(connection.call("count"))
        await until(lambda: "tried" in connection.problem)
        begun = time.monotonic()
        await quick.disconnect("counting")
        assert time.monotonic() - begun < 20.0
        with pytest.raises(errors.SessionClosedError):
            await waiting
        assert connection.state == "closed"


@pytest.mark.parametrize(("mode", "reconnect"), [("off", None), ("remote", False)])
async def test_nothing_is_opened_again_where_that_is_switched_off(quick, mode, reconnect):
    quick.reconnection.mode = mode
    async with behind_proxy(quick, Counting().app(), reconnect=reconnect) as (connection, proxy):
        proxy.lose()
        with pytest.raises(errors.SessionClosedError, match=r"`%mcp reconnect counting` opens it again\."):
            await connection.call("count")
        await until(lambda: connection.state == "lost")


async def test_server_that_keeps_dying_is_restarted_ever_more_slowly(quick, tmp_path):
    plan = quick.reconnection
    plan.mode, plan.lasting, plan.total, plan.wait = "all", 60.0, 0.5, 20.0
    script = tmp_path / "dying.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.plain import Plain\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "with log.open('a') as file:\n    file.write('x')\n"
        "if len(log.read_text()) > 1:\n    sys.exit('no more')\n"
        "server = Plain('dying')\n"
        "@server.tool\ndef die():\n    os._exit(1)\n"
        "server.run()\n"
    )
    connection = await quick.connect([sys.executable, str(script)], name="dying")
    with pytest.raises(errors.SessionClosedError):
        await connection.call("die")
    await until(lambda: connection.state == "lost")
    with pytest.raises(errors.SessionClosedError, match="given up after"):
        await connection.ping()


@pytest.mark.parametrize("jump", [-3600.0, 315_360_000.0])
def test_a_clock_that_is_set_moves_no_attempt(monkeypatch, jump):
    backoff = Reconnection(first=5.0, jitter=0.0).backoff()
    assert backoff.pause() == 5.0
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    assert re.fullmatch(r"lost \d s ago, tried once, next in \d s", away(backoff))
    assert backoff.seconds_left > 290
