from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pexpect
import psutil
import pytest

from tests.support.kernel_servers import HERE, MATH
from tests.support.kernels import gone, until
from tests.support.terminals import NOISE, Terminal
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from pathlib import Path

SETUP = (f"%mcp connect {MATH} --name math", f"%mcp connect {HERE / 'holding_server.py'} --name holding")


def test_connect_shows_the_connection_as_text(terminal: Terminal) -> None:
    said = terminal.run(f"%mcp connect {MATH} --name math")

    assert "math: open" in said
    assert "8 tools" in said


def test_a_session_lives_from_command_to_command(terminal: Terminal) -> None:
    assert re.search(r"Out\[\d+\]: 3\b", terminal.run("%mcp call math:add a=1 b=2"))
    assert re.search(r"Out\[\d+\]: 7\b", terminal.run("%mcp call math:add a=3 b=4"))
    assert "math" in terminal.run("%mcp")
    assert terminal.process.children(recursive=True)


def test_a_value_can_be_assigned_and_used(terminal: Terminal) -> None:
    terminal.run("n = 20")
    assert "Out" not in terminal.run("r = %mcp call math:add a=$n b={n + 1}")
    assert "41" in terminal.run("r.data")


def test_top_level_magics_are_awaited_and_others_nested(terminal: Terminal) -> None:
    assert "120" in terminal.run("for n in (5,):", "    r = %mcp call math:factorial n=$n", "    print(r.data)", "")
    terminal.run("def f(k):", "    r = %mcp call math:factorial n=$k", "    return r.data", "")
    assert "720" in terminal.run("f(6)")
    assert "5040" in terminal.run("[get_ipython().run_line_magic('mcp', 'call math:factorial n=7').data for _ in '1']")
    assert "Wall time" in terminal.run("%time %mcp call math:add a=1 b=2")


def test_plain_python_awaits_the_same_sessions(terminal: Terminal) -> None:
    terminal.run("from mcp_magic import host")

    assert "362880" in terminal.run("(await host['math'].call('factorial', n=9)).data")
    assert "24" in terminal.run("(await host['math'].tools.factorial(n=4)).data")


def test_tables_read_well(terminal: Terminal) -> None:
    said = terminal.run("%mcp tools math")

    assert re.search(r"math:add +a, b", said)


def test_an_error_is_red_only_where_the_terminal_has_colours(terminal: Terminal) -> None:
    def raw(line: str) -> str:
        terminal.run(line)
        return str(terminal.child.before)

    assert "UnknownToolError: " in raw("%mcp call math:nothing")
    assert "\x1b" not in raw("%mcp call math:nothing")
    terminal.run("%colors linux")
    assert "\x1b[31mUnknownToolError\x1b[0m: " in raw("%mcp call math:nothing")
    terminal.run("%colors nocolor")
    assert "\x1b" not in raw("%mcp call math:nothing")


def test_an_error_is_one_line_and_the_next_command_works(terminal: Terminal) -> None:
    said = terminal.run("%mcp call math:divide a=1 b=0")

    assert "ToolError: math:divide failed: Cannot divide by zero." in said
    assert "Traceback" not in said
    assert "UnknownToolError" in terminal.run("%mcp call math:nothing")
    assert "CommandNotFoundError" in terminal.run("%mcp connect -- no-such-command-at-all")
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


FORMS = {
    "awaited": "%mcp call holding:hold folder={}",
    "nested": "r = (lambda: get_ipython().run_line_magic('mcp', 'call holding:hold folder={}'))()",
}


@pytest.mark.timed
@pytest.mark.parametrize("form", FORMS)
@tried_again
def test_ctrl_c_ends_call_tells_server_and_keeps_session(terminal: Terminal, tmp_path: Path, form: str) -> None:
    terminal.send(FORMS[form].format(tmp_path))
    until((tmp_path / "started").exists, what="the tool has started")

    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    soon(seconds, 0.5)
    assert len(said.splitlines()) < 40
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "pong" in terminal.run("%mcp call holding:ping")
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_python_that_awaits_a_call(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run("from mcp_magic import host")
    terminal.send(f"await host.call('holding:hold', folder={str(tmp_path)!r})")
    until((tmp_path / "started").exists, what="the tool has started")

    said, seconds = terminal.interrupt()

    assert said.partition("^C")[2].strip() == "CancelledError: holding:hold: interrupted"
    soon(seconds, 0.5)
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "pong" in terminal.run("%mcp call holding:ping")


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_a_connect(terminal: Terminal) -> None:
    before = set(terminal.process.children(recursive=True))
    terminal.send(f"%mcp connect -- {sys.executable} -c 'import sys; sys.stdin.read()'")
    until(lambda: len(set(terminal.process.children(recursive=True)) - before) == 1, what="the process runs")

    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    soon(seconds, 0.5)
    assert "pong" in terminal.run("%mcp call holding:ping")
    # between commands the loop stands still: the process is reaped with the next magic, or at the exit
    until(
        lambda: bool(terminal.run("%mcp")) and set(terminal.process.children(recursive=True)) <= before,
        what="the process has ended",
    )


def test_ctrl_c_at_the_prompt_is_still_ipythons_own(terminal: Terminal) -> None:
    # Python misses a signal that comes between the prompt of `input()` and its waiting for a key
    until(lambda: terminal.process.status() == psutil.STATUS_SLEEPING, what="it waits for a key")

    said, _ = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


@pytest.mark.parametrize("goodbye", ["exit", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)", "EOF"])
def test_the_exit_leaves_no_process_and_says_nothing(folder: Path, goodbye: str) -> None:
    running = Terminal(folder, "--simple-prompt", "--no-banner")
    running.run("%load_ext mcp_magic")
    running.run(f"%mcp connect {MATH}")
    processes = [running.process, *running.process.children(recursive=True)]
    assert len(processes) >= 2

    if goodbye == "EOF":
        running.press("D")
    else:
        running.send(goodbye)
    running.child.expect(pexpect.EOF)
    running.close()

    gone(processes)
    assert not [word for word in (*NOISE, "Traceback", "Error") if word in str(running.child.before)]


@pytest.mark.timed
@tried_again
def test_the_prompt_of_prompt_toolkit_works_as_well(folder: Path, tmp_path: Path) -> None:
    running = Terminal(folder, "--no-banner", "--colors=nocolor")
    try:
        running.run("%load_ext mcp_magic")
        running.run(f"%mcp connect {HERE / 'holding_server.py'} --name holding")
        assert "pong" in running.run("%mcp call holding:ping")

        running.send(f"%mcp call holding:hold folder={tmp_path}")
        until((tmp_path / "started").exists, what="the tool has started")
        said, seconds = running.interrupt()

        assert "KeyboardInterrupt" in said
        soon(seconds, 1.0)  # drawing the prompt included
        until((tmp_path / "cancelled").exists, what="the server knows")
        assert "pong" in running.run("%mcp call holding:ping")
        running.send("exit")
        running.child.expect(pexpect.EOF)
    finally:
        running.close()
