"""Progress, log messages and Cancel below the cell that called, in kernels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import SUPPORT
from tests.support.frontends import VIEW, Frontend
from tests.support.kernel_servers import SMALL
from tests.support.kernels import run_by_itself, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.frontends import Shown
    from tests.support.kernels import Kernel

SERVER = SUPPORT / "reporting_server.py"
SETUP = (
    "%load_ext mcp_magic",
    f"%mcp connect --name reports -- {sys.executable} {SERVER}",
    "from mcp_magic import host\nimport asyncio",
)
HOLD = "r = %mcp call reports:hold folder={folder} done:={done} total:=4 text={text}\nr.text"


def hold(frontend: Frontend, folder: Path, done: int = 1, text: str = "loading") -> Shown:
    """Start a cell whose call has reported once, and waits."""
    cell = frontend.start(HOLD.format(folder=folder, done=done, text=text))
    until((folder / "started").exists, what="the tool has started")
    return cell


def shows(frontend: Frontend, cell: Shown, text: str) -> None:
    frontend.read_until(
        lambda: any(text in str(bundle["text/plain"]) for bundle in cell.displays.values()), what=f"{text!r} is shown"
    )


def let_go(frontend: Frontend, cell: Shown, folder: Path) -> Shown:
    (folder / "go").touch()
    return frontend.finish(cell)


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_bar_is_shown_while_a_call_runs_and_one_line_stays(frontend: Frontend, tmp_path: Path) -> None:
    cell = hold(frontend, tmp_path, text="<i>loading</i>")
    shows(frontend, cell, "reports:hold: 1 of 4 (25 %)")
    [html] = [str(bundle["text/html"]) for bundle in cell.displays.values()]
    let_go(frontend, cell, tmp_path)

    assert '<progress value="0.250"' in html
    assert "&lt;i&gt;loading&lt;/i&gt;" in html
    assert "<i>loading" not in html
    assert cell.live == []
    assert cell.lines[0].startswith("✓ reports:hold: 1 of 4 (25 %) · ")
    assert cell.lines[1] == "'gone on'"
    assert "<progress" not in str(cell.displays)


@pytest.mark.usefixtures("no_widget_is_left")
def test_cancel_click_ends_call_and_keeps_session(frontend: Frontend, tmp_path: Path) -> None:
    cell = hold(frontend, tmp_path)
    frontend.read_until(lambda: bool(frontend._named("Cancel", cell)), what="the button")
    frontend.click("Cancel", cell=cell)
    frontend.finish(cell)

    assert (cell.ename, cell.evalue) == (
        "CallCancelledError",
        "reports:hold: cancelled.",
    )
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert cell.lines == [line for line in cell.lines if line.startswith("✗ reports:hold: cancelled · 1 of 4 (25 %)")]
    assert frontend.run("r = %mcp call reports:level\nr.text").lines == ["'None'"]


@pytest.mark.usefixtures("no_widget_is_left")
def test_silent_call_shows_after_a_second_and_leaves_no_trace(frontend: Frontend, tmp_path: Path) -> None:
    cell = frontend.start(f"r = %mcp call reports:hold folder={tmp_path}")
    shows(frontend, cell, "reports:hold · ")
    frontend.read_until(lambda: bool(frontend._named("Cancel", cell)), what="the button")
    let_go(frontend, cell, tmp_path)

    assert (cell.done, cell.ename, list(cell.displays.values())) == (True, "", [{}])


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_click_on_cancel_ends_what_only_waits(frontend: Frontend, tmp_path: Path) -> None:
    cell = frontend.start(f"r = %mcp call reports:hold folder={tmp_path}")
    frontend.read_until(lambda: bool(frontend._named("Cancel", cell)), what="the button")
    frontend.click("Cancel", cell=cell)
    frontend.finish(cell)

    assert (cell.ename, cell.evalue) == ("CallCancelledError", "reports:hold: cancelled.")
    assert list(cell.displays.values()) == [{}]


@pytest.mark.usefixtures("no_widget_is_left")
def test_starting_server_is_shown_and_can_be_cancelled(frontend: Frontend) -> None:
    program = "import sys; print('loading the index', file=sys.stderr, flush=True); sys.stdin.read()"
    cell = frontend.start(f'%mcp connect --name slow -- {sys.executable} -c "{program}"')
    shows(frontend, cell, " s · loading the index")
    [bundle] = cell.displays.values()
    assert str(bundle["text/plain"]).startswith("starting ")
    frontend.read_until(lambda: bool(frontend._named("Cancel", cell)), what="the button")
    frontend.click("Cancel", cell=cell)
    frontend.finish(cell)

    assert cell.ename == "CallCancelledError"
    assert list(cell.displays.values()) == [{}]


@pytest.mark.usefixtures("no_widget_is_left")
def test_parallel_calls_have_bars_and_one_is_cancelled(frontend: Frontend, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    cell = frontend.start(
        f"folders = {[str(folder) for folder in folders]}\n"
        "calls = [host.call('reports:hold', folder=f, done=n, total=4) for n, f in enumerate(folders)]\n"
        "done = await asyncio.gather(*calls, return_exceptions=True)\n"
        "[getattr(each, 'text', type(each).__name__) for each in done]"
    )
    frontend.read_until(lambda: len(frontend._named("Cancel", cell)) == 3, what="three buttons")
    frontend.click("Cancel", number=1, cell=cell)
    until((folders[1] / "cancelled").exists, what="the server knows")
    for folder in folders:
        (folder / "go").touch()
    frontend.finish(cell)

    assert cell.lines[1] == "['gone on', 'CallCancelledError', 'gone on']"
    said = cell.lines[0].splitlines()
    assert said[0].startswith("✗ reports:hold: cancelled · 1 of 4 (25 %)")
    assert sorted(line[: len("✓ reports:hold: 0")] for line in said[1:]) == ["✓ reports:hold: 0", "✓ reports:hold: 2"]


@pytest.mark.usefixtures("no_widget_is_left")
def test_interrupt_leaves_a_line_too(frontend: Frontend, tmp_path: Path) -> None:
    cell = hold(frontend, tmp_path)
    frontend.read_until(lambda: bool(cell.live), what="the panel")
    frontend.kernel.interrupt()
    frontend.finish(cell)

    assert cell.ename == "KeyboardInterrupt"
    assert cell.lines[0].startswith("✗ reports:hold: interrupted · 1 of 4 (25 %)")
    assert cell.live == []


@pytest.mark.usefixtures("no_widget_is_left")
def test_nested_call_has_a_bar_but_no_button(frontend: Frontend, tmp_path: Path) -> None:
    line = HOLD.format(folder=tmp_path, done=1, text="x").splitlines()[0]
    cell = frontend.start(f"def f():\n    {line}\n    return r.text\nf()")
    until((tmp_path / "started").exists, what="the tool has started")
    shows(frontend, cell, "1 of 4")
    let_go(frontend, cell, tmp_path)

    assert not any(VIEW in bundle for bundle in cell.displays.values())
    assert cell.lines[0].startswith("✓ reports:hold: 1 of 4")


def test_quick_call_shows_nothing_and_imports_no_widgets(start: Callable[..., Kernel]) -> None:
    kernel = start(plain=True)
    kernel.ok(f"%load_ext mcp_magic\n%mcp connect --name small -- {' '.join(SMALL)}")
    cell = Frontend(kernel).run("r = %mcp call small:echo")
    imported = kernel.ok("import sys\n'mcp_magic.ui.widgets' in sys.modules, 'ipywidgets' in sys.modules").text

    assert cell.displays == {}
    assert imported == "(False, False)"


def test_a_loop_of_quick_calls_leaves_a_few_lines(frontend: Frontend) -> None:
    cell = frontend.run("for n in range(30):\n    await host.call('reports:work', values=[n], total=30)")
    shows(frontend, cell, "… 25 more calls")

    said = cell.lines[0].splitlines()
    assert len(said) == 6
    assert said[-1].startswith("✓ reports:work: 29 of 30 (96 %)")


# Log messages


def test_warnings_show_during_call_and_collapse_after(frontend: Frontend, tmp_path: Path) -> None:
    cell = frontend.start(f"r = %mcp call reports:hold folder={tmp_path} text='disk <b>full</b>'")
    shows(frontend, cell, "warning reports: disk <b>full</b>")
    [during] = [str(bundle["text/html"]) for bundle in cell.displays.values()]
    let_go(frontend, cell, tmp_path)
    [after] = [str(bundle["text/html"]) for bundle in cell.displays.values()]

    assert "disk &lt;b&gt;full&lt;/b&gt;" in during
    assert "<details" not in during
    assert "<summary>1 log message: 1 warning</summary>" in after
    assert "disk &lt;b&gt;full&lt;/b&gt;" in after


def test_only_the_last_of_many_messages_are_shown(frontend: Frontend) -> None:
    cell = frontend.run("r = %mcp call reports:log level=error data=again count:=300")

    assert cell.lines[0].splitlines()[0] == "… 250 more log messages before: %mcp logs reports"
    assert len(cell.lines[0].splitlines()) == 51


@pytest.mark.parametrize(("shown", "lines"), [("off", 0), ("error", 0), ("info", 1)])
def test_a_setting_says_which_messages_are_shown(frontend: Frontend, shown: str, lines: int) -> None:
    frontend.run(f"%config MCPMagics.show_logs = '{shown}'")
    cell = frontend.run("r = %mcp call reports:log level=info data=hello")
    frontend.run("%config MCPMagics.show_logs = 'warning'")

    assert len(cell.lines) == lines


def test_progress_may_be_turned_off(frontend: Frontend) -> None:
    frontend.run("%config MCPMagics.show_progress = False")
    cell = frontend.run("r = %mcp call reports:work values:='[1, 2]'")
    frontend.run("%config MCPMagics.show_progress = True")

    assert cell.displays == {}


# Where nobody watches


@pytest.mark.timed
def test_a_notebook_that_runs_by_itself_has_plain_lines(tmp_path: Path) -> None:
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
    assert quick == [], "over within a second: not worth a line"
    texts = "".join(output["text"] for output in reported)
    *_, line, last = texts.splitlines()
    assert line.startswith("reports:work: ")
    assert last.startswith("✓ reports:work: 4")
    complete = [line for output in whole for line in output["text"].splitlines() if "4 of 4 (100 %)" in line]
    assert [line[:16] for line in complete] == ["✓ reports:work: "]
    assert logged[0]["text"].rstrip().endswith("warning reports: careful")
    assert silent == []
    assert [output["data"] for output in waiting] == [{}], "what waited was shown, and has left nothing"


@pytest.mark.timed
def test_time_outs_of_the_line_begin_anew_until_the_most(frontend: Frontend) -> None:
    call = "%mcp call reports:work values:='{values}' every:=0.1 --timeout {timeout} --max-total-timeout {most}"

    long = frontend.run(call.format(values=list(range(15)), timeout=1, most=60).join(["r = ", "\nr.text"]))
    longer = frontend.run("r = " + call.format(values=[1] * 100, timeout=30, most=0.5))

    assert long.lines[-1] == "'15 reports'"
    assert longer.ename == "RequestTimeoutError"
    assert "no answer within 0.5 s in total" in longer.evalue
    assert longer.lines[0].startswith("✗ reports:work: timed out · 1 · ")


def test_a_kernel_without_clicks_shows_a_bar_without_a_button(older: Frontend, tmp_path: Path) -> None:
    cell = hold(older, tmp_path)
    shows(older, cell, "reports:hold: 1 of 4 (25 %)")
    shows(older, cell, " · 1.")  # longer than a button would need to come
    let_go(older, cell, tmp_path)

    assert older.models == {}
    assert cell.lines[0].startswith("✓ reports:hold: 1 of 4 (25 %) · ")
