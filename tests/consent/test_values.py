# ruff: noqa: RUF001 - the sign of a shape
"""Calls with values of the notebook: what a question and the audit show of them, and what rules match."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from mcp_types import Tool

from mcp_magic.ask.approval import approval_part, approval_question, call_text, decision_of, unseen_of
from mcp_magic.ask.question import Reply
from mcp_magic.consent.consent import MAX_WAITING, Consent, Decision, Request
from mcp_magic.consent.rules import Rule
from tests.support.persons import Approver

TOOL = Tool(
    name="load",
    input_schema={
        "type": "object",
        "properties": {"rows": {"type": "array"}, "city": {"type": "string"}, "more": {"type": "object"}, "limit": {}},
    },
)
ROWS = [{"a": n, "city": f"town {n}", "password": f"pw-{n}"} for n in range(10_000)]


@dataclass(frozen=True)
class Note:
    path: tuple[str | int, ...]
    name: str
    shape: str
    reference: dict[str, Any]


def note(name: str, shape: str, *path: str | int) -> Note:
    return Note(path, name, shape, {"$value": name})


def asked(**changes: Any) -> Request:
    values = (note("df", "10,000 rows × 3 columns (a, city, password)", "rows"), note("home", "text", "city"))
    arguments = {"rows": ROWS, "city": "Oslo", "limit": 5}
    request = Request("db", "load", arguments, "outside claude-code", TOOL, values=values)
    return replace(request, **changes)


async def test_a_question_draws_the_values_that_would_leave():
    request = asked()
    text = approval_part(request, request.arguments).plain
    assert text.startswith("outside claude-code (as it calls itself) wants to call db:load")
    assert "rows ← df: 10,000 rows × 3 columns (a, city, password)" in text
    assert '{"a": 2, "city": "town 2", "password": "***"}' in text
    assert "town 3" not in text
    assert "city ← home: text" in text
    assert "      Oslo" in text
    assert "limit = 5" in text
    assert "pw-" not in text
    assert len(text) < 1500
    html = approval_part(request, request.arguments).html
    assert "<b>← df: 10,000 rows" in html
    assert "town 3" not in html
    assert call_text(request, request.arguments).startswith('db:load(rows="← df: 10,000 rows')


@pytest.mark.parametrize(
    ("reference", "shape", "line"),
    [
        ({"columns": ["price"]}, "30 numbers", "df, column price: 30 numbers"),
        ({"columns": ["a", "b"]}, "30 lists", "df, columns a, b: 30 lists"),
        ({"columns": ["a"], "query": "a > 1"}, "2 rows × 1 column (a)", "df, rows where a > 1: 2 rows × 1 column (a)"),
        ({"columns": 5, "query": None}, "2 rows", "df: 2 rows"),
        ({"columns": ["\u202ep"], "query": "a\n" * 500}, "text", r"df, column \u202ep, rows where a\na\n"),
    ],
)
async def test_a_question_says_what_was_selected(reference, shape, line):
    selected = replace(note("df", shape, "rows"), reference={"$value": "df", **reference})
    request = asked(values=(selected,))
    text = approval_part(request, request.arguments).plain
    assert f"rows ← {line}" in text
    assert len(text) < 1500


async def test_all_of_a_value_can_be_opened_and_nothing_must_be():
    request = asked()
    reveal = approval_question(request).reveal
    [(name, rows)] = reveal.cut(request.arguments)
    assert name == "rows ← df"
    assert [row["city"] for row in rows] == [row["city"] for row in ROWS]
    assert ("rows[9999].password", "pw-9999") in reveal.hidden(request.arguments)
    assert not unseen_of(request, request.arguments, ())


async def test_a_value_inside_of_an_argument_is_named_by_its_path():
    inside = {"more": {"list": [1, {"data": ROWS}]}}
    request = asked(arguments=inside, values=(note("df", "10,000 rows", "more", "list", 1, "data"),))
    text = approval_part(request, inside).plain
    assert "more.list[1].data ← df: 10,000 rows" in text
    assert 'more = {"list": [1, {"data": "← df: 10,000 rows"}]}' in text


async def test_names_of_values_cannot_deceive():
    hostile = note("df\u202e<b>" + "x" * 500, "10 rows\n  limit = 5", "rows")
    request = asked(values=(hostile,))
    part = approval_part(request, request.arguments)
    assert "\u202e" not in part.plain
    assert "\n  limit = 5 " not in part.plain
    assert "<b>x" not in part.html


async def test_the_audit_has_notes_and_no_rows():
    consent = Consent(approver=Approver(Decision.approve()))
    await consent.review(asked())
    [record] = consent.audit.records
    assert record.arguments == {
        "rows": {"$value": "df", "is": "10,000 rows × 3 columns (a, city, password)"},
        "city": {"$value": "home", "is": "text"},
        "limit": 5,
    }


async def test_rules_match_the_values_and_not_their_names():
    consent = Consent(rules=[Rule("deny", "db:*", {"city": "Oslo"})], policy="auto")
    assert not (await consent.review(asked())).approved
    assert (await consent.review(asked(arguments={"rows": [], "city": "Rome"}))).approved


@pytest.mark.parametrize(
    ("policy", "rules", "denies"),
    [
        ("deny", [], True),
        ("ask", [], False),
        ("deny", [Rule("allow", "db:load", {"limit": 5}, asker="outside")], False),
        ("deny", [Rule("allow", "db:load")], True),  # not for agents outside
        ("auto", [Rule("deny", "db:load", {"limit": 5})], False),
        ("auto", [Rule("deny", "db:load", {"limit": 5}), Rule("deny", "db:*")], True),
        ("auto", [Rule("ask", "db:*", {"limit": 6}), Rule("deny", "db:*")], False),
    ],
)
def test_whether_a_call_is_denied_is_told_without_its_arguments(policy, rules, denies):
    consent = Consent(rules=rules, policy=policy)
    assert consent.denies_any(asked(arguments={}, values=())) is denies
    if denies:
        assert consent.verdict(asked()) == "deny"


async def test_no_rule_has_values_of_the_notebook():
    assert "arguments" not in [how for _, how in approval_question(asked()).extra[-1].options]
    consent = Consent(approver=Approver(Decision.approve(always="arguments")))
    assert (await consent.review(asked())).approved
    assert not consent.rules


async def test_always_is_for_the_client_that_asked():
    scope = approval_question(asked()).extra[-1]
    assert ("always for this tool, for this agent", "tool") in scope.options
    consent = Consent(approver=Approver(Decision.approve(always="tool")))
    await consent.review(asked())
    assert list(map(str, consent.rules)) == ["allow db:load --for 'outside claude-code'"]
    other = asked(asker="outside claude-code (2)")
    assert consent.verdict(asked()) == "allow"
    assert consent.verdict(other) == consent.verdict(asked(asker="agent")) == "ask"
    unasked = await Consent(magics=True).review(other)
    refused = Consent(magics=True)
    line = "`%mcp allow db:load --for 'outside claude-code (2)'"
    assert f"{line}` would allow it." in str(refused.refusal(other, unasked))
    refused.add(Rule("ask", "db:*"))
    assert f"{line} --first` would allow it." in str(refused.refusal(other, unasked)), "a rule comes before it"


async def test_a_permission_of_agents_is_none_of_outside_clients():
    consent = Consent(rules=[Rule("allow", "db:*")])
    assert consent.verdict(asked(asker="agent")) == "allow"
    assert consent.verdict(asked()) == "ask"
    consent.rules.insert(0, Rule("deny", "db:*"))
    assert consent.verdict(asked()) == "deny"


async def test_references_can_be_moved_and_replaced_in_the_editor():
    request = asked()
    form = approval_question(request).form
    text = form.write(request.arguments, None)
    assert text == '{"rows": {"$value": "df"}, "city": {"$value": "home"}, "limit": 5}'
    assert form.read(text, request.arguments) == request.arguments
    edited = form.read('{"rows": [], "more": {"all": {"$value": "df"}}, "city": "Rome"}', request.arguments)
    assert edited == {"rows": [], "more": {"all": ROWS}, "city": "Rome"}
    assert "← home" not in approval_part(request, edited).plain
    decision = decision_of(request, Reply("approve", edited))
    consent = Consent(approver=Approver(decision))
    assert (await consent.review(request)).arguments == edited
    assert consent.audit.records[0].arguments["city"] == "Rome"


def test_an_edit_leaves_each_reference_the_value_of_its_place():
    lists = [[row["a"]] for row in ROWS]
    matrix = {"type": "array", "items": {"type": "array"}}
    properties = {"table": {}, "matrix": matrix, "other": matrix, "limit": {}}
    tool = TOOL.model_copy(update={"input_schema": {"type": "object", "properties": properties}})
    values = (note("df", "10,000 rows", "table"), note("df", "10,000 lists", "matrix"))
    request = asked(arguments={"table": ROWS, "matrix": lists, "limit": 5}, definition=tool, values=values)
    form = approval_question(request).form
    text = form.write(request.arguments, None)
    assert form.read(text.replace("5", "6"), request.arguments) == {"table": ROWS, "matrix": lists, "limit": 6}
    # one that was moved has a form that its new place takes
    moved = form.read('{"other": {"$value": "df"}, "limit": [{"$value": "df"}]}', request.arguments)
    assert moved == {"other": lists, "limit": [ROWS]}


async def test_a_flood_of_questions_of_one_client_ends():
    answer = asyncio.Event()

    async def approver(request: Request) -> Decision:
        await answer.wait()
        return Decision.approve()

    consent = Consent(approver=approver)
    waiting = [asyncio.ensure_future(consent.review(asked(arguments={}, values=()))) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    refused = await consent.review(asked(arguments={}, values=()))
    text = str(consent.refusal(asked(), refused))
    assert text.startswith(
        "db:load was not called; denied by the limit of waiting questions: 8 calls of yours wait for"
    )
    other = asyncio.ensure_future(consent.review(asked(asker="outside codex", arguments={}, values=())))
    await asyncio.sleep(0)
    more = [
        asyncio.ensure_future(consent.review(asked(asker=f"outside {n}", arguments={}, values=()))) for n in range(23)
    ]
    await asyncio.sleep(0)
    last = await consent.review(asked(asker="outside last", arguments={}, values=()))
    assert last.reason == "32 calls of agents wait for the user's answer already; call again later"
    answer.set()
    assert all(decision.approved for decision in await asyncio.gather(*waiting, other, *more))
    assert (await consent.review(asked(arguments={}, values=()))).approved


def test_a_read_of_a_shared_value_is_in_the_audit():
    consent = Consent()
    consent.note_read("outside claude-code", "read_value", {"name": "df", "rows": [0, 100]})
    [record] = consent.audit.records
    assert (record.asker, record.server, record.tool, record.decision) == (
        "outside claude-code",
        "",
        "read_value",
        "read",
    )
    assert record.by == "%mcp share"
