"""Sessions in anyio's cancel scopes, and in forked children of the process that opened them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from mcp_magic.langchain.tools import langchain_tools
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from mcp_magic._host import Host

SILENT = ["python3", "-c", "import sys; sys.stdin.read()"]


async def _call(host: Host) -> None:
    await host["plain"].call("slow")


async def _call_by_name(host: Host) -> None:
    await host.call("plain:slow")


async def _connect(host: Host) -> None:
    await host.connect(SILENT, name="silent")


WAITS = pytest.mark.parametrize("wait", [_call, _call_by_name, _connect], ids=["call", "host-call", "connect"])


@WAITS
async def test_move_on_after_ends_a_wait(host: Host, wait: Callable[[Host], Awaitable[None]]) -> None:
    host.reports.reporter = lambda report: None
    await host.connect(PLAIN, name="plain")
    with anyio.move_on_after(0.3) as scope:
        await wait(host)
    assert scope.cancelled_caught
    assert (await host["plain"].call("add", a=1, b=2)).data == 3


@WAITS
async def test_fail_after_ends_a_wait(host: Host, wait: Callable[[Host], Awaitable[None]]) -> None:
    host.reports.reporter = lambda report: None
    await host.connect(PLAIN, name="plain")
    with pytest.raises(TimeoutError), anyio.fail_after(0.3):
        await wait(host)


def _in_child(do: Callable[[], Any]) -> str:
    """Return what a forked child gets of a function: its result, or its error."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            text = str(do())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


async def _close(host: Host) -> str:
    await host.close()
    return "closed"


ENTRANCES: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "host-call": lambda host: host.call("plain:add", {"a": 1, "b": 2}),
    "bare-name": lambda host: host.call("add", {"a": 1, "b": 2}),
    "call": lambda host: host["plain"].call("add", a=1, b=2),
    "ping": lambda host: host["plain"].ping(),
    "read": lambda host: host["plain"].read("plain://x"),
    "listing": lambda host: host["plain"].listing("tools", refresh=True),
    "reconnect": lambda host: host.reconnect("plain"),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES)
async def test_a_forked_child_is_refused(host: Host, entrance: Callable[[Host], Awaitable[Any]]) -> None:
    connection = await host.connect(PLAIN, name="plain")
    before = len(connection.trace.entries)

    async def enter() -> Any:
        return await entrance(host)

    text = _in_child(lambda: asyncio.run(enter()))
    assert text.startswith("SessionClosedError: plain: this session belongs to another process")
    assert len(connection.trace.entries) == before
    assert (await connection.call("add", a=1, b=2)).data == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
async def test_a_forked_child_leaves_the_servers(host: Host) -> None:
    connection = await host.connect(PLAIN, name="plain")
    assert _in_child(lambda: asyncio.run(_close(host))) == "closed"
    assert (await connection.call("add", a=1, b=2)).data == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
async def test_a_forked_child_connects_anew(host: Host) -> None:
    await host.connect(PLAIN, name="plain")

    async def anew() -> Any:
        async with type(host)() as other:
            return (await (await other.connect(PLAIN, name="plain")).call("add", a=1, b=2)).data

    assert _in_child(lambda: asyncio.run(anew())) == "3"
    assert (await host["plain"].call("add", a=1, b=2)).data == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
async def test_a_langchain_tool_in_a_forked_child(host: Host) -> None:
    connection = await host.connect(PLAIN, name="plain")
    tool = next(tool for tool in langchain_tools(connection) if tool.name.endswith("add"))
    assert "belongs to another process" in _in_child(lambda: tool.invoke({"a": 1, "b": 2}))


MAGIC = """
import os
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext mcp_magic")
shell.run_cell("%mcp")
if (child := os.fork()) == 0:
    shell.run_cell("(lambda: get_ipython().run_line_magic('mcp', ''))()")
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
def test_a_magic_in_a_forked_child(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-u", "-c", MAGIC],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        check=True,
    )
    assert ran.stdout.count("%mcp works in the process of the kernel") == 1, ran
