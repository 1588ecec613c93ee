"""Magics in terminal IPython: values and errors as text, sessions that outlive a command, Ctrl-C, and the exit."""

import re
import sys

import pexpect
import pytest

from tests.support.kernel_servers import CONNECT_PLAIN, HOLDING, LOAD, MATH
from tests.support.kernels import gone, until
from tests.support.terminals import NOISE, Terminal

SETUP = (f"%mcp connect {MATH} --name math", f"%mcp connect {HOLDING} --name holding", "from mcp_magic import host")
FORMS = {
    "awaited": "%mcp call holding:hold folder={}",
    "nested": "r = (lambda: get_ipython().run_line_magic('mcp', 'call holding:hold folder={}'))()",
    "Python": "await host.call('holding:hold', folder='{}')",
}


def test_a_session_lives_from_command_to_command(terminal):
    said = terminal.run(f"%mcp connect {MATH} --name math")
    assert "math: open" in said
    assert "8 tools" in said
    assert re.search(r"Out\[\d+\]: 3\b", terminal.run("%mcp call math:add a=1 b=2"))
    assert re.search(r"Out\[\d+\]: 7\b", terminal.run("%mcp call math:add a=3 b=4"))
    assert "math" in terminal.run("%mcp")
    assert re.search(r"math:add +a, b", terminal.run("%mcp tools math"))
    assert terminal.process.children(recursive=True)


def test_values_are_assigned_awaited_and_nested(terminal):
    terminal.run("n = 20")
    assert "Out" not in terminal.run("r = %mcp call math:add a=$n b={n + 1}")
    assert "41" in terminal.run("r.data")
    assert "120" in terminal.run("for n in (5,):", "    r = %mcp call math:factorial n=$n", "    print(r.data)", "")
    terminal.run("def f(k):", "    r = %mcp call math:factorial n=$k", "    return r.data", "")
    assert "720" in terminal.run("f(6)")
    assert "5040" in terminal.run("[get_ipython().run_line_magic('mcp', 'call math:factorial n=7').data for _ in '1']")
    assert "Wall time" in terminal.run("%time %mcp call math:add a=1 b=2")
    assert "362880" in terminal.run("(await host['math'].call('factorial', n=9)).data")
    assert "24" in terminal.run("(await host['math'].tools.factorial(n=4)).data")


def test_an_error_is_red_only_where_the_terminal_has_colours(terminal):
    def raw(line):
        terminal.run(line)
        return str(terminal.child.before)

    assert "UnknownToolError: " in raw("%mcp call math:nothing")
    assert "\x1b" not in raw("%mcp call math:nothing")
    terminal.run("%colors linux")
    assert "\x1b[31mUnknownToolError\x1b[0m: " in raw("%mcp call math:nothing")
    terminal.run("%colors nocolor")
    assert "\x1b" not in raw("%mcp call math:nothing")


def test_an_error_is_one_line_and_the_next_command_works(terminal):
    said = terminal.run("%mcp call math:divide a=1 b=0")
    assert "ToolError: math:divide failed: Cannot divide by zero." in said
    assert "Traceback" not in said
    assert "CommandNotFoundError" in terminal.run("%mcp connect -- no-such-command-at-all")
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


@pytest.mark.parametrize("form", FORMS)
def test_ctrl_c_ends_call_tells_server_and_keeps_session(terminal, tmp_path, form):
    terminal.send(FORMS[form].format(tmp_path))
    until((tmp_path / "started").exists, what="the tool has started")
    said = terminal.interrupt()
    if form == "Python":
        assert said.partition("^C")[2].strip() == "CancelledError: holding:hold: interrupted"
    else:
        assert "KeyboardInterrupt" in said
    assert len(said.splitlines()) < 40
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "pong" in terminal.run("%mcp call holding:ping")
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


def test_ctrl_c_ends_a_connect(terminal):
    before = set(terminal.process.children(recursive=True))
    terminal.send(f"%mcp connect -- {sys.executable} -c 'import sys; sys.stdin.read()'")
    until(lambda: len(set(terminal.process.children(recursive=True)) - before) == 1, what="the process runs")
    assert "KeyboardInterrupt" in terminal.interrupt()
    assert "pong" in terminal.run("%mcp call holding:ping")
    # between commands the loop stands still: the process is reaped with the next magic, or at the exit
    until(
        lambda: bool(terminal.run("%mcp")) and set(terminal.process.children(recursive=True)) <= before,
        what="the process has ended",
    )


def test_ctrl_c_at_the_prompt_is_still_ipythons_own(terminal):
    assert "KeyboardInterrupt" in terminal.interrupt()
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")


@pytest.mark.parametrize("goodbye", ["exit", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)", "EOF"])
def test_the_exit_leaves_no_process_and_says_nothing(folder, goodbye):
    running = Terminal(folder, "--simple-prompt", "--no-banner")
    running.run(LOAD)
    running.run(CONNECT_PLAIN)
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


def test_the_prompt_of_prompt_toolkit_works_as_well(folder, tmp_path):
    running = Terminal(folder, "--no-banner", "--colors=nocolor")
    try:
        running.run(LOAD)
        running.run(f"%mcp connect {HOLDING} --name holding")
        assert "pong" in running.run("%mcp call holding:ping")
        running.send(f"%mcp call holding:hold folder={tmp_path}")
        until((tmp_path / "started").exists, what="the tool has started")
        assert "KeyboardInterrupt" in running.interrupt()
        until((tmp_path / "cancelled").exists, what="the server knows")
        assert "pong" in running.run("%mcp call holding:ping")
        running.send("exit")
        running.child.expect(pexpect.EOF)
    finally:
        running.close()
