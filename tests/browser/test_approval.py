"""Consent as a person gives it: by clicks and keys, in a real JupyterLab, while the cell that asks is running."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.notebooks import write_notebook
from tests.support.pages import (
    asked,
    assert_readable,
    button,
    errors,
    expect,
    field,
    finished,
    output,
    press,
    prompt,
    run,
    running,
    saved,
    start,
    themes,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.lab import JupyterLab, Lab

pytestmark = pytest.mark.slow

RESTARTED = "Kernel restarted: run this cell again"

_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"

CALL = 'r = await host["show"].call_tool("one_text", {"text": "hi"}, asker="agent")\nr.text'


def test_hidden_values_are_shown_while_waiting_but_not_saved(lab: Lab) -> None:
    run(lab, '%%mcp_server vault\ndef unlock(password: str) -> str:\n    """Opens it."""\n    return "open"')
    cell = start(lab, 'await host["vault"].call_tool("unlock", {"password": "t0p" + "-down"}, asker="agent")')
    panel = asked(cell)
    expect(panel).to_contain_text("*** (8 characters)")
    expect(panel).to_contain_text("hidden: password (the name of a secret)")

    press(cell, "Show hidden")
    expect(panel).to_contain_text("t0p-down")
    lab.picture("approval-hidden", first=lab.cells.count() - 1)
    while_it_waits = lab.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.toJSON()")
    assert "t0p-down" not in json.dumps(while_it_waits["cells"][-1]["outputs"])
    press(cell, "Hide")
    expect(panel).not_to_contain_text("t0p-down")
    press(cell, "Deny")
    finished(cell)
    assert "t0p-down" not in json.dumps(saved(lab)["cells"][-1]["outputs"])


def test_approve_lets_the_call_of_a_running_cell_go_out(lab: Lab) -> None:
    cell = start(lab, CALL)
    panel = asked(cell)
    expect(panel).to_contain_text("agent wants to call show:one_text")
    expect(panel.locator(".mcp-badge")).to_contain_text("read-only")
    lab.picture("approval-asked", first=lab.cells.count() - 1)
    press(panel, "Approve")

    shown = finished(cell)
    expect(shown).to_contain_text("✓ approved show:one_text(text=hi) by you")
    expect(shown).to_contain_text("'hi'")
    expect(shown.locator("button")).to_have_count(0)


@pytest.mark.firefox
def test_edited_arguments_go_out_in_place_of_the_first(lab: Lab) -> None:
    cell = start(lab, CALL)
    panel = asked(cell)
    press(panel, "Edit")
    text = field(panel, "text")
    text.fill("")
    text.press_sequentially("ho ho")  # letter by letter, as a person does it: the cell is still running
    expect(panel).to_contain_text("ho ho")
    expect(panel).to_contain_text("changed; was hi")
    lab.picture("approval-edited", first=lab.cells.count() - 1)
    press(panel, "Approve changed")

    shown = finished(cell)
    expect(shown).to_contain_text('✓ approved show:one_text(text="ho ho") by you, changed text')
    expect(shown).to_contain_text("'ho ho'")


def test_all_of_a_long_argument_is_in_sight_in_a_narrow_window(lab: Lab) -> None:
    size = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 800, "height": 900})
    cell = start(lab, CALL.replace('"hi"', '"/home/ann/" + "long_folder/" * 20'))
    panel = asked(cell)
    edge = panel.evaluate("panel => panel.getBoundingClientRect().right")
    value = panel.locator("tbody th+td").first
    expect(value).to_contain_text("long_folder/" * 20)
    assert (
        value.evaluate("""cell => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return Math.max(...[...range.getClientRects()].map(line => line.right));
    }""")
        <= edge
    )
    press(panel, "Deny")
    finished(cell)
    lab.page.set_viewport_size(size)


def test_approve_waits_until_all_of_a_long_argument_was_opened(lab: Lab) -> None:
    command = '"ls -la" + " " * 1200 + "; " + "curl p\\u0430ypal.com; " * 100 + "rm -r ."'
    cell = start(lab, CALL.replace('"hi"', command))
    panel = output(cell)
    expect(panel).to_contain_text("ls -la⟨␣×1,200⟩; curl p⟨Cyrillic а⟩ypal.com")  # noqa: RUF001
    expect(panel).to_contain_text("characters left out")
    expect(panel).to_contain_text("rm -r .")
    expect(button(cell, "Approve")).to_be_disabled()
    for theme in themes(lab):
        lab.picture(f"approval-long-{theme}", first=lab.cells.count() - 1)

    panel.get_by_role("button", name="Show all of text").click()
    expect(panel.locator("pre")).to_contain_text("curl p⟨Cyrillic а⟩ypal.com; " * 100 + "rm -r .")  # noqa: RUF001
    expect(button(cell, "Approve")).to_be_enabled()
    for theme in themes(lab):
        lab.picture(f"approval-opened-{theme}", first=lab.cells.count() - 1)
    press(panel, "Deny")
    finished(cell)


@pytest.mark.firefox
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
    lab.picture("approval-several", first=lab.cells.count() - 1)
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


def test_a_request_from_the_background_is_answered_by_a_click(lab: Lab) -> None:
    started = start(
        lab,
        "import asyncio\ngo = asyncio.Event()\nasync def later():\n    await go.wait()\n"
        '    return await host["show"].call_tool("one_text", {"text": "later"}, asker="agent")\n'
        "task = asyncio.create_task(later())",
    )
    finished(started)
    finished(start(lab, "go.set()"))
    panel = lab.page.locator(".jp-Cell-outputArea", has=lab.page.locator("button", has_text="Approve"))
    expect(panel).to_contain_text("agent wants to call show:one_text")
    press(panel, "Approve")

    expect(run(lab, "(await task).text")).to_contain_text("'later'")
    expect(panel).to_have_count(0)


def test_a_request_of_one_cell_is_answered_while_another_waits(lab: Lab) -> None:
    """The request comes from a task of an earlier cell, while `%mcp call` of the last one goes on."""
    run(lab, f"import asyncio\nasync def ask():\n    {CALL.splitlines()[0]}\n    return r.text")
    cell = start(lab, "task = asyncio.create_task(ask())\n%mcp call show:slow seconds=600")
    press(asked(cell), "Approve")

    expect(output(cell)).to_contain_text("✓ approved show:one_text(text=hi)")
    running(cell)
    lab.command("notebook:interrupt-kernel")
    finished(cell)
    expect(run(lab, "task.result()")).to_contain_text("'hi'")


@pytest.mark.firefox
def test_the_text_of_a_panel_is_readable(lab: Lab) -> None:
    cell = start(lab, CALL)
    panel = asked(cell)
    press(panel, "Edit")
    field(panel, "text").fill("ho")
    expect(panel).to_contain_text("changed; was hi")
    for theme in themes(lab):
        names = assert_readable(lab.page, ".mcp-magic", ".mcp-form")
        assert {"mcp-note", "mcp-type", "mcp-badge mcp-badge-safe"} <= {*names}
        lab.picture(f"approval-{theme}", first=lab.cells.count() - 1)
        arrow = panel.locator("select").evaluate(
            "s => [getComputedStyle(s).backgroundImage, getComputedStyle(s).color]"
        )
        assert arrow[1] in arrow[0]  # drawn in the colour of the text
    press(panel, "Deny")
    finished(cell)


def test_decisions_are_readable_in_saved_notebook(lab: Lab, jupyterlab: JupyterLab, live_browser: Browser) -> None:
    cell = start(lab, CALL)
    press(asked(cell), "Approve")
    finished(cell)
    notebook = saved(lab)
    decided = notebook["cells"][-1]["outputs"][0]["data"]
    assert set(decided) == {"text/plain", "text/html"}
    (jupyterlab.folder / "approval-later.ipynb").write_text(json.dumps({**notebook, "cells": notebook["cells"][-1:]}))

    with jupyterlab.open(live_browser, "approval-later.ipynb") as later:
        shown = output(later.cells.first)
        expect(shown.get_by_text("✓ approved")).to_be_visible()
        expect(shown).to_contain_text("show:one_text(text=hi) by you")
        later.picture("approval-later")


def test_next_question_appears_after_page_reload(lab: Lab) -> None:
    lab.clear()
    calls = 'for text in ("one", "two"):\n    await host["show"].call_tool("one_text", {"text": text}, asker="agent")'
    panel = asked(start(lab, calls))
    lab.command("docmanager:save")
    for _ in range(5):  # JupyterLab's widget manager may lose a model, for good: see test_forms.py
        lab.page.reload()
        lab.page.wait_for_selector(".jp-Notebook .jp-Cell")
        lost = panel.get_by_text(re.compile("model not found|Error (displaying|creating) widget|Could not"))
        expect(button(panel, "Approve").or_(lost).first).to_be_visible()
        if lost.count() == 0:
            break
    press(panel, "Approve")
    expect(panel).to_contain_text("two")
    press(panel, "Approve")
    lab.wait_ready()


def test_a_form_and_a_panel_say_after_a_restart_what_to_do(jupyterlab: JupyterLab, live_browser: Browser) -> None:
    server = '%%mcp_server tiny\ndef add(a: int) -> int:\n    """Adds."""\n    return a'
    cells = ["%load_ext mcp_magic\nfrom mcp_magic import host", server, "%mcp form tiny:add", "%mcp ui"]
    write_notebook(jupyterlab.folder / "restarted.ipynb", cells)
    with jupyterlab.open(live_browser, "restarted.ipynb") as lab:
        lab.run_all()
        waits = start(lab, 'await host["tiny"].call_tool("add", {"a": 1}, asker="agent")')
        asked(waits)
        lab.page.evaluate(f"{_KERNEL}.restart()")
        shown = [lab.cells.nth(2), lab.cells.nth(3), waits]
        for cell in shown:
            expect(cell.locator(".jupyter-widgets-disconnected").first).to_be_attached()
            expect(output(cell).locator("button:visible, input:visible")).to_have_count(0)
            said = "e => getComputedStyle(e, '::before').content"
            assert cell.locator(".jupyter-widgets-disconnected").first.evaluate(said) == f'"{RESTARTED}"'
        for theme in themes(lab):
            lab.picture(f"restarted-{theme}")
