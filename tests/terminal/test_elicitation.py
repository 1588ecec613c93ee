"""What servers ask of the person, in terminal IPython: `input()` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.environments import everything_command, needs_node
from tests.support import SUPPORT
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from tests.support.terminals import Terminal

SERVER = SUPPORT / "eliciting_server.py"
SETUP = (f"%mcp connect {SERVER} --name trip --timeout 60",)


def asked(terminal: Terminal, line: str = "%mcp call trip:plan") -> str:
    """Type a line that asks; return what was said before the question."""
    return terminal.asked(line, r"\[f\]ill in, \[d\]ecline, \[c\]ancel: ")


def test_a_form_is_filled_in_line_by_line(terminal: Terminal) -> None:
    said = asked(terminal)
    terminal.send("f")
    terminal.child.expect(r"city \(string.*required\): ")
    terminal.send("Oslo")
    terminal.child.expect(r"days \(integer\) \[3\]: ")
    terminal.send("")
    terminal.child.expect(r"\[s\]end, \[f\]ill in again, \[d\]ecline, \[c\]ancel: ")

    assert "Server trip asks you for:" in said
    assert "Where to?" in said
    assert "accept Oslo 3" in terminal.run("s")


def test_no_is_an_answer(terminal: Terminal) -> None:
    asked(terminal)

    assert "decline" in terminal.run("d")


def test_the_end_of_input_cancels(terminal: Terminal) -> None:
    asked(terminal)
    terminal.press("D")
    terminal.child.expect_exact("cancel")


def ends_by_ctrl_c(terminal: Terminal, line: str) -> None:
    asked(terminal, line)
    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    assert "Out" not in said
    soon(seconds, 1.0)


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_the_call_and_the_session_goes_on(terminal: Terminal) -> None:
    ends_by_ctrl_c(terminal, "%mcp call trip:plan")

    asked(terminal)
    assert "decline" in terminal.run("d")


@needs_node
@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_the_call_of_a_server_of_the_handshake_era(terminal: Terminal) -> None:
    terminal.run(f"%mcp connect --name everything -- {' '.join(everything_command())}")

    ends_by_ctrl_c(terminal, "%mcp call everything:trigger-elicitation-request")

    assert "Echo: there" in terminal.run("%mcp call everything:echo message=there")
