"""Results that are too large for a model: it reads their shape and head, and the rest by a handle.

The whole result is in the artifact of its message, so a handle is valid as long as its thread, also after a restart of
the kernel and in a fork.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import join_names, plural
from mcp_magic.display.tables import describe
from mcp_magic.errors import ArgumentsError
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.results.content import to_media
from mcp_magic.results.results import ResourceResult, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage, ToolMessage

    from mcp_magic.values.reading import Reader
    from mcp_magic.values.rows import Table

HEAD_ROWS, HEAD_CHARACTERS = 5, 1000
"""Most rows and characters of a result that a model reads without asking for more."""

MAX_NAMES = 30  # most columns or tables that a text names

READ_RESULT: Mapping[str, Any] = {
    "name": "read_result",
    "description": "Reads on in a large result by its handle. Rows of a text are its lines.",
    "parameters": {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "such as result_3, or result_3.TABLE"},
            "rows": {"type": "string", "description": "START:STOP from 0, such as 20:40"},
            "columns": {"type": "array", "items": {"type": "string"}},
            "search": {"type": "string", "description": "only rows with this text"},
        },
        "required": ["handle"],
    },
}
"""The tool that reads on, as an OpenAI function."""


class Spill(NamedTuple):
    """When a result is too large, and the handle that it then gets."""

    handle: str
    characters: int

    @classmethod
    def above(cls, tokens: int, handle: str) -> Spill:
        """Return it for a number of tokens."""
        return cls(handle, tokens * CHARACTERS_A_TOKEN)


def outline(result: ToolResult | ResourceResult, handle: str, reader: str = "read_result") -> str:
    """Return what the model reads of a large result: its shape, its handle and its head.

    Args:
        result: The result, with an output schema if that is kept for `reader`: the names of tables depend on it.
        handle: Its name.
        reader: The name of the tool that reads on.
    """
    parts = _parts(result)
    tokens = sum(map(len, texts_of(result))) // CHARACTERS_A_TOKEN
    if len(parts) == 1:
        [part] = parts.values()
        head = _reader(HEAD_CHARACTERS).head(part.table, HEAD_ROWS)
        shape, begins = part.shape, f"It begins with:\n{head}"
    else:
        lines = [f"{handle}.{name}: {part.shape}" for name, part in parts.items()]
        shape, begins = f"{len(parts)} tables", "\n".join(lines[:MAX_NAMES])
    note = f"[{handle}: {shape}. About {tokens:,} tokens: too long to be shown whole, {reader} reads on.]"
    return f"{note}\n{begins}"


def text_of(block: Any) -> str | None:
    """Return the text that a model reads of a content block; None if it is no text."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and to_media(block) is None:
        return str(block.resource.text)
    return None


def texts_of(result: ToolResult | ResourceResult) -> list[str]:
    """Return the texts that a model reads of a result: those of its blocks, else its structured content as JSON."""
    if isinstance(result, ResourceResult):
        return result.texts
    if result.raw.structured_content is not None and not result.texts:
        return [json.dumps(result.data, ensure_ascii=False)]
    return [text for text in map(text_of, result.raw.content) if text is not None]


def spilled(messages: Iterable[BaseMessage]) -> dict[str, ToolMessage]:
    """Return the messages with large results of a thread, by handle."""
    large: dict[str, Any] = {}
    for message in messages:
        artifact = getattr(message, "artifact", None) if message.type == "tool" else None
        if isinstance(artifact, dict) and isinstance(artifact.get("handle"), str):
            large[artifact["handle"]] = message
    return large


def read_result(
    result: ToolResult, table: str = "", rows: str = "", columns: Sequence[str] = (), search: str = "", *, limit: int
) -> str:
    """Return rows of a result as CSV, or lines of its text; about `limit` characters at most.

    Raises:
        ArgumentsError: There is no such table or column, or `rows` is no range. The message has the valid ones.
    """
    parts = _parts(result)
    if len(parts) == 1:
        [part] = parts.values()
    elif table in parts:
        part = parts[table]
    else:
        raise ArgumentsError(
            f"it has several tables; add one to the handle, as HANDLE.TABLE: {join_names(parts, MAX_NAMES)}"
        )
    return _reader(limit).read_table(part.table, rows=rows, columns=() if part.label else columns, search=search)


def _reader(limit: int) -> Reader:
    from mcp_magic.values.reading import Reader

    return Reader(limit, hide=None, cell=None, columns=sys.maxsize)


class _Part(NamedTuple):
    """A table of a result, or the lines of its text."""

    table: Table
    label: str = ""  # of a text

    @property
    def shape(self) -> str:
        if self.label:
            return f"{self.label}, {plural(len(self.table), 'lines')}"
        names = self.table.columns
        return f"table of {len(self.table):,} rows x {self.table.width:,} columns ({join_names(names, MAX_NAMES)})"


def _parts(result: ToolResult | ResourceResult) -> dict[str, _Part]:
    """Return the tables of a result by name, or its text as lines."""
    from mcp_magic.values.reading import result_parts
    from mcp_magic.values.texts import Lines

    tables = result_parts(result)
    if tables:
        return {name: _Part(table) for name, table in tables.items()}
    if result.data is not None and not isinstance(result.data, str):
        text, kind = json.dumps(result.data, ensure_ascii=False, indent=1), f"{describe(result.data)} as JSON"
    else:
        text = "\n".join(texts_of(result))
        kind = f"text of {len(text):,} characters"
    return {"text": _Part(Lines(text), kind)}
