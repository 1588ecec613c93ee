"""What a question about a call shows of it, in a line and as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_magic.ask.approval import approval_part, call_text, outcome_of, plan_decisions, plan_question
from mcp_magic.ask.question import Reply
from mcp_magic.consent.consent import PlannedRequest, Request
from mcp_magic.ipython.ask import InputAsker


def request(**arguments: Any) -> Request:
    return Request("fs", "write", arguments, "agent")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "fs:write()"),
        ({"path": "/tmp/a.txt"}, "fs:write(path=/tmp/a.txt)"),
        ({"n": 3, "on": True, "no": None}, "fs:write(n=3, on=true, no=null)"),
        ({"text": "a) by you"}, 'fs:write(text="a) by you")'),
        ({"text": ""}, 'fs:write(text="")'),
        ({"text": "a\nb"}, r'fs:write(text="a\nb")'),
        ({"x": [1, {"y": 2}]}, 'fs:write(x=[1, {"y": 2}])'),
        ({"token": "abc"}, "fs:write(token=***)"),
    ],
)
def test_a_call_is_one_line(arguments, line):
    assert call_text(request(**arguments), arguments) == line


def test_a_line_stays_short_however_much_is_in_it():
    many = {f"name{number}" * 20: "x" * 10_000 for number in range(100)}
    assert len(call_text(request(**many), many)) < 300
    assert len(outcome_of(request(**many), Reply("deny", extra={"reason": "y" * 10_000}), 1.0).plain) < 700


def test_values_are_shown_written_out_and_cut():
    evil = request(text="\x1b[2Jx\u202ey")
    for shown in (approval_part(evil, evil.arguments).plain, approval_part(evil, evil.arguments).html):
        assert not {"\x1b", "\u202e"} & {*shown}
        assert "\\u202e" in shown
    long = request(text="x" * 50_000)
    assert "… 49,001 characters left out …" in approval_part(long, long.arguments).plain
    assert len(approval_part(long, long.arguments).html) < 10_000


def test_what_was_changed_is_said_in_words():
    asked = request(a=1, b=2, c=True)
    shown = approval_part(asked, {"a": 1, "b": 5, "c": 1, "d": 0}).plain
    assert "  a = 1\n" in shown
    assert "  b = 5   ✎ changed; was 2" in shown
    assert "  c = 1   ✎ changed; was true" in shown
    assert "  d = 0   ✎ added" in shown
    assert "  b = 2   ✎ left out" in approval_part(asked, {"a": 1, "c": True}).plain


async def test_the_reason_of_a_denied_plan_is_asked_for():
    calls = [PlannedRequest(request(path=path)) for path in "ab"]
    lines = iter(["d", "too far"])
    reply = await InputAsker(lambda prompt: next(lines), lambda text: None).ask(plan_question(calls))
    assert [decision.reason for decision in plan_decisions(calls, reply).values()] == ["too far"] * 2
