"""What of a 50 MB result reaches the page, and how long that takes."""

from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Result, at_most, compared, pairs

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["run"]

SIZE = 50_000_000
"""Bytes of each result."""

GOAL_KB = 200
GOAL, GOAL_BLOCKS = 0.05, 1.0
"""Of IPython's own display of the SDK's result. Many blocks are each read, as far as the limits go."""

BLOCK = 1_000_000
"""Bytes of each block where there are many."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure each kind of large result: how long its display takes, and how many bytes it sends."""
    size, count = (5_000_000, 2) if quick else (SIZE, 5)
    results = []
    for name, make in MAKERS.items():
        goal = GOAL_BLOCKS if make is blocks else GOAL
        results += measured(f"display of {size / 1e6:g} MB {name}", make(size), count, goal)
    return [*results, _images(size)]


def _images(size: int) -> Result:
    """Tell what is sent of many images that are small enough to be shown; no goal fits those."""
    from mcp_magic.display import document as limits
    from mcp_magic.results import ToolResult

    result = ToolResult(_content(*[_png(BLOCK)] * (size // BLOCK)))
    note = f"for information: images are shown, up to {limits.display.media / 1e6:g} MB of them"
    sent = _sent(result._repr_mimebundle_())
    return Result(f"display of {size / 1e6:g} MB images of 1 MB: sent", sent, None, None, "", "kB", None, note)


def _sent(shown: Any) -> float:
    """Return the kilobytes that a mimebundle takes on its way to the page."""
    return len(json.dumps(shown, ensure_ascii=False).encode()) / 1000


def measured(name: str, raw: CallToolResult, count: int, goal: float) -> list[Result]:
    """Display a result as IPython does, a fresh value each time."""
    from IPython.core.formatters import DisplayFormatter

    from mcp_magic.results import ToolResult

    formatter: Any = DisplayFormatter()
    taken = pairs(lambda: formatter.format(ToolResult(raw)), lambda: formatter.format(raw), count)
    shown, metadata = formatter.format(ToolResult(raw))
    if not shown.get("text/plain"):
        raise RuntimeError(f"{name}: nothing is shown")
    return [
        at_most(f"{name}: sent", _sent([shown, metadata]), GOAL_KB, "kB"),
        compared(f"{name}: time", taken, goal=goal, note="against the SDK's result in IPython"),
    ]


def text(size: int) -> CallToolResult:
    """Return lines of text, with what HTML must escape."""
    line = "All work & no play makes <Jack> a \u201cdull\u201d boy.\n"
    return _content({"type": "text", "text": line * (size // len(line))})


def json_text(size: int) -> CallToolResult:
    """Return a JSON document in a text block."""
    return _content({"type": "text", "text": json.dumps(_document(size))})


def structured(size: int) -> CallToolResult:
    """Return structured content, with the same as text beside it, as the specification asks for."""
    from mcp_types import CallToolResult, TextContent

    document = {"rows": _document(size)}
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(document))], structured_content=document)


def image(size: int) -> CallToolResult:
    """Return something as large as an image can be."""
    return _content(_png(size))


def _png(size: int) -> dict[str, Any]:
    data = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(size)
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


def blocks(size: int) -> CallToolResult:
    """Return many texts, each of them JSON that takes long to read."""
    text = json.dumps([[]] * (BLOCK // len("[], ")))
    return _content(*[{"type": "text", "text": text}] * (size // len(text)))


def svg(size: int) -> CallToolResult:
    """Return an image that is text."""
    resource = {"uri": "plot://1", "mimeType": "image/svg+xml", "text": "<svg>" + "<g/>" * (size // 4) + "</svg>"}
    return _content({"type": "resource", "resource": resource})


MAKERS = {
    "text": text,
    "JSON text": json_text,
    "structured": structured,
    "JSON blocks": blocks,
    "image": image,
    "SVG": svg,
}


def _document(size: int) -> list[dict[str, Any]]:
    each = {"name": "x" * 200, "tags": ["<a>", "b"], "inner": {"value": 1.5, "none": None}}
    return [{"id": number, **each} for number in range(size // len(json.dumps(each)))]


def _content(*blocks: dict[str, Any]) -> CallToolResult:
    from mcp_types import CallToolResult

    return CallToolResult.model_validate({"content": list(blocks)})
