"""How soon a tool starts after somebody has clicked on Approve, in a real JupyterLab and at the kernel alone."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.kernels import frontend, lab
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
started = []

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
bare.on_click(lambda button: started.append(time.time()))
bare"""

SIDES = ((BARE, "Bare"), (CALL, "Approve"))

STARTED = "print('times:', *started)"

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
        clicks = [_sent(shown, *side) for _ in range(count + 1) for side in SIDES]
        results = [_result("approval: message to tool", clicks, shown.kernel.ok(STARTED).stdout)]
    if quick:
        return results  # the tests click in the browser anyway
    from tests.support.lab import missing

    if reason := missing():
        print(f"approval in the browser is left out: {reason}", file=sys.stderr)
        return results
    from tests.support import pages

    with lab(*SETUP) as page:
        page.page.evaluate(LISTEN)
        clicks = [_clicked(page, *side) for _ in range(count + 1) for side in SIDES]
        lines = page.page.locator(".jp-Cell-outputArea", has_text="times:")
        pages.run(page, STARTED)
        return [_result("approval: click to tool, in JupyterLab", clicks, lines.inner_text(), GOAL), *results]


def _result(name: str, clicks: list[float], printed: str, goal: float | None = None) -> Result:
    """Compare the times from each click to the handler or tool; they are in turns."""
    taken = [float(after) - before for before, after in zip(clicks, printed.split()[1:], strict=True)][2:]
    both = Pairs(ours=taken[1::2], theirs=taken[::2])
    late = statistics.quantiles(both.ours, n=20, method="inclusive")[-1] * 1000
    note = f"against a bare button; 95 % within {late:.1f} ms, {len(both.ours)} clicks"
    return compared(name, both, goal=goal, note=note)


def _sent(shown: Frontend, code: str, button: str) -> float:
    """Run a cell, click on its button and return when the click was sent."""
    cell = shown.start(code)
    shown.read_until(lambda: bool(cell.live) and bool(shown._named(button, cell)), what=f"the button {button}")
    clicked = time.time()
    shown.click(button, cell=cell)
    shown.finish(cell)
    return clicked


def _clicked(page: Lab, code: str, button: str) -> float:
    """Run a cell, click on its button and return when the browser was clicked on."""
    from tests.support import pages

    cell = pages.start(page, code)
    pages.press(pages.output(cell), button)
    pages.finished(cell)
    [milliseconds] = page.page.evaluate("window.clicks.splice(0)")
    return float(milliseconds) / 1000
