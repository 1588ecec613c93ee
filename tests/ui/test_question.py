"""Approvals in the panel of a cell, driven as a frontend drives it."""

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
from mcp_magic.consent.consent import Consent, Decision, Request
from mcp_magic.errors import DeniedError
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support.calling import allowed
from tests.support.waiting import until
from tests.support.widgets import PanelUser, handled, receive

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
CALL = "weather:forecast(location=London)"
LOGIN = Request("web", "login", {"user": "me", "password": "hunter2"}, "agent")


def request(location: str = "London", **more: Any) -> Request:
    return Request("weather", "forecast", {"location": location}, **{"asker": "agent", "definition": FORECAST, **more})


async def test_each_answer_leaves_a_line_and_the_next_has_its_own(person, page):
    views = []
    for click, reason, decision in (("Approve", "", Decision(True)), ("Deny", " too far ", Decision.deny("too far"))):
        [asked] = await person.decides(request())
        views.append(page.outputs[-1][WIDGET_VIEW]["model_id"])
        person.of(ipywidgets.Text)[0].value = reason
        person.button(click).click()
        assert await asked == decision
        assert ("✓ approved" in person.text, "⊘ denied" in person.text) == (not reason, bool(reason))
    [asked] = await person.decides(request())
    [field] = person.of(ipywidgets.Text)
    field.value = "no"
    receive(field, {"event": "submit"})
    assert await asked == Decision.deny("no")

    assert page.lines == [
        f"✓ approved {CALL} by you, TIME (agent asked)",
        f"⊘ denied {CALL} by you, because: too far, TIME (agent asked)",
        f"⊘ denied {CALL} by you, because: no, TIME (agent asked)",
    ]
    assert len(page.outputs) == 3
    assert all(WIDGET_VIEW not in output for output in page.outputs)
    # A page that was loaded again has the first view alone: no more output of the cell reaches it.
    assert set(views) == {person.panel.widget.model_id}


async def test_the_panel_says_who_wants_what_and_escapes_it(person, page):
    evil = request("</td><script>alert(1)</script>", asker="server <b>x</b>", trusted=True)
    [asked] = await person.decides(evil)

    shown = person.text + page.outputs[0]["text/html"]
    assert "server &lt;b&gt;x&lt;/b&gt; wants to call" in shown
    assert "weather:forecast" in shown
    assert "Tells the &lt;i&gt;weather&lt;/i&gt;." in shown
    assert "which you trust, says that it changes nothing" in shown
    assert "<script>" not in shown
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == person.panel.widget.model_id
    person.button("Deny").click()
    await asked
    assert "<script>" not in page.outputs[0]["text/html"]


async def test_tab_reaches_the_reason_before_deny(person):
    [asked] = await person.decides(request())
    reached = person.of((ipywidgets.Button, ipywidgets.Text, ipywidgets.Dropdown))
    reason = "why weather:forecast must not be called"
    assert [each.description for each in reached] == ["Approve", "what Approve approves", "Edit", reason, "Deny"]
    buttons = person.of(ipywidgets.Button)
    assert all(each.tooltip for each in buttons)
    assert {each.description: each.button_style for each in buttons} == {"Approve": "primary", "Edit": "", "Deny": ""}
    person.button("Deny").click()
    await asked


@pytest.mark.parametrize("run", [None, "run-1"])
async def test_an_approval_reaches_as_far_as_is_chosen(person, page, run):
    scopes = ["", "tool", "arguments", *(["run"] if run else [])]
    for scope in scopes:
        [asked] = await person.decides(request(run=run))
        [choice] = person.of(ipywidgets.Dropdown)
        assert [value for _, value in choice.options] == scopes
        choice.value = scope
        person.button("Approve").click()
        assert (await asked).always == scope
    # the transcript of a run says who approved
    assert page.lines == [] if run else "always for this tool" in page.lines[1]


async def test_consent_asks_and_keeps_a_denial_for_always(person, page):
    consent = Consent(approver=person)
    for always, reason in ((False, "not today"), (True, "too dear")):
        [checking] = await person.asked(allowed(consent, request()))
        person.of(ipywidgets.Checkbox)[0].value = always
        person.of(ipywidgets.Text)[0].value = reason
        person.button("Deny").click()
        with pytest.raises(DeniedError, match=f"denied by the user: {reason}"):
            await checking
    assert page.lines[1].startswith(f"⊘ denied {CALL} by you, because: too dear, always")
    assert [(str(rule), rule.reason) for rule in consent.rules] == [("deny weather:forecast", "too dear")]
    with pytest.raises(DeniedError, match="denied by rule `deny weather:forecast`: too dear"):
        await allowed(consent, request("Oslo"))


# Edited arguments


async def test_late_letters_are_sent_as_well(page, monkeypatch):
    """ipywidgets sends a click at once, but the last letters only after the letters before were taken."""
    links: list[Any] = []

    def link(source: Any, target: Any) -> Any:
        links.append((source[0], target[0]))
        return DirectionalLink(source, target)

    monkeypatch.setattr("ipywidgets.jsdlink", link)
    slow = PanelUser(page)
    [(sent, echo)] = links
    [asked] = await slow.decides(request())
    field = await slow.edit()
    await slow.set(field, '{"location": "Ber"}')
    await slow.click("Approve changed")
    assert not asked.done()
    field.value = '{"location": "Bergen"}'
    echo.value = sent.value
    assert await asked == Decision.approve({"location": "Bergen"})


async def test_what_a_page_does_not_confirm_is_not_approved(page, monkeypatch):
    monkeypatch.setattr("ipywidgets.jsdlink", DirectionalLink)
    monkeypatch.setattr("mcp_magic.ui.widgets.ECHO_SECONDS", 0.01)
    deaf = PanelUser(page)
    [asked] = await deaf.decides(request())
    await deaf.set(await deaf.edit(), '{"location": "Ber"}')
    await deaf.click("Approve changed")
    await until(lambda: "Press Approve again." in deaf.text)
    assert not asked.done()
    deaf.button("Deny").click()
    assert not (await asked).approved


async def test_edited_arguments_are_checked_marked_and_sent(person, page):
    [asked] = await person.decides(request())
    field = await person.edit()
    assert json.loads(field.value) == {"location": "London"}
    await person.set(field, '{"location": "London", "days": 99}')
    assert "days: expected integer" in person.text
    assert person.button("Approve").disabled
    person.button("Approve").click()
    await person.set(field, '{"location": ')
    assert person.button("Approve").disabled
    await person.set(field, '{"location": "Paris", "days": 2}')
    assert "✎ changed; was London" in person.text
    assert "✎ added" in person.text
    person.button("Approve changed").click()
    assert (await asked).arguments == {"location": "Paris", "days": 2}
    assert "by you, changed location, days, " in page.lines[0]

    [asked] = await person.decides(request())
    await person.click("Edit")
    [field] = [each for each in person.of(ipywidgets.Text) if each.value == "London"]
    await person.set(field, "Rome")
    person.button("Approve changed").click()
    assert (await asked).arguments == {"location": "Rome"}


@pytest.mark.parametrize("where", ["sandbox", "kernel"])
async def test_a_program_is_shown_whole_and_edited_as_text(person, where):
    tool = Programs(namespace=None if where == "sandbox" else {}).tool
    code = "from weather import forecast\n# <b>" + "x" * 3000 + "\nawait forecast('Oslo')"
    [asked] = await person.decides(Request("", "run_program", {"code": code}, "agent", tool, run="r", program=where))
    assert f"wants to run a program in {'the' if where == 'sandbox' else 'your'} <b>{where}</b>" in person.text
    assert "&lt;b&gt;" + "x" * 3000 in person.text
    scopes = [each for each in person.of(ipywidgets.Dropdown) if "for this run" in str(each.options)]
    assert len(scopes) == (1 if where == "sandbox" else 0)
    await person.click("Edit")
    [field] = [each for each in person.of(ipywidgets.Textarea) if each.value == code]
    await person.set(field, "print(1)")
    person.button("Approve changed").click()
    assert (await asked).arguments == {"code": "print(1)"}


async def test_discarded_and_empty_changes_are_no_edit(person):
    [asked] = await person.decides(request())
    await person.set(await person.edit(), "nonsense")
    assert person.button("Discard changes").tooltip == "use the original arguments"
    await person.click("Discard changes")
    assert person.button("Edit").tooltip.startswith("change the arguments of ")
    assert not person.of(ipywidgets.Textarea)
    assert not person.button("Approve").disabled
    person.button("Approve").click()
    assert await asked == Decision(True)
    [asked] = await person.decides(request())
    await person.set(await person.edit(), '{ "location":"London" }')
    person.button("Approve").click()
    assert await asked == Decision(True)


async def test_secrets_are_masked_and_survive_an_edit(person, page):
    [asked] = await person.decides(LOGIN)
    field = await person.edit()
    assert "hunter2" not in field.value + person.text + json.dumps(page.outputs)
    await person.set(field, field.value.replace("me", "you"))
    await person.click("Approve changed")
    assert (await asked).arguments == {"user": "you", "password": "hunter2"}
    assert "hunter2" not in json.dumps(page.outputs)


async def test_hidden_values_are_noted_and_can_be_shown(person, page):
    context = {"type": "string", "writeOnly": True}
    tool = Tool(name="forecast", input_schema={"properties": {"location": {"type": "string"}, "context": context}})
    sent = {"location": "Oslo", "context": "<b>-----BEGIN" + "x" * 1221, "api_token": "t0p"}
    [asked] = await person.decides(Request("weather", "forecast", sent, "agent", tool))
    assert "*** (1,234 characters)" in person.text
    assert "hidden: context (the server calls it a secret), api_token (the name of a secret)" in person.text
    assert "BEGIN" not in person.text
    await person.click("Show hidden")
    assert "&lt;b&gt;-----BEGINxxx" in person.text
    assert "t0p" in person.text
    await person.click("Hide")
    assert "BEGIN" not in person.text
    person.button("Show hidden").click()
    person.button("Approve").click()
    await asked
    assert "BEGIN" not in json.dumps(page.outputs)


async def test_what_is_hidden_is_shown_as_it_was_edited(person):
    [asked] = await person.decides(LOGIN)
    person.button("Show hidden").click()
    await person.set(await person.edit(), '{"user": "me", "password": "other"}')
    assert "hunter2" not in person.text
    assert "other" in person.text
    await person.click("Deny")
    await asked
    [asked] = await person.decides(Request("web", "login", LOGIN.arguments))
    assert "Show hidden" not in [each.description for each in person.of(ipywidgets.Button)], "your own call"
    assert "characters)" not in person.text
    person.button("Deny").click()
    await asked


# Several calls


async def test_several_wait_in_one_panel_and_are_decided_one_by_one(person, page):
    first, second = await person.decides(request("Oslo"), request("Rome"))
    assert "2 calls are waiting for your approval." in person.text
    person.button("Deny", 1).click()
    assert not (await second).approved
    assert "⊘ denied" in person.text
    assert "Waiting for your approval." in person.text
    assert len(page.outputs) == 1
    assert not [each for each in person.of(ipywidgets.Button) if "all" in each.description]
    person.button("Approve").click()
    assert (await first).approved
    assert [line[:10] for line in page.lines] == ["⊘ denied w", "✓ approved"]


@pytest.mark.parametrize("verdict", ["Approve", "Deny"])
async def test_all_buttons_decide_only_calls_shown_at_click(person, verdict):
    asked = await person.decides(request("Oslo"), request("Rome"))
    unseen = asyncio.ensure_future(person(request("Ulm")))  # asks before the click is worked off
    person.button(f"{verdict} all").click()
    assert {decision.approved for decision in await asyncio.gather(*asked)} == {verdict == "Approve"}
    assert len(person.panel.waiting) == 1
    assert not unseen.done()
    person.button("Deny").click()
    assert not (await unseen).approved


async def test_buttons_for_all_are_closed_with_the_last_of_their_calls(person):
    first, second, third = await person.decides(request("Oslo"), request("Rome"), request("Ulm"))
    before = len(registry._instances)
    person.button("Deny").click()
    await first
    one_card = before - len(registry._instances)
    person.button("Deny").click()
    await second
    assert before - len(registry._instances) == 2 * one_card + 3  # Approve all and Deny all of the first two, their box
    person.button("Approve").click()
    assert (await third).approved


async def test_approve_all_skips_calls_edited_to_invalid(person):
    first, second = await person.decides(request("Oslo"), request("Rome"))
    await person.set(await person.edit(), "{}")
    person.button("Approve all").click()
    assert (await second).approved
    assert not first.done()
    person.button("Deny").click()
    assert not (await first).approved


# Clicks


async def test_click_uses_text_and_choice_at_click_time(person):
    """On ipykernel 7.2 clicks and texts are taken in on another thread, while the loop may be busy with a cell."""
    first, second = await person.decides(request("Oslo"), request("Rome"))
    field = await person.edit()
    await handled()
    field.value = '{"location": "Bergen"}'
    person.button("Approve").click()
    field.value = '{"location": "Bonn"}'
    person.of(ipywidgets.Dropdown)[0].value = "tool"
    reason = person.of(ipywidgets.Text)[1]
    reason.value = "not now"
    person.button("Deny", 1).click()
    reason.value = "never"
    assert await first == Decision.approve({"location": "Bergen"})
    assert await second == Decision.deny("not now")


async def test_first_click_counts_and_may_come_from_a_thread(person):
    [asked] = await person.decides(request())
    deny = person.button("Deny")
    clicking = threading.Thread(target=person.button("Approve").click)
    clicking.start()
    clicking.join()
    deny.click()
    assert (await asyncio.wait_for(asked, 60)).approved


async def test_next_question_gets_focus_but_first_does_not(person, monkeypatch):
    monkeypatch.setattr("mcp_magic.ui.widgets.DRAWN_SECONDS", 0.0)
    focused: list[Any] = []
    monkeypatch.setattr(ipywidgets.Button, "focus", lambda button: focused.append(button))
    first, second = await person.decides(request("Oslo"), request("Rome"))
    await handled()
    assert focused == []
    person.button("Approve").click()
    await first
    await until(lambda: focused)
    assert focused == [person.button("Edit")]
    person.button("Approve").click()
    await second


# Waits that end


async def test_a_wait_that_is_cancelled_leaves_a_line(person, page):
    [asked] = await person.decides(request())
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert page.lines == [f"… interrupted {CALL} TIME (agent asked)"]


async def test_a_wait_that_nobody_ends_leaves_a_line(page):
    with pytest.raises(TimeoutError):
        await PanelUser(page, 0.1)(request())
    slow = PanelUser(page, 60)  # its deadline begins later than that of the consent
    with pytest.raises(DeniedError, match="denied by time-out"):
        await allowed(Consent(approver=slow, timeout=0.1), request())
    assert [line.startswith(f"… not answered {CALL}") for line in page.lines] == [True, True]


async def test_busy_loop_does_not_turn_time_out_into_interruption(page):
    person = PanelUser(page, 0.25)
    [checking] = await person.asked(allowed(Consent(approver=person, timeout=0.3), request()))
    time.sleep(0.4)  # both deadlines have passed when the loop looks again
    with pytest.raises(DeniedError, match="denied by time-out"):
        await checking
    assert page.lines[0].startswith(f"… not answered {CALL}")


async def test_the_panel_counts_down_to_the_denial(page, monkeypatch):
    monkeypatch.setattr("mcp_magic.ui.question.TICK_SECONDS", 0.01)
    person = PanelUser(page, 75.2)
    [asked] = await person.decides(request())
    assert "Waiting for your approval." in person.text
    told = r"Denied automatically in (1:\d\d)\."
    first = re.findall(told, person.text)
    assert ["1:00"] < first <= ["1:16"]
    await until(lambda: re.findall(told, person.text) != first)
    assert ["1:00"] <= re.findall(told, person.text) < first
    person.button("Deny").click()
    await asked
