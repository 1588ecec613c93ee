"""What servers ask of the person and of models, in the panel of a cell, driven as a frontend drives it."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from mcp_types import ImageContent, ModelHint, ModelPreferences, SamplingMessage, TextContent, ToolUseContent

from mcp_magic.ask.elicitation import Answer, Elicitation, answer_of, elicitation_question
from mcp_magic.ask.sampling import (
    Expected,
    Review,
    Sampled,
    SamplingRequest,
    reply_question,
    reply_review,
    request_part,
    request_question,
    request_review,
)
from mcp_magic.ui.widgets import WIDGET_VIEW
from tests.support.sampling_servers import ADD, PIXEL, said

if TYPE_CHECKING:
    from mcp_magic.ui.form import Form
    from tests.support.widgets import PanelUser

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

# Elicitation


async def elicited(person: PanelUser, asked: Elicitation) -> Any:
    async def answer() -> Answer:
        return answer_of(asked, await person.reply(elicitation_question(asked)))

    [task] = await person.asked(answer())
    return task


def form(person: PanelUser) -> Form:
    """Return the form of the question."""
    editor = person.panel.cards[0].editor
    assert editor is not None
    assert editor.form is not None
    return editor.form


async def test_the_form_holds_the_defaults_and_sends_what_is_entered(person, page):
    task = await elicited(person, FORM)
    assert "trips&lt;b&gt;" in person.text
    assert "&lt;script&gt;alert(1)" in person.text
    assert "<script" not in person.text
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == person.panel.widget.model_id
    assert form(person).draft == {"days": 3}
    form(person).set_arguments({"city": "Oslo", "days": 3, "api_key": "hunter2-hunter2"})
    person.button("Submit").click()

    assert await task == Answer.accept({"city": "Oslo", "days": 3, "api_key": "hunter2-hunter2"})
    [line] = page.lines
    assert line.startswith("✓ sent city=Oslo, days=3, api_key=*** to trips<b> (Where <script>")
    assert "hunter2" not in json.dumps(page.outputs)
    assert "<script>" not in page.outputs[0]["text/html"]
    assert WIDGET_VIEW not in page.outputs[0]


async def test_what_does_not_fit_is_said_beside_its_field_and_not_sent(person):
    task = await elicited(person, FORM)
    assert "missing: city" not in person.text
    assert "mcp-problem" not in person.text.replace(".mcp-problem", "").replace(".mcp-form.mcp-problem", "")
    person.button("Submit").click()
    assert "missing: city" in person.text, "it is told once it is to be sent"
    form(person).set_arguments({"city": "Oslo", "days": 30})
    person.button("Submit").click()
    assert not task.done()
    assert "at most 10" in person.text
    form(person).set_arguments({"city": "Oslo", "days": 3})
    person.button("Submit").click()
    assert (await task).content == {"city": "Oslo", "days": 3}


@pytest.mark.parametrize(("text", "action", "line"), [("Decline", "decline", "✗ declined"), ("Cancel", "cancel", "…")])
async def test_decline_and_cancel_are_two_things(person, page, text, action, line):
    task = await elicited(person, FORM)
    form(person).set_arguments({"city": "Oslo"})
    person.button(text).click()
    answer = await task
    assert (answer.action, answer.content) == (action, None)
    assert page.lines[0].startswith(line)
    assert "Oslo" not in page.lines[0]


async def test_a_page_is_shown_with_the_host_it_leads_to(person, page):
    task = await elicited(person, PAGE)
    shown = person.text
    assert '<b style="font-size:1.15em">evil.example:8443</b>' in shown
    assert "https://bank.example@evil.example:8443/x?a=1&amp;b=&lt;i&gt;</code>" in shown
    assert 'rel="noopener noreferrer"' in shown
    assert 'target="_blank"' in shown
    person.button("Done").click()
    assert await task == Answer.accept()
    assert page.lines[0].startswith("✓ done: bank (page at evil.example:8443: Log in <b>there</b>)")


# Sampling

EVIL = "<script>alert(1)</script>"
LOOK = SamplingMessage(
    role="user", content=[TextContent(text=f"Look {EVIL}"), ImageContent(data=PIXEL, mime_type="image/png")]
)
ASKED = SamplingRequest(
    server="writer<b>",
    messages=(said("Hello"), said("Hi.", "assistant"), LOOK),
    max_tokens=1500,
    system_prompt="Be brief.",
    temperature=0.3,
    stop_sequences=("END",),
    preferences=ModelPreferences(hints=[ModelHint(name="sonnet")], speed_priority=0.8),
    tools=(ADD,),
    tool_choice="required",
    include_context="thisServer",
    metadata={"user": "me"},
)
EXPECTED = Expected("openai:gpt-5", ("no context of servers is added",))
REPLY = Sampled(
    (TextContent(text=f"See {EVIL}"), ToolUseContent(name="add", id="c", input={"a": 1, "b": 2})), "gpt-5", "toolUse"
)


async def requested(person: PanelUser, asked: SamplingRequest = ASKED, **options: Any) -> Any:
    async def review() -> Review:
        return request_review(asked, await person.reply(request_question(asked, EXPECTED, **options)))

    [task] = await person.asked(review())
    return task


async def replied(person: PanelUser) -> Any:
    async def review() -> Review:
        return reply_review(ASKED, REPLY, await person.reply(reply_question(ASKED, REPLY)))

    [task] = await person.asked(review())
    return task


async def edit(person: PanelUser) -> list[Any]:
    await person.click("Edit")
    return person.of(ipywidgets.Textarea)


async def test_all_that_is_asked_for_is_shown_as_text(person, page):
    task = await requested(person)
    parts = [
        *("writer&lt;b&gt;", "Be brief.", "Hello", "Hi.", "Look &lt;script&gt;", "openai:gpt-5", "1,500 tokens", "0.3"),
        *("&#x27;END&#x27;", "a model like sonnet, speed 0.8", "1 (required)", "thisServer", "Add two numbers."),
        *(f'<img src="data:image/png;base64,{PIXEL}"', "no context of servers is added"),
    ]
    assert [part for part in parts if part not in person.text] == []
    assert "<script" not in person.text
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == person.panel.widget.model_id
    person.of(ipywidgets.Text)[0].value = "it is private"
    person.button("Deny").click()
    assert await task == Review.deny("it is private")
    assert page.lines[0].startswith("⊘ denied: ")
    assert ", because: it is private, " in page.lines[0]


def test_a_request_in_a_terminal_is_whole_or_says_what_is_cut():
    text = request_part(ASKED, EXPECTED).plain
    assert text.startswith("Server writer<b> asks a model to answer:\n  system:\n    Be brief.\n  user:\n    Hello\n")
    assert "  answered by: openai:gpt-5\n  at most: 1,500 tokens\n" in text
    assert "  tool add: Add two numbers.\n" in text
    asked = replace(ASKED, messages=(said("x" * 60_000 + "END"), said("y" * 100_500)))
    assert "xEND" in request_part(asked, EXPECTED).plain
    assert "… 501 characters left out …" in request_part(asked, EXPECTED).plain


async def test_approved_leaves_one_line_without_the_texts(person, page):
    task = await requested(person)
    person.button("Approve").click()
    assert await task == Review.approve()
    [line] = page.lines
    assert line.startswith("✓ approved: 3 messages to openai:gpt-5 for writer<b>, ")
    kept = json.dumps(page.outputs)
    assert not any(text in kept for text in ("Be brief", "Hello", PIXEL, "<script", "writer<b></b>"))
    assert WIDGET_VIEW not in page.outputs[0]


@pytest.mark.parametrize("at_first", [False, True])
async def test_the_person_says_whether_they_want_to_see_the_reply(person, at_first):
    task = await requested(person, show_reply=at_first)
    [box] = person.of(ipywidgets.Checkbox)
    assert box.value is at_first
    box.value = True
    person.button("Approve").click()
    assert (await task).show_reply


async def test_texts_are_changed_in_text_areas(person, page):
    task = await requested(person)
    areas = await edit(person)
    assert [area.value for area in areas] == ["Be brief.", "Hello", "Hi.", f"Look {EVIL}"]
    areas[0].value = "Be long."
    areas[1].value = ""
    person.button("Approve").click()
    review = await task
    assert review.request is not None
    assert review.request.system_prompt == "Be long."
    assert review.request.messages == ASKED.messages[1:]
    assert ", edited, " in page.lines[0]

    task = await requested(person)
    await edit(person)
    person.button("Approve").click()
    assert (await task).request is None, "nothing was changed"


async def test_an_emptied_request_is_rejected_beside_its_buttons(person):
    task = await requested(person, replace(ASKED, messages=(said("Hello"),)))
    (await edit(person))[1].value = ""
    await person.click("Approve")
    assert "no message is left" in person.text
    assert not task.done()
    person.button("Deny").click()
    await task


async def test_a_reply_is_shown_with_its_calls_and_sent(person, page):
    task = await replied(person)
    assert "See &lt;script&gt;" in person.text
    assert "calls add with" in person.text
    person.button("Send").click()
    assert await task == Review.approve()
    task = await replied(person)
    person.of(ipywidgets.Text)[0].value = " it says too much "
    person.button("Refuse").click()
    assert await task == Review.deny("it says too much")
    assert page.lines[0].startswith("✓ sent: reply of gpt-5 to writer<b>, ")
    assert page.lines[1].startswith("✗ not sent: reply of gpt-5")
    assert ", because: it says too much, " in page.lines[1]


async def test_a_reply_may_be_changed_as_far_as_it_fits(person, page):
    task = await replied(person)
    areas = await edit(person)
    areas[0].value = "Mine."
    areas[1].value = '{"a": "many", "b": 2}'
    await person.click("Send")
    assert "a: expected number" in person.text
    assert not task.done()
    areas[1].value = '{"a": 5, "b": 2}'
    person.button("Send").click()
    changed = (await task).reply
    assert changed.text == "Mine."
    assert changed.content[1].input == {"a": 5, "b": 2}
    assert ", edited, " in page.lines[0]


# Both


async def test_a_question_that_nobody_waits_for_leaves_a_line(person, page):
    for ask, what in ((elicited, PAGE), (requested, ASKED)):
        task = await ask(person, what)  # type: ignore[operator]
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
    assert page.lines[0].startswith("… not answered: bank (page")
    assert page.lines[1].startswith("… interrupted: 3 messages")


async def test_a_click_on_another_thread_answers_on_the_loop(person):
    task = await elicited(person, PAGE)
    thread = threading.Thread(target=person.button("Decline").click)
    thread.start()
    assert (await asyncio.wait_for(task, 60)).action == "decline"
    thread.join()
