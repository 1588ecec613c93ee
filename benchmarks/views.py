"""How soon a view is seen after the answer of its call, in a real JupyterLab; and what it adds to the notebook."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Result, at_most

if TYPE_CHECKING:
    from tests.support.frontends import Frontend
    from tests.support.lab import Lab

__all__ = ["run"]

GOAL = 500
"""Milliseconds from the answer until the view shows it."""

LARGE = 1_000_000
"""Bytes of the HTML of a large view."""

SEEN = """() => {
    const look = () => {
        const time = document.getElementById('server-time');
        if (!/^\\d{4}-/.test(time?.textContent)) setTimeout(look, 2);
        else console.log('seen at', performance.timeOrigin + performance.now());
    };
    if (parent !== top) look();
}"""
"""In the frame of each view: says when it shows the time that the tool answered, in milliseconds since 1970."""

ANSWERED = """
[*_, answer] = [e for e in host.trace.entries("basic") if (e.method, e.kind) == ("tools/call", "answer")]
print("answered:", answer.time)"""

SERVER = f"""
from mcp.server.apps import Apps
from mcp.server.mcpserver import MCPServer
apps = Apps()

@apps.tool(resource_uri="ui://large/view")
def look() -> str:
    return "figures"

apps.add_html_resource("ui://large/view", "<!doctype html><p>" + "x" * {LARGE})
large = MCPServer("large", extensions=[apps])
"""


def run(*, quick: bool = False) -> list[Result]:
    """Measure on one clock, that of this machine: the browser's and the kernel's times are both Unix time.

    The first view of a page loads what shows views; it has a line of its own.
    """
    results = _at_the_kernel(3 if quick else 20)
    if quick:
        return results
    from tests.support.lab import missing

    if reason := missing():
        print(f"views in the browser are left out: {reason}", file=sys.stderr)
        return results
    return [*_in_the_browser(20), *results]


def _at_the_kernel(count: int) -> list[Result]:
    """Measure from a page's hello to the whole view, and how much larger the notebook is for a large view."""
    from tests.support.frontends import Frontend
    from tests.support.kernels import Kernel, environment

    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(Path(folder), environment(Path(folder)))
        try:
            for code in ("%load_ext mcp_magic", SERVER, "%mcp connect large"):
                kernel.ok(code)
            frontend = Frontend(kernel)
            samples = [_greeted(frontend) for _ in range(count)]
        finally:
            kernel.shutdown()
    milliseconds = statistics.median(taken for taken, _ in samples)
    saved = max(size for _, size in samples)
    return [
        Result("view of 1 MB: hello to HTML, kernel", milliseconds, None, None, "", "ms", None, f"{count} views"),
        at_most(
            "view of 1 MB: in the notebook", saved / 1000, 10, "kB", "outputs and state of the widget, without code"
        ),
    ]


def _greeted(frontend: Frontend) -> tuple[float, int]:
    """Show the large view; return the milliseconds until its HTML has come, and what a saved notebook would have."""
    cell = frontend.run("%mcp call large:look")
    [name] = cell.live
    state = {trait: value for trait, value in frontend.models[name].items() if trait not in ("_esm", "_css")}
    started = time.perf_counter()
    frontend.tell(name, kind="hello", view="a")
    frontend.hears(name, "packed")
    taken = time.perf_counter() - started
    return taken * 1000, len(json.dumps([*cell.displays.values(), state]))


def _in_the_browser(count: int) -> list[Result]:
    """Measure the basic example of the specification's repository, from the answer in the trace to what is drawn."""
    from tests.environments import view_command
    from tests.support.lab import JupyterLab, chromium
    from tests.support.notebooks import write_notebook

    connect = f"%mcp connect --name basic -- {' '.join(view_command('basic-vanillajs'))}\nfrom mcp_magic import host"
    with tempfile.TemporaryDirectory() as folder:
        notebooks, home = Path(folder) / "notebooks", Path(folder) / "home"
        notebooks.mkdir()
        write_notebook(notebooks / "views.ipynb", ("%load_ext mcp_magic", connect))
        with (
            JupyterLab(notebooks, home) as server,
            chromium() as browser,
            server.open(browser, "views.ipynb") as lab,
        ):
            lab.page.add_init_script(f"({SEEN})()")
            lab.run_all()
            first, *taken = [_seen(lab) for _ in range(count + 1)]
    note = f"95 % within {statistics.quantiles(taken, n=20, method='inclusive')[-1]:.0f} ms, {count} views"
    return [
        at_most("view: answer to seen, in JupyterLab", statistics.median(taken), GOAL, "ms", note),
        Result("view: the first of a page", first, None, None, "", "ms", None, "loads anywidget's JavaScript"),
    ]


def _seen(lab: Lab) -> float:
    """Return the milliseconds from the answer of a call until its view has drawn it.

    Playwright looks for nothing meanwhile: its searches in the page would take a fifth of the time.
    """
    from tests.support import pages as living

    with lab.page.expect_console_message(lambda message: message.text.startswith("seen at")) as said:
        cell = living.start(lab, "%mcp call basic:get-time")
    living.finished(cell)
    answered = float(living.run(lab, ANSWERED).inner_text().split()[-1])
    return float(said.value.text.split()[-1]) - answered * 1000
