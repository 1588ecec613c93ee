"""What servers ask of the person and of models, in terminal IPython: `input()` asks."""

from tests.environments import everything_command, needs_node
from tests.support.kernel_servers import TRIPS, WRITER

SETUP = (f"exec({TRIPS!r})", "%mcp connect trips --timeout 60", f"exec({WRITER!r})", "%mcp connect writer --timeout 60")
CHOICES = r"\[a\]pprove, approve and show me the \[r\]eply first, \[e\]dit, \[d\]eny: "
WHY = r"Why not\? Enter gives no reason: "


def asked(terminal, line="%mcp call trips:plan"):
    """Type a line that asks; return what was said before the question."""
    return terminal.asked(line, r"\[f\]ill in, \[d\]ecline, \[c\]ancel: ")


def test_a_form_is_filled_in_line_by_line(terminal):
    said = asked(terminal)
    terminal.send("f")
    terminal.asks(r"city \(string.*required\): ", "Oslo", r"days \(integer\) \[3\]: ", "")
    terminal.asks(r"\[s\]end, \[f\]ill in again, \[d\]ecline, \[c\]ancel: ", "s")
    assert "Server trips asks you for:" in said
    assert "Where <i>to</i>?" in said
    assert "accept Oslo 3" in terminal.wait()


def test_no_is_an_answer_and_the_end_of_input_cancels(terminal):
    asked(terminal)
    assert "decline" in terminal.run("d")
    asked(terminal)
    terminal.press("D")
    terminal.child.expect_exact("cancel")
    terminal.wait()


def ends_by_ctrl_c(terminal, line):
    asked(terminal, line)
    said = terminal.interrupt()
    assert ("KeyboardInterrupt" in said, "Out" in said) == (True, False)


def test_ctrl_c_ends_the_call_and_the_session_goes_on(terminal):
    ends_by_ctrl_c(terminal, "%mcp call trips:plan")
    asked(terminal)
    assert "decline" in terminal.run("d")


@needs_node
def test_ctrl_c_ends_the_call_of_a_server_of_the_handshake_era(terminal):
    terminal.run(f"%mcp connect --name everything -- {' '.join(everything_command())}")
    ends_by_ctrl_c(terminal, "%mcp call everything:trigger-elicitation-request")
    assert "Echo: there" in terminal.run("%mcp call everything:echo message=there")


def test_a_request_is_shown_and_its_reply_before_it_is_sent(terminal):
    said = terminal.asked("%mcp call writer:summarise", CHOICES)
    terminal.send("r")
    [reply] = terminal.asks(r"\[s\]end, \[e\]dit, \[r\]efuse: ", "s")
    assert "Server writer asks a model to answer:" in said
    assert "Summarise this: Cats sleep." in said
    assert "answered by: offline" in said
    assert "Reply of offline to server writer (endTurn):" in reply
    assert "offline endTurn: Cats sleep." in terminal.wait()


def test_no_is_an_error_and_ctrl_c_ends_the_call(terminal):
    terminal.asked("%mcp call writer:summarise", CHOICES)
    said = terminal.interrupt()
    assert ("KeyboardInterrupt" in said, "rejected" in said) == (True, False)
    terminal.asked("%mcp call writer:summarise", CHOICES)
    terminal.asked("d", WHY)
    assert "User rejected sampling request: denied by you: it is private" in terminal.run("it is private")
