from __future__ import annotations

from typing import Any

import pytest
from mcp_types import Tool

from mcp_magic.agent.transcript.render import STYLE
from mcp_magic.ask.approval import (
    approval_part,
    approval_question,
    call_text,
    decision_of,
    outcome_of,
    plan_decisions,
    plan_question,
)
from mcp_magic.ask.question import Reply
from mcp_magic.consent.consent import PlannedRequest, Request
from mcp_magic.display.arguments import hidden_arguments, read_arguments, restored, written_arguments
from mcp_magic.errors import ArgumentsError
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
def test_a_call_is_one_line(arguments: dict[str, Any], line: str) -> None:
    assert call_text(request(**arguments), arguments) == line


def test_a_line_stays_short_however_much_is_in_it() -> None:
    many = {f"name{number}" * 20: "x" * 10_000 for number in range(100)}

    assert len(call_text(request(**many), many)) < 300
    assert len(outcome_of(request(**many), Reply("deny", extra={"reason": "y" * 10_000}), 1.0).plain) < 700


def test_escape_sequences_and_hidden_text_are_written_out() -> None:
    asked = request(text="\x1b[2Jx\u202ey")

    for shown in (approval_part(asked, asked.arguments).plain, approval_part(asked, asked.arguments).html):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\\u202e" in shown


def test_long_values_are_cut_and_say_how_long_they_are() -> None:
    asked = request(text="x" * 50_000)

    assert "… 49,001 characters left out …" in approval_part(asked, asked.arguments).plain
    assert len(approval_part(asked, asked.arguments).html) < 10_000


def test_what_was_changed_is_said_in_words() -> None:
    asked = request(a=1, b=2, c=True)

    shown = approval_part(asked, {"a": 1, "b": 5, "c": 1, "d": 0}).plain

    assert "  a = 1\n" in shown
    assert "  b = 5   ✎ changed; was 2" in shown
    assert "  c = 1   ✎ changed; was true" in shown
    assert "  d = 0   ✎ added" in shown
    assert "  b = 2   ✎ left out" in approval_part(asked, {"a": 1, "c": True}).plain


def test_the_schema_says_what_is_secret_too() -> None:
    tool = Tool(
        name="write",
        input_schema={
            "type": "object",
            "properties": {
                "pin": {"type": "string", "format": "password"},
                "keys": {"type": "array", "items": {"type": "string", "writeOnly": True}},
                "login": {"type": "object", "properties": {"code": {"type": "string", "format": "password"}}},
            },
        },
    )
    given = {"pin": "1", "keys": ["a"], "login": {"code": "2", "user": "me"}}

    assert hidden_arguments(given, tool) == {"pin": "***", "keys": ["***"], "login": {"code": "***", "user": "me"}}


def test_hidden_values_come_back_only_where_they_were() -> None:
    original = {"users": [{"token": "a"}, {"token": "b"}], "n": 1}
    shown = hidden_arguments(original, None)

    assert restored(shown, shown, original) == original
    assert restored({"users": [{"token": "c"}, {"token": "***"}]}, shown, original) == {
        "users": [{"token": "c"}, {"token": "b"}]
    }
    with pytest.raises(ArgumentsError, match="a hidden value was moved"):
        read_arguments('{"users": [{"token": "***"}]}', original, None)


def test_arguments_are_read_as_they_were_written() -> None:
    arguments = {"n": 2**70, "text": "ü\u2028", "password": "pw", "nested": {"a": [None, 1.5]}}
    written = written_arguments(arguments, None)

    assert read_arguments(written, arguments, None) == arguments
    assert "pw" not in written


@pytest.mark.parametrize(("text", "problem"), [("[1]", "a JSON object, not list"), ("{", "not JSON")])
def test_what_is_no_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ArgumentsError, match=problem):
        read_arguments(text, {}, None)


REASONS = {
    "after it": (["n", "too far"], "too far"),
    "none": (["n", ""], ""),
    "on the same line": (["n too far"], "too far"),
    "after always": (["d", "too far"], "too far"),
}


@pytest.mark.parametrize("case", REASONS)
async def test_the_reason_of_a_typed_denial_is_asked_for(case: str) -> None:
    lines, reason = REASONS[case]
    prompts: list[str] = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return lines[len(prompts) - 1]

    asked = request(path="a")
    decision = decision_of(asked, await InputAsker(read, lambda text: None).ask(approval_question(asked)))

    assert (decision.approved, decision.reason) == (False, reason)
    assert prompts[1:] == ["Why not? Enter gives no reason: "] * (len(lines) - 1)


async def test_the_reason_of_a_denied_plan_is_asked_for() -> None:
    calls = [PlannedRequest(request(path=path)) for path in "ab"]
    lines = iter(["d", "too far"])
    reply = await InputAsker(lambda prompt: next(lines), lambda text: None).ask(plan_question(calls))
    assert [decision.reason for decision in plan_decisions(calls, reply).values()] == ["too far"] * 2


def test_a_denied_card_is_not_red() -> None:
    assert ".mcp-call-error{border-left-color:var(--jp-error" in STYLE
    assert "denied" not in STYLE
