"""What servers ask of models, in terminal IPython: `input()` asks."""

from tests.support.kernel_servers import WRITER

SETUP = (f"exec({WRITER!r})", "%mcp connect writer --timeout 60")
CHOICES = r"\[a\]pprove, approve and show me the \[r\]eply first, \[e\]dit, \[d\]eny: "
WHY = r"Why not\? Enter gives no reason: "


def asked(terminal):
    """Call the tool that asks; return what was said before the question."""
    return terminal.asked("%mcp call writer:summarise", CHOICES)


def test_a_request_is_shown_and_its_reply_before_it_is_sent(terminal):
    said = asked(terminal)
    terminal.send("r")
    [reply] = terminal.asks(r"\[s\]end, \[e\]dit, \[r\]efuse: ", "s")
    assert "Server writer asks a model to answer:" in said
    assert "Summarise this: Cats sleep." in said
    assert "answered by: offline" in said
    assert "Reply of offline to server writer (endTurn):" in reply
    assert "offline endTurn: Cats sleep." in terminal.wait()


def test_no_is_an_error_and_ctrl_c_ends_the_call(terminal):
    asked(terminal)
    said = terminal.interrupt()
    assert ("KeyboardInterrupt" in said, "rejected" in said) == (True, False)
    asked(terminal)
    terminal.asked("d", WHY)
    assert "User rejected sampling request: denied by you: it is private" in terminal.run("it is private")
