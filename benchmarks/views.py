"""How soon a view is seen after the answer of its call, in a real JupyterLab; and what it adds to the notebook."""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.kernels import frontend, in_the_browser, lab
from benchmarks.timing import Pairs, Result, at_most, compared

if TYPE_CHECKING:
    from tests.support.frontends import Frontend
    from tests.support.lab import Lab

__all__ = ["run"]

GOAL, GOAL_KB = 4.5, 10

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

OURS = "%mcp call basic:get-time"

ANSWERED = """
[*_, answer] = [e for e in host.trace.entries("basic") if (e.method, e.kind) == ("tools/call", "answer")]
print("answered:", answer.time)"""

BARE_SETUP = """
import html, time
from IPython.display import HTML
script = "console.log('seen at', performance.timeOrigin + performance.now())"
page = html.escape(f"<!doctype html><p>2026-01-01</p><script>{script}</script>")
"""

BARE = """shown = time.time()
HTML(f'<iframe sandbox="allow-scripts" srcdoc="{page}"></iframe>')"""

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
    name = "view: answer to seen, in JupyterLab"
    return [*in_the_browser(name, lambda: _in_the_browser(name, 15)), *results]


def _at_the_kernel(count: int) -> list[Result]:
    """Measure from a page's hello to the whole view, and how much larger the notebook is for a large view."""
    with frontend("%load_ext mcp_magic", SERVER, "%mcp connect large") as shown:
        samples = [_greeted(shown) for _ in range(count)]
    milliseconds = statistics.median(taken for taken, _ in samples)
    saved = max(size for _, size in samples)
    return [
        Result("view of 1 MB: hello to HTML, kernel", milliseconds, None, None, "", "ms", None, f"{count} views"),
        at_most(
            "view of 1 MB: in the notebook",
            saved / 1000,
            GOAL_KB,
            "kB",
            "outputs and state of the widget, without code",
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


def _in_the_browser(name: str, count: int) -> list[Result]:
    """Measure the basic example of the specification's repository, from the answer in the trace to what is drawn.

    A bare frame that IPython shows, whose script says when it runs, takes turns with it.
    """
    from tests.environments import view_command

    command = " ".join(view_command("basic-vanillajs"))
    connect = f"%mcp connect --name basic -- {command}\nfrom mcp_magic import host\n{BARE_SETUP}"
    with lab("%load_ext mcp_magic", connect) as page:
        page.page.add_init_script(f"({SEEN})()")
        first = _seen(page, OURS, ANSWERED)
        taken = Pairs()
        for _ in range(count + 1):
            taken.theirs.append(_seen(page, BARE, "print(shown)"))
            taken.ours.append(_seen(page, OURS, ANSWERED))
    taken = Pairs(taken.ours[1:], taken.theirs[1:])
    late = statistics.quantiles(taken.ours, n=20, method="inclusive")[-1] * 1e3
    note = f"against a bare frame of HTML; 95 % within {late:.0f} ms, {count} views"
    return [
        compared(name, taken, goal=GOAL, note=note),
        Result("view: the first of a page", first * 1e3, None, None, "", "ms", None, "loads anywidget's JavaScript"),
    ]


def _seen(page: Lab, cell: str, when: str) -> float:
    """Return the seconds from the answer of a cell, which another prints, until a frame has drawn it.

    Playwright looks for nothing meanwhile: its searches in the page would take a fifth of the time.
    """
    from tests.support import pages

    with page.page.expect_console_message(lambda message: message.text.startswith("seen at")) as said:
        ran = pages.start(page, cell)
    pages.finished(ran)
    answered = float(pages.run(page, when).inner_text().split()[-1])
    return float(said.value.text.split()[-1]) / 1000 - answered
