"""`%mcp watch` in kernels: live, in the background, without widgets, by itself."""

import pytest

from tests.support.frontends import VIEW
from tests.support.kernel_servers import LOAD, NOTES
from tests.support.kernels import run_by_itself, until

SETUP = (LOAD, NOTES, "%mcp connect notes", "%mcp connect mute", "import asyncio\nfrom mcp_magic import host")
WATCH = "watch = %mcp watch note://lines"
TELL = "host['notes'].notices.subscriptions._shared['note://lines'].tell()"


@pytest.fixture(autouse=True)
def nothing_is_left(frontend):
    """Each test begins with one line, and ends with nothing that is watched, no widget and no subscription."""
    frontend.run("lines[:] = ['<b>first</b>']\nfailed = host['notes'].failures")
    yield
    frontend.run("%mcp watch --stop;")
    assert frontend.line("len(host['notes'].notices.subscriptions.uris), host['notes'].failures - failed") == "(0, 0)"
    frontend.read_until(lambda: not frontend.models, what="the widgets are closed")


def write(frontend, line, times=1):
    """Let the server change its resource, from another cell."""
    frontend.run(f'await host["notes"].call("write", line={line!r}, times={times});')


def test_stop_or_interrupt_ends_watch_and_cell_goes_on(frontend):
    cell = frontend.start(f"{WATCH}\nwatch.updates, watch.ended, watch.result.text")
    frontend.shows(cell, "first")
    assert not cell.done
    frontend.click("Stop", cell=cell)
    assert frontend.finish(cell).lines[1] == "(0, 'stopped by you', '<b>first</b>')"
    cell = frontend.start(f"{WATCH}\n'after that'")
    frontend.shows(cell, "first")
    frontend.stop(cell)
    assert (cell.ename, cell.lines[1]) == ("", "'after that'")
    assert "interrupted" in cell.lines[0]


def test_many_updates_at_once_are_read_a_few_times(frontend):
    cell = frontend.run(f"{WATCH} --background\nbefore = host['notes'].calls")
    write(frontend, "line", times=200)
    frontend.shows(cell, "line 199")
    assert int(frontend.line("host['notes'].calls - before")) < 20


def test_a_watch_ends_after_its_count_or_its_time(frontend):
    cell = frontend.run(f"{WATCH} --background --count 1")
    write(frontend, "second")
    frontend.shows(cell, "an update has come", "second")
    timed = frontend.run("w = %mcp watch note://lines --for 0.2\nw.ended")
    assert timed.lines[1] == "'the time is up'"


def test_what_is_watched_is_listed_and_stopped_by_its_uri(frontend):
    cells = [frontend.run(f"%mcp watch {uri} --background") for uri in ("note://lines", "note://other")]
    write(frontend, "second")
    frontend.shows(cells[0], "1 update")
    rows = frontend.run("w = %mcp watch\nstr([(row['name'], row['updates'], row['state']) for row in w])")
    assert rows.lines == [repr(str([("note://lines", 1, "subscribed"), ("note://other", 0, "subscribed")]))]
    unknown = frontend.run("%mcp watch --stop note://line")
    assert unknown.evalue.startswith("note://line is not watched. Did you mean 'note://lines'?")
    assert frontend.line("w = %mcp watch --stop note://lines\nlen(w), w.note") == "(1, 'stopped: note://lines')"
    frontend.shows(cells[0], "stopped by %mcp watch --stop")
    frontend.read_until(lambda: not cells[0].live, what="it is plain text")
    assert cells[1].live


def test_a_watch_moves_with_its_cell_and_ends_with_its_server(frontend):
    first, second = (frontend.run(f"{WATCH} --background") for _ in range(2))
    frontend.shows(first, "another cell watches it now")
    write(frontend, "second")
    frontend.shows(second, "<ins>+ second</ins>")
    frontend.run("%mcp reconnect notes")
    frontend.shows(second, "the subscription was interrupted")
    write(frontend, "third")
    frontend.shows(second, "<ins>+ third</ins>")
    frontend.run("%mcp disconnect notes")
    frontend.shows(second, "the server was disconnected")
    frontend.run("%mcp connect notes")


def test_watch_without_subscriptions_is_refused_but_can_poll(frontend):
    refused = frontend.run("%mcp watch mute://lines")
    assert refused.ename == "NotOfferedError"
    assert refused.evalue.startswith("mute announces no changes of resources, so mute://lines cannot be subscribed to")
    cell = frontend.run("%mcp watch mute://lines --every 0.1 --background")
    frontend.shows(cell, "every 0.1 s since")
    frontend.run("lines.append('polled')")
    frontend.shows(cell, "1 update", "<ins>+ polled</ins>")
    frontend.run("%mcp watch --stop mute://lines")
    assert frontend.run("%mcp watch mute://lines --every 0").ename == "CommandError"


def test_unreadable_resource_is_shown_as_not_read(frontend):
    cell = frontend.run(f"{WATCH} --background")
    frontend.run(f"lines[:] = [None]\n{TELL}")
    frontend.shows(cell, "not read")
    frontend.run(f"lines[:] = ['again']\nfailed = host['notes'].failures\n{TELL}")
    frontend.shows(cell, "<ins>+ again</ins>")
    assert "not read" not in frontend.text_of(cell)


def test_a_console_shows_it_without_buttons(frontend):
    cell = frontend.start(f"{WATCH} --for 30", cell=False)
    frontend.shows(cell, "<b>first</b>")
    assert not cell.live
    assert "interrupted" in frontend.stop(cell).lines[0]


LATER = """
async def later():
    while cells.running:
        await asyncio.sleep(0.01)
    await host["notes"].call("write", line="between")
    while w.updates < 2:
        await asyncio.sleep(0.01)
    open("updated", "w").close()
cells = get_ipython().magics_manager.registry["MCPMagics"].cells
later = asyncio.create_task(later())
"""


def test_a_notebook_that_runs_by_itself_is_not_kept_waiting(tmp_path):
    def hold(cell, cell_index):
        if cell.source == "'next'":
            until((tmp_path / "updated").exists, what="an update has come between two cells")

    cells = [
        *SETUP,
        "%mcp watch note://lines",
        "w = %mcp watch note://lines --for 0.1\nw.ended",
        "w = %mcp watch note://lines --background",
        'await host["notes"].call("write", line="x");',
        "while w.updates < 1:\n    await asyncio.sleep(0.01)",
        LATER,
        "'next'",
        "'last'",
    ]
    *_, once, timed, shown, _, _, _, following, last = run_by_itself(tmp_path, *cells, on_cell_start=hold)
    said = "shown once, because you cannot stop it here; --for SECONDS or --count N keeps watching"
    assert said in once[-1]["data"]["text/plain"]
    assert timed[-1]["data"]["text/plain"] == "'the time is up'"
    data = shown[0]["data"]
    assert VIEW not in data
    assert "<b>first</b>" in data["text/plain"]
    assert "2 updates, the last at" in data["text/plain"]
    assert "<ins>+ between</ins>" in data["text/html"]
    shown = [[output["data"]["text/plain"] for output in outputs] for outputs in (following, last)]
    assert shown == [["'next'"], ["'last'"]]
