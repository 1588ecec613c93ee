"""Makes the pictures of the documentation from a real JupyterLab: `python -m docs.make_images` in the main folder.

Needs Chromium and Playwright (`pip install playwright`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.browser.lab import JupyterLab, chromium, missing
from tests.browser.notebooks import NOTEBOOKS, copy_of, write_notebook

IMAGES = Path(__file__).with_name("images")

HIDDEN = ("%load_ext mcp_magic", "from servers.start import start")
"""The beginnings of the quickstart's cells that run first and are not in the picture."""

SHOWN = ("%mcp connect $url", "%mcp tools weather", "forecast = %mcp call", "%mcp call weather:plot_forecast")
"""The beginnings of those that are."""

WIDTH, SCALE = 960, 1.35
"""The window's width in CSS pixels, and the picture's pixels for each of them."""


def sources() -> list[str]:
    """Return the cells of the quickstart that the picture needs, in its order."""
    cells = [source(cell) for cell in json.loads((NOTEBOOKS / "quickstart.ipynb").read_text())["cells"]]
    found = [cell for cell in cells if cell.startswith(HIDDEN + SHOWN)]
    if len(found) != len(HIDDEN + SHOWN):
        sys.exit(f"the quickstart has changed: {len(found)} of the cells that the picture shows were found")
    return found


def source(cell: dict[str, object]) -> str:
    """Return a cell's text."""
    lines = cell["source"]
    return "".join(lines) if isinstance(lines, list) else str(lines)


def main() -> None:
    """Make docs/images/quickstart.png."""
    if missing():
        sys.exit(missing())
    with tempfile.TemporaryDirectory() as folder:
        notebooks = copy_of(NOTEBOOKS, Path(folder) / "notebooks")
        write_notebook(notebooks / "picture.ipynb", sources(), may_fail=False)
        with (
            JupyterLab(notebooks) as server,
            chromium() as browser,
            server.open(browser, "picture.ipynb", width=WIDTH, scale=SCALE) as lab,
        ):
            lab.run_all()
            file = lab.shoot("quickstart", first=len(HIDDEN), path=IMAGES / "quickstart.png")
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
