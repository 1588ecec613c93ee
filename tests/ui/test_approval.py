from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from typing import Any

import ipywidgets
import pytest
from ipywidgets.widgets import widget as registry
from ipywidgets.widgets.widget_link import DirectionalLink
from mcp_types import Tool, ToolAnnotations

from mcp_magic.agent.program import Programs
from mcp_magic.ask.approval import approval_question, decision_of
from mcp_magic.consent.consent import Consent, Decision, Request
from mcp_magic.errors import DeniedError
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support.widgets import Page, handled, receive, widgets

FORECAST = Tool(
    name="forecast",
    description="Tells the <i>weather</i>.",
    input_schema={
        "type": "object",
        "properties": {"location": {"type": "string"}, "days": {"type": "integer", "maximum": 10}},
        "required": ["location"],
    },
    annotations=ToolAnnotations(read_only_hint=True),
)


def request(location: str = "London", **more: Any) -> Request:
    given = {"asker": "agent", "definition": FORECAST, **more}
    return Request("weather", "forecast", {"location": location}, **given)


class ApprovalPanel:
    """An approver that asks in a panel.

    Args:
        page: Where it is shown.
        seconds: The deadline of each question, or None.
    """

    def __init__(self, page: Page, seconds: float | None = None) -> None:
        self.page = page
        self._panel = page.panel()
        self._seconds = seconds
        self._requests: dict[Any, Request] = {}

    async def ask(self, request: Request) -> Decision:
        question = approval_question(request)
        self._requests[question] = request
        until = None if self._seconds is None else asyncio.get_running_loop().time() + self._seconds
        return decision_of(request, await self._panel.ask(question, until))

    __call__ = ask

    @property
    def waiting(self) -> tuple[Request, ...]:
        return tuple(self._requests[question] for question in self._panel.waiting)

    @property
    def widget(self) -> Any:
        return self._panel.widget


@pytest.fixture
async def panel(page: Page) -> ApprovalPanel:
    return ApprovalPanel(page)


def button(panel: ApprovalPanel, description: str, number: int = 0) -> Any:
    named = [one for one in widgets(panel.widget, ipywidgets.Button) if one.description == description]
    return named[number]


def text(panel: ApprovalPanel) -> str:
    return "".join(one.value for one in widgets(panel.widget, ipywidgets.HTML))


def json_face(panel: ApprovalPanel) -> Any:
    """Return the text field of the form's face of JSON."""
    widgets(panel.widget, ipywidgets.ToggleButton)[0].value = True
    return widgets(panel.widget, ipywidgets.Textarea)[0]


async def ask(panel: ApprovalPanel, *requests: Request) -> list[asyncio.Task[Decision]]:
    """Ask, and wait until all of it is shown."""
    tasks = [asyncio.ensure_future(panel.ask(one)) for one in requests]
    while len(panel.waiting) < len(requests):
        await asyncio.sleep(0)
    return tasks


async def test_approve_lets_the_call_go_out_as_it_is(panel: ApprovalPanel, page: Page) -> None:
    [asked] = await ask(panel, request())
    button(panel, "Approve").click()

    assert await asked == Decision(True)
    assert page.lines == ["✓ approved weather:forecast(location=London) by you, TIME (agent asked)"]


async def test_the_panel_says_who_wants_what_and_escapes_it(panel: ApprovalPanel, page: Page) -> None:
    evil = request("</td><script>alert(1)</script>", asker="server <b>x</b>", trusted=True)
    [asked] = await ask(panel, evil)

    shown = text(panel) + page.outputs[0]["text/html"]
    assert "server &lt;b&gt;x&lt;/b&gt; wants to call" in shown
    assert "weather:forecast" in shown
    assert "Tells the &lt;i&gt;weather&lt;/i&gt;." in shown
    assert "which you trust, says that it changes nothing" in shown
    assert "<script>" not in shown
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == panel.widget.model_id
    button(panel, "Deny").click()
    await asked
    assert "<script>" not in page.outputs[0]["text/html"]


async def test_deny_gives_the_reason_that_was_typed(panel: ApprovalPanel, page: Page) -> None:
    [asked] = await ask(panel, request())
    widgets(panel.widget, ipywidgets.Text)[0].value = " too far "
    button(panel, "Deny").click()

    assert await asked == Decision.deny("too far")
    assert page.lines == ["⊘ denied weather:forecast(location=London) by you, because: too far, TIME (agent asked)"]


async def test_enter_in_the_reason_denies(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    reason = widgets(panel.widget, ipywidgets.Text)[0]
    reason.value = "no"
    receive(reason, {"event": "submit"})

    assert await asked == Decision.deny("no")


async def test_tab_reaches_the_reason_before_deny(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())

    kinds = (ipywidgets.Button, ipywidgets.Text, ipywidgets.Dropdown)
    reached = widgets(panel.widget, kinds)
    assert [one.description for one in reached] == [
        "Approve",
        "what Approve approves",
        "Edit",
        "why weather:forecast must not be called",
        "Deny",
    ]
    assert all(one.tooltip for one in reached if isinstance(one, ipywidgets.Button))
    button(panel, "Deny").click()
    await asked


@pytest.mark.parametrize(
    ("run", "scopes"), [(None, ["", "tool", "arguments"]), ("run-1", ["", "tool", "arguments", "run"])]
)
async def test_an_approval_reaches_as_far_as_is_chosen(
    panel: ApprovalPanel, page: Page, run: str | None, scopes: list[str]
) -> None:
    for scope in scopes:
        [asked] = await ask(panel, request(run=run))
        [choice] = widgets(panel.widget, ipywidgets.Dropdown)
        assert [value for _, value in choice.options] == scopes
        choice.value = scope
        button(panel, "Approve").click()
        assert (await asked).always == scope
    # the transcript of a run says who approved
    assert page.lines == [] if run else "always for this tool" in page.lines[1]


async def test_a_denial_for_always_is_a_rule_with_its_reason(panel: ApprovalPanel, page: Page) -> None:
    consent = Consent(approver=panel)
    checking = asyncio.ensure_future(consent.check(request()))
    while not panel.waiting:
        await asyncio.sleep(0)
    widgets(panel.widget, ipywidgets.Checkbox)[0].value = True
    widgets(panel.widget, ipywidgets.Text)[0].value = "too dear"
    button(panel, "Deny").click()
    with pytest.raises(DeniedError):
        await checking

    assert page.lines[0].startswith("⊘ denied weather:forecast(location=London) by you, because: too dear, always")
    assert [(str(rule), rule.reason) for rule in consent.rules] == [("deny weather:forecast", "too dear")]
    with pytest.raises(DeniedError, match="denied by rule `deny weather:forecast`: too dear"):
        await consent.check(request("Oslo"))


async def test_the_main_choice_stands_out_and_no_other(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    styles = {each.description: each.button_style for each in widgets(panel.widget, ipywidgets.Button)}
    assert styles == {"Approve": "primary", "Edit": "", "Deny": ""}
    button(panel, "Deny").click()
    await asked


async def test_letters_that_arrive_after_the_click_are_sent_as_well(
    panel: ApprovalPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ipywidgets sends a click at once, but the last letters only after the letters before were taken."""
    links: list[Any] = []

    def link(source: Any, target: Any) -> Any:
        links.append((source[0], target[0]))
        return DirectionalLink(source, target)

    monkeypatch.setattr("ipywidgets.jsdlink", link)
    slow = ApprovalPanel(panel.page)
    [(sent, echo)] = links
    asked = asyncio.ensure_future(slow.ask(request()))
    while not slow.waiting:
        await asyncio.sleep(0)
    button(slow, "Edit").click()
    await handled()
    field = json_face(slow)
    field.value = '{"location": "Ber"}'
    await handled()
    button(slow, "Approve changed").click()
    await handled()
    assert not asked.done()
    field.value = '{"location": "Bergen"}'
    echo.value = sent.value

    assert await asked == Decision.approve({"location": "Bergen"})


async def test_what_a_page_does_not_confirm_is_not_approved(
    panel: ApprovalPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipywidgets.jsdlink", DirectionalLink)
    monkeypatch.setattr("mcp_magic.ui.widgets.ECHO_SECONDS", 0.01)
    deaf = ApprovalPanel(panel.page)
    asked = asyncio.ensure_future(deaf.ask(request()))
    while not deaf.waiting:
        await asyncio.sleep(0)
    button(deaf, "Edit").click()
    await handled()
    json_face(deaf).value = '{"location": "Ber"}'
    await handled()
    button(deaf, "Approve changed").click()
    while "Press Approve again." not in text(deaf):
        await asyncio.sleep(0.005)
    assert not asked.done()
    button(deaf, "Deny").click()
    assert not (await asked).approved


async def test_edited_arguments_are_checked_marked_and_sent(panel: ApprovalPanel, page: Page) -> None:
    [asked] = await ask(panel, request())
    button(panel, "Edit").click()
    await handled()
    field = json_face(panel)
    assert json.loads(field.value) == {"location": "London"}

    field.value = '{"location": "London", "days": 99}'
    await handled()
    assert "days: expected integer" in text(panel)
    assert button(panel, "Approve").disabled
    button(panel, "Approve").click()
    field.value = '{"location": '
    await handled()
    assert button(panel, "Approve").disabled
    field.value = '{"location": "Paris", "days": 2}'
    await handled()
    assert "✎ changed; was London" in text(panel)
    assert "✎ added" in text(panel)
    button(panel, "Approve changed").click()

    assert (await asked).arguments == {"location": "Paris", "days": 2}
    assert "by you, changed location, days, " in page.lines[0]


async def test_a_field_of_the_form_is_edited(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    button(panel, "Edit").click()
    await handled()
    [field] = [one for one in widgets(panel.widget, ipywidgets.Text) if one.value == "London"]
    field.value = "Paris"
    await handled()
    button(panel, "Approve changed").click()

    assert (await asked).arguments == {"location": "Paris"}


@pytest.mark.parametrize("where", ["sandbox", "kernel"])
async def test_a_program_is_shown_whole_and_edited_as_text(panel: ApprovalPanel, where: str) -> None:
    tool = Programs(namespace=None if where == "sandbox" else {}).tool
    code = "from weather import forecast\n# <b>" + "x" * 3000 + "\nawait forecast('Oslo')"
    [waiting] = await ask(panel, Request("", "run_program", {"code": code}, "agent", tool, run="r", program=where))

    assert f"wants to run a program in {'the' if where == 'sandbox' else 'your'} <b>{where}</b>" in text(panel)
    assert "&lt;b&gt;" + "x" * 3000 in text(panel)
    scopes = [one for one in widgets(panel.widget, ipywidgets.Dropdown) if "for this run" in str(one.options)]
    assert len(scopes) == (1 if where == "sandbox" else 0)
    button(panel, "Edit").click()
    await handled()
    [field] = [one for one in widgets(panel.widget, ipywidgets.Textarea) if one.value == code]
    field.value = "print(1)"
    await handled()
    button(panel, "Approve changed").click()
    assert (await waiting).arguments == {"code": "print(1)"}


async def test_changes_can_be_discarded(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    button(panel, "Edit").click()
    await handled()
    json_face(panel).value = "nonsense"
    await handled()
    assert button(panel, "Discard changes").tooltip == "use the original arguments"
    button(panel, "Discard changes").click()
    await handled()
    assert button(panel, "Edit").tooltip.startswith("change the arguments of ")

    assert not widgets(panel.widget, ipywidgets.Textarea)
    assert not button(panel, "Approve").disabled
    button(panel, "Approve").click()
    assert await asked == Decision(True)


async def test_an_edit_that_changes_nothing_is_no_edit(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    button(panel, "Edit").click()
    await handled()
    json_face(panel).value = '{ "location":"London" }'
    await handled()
    button(panel, "Approve").click()

    assert await asked == Decision(True)


async def test_secrets_are_masked_and_survive_an_edit(panel: ApprovalPanel, page: Page) -> None:
    login = Request("web", "login", {"user": "me", "password": "hunter2"}, "agent")
    [asked] = await ask(panel, login)
    button(panel, "Edit").click()
    await handled()
    [field] = widgets(panel.widget, ipywidgets.Textarea)
    assert "hunter2" not in field.value + text(panel) + json.dumps(page.outputs)

    field.value = field.value.replace("me", "you")
    await handled()
    button(panel, "Approve changed").click()

    assert (await asked).arguments == {"user": "you", "password": "hunter2"}
    assert "hunter2" not in json.dumps(page.outputs)


SECRETIVE = Tool(
    name="forecast",
    input_schema={"properties": {"location": {"type": "string"}, "context": {"type": "string", "writeOnly": True}}},
)


async def test_values_hidden_by_server_are_noted_and_can_be_shown(panel: ApprovalPanel, page: Page) -> None:
    sent = {"location": "Oslo", "context": "<b>-----BEGIN" + "x" * 1221, "api_token": "t0p"}
    [asked] = await ask(panel, Request("weather", "forecast", sent, "agent", SECRETIVE))
    assert "*** (1,234 characters)" in text(panel)
    assert "hidden: context (the server calls it a secret), api_token (the name of a secret)" in text(panel)
    assert "BEGIN" not in text(panel)

    button(panel, "Show hidden").click()
    await handled()
    assert "&lt;b&gt;-----BEGINxxx" in text(panel)
    assert "t0p" in text(panel)
    button(panel, "Hide").click()
    await handled()
    assert "BEGIN" not in text(panel)

    button(panel, "Show hidden").click()
    button(panel, "Approve").click()
    await asked
    assert "BEGIN" not in json.dumps(page.outputs)


async def test_what_is_hidden_is_shown_as_it_was_edited(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, Request("web", "login", {"user": "me", "password": "hunter2"}, "agent"))
    button(panel, "Show hidden").click()
    button(panel, "Edit").click()
    await handled()
    [field] = widgets(panel.widget, ipywidgets.Textarea)
    field.value = '{"user": "me", "password": "other"}'
    await handled()

    assert "hunter2" not in text(panel)
    assert "other" in text(panel)
    button(panel, "Deny").click()
    await asked


async def test_own_call_shows_no_more_of_a_secret(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, Request("web", "login", {"user": "me", "password": "hunter2"}))

    assert "Show hidden" not in [one.description for one in widgets(panel.widget, ipywidgets.Button)]
    assert "characters)" not in text(panel)
    button(panel, "Deny").click()
    await asked


async def test_several_wait_in_one_panel_and_are_decided_one_by_one(panel: ApprovalPanel, page: Page) -> None:
    first, second = await ask(panel, request("Oslo"), request("Rome"))
    assert "2 calls are waiting for your approval." in text(panel)
    button(panel, "Deny", 1).click()
    assert not (await second).approved

    assert "⊘ denied" in text(panel)
    assert "Waiting for your approval." in text(panel)
    assert len(page.outputs) == 1
    button(panel, "Approve").click()
    assert (await first).approved
    assert [line[:10] for line in page.lines] == ["⊘ denied w", "✓ approved"]


@pytest.mark.parametrize("verdict", ["Approve", "Deny"])
async def test_all_are_decided_together(panel: ApprovalPanel, verdict: str) -> None:
    asked = await ask(panel, request("Oslo"), request("Rome"), request("Ulm"))
    button(panel, f"{verdict} all").click()

    assert {decision.approved for decision in await asyncio.gather(*asked)} == {verdict == "Approve"}


@pytest.mark.parametrize("verdict", ["Approve", "Deny"])
async def test_all_buttons_decide_only_calls_shown_at_click(panel: ApprovalPanel, verdict: str) -> None:
    asked = await ask(panel, request("Oslo"), request("Rome"))
    unseen = asyncio.ensure_future(panel.ask(request("Ulm")))  # asks before the click is worked off
    button(panel, f"{verdict} all").click()

    assert {decision.approved for decision in await asyncio.gather(*asked)} == {verdict == "Approve"}
    assert panel.waiting == (request("Ulm"),)
    button(panel, "Deny").click()
    assert not (await unseen).approved


async def test_buttons_for_all_are_closed_with_the_last_of_their_calls(panel: ApprovalPanel) -> None:
    first, second, third = await ask(panel, request("Oslo"), request("Rome"), request("Ulm"))
    before = len(registry._instances)
    button(panel, "Deny").click()
    await first
    one_card = before - len(registry._instances)
    button(panel, "Deny").click()
    await second

    assert before - len(registry._instances) == 2 * one_card + 3  # Approve all and Deny all of the first two, their box
    button(panel, "Approve").click()
    assert (await third).approved


async def test_click_uses_text_and_choice_at_click_time(panel: ApprovalPanel) -> None:
    """On ipykernel 7.2 clicks and texts are taken in on another thread, while the loop may be busy with a cell."""
    first, second = await ask(panel, request("Oslo"), request("Rome"))
    button(panel, "Edit").click()
    await handled()
    field = json_face(panel)
    await handled()
    field.value = '{"location": "Bergen"}'
    button(panel, "Approve").click()
    field.value = '{"location": "Bonn"}'
    widgets(panel.widget, ipywidgets.Dropdown)[0].value = "tool"
    reason = widgets(panel.widget, ipywidgets.Text)[1]
    reason.value = "not now"
    button(panel, "Deny", 1).click()
    reason.value = "never"

    assert await first == Decision.approve({"location": "Bergen"})
    assert await second == Decision.deny("not now")


async def test_approve_all_skips_calls_edited_to_invalid(panel: ApprovalPanel) -> None:
    first, second = await ask(panel, request("Oslo"), request("Rome"))
    button(panel, "Edit").click()
    await handled()
    json_face(panel).value = "{}"
    await handled()
    button(panel, "Approve all").click()

    assert (await second).approved
    assert panel.waiting == (request("Oslo"),)
    button(panel, "Deny").click()
    assert not (await first).approved


async def test_one_call_alone_has_no_buttons_for_all(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())

    assert not [one for one in widgets(panel.widget, ipywidgets.Button) if "all" in one.description]
    button(panel, "Approve").click()
    await asked


async def test_a_call_after_the_last_answer_opens_a_panel_below(panel: ApprovalPanel, page: Page) -> None:
    for number in (1, 2):
        [asked] = await ask(panel, request())
        assert len(page.outputs) == number
        button(panel, "Approve").click()
        await asked
    assert all(WIDGET_VIEW not in output for output in page.outputs)


async def test_the_widget_of_a_cell_shows_the_next_question_too(panel: ApprovalPanel, page: Page) -> None:
    """A page that was loaded again has the first view alone: no more output of the cell reaches it."""
    views = []
    for location in ("Oslo", "Rome"):
        [asked] = await ask(panel, request(location))
        views.append(page.outputs[-1][WIDGET_VIEW]["model_id"])
        assert location in text(panel)
        button(panel, "Approve").click()
        await asked
        assert "✓ approved" in text(panel)
    assert set(views) == {panel.widget.model_id}


async def test_next_question_gets_focus_but_first_does_not(
    panel: ApprovalPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_magic.ui.widgets.DRAWN_SECONDS", 0.0)
    focused: list[Any] = []
    monkeypatch.setattr(ipywidgets.Button, "focus", lambda button: focused.append(button))
    first, second = await ask(panel, request("Oslo"), request("Rome"))
    await handled()
    assert focused == []
    button(panel, "Approve").click()
    await first
    while not focused:
        await asyncio.sleep(0)
    assert focused == [button(panel, "Edit")]
    button(panel, "Approve").click()
    await second


async def test_clicks_may_come_from_another_thread(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    clicking = threading.Thread(target=button(panel, "Approve").click)
    clicking.start()

    assert (await asyncio.wait_for(asked, 60)).approved
    clicking.join()


async def test_the_first_click_counts(panel: ApprovalPanel) -> None:
    [asked] = await ask(panel, request())
    deny = button(panel, "Deny")
    button(panel, "Approve").click()
    deny.click()

    assert (await asked).approved


async def test_a_wait_that_is_cancelled_leaves_a_line(panel: ApprovalPanel, page: Page) -> None:
    [asked] = await ask(panel, request())
    asked.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asked
    assert page.lines == ["… interrupted weather:forecast(location=London) TIME (agent asked)"]


async def test_a_wait_that_nobody_ends_leaves_a_line(page: Page) -> None:
    panel = ApprovalPanel(page, 0.3)

    with pytest.raises(TimeoutError):
        await panel.ask(request())
    assert page.lines[0].startswith("… not answered weather:forecast(location=London)")


async def test_busy_loop_does_not_turn_time_out_into_interruption(page: Page) -> None:
    panel = ApprovalPanel(page, 0.25)
    checking = asyncio.ensure_future(Consent(approver=panel, timeout=0.3).check(request()))
    while not panel.waiting:
        await asyncio.sleep(0)
    time.sleep(0.5)  # both deadlines have passed when the loop looks again

    with pytest.raises(DeniedError, match="denied by time-out"):
        await checking
    assert page.lines[0].startswith("… not answered weather:forecast(location=London)")


async def test_slow_panel_does_not_turn_time_out_into_interruption(page: Page) -> None:
    panel = ApprovalPanel(page, 60)  # its deadline begins later than that of the consent

    with pytest.raises(DeniedError, match="denied by time-out"):
        await Consent(approver=panel, timeout=0.1).check(request())
    assert page.lines[0].startswith("… not answered weather:forecast(location=London)")


async def test_the_panel_counts_down_to_the_denial(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.ui.question.TICK_SECONDS", 0.01)
    panel = ApprovalPanel(page, 75.2)
    [asked] = await ask(panel, request())
    assert "Waiting for your approval." in text(panel)
    told = r"Denied automatically in (1:\d\d)\."
    first = re.findall(told, text(panel))
    assert ["1:00"] < first <= ["1:16"]
    while re.findall(told, text(panel)) == first:
        await asyncio.sleep(0.01)
    assert ["1:00"] <= re.findall(told, text(panel)) < first
    button(panel, "Deny").click()
    await asked


async def test_consent_asks_the_panel(panel: ApprovalPanel) -> None:
    consent = Consent(approver=panel)
    checking = asyncio.ensure_future(consent.check(request()))
    while not panel.waiting:
        await asyncio.sleep(0)
    widgets(panel.widget, ipywidgets.Text)[0].value = "not today"
    button(panel, "Deny").click()

    with pytest.raises(DeniedError, match="denied by the user: not today"):
        await checking
