"""Cells that run while a person clicks and types, in a notebook that a JupyterLab shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, LocatorAssertions

    from tests.browser.lab import Lab

__all__ = [
    "SETUP",
    "WAIT_MS",
    "button",
    "errors",
    "expect",
    "field",
    "finished",
    "output",
    "press",
    "run",
    "saved",
    "start",
]

SETUP = ("%load_ext mcp_magic", "%mcp connect servers/showcase_server.py --name show", "from mcp_magic import host")
"""The first cells of a notebook that has the showcase server."""

_NOTEBOOK = "window.jupyterapp.shell.currentWidget"

# The command is not waited for: what is to be tested goes on while the cell runs.
_START = f"""(source) => {{
    const notebook = {_NOTEBOOK}.content;
    const at = notebook.model.sharedModel.cells.length;
    notebook.model.sharedModel.insertCell(at, {{cell_type: 'code', source, metadata: {{tags: ['raises-exception']}}}});
    notebook.deselectAll();
    notebook.activeCellIndex = at;
    window.jupyterapp.commands.execute('notebook:run-cell');
    return at;
}}"""

WAIT_MS = 30_000
"""What a busy machine may take for what takes a moment."""


def expect(what: Locator) -> LocatorAssertions:
    """Return Playwright's assertions, which wait; imported only now, because it need not be installed."""
    from playwright.sync_api import expect

    expect.set_options(timeout=WAIT_MS)
    return expect(what)


def start(lab: Lab, source: str) -> Locator:
    """Add a cell at the end, run it, and return it while it runs."""
    at = lab.page.evaluate(_START, source)
    return lab.cells.nth(at)


def finished(cell: Locator) -> Locator:
    """Wait until a cell has ended, and return its outputs."""
    expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"))
    return output(cell)


def run(lab: Lab, source: str) -> Locator:
    """Add a cell at the end, run it to its end, and return its outputs."""
    return finished(start(lab, source))


def output(cell: Locator) -> Locator:
    """Return what a cell shows."""
    return cell.locator(".jp-Cell-outputArea")


def field(scope: Locator, label: str, number: int = 0) -> Locator:
    """Return the input below a label: a person finds it by its words."""
    entry = f'xpath=.//b[normalize-space()="{label}"]/ancestor::*[contains(@class, "widget-vbox")][1]'
    return scope.locator(entry).nth(number).locator("input:not([type=checkbox]), select, textarea").first


def button(scope: Locator, name: str) -> Locator:
    """Return a button by its words; to a browser the sign before them is a letter of its name."""
    return scope.locator("button").filter(has_text=re.compile(f"^{re.escape(name)}$"))


def press(scope: Locator, name: str) -> None:
    """Click on a button, once there is one: rows of a list that is searched change one after the other."""
    expect(button(scope, name)).to_have_count(1)
    button(scope, name).click()


def errors(lab: Lab, cell: Locator) -> list[str]:
    """Return the errors that a cell ended with."""
    outputs = lab.outputs()[cell.evaluate("c => [...c.parentElement.children].indexOf(c)")]
    return [f"{each['ename']}: {each['evalue']}" for each in outputs if each["output_type"] == "error"]


def saved(lab: Lab) -> dict[str, Any]:
    """Save the notebook, with all that its ended cells show, and return it as it is in its file."""
    lab.wait_outputs()
    lab.command("docmanager:save")
    found: dict[str, Any] = lab.page.evaluate(f"{_NOTEBOOK}.context.model.toJSON()")
    return found
