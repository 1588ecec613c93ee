"""Cells that run while a person clicks and types, in a notebook that a JupyterLab shows."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import FrameLocator, Locator, LocatorAssertions, Page

    from tests.support.lab import Lab

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

# The colours of the texts in some elements, and of what is behind each, drawn one over the other.
_CONTRASTS = """(inside) => {
    const channels = colour => {
        const numbers = colour.match(/[\\d.]+/g).map(Number);
        return numbers.length < 4 ? [...numbers, 1] : numbers;
    };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
    const behind = element => {
        if (!element) return [255, 255, 255];
        const own = channels(getComputedStyle(element).backgroundColor);
        return own[3] === 1 ? own : over(own, behind(element.parentElement));
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const found = [];
    for (const element of document.querySelectorAll(inside.map(each => `${each}, ${each} *`).join())) {
        const own = [...element.childNodes].filter(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
        if (!own.length || element.localName === 'style') continue;
        const ground = behind(element);
        const text = over(channels(getComputedStyle(element).color), ground);
        const [light, dark] = [luminance(text), luminance(ground)].sort((a, b) => b - a);
        found.push([(light + .05) / (dark + .05), element.className, own[0].data.slice(0, 40)]);
    }
    return found;
}"""

CONTRAST = 4.5
"""WCAG 2, level AA."""

WAIT_MS = 60_000
"""What a busy machine may take for what takes a moment."""


def themes(lab: Lab, picture: str = "", first: int | None = None) -> Iterator[str]:
    """Change to the dark theme and then to the light one, in which JupyterLab is left.

    Args:
        lab: Whose page it is.
        picture: The name of the pictures that are taken in both, where one wants some; none without.
        first: The first cell in them; the last without.
    """
    for theme in ("dark", "light"):
        lab.theme(theme)
        if picture:
            lab.picture(f"{picture}-{theme}", first=lab.cells.count() - 1 if first is None else first)
        yield theme


def readable(lab: Lab, *inside: str, picture: str = "", first: int | None = None) -> list[str]:
    """Assert in both themes what `assert_readable` asserts; return the classes of each text."""
    names: list[str] = []
    for _ in themes(lab, picture, first):
        names = assert_readable(lab.page, *inside)
    return names


@contextmanager
def window_of(lab: Lab, width: int) -> Iterator[None]:
    """Make the window as wide in a block."""
    size = lab.page.viewport_size or {"width": 1200, "height": 900}
    try:
        lab.page.set_viewport_size({"width": width, "height": 900})
        lab.page.wait_for_function(f"innerWidth === {width}")
        yield
    finally:
        lab.page.set_viewport_size(size)


def view_in(shown: Locator) -> FrameLocator:
    """Return the document of the view in an output."""
    return shown.frame_locator(".mcp-app-frame iframe").frame_locator("iframe")


def expect(what: Locator) -> LocatorAssertions:
    """Return Playwright's assertions, which wait; imported only now, because it need not be installed."""
    from playwright.sync_api import expect

    expect.set_options(timeout=WAIT_MS)
    return expect(what)


def start(lab: Lab, source: str) -> Locator:
    """Add a cell at the end, run it, and return it while it runs."""
    at = lab.page.evaluate(_START, source)
    return lab.cells.nth(at)


def prompt(cell: Locator) -> Locator:
    """Return what stands before a cell: its number, or a star while it runs."""
    return cell.locator(".jp-InputPrompt")


def running(cell: Locator) -> Locator:
    """Wait until a cell is said to run, and return it."""
    expect(prompt(cell)).to_have_text("[*]:")
    return cell


def finished(cell: Locator) -> Locator:
    """Wait until a cell has ended, and return its outputs."""
    expect(prompt(cell)).to_have_text(re.compile(r"\[\d+\]:"))
    return output(cell)


def asked(cell: Locator) -> Locator:
    """Wait until a running cell asks for approval, and return its panel."""
    expect(button(cell, "Approve")).to_be_visible()
    return output(running(cell))


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
    """Click on a button once it is the only one of its name: rows of a list that is searched change one by one."""
    from playwright.sync_api import Error

    only, until = button(scope, name), time.monotonic() + WAIT_MS / 1000
    while True:
        expect(only).to_have_count(1)
        try:
            return only.click()
        except Error as error:  # another row has got the name meanwhile
            if "strict mode violation" not in error.message or time.monotonic() > until:
                raise


def errors(lab: Lab, cell: Locator) -> list[str]:
    """Return the errors that a cell ended with."""
    lab.wait_outputs()
    outputs = lab.outputs()[cell.evaluate("c => [...c.parentElement.children].indexOf(c)")]
    return [f"{each['ename']}: {each['evalue']}" for each in outputs if each["output_type"] == "error"]


def saved(lab: Lab) -> dict[str, Any]:
    """Save the notebook, with all that its ended cells show, and return it as it is in its file."""
    lab.wait_outputs()
    lab.command("docmanager:save")
    found: dict[str, Any] = lab.page.evaluate(f"{_NOTEBOOK}.context.model.toJSON()")
    return found


def assert_readable(page: Page, *inside: str) -> list[str]:
    """Assert that every text in these elements (ours without) stands out, and return the classes of each text.

    Where a theme was changed just now, the colours may still be on their way.
    """
    until = time.monotonic() + WAIT_MS / 1000
    while True:
        found = page.evaluate(_CONTRASTS, inside or (".mcp-magic",))
        weak = [text for text in found if text[0] < CONTRAST]
        if not weak or time.monotonic() > until:
            break
        time.sleep(0.1)
    assert not weak, weak
    return [classes for _, classes, _ in found]
