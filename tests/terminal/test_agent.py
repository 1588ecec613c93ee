"""`%%mcp_agent` in terminal IPython: text as it comes, `input()` for consent, Ctrl-C."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.kernel_servers import HERE, MATH
from tests.support.kernels import until
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.terminals import Terminal

QUESTION = r"\? \[y\]es, \[n\]o, \[e\]dit, \[a\]lways, \[d\]eny always: "
SETUP = (
    f"%mcp connect {MATH} --name math",
    f"%mcp connect {HERE / 'holding_server.py'} --name holding",
    "from mcp_magic import ScriptedModel",
)
SUM = "add 3 and 4, then multiply the result by 5"


@pytest.fixture(autouse=True)
def no_rule_is_left(terminal: Terminal) -> Iterator[None]:
    yield
    terminal.run("%mcp approvals --clear")


def begin(terminal: Terminal, line: str, request: str) -> None:
    """Type a cell; two empty lines end one in a simple prompt."""
    for each in (f"%%mcp_agent {line}", request, ""):
        terminal.send(each)
        terminal.child.expect(r"\.\.\.: +$")
    terminal.send("")


def asked(terminal: Terminal) -> str:
    """Return what is printed until the next question."""
    terminal.child.expect(QUESTION)
    return str(terminal.child.before)


def ran(terminal: Terminal, line: str, request: str) -> str:
    """Run a cell that asks nothing; return what is printed."""
    begin(terminal, line, request)
    return terminal.wait()


PLAN = r"Approve numbers such as 1,3-5, or \[a\]ll, \[d\]eny the rest, \[e\]dit and a number: "


def test_a_plan_is_answered_by_numbers(terminal: Terminal) -> None:
    terminal.run("m = ScriptedModel([[('math:add', {'a': a, 'b': 1}) for a in (1, 2, 3)], 'Done.'])")
    begin(terminal, "--model $m --approve plan -o run", "Add.")
    terminal.child.expect(PLAN)
    said = str(terminal.child.before)
    assert "agent wants to make 3 calls" in said
    assert re.search(r"  3\. math:add .*\s+a = 3\s+b = 1", said)

    terminal.send("e 2")
    terminal.child.expect("Arguments as JSON, empty to leave them: ")
    terminal.send('{"a": 20, "b": 1}')
    terminal.child.expect(PLAN)
    assert "a = 20   ✎ changed; was 2" in terminal.child.before
    terminal.send("1-2")
    terminal.child.expect(PLAN)
    assert "3 calls; 2 approved, 1 left" in terminal.child.before
    assert "Done." in terminal.run("d not that one")
    assert "[2, 21]" in terminal.run("[r.data for r in run.results if r.data]")
    assert "denied by the user: not that one" in terminal.run("run.messages[4].text")


def test_each_call_is_asked_for_and_what_happens_is_printed_once(terminal: Terminal) -> None:
    begin(terminal, "--thread sums -o run", SUM)

    first = asked(terminal)
    assert f"> {SUM}" in first
    assert "The demo model `offline` answers" in first
    assert "agent wants to call math:add" in first
    assert "a = 3" in first
    terminal.send("y")

    second = asked(terminal)
    assert "✓ ok math:add(a=3, b=4)" in second
    assert "approved by you" in second
    assert "agent wants to call math:multiply" in second
    last = terminal.run("y")

    assert "✓ ok math:multiply(a=7, b=5)" in last
    assert "gives **35**" in last
    assert "3 turns · 2 calls" in last
    everything = first + second + last
    for once in (f"> {SUM}", "✓ ok math:add", "✓ ok math:multiply", "`math:add(a=3, b=4)` gives **7**", "3 turns"):
        assert everything.count(once) == 1, once


def test_printed_run_has_no_empty_output_and_stays_in_out(terminal: Terminal) -> None:
    said = ran(terminal, "--approve auto --thread shown", SUM)

    assert "gives **35**" in said
    assert "Out[" not in said
    assert "AgentRun" in terminal.run("type(_)")
    assert re.search(r"Out\[\d+\]: 5", terminal.run("2 + 3"))


def test_the_run_is_a_value_that_a_later_command_shows(terminal: Terminal) -> None:
    terminal.run("%mcp allow 'math:*'")
    ran(terminal, "--thread value -o run", SUM)

    shown = terminal.run("run")
    assert "✓ ok math:add(a=3, b=4)" in shown
    assert "3 turns · 2 calls" in shown
    assert "35" in terminal.run("run.results[1].data")


def test_a_denial_and_its_reason_reach_the_model(terminal: Terminal) -> None:
    terminal.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], 'As you like.'])")
    begin(terminal, "--model $m --thread denied", "add")
    asked(terminal)
    said = terminal.run("n not today")

    assert "⊘ denied math:add(a=1, b=2)" in said
    assert "(by you: not today)" in said
    assert "As you like." in said
    assert "denied by the user: not today" in terminal.run("m.seen[1].messages[-1].text")


def test_an_edited_call_goes_out_changed(terminal: Terminal) -> None:
    terminal.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], 'Done.'])")
    begin(terminal, "--model $m --thread edited -o run", "add")
    asked(terminal)
    terminal.send("e")
    terminal.child.expect("Arguments as JSON, empty to leave them: ")
    terminal.send('{"a": 40, "b": 2}')
    assert "a = 40" in asked(terminal)
    said = terminal.run("y")

    assert "✓ ok math:add(a=40, b=2)" in said
    assert "edited and approved by you" in said
    assert "42" in terminal.run("run.results[0].data")


def test_calls_of_one_turn_are_asked_for_one_after_the_other(terminal: Terminal) -> None:
    terminal.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2}), ('math:factorial', {'n': 5})], 'Done.'])")
    begin(terminal, "--model $m --thread two", "both")
    assert "agent wants to call math:add" in asked(terminal)
    terminal.send("y")
    assert "agent wants to call math:factorial" in asked(terminal)
    terminal.send("n")
    said = terminal.run("")

    assert "✓ ok math:add(a=1, b=2)" in said
    assert "⊘ denied math:factorial(n=5)" in said


@pytest.mark.timed
@tried_again
def test_ctrl_c_stops_a_call_and_the_thread_goes_on(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(f"m = ScriptedModel([[('holding:hold', {{'folder': {str(tmp_path)!r}}})], 'Going on.'])")
    begin(terminal, "--model $m --thread stopped --approve auto", "hold on")
    until((tmp_path / "started").exists, what="the tool has started")

    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    assert "■ interrupted holding:hold" in " ".join(said.split())  # a long folder stands on a line of its own
    soon(seconds, 1.0)
    assert len(said.splitlines()) < 40
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert "Going on." in ran(terminal, "--model $m --thread stopped", "go on")
    assert "■ interrupted" in terminal.run("%mcp agent --show stopped")


def test_a_thinking_model_is_said_to_be_stopped_by_ctrl_c(terminal: Terminal) -> None:
    terminal.run("import asyncio")
    terminal.run("async def long(messages):", "    await asyncio.sleep(100)", "")
    terminal.run("m = ScriptedModel([long])")
    begin(terminal, "--model $m --thread slow", "Think.")
    terminal.child.expect(r"model thinking · [12]\.\d s · Ctrl-C stops the turn")

    assert "KeyboardInterrupt" in terminal.interrupt()[0]


@pytest.mark.timed
@tried_again
def test_ctrl_c_at_the_question_calls_nothing(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(f"m = ScriptedModel([[('holding:hold', {{'folder': {str(tmp_path)!r}}})], 'Well.'])")
    begin(terminal, "--model $m --thread question", "hold on")
    asked(terminal)
    said, seconds = terminal.interrupt()

    assert "KeyboardInterrupt" in said
    assert "Well." not in said
    soon(seconds, 1.0)
    assert "1" in terminal.run("len(m.seen)").split("Out", 1)[1]
    assert "3" in terminal.run("%mcp call math:add a=1 b=2")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("show", "seen", "not_seen"), [("answer", "It is 3.", "math:add"), ("none", "", "It is 3.")])
def test_less_can_be_printed(terminal: Terminal, show: str, seen: str, not_seen: str) -> None:
    terminal.run("m = ScriptedModel([[('math:add', {'a': 1, 'b': 2})], 'It is 3.'])")
    said = ran(terminal, f"--model $m --thread {show} --approve auto --show {show} -o run", "add")

    assert seen in said
    assert not_seen not in said
    assert "It is 3." in terminal.run("run.answer")


def test_what_a_model_says_does_not_steer_the_terminal(terminal: Terminal) -> None:
    terminal.run(r"m = ScriptedModel(['\x1b[31mred\x1b]0;owned\x07 \x9b2J end'])")
    begin(terminal, "--model $m --thread hostile", "go")
    terminal.child.expect(r"In \[\d+\]: $")

    said = str(terminal.child.before)
    assert "red" in said
    assert "end" in said
    assert not {"\x1b", "\x07", "\x9b"} & set(said)


def test_a_mistake_is_told_in_a_line(terminal: Terminal) -> None:
    said = ran(terminal, "--servers maths", "add 1 and 2")

    assert "no server 'maths'. Did you mean 'math'?" in said
    assert "Traceback" not in said
