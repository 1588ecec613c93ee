"""Progress, log messages and Cancel below the cell that called, in kernels; and logs that are followed."""

import ast
import re
import sys

import pytest

from tests.support.frontends import VIEW, Frontend
from tests.support.kernel_servers import LOAD, REPORTS, SMALL
from tests.support.kernels import run_by_itself, until

LATER = """
import asyncio, pathlib
from mcp_magic import host

async def later(go, tool, **arguments):
    while not pathlib.Path(go).exists():
        await asyncio.sleep(0.01)
    await host.call(tool, **arguments)
"""
SETUP = (LOAD, f"%mcp connect --name reports -- {sys.executable} {REPORTS}", LATER)
HOLD = "r = %mcp call reports:hold folder={folder} done:=1 total:=4 text={text}\nr.text"
pytestmark = pytest.mark.usefixtures("no_widget_is_left")


def hold(frontend, folder, text="loading"):
    """Start a cell whose call has reported once, and waits."""
    cell = frontend.start(HOLD.format(folder=folder, text=text))
    until((folder / "started").exists, what="the tool has started")
    return cell


def let_go(frontend, cell, folder):
    (folder / "go").touch()
    return frontend.finish(cell)


def test_cancel_below_a_bar_ends_the_call_and_keeps_the_session(frontend, tmp_path):
    cell = hold(frontend, tmp_path, "<i>loading</i>")
    frontend.shows(cell, "reports:hold: 1 of 4 (25 %)")
    [html] = [str(bundle["text/html"]) for bundle in cell.displays.values()]
    assert '<progress value="0.250"' in html
    assert "&lt;i&gt;loading&lt;/i&gt;" in html
    frontend.press(frontend.has("Cancel", cell)[0])
    frontend.finish(cell)
    assert (cell.ename, cell.evalue) == ("CallCancelledError", "reports:hold: cancelled.")
    until((tmp_path / "cancelled").exists, what="the server knows")
    [line] = cell.lines
    assert line.startswith("✗ reports:hold: cancelled · 1 of 4 (25 %)")
    assert "<progress" not in str(cell.displays)
    assert frontend.line("r = %mcp call reports:level\nr.text") == "'None'"


def test_cancel_of_what_only_waits_leaves_nothing(frontend, tmp_path):
    cell = frontend.start(f"r = %mcp call reports:hold folder={tmp_path}")
    frontend.press(frontend.has("Cancel", cell)[0])
    frontend.finish(cell)
    assert (cell.ename, cell.evalue) == ("CallCancelledError", "reports:hold: cancelled.")
    assert list(cell.displays.values()) == [{}]


def test_interrupt_leaves_a_line_too(frontend, tmp_path):
    cell = hold(frontend, tmp_path)
    frontend.read_until(lambda: bool(cell.live), what="the panel")
    assert frontend.stop(cell).ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("✗ reports:hold: interrupted · 1 of 4 (25 %)")
    assert cell.live == []


def test_nested_call_has_a_bar_but_no_button(frontend, tmp_path):
    line = HOLD.format(folder=tmp_path, text="x").splitlines()[0]
    cell = frontend.start(f"def f():\n    {line}\n    return r.text\nf()")
    until((tmp_path / "started").exists, what="the tool has started")
    frontend.shows(cell, "1 of 4")
    let_go(frontend, cell, tmp_path)
    assert not any(VIEW in bundle for bundle in cell.displays.values())
    assert cell.lines[0].startswith("✓ reports:hold: 1 of 4")
    assert "<progress" not in str(cell.displays)


def test_quick_call_shows_nothing_and_imports_no_widgets(start):
    kernel = start(plain=True)
    kernel.ok(f"{LOAD}\n%mcp connect --name small -- {' '.join(SMALL)}")
    assert Frontend(kernel).run("r = %mcp call small:echo").displays == {}
    imported = kernel.ok("import sys\n'mcp_magic.ui.widgets' in sys.modules, 'ipywidgets' in sys.modules").text
    assert imported == "(False, False)"


def test_loops_and_floods_leave_a_few_lines(frontend):
    cell = frontend.run("for n in range(30):\n    await host.call('reports:work', values=[n], total=30)")
    frontend.shows(cell, "… 25 more calls")
    said = cell.lines[0].splitlines()
    assert len(said) == 6
    assert said[-1].startswith("✓ reports:work: 29 of 30 (96 %)")
    said = frontend.run("r = %mcp call reports:log level=error data=again count:=300").lines[0].splitlines()
    assert (len(said), said[0]) == (51, "… 250 more log messages before: %mcp logs reports")


def test_settings_say_what_is_shown(frontend):
    for shown, lines in (("off", 0), ("error", 0), ("info", 1)):
        frontend.run(f"%config MCPMagics.show_logs = '{shown}'")
        assert len(frontend.run("r = %mcp call reports:log level=info data=hello").lines) == lines, shown
    frontend.run("%config MCPMagics.show_logs = 'warning'\n%config MCPMagics.show_progress = False")
    assert frontend.run("r = %mcp call reports:work values:='[1, 2]'").displays == {}
    frontend.run("%config MCPMagics.show_progress = True")


def test_a_notebook_that_runs_by_itself_has_plain_lines(tmp_path):
    (tmp_path / "go").touch()
    cells = [
        *SETUP,
        f"r = %mcp call reports:hold folder={tmp_path} done:=1 total:=4",
        "r = %mcp call reports:work values:='[1, 2, 3, 4]' every:=0.4",
        "r = %mcp call reports:work values:='[1, 2, 3, 4]' total:=4 every:=0.4",
        f"r = %mcp call reports:hold folder={tmp_path} text=careful",
        "r = %mcp call reports:level",
        "from pathlib import Path\nPath('later').mkdir()\n"
        "task = asyncio.get_running_loop().call_later(1.4, Path('later/go').touch)\n"
        "r = %mcp call reports:hold folder={Path('later').absolute()}",
    ]
    quick, reported, whole, logged, silent, waiting = run_by_itself(tmp_path, *cells)[-6:]
    assert (quick, silent) == ([], []), "over within a second: not worth a line"
    *_, line, last = "".join(output["text"] for output in reported).splitlines()
    assert line.startswith("reports:work: ")
    assert last.startswith("✓ reports:work: 4")
    complete = [line for output in whole for line in output["text"].splitlines() if "4 of 4 (100 %)" in line]
    assert [line[:16] for line in complete] == ["✓ reports:work: "]
    assert logged[0]["text"].rstrip().endswith("warning reports: careful")
    assert [output["data"] for output in waiting] == [{}], "what waited was shown, and has left nothing"


def test_a_kernel_without_clicks_shows_a_bar_without_a_button(older, tmp_path):
    cell = hold(older, tmp_path)
    older.shows(cell, "reports:hold: 1 of 4 (25 %)", " · 1.")  # longer than a button would need to come
    let_go(older, cell, tmp_path)
    assert older.models == {}
    assert cell.lines[0].startswith("✓ reports:hold: 1 of 4 (25 %) · ")


# Logs that are followed


def in_a_moment(frontend, go, tool, **arguments):
    """Have a call go out when a file is there, whatever cell runs then."""
    frontend.run(f"task = asyncio.create_task(later({str(go)!r}, {tool!r}, **{arguments!r}))")


@pytest.mark.parametrize("way", ["awaited", "nested"])
def test_follow_shows_new_lines_until_interrupt(frontend, tmp_path, way):
    in_a_moment(frontend, tmp_path / "log", "reports:log", level="info", data=f"<b>hello</b> {way}")
    in_a_moment(frontend, tmp_path / "stderr", "reports:stderr", text=f"over there {way}")
    line = "r = %mcp logs reports --follow --last 0"
    cell = frontend.start(line if way == "awaited" else f"def f():\n    {line}\n    return r\nr = f()")
    frontend.shows(cell, "following; Interrupt ends it")
    (tmp_path / "log").touch()
    frontend.shows(cell, f"<b>hello</b> {way}")
    html = str(cell.displays)
    (tmp_path / "stderr").touch()
    frontend.shows(cell, f"over there {way}")
    assert frontend.stop(cell).ename == ""
    assert "&lt;b&gt;hello&lt;/b&gt;" in html
    [said] = cell.lines
    assert re.fullmatch(r"(?s)reports: followed for .*: 2 new", said)
    rows = ast.literal_eval(frontend.line("[(row['source'], row['level'], str(row['text'])) for row in r]"))
    assert rows == [("reports", "info", f"<b>hello</b> {way}"), ("stderr", None, f"over there {way}")]


def test_an_interrupt_after_following_is_one_again(frontend, tmp_path):
    call = f"r2 = %mcp call reports:hold folder={tmp_path} done:=1"
    cell = frontend.start(f"r = %mcp logs reports --follow --last 0\n{call}")
    frontend.shows(cell, "following")
    frontend.kernel.interrupt()
    until((tmp_path / "started").exists, what="the next line runs")
    assert frontend.stop(cell).ename == "KeyboardInterrupt"


def test_logs_are_not_followed_where_nobody_can_interrupt(frontend):
    at_once = frontend.run("%mcp logs reports --follow --last 1", stdin=False)
    for_a_time = frontend.run("%mcp logs reports --last 0 --seconds 0.3", stdin=False)
    assert "not followed: you cannot interrupt it here; --seconds S follows for a time" in at_once.lines[0]
    assert re.search(r"followed for \d{3} ms", for_a_time.lines[-1])


def test_the_level_of_a_server_is_set_and_listed(frontend):
    frontend.run("%mcp logs reports --level error")
    for level, data in (("warning", "too-quiet"), ("error", "loud-enough")):
        frontend.run(f"a = %mcp call reports:log level={level} data={data}")
    [listed] = frontend.run("%mcp logs reports").lines
    frontend.run("%mcp logs reports --level info")
    assert "Logs of reports, error and above" in listed
    assert ("loud-enough" in listed, "too-quiet" in listed) == (True, False)
    refused = frontend.run("%mcp logs reports --level loud")
    assert refused.ename == "CommandError"
    assert "invalid choice: 'loud'" in refused.evalue
    assert "emergency" in refused.evalue
