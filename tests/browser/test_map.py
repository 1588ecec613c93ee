"""A map in a real JupyterLab: its progress, Cancel, the errors by message, and the question about all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.living import expect, finished, output, press, run, start

if TYPE_CHECKING:
    from tests.browser.lab import Lab

pytestmark = pytest.mark.slow

SERVER = """
import asyncio
import pandas as pd
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

mapped = MCPServer("mapped", log_level="ERROR")
go = asyncio.Event()
table = pd.DataFrame({"n": range(60), "city": ["Oslo", "Rome", "<b>Lima</b>"] * 20})

@mapped.tool()
async def work(n: int, city: str = "") -> dict:
    if n % 7 == 3:
        raise ToolError("no station in <i>this</i> city")
    if n >= 30:
        await go.wait()
    return {"double": 2 * n, "sky": "sunny"}
"""

CELLS = (SERVER, "%mcp connect mapped")

MAP = "out = %mcp map mapped:work --rows $table --concurrency 8\nout"


def test_a_map_shows_its_errors_by_message_and_cancel_keeps_what_came_back(lab: Lab) -> None:
    cell = start(lab, MAP)
    expect(output(cell)).to_contain_text("32 of 60 (53 %)")
    expect(output(cell)).to_contain_text(
        "6 failed · 8 in flight · work failed: no station in <i>this</i> city (6 rows)"
    )
    lab.picture("map-running", first=lab.cells.count() - 1)
    press(output(cell), "Cancel")
    shown = finished(cell)
    expect(shown).to_contain_text("26 of 60 rows done, 6 failed, 8 unknown")
    expect(shown).to_contain_text("It stopped: cancelled; `await out.retry()` goes on with the rest")
    expect(shown.get_by_role("row", name="6 work failed: no station in <i>this</i> city")).to_be_visible()
    lab.picture("map-cancelled", first=lab.cells.count() - 1)
    cell = start(lab, "go.set()\n%mcp map --resume $out --repeat-unknown")
    shown = finished(cell)
    expect(shown).to_contain_text("51 of 60 rows done, 9 failed")
    lab.picture("map-finished", first=lab.cells.count() - 1)


def test_one_panel_asks_about_all_calls_of_a_map(lab: Lab) -> None:
    run(lab, "%mcp ask mapped:work\ngo.set()")
    cell = start(lab, "out = %mcp map mapped:work --rows $table city=Oslo n={row.n}")
    panel = output(cell)
    expect(panel).to_contain_text("You are about to call mapped:work 60 times")
    expect(panel).to_contain_text("… 55 more values")
    lab.picture("map-question", first=lab.cells.count() - 1)
    press(panel, "Approve")
    shown = finished(cell)
    expect(shown).to_contain_text("✓ approved mapped:work 60 times by you")
    expect(shown).to_contain_text("60 of 60 (100 %)")
    expect(shown).to_contain_text("9 failed")
    lab.picture("map-approved", first=lab.cells.count() - 1)
