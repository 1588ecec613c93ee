"""A map in a real JupyterLab: its progress, Cancel, the errors by message, and the question about all calls."""

from __future__ import annotations

import pytest

from tests.support.pages import expect, finished, output, press, readable, run, start, window_of

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

@mapped.tool()
async def days(city: str, start: str, end: str) -> list[dict]:
    return [{"city": city, "day": day, "sky": "sunny, with some clouds in the afternoon"} for day in (start, end)]

months = range(1, 13, 3)
spans = pd.DataFrame(
    [(city, f"2025-{month:02}-01", f"2025-{month:02}-02") for city in ("Oslo", "Rome") for month in months],
    columns=["city", "start", "end"],
)
"""

CELLS = (SERVER, "%mcp connect mapped")


def test_map_shows_errors_by_message_and_cancel_keeps_answers(lab):
    cell = start(lab, "out = %mcp map mapped:work --rows $table --concurrency 8\nout")
    expect(output(cell)).to_contain_text("32 of 60 (53 %)")
    failed = "6 failed · 8 in flight · work failed: no station in <i>this</i> city (6 rows)"
    expect(output(cell)).to_contain_text(failed)
    press(output(cell), "Cancel")
    shown = finished(cell)
    expect(shown).to_contain_text(
        "✗ map mapped:work: cancelled · 26 of 60 rows done · 6 failed · 8 unknown · 20 waiting"
    )
    expect(shown).to_contain_text("✗ mapped:work: 26 of 60 rows done, 6 failed, 8 unknown, 20 waiting")
    expect(shown).to_contain_text("It stopped: cancelled; await out.retry() goes on with the rest")
    expect(shown.get_by_role("row", name="6 work failed: no station in <i>this</i> city")).to_be_visible()
    cell = start(lab, "go.set()\n%mcp map --resume $out --repeat-unknown")
    shown = finished(cell)
    expect(shown).to_contain_text("! mapped:work: 51 of 60 rows done, 9 failed")


def test_a_failed_map_and_dates_are_readable(lab):
    failed = run(lab, "out = %mcp map mapped:work --rows {[{'n': 7 * n + 3} for n in range(9)]}")
    expect(failed).to_contain_text("✗ map mapped:work: failed · 0 of 9 rows done · 9 failed")
    expect(failed).to_contain_text("work failed: no station in <i>this</i> city (9 rows)")
    typo = run(lab, "out = %mcp map mapped:work --rows $table n={row.nn} city=Oslo --skip-invalid")
    expect(typo).to_contain_text("60 rows of 60 do not fit mapped:work; nothing was sent.")
    expect(typo).to_contain_text("row has no nn; it has n, city.")
    lists = run(lab, "out = %mcp map mapped:days --rows $spans\nout")
    expect(lists).to_contain_text("Answers are lists: %mcp map --resume $out --explode makes each item a row of .df.")
    exploded = run(lab, "%mcp map --resume $out --explode")
    expect(exploded).not_to_contain_text("Answers are lists")
    lines = "dates => dates.map(date => date.getClientRects().length)"
    for width in (1280, 700):
        with window_of(lab, width):
            for shown in (lists, exploded):
                dates = shown.locator(".mcp-date")
                assert dates.count() == (24 if shown is lists else 48)  # a list is cut after its first
                assert set(dates.evaluate_all(lines)) == {1}
    readable(lab, picture="map-lists", first=0)


def test_one_panel_asks_about_all_calls_of_a_map(lab):
    run(lab, "%mcp ask mapped:work\ngo.set()")
    cell = start(lab, "out = %mcp map mapped:work --rows $table city=Oslo n={row.n}")
    panel = output(cell)
    expect(panel).to_contain_text("You are about to call mapped:work 60 times")
    expect(panel).to_contain_text("… 55 more values")
    press(panel, "Approve")
    shown = finished(cell)
    expect(shown).to_contain_text("✓ approved mapped:work 60 times by you")
    expect(shown).to_contain_text("! map mapped:work: 51 of 60 rows done · 9 failed")
    expect(shown).to_contain_text("work failed: no station in <i>this</i> city (9 rows)")
