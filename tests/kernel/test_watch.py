"""`%mcp watch` in kernels: live, in the background, without widgets, by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.frontends import VIEW
from tests.support.kernels import run_by_itself, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.frontends import Frontend, Shown

SERVER = """
from mcp.server.mcpserver import Context, MCPServer

notes = MCPServer("notes", log_level="ERROR")
lines = ["<b>first</b>"]

@notes.resource("note://lines", mime_type="text/plain")
def text() -> str:
    return "\\n".join(lines)

@notes.resource("note://other", mime_type="text/plain")
def other() -> str:
    return f"{len(lines)} lines"

@notes.tool()
async def write(line: str, ctx: Context, times: int = 1) -> str:
    for number in range(times):
        lines.append(line if times == 1 else f"{line} {number}")
        await ctx.notify_resource_updated("note://lines")
    return line

mute = MCPServer("mute", log_level="ERROR", subscriptions=False)

@mute.resource("mute://lines", mime_type="text/plain")
def mute_text() -> str:
    return "\\n".join(lines)
"""
SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect notes", "%mcp connect mute", "from mcp_magic import host")
WATCH = "watch = %mcp watch note://lines"


@pytest.fixture(autouse=True)
def nothing_is_left(frontend: Frontend) -> Iterator[None]:
    """Each test begins with one line, and ends with nothing that is watched, no widget and no subscription."""
    frontend.run("lines[:] = ['<b>first</b>']\nfailed = host['notes'].failures")
    yield
    frontend.run("%mcp watch --stop;")
    left = frontend.run("len(host['notes'].notices.subscriptions.uris), host['notes'].failures - failed")
    assert left.lines == ["(0, 0)"]
    frontend.read_until(lambda: not frontend.models, what="the widgets are closed")


def text_of(frontend: Frontend, cell: Shown) -> str:
    """What a cell shows, live or not."""
    live = [name for shown in cell.live for name in frontend._inside(shown)]
    return "\n".join([*(str(frontend.models[name].get("value", "")) for name in live), *cell.lines])


def shows(frontend: Frontend, cell: Shown, *texts: str) -> str:
    """Wait until a cell shows texts."""
    frontend.read_until(lambda: all(text in text_of(frontend, cell) for text in texts), what=f"it shows {texts}")
    return text_of(frontend, cell)


def write(frontend: Frontend, line: str, times: int = 1) -> None:
    """Let the server change its resource, from another cell."""
    frontend.run(f'await host["notes"].call("write", line={line!r}, times={times});')


def test_background_watch_updates_while_other_cells_run(frontend: Frontend) -> None:
    cell = frontend.run(f"{WATCH} --background\nwatch")
    assert cell.done
    shows(frontend, cell, "&lt;b&gt;first&lt;/b&gt;", "subscribed since")
    write(frontend, "second")
    shows(frontend, cell, "1 update, the last at", "<ins>+ second</ins>")
    other = frontend.start(
        "import asyncio\nfor n in range(2):\n    await host['notes'].call('write', line=f'from {n}')\n"
        "while not watch.ended:\n    await asyncio.sleep(0.01)\n'ended'"
    )
    shows(frontend, cell, "3 updates", "from 1")
    assert not other.done, "the other cell runs still"
    frontend.click("Stop", cell=cell)
    frontend.finish(other)
    assert other.lines == ["'ended'"]
    frontend.read_until(lambda: not cell.live, what="it is plain text")
    assert "stopped by you" in cell.lines[0]
    assert "from 1" in cell.lines[0]


def test_stop_button_ends_watch_and_cell_returns_it(frontend: Frontend) -> None:
    cell = frontend.start(f"{WATCH}\nwatch.updates, watch.ended, watch.result.text")
    shows(frontend, cell, "first")
    assert not cell.done
    frontend.click("Stop", cell=cell)
    frontend.finish(cell)
    assert cell.lines[1] == "(0, 'stopped by you', '<b>first</b>')"


def test_interrupt_ends_the_watch_and_not_the_cell(frontend: Frontend) -> None:
    cell = frontend.start(f"{WATCH}\n'after that'")
    shows(frontend, cell, "first")
    frontend.kernel.interrupt()
    frontend.finish(cell)
    assert (cell.ename, cell.lines[1]) == ("", "'after that'")
    assert "interrupted" in cell.lines[0]


def test_a_running_cell_is_let_go_on_in_the_background(frontend: Frontend) -> None:
    cell = frontend.start(WATCH)
    shows(frontend, cell, "first")
    frontend.click("Go on in the background", cell=cell)
    frontend.finish(cell)
    write(frontend, "after that")
    shows(frontend, cell, "<ins>+ after that</ins>")
    assert not frontend._named("Go on in the background", cell)


def test_many_updates_at_once_are_read_a_few_times(frontend: Frontend) -> None:
    cell = frontend.run(f"{WATCH} --background\nbefore = host['notes'].calls")
    write(frontend, "line", times=500)
    shows(frontend, cell, "line 499")
    reads = frontend.run("host['notes'].calls - before").lines
    assert int(reads[0]) < 20


def test_it_ends_after_a_number_of_updates_or_a_time(frontend: Frontend) -> None:
    cell = frontend.run(f"{WATCH} --background --count 1")
    write(frontend, "second")
    shows(frontend, cell, "an update has come", "second")
    timed = frontend.run("w = %mcp watch note://lines --for 0.2\nw.ended")
    assert timed.lines[1] == "'the time is up'"


def test_what_is_watched_is_listed_and_stopped_by_its_uri(frontend: Frontend) -> None:
    cells = [frontend.run(f"%mcp watch {uri} --background") for uri in ("note://lines", "note://other")]
    write(frontend, "second")
    shows(frontend, cells[0], "1 update")
    rows = frontend.run("w = %mcp watch\nstr([(row['name'], row['updates'], row['state']) for row in w])")
    assert rows.lines == [repr(str([("note://lines", 1, "subscribed"), ("note://other", 0, "subscribed")]))]
    unknown = frontend.run("%mcp watch --stop note://line")
    assert unknown.evalue.startswith("note://line is not watched. Did you mean 'note://lines'?")
    left = frontend.run("w = %mcp watch --stop note://lines\nlen(w), w.note")
    assert left.lines == ["(1, 'stopped: note://lines')"]
    shows(frontend, cells[0], "stopped by %mcp watch --stop")
    frontend.read_until(lambda: not cells[0].live, what="it is plain text")
    assert cells[1].live


def test_watching_it_again_moves_it(frontend: Frontend) -> None:
    first = frontend.run(f"{WATCH} --background")
    second = frontend.run(f"{WATCH} --background")
    shows(frontend, first, "another cell watches it now")
    write(frontend, "second")
    shows(frontend, second, "<ins>+ second</ins>")


def test_disconnect_ends_watch_but_reconnect_does_not(frontend: Frontend) -> None:
    cell = frontend.run(f"{WATCH} --background")
    frontend.run("%mcp reconnect notes")
    shows(frontend, cell, "the subscription was interrupted")
    write(frontend, "second")
    shows(frontend, cell, "<ins>+ second</ins>")
    frontend.run("%mcp disconnect notes")
    shows(frontend, cell, "the server was disconnected")
    frontend.run("%mcp connect notes")


def test_watch_without_subscriptions_is_refused_but_can_poll(frontend: Frontend) -> None:
    refused = frontend.run("%mcp watch mute://lines")
    assert refused.ename == "NotOfferedError"
    assert refused.evalue.startswith("mute announces no changes of resources, so mute://lines cannot be subscribed to")
    cell = frontend.run("%mcp watch mute://lines --every 0.1 --background")
    shows(frontend, cell, "every 0.1 s since")
    frontend.run("lines.append('polled')")
    shows(frontend, cell, "1 update", "<ins>+ polled</ins>")
    frontend.run("%mcp watch --stop mute://lines")
    assert frontend.run("%mcp watch mute://lines --every 0").ename == "CommandError"


def test_unreadable_resource_is_shown_as_not_read(frontend: Frontend) -> None:
    cell = frontend.run(f"{WATCH} --background")
    frontend.run("lines[:] = [None]\nhost['notes'].notices.subscriptions._shared['note://lines'].tell()")
    shows(frontend, cell, "not read")
    frontend.run(
        "lines[:] = ['again']\nfailed = host['notes'].failures\n"
        "host['notes'].notices.subscriptions._shared['note://lines'].tell()"
    )
    shows(frontend, cell, "<ins>+ again</ins>")
    assert "not read" not in text_of(frontend, cell)


def test_a_console_shows_it_without_buttons(frontend: Frontend) -> None:
    cell = frontend.start(f"{WATCH} --for 30", cell=False)
    shows(frontend, cell, "<b>first</b>")
    assert not cell.live
    frontend.kernel.interrupt()
    frontend.finish(cell)
    assert "interrupted" in cell.lines[0]


def test_a_notebook_that_runs_by_itself_is_not_kept_waiting(tmp_path: Path) -> None:
    cells = [*SETUP, "%mcp watch note://lines", "w = %mcp watch note://lines --for 0.1\nw.ended"]
    background = ["w = %mcp watch note://lines --background", 'await host["notes"].call("write", line="x");']
    waits = "import asyncio\nwhile w.updates < 1:\n    await asyncio.sleep(0.01)"
    outputs = run_by_itself(tmp_path, *cells, *background, waits)
    once = outputs[len(SETUP)][-1]["data"]["text/plain"]
    assert "shown once, because you cannot stop it here; --for SECONDS or --count N keeps watching" in once
    assert outputs[len(SETUP) + 1][-1]["data"]["text/plain"] == "'the time is up'"
    shown = outputs[len(cells)][0]["data"]
    assert VIEW not in shown
    assert "<b>first</b>" in shown["text/plain"]
    assert "1 update, the last at" in shown["text/plain"]
    assert "<ins>+ x</ins>" in shown["text/html"]


LATER = """
async def later():
    while cells.running:
        await asyncio.sleep(0.01)
    await host["notes"].call("write", line="between")
    while w.updates < 1:
        await asyncio.sleep(0.01)
    open("updated", "w").close()
import asyncio
cells = get_ipython().magics_manager.registry["MCPMagics"].cells
later = asyncio.create_task(later())
"""


def test_update_between_cells_shows_when_next_cell_begins(tmp_path: Path) -> None:
    cells = [*SETUP, "w = %mcp watch note://lines --background", LATER, "'next'", "'last'"]

    def hold(cell: Any, cell_index: int) -> None:
        if cell.source == "'next'":
            until((tmp_path / "updated").exists, what="the update has come")

    outputs = run_by_itself(tmp_path, *cells, on_cell_start=hold)
    assert "<ins>+ between</ins>" in outputs[len(SETUP)][0]["data"]["text/html"]
    assert [[output["data"]["text/plain"] for output in each] for each in outputs[-2:]] == [["'next'"], ["'last'"]]
