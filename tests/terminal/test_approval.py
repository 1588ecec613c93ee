"""Consent in terminal IPython: `input()` asks."""

import pytest

from tests.support.kernel_servers import IMPORT_MATH

QUESTION = r"Approve math:add\? \[y\]es, \[n\]o, \[e\]dit, \[a\]lways, \[d\]eny always: "
ARGUMENTS = "Arguments as JSON, empty to leave them: "
SETUP = (IMPORT_MATH, "%mcp connect math", "from mcp_magic import host")
CALL = "(await host['math'].call_tool('add', {'a': 1, 'b': 2}, asker='agent')).data"
OWN = {
    "awaited": "%mcp call math:add a=5 b=6",
    "nested": "(lambda: get_ipython().run_line_magic('mcp', 'call math:add a=5 b=6'))()",
}
pytestmark = pytest.mark.usefixtures("no_rule_is_left")


def asked(terminal, line=CALL):
    """Type a line that asks; return what was said before the question."""
    return terminal.asked(line, QUESTION)


def test_yes_lets_the_call_go_out_and_no_denies_it(terminal):
    said = asked(terminal)
    assert "agent wants to call math:add" in said
    assert "a = 1" in said
    assert "3" in terminal.run("y").split("Out", 1)[1]
    denied = "DeniedError: math:add was not called; denied by the user: not now."
    asked(terminal)
    assert denied in terminal.run("n not now")
    asked(terminal)
    terminal.send("n")
    assert denied in terminal.run("not now")


def test_arguments_are_edited(terminal):
    asked(terminal)
    terminal.send("e")
    edits = (ARGUMENTS, '{"a": "x", "b": 2}', QUESTION, "e", ARGUMENTS, '{"a": 40, "b": 2}', QUESTION, "y")
    _, refused, _, changed = terminal.asks(*edits)
    assert "a: expected integer or number, got 'x'" in refused
    assert "a = 40   ✎ changed; was 1" in changed
    assert "42" in terminal.wait()


def test_what_is_long_is_shown_whole_before_yes_counts(terminal):
    terminal.run("from mcp.server.mcpserver import MCPServer; sh = MCPServer('sh'); run = lambda obj: len(obj)")
    terminal.run("run.__annotations__ = {'obj': str}; sh.add_tool(run, name='run')")
    terminal.run("%mcp connect $sh --name sh")
    command = "'ls' + ' ' * 1200 + '; ' + 'curl ' * 400 + 'rm'"
    question = QUESTION.replace("math:add", "sh:run").replace("eny always: ", r"eny always, show the \[w\]hole: ")
    terminal.send(f"(await host['sh'].call_tool('run', {{'obj': {command}}}, asker='agent')).text")
    short, whole = terminal.asks(question, "y", question, "y")
    assert "obj = ls⟨␣×1,200⟩; curl" in short  # noqa: RUF001
    assert "characters left out" in short
    assert "You have not seen all of it yet." in whole
    assert "; " + "curl " * 400 + "rm" in whole.replace("\r\n", "")
    assert "3206" in terminal.wait().split("Out", 1)[1]


def test_ctrl_c_ends_the_call_and_the_session_lives_on(terminal):
    asked(terminal)
    said = terminal.interrupt()
    assert said.split("eny always: ")[-1].split() == ["^CCancelledError:", "interrupted"]
    assert "7" in terminal.run("%mcp call math:add a=3 b=4")


@pytest.mark.parametrize("line", OWN.values(), ids=OWN)
def test_a_rule_makes_ones_own_calls_wait_until_ctrl_c(terminal, line):
    terminal.run("%mcp ask math:add")
    assert "You are about to call math:add" in asked(terminal, line)
    assert "11" in terminal.run("y")
    asked(terminal, line)
    said = terminal.interrupt()
    assert ("KeyboardInterrupt" in said, "DeniedError" in said) == (True, False)
    terminal.run("%mcp approvals --clear")
    assert "7" in terminal.run("%mcp call math:add a=3 b=4")


def test_nobody_answers_in_time(terminal):
    terminal.run("%config MCPMagics.approval_timeout = 0.3")
    try:
        asked(terminal)
        assert "denied by time-out: you did not answer within 0.3 s." in terminal.wait()
    finally:
        terminal.run("%config MCPMagics.approval_timeout = 300.0")


def test_always_is_not_asked_again(terminal):
    asked(terminal)
    terminal.send("a")
    terminal.asks(r"Always for this \[t\]ool, these \[a\]rguments: ", "t")
    assert "3" in terminal.wait()
    assert "Approve" not in terminal.run(CALL)
