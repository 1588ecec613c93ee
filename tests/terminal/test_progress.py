"""Progress, log messages and maps in terminal IPython: plain lines."""

import re

from tests.support.kernel_servers import IMPORT_MATH, REPORTS

SETUP = (
    f"%mcp connect {REPORTS} --name reports --timeout 60",
    IMPORT_MATH,
    "%mcp connect math",
    "from mcp_magic import host; rows = [{'a': n, 'b': 0} for n in range(5)]",
)


def test_a_call_says_now_and_then_how_far_it_is_and_at_the_end(terminal):
    said = terminal.run("r = %mcp call reports:work values:='[1, 2, 3, 4, 5, 6]' total:=6 every:=0.25 message=loading")
    lines = [line for line in said.splitlines() if "reports:work: " in line]
    assert 2 <= len(lines) < 7
    assert re.match(r"reports:work: \d of 6 \(\d\d %\) · \d(\.\d)?/s · (\d\.\d s|\d+ ms) · loading", lines[0])
    assert lines[-1].startswith("✓ reports:work: 6 of 6 (100 %) · ")
    assert "6 of 6" not in "".join(lines[:-1])
    assert terminal.run("r = %mcp call reports:level").strip() == "r = %mcp call reports:level"


def test_a_waiting_call_has_a_last_line_that_is_erased(terminal, tmp_path):
    terminal.send(f"r = %mcp call reports:hold folder={tmp_path}")
    terminal.child.expect(r"\rreports:hold · 1\.\d s · Ctrl-C cancels")
    terminal.child.expect(r"\r +\rreports:hold · 2\.\d s · Ctrl-C cancels")
    (tmp_path / "go").touch()
    assert re.search(r"\r {30,}\r", terminal.wait()), "it is erased"


def test_warnings_print_live_without_terminal_controls(terminal, tmp_path):
    terminal.send(f"r = %mcp call reports:hold folder={tmp_path} text='disk\\x1b[2J full'")
    terminal.child.expect_exact("warning reports: disk")
    (tmp_path / "go").touch()
    assert "\x1b[2J" not in terminal.wait()


def test_ctrl_c_leaves_a_line(terminal):
    terminal.send(f"r = %mcp call reports:work values:='{[1] * 500}' total:=2 every:=0.2")
    terminal.child.expect_exact("reports:work: 1 of 2 (50 %)")
    said = terminal.interrupt()
    assert "✗ reports:work: interrupted · 1 of 2 (50 %)" in said
    assert "KeyboardInterrupt" in said


def test_logs_are_followed_until_ctrl_c(terminal):
    terminal.run("task = host.loop.create_task(host.call('reports:stderr', text='over there'))")
    terminal.send("%mcp logs reports --follow --last 0")
    terminal.child.expect_exact("stderr: over there")
    said = terminal.interrupt()
    assert ("KeyboardInterrupt" in said, "followed for " in said) == (False, True)


def test_a_map_that_fails_has_a_line_with_the_reason(terminal):
    text = terminal.run("out = %mcp map math:divide --rows $rows")
    [line] = [line for line in text.splitlines() if line.startswith("✗")]
    assert line.startswith("✗ map math:divide: failed · 0 of 5 rows done · 5 failed · ")
    assert line.endswith("(5 rows)")
    assert "zero" in line
    text = terminal.run("out = %mcp map math:divide --rows $rows a={row.a} b={row.a}")
    assert "! map math:divide: 4 of 5 rows done · 1 failed · " in text
    assert "map math:divide" not in terminal.run("_ = %mcp map math:add --rows $rows").partition("\n")[2]
    text = terminal.run("out = %mcp map math:add --rows $rows a={row.aa} b=1 --skip-invalid")
    assert "5 rows of 5 do not fit math:add; nothing was sent." in text
    assert "rows 0, 1, 2, 3 and 1 more: row has no aa; it has a, b. Did you mean 'a'?" in text
