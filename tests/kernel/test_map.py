"""`%mcp map` in a kernel: its progress, Cancel and Interrupt."""

import pytest

from tests.support.kernel_servers import LOAD

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
SETUP = (LOAD, SERVER, "%mcp connect mapped")


@pytest.fixture(autouse=True)
def nothing_is_left(frontend):
    frontend.run("go.clear()")
    yield
    frontend.run("go.set()")
    frontend.read_until(lambda: not frontend.models, what="the widgets are closed")


@pytest.mark.parametrize(("stop", "problem"), [("Cancel", "cancelled"), ("Interrupt", "interrupted")])
def test_map_stops_soon_and_keeps_answers(frontend, stop, problem):
    cell = frontend.start("out = %mcp map mapped:work --rows $rows n={row.n} --concurrency 5")
    frontend.has("Cancel", cell)
    frontend.read_until(lambda: "30 of 100" in str(frontend.models), what="the first rows are done")
    if stop == "Cancel":
        frontend.click("Cancel", cell=cell)
        frontend.finish(cell)
    else:
        frontend.stop(cell)
    assert not cell.ename
    assert frontend.line("out.stats['done'], out.stats['unknown'], out.problem") == f"(30, 5, '{problem}')"
    assert frontend.line("out.stats['rows'], out.stats['waiting']") == "(100, 65)"
    assert f"✗ map mapped:work: {problem} · 30 of 100 rows done · 5 unknown · 65 waiting" in str(cell.displays)
    frontend.run("go.set()")
    assert frontend.run("out = %mcp map --resume $out\nout.stats['done'], out.stats['unknown']").lines[-1] == "(95, 5)"
