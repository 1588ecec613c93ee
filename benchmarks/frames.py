"""100,000 JSON rows to `.df` against pandas alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Result, compared, pairs

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["run"]

GOAL = 1.4
ROWS = 100_000

KINDS = {"id": "integer", "city": "string", "temperature": "number", "rain": "boolean"}
SCHEMA = {
    "type": "object",
    "properties": {
        "result": {
            "type": "array",
            "items": {"type": "object", "properties": {name: {"type": kind} for name, kind in KINDS.items()}},
        }
    },
    "required": ["result"],
}
"""The output schema of a tool that returns such rows, as MCPServer makes it."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure rows that come as text, and as structured content with an output schema."""
    import pandas as pd
    from mcp_types import CallToolResult, TextContent

    rows, count = made(1_000 if quick else ROWS), 3 if quick else 15
    text = json.dumps(rows)
    textual = CallToolResult(content=[TextContent(type="text", text=text)])
    structured = CallToolResult(content=[], structured_content={"result": rows})
    return [
        compared(
            f"{len(rows):,} rows of JSON text to .df",
            pairs(lambda: frame(textual), lambda: pd.DataFrame(json.loads(text)), count),
            goal=GOAL,
            note="against DataFrame(json.loads(text))",
        ),
        compared(
            f"{len(rows):,} structured rows to .df",
            pairs(lambda: frame(structured, SCHEMA), lambda: pd.DataFrame(rows), count),
            goal=GOAL,
            note="against DataFrame(rows); typed by the output schema",
        ),
    ]


def made(count: int) -> list[dict[str, Any]]:
    """Return rows of a weather station."""
    cities = ("Zürich", "Oslo", "London", "New York")
    return [
        {"id": n, "city": cities[n % 4], "temperature": (n % 400) / 10 - 5, "rain": n % 3 == 0} for n in range(count)
    ]


def frame(raw: CallToolResult, schema: dict[str, Any] | None = None) -> Any:
    """Return the DataFrame of a result that nobody has looked at yet."""
    from mcp_magic.results import ToolResult

    return ToolResult(raw, output_schema=schema).df
