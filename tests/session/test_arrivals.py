"""Sessions that are opened, opened again and closed at the same time: who comes last has the last word."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from tests.environments import ROOT
from tests.support.asgi import answering, serving
from tests.support.processes import PLAIN
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

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

    Args:
        folder: Its own folder.
        tool: Its tool.
    """

    def __init__(self, folder: Path, tool: str = "hello") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / "late.py"
        self.path.write_text(LATE.format(tool=tool))

    @property
    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, str(self.path), str(self.folder), str(ROOT)]

    def may_start(self, *, yes: bool = True) -> None:
        """Let it start, or not."""
        if yes:
            (self.folder / "go").touch()
        else:
            (self.folder / "go").unlink()
            (self.folder / "started").unlink()

    async def started(self) -> None:
        """Wait until its process runs."""
        await until((self.folder / "started").exists)


async def both(*calls: Any) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_servers_opened_together_get_different_names(host: Host, tmp_path: Path) -> None:
    one, two = Late(tmp_path / "one", "first"), Late(tmp_path / "two", "second")
    for server in (one, two):
        server.may_start()
    opened = await both(host.connect(one.command), host.connect(two.command))
    assert [connection.state for connection in opened] == ["open", "open"]
    assert sorted(host) == ["late", "late_2"]
    assert {(await each.call(name)).text for each, name in zip(opened, ("first", "second"), strict=True)} == {
        "first",
        "second",
    }


async def test_concurrent_connects_start_one_server(host: Host, tmp_path: Path) -> None:
    server = Late(tmp_path)
    server.may_start()
    one, two = await both(host.connect(server.command), host.connect(server.command))
    assert one is two
    assert one.state == "open"
    assert list(host) == ["late"]


async def test_whoever_joined_learns_why_it_could_not_be_opened(host: Host) -> None:
    one, two = await both(host.connect(["no-such-command-at-all"]), host.connect(["no-such-command-at-all"]))
    assert isinstance(one, errors.CommandNotFoundError)
    assert isinstance(two, errors.CommandNotFoundError)


async def test_whoever_joined_opens_it_when_the_first_is_interrupted(host: Host, tmp_path: Path) -> None:
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


async def test_closing_host_discards_session_being_opened(host: Host, tmp_path: Path) -> None:
    server = Late(tmp_path)
    opening = asyncio.create_task(host.connect(server.command))
    await server.started()
    await host.close()
    server.may_start()
    with pytest.raises(errors.SessionClosedError, match="late: the session was closed; `%mcp connect` opens one"):
        await opening
    assert list(host) == []


async def test_closed_host_does_not_try_older_transport(host: Host) -> None:
    asked = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.set()
            await until(lambda: closed.is_set())
        await answering(404)(scope, receive, send)

    closed = asyncio.Event()
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


async def reopening(host: Host, server: Late) -> tuple[Connection, asyncio.Task[Any], asyncio.Task[Any]]:
    """Begin to open a session again, and a call that waits for it."""
    server.may_start()
    connection = await host.connect(server.command, name="late")
    server.may_start(yes=False)
    again = asyncio.create_task(host.reconnect("late"))
    await server.started()
    waiting = asyncio.create_task(connection.call("hello"))
    await asyncio.sleep(0)
    return connection, again, waiting


@pytest.mark.parametrize("how", ["disconnect", "close", "connection"])
async def test_closing_session_stops_its_reopening(host: Host, tmp_path: Path, how: str) -> None:
    server = Late(tmp_path)
    connection, again, waiting = await reopening(host, server)
    if how == "disconnect":
        await host.disconnect("late")
    elif how == "close":
        await host.close()
    else:
        await connection.close()
    server.may_start()
    said = "reconnect late` opens it again" if how == "connection" else "connect` opens one"
    for each in (again, waiting):
        with pytest.raises(errors.SessionClosedError, match=f"late: the session was closed; `%mcp {said}"):
            async with asyncio.timeout(60):
                await each
    assert connection.state == "closed"


async def test_closing_session_that_ends_for_reopening_closes_it(host: Host) -> None:
    connection = await host.connect(PLAIN, name="math")
    again, gone = await both(host.reconnect("math"), host.disconnect("math"))
    assert isinstance(again, errors.SessionClosedError)
    assert gone is None
    assert (connection.state, list(host)) == ("closed", [])


async def test_a_session_that_was_closed_can_be_opened_again(host: Host) -> None:
    connection = await host.connect(PLAIN, name="math")
    await connection.close()
    await host.reconnect("math")
    assert (await connection.call("add", a=1, b=2)).data == 3
    one, two = await both(host.reconnect("math"), host.reconnect("math"))
    assert one is two is connection
    assert (await connection.call("add", a=1, b=3)).data == 4


async def test_look_up_names_right_server_while_another_leaves(host: Host) -> None:
    for name in ("first", "second", "third"):
        server = MCPServer(name)
        server.add_tool(lambda name=name: name, name=f"of_{name}")
        await host.connect(server)
    looking = asyncio.create_task(host.resolve("of_second"))
    await asyncio.sleep(0)
    await host.disconnect("first")
    connection, tool = await looking
    assert (connection.name, tool.name) == ("second", "of_second")
