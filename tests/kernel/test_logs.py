"""`%mcp logs`: levels, and following until Interrupt, in kernels."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.kernel.test_progress import SETUP, shows
from tests.support.kernels import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.frontends import Frontend

SETUP = (
    *SETUP,
    """
import pathlib
async def later(go, tool, **arguments):
    while not pathlib.Path(go).exists():
        await asyncio.sleep(0.01)
    await host.call(tool, **arguments)
""",
)


def in_a_moment(frontend: Frontend, go: Path, tool: str, **arguments: str) -> None:
    """Have a call go out when a file is there, whatever cell runs then."""
    frontend.run(f"task = asyncio.create_task(later({str(go)!r}, {tool!r}, **{arguments!r}))")


@pytest.mark.parametrize("way", ["awaited", "nested"])
def test_follow_shows_new_lines_until_interrupt(
    frontend: Frontend,
    tmp_path: Path,
    way: str,
) -> None:
    in_a_moment(frontend, tmp_path / "log", "reports:log", level="info", data=f"<b>hello</b> {way}")
    in_a_moment(frontend, tmp_path / "stderr", "reports:stderr", text=f"over there {way}")
    line = "r = %mcp logs reports --follow --last 0"
    cell = frontend.start(line if way == "awaited" else f"def f():\n    {line}\n    return r\nr = f()")
    shows(frontend, cell, "following; Interrupt ends it")
    (tmp_path / "log").touch()
    shows(frontend, cell, f"<b>hello</b> {way}")
    html = str(cell.displays)
    (tmp_path / "stderr").touch()
    shows(frontend, cell, f"over there {way}")
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == ""
    assert "&lt;b&gt;hello&lt;/b&gt;" in html
    [said] = cell.lines
    assert said.startswith("reports: followed for ")
    assert said.endswith(": 2 new")
    rows = ast.literal_eval(frontend.run("[(row['source'], row['level'], str(row['text'])) for row in r]").lines[0])
    assert rows == [("reports", "info", f"<b>hello</b> {way}"), ("stderr", None, f"over there {way}")]


def test_an_interrupt_after_that_is_one_again(frontend: Frontend, tmp_path: Path) -> None:
    cell = frontend.start(
        f"r = %mcp logs reports --follow --last 0\nr2 = %mcp call reports:hold folder={tmp_path} done:=1"
    )
    shows(frontend, cell, "following")
    frontend.kernel.interrupt()
    until((tmp_path / "started").exists, what="the next line runs")
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"


def test_where_nobody_could_interrupt_it_does_not_wait(frontend: Frontend) -> None:
    at_once = frontend.run("%mcp logs reports --follow --last 1", stdin=False)
    for_a_time = frontend.run("%mcp logs reports --last 0 --seconds 0.3", stdin=False)

    assert "not followed: you cannot interrupt it here; --seconds S follows for a time" in at_once.lines[0]
    assert re.search(r"followed for \d{3} ms", for_a_time.lines[-1])


def test_the_level_of_a_server_is_set_and_listed(frontend: Frontend) -> None:
    frontend.run("%mcp logs reports --level error")
    frontend.run("a = %mcp call reports:log level=warning data=too-quiet")
    frontend.run("a = %mcp call reports:log level=error data=loud-enough")
    listed = frontend.run("%mcp logs reports")
    frontend.run("%mcp logs reports --level info")

    assert "Logs of reports, error and above" in listed.lines[0]
    assert "loud-enough" in listed.lines[0]
    assert "too-quiet" not in listed.lines[0]


def test_a_level_that_is_none_is_refused_with_those_that_are(frontend: Frontend) -> None:
    cell = frontend.run("%mcp logs reports --level loud")

    assert cell.ename == "CommandError"
    assert "invalid choice: 'loud'" in cell.evalue
    assert "emergency" in cell.evalue
