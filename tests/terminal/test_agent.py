"""`%%mcp_agent` in terminal IPython: text as it comes, `input()` for consent, Ctrl-C."""

import re

import pytest

from tests.support.kernel_servers import HOLDING, IMPORT_MATH
from tests.support.kernels import until

QUESTION = r"\? \[y\]es, \[n\]o, \[e\]dit, \[a\]lways, \[d\]eny always: "
PLAN = r"Approve numbers such as 1,3-5, or \[a\]ll, \[d\]eny the rest, \[e\]dit and a number: "
ARGUMENTS = "Arguments as JSON, empty to leave them: "
SETUP = (
    IMPORT_MATH,
    "%mcp connect math",
    f"%mcp connect {HOLDING} --name holding",
    "import asyncio; from mcp_magic import ScriptedModel",
)
SUM = "add 3 and 4, then multiply the result by 5"
pytestmark = pytest.mark.usefixtures("no_rule_is_left")


def model(terminal, *turns):
    terminal.run(f"m = ScriptedModel([{', '.join(turns)}])")


def begin(terminal, line, request):
    """Type a cell; two empty lines end one in a simple prompt."""
    for typed in (f"%%mcp_agent {line}", request, ""):
        terminal.send(typed)
        terminal.child.expect(r"\.\.\.: +$")
    terminal.send("")


def ran(terminal, line, request):
    """Run a cell that asks nothing; return what is printed."""
    begin(terminal, line, request)
    return terminal.wait()


def test_a_plan_is_answered_by_numbers(terminal):
    model(terminal, "[('math:add', {'a': a, 'b': 1}) for a in (1, 2, 3)]", "'Done.'")
    begin(terminal, "--model $m --approve plan -o run", "Add.")
    said, _, changed = terminal.asks(PLAN, "e 2", ARGUMENTS, '{"a": 20, "b": 1}', PLAN, "1-2")
    assert "agent wants to make 3 calls" in said
    assert re.search(r"  3\. math:add .*\s+a = 3\s+b = 1", said)
    assert "a = 20   ✎ changed; was 2" in changed
    assert "3 calls; 2 approved, 1 left" in terminal.asks(PLAN, "d not that one")[0]
    assert "Done." in terminal.wait()
    assert "[2, 21]" in terminal.run("[r.data for r in run.results if r.data]")
    assert "denied by the user: not that one" in terminal.run("run.messages[4].text")


def test_each_call_is_asked_for_and_what_happens_is_printed_once(terminal):
    begin(terminal, "--thread sums -o run", SUM)
    first, second = terminal.asks(QUESTION, "y", QUESTION, "y")
    last = terminal.wait()
    for said, texts in (
        (first, (f"> {SUM}", "The demo model `offline` answers", "agent wants to call math:add", "a = 3")),
        (second, ("✓ ok math:add(a=3, b=4)", "approved by you", "agent wants to call math:multiply")),
        (last, ("✓ ok math:multiply(a=7, b=5)", "gives **35**", "3 turns · 2 calls")),
    ):
        assert [text for text in texts if text not in said] == []
    everything = first + second + last
    for once in (f"> {SUM}", "✓ ok math:add", "✓ ok math:multiply", "`math:add(a=3, b=4)` gives **7**", "3 turns"):
        assert everything.count(once) == 1, once
    shown = terminal.run("run")
    assert "✓ ok math:add(a=3, b=4)" in shown
    assert "3 turns · 2 calls" in shown
    assert "35" in terminal.run("run.results[1].data")


def test_printed_run_has_no_empty_output_and_stays_in_out(terminal):
    said = ran(terminal, "--approve auto --thread shown", SUM)
    assert "gives **35**" in said
    assert "Out[" not in said
    assert "AgentRun" in terminal.run("type(_)")
    assert re.search(r"Out\[\d+\]: 5", terminal.run("2 + 3"))


def test_a_denial_and_its_reason_reach_the_model(terminal):
    model(terminal, "[('math:add', {'a': 1, 'b': 2})]", "'As you like.'")
    begin(terminal, "--model $m --thread denied", "add")
    terminal.asks(QUESTION, "n not today")
    said = terminal.wait()
    assert "⊘ denied math:add(a=1, b=2)" in said
    assert "(by you: not today)" in said
    assert "As you like." in said
    assert "denied by the user: not today" in terminal.run("m.seen[1].messages[-1].text")


def test_an_edited_call_goes_out_changed(terminal):
    model(terminal, "[('math:add', {'a': 1, 'b': 2})]", "'Done.'")
    begin(terminal, "--model $m --thread edited -o run", "add")
    answers = (QUESTION, "e", ARGUMENTS, '{"a": 40, "b": 2}', QUESTION, "y")
    assert "a = 40" in terminal.asks(*answers)[2]
    said = terminal.wait()
    assert "✓ ok math:add(a=40, b=2)" in said
    assert "edited and approved by you" in said
    assert "42" in terminal.run("run.results[0].data")


def test_calls_of_one_turn_are_asked_for_one_after_the_other(terminal):
    model(terminal, "[('math:add', {'a': 1, 'b': 2}), ('math:factorial', {'n': 5})]", "'Done.'")
    begin(terminal, "--model $m --thread two", "both")
    add, factorial = terminal.asks(QUESTION, "y", QUESTION, "n")
    assert "agent wants to call math:add" in add
    assert "agent wants to call math:factorial" in factorial
    said = terminal.run("")
    assert "✓ ok math:add(a=1, b=2)" in said
    assert "⊘ denied math:factorial(n=5)" in said


def test_ctrl_c_stops_a_call_and_the_thread_goes_on(terminal, tmp_path):
    model(terminal, f"[('holding:hold', {{'folder': {str(tmp_path)!r}}})]", "'Going on.'")
    begin(terminal, "--model $m --thread stopped --approve auto", "hold on")
    until((tmp_path / "started").exists, what="the tool has started")
    said = terminal.interrupt()
    assert "KeyboardInterrupt" in said
    assert "■ interrupted holding:hold" in " ".join(said.split())  # a long folder stands on a line of its own
    assert len(said.splitlines()) < 40
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "Going on." in ran(terminal, "--model $m --thread stopped", "go on")
    assert "■ interrupted" in terminal.run("%mcp agent --show stopped")


def test_ctrl_c_while_thinking_or_asked_calls_nothing(terminal, tmp_path):
    terminal.run("async def long(messages):", "    await asyncio.sleep(100)", "")
    model(terminal, "long")
    begin(terminal, "--model $m --thread slow", "Think.")
    terminal.child.expect(r"model thinking · [12]\.\d s · Ctrl-C stops the turn")
    assert "KeyboardInterrupt" in terminal.interrupt()
    model(terminal, f"[('holding:hold', {{'folder': {str(tmp_path)!r}}})]", "'Well.'")
    begin(terminal, "--model $m --thread question", "hold on")
    terminal.child.expect(QUESTION)
    said = terminal.interrupt()
    assert "KeyboardInterrupt" in said
    assert "Well." not in said
    assert "1" in terminal.run("len(m.seen)").split("Out", 1)[1]
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("show", "seen", "not_seen"), [("answer", "It is 3.", "math:add"), ("none", "", "It is 3.")])
def test_show_answer_or_none_shortens_the_printout(terminal, show, seen, not_seen):
    model(terminal, "[('math:add', {'a': 1, 'b': 2})]", "'It is 3.'")
    said = ran(terminal, f"--model $m --thread {show} --approve auto --show {show} -o run", "add")
    assert (seen in said, not_seen in said) == (True, False)
    assert "It is 3." in terminal.run("run.answer")


def test_what_a_model_says_does_not_steer_the_terminal(terminal):
    model(terminal, r"'\x1b[31mred\x1b]0;owned\x07 \x9b2J end'")
    begin(terminal, "--model $m --thread hostile", "go")
    terminal.child.expect(r"In \[\d+\]: $")
    said = str(terminal.child.before)
    assert "red" in said
    assert "end" in said
    assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_a_mistake_is_told_in_a_line(terminal):
    said = ran(terminal, "--servers maths", "add 1 and 2")
    assert "no server 'maths'. Did you mean 'math'?" in said
    assert "Traceback" not in said
