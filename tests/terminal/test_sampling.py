"""What servers ask of models, in terminal IPython: `input()` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import SUPPORT
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from tests.support.terminals import Terminal

SERVER = SUPPORT / "sampling_servers.py"
SETUP = (f"%mcp connect {SERVER} --name writer --timeout 60",)
CHOICES = r"\[a\]pprove, approve and show me the \[r\]eply first, \[e\]dit, \[d\]eny: "

WHY = r"Why not\? Enter gives no reason: "


def asked(terminal: Terminal) -> str:
    """Call the tool that asks; return what was said before the question."""
    return terminal.asked("%mcp call writer:summarise", CHOICES)


def test_a_request_is_shown_and_its_reply_before_it_is_sent(terminal: Terminal) -> None:
    said = asked(terminal)
    terminal.send("r")
    terminal.child.expect(r"\[s\]end, \[e\]dit, \[r\]efuse: ")
    reply = str(terminal.child.before)

    assert "Server writer asks a model to answer:" in said
    assert "Summarise this: Cats sleep." in said
    assert "answered by: offline" in said
    assert "Reply of offline to server writer (endTurn):" in reply
    assert "offline endTurn: Cats sleep." in terminal.run("s")


def test_no_is_an_error(terminal: Terminal) -> None:
    asked(terminal)

    terminal.asked("d", WHY)
    assert "User rejected sampling request: denied by you: it is private" in terminal.run("it is private")


@pytest.mark.timed
@tried_again
def test_ctrl_c_ends_the_call(terminal: Terminal) -> None:
    asked(terminal)
    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    assert "rejected" not in said
    soon(seconds, 1.0)
    asked(terminal)
    terminal.asked("d", WHY)
    assert "User rejected" in terminal.run("")
