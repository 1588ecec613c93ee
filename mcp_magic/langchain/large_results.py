"""Results that are too large for a model: it reads their shape and head, and the rest by a handle.

The whole result is in the artifact of its message, so a handle is valid as long as its thread, also after a restart of
the kernel and in a fork.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.display.tables import describe
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.results.content import to_media

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage, ToolMessage

    from mcp_magic.results.results import ToolResult

HEAD_ROWS, HEAD_CHARACTERS = 5, 1000
"""Most rows and characters of a result that a model reads without asking for more."""

LINE = 500  # characters after which a line of text is broken, so that a text without line ends can be read in parts

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


def outline(result: ToolResult, handle: str, reader: str = "read_result") -> str:
    """Return what the model reads of a large result: its shape, its handle and its head; `reader` names the tool."""
    parts = _parts(result)
    tokens = sum(map(len, texts_of(result))) // CHARACTERS_A_TOKEN
    if len(parts) == 1:
        [part] = parts.values()
        head, _ = part.rows_as_text(range(min(HEAD_ROWS, len(part.rows))), HEAD_CHARACTERS)
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


def texts_of(result: ToolResult) -> list[str]:
    """Return the texts that a model reads of a result: those of its blocks, else its structured content as JSON."""
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
    return part.select(columns).read(_range(rows, len(part.rows)), search, limit)


_RANGE = re.compile(r"\s*(-?\d+)?\s*(:?)\s*(-?\d+)?\s*")


def _range(text: str, length: int) -> range:
    """Read `START:STOP`, where each may be left out, or one number."""
    match = _RANGE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        raise ArgumentsError(f"rows is START:STOP, counted from 0, such as 20:40; not {one_line(text, 40)!r}")
    start, stop = (int(number) if number else None for number in (match[1], match[3]))
    if start is not None and not match[2]:
        stop = start + 1 or None
    return range(length)[start:stop]


@dataclass(frozen=True)
class _Part:
    """A table of a result, or the lines of its text, for which `columns` is None."""

    rows: Sequence[Sequence[Any]]
    columns: list[str] | None = None
    label: str = "text"

    @property
    def shape(self) -> str:
        if self.columns is None:
            return f"{self.label}, {plural(len(self.rows), 'lines')}"
        columns = f"{len(self.columns):,} columns ({join_names(self.columns, MAX_NAMES)})"
        return f"table of {len(self.rows):,} rows x {columns}"

    def select(self, columns: Sequence[str]) -> _Part:
        """Return the table with some columns only."""
        if self.columns is None or not columns:
            return self
        for name in columns:
            if name not in self.columns:
                near = did_you_mean(name, self.columns)
                raise ArgumentsError(
                    f"no column {one_line(name, 60)!r}.{near} There are: {join_names(self.columns, MAX_NAMES)}"
                )
        places = [self.columns.index(name) for name in columns]
        return _Part([[row[place] for place in places] for row in self.rows], list(columns))

    def read(self, rows: range, search: str, limit: int) -> str:
        """Return rows with a line above them that says which they are, and how to read on."""
        numbers: Sequence[int] = rows
        noun = "lines" if self.columns is None else "rows"
        if search:
            low = search.casefold()
            numbers = [n for n in rows if any(low in _text(cell).casefold() for cell in self.rows[n])]
        text, count = self.rows_as_text(numbers, limit, numbered=bool(search))
        if not numbers:
            query = f"with {one_line(search, 60)!r} " if search else ""
            return f"[no {noun} {query}in {rows.start}:{rows.stop}; there are {len(self.rows):,}]"
        note = f"{noun} {numbers[0]} to {numbers[count - 1]} of {len(self.rows):,}"
        if search:
            note = f"{len(numbers):,} of {len(rows):,} {noun} have {one_line(search, 60)!r}, here with their numbers"
        if count < len(numbers):
            note += f'; rows="{numbers[count]}:{rows.stop}" reads on'
        return f"[{note}]\n{text}"

    def rows_as_text(self, numbers: Sequence[int], limit: int, *, numbered: bool = False) -> tuple[str, int]:
        """Return rows as CSV, or lines, as many as fit and at least one, and how many these are."""
        lines: list[str] = []
        room = limit
        for number in numbers:
            if self.columns is None:
                line = f"{number}: {self.rows[number][0]}" if numbered else str(self.rows[number][0])
            else:
                line = _csv([*([number] if numbered else []), *map(_text, self.rows[number])])
            if lines and len(line) > room:
                break
            lines.append(line if len(line) <= limit else f"{line[:limit]} [cut here]")
            room -= len(line) + 1
        header = [] if self.columns is None else [_csv([*(["row"] if numbered else []), *self.columns])]
        return "\n".join([*header, *lines]), len(lines)


def _csv(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)


def _parts(result: ToolResult) -> dict[str, _Part]:
    """Return the tables of a result by name, or its text as lines."""
    plain = replace(result, output_schema=None)  # a message does not keep it, and the names depend on it
    parts: dict[str, _Part] = {}
    for name, table in plain.tables.items():
        if not table.single:
            names, rows = table.head(sys.maxsize)
            parts[name] = _Part(rows, names)
    if parts:
        return parts
    if plain.data is not None and not isinstance(plain.data, str):
        text, kind = json.dumps(plain.data, ensure_ascii=False, indent=1), f"{describe(plain.data)} as JSON"
    else:
        text = "\n".join(texts_of(plain))
        kind = f"text of {len(text):,} characters"
    lines = [line[at : at + LINE] for line in text.splitlines() for at in range(0, max(len(line), 1), LINE)]
    return {"text": _Part([[line] for line in lines], label=kind)}
