"""The panel for what servers ask of the person, driven as a frontend drives it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest

from mcp_magic.ask.elicitation import Answer, Elicitation, answer_of, elicitation_question
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support.widgets import Page, widgets

if TYPE_CHECKING:
    from mcp_magic.ui.form import Form
    from mcp_magic.ui.question import Panel

TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "default": 3, "maximum": 10},
        "api_key": {"type": "string"},
    },
    "required": ["city"],
}
FORM = Elicitation("trips<b>", "Where <script>alert(1)</script> to?", "form", TRIP)
PAGE = Elicitation("bank", "Log in <b>there</b>", "url", url="https://bank.example@evil.example:8443/x?a=1&b=<i>")


@pytest.fixture
async def panel(page: Page) -> Panel:
    return page.panel()


def button(panel: Panel, description: str) -> Any:
    return next(one for one in widgets(panel.widget, ipywidgets.Button) if one.description == description)


def markup(panel: Panel) -> str:
    return "".join(one.value for one in widgets(panel.widget, ipywidgets.HTML))


def form(panel: Panel) -> Form:
    """Return the form of the question."""
    editor = panel.cards[0].editor
    assert editor is not None
    assert editor.form is not None
    return editor.form


async def asked(panel: Panel, what: Elicitation) -> asyncio.Task[Answer]:
    """Ask, and wait until the panel is there."""

    async def answered() -> Answer:
        return answer_of(what, await panel.ask(elicitation_question(what)))

    task = asyncio.create_task(answered())
    while not panel.cards:
        await asyncio.sleep(0)  # a turn of the loop
    return task


async def test_the_form_holds_the_defaults_and_sends_what_is_entered(panel: Panel, page: Page) -> None:
    task = await asked(panel, FORM)
    assert form(panel).draft == {"days": 3}
    form(panel).set_arguments({"city": "Oslo", "days": 3, "api_key": "hunter2-hunter2"})
    button(panel, "Submit").click()

    assert await task == Answer.accept({"city": "Oslo", "days": 3, "api_key": "hunter2-hunter2"})
    [line] = page.lines
    assert line.startswith("✓ sent city=Oslo, days=3, api_key=*** to trips<b> (Where <script>")
    kept = json.dumps(page.outputs)
    assert "hunter2" not in kept
    assert "<script>" not in page.outputs[0]["text/html"]
    assert WIDGET_VIEW not in page.outputs[0]


async def test_what_does_not_fit_is_said_beside_its_field_and_not_sent(panel: Panel) -> None:
    task = await asked(panel, FORM)
    form(panel).set_arguments({"city": "Oslo", "days": 30})
    button(panel, "Submit").click()

    assert not task.done()
    assert "at most 10" in markup(panel)
    form(panel).set_arguments({"city": "Oslo", "days": 3})
    button(panel, "Submit").click()
    assert (await task).content == {"city": "Oslo", "days": 3}


async def test_what_is_missing_is_told_only_when_it_is_to_be_sent(panel: Panel) -> None:
    task = await asked(panel, FORM)
    assert "mcp-problem" not in markup(panel).replace(".mcp-problem", "").replace(".mcp-form.mcp-problem", "")
    button(panel, "Submit").click()

    assert "required" in markup(panel)
    assert not task.done()
    button(panel, "Decline").click()
    await task


@pytest.mark.parametrize(("text", "action", "line"), [("Decline", "decline", "✗ declined"), ("Cancel", "cancel", "…")])
async def test_decline_and_cancel_are_two_things(panel: Panel, page: Page, text: str, action: str, line: str) -> None:
    task = await asked(panel, FORM)
    form(panel).set_arguments({"city": "Oslo"})
    button(panel, text).click()

    answer = await task
    assert (answer.action, answer.content) == (action, None)
    assert page.lines[0].startswith(line)
    assert "Oslo" not in page.lines[0]


async def test_who_asks_and_why_is_shown_as_text(panel: Panel, page: Page) -> None:
    task = await asked(panel, FORM)
    shown = markup(panel)

    assert "trips&lt;b&gt;" in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == panel.widget.model_id
    button(panel, "Cancel").click()
    await task


async def test_a_page_is_shown_with_the_host_it_leads_to(panel: Panel, page: Page) -> None:
    task = await asked(panel, PAGE)
    shown = markup(panel)

    assert '<b style="font-size:1.15em">evil.example:8443</b>' in shown
    assert "https://bank.example@evil.example:8443/x?a=1&amp;b=&lt;i&gt;</code>" in shown
    assert 'rel="noopener noreferrer"' in shown
    assert 'target="_blank"' in shown
    button(panel, "Done").click()
    assert await task == Answer.accept()
    assert page.lines[0].startswith("✓ done: bank (page at evil.example:8443: Log in <b>there</b>)")


async def test_a_question_that_nobody_waits_for_leaves_a_line(panel: Panel, page: Page) -> None:
    task = await asked(panel, PAGE)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert page.lines[0].startswith("… not answered: bank (page")


async def test_a_click_on_another_thread_answers_on_the_loop(panel: Panel) -> None:
    task = await asked(panel, PAGE)
    thread = threading.Thread(target=button(panel, "Decline").click)
    thread.start()

    assert (await asyncio.wait_for(task, 60)).action == "decline"
    thread.join()
