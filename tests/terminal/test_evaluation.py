"""`%%mcp_eval` in terminal IPython: the question about all tools that only read, and the table as text."""

import pytest

from tests.support.kernel_servers import IMPORT_MATH

QUESTION = r"\? \[y\]es, \[n\]o.*: "
SETUP = (
    IMPORT_MATH,
    "%mcp connect math",
    "from mcp_magic import ScriptedModel",
    "turn = lambda messages: 'ok' if messages[-1].type == 'tool' else [('math:add', {'a': 1, 'b': 2})]",
    "m = ScriptedModel([turn], repeat_last=True)",
)
pytestmark = pytest.mark.usefixtures("no_rule_is_left")


def test_tools_that_only_read_are_one_question(terminal):
    for typed in ("%%mcp_eval --models $m --runs 3 -o scores", "Add 1 and 2 -> math:add a=1 b=2", ""):
        terminal.send(typed)
        terminal.child.expect(r"\.\.\.: +$")
    terminal.send("")
    [said] = terminal.asks(QUESTION, "y")
    assert "agent evaluation wants to call math:" in said
    assert "runs = 3 of 1 case" in said
    shown = terminal.wait()
    assert "✓ 3 of 3 runs of 1 case" in shown
    assert "100%" in shown
    assert "[True, True, True]" in terminal.run("scores.df['right'].tolist()")
