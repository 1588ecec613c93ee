"""Makes the pictures of the documentation from a real JupyterLab: `make images`.

`python -m docs.make_images forms explorer` makes only those. Needs Chromium and Playwright (`pip install playwright`).
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lab import JupyterLab, chromium, missing
from tests.support.notebooks import NOTEBOOKS, copy_of, write_notebook
from tests.support.pages import button, expect, field, finished, press, run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from playwright.sync_api import Browser

    from tests.support.lab import Lab

    Picture = Callable[[Lab], int]

IMAGES = Path(__file__).with_name("images")

HIDDEN = ("%load_ext mcp_magic", "from servers.start import start")
"""The beginnings of the quickstart's cells that run first and are in no picture."""

SHOWN = ("%mcp connect $url", "%mcp tools weather", "forecast = %mcp call", "%mcp call weather:plot_forecast")
"""The beginnings of those that are in the picture of the quickstart."""

WIDTH, WIDE, SCALE = 960, 1180, 1.35
"""A window's width in CSS pixels, that of a wide one, and the picture's pixels for each of them."""

CONNECT = """%mcp connect $url --name weather
%mcp connect servers/math_server.py
from mcp_magic import host

weather = host["weather"]"""
"""The cell before the other pictures."""

ASKED = '(await weather.call_tool("{}", {}, asker="analyst")).data'
"""A cell that calls a tool for an agent."""

SERVED = """serving = await host.serve()
print(serving.url, serving.token_file.read_text())"""
"""A cell that serves the kernel, and tells where."""


def cells(beginnings: tuple[str, ...]) -> list[str]:
    """Return the cells of the quickstart that begin so, in its order."""
    found = [source(cell) for cell in json.loads((NOTEBOOKS / "quickstart.ipynb").read_text())["cells"]]
    found = [cell for cell in found if cell.startswith(beginnings)]
    if len(found) != len(beginnings):
        sys.exit(f"the quickstart has changed: {len(found)} of the cells that the picture needs were found")
    return found


def source(cell: dict[str, object]) -> str:
    """Return a cell's text."""
    lines = cell["source"]
    return "".join(lines) if isinstance(lines, list) else str(lines)


# Each returns the first cell of its picture.


def quickstart(lab: Lab) -> int:
    """Connect, look, call."""
    for each in cells(SHOWN):
        run(lab, each)
    return len(HIDDEN)


def quickstart_dark(lab: Lab) -> int:
    """The same in JupyterLab's dark theme."""
    first = quickstart(lab)
    lab.theme("dark")
    return first


def connected(lab: Lab) -> int:
    """Connect two servers, and return the number of the next cell."""
    run(lab, CONNECT)
    return lab.cells.count()


def forms(lab: Lab) -> int:
    """A form that was filled in and run."""
    first = connected(lab)
    form = run(lab, "%mcp form weather:history location=Tokyo start=2026-05-01 end=2026-05-04")
    field(form, "units").select_option("imperial")
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    expect(form.locator(".mcp-magic table").last).to_be_visible()
    return first


def approval(lab: Lab) -> int:
    """A call that was approved, and one that is being changed before it is."""
    first = connected(lab)
    approved = start(lab, ASKED.format("get_weather", '{"location": "Tokyo"}') + '["sky"]')
    press(approved, "Approve")
    finished(approved)
    waiting = start(lab, ASKED.format("forecast", '{"location": "Tokyo", "days": 7}'))
    press(waiting, "Edit")
    field(waiting, "days").fill("3")
    expect(waiting).to_contain_text("changed; was 7")
    return first


def agent(lab: Lab) -> int:
    """A run of an agent that has ended, and one that waits for an approval."""
    first = connected(lab)
    run(lab, "%mcp allow 'math:*'")
    run(lab, "%%mcp_agent --thread sums\nadd 3 and 4, then multiply the result by 5")
    waiting = start(lab, "%%mcp_agent --thread trip\nShow me the forecast for Tokyo for the next 3 days")
    expect(button(waiting, "Approve")).to_be_visible()
    return first + 1


def explorer(lab: Lab) -> int:
    """An explorer with a search, and a tool that was chosen."""
    first = connected(lab)
    shown = run(lab, "%mcp ui")
    shown.locator("input[placeholder^='words of a name']").press_sequentially("weather")
    press(shown, "weather:forecast")
    expect(button(shown, "Open form")).to_be_visible()
    return first


def explorer_dark(lab: Lab) -> int:
    """The same in JupyterLab's dark theme, with a form."""
    first = explorer(lab)
    lab.theme("dark")
    press(lab.page.locator(".mcp-explorer").last, "Open form")
    expect(button(lab.page.locator(".mcp-explorer").last, "Run")).to_be_visible()
    return first


def views(lab: Lab) -> int:
    """The view of a tool, which asks to call another one."""
    run(lab, "from servers.orchard_server import server\n%mcp connect server --name orchard")
    first = lab.cells.count()
    shown = run(lab, "%mcp call orchard:harvest year=2024")
    view = shown.frame_locator(".mcp-app-frame iframe").frame_locator("iframe")
    view.get_by_title("count the trees of pears").click()
    expect(shown.locator(".mcp-app-question")).to_contain_text("app orchard wants to call orchard:count_trees")
    expect(button(shown, "Approve")).to_be_enabled()
    return first


def outside(lab: Lab) -> int:
    """Wait for an answer to an agent outside of the notebook, with a table that would leave it."""
    connected(lab)
    url, token = run(lab, SERVED).inner_text().split()
    first = lab.cells.count()
    run(lab, "june = %mcp call weather:history location=London start=2025-06-01 end=2025-06-30\nlondon = june.df")
    shared = lab.cells.nth(first + 1)
    run(lab, "%mcp share london")
    numbers = {"numbers": {"$value": "london", "columns": ["high"]}}
    threading.Thread(target=lambda: asyncio.run(call_from_outside(url, token, numbers)), daemon=True).start()
    expect(button(shared, "Approve")).to_be_visible()
    return first


async def call_from_outside(url: str, token: str, arguments: dict[str, object]) -> None:
    """Call a tool of the kernel as an agent of another program; nobody reads the answer."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import Implementation

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=600) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, client_info=Implementation(name="claude-code", version="2.0")) as agent:
            with suppress(Exception):  # the kernel ends before anybody answers
                await agent.call_tool("math__statistics", arguments)


PICTURES: dict[str, tuple[Picture, int]] = {
    "quickstart": (quickstart, WIDTH),
    "quickstart-dark": (quickstart_dark, WIDTH),
    "forms": (forms, WIDTH),
    "approval": (approval, 1060),
    "agent": (agent, WIDTH),
    "explorer": (explorer, WIDE),
    "explorer-dark": (explorer_dark, WIDE),
    "views": (views, WIDTH),
    "outside": (outside, WIDTH),
}
"""Name of a picture -> what makes it, and the window's width."""


def make(server: JupyterLab, browser: Browser, name: str) -> Path:
    """Make one picture, in a kernel of its own."""
    picture, width = PICTURES[name]
    with server.open(browser, "picture.ipynb", width=width, scale=SCALE) as lab:
        lab.theme("light")  # JupyterLab remembers the last one
        lab.run_all()
        first = picture(lab)
        lab.page.mouse.move(0, 0)
        lab.page.evaluate("document.activeElement?.blur()")
        file = lab.shoot(name, first=first, path=IMAGES / f"{name}.png")
        lab.command("notebook:interrupt-kernel")
    return file


def main(names: Iterable[str]) -> None:
    """Make the pictures, all without names."""
    wanted = list(names) or list(PICTURES)
    if unknown := set(wanted) - set(PICTURES):
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    if missing():
        sys.exit(missing())
    with tempfile.TemporaryDirectory() as folder:
        notebooks = copy_of(NOTEBOOKS, Path(folder) / "notebooks")
        write_notebook(notebooks / "picture.ipynb", cells(HIDDEN), may_fail=False)
        with JupyterLab(notebooks) as server, chromium() as browser:
            for name in wanted:
                file = make(server, browser, name)
                print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
