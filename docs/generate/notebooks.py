"""The tutorials: notebooks as pages, with the outputs that are saved in them."""

from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, Any

import nbformat
from nbconvert.filters import ansi2html

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["names", "pages", "with_outputs"]

ORDER = (
    *("quickstart", "data", "forms_and_approval", "agent", "documents"),
    *("write_a_server", "debug_a_server", "reproducible", "contracts", "strangers", "outside", "real_servers"),
)
"""The tutorials to begin with, in the order of the navigation; the others follow by name."""

_PLACE = re.compile(r'<div data-output="(\d+)"></div>')
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")


def _paths(root: Path) -> list[Path]:
    found = (path for path in (root / "notebooks").glob("*.ipynb"))
    return sorted(found, key=lambda path: (*(path.stem != name for name in ORDER), path.stem))


def names(root: Path) -> list[str]:
    """Return the names of the pages on the site."""
    return [f"tutorials/{path.stem}.md" for path in _paths(root)]


def pages(root: Path) -> dict[str, tuple[str, list[str]]]:
    """Return name on the site -> Markdown, and the outputs as HTML, which `with_outputs` puts into it."""
    return {f"tutorials/{path.stem}.md": _page(nbformat.read(path, as_version=4)) for path in _paths(root)}


def _page(notebook: Any) -> tuple[str, list[str]]:
    parts: list[str] = []
    outputs: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code" and cell.source.strip():
            parts.append(_fenced(cell.source))
            for output in cell.outputs:
                parts.append(f'<div data-output="{len(outputs)}"></div>')
                outputs.append(_shown(output))
    return "\n\n".join(parts) + "\n", outputs


def _fenced(source: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}ipython\n{source}\n{fence}"


def with_outputs(page: str, outputs: list[str]) -> str:
    """Return a page's HTML with the outputs in their places; the search does not index them."""
    return _PLACE.sub(lambda found: f'<div class="output" data-search-exclude>{outputs[int(found[1])]}</div>', page)


def _shown(output: Any) -> str:
    """Return one output as HTML, as a notebook shows it where no kernel runs."""
    match output.output_type:
        case "stream":
            return f"<pre>{ansi2html(output.text)}</pre>"
        case "error":
            return f'<pre class="traceback">{ansi2html(chr(10).join(output.traceback))}</pre>'
    data = output.get("data", {})
    for kind in _IMAGES:
        if kind in data:
            return _image(kind, data[kind])
    if "text/html" in data:
        return str(data["text/html"])
    return f"<pre>{html.escape(str(data.get('text/plain', '')))}</pre>"


def _image(kind: str, content: str) -> str:
    """Return an image; SVG as an image too, so that it is never part of the page."""
    encoded = base64.b64encode(content.encode()).decode() if kind.endswith("xml") else content.replace("\n", "")
    return f'<img alt="What the cell shows" src="data:{kind};base64,{encoded}">'
