"""Sessions in forked children of the process that opened them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic._host import Host
from mcp_magic.langchain.tools import langchain_tools
from tests.support.processes import PLAIN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def in_child(do: Callable[[], Any]) -> str:
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


ENTRANCES: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "host-call": lambda host: host.call("plain:add", {"a": 1, "b": 2}),
    "bare-name": lambda host: host.call("add", {"a": 1, "b": 2}),
    "call": lambda host: host["plain"].call("add", a=1, b=2),
    "ping": lambda host: host["plain"].ping(),
    "read": lambda host: host["plain"].read("plain://x"),
    "listing": lambda host: host["plain"].listing("tools", refresh=True),
    "reconnect": lambda host: host.reconnect("plain"),
}


async def test_a_forked_child_is_refused_and_connects_anew(host):
    connection = await host.connect(PLAIN, name="plain")
    before = len(connection.trace.entries)

    async def enter(entrance: Callable[[Host], Awaitable[Any]]) -> Any:
        return await entrance(host)

    for name, entrance in ENTRANCES.items():
        text = in_child(lambda: asyncio.run(enter(entrance)))  # noqa: B023
        assert text.startswith("SessionClosedError: plain: this session belongs to another process"), name
    tool = next(tool for tool in langchain_tools(connection) if tool.name.endswith("add"))
    assert "belongs to another process" in in_child(lambda: tool.invoke({"a": 1, "b": 2}))
    assert len(connection.trace.entries) == before

    async def anew() -> Any:
        await host.close()  # which leaves the servers of the parent
        async with Host() as other:
            return (await (await other.connect(PLAIN, name="plain")).call("add", a=1, b=2)).data

    assert in_child(lambda: asyncio.run(anew())) == "3"
    assert (await connection.call("add", a=1, b=2)).data == 3


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


def test_a_magic_in_a_forked_child_says_where_it_works(tmp_path):
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-u", "-c", MAGIC]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment, check=True
    )
    assert ran.stdout.count("%mcp works in the process of the kernel") == 1, ran
