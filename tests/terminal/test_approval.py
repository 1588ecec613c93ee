"""Consent in terminal IPython: `input()` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import MATH
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from tests.support.terminals import Terminal

QUESTION = r"Approve math:add\? \[y\]es, \[n\]o, \[e\]dit, \[a\]lways, \[d\]eny always: "
SETUP = (f"%mcp connect {MATH} --name math", "from mcp_magic import host")
CALL = "(await host['math'].call_tool('add', {'a': 1, 'b': 2}, asker='agent')).data"


def asked(terminal: Terminal, line: str = CALL) -> str:
    """Type a line that asks; return what was said before the question."""
    return terminal.asked(line, QUESTION)


def test_yes_lets_the_call_go_out(terminal: Terminal) -> None:
    said = asked(terminal)

    assert "agent wants to call math:add" in said
    assert "a = 1" in said
    assert "3" in terminal.run("y").split("Out", 1)[1]


def test_no_gives_the_reason(terminal: Terminal) -> None:
    asked(terminal)

    assert "DeniedError: math:add was not called; denied by the user: not now." in terminal.run("n not now")


def test_no_without_a_reason_asks_for_it(terminal: Terminal) -> None:
    asked(terminal)
    terminal.send("n")

    assert "DeniedError: math:add was not called; denied by the user: not now." in terminal.run("not now")


def test_arguments_are_edited(terminal: Terminal) -> None:
    asked(terminal)
    terminal.send("e")
    terminal.child.expect("Arguments as JSON, empty to leave them: ")
    terminal.send('{"a": "x", "b": 2}')
    terminal.child.expect(QUESTION)
    assert "a: expected integer or number, got 'x'" in terminal.child.before
    terminal.send("e")
    terminal.child.expect("Arguments as JSON, empty to leave them: ")
    terminal.send('{"a": 40, "b": 2}')
    terminal.child.expect(QUESTION)
    assert "a = 40   ✎ changed; was 1" in terminal.child.before

    assert "42" in terminal.run("y")


def test_what_is_long_is_shown_whole_before_yes_counts(terminal: Terminal) -> None:
    terminal.run("from mcp.server.mcpserver import MCPServer; sh = MCPServer('sh'); run = lambda obj: len(obj)")
    terminal.run("run.__annotations__ = {'obj': str}; sh.add_tool(run, name='run')")
    terminal.run("%mcp connect $sh --name sh")
    command = "'ls' + ' ' * 1200 + '; ' + 'curl ' * 400 + 'rm'"
    question = QUESTION.replace("math:add", "sh:run").replace("eny always: ", r"eny always, show the \[w\]hole: ")

    terminal.send(f"(await host['sh'].call_tool('run', {{'obj': {command}}}, asker='agent')).text")
    terminal.child.expect(question)
    assert "obj = ls⟨␣×1,200⟩; curl" in terminal.child.before  # noqa: RUF001
    assert "characters left out" in terminal.child.before
    terminal.send("y")
    terminal.child.expect(question)
    assert "You have not seen all of it yet." in terminal.child.before
    assert "; " + "curl " * 400 + "rm" in terminal.child.before.replace("\r\n", "")

    assert "3206" in terminal.run("y").split("Out", 1)[1]


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_the_call_and_the_session_lives_on(terminal: Terminal) -> None:
    asked(terminal)
    said, seconds = terminal.interrupt()

    assert said.split("eny always: ")[-1].split() == ["^CCancelledError:", "interrupted"]
    soon(seconds, 1.0)
    assert "7" in terminal.run("%mcp call math:add a=3 b=4")


@pytest.mark.timed
@pytest.mark.parametrize(
    "line", ["%mcp call math:add a=5 b=6", "(lambda: get_ipython().run_line_magic('mcp', 'call math:add a=5 b=6'))()"]
)
@tried_again
def test_ctrl_c_ends_a_magic_that_asks(terminal: Terminal, line: str) -> None:
    terminal.run("%mcp ask math:add")
    try:
        asked(terminal, line)
        said, seconds = terminal.interrupt()
    finally:
        terminal.run("%mcp approvals --clear")

    assert "KeyboardInterrupt" in said
    assert "DeniedError" not in said
    soon(seconds, 1.0)
    assert "7" in terminal.run("%mcp call math:add a=3 b=4")


def test_nobody_answers_in_time(terminal: Terminal) -> None:
    terminal.run("%config MCPMagics.approval_timeout = 0.3")
    try:
        asked(terminal)
        assert "denied by time-out: you did not answer within 0.3 s." in terminal.wait()
    finally:
        terminal.run("%config MCPMagics.approval_timeout = 300.0")


@pytest.mark.parametrize(
    "line", ["%mcp call math:add a=5 b=6", "(lambda: get_ipython().run_line_magic('mcp', 'call math:add a=5 b=6'))()"]
)
def test_a_rule_makes_the_persons_own_calls_wait(terminal: Terminal, line: str) -> None:
    terminal.run("%mcp ask math:add")
    try:
        assert "You are about to call math:add" in asked(terminal, line)
        assert "11" in terminal.run("y")
    finally:
        terminal.run("%mcp approvals --clear")


def test_always_is_not_asked_again(terminal: Terminal) -> None:
    asked(terminal)
    terminal.send("a")
    terminal.child.expect(r"Always for this \[t\]ool, these \[a\]rguments: ")
    assert "3" in terminal.run("t")
    assert "Approve" not in terminal.run(CALL)
    terminal.run("%mcp approvals --clear")
