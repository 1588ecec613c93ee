"""How soon a tool starts after somebody has clicked on Approve, in a real JupyterLab and at the kernel alone."""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.kernels import frontend, in_the_browser, lab
from benchmarks.timing import Pairs, Result, compared

if TYPE_CHECKING:
    from tests.support.frontends import Frontend
    from tests.support.lab import Lab

__all__ = ["CALL", "SETUP", "run"]

GOAL = 4.0

SERVER = """
import time
from mcp.server.mcpserver import MCPServer

clock = MCPServer("clock", log_level="ERROR")
started, noted = [], []

@clock.tool()
def tick(number: int) -> str:
    "Notes when it starts."
    started.append(time.time())
    return f"tick {number}"
"""

SETUP = ("%load_ext mcp_magic", SERVER, "%mcp connect clock\nfrom mcp_magic import host")

CALL = 'r = await host["clock"].call_tool("tick", {"number": 1}, asker="agent")\nr.text'

BARE = """
import ipywidgets
bare = ipywidgets.Button(description="Bare")
def note(button):
    noted.append(time.time())
    button.description = "Noted"
bare.on_click(note)
bare"""

TIMES = "print('times:', [started, noted])"

LISTEN = """() => {
    window.clicks = [];
    document.addEventListener('click', event => window.clicks.push(performance.timeOrigin + event.timeStamp), true);
}"""
"""Notes the time of each click, which is when the button of the mouse came up, in milliseconds since 1970."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure on one clock, that of this machine: the browser's and the kernel's times are both Unix time.

    A bare button of ipywidgets, whose handler notes the time, takes turns with the panel. The first sample of each is
    left out: it makes what is made once (JupyterLab's subshell, imports).
    """
    count = 3 if quick else 25
    with frontend(*SETUP) as shown:
        clicks = Pairs()
        for _ in range(count + 1):
            clicks.theirs.append(_sent(shown, BARE, "Bare", "Noted"))
            clicks.ours.append(_sent(shown, CALL, "Approve"))
        results = [_result("approval: message to tool", clicks, shown.kernel.ok(TIMES).stdout)]
    if quick:
        return results  # the tests click in the browser anyway
    name = "approval: click to tool, in JupyterLab"
    return [*in_the_browser(name, lambda: [_in_the_browser(name, count)]), *results]


def _in_the_browser(name: str, count: int) -> Result:
    from tests.support import pages

    with lab(*SETUP) as page:
        page.page.evaluate(LISTEN)
        clicks = Pairs()
        for _ in range(count + 1):
            clicks.theirs.append(_clicked(page, BARE, "Bare", "Noted"))
            clicks.ours.append(_clicked(page, CALL, "Approve"))
        lines = page.page.locator(".jp-Cell-outputArea", has_text="times:")
        pages.run(page, TIMES)
        return _result(name, clicks, lines.inner_text(), GOAL)


def _result(name: str, clicks: Pairs, printed: str, goal: float | None = None) -> Result:
    """Compare the seconds from each click to the handler or tool."""
    started, noted = json.loads(printed.partition("times:")[2])
    both = Pairs(_between(clicks.ours, started), _between(clicks.theirs, noted))
    late = statistics.quantiles(both.ours, n=20, method="inclusive")[-1] * 1000
    note = f"against a bare button; 95 % within {late:.1f} ms, {len(both.ours)} clicks"
    return compared(name, both, goal=goal, note=note)


def _between(clicks: list[float], after: list[float]) -> list[float]:
    return [end - start for start, end in zip(clicks, after, strict=True)][1:]


def _sent(shown: Frontend, code: str, button: str, then: str = "") -> float:
    """Run a cell, click on its button, wait for what it is called `then`; return when the click was sent."""
    cell = shown.start(code)
    [model] = shown.has(button, cell)
    clicked = time.time()
    shown.press(model)
    if then:
        shown.has(then, cell)
    shown.finish(cell)
    return clicked


def _clicked(page: Lab, code: str, button: str, then: str = "") -> float:
    """Run a cell, click on its button, wait for what it is called `then`; return when the browser was clicked on."""
    from tests.support import pages

    cell = pages.start(page, code)
    pages.press(pages.output(cell), button)
    if then:
        pages.expect(pages.button(pages.output(cell), then)).to_be_visible()
    pages.finished(cell)
    [milliseconds] = page.page.evaluate("window.clicks.splice(0)")
    return float(milliseconds) / 1000
