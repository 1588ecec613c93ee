"""What of a 50 MB result reaches the page, and how long that takes."""

from __future__ import annotations

import base64
import json
import random
import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Result, at_most, seconds_of

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["run"]

SIZE = 50_000_000
"""Bytes of each result."""

GOAL_KB = 200
GOAL_SECONDS = 0.3


def run(*, quick: bool = False) -> list[Result]:
    """Measure text, JSON as text, structured content, and an image."""
    size, count = (500_000, 3) if quick else (SIZE, 30)
    results = []
    for name, make in MAKERS.items():
        results += measured(f"display {size / 1e6:g} MB {name}", make(size), count)
    return results


def measured(name: str, raw: CallToolResult, count: int) -> list[Result]:
    """Display a result as IPython does, a fresh value each time."""
    from IPython.core.formatters import DisplayFormatter

    from mcp_magic.results import ToolResult

    formatter = DisplayFormatter()
    seconds = [seconds_of(lambda: formatter.format(ToolResult(raw))) for _ in range(count)]
    shown, metadata = formatter.format(ToolResult(raw))
    if not shown.get("text/plain"):
        raise RuntimeError(f"{name}: nothing is shown")
    sent = len(json.dumps([shown, metadata], ensure_ascii=False).encode())
    return [
        at_most(f"{name}: sent", sent / 1000, GOAL_KB, "kB"),
        at_most(f"{name}: time", statistics.median(seconds), GOAL_SECONDS, "s"),
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
    png = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(size)
    return _content({"type": "image", "data": base64.b64encode(png).decode(), "mimeType": "image/png"})


MAKERS = {"text": text, "JSON text": json_text, "structured": structured, "image": image}


def _document(size: int) -> list[dict[str, Any]]:
    each = {"name": "x" * 200, "tags": ["<a>", "b"], "inner": {"value": 1.5, "none": None}}
    return [{"id": number, **each} for number in range(size // len(json.dumps(each)))]


def _content(*blocks: dict[str, Any]) -> CallToolResult:
    from mcp_types import CallToolResult

    return CallToolResult.model_validate({"content": list(blocks)})
