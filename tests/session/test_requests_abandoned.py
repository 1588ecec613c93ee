"""A call that waits behind one that was given up says so: a server of one thread reads nothing while it computes."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.errors import RequestTimeoutError
from mcp_magic.ipython.live import wait_part
from tests.environments import ROOT
from tests.support.asgi import answer, serving
from tests.support.plain import HANDSHAKE, MODERN
from tests.support.processes import PLAIN
from tests.support.speaking import answer_to, called
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.flight.progress import Report
    from mcp_magic.session.connection import Connection
    from tests.support.watching import Watching

# Of one thread: a call of `spin` keeps it until the file is there.
COMPUTING = """
import json, pathlib, sys, time
from tests.support.speaking import answer_to, called

version, finished = sys.argv[1], pathlib.Path(sys.argv[2])
for line in sys.stdin:
    message = json.loads(line)
    answer = answer_to(message, version, ["spin", "add"])
    if message.get("method") == "tools/call":
        while message["params"]["name"] == "spin" and not finished.exists():
            time.sleep(0.01)
        answer = called(message["id"], version)
    if answer is not None:
        print(json.dumps(answer), flush=True)
"""


class WebServer:
    """A server of the handshake era over HTTP that answers nothing while it computes."""

    def __init__(self, finished: Path) -> None:
        self._finished = finished
        self._spins = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await answer(send, 405)
            return
        message = json.loads((await receive())["body"])
        is_call = message.get("method") == "tools/call"
        self._spins = self._spins or (is_call and message["params"]["name"] == "spin")
        await until(lambda: not self._spins or self._finished.exists())
        said = called(message["id"], HANDSHAKE) if is_call else answer_to(message, HANDSHAKE, ["spin", "add"])
        await answer(send, 202 if said is None else 200, b"" if said is None else json.dumps(said).encode())


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


@pytest.fixture(params=("stdio, modern", "stdio, handshake", "http"))
async def computing(request, host, watching, tmp_path):
    finished = tmp_path / "finished"
    async with AsyncExitStack() as stack:
        todo = "`%mcp reconnect math` starts it again"
        version = MODERN if "modern" in request.param else HANDSHAKE
        target: Any = [sys.executable, "-c", COMPUTING, version, str(finished)]
        if request.param == "http":
            todo = "restart that server"
            target = f"{await stack.enter_async_context(serving(WebServer(finished), lifespan='off'))}/mcp"
        options = {} if request.param == "http" else {"cwd": str(ROOT)}
        yield Computing(await host.connect(target, name="math", **options), finished, watching, todo)
        finished.touch()
        await host.close()


@pytest.mark.timed
async def test_a_call_behind_an_interrupted_one_says_so(computing):
    spin, report = await computing.waits("spin")
    assert "seems to work" not in report.words()
    spin.cancel()
    await asyncio.wait({spin})

    call, report = await computing.waits("add")
    line = f"math still seems to work on math:spin, which was interrupted; {computing.todo}"
    assert report.words().endswith(f" · {line}")
    assert "`" not in wait_part(report).html, "what to type is shown as code"
    computing.finished.touch()
    await call
    assert line not in report.words()


@pytest.mark.timed
async def test_a_time_out_behind_a_call_that_timed_out_says_so(computing):
    with pytest.raises(RequestTimeoutError) as first:
        await computing.connection.call_tool("spin", {}, timeout=0.2)
    assert "seems to work" not in str(first.value)
    with pytest.raises(RequestTimeoutError) as second:
        await computing.connection.call_tool("add", {}, timeout=0.2)
    line = f"math still seems to work on math:spin, which timed out; {computing.todo}"
    assert str(second.value).endswith(f"\n  {line}")


@pytest.mark.timed
async def test_a_server_that_answers_is_not_blamed(host, watching, tmp_path):
    computing = Computing(await host.connect(PLAIN, name="plain"), tmp_path, watching, "")
    slow, _ = await computing.waits("slow")
    slow.cancel()
    await asyncio.wait({slow})
    call, report = await computing.waits("slow")
    assert "seems to work" not in report.words()
    call.cancel()
    await asyncio.wait({call})
