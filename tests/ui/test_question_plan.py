"""The table of a plan's calls in the panel of a cell."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from mcp_types import Tool, ToolAnnotations

from mcp_magic.consent.consent import Consent, Decision, PlannedRequest, Request
from mcp_magic.consent.rules import Rule
from tests.support.widgets import PanelUser, handled

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

READ = Tool(
    name="read",
    description="Reads <i>a file</i>.",
    input_schema={
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "maximum": 10}},
        "required": ["path"],
    },
    annotations=ToolAnnotations(read_only_hint=True),
)


def read(path: str, **more: Any) -> Request:
    return Request("fs", "read", {"path": path, **more}, "agent", READ, run="r1")


async def review(person: PanelUser, *requests: Request, **options: Any) -> asyncio.Future[list[Decision]]:
    """Ask about a plan, and wait until its table is shown."""
    consent = Consent(options.pop("rules", []), "plan", person, **options)
    [asked] = await person.asked(consent.review_plan(requests))
    await handled()
    return asked


def cells(person: PanelUser) -> list[str]:
    """Return the texts of the cells, without the reason, which is the last."""
    return [cell.value for cell in person.of(ipywidgets.Text)][:-1]


def approved(decisions: list[Decision]) -> list[bool]:
    return [decision.approved for decision in decisions]


async def test_eight_reads_are_one_click(person, page):
    asked = await review(person, *(read(f"{name}.txt") for name in "abcdefgh"))
    assert len(person.of(ipywidgets.Checkbox)) == 8
    assert cells(person) == [f"{name}.txt" for name in "abcdefgh"]
    assert "agent wants to make 8 calls" in person.text
    assert person.text.count("Reads &lt;i&gt;a file&lt;/i&gt;.") == 1, "what a tool does is told once"
    assert "8. fs:read" in page.outputs[0]["text/plain"], "a page without widgets shows the calls, too"
    await person.click("Approve selected")
    assert approved(await asked) == [True] * 8
    assert len(page.outputs) == 1


async def test_unticked_calls_are_asked_again_and_rest_is_denied(person):
    asked = await review(person, read("a"), read("b"), read("c"))
    await person.set(person.of(ipywidgets.Checkbox)[1], False)
    await person.click("Approve selected")
    while "3 calls; 2 approved, 1 left" not in person.text:
        await handled()
    assert "approved by you" in person.text
    [tick] = person.of(ipywidgets.Checkbox)
    assert tick.value is False, "nothing is approved by a click too many"
    assert person.button("Approve selected").disabled
    person.of(ipywidgets.Text)[-1].value = "not b"
    await person.click("Deny rest")
    decisions = await asked
    assert approved(decisions) == [True, False, True]
    assert decisions[1].reason == "not b"


async def test_a_cell_changes_an_argument_and_says_what_does_not_fit(person):
    asked = await review(person, read("a", lines=3), read("b"))
    _, lines, path, _ = person.of(ipywidgets.Text)
    await person.set(lines, "ten")
    assert "1. lines: expected integer, at most 10, got" in person.text
    assert person.button("Approve selected").disabled
    await person.set(lines, "11")
    await person.click("Approve selected")
    assert "1. lines: expected integer, at most 10, got 11" in person.text
    assert not asked.done()
    lines.value = "10"
    await person.set(path, "c")
    await person.click("Approve selected")
    first, second = await asked
    assert (first.arguments, second.arguments) == ({"path": "a", "lines": 10}, {"path": "c"})


async def test_edit_opens_all_arguments_of_a_row(person):
    asked = await review(person, read("a"), read("b"))
    await person.click("Edit", 1)
    assert person.button("Discard changes")
    await person.set(next(cell for cell in person.of(ipywidgets.Text) if cell.value == "b"), "other")
    await person.click("Approve selected")
    first, second = await asked
    assert (first.arguments, dict(second.arguments or {})["path"]) == (None, "other")


async def test_rules_hold_for_each_call(person):
    rules = [Rule("deny", "fs:read", {"path": "/etc/*"}, "not there"), Rule("allow", "fs:read", {"path": "ok"})]
    asked = await review(person, *map(read, ("a", "/etc/passwd", "ok", "b")), rules=rules)
    assert len(person.of(ipywidgets.Checkbox)) == 2, "what a rule decides cannot be ticked"
    assert "denied by rule <code>deny fs:read" in html.unescape(person.text), "what stands in backticks is code"
    assert ": not there" in person.text
    assert "allowed by rule" in person.text
    await person.set(person.of(ipywidgets.Text)[0], "/etc/shadow")
    await person.click("Approve selected")
    decisions = await asked
    assert approved(decisions) == [False, False, True, True], "a rule decides about edited arguments, too"
    assert decisions[0].by.startswith("rule")


async def test_long_values_are_opened_before_approval(person):
    asked = await review(person, read("a"), read("x" * 3000 + "; rm -r ."))
    assert cells(person) == ["a"], "a cell shows a value as a whole"
    assert person.button("Approve selected").disabled
    assert "waits until you have opened all of 2. path (3,009 characters)" in person.text
    tick = person.of(ipywidgets.Checkbox)[1]
    for ticked in (False, True):
        await person.set(tick, ticked)
        assert person.button("Approve selected").disabled is ticked
    await person.click("Show all of 2. path (3,009 characters)")
    assert "; rm -r ." in person.text
    person.button("Approve selected").click()
    assert approved(await asked) == [True, True]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("ls" + " " * 50 + "rm", "ls⟨␣\u00d750⟩rm", id="spaces"),
        pytest.param("p\u0430ypal.com", "p⟨Cyrillic \u0430⟩ypal.com", id="letters"),
        pytest.param("a\u202eb", "a\\u202eb", id="invisible"),
        pytest.param("two\nlines", "two\nlines", id="lines"),
        pytest.param(" space", " space", id="space before"),
        pytest.param("data/" + "x" * 20 + "; rm -r .", "; rm -r .", id="long"),
    ],
)
async def test_a_value_that_would_mislead_in_a_cell_is_written_out(person, value, shown):
    asked = await review(person, read("a"), read(value))
    assert cells(person) == ["a"]
    assert shown in person.text
    person.button("Deny rest").click()
    assert approved(await asked) == [False, False]


async def test_markup_and_secrets_of_a_plan_stay_hidden(person, page):
    asked = await review(person, read("<script>alert(1)</script>"), read("a", api_key="hunter2hunter2"))
    assert "<script>" not in person.text + page.outputs[0]["text/html"]
    assert "hunter2" not in person.text + str(page.outputs) + str(cells(person))
    person.button("Deny rest").click()
    await asked


async def test_single_remaining_call_gets_the_plain_question():
    questions: list[Request] = []

    class Approver:
        async def __call__(self, request: Request) -> Decision:
            questions.append(request)
            return Decision.approve()

        async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
            raise AssertionError("a table for one call")

    consent = Consent([Rule("allow", "fs:read", {"path": "ok"})], "plan", Approver())
    assert approved(await consent.review_plan([read("a"), read("ok")])) == [True, True]
    assert [request.arguments["path"] for request in questions] == ["a"]


async def test_an_approver_without_plans_is_asked_call_by_call():
    async def approver(request: Request) -> Decision:
        return Decision.deny("no") if request.arguments["path"] == "a" else Decision.approve()

    assert approved(await Consent([], "plan", approver).review_plan([read("a"), read("b")])) == [False, True]
    nobody = await Consent([], "plan").review_plan([read("a"), read("b")])
    assert [decision.by for decision in nobody] == ["default", "default"]


async def test_time_denies_what_is_left_and_keeps_what_was_approved(person):
    consent = Consent([], "plan", person, timeout=0.3)
    [asked] = await person.asked(consent.review_plan([read("a"), read("b")]))
    await person.set(person.of(ipywidgets.Checkbox)[1], False)
    person.button("Approve selected").click()
    decisions = await asked
    assert approved(decisions) == [True, False]
    assert decisions[1].by == "time-out"
    assert [record.decision for record in consent.audit.records] == ["approve", "deny"]
