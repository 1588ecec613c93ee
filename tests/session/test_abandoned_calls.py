"""A call that waits behind one that was given up says so: a server of one thread reads nothing while it computes."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import RequestTimeoutError
from mcp_magic.ui.progress import wait_markup
from tests.support.asgi import answer, serving
from tests.support.plain import HANDSHAKE, MODERN
from tests.support.processes import PLAIN
from tests.support.waiting import until
from tests.test_progress import Watching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.inflight import Report
    from mcp_magic.session.connection import Connection

# Of one thread: a call of `spin` keeps it until the file is there.
COMPUTING = f"""
import json, pathlib, sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.support.plain import Plain

class Single(Plain):
    def run(self):
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") != "tools/call":
                if "id" in message:
                    self._answer(message["id"], message["method"])
                continue
            while message["params"]["name"] == "spin" and not pathlib.Path(sys.argv[2]).exists():
                time.sleep(0.01)
            content = {{"resultType": "complete", "content": [{{"type": "text", "text": "done"}}]}}
            self.say(id=message["id"], result=content)

server = Single("math", sys.argv[1])

@server.tool
def spin() -> str: ...

@server.tool
def add() -> str: ...

server.run()
"""


class WebServer:
    """A server of the handshake era over HTTP that answers nothing while it computes."""

    def __init__(self, finished: Path) -> None:
        self._finished = finished
        self._spins = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await answer(send, 405, b"")
            return
        message = json.loads((await receive())["body"])
        about = {
            "protocolVersion": HANDSHAKE,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": ""},
        }
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("spin", "add")]
        results = {"initialize": about, "tools/list": {"tools": tools}, "ping": {}, "tools/call": {"content": []}}
        self._spins = self._spins or (message.get("params") or {}).get("name") == "spin"
        await until(lambda: not self._spins or self._finished.exists())
        if "id" not in message:
            await answer(send, 202, b"")
            return
        result = results.get(message["method"])
        found = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        await answer(send, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode())


class Computing:
    """A session to a server that computes, and what is shown of its calls."""

    def __init__(self, connection: Connection, finished: Path, watching: Watching, todo: str) -> None:
        self.connection = connection
        self.finished = finished
        self.watching = watching
        self.todo = todo

    async def waits(self, tool: str) -> tuple[asyncio.Task[Any], Report]:
        """Call a tool, and wait until its line is shown."""
        before = len(self.watching.shown)
        call = asyncio.create_task(self.connection.call(tool))
        await until(lambda: len(self.watching.shown) > before)
        return call, self.watching.shown[-1]

    async def interrupt(self) -> None:
        """Call `spin`, and interrupt it once the server works on it."""
        call, report = await self.waits("spin")
        assert "seems to work" not in report.words()
        call.cancel()
        await asyncio.wait({call})


WAYS = ("stdio, modern", "stdio, handshake", "http")


@pytest.fixture(params=WAYS)
async def computing(request: pytest.FixtureRequest, host: Host, tmp_path: Path) -> AsyncIterator[Computing]:
    finished = tmp_path / "finished"
    host.reports.reporter = watching = Watching()
    async with AsyncExitStack() as stack:
        todo = "`%mcp reconnect math` starts it again"
        target: Any = [
            sys.executable,
            "-c",
            COMPUTING,
            MODERN if "modern" in request.param else HANDSHAKE,
            str(finished),
        ]
        if request.param == "http":
            todo = "restart that server"
            target = f"{await stack.enter_async_context(serving(WebServer(finished), lifespan='off'))}/mcp"
        connection = await host.connect(target, name="math")
        yield Computing(connection, finished, watching, todo)
        finished.touch()
        await host.close()


@pytest.mark.timed
async def test_a_call_behind_an_interrupted_one_says_so(computing: Computing) -> None:
    await computing.interrupt()

    call, report = await computing.waits("add")

    line = f"math still seems to work on math:spin, which was interrupted; {computing.todo}"
    assert report.words().endswith(f" · {line}")
    assert "`" not in wait_markup(report), "what to type is shown as code"
    computing.finished.touch()
    await call
    assert line not in report.words()


@pytest.mark.timed
async def test_a_time_out_behind_a_call_that_timed_out_says_so(computing: Computing) -> None:
    with pytest.raises(RequestTimeoutError) as first:
        await computing.connection.call_tool("spin", {}, timeout=0.2)
    assert "seems to work" not in str(first.value)

    with pytest.raises(RequestTimeoutError) as second:
        await computing.connection.call_tool("add", {}, timeout=0.2)

    line = f"math still seems to work on math:spin, which timed out; {computing.todo}"
    assert str(second.value).endswith(f"\n  {line}")


@pytest.mark.timed
async def test_a_server_that_answers_is_not_blamed(host: Host) -> None:
    host.reports.reporter = watching = Watching()
    connection = await host.connect(PLAIN, name="plain")
    computing = Computing(connection, Path(), watching, "")
    slow = asyncio.create_task(connection.call("slow"))
    await until(lambda: bool(watching.shown))
    slow.cancel()
    await asyncio.wait({slow})

    call, report = await computing.waits("slow")

    assert "seems to work" not in report.words()
    call.cancel()
    await asyncio.wait({call})
