"""Consent as a person gives it: by clicks and keys, in a real JupyterLab, while the cell that asks is running."""

from __future__ import annotations

import pytest

from tests.support.pages import (
    asked,
    button,
    errors,
    expect,
    field,
    finished,
    output,
    press,
    prompt,
    readable,
    run,
    running,
    start,
    window_of,
)

pytestmark = pytest.mark.slow

CALL = 'r = await host["show"].call_tool("one_text", {"text": "hi"}, asker="agent")\nr.text'
LINES = """cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.max(...[...range.getClientRects()].map(line => line.right));
}"""


@pytest.mark.firefox
def test_edited_arguments_go_out_in_place_of_the_first(lab):
    cell = start(lab, CALL)
    panel = asked(cell)
    expect(panel).to_contain_text("agent wants to call show:one_text")
    expect(panel.locator(".mcp-badge")).to_contain_text("read-only")
    press(panel, "Edit")
    text = field(panel, "text")
    text.fill("")
    text.press_sequentially("ho ho")  # letter by letter, as a person does it: the cell is still running
    expect(panel).to_contain_text("ho ho")
    expect(panel).to_contain_text("changed; was hi")
    assert {"mcp-note", "mcp-type", "mcp-badge mcp-badge-safe"} <= {*readable(lab, ".mcp-magic", ".mcp-form")}
    select = panel.locator("select")
    arrow, colour = select.evaluate("s => [getComputedStyle(s).backgroundImage, getComputedStyle(s).color]")
    assert colour in arrow, "it is drawn in the colour of the text"
    press(panel, "Approve changed")

    shown = finished(cell)
    expect(shown).to_contain_text('✓ approved show:one_text(text="ho ho") by you, changed text')
    expect(shown).to_contain_text("'ho ho'")
    expect(shown.locator("button")).to_have_count(0)


@pytest.mark.firefox
def test_enter_in_the_reason_denies_and_the_caller_is_told_it(lab):
    cell = start(lab, CALL)
    reason = asked(cell).locator("input[placeholder^='why not']")
    reason.fill("not today")
    reason.press("Enter")
    expect(finished(cell)).to_contain_text("⊘ denied show:one_text(text=hi) by you, because: not today")
    [error] = errors(lab, cell)
    assert error.startswith("DeniedError: show:one_text")
    assert "not today" in error


def test_all_of_a_long_argument_is_in_sight_in_a_narrow_window(lab):
    with window_of(lab, 800):
        cell = start(lab, CALL.replace('"hi"', '"/home/ann/" + "long_folder/" * 20'))
        panel = asked(cell)
        value = panel.locator("tbody th+td").first
        expect(value).to_contain_text("long_folder/" * 20)
        assert value.evaluate(LINES) <= panel.evaluate("panel => panel.getBoundingClientRect().right")
        press(panel, "Deny")
        finished(cell)


@pytest.mark.firefox
@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_approve_is_reached_by_tab_and_pressed_by_key(lab, key):
    cell = start(lab, CALL)
    approve = button(asked(cell), "Approve")
    prompt(cell).click()  # the notebook has the keys, and no field of the panel
    for _ in range(20):
        lab.page.keyboard.press("Tab")
        if approve.evaluate("button => button === document.activeElement"):
            break
    expect(approve).to_be_focused()
    lab.page.keyboard.press(key)
    expect(finished(cell)).to_contain_text("✓ approved show:one_text(text=hi) by you")
    assert errors(lab, cell) == []


def test_a_request_of_one_cell_is_answered_while_another_waits(lab):
    run(lab, f"import asyncio\nasync def ask():\n    {CALL.splitlines()[0]}\n    return r.text")
    cell = start(lab, "task = asyncio.create_task(ask())\n%mcp call show:slow seconds=600")
    press(asked(cell), "Approve")
    expect(output(cell)).to_contain_text("✓ approved show:one_text(text=hi)")
    running(cell)
    lab.command("notebook:interrupt-kernel")
    finished(cell)
    expect(run(lab, "task.result()")).to_contain_text("'hi'")
