"""A page that is loaded again while a form, a question, an explorer and a view are in it; a kernel that restarts."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.support import dash_server
from tests.support.notebooks import write_notebook
from tests.support.pages import SETUP, WAIT_MS, asked, button, expect, field, output, press, start, themes, view_in

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.support.lab import Lab

pytestmark = pytest.mark.slow

CELLS = (
    f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}",
    "form = %mcp form show:defaults text=before\nform",
    "%mcp ui dash",
    "%mcp call dash:sales region=US",
)
ASK = 'for text in ("one", "two"):\n    await host["show"].call_tool("one_text", {"text": text}, asker="agent")'
LOST = re.compile("model not found|Error (displaying|creating) widget|Could not")
RESTARTED = "Kernel restarted: run this cell again"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"


def runs(form: Locator) -> bool:
    """Run the form with another text; return whether its answer came."""
    expect(field(form, "text")).to_have_value("before")
    expect(field(form, "count")).to_have_attribute("aria-invalid", "true")
    field(form, "count").fill("3")
    field(form, "text").fill("after")
    press(form, "Run")
    answer = form.locator(".jp-OutputArea .mcp-magic").last
    try:
        answer.wait_for(timeout=WAIT_MS / 4)
    except PlaywrightTimeoutError:
        return False
    expect(answer).to_contain_text("after")
    return True


def approves(panel: Locator) -> bool:
    """Approve the first of two calls; return whether the second is asked about."""
    if panel.get_by_text("two", exact=True).count() == 0:
        press(panel, "Approve")
    try:
        panel.get_by_text("two", exact=True).first.wait_for(timeout=WAIT_MS / 4)
    except PlaywrightTimeoutError:
        return False
    return True


def reloaded(lab: Lab, form: Locator, panel: Locator) -> None:
    """Load the page again until it has all widgets; run the form, and approve a call.

    JupyterLab's widget manager restores twice at once; where the second is done first, it gives up what the first has
    not got to yet ("model not found"), or clicks do not reach the kernel. A person loads the page once more.
    """
    has_run = False
    for _ in range(5):
        lab.page.reload()
        lab.page.wait_for_selector(".jp-Notebook .jp-Cell")
        lost = lab.page.get_by_text(LOST)
        expect(field(form, "text").or_(lost).first).to_be_visible()
        expect(button(panel, "Approve").or_(lost).first).to_be_visible()
        if lost.count() == 0:
            has_run = has_run or runs(form)
            if has_run and approves(panel):
                return
    raise AssertionError("the widgets are lost five times")


def test_widgets_survive_a_reload_and_report_a_restart(jupyterlab, live_browser):
    write_notebook(jupyterlab.folder / "reloaded.ipynb", (*SETUP, *CELLS))
    with jupyterlab.open(live_browser, "reloaded.ipynb") as lab:
        lab.run_all()
        form, explorer, shown = (output(lab.cells.nth(number)) for number in (4, 5, 6))
        expect(view_in(shown).locator("#title")).to_have_text("Sales of US")
        expect(field(form, "text")).to_have_value("before")
        field(form, "count").fill("many")
        expect(field(form, "count")).to_have_attribute("aria-invalid", "true")
        panel = asked(start(lab, ASK))
        lab.command("docmanager:save")
        reloaded(lab, form, panel)
        expect(view_in(shown).locator("#answer")).to_have_text("US: 42")
        expect(panel).to_contain_text("two")

        lab.page.evaluate(f"{KERNEL}.restart()")
        for closed in (form, explorer, panel):
            gone = closed.locator(".jupyter-widgets-disconnected").first
            expect(gone).to_be_attached()
            expect(closed.locator("button:visible, input:visible")).to_have_count(0)
            assert gone.evaluate("e => getComputedStyle(e, '::before').content") == f'"{RESTARTED}"'
        expect(shown).to_contain_text("the kernel has gone: run the cell again")
        for _ in themes(lab, "restarted", first=0):
            pass
        lab.page.reload()
        lab.wait_ready()
        expect(shown).to_contain_text("result of dash:sales")
        expect(shown.locator(".mcp-app")).to_have_count(0)
        expect(shown.get_by_text("Error displaying widget")).not_to_be_visible()
