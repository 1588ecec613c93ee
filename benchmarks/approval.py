"""How soon a tool starts after somebody has clicked on Approve, in a real JupyterLab and at the kernel alone."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Result, at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.frontends import Frontend
    from tests.support.lab import Lab

__all__ = ["run"]

GOAL_BROWSER = 50
"""Milliseconds from the click to the first line of the tool."""

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

CALL = 'r = await host["clock"].call_tool("tick", {{"number": {number}}}, asker="agent")\nr.text'

LISTEN = """() => {
    window.clicks = [];
    document.addEventListener('click', event => window.clicks.push(performance.timeOrigin + event.timeStamp), true);
}"""
"""Notes the time of each click, which is when the button of the mouse came up, in milliseconds since 1970."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure on one clock, that of this machine: the browser's and the kernel's times are both Unix time.

    The first sample is left out: it makes what is made once (JupyterLab's subshell, imports).
    """
    count = 3 if quick else 40
    results = [_result("approval: message to tool", _at_the_kernel(count))]
    if quick:
        return results  # the tests click in the browser anyway
    from tests.support.lab import missing

    if reason := missing():
        print(f"approval in the browser is left out: {reason}", file=sys.stderr)
        return results
    return [_result("approval: click to tool, in JupyterLab", _in_the_browser(count), GOAL_BROWSER), *results]


def _result(name: str, taken: Sequence[float], goal: float | None = None) -> Result:
    middle, late = statistics.median(taken), statistics.quantiles(taken, n=20, method="inclusive")[-1]
    note = f"95 % within {late:.1f} ms, {len(taken)} clicks"
    if goal is None:
        return Result(name, middle, None, None, "", "ms", None, note)
    return at_most(name, middle, goal, "ms", note)


def _at_the_kernel(count: int) -> list[float]:
    """Return the milliseconds from sending a click to the tool."""
    from tests.support.frontends import Frontend
    from tests.support.kernels import Kernel, environment

    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(Path(folder), environment(Path(folder)))
        try:
            for code in SETUP:
                kernel.ok(code)
            frontend = Frontend(kernel)
            clicks = [_sent(frontend, number) for number in range(count + 1)]
            started = [float(each) for each in kernel.ok("print(*started)").stdout.split()]
        finally:
            kernel.shutdown()
    return _between(clicks, started)


def _sent(frontend: Frontend, number: int) -> float:
    """Approve a call and return when the click was sent."""
    cell = frontend.start(CALL.format(number=number))
    frontend.panel(cell)
    clicked = time.time()
    frontend.click("Approve")
    frontend.finish(cell)
    return clicked


def _in_the_browser(count: int) -> list[float]:
    """Return the milliseconds from a click of the mouse to the tool."""
    from tests.support import pages as living
    from tests.support.lab import JupyterLab, chromium
    from tests.support.notebooks import write_notebook

    with tempfile.TemporaryDirectory() as folder:
        notebooks, home = Path(folder) / "notebooks", Path(folder) / "home"
        notebooks.mkdir()
        write_notebook(notebooks / "approval.ipynb", SETUP)
        with (
            JupyterLab(notebooks, home) as server,
            chromium() as browser,
            server.open(browser, "approval.ipynb") as lab,
        ):
            lab.run_all()
            lab.page.evaluate(LISTEN)
            clicks = [_clicked(lab, number) for number in range(count + 1)]
            lines = lab.page.locator(".jp-Cell-outputArea", has_text="times:")
            living.run(lab, "print('times:', *started)")
            started = [float(each) for each in lines.inner_text().split()[1:]]
    return _between(clicks, started)


def _clicked(lab: Lab, number: int) -> float:
    """Approve a call and return when the browser was clicked on."""
    from tests.support import pages as living

    cell = living.start(lab, CALL.format(number=number))
    living.press(living.output(cell), "Approve")
    living.expect(living.finished(cell)).to_contain_text(f"'tick {number}'")
    [milliseconds] = lab.page.evaluate("window.clicks.splice(0)")
    return float(milliseconds) / 1000


def _between(clicks: Sequence[float], started: Sequence[float]) -> list[float]:
    return [(after - before) * 1000 for before, after in zip(clicks, started, strict=True)][1:]
