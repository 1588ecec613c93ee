"""Sessions that are opened, opened again and closed at the same time: who comes last has the last word."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from tests.environments import ROOT
from tests.support.asgi import answering, serving
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


LATE = """\
import pathlib, sys, time
sys.path.insert(0, sys.argv[2])
folder = pathlib.Path(sys.argv[1])
(folder / "started").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
from tests.support.plain import Plain
server = Plain("late")

@server.tool
def {tool}():
    return "{tool}"

server.run()
"""


class Late:
    """A stdio server that starts when it may.

    Attributes:
        command: How it is started.
    """

    def __init__(self, folder: Path, tool: str = "hello", *, may_start: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, path = folder, folder / "late.py"
        path.write_text(LATE.format(tool=tool))
        self.command = [sys.executable, str(path), str(folder), str(ROOT)]
        if may_start:
            self.may_start()

    def may_start(self) -> None:
        (self._folder / "go").touch()

    def may_not_start(self) -> None:
        (self._folder / "go").unlink()
        (self._folder / "started").unlink()

    async def started(self) -> None:
        """Wait until its process runs."""
        await until((self._folder / "started").exists)


async def both(*calls: Any) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_servers_opened_together_get_different_names(host, tmp_path):
    servers = [Late(tmp_path / name, name, may_start=True) for name in ("first", "second")]
    opened = await both(*(host.connect(server.command) for server in servers))
    assert [connection.state for connection in opened] == ["open", "open"]
    assert sorted(host) == ["late", "late_2"]
    for connection, name in zip(opened, ("first", "second"), strict=True):
        assert (await connection.call(name)).text == name


async def test_one_server_connected_twice_together_is_opened_once(host, tmp_path):
    server = Late(tmp_path, may_start=True)
    one, two = await both(host.connect(server.command), host.connect(server.command))
    assert one is two
    assert (one.state, list(host)) == ("open", ["late"])
    one, two = await both(host.connect(["no-such-command-at-all"]), host.connect(["no-such-command-at-all"]))
    assert type(one) is type(two) is errors.CommandNotFoundError


async def test_joined_connect_goes_on_if_the_first_is_cancelled(host, tmp_path):
    server = Late(tmp_path)
    first = asyncio.create_task(host.connect(server.command))
    await server.started()
    second = asyncio.create_task(host.connect(server.command))
    await asyncio.sleep(0)
    first.cancel()
    server.may_start()
    assert (await second).state == "open"
    assert first.cancelled()
    assert list(host) == ["late"]


async def test_closing_a_host_discards_a_session_being_opened(host, tmp_path):
    server = Late(tmp_path)
    opening = asyncio.create_task(host.connect(server.command))
    await server.started()
    await host.close()
    server.may_start()
    with pytest.raises(errors.SessionClosedError, match="late: the session was closed; `%mcp connect` opens one"):
        await opening
    assert list(host) == []


async def test_a_closed_host_does_not_try_an_older_transport(host):
    asked, closed = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.set()
            await closed.wait()
        await answering(404)(scope, receive, send)

    async with serving(app) as url:
        opening = asyncio.create_task(host.connect(f"{url}/mcp", name="old"))
        await asked.wait()
        closing = asyncio.create_task(host.close())
        await asyncio.sleep(0)
        closed.set()
        with pytest.raises(errors.SessionClosedError):
            await opening
        await closing
    assert list(host) == []


@pytest.mark.parametrize("how", ["disconnect", "close", "connection"])
async def test_closing_a_session_stops_its_reopening(host, tmp_path, how):
    server = Late(tmp_path, may_start=True)
    connection = await host.connect(server.command, name="late")
    server.may_not_start()
    again = asyncio.create_task(host.reconnect("late"))
    await server.started()
    waiting = asyncio.create_task(connection.call("hello"))
    await asyncio.sleep(0)
    await {"disconnect": lambda: host.disconnect("late"), "close": host.close, "connection": connection.close}[how]()
    server.may_start()
    said = "reconnect late` opens it again" if how == "connection" else "connect` opens one"
    for task in (again, waiting):
        with pytest.raises(errors.SessionClosedError, match=f"late: the session was closed; `%mcp {said}"):
            async with asyncio.timeout(60):
                await task
    assert connection.state == "closed"


async def test_a_session_is_closed_while_it_ends_to_be_reopened(host):
    connection = await host.connect(PLAIN, name="math")
    again, gone = await both(host.reconnect("math"), host.disconnect("math"))
    assert isinstance(again, errors.SessionClosedError)
    assert gone is None
    assert (connection.state, list(host)) == ("closed", [])


async def test_a_session_that_was_closed_can_be_opened_again(host):
    connection = await host.connect(PLAIN, name="math")
    await connection.close()
    await host.reconnect("math")
    assert (await connection.call("add", a=1, b=2)).data == 3
    one, two = await both(host.reconnect("math"), host.reconnect("math"))
    assert one is two is connection
    assert (await connection.call("add", a=1, b=3)).data == 4
