"""The panels for what servers ask of models, driven as a frontend drives them."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from mcp_types import ImageContent, ModelHint, ModelPreferences, SamplingMessage, TextContent, ToolUseContent

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
from tests.support.widgets import Page, handled, widgets
from tests.ui.test_elicitation import button, markup

if TYPE_CHECKING:
    from mcp_magic.ui.question import Panel

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


async def requested(page: Page, asked: SamplingRequest = ASKED, **options: Any) -> tuple[Panel, Any]:
    """Ask, and wait until the panel is there."""
    panel = page.panel()

    async def reviewed() -> Review:
        return request_review(asked, await panel.ask(request_question(asked, EXPECTED, **options)))

    task = asyncio.create_task(reviewed())
    while not panel.cards:
        await asyncio.sleep(0)  # a turn of the loop
    return panel, task


async def replied(page: Page, reply: Sampled = REPLY) -> tuple[Panel, Any]:
    panel = page.panel()

    async def reviewed() -> Review:
        return reply_review(ASKED, reply, await panel.ask(reply_question(ASKED, reply)))

    task = asyncio.create_task(reviewed())
    while not panel.cards:
        await asyncio.sleep(0)
    return panel, task


async def edit(panel: Any) -> list[Any]:
    button(panel, "Edit").click()
    while not (areas := widgets(panel.widget, ipywidgets.Textarea)):
        await asyncio.sleep(0)
    return areas


async def test_all_that_is_asked_for_is_shown_as_text(page: Page) -> None:
    panel, task = await requested(page)
    shown = markup(panel)

    parts = [
        "writer&lt;b&gt;",
        "Be brief.",
        "Hello",
        "Hi.",
        "Look &lt;script&gt;",
        "openai:gpt-5",
        "1,500 tokens",
        "0.3",
    ]
    parts += ["&#x27;END&#x27;", "a model like sonnet, speed 0.8", "1 (required)", "thisServer", "Add two numbers."]
    assert [part for part in parts if part not in shown] == []
    assert f'<img src="data:image/png;base64,{PIXEL}"' in shown
    assert "no context of servers is added" in shown
    assert "<script" not in shown
    assert page.outputs[0][WIDGET_VIEW]["model_id"] == panel.widget.model_id
    widgets(panel.widget, ipywidgets.Text)[0].value = "it is private"
    button(panel, "Deny").click()
    assert await task == Review.deny("it is private")
    assert page.lines[0].startswith("⊘ denied: ")
    assert ", because: it is private, " in page.lines[0]


def test_the_same_is_said_in_a_terminal() -> None:
    text = request_part(ASKED, EXPECTED).plain

    assert text.startswith("Server writer<b> asks a model to answer:\n  system:\n    Be brief.\n  user:\n    Hello\n")
    assert "  answered by: openai:gpt-5\n  at most: 1,500 tokens\n" in text
    assert "  tool add: Add two numbers.\n" in text


def test_long_text_is_shown_whole_or_marked_as_cut() -> None:
    asked = replace(ASKED, messages=(said("x" * 60_000 + "END"), said("y" * 100_500)))

    assert "xEND" in request_part(asked, EXPECTED).plain
    assert "… 501 characters left out …" in request_part(asked, EXPECTED).plain


async def test_approved_leaves_one_line_without_the_texts(page: Page) -> None:
    panel, task = await requested(page)
    button(panel, "Approve").click()

    assert await task == Review.approve()
    [line] = page.lines
    assert line.startswith("✓ approved: 3 messages to openai:gpt-5 for writer<b>, ")
    kept = json.dumps(page.outputs)
    assert not any(text in kept for text in ("Be brief", "Hello", PIXEL, "<script", "writer<b></b>"))
    assert WIDGET_VIEW not in page.outputs[0]


@pytest.mark.parametrize("at_first", [False, True])
async def test_the_person_says_whether_they_want_to_see_the_reply(page: Page, at_first: bool) -> None:
    panel, task = await requested(page, show_reply=at_first)
    [box] = widgets(panel.widget, ipywidgets.Checkbox)
    assert box.value is at_first
    box.value = True
    button(panel, "Approve").click()

    assert (await task).show_reply


async def test_texts_are_changed_in_text_areas(page: Page) -> None:
    panel, task = await requested(page)
    areas = await edit(panel)
    assert [area.value for area in areas] == ["Be brief.", "Hello", "Hi.", f"Look {EVIL}"]
    areas[0].value = "Be long."
    areas[1].value = ""
    button(panel, "Approve").click()

    review = await task
    assert review.request is not None
    assert review.request.system_prompt == "Be long."
    assert review.request.messages == ASKED.messages[1:]
    assert ", edited, " in page.lines[0]


async def test_nothing_changed_is_no_change(page: Page) -> None:
    panel, task = await requested(page)
    await edit(panel)
    await edit(panel)
    button(panel, "Approve").click()

    assert (await task).request is None


async def test_nothing_to_ask_is_said_beside_it(page: Page) -> None:
    panel, task = await requested(page, replace(ASKED, messages=(said("Hello"),)))
    areas = await edit(panel)
    areas[1].value = ""
    button(panel, "Approve").click()
    await handled()

    assert "no message is left" in markup(panel)
    assert not task.done()
    button(panel, "Deny").click()
    await task


async def test_a_reply_is_shown_with_its_calls_and_sent(page: Page) -> None:
    panel, task = await replied(page)
    shown = markup(panel)
    assert "See &lt;script&gt;" in shown
    assert "calls add with" in shown
    button(panel, "Send").click()

    assert await task == Review.approve()
    assert page.lines[0].startswith("✓ sent: reply of gpt-5 to writer<b>, ")


async def test_a_reply_may_be_changed_as_far_as_it_fits(page: Page) -> None:
    panel, task = await replied(page)
    areas = await edit(panel)
    areas[0].value = "Mine."
    areas[1].value = '{"a": "many", "b": 2}'
    button(panel, "Send").click()
    await handled()
    assert "a: expected number" in markup(panel)
    assert not task.done()
    areas[1].value = '{"a": 5, "b": 2}'
    button(panel, "Send").click()

    changed = (await task).reply
    assert changed.text == "Mine."
    assert changed.content[1].input == {"a": 5, "b": 2}
    assert ", edited, " in page.lines[0]


async def test_a_reply_may_be_refused_with_a_reason(page: Page) -> None:
    panel, task = await replied(page)
    widgets(panel.widget, ipywidgets.Text)[0].value = " it says too much "
    button(panel, "Refuse").click()

    assert await task == Review.deny("it says too much")
    assert page.lines[0].startswith("✗ not sent: reply of gpt-5")
    assert ", because: it says too much, " in page.lines[0]


async def test_a_question_that_nobody_waits_for_leaves_a_line(page: Page) -> None:
    _, task = await requested(page)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert page.lines[0].startswith("… interrupted: 3 messages")


async def test_a_click_on_another_thread_answers_on_the_loop(page: Page) -> None:
    panel, task = await requested(page)
    thread = threading.Thread(target=button(panel, "Deny").click)
    thread.start()

    assert not (await asyncio.wait_for(task, 60)).approved
    thread.join()
