"""Progress and log messages in terminal IPython: plain lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support import SUPPORT
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.terminals import Terminal

SERVER = SUPPORT / "reporting_server.py"
SETUP = (f"%mcp connect {SERVER} --name reports --timeout 60",)


@pytest.mark.timed
def test_a_call_says_now_and_then_how_far_it_is_and_at_the_end(terminal: Terminal) -> None:
    said = terminal.run("r = %mcp call reports:work values:='[1, 2, 3, 4, 5, 6]' total:=6 every:=0.25 message=loading")

    lines = [line for line in said.splitlines() if "reports:work: " in line]
    assert 2 <= len(lines) < 6
    assert re.match(r"reports:work: \d of 6 \(\d\d %\) · \d(\.\d)?/s · (\d\.\d s|\d+ ms) · loading", lines[0])
    assert lines[-1].startswith("✓ reports:work: 6 of 6 (100 %) · ")
    assert "6 of 6" not in "".join(lines[:-1])


def test_a_call_that_reports_nothing_says_nothing(terminal: Terminal) -> None:
    assert terminal.run("r = %mcp call reports:level").strip() == "r = %mcp call reports:level"


def test_what_waits_is_the_last_line_until_it_is_over(terminal: Terminal, tmp_path: Path) -> None:
    terminal.send(f"r = %mcp call reports:hold folder={tmp_path}")
    terminal.child.expect(r"\rreports:hold · 1\.\d s · Ctrl-C cancels")
    terminal.child.expect(r"\r +\rreports:hold · 2\.\d s · Ctrl-C cancels")
    (tmp_path / "go").touch()

    assert re.search(r"\r {30,}\r", terminal.wait()), "it is erased"


def test_warnings_print_live_without_terminal_controls(terminal: Terminal, tmp_path: Path) -> None:
    terminal.send(f"r = %mcp call reports:hold folder={tmp_path} text='disk\\x1b[2J full'")
    terminal.child.expect_exact("warning reports: disk")
    (tmp_path / "go").touch()
    said = terminal.wait()

    assert "\x1b[2J" not in said


def test_ctrl_c_leaves_a_line(terminal: Terminal) -> None:
    terminal.send(f"r = %mcp call reports:work values:='{[1] * 500}' total:=2 every:=0.2")
    terminal.child.expect_exact("reports:work: 1 of 2 (50 %)")
    said, _ = terminal.interrupt()

    assert "✗ reports:work: interrupted · 1 of 2 (50 %)" in said
    assert "KeyboardInterrupt" in said


@pytest.mark.timed
@tried_again
def test_logs_are_followed_until_ctrl_c(terminal: Terminal) -> None:
    terminal.run("from mcp_magic import host")
    terminal.run("task = host.loop.create_task(host.call('reports:stderr', text='over there'))")
    terminal.send("%mcp logs reports --follow --last 0")
    terminal.child.expect_exact("stderr: over there")
    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" not in said
    assert "followed for " in said
    soon(seconds, 3.0)
