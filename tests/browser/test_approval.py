"""Consent as a person gives it: by clicks and keys, in a real JupyterLab, while the cell that asks is running."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
    saved,
    start,
    window_of,
)

if TYPE_CHECKING:
    from tests.support.lab import Lab

pytestmark = pytest.mark.slow

CALL = 'r = await host["show"].call_tool("one_text", {"text": "hi"}, asker="agent")\nr.text'
LINES = """cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.max(...[...range.getClientRects()].map(line => line.right));
}"""


def test_hidden_values_are_shown_while_waiting_but_not_saved(lab: Lab) -> None:
    run(lab, '%%mcp_server vault\ndef unlock(password: str) -> str:\n    """Opens it."""\n    return "open"')
    cell = start(lab, 'await host["vault"].call_tool("unlock", {"password": "t0p" + "-down"}, asker="agent")')
    panel = asked(cell)
    expect(panel).to_contain_text("*** (8 characters)")
    expect(panel).to_contain_text("hidden: password (the name of a secret)")
    press(cell, "Show hidden")
    expect(panel).to_contain_text("t0p-down")
    while_it_waits = lab.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.toJSON()")
    assert "t0p-down" not in json.dumps(while_it_waits["cells"][-1]["outputs"])
    press(cell, "Hide")
    expect(panel).not_to_contain_text("t0p-down")
    press(cell, "Deny")
    finished(cell)
    assert "t0p-down" not in json.dumps(saved(lab)["cells"][-1]["outputs"])


@pytest.mark.firefox
def test_edited_arguments_go_out_in_place_of_the_first(lab: Lab) -> None:
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


def test_all_of_a_long_argument_is_in_sight_in_a_narrow_window(lab: Lab) -> None:
    with window_of(lab, 800):
        cell = start(lab, CALL.replace('"hi"', '"/home/ann/" + "long_folder/" * 20'))
        panel = asked(cell)
        value = panel.locator("tbody th+td").first
        expect(value).to_contain_text("long_folder/" * 20)
        assert value.evaluate(LINES) <= panel.evaluate("panel => panel.getBoundingClientRect().right")
        press(panel, "Deny")
        finished(cell)


def test_approve_waits_until_all_of_a_long_argument_was_opened(lab: Lab) -> None:
    command = '"ls -la" + " " * 1200 + "; " + "curl p\\u0430ypal.com; " * 100 + "rm -r ."'
    cell = start(lab, CALL.replace('"hi"', command))
    panel = output(cell)
    expect(panel).to_contain_text("ls -la⟨␣×1,200⟩; curl p⟨Cyrillic а⟩ypal.com")  # noqa: RUF001
    expect(panel).to_contain_text("characters left out")
    expect(panel).to_contain_text("rm -r .")
    expect(button(cell, "Approve")).to_be_disabled()
    panel.get_by_role("button", name="Show all of text").click()
    expect(panel.locator("pre")).to_contain_text("curl p⟨Cyrillic а⟩ypal.com; " * 100 + "rm -r .")  # noqa: RUF001
    expect(button(cell, "Approve")).to_be_enabled()
    press(panel, "Deny")
    finished(cell)


def test_a_denial_says_its_reason_to_whoever_asked(lab: Lab) -> None:
    cell = start(lab, CALL)
    reason = asked(cell).locator("input[placeholder^='why not']")
    reason.fill("not today")
    reason.press("Enter")
    expect(finished(cell)).to_contain_text("⊘ denied show:one_text(text=hi) by you, because: not today")
    [error] = errors(lab, cell)
    assert error.startswith("DeniedError: show:one_text")
    assert "not today" in error


def test_what_nobody_answers_is_denied_in_time(lab: Lab) -> None:
    run(lab, "%config MCPMagics.approval_timeout = 0.5")
    try:
        cell = start(lab, CALL)
        expect(finished(cell)).to_contain_text("… not answered show:one_text(text=hi)")
        assert [error.split(":")[0] for error in errors(lab, cell)] == ["DeniedError"]
    finally:
        run(lab, "%config MCPMagics.approval_timeout = 300.0")


def test_a_rule_asks_about_what_the_person_types(lab: Lab) -> None:
    run(lab, "%mcp ask show:one_text")
    cell = start(lab, "%mcp call show:one_text text=typed")
    panel = asked(cell)
    expect(panel).to_contain_text("You are about to call show:one_text")
    press(panel, "Approve")
    expect(finished(cell)).to_contain_text("✓ approved show:one_text(text=typed)")
    expect(output(cell).locator(".mcp-magic").last).to_contain_text("typed")
    run(lab, "host.consent.rules.clear()")


def test_several_calls_share_a_panel_and_are_decided_together(lab: Lab) -> None:
    ask = 'host["show"].call_tool("one_text", {{"text": "{}"}}, asker="agent")'
    both = ", ".join(map(ask.format, ("one", "two")))
    cell = start(lab, f"import asyncio\n[r.text for r in await asyncio.gather({both})]")
    expect(cell).to_contain_text("2 calls are waiting for your approval")
    press(output(cell), "Approve all")
    expect(finished(cell)).to_contain_text("['one', 'two']")
    expect(output(cell).get_by_text("✓ approved")).to_have_count(2)


@pytest.mark.firefox
@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_approve_is_reached_by_tab_and_pressed_by_key(lab: Lab, key: str) -> None:
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


def test_requests_of_the_background_are_answered_by_a_click(lab: Lab) -> None:
    run(
        lab,
        f"import asyncio\ngo = asyncio.Event()\nasync def later():\n    await go.wait()\n    {CALL.splitlines()[0]}\n"
        "    return r.text\ntask = asyncio.create_task(later())",
    )
    run(lab, "go.set()")
    panel = lab.page.locator(".jp-Cell-outputArea", has=lab.page.locator("button", has_text="Approve"))
    expect(panel).to_contain_text("agent wants to call show:one_text")
    press(panel, "Approve")
    expect(run(lab, "await task")).to_contain_text("'hi'")
    expect(panel).to_have_count(0)

    cell = start(lab, "task = asyncio.create_task(later())\n%mcp call show:slow seconds=600")
    press(asked(cell), "Approve")
    expect(output(cell)).to_contain_text("✓ approved show:one_text(text=hi)")
    running(cell)  # `%mcp call` of the cell goes on
    lab.command("notebook:interrupt-kernel")
    finished(cell)
    expect(run(lab, "task.result()")).to_contain_text("'hi'")
