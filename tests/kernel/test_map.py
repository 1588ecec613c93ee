"""`%mcp map` in a kernel: its progress, Cancel and Interrupt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.frontends import Frontend

SERVER = """
import asyncio
from mcp.server.mcpserver import MCPServer

rows = [{"n": n} for n in range(100)]
mapped = MCPServer("mapped", log_level="ERROR")
go = asyncio.Event()

@mapped.tool()
async def work(n: int) -> int:
    if n >= 30:
        await go.wait()
    return n
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect mapped")
MAP = "out = %mcp map mapped:work --rows $rows n={row.n} --concurrency 5"


@pytest.fixture(autouse=True)
def nothing_is_left(frontend: Frontend) -> Iterator[None]:
    frontend.run("go.clear()")
    yield
    frontend.run("go.set()")
    frontend.read_until(lambda: not frontend.models, what="the widgets are closed")


@pytest.mark.timed
@tried_again
@pytest.mark.parametrize(("stop", "problem"), [("Cancel", "cancelled"), ("Interrupt", "interrupted")])
def test_map_stops_soon_and_keeps_answers(frontend: Frontend, stop: str, problem: str) -> None:
    cell = frontend.start(MAP)
    frontend.read_until(lambda: bool(frontend._named("Cancel", cell)), what="the progress is shown")
    frontend.read_until(lambda: "30 of 100" in str(frontend.models), what="the first rows are done")
    started = time.monotonic()
    if stop == "Cancel":
        frontend.click("Cancel", cell=cell)
    else:
        frontend.kernel.interrupt()
    frontend.finish(cell)
    soon(time.monotonic() - started, 0.5)

    assert not cell.ename
    assert frontend.run("out.stats['done'], out.stats['unknown'], out.problem").lines == [f"(30, 5, '{problem}')"]
    assert frontend.run("out.stats['rows'], out.stats['waiting']").lines == ["(100, 65)"]
    assert f"✗ map mapped:work: {problem} · 30 of 100 rows done · 5 unknown · 65 waiting" in str(cell.displays)
    frontend.run("go.set()")
    assert frontend.run("out = %mcp map --resume $out\nout.stats['done'], out.stats['unknown']").lines[-1] == "(95, 5)"
