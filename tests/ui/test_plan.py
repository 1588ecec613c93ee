from __future__ import annotations

import asyncio
import html
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from mcp_types import Tool, ToolAnnotations

from mcp_magic.ask.approval import plan_decisions, plan_question
from mcp_magic.consent.consent import Consent, Decision, PlannedRequest, Request
from mcp_magic.consent.rules import Rule
from tests.support.widgets import Page, handled, widgets

if TYPE_CHECKING:
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


class PlanPanel:
    """An approver of plans that asks in a panel."""

    def __init__(self, page: Page) -> None:
        self.panel = page.panel()
        self.questions = 0

    async def __call__(self, request: Request) -> Decision:
        raise AssertionError("a single question")

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        self.questions += 1
        return plan_decisions(calls, await self.panel.ask(plan_question(calls)))

    async def shown(self, number: int = 1) -> None:
        async with asyncio.timeout(10):
            while self.questions < number or not self.panel.cards:
                await asyncio.sleep(0)
        await handled()

    def of(self, kind: Any) -> list[Any]:
        return widgets(self.panel.widget, kind)

    def button(self, description: str, number: int = 0) -> Any:
        return [button for button in self.of(ipywidgets.Button) if button.description == description][number]

    @property
    def text(self) -> str:
        return "".join(label.value for label in self.of(ipywidgets.HTML))

    @property
    def cells(self) -> list[str]:
        """The texts of the cells, without the reason, which is the last."""
        return [cell.value for cell in self.of(ipywidgets.Text)][:-1]


@pytest.fixture
async def asking(page: Page) -> PlanPanel:
    return PlanPanel(page)


def review(asking: PlanPanel, *requests: Request, rules: Sequence[Rule] = ()) -> asyncio.Task[list[Decision]]:
    consent = Consent(list(rules), "plan", asking)
    return asyncio.ensure_future(consent.review_plan(requests))


def approved(decisions: list[Decision]) -> list[bool]:
    return [decision.approved for decision in decisions]


async def test_eight_reads_are_one_click(asking: PlanPanel, page: Page) -> None:
    asked = review(asking, *(read(f"{name}.txt") for name in "abcdefgh"))
    await asking.shown()

    assert len(asking.of(ipywidgets.Checkbox)) == 8
    assert asking.cells == [f"{name}.txt" for name in "abcdefgh"]
    assert "agent wants to make 8 calls" in asking.text
    assert asking.text.count("Reads &lt;i&gt;a file&lt;/i&gt;.") == 1, "what a tool does is told once"
    assert "8. fs:read" in page.outputs[0]["text/plain"], "a page without widgets shows the calls, too"
    asking.button("Approve selected").click()
    await handled()

    assert approved(await asked) == [True] * 8
    assert asking.questions == 1


async def test_unticked_calls_are_asked_again_and_rest_is_denied(asking: PlanPanel) -> None:
    asked = review(asking, read("a"), read("b"), read("c"))
    await asking.shown()
    asking.of(ipywidgets.Checkbox)[1].value = False
    await handled()
    asking.button("Approve selected").click()
    await asking.shown(2)

    assert "3 calls; 2 approved, 1 left" in asking.text
    assert "approved by you" in asking.text
    [tick] = asking.of(ipywidgets.Checkbox)
    assert tick.value is False, "nothing is approved by a click too many"
    assert asking.button("Approve selected").disabled
    asking.of(ipywidgets.Text)[-1].value = "not b"
    asking.button("Deny rest").click()
    await handled()

    decisions = await asked
    assert approved(decisions) == [True, False, True]
    assert decisions[1].reason == "not b"


async def test_a_cell_changes_an_argument_and_says_what_does_not_fit(asking: PlanPanel) -> None:
    asked = review(asking, read("a", lines=3), read("b"))
    await asking.shown()
    _, lines, path, _ = asking.of(ipywidgets.Text)

    lines.value = "ten"
    await handled()
    assert "1. lines: expected integer, at most 10, got" in asking.text
    assert asking.button("Approve selected").disabled
    lines.value = "11"
    await handled()
    asking.button("Approve selected").click()
    await handled()
    assert "1. lines: expected integer, at most 10, got 11" in asking.text
    assert not asked.done()
    lines.value, path.value = "10", "c"
    await handled()
    asking.button("Approve selected").click()

    first, second = await asked
    assert (first.arguments, second.arguments) == ({"path": "a", "lines": 10}, {"path": "c"})


async def test_edit_opens_all_arguments_of_a_row(asking: PlanPanel) -> None:
    asked = review(asking, read("a"), read("b"))
    await asking.shown()
    asking.button("Edit", 1).click()
    await handled()
    assert asking.button("Discard changes")
    numbers = [cell for cell in asking.of(ipywidgets.Text) if cell.value == "b"]
    numbers[0].value = "other"
    await handled()
    asking.button("Approve selected").click()
    await handled()

    first, second = await asked
    assert (first.arguments, dict(second.arguments or {})["path"]) == (None, "other")


async def test_rules_hold_for_each_call(asking: PlanPanel) -> None:
    rules = [Rule("deny", "fs:read", {"path": "/etc/*"}, "not there"), Rule("allow", "fs:read", {"path": "ok"})]
    asked = review(asking, read("a"), read("/etc/passwd"), read("ok"), read("b"), rules=rules)
    await asking.shown()

    assert len(asking.of(ipywidgets.Checkbox)) == 2, "what a rule decides cannot be ticked"
    assert "denied by rule <code>deny fs:read" in html.unescape(asking.text), "what stands in backticks is code"
    assert ": not there" in asking.text
    assert "allowed by rule" in asking.text
    asking.of(ipywidgets.Text)[0].value = "/etc/shadow"
    await handled()
    asking.button("Approve selected").click()

    decisions = await asked
    assert approved(decisions) == [False, False, True, True], "a rule decides about edited arguments, too"
    assert decisions[0].by.startswith("rule")


async def test_long_values_are_opened_before_approval(asking: PlanPanel) -> None:
    asked = review(asking, read("a"), read("x" * 3000 + "; rm -r ."))
    await asking.shown()

    assert asking.cells == ["a"], "a cell shows a value as a whole"
    assert asking.button("Approve selected").disabled
    assert "waits until you have opened all of 2. path (3,009 characters)" in asking.text
    asking.of(ipywidgets.Checkbox)[1].value = False
    await handled()
    assert not asking.button("Approve selected").disabled
    asking.of(ipywidgets.Checkbox)[1].value = True
    await handled()
    asking.button("Show all of 2. path (3,009 characters)").click()
    await handled()
    assert "; rm -r ." in asking.text
    asking.button("Approve selected").click()
    assert approved(await asked) == [True, True]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ls" + " " * 50 + "rm", "ls⟨␣\u00d750⟩rm"),
        ("p\u0430ypal.com", "p⟨Cyrillic \u0430⟩ypal.com"),
        ("a\u202eb", "a\\u202eb"),
        ("two\nlines", "two\nlines"),
        (" space", " space"),
        ("data/" + "x" * 20 + "; rm -r .", "; rm -r ."),
    ],
)
async def test_a_value_that_would_mislead_in_a_cell_is_written_out(asking: PlanPanel, value: str, shown: str) -> None:
    asked = review(asking, read("a"), read(value))
    await asking.shown()
    assert asking.cells == ["a"]
    assert shown in asking.text
    asking.button("Deny rest").click()
    assert approved(await asked) == [False, False]


async def test_markup_and_secrets_of_a_plan_stay_hidden(asking: PlanPanel, page: Page) -> None:
    asked = review(asking, read("<script>alert(1)</script>"), read("a", api_key="hunter2hunter2"))
    await asking.shown()
    assert "<script>" not in asking.text + page.outputs[0]["text/html"]
    assert "hunter2" not in asking.text + str(page.outputs) + str(asking.cells)
    asking.button("Deny rest").click()
    await asked


async def test_single_remaining_call_gets_the_plain_question() -> None:
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


async def test_an_approver_without_plans_is_asked_call_by_call() -> None:
    async def approver(request: Request) -> Decision:
        return Decision.deny("no") if request.arguments["path"] == "a" else Decision.approve()

    assert approved(await Consent([], "plan", approver).review_plan([read("a"), read("b")])) == [False, True]
    nobody = await Consent([], "plan").review_plan([read("a"), read("b")])
    assert [decision.by for decision in nobody] == ["default", "default"]


async def test_time_denies_what_is_left_and_keeps_what_was_approved(asking: PlanPanel) -> None:
    consent = Consent([], "plan", asking, timeout=0.3)
    asked = asyncio.ensure_future(consent.review_plan([read("a"), read("b")]))
    await asking.shown()
    asking.of(ipywidgets.Checkbox)[1].value = False
    await handled()
    asking.button("Approve selected").click()

    decisions = await asked
    assert approved(decisions) == [True, False]
    assert decisions[1].by == "time-out"
    assert [record.decision for record in consent.audit.records] == ["approve", "deny"]
