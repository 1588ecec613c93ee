"""Finding tables in text: JSON, CSV and its relatives, JSON Lines, Markdown tables, rows as Python prints them.

Text is prose until it proves otherwise: a comma in each of two sentences makes no table. Each character is looked at a
fixed number of times, however the text is made.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from .delimited import DELIMITERS, SAMPLE, Delimited
from .jsontree import NOT_JSON, loads, loads_beginning
from .tables import Matrix, Records, Rows, find_rows, find_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

__all__ = ["MAX_PYTHON", "Passage", "TextMatrix", "is_long_python", "json_in_text", "json_lines", "passages"]

MAX_PYTHON = 200_000
"""Characters of text read as Python's own notation: `ast` takes 5 microseconds a value, and 250 bytes a character."""

_MOST = 50
"""Tables of one text."""

_TRIES = 20
"""Places of one text at which JSON is looked for: what looks like some is read to its end to find out."""

_RULE = re.compile(r":?-+:?")
_CELL = re.compile(r"(?<!\\)\|")
_FENCES = ("```", "~~~")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatrix(Matrix):
    """Rows of text cells, whose types are read from the text as in CSV; cells at the end of a row may be missing."""

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        names = self.names or []
        return names, [row + [""] * (len(names) - len(row)) for row in self.values[:limit]]

    def shape(self) -> tuple[int, int, int]:
        """The rows and columns of `frame()`, and how many of its cells were sent."""
        return len(self.values), len(self.names or ()), sum(map(len, self.values))

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        out = io.StringIO(newline="")
        csv.writer(out).writerows([self.names or [], *self.values])
        return pd.read_csv(io.StringIO(out.getvalue()))


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text that holds tables.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        tables: What it holds; several only where it is JSON.
        value: The value of JSON, else `NOT_JSON`.
    """

    start: int
    end: int
    tables: Sequence[Rows]
    value: Any = NOT_JSON


def passages(text: str) -> list[Passage]:
    r"""Return the parts of a text that hold tables: the whole text, or some of its paragraphs.

    >>> [found] = passages("Found two:\ncity,degrees\nParis,21\nOslo,7\n\nDone.")
    >>> found.start, found.end, found.tables[0].head(1)
    (11, 39, (['city', 'degrees'], [['Paris', '21']]))
    >>> [found] = passages('Here they are:\n```json\n[{"a": 1}]\n```\n')
    >>> found.value
    [{'a': 1}]
    """
    value = loads(text)
    if value is not NOT_JSON:
        tables = find_tables(value)
        return [Passage(0, len(text), tables, value)] if tables else []
    rows = _rows_of(text, len(text))
    return [Passage(0, len(text), [rows])] if rows is not None else list(islice(_Scan(text).passages(), _MOST))


def json_in_text(text: str) -> tuple[int, Any]:
    """Return the first JSON object or list in a text and where it begins; `NOT_JSON` if there is none.

    >>> json_in_text('Error calling tool "query": {"error": "no such table"}')
    (28, {'error': 'no such table'})
    """
    value = loads(text)
    if isinstance(value, dict | list):
        return 0, value
    return next(((start, value) for start, _, value in _Scan(text).values()), (0, NOT_JSON))


def is_long_python(text: str) -> bool:
    """Whether a text may be rows as Python prints them, and is too long to be read as such."""
    return len(text) > MAX_PYTHON and text[:100].lstrip().startswith(("[", "("))


def _rows_of(text: str, size: int) -> Rows | None:
    """Return the table that a text is, if it is nothing else and no JSON.

    Args:
        text: The text.
        size: Characters of the text that it is a part of.
    """
    start = text[:100].lstrip()[:1]
    if start in ("[", "(") and size <= MAX_PYTHON and (rows := _python_rows(text)) is not None:
        return rows
    if start == "{" and (rows := json_lines(text)) is not None:
        return rows
    candidates = [Delimited(text=text, delimiter=delimiter) for delimiter in DELIMITERS if delimiter in text[:SAMPLE]]
    return next((found for found in candidates if found.looks_like_rows()), None)


def json_lines(text: str) -> Rows | None:
    r"""Return the rows of JSON Lines: an object a line, and more than one.

    >>> json_lines('{"a": 1}\n{"a": 2}\n').count()
    2
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or not isinstance(loads(lines[0]), dict):
        return None
    values = [loads(line) for line in lines]
    return Records(values=values) if all(isinstance(value, dict) for value in values) else None


def _python_rows(text: str) -> Rows | None:
    """Return rows written as Python prints them, as servers of the first generation send them.

    >>> _python_rows("[{'a': None}]").head(1)
    (['a'], [[None]])
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    rows = find_rows(value if not isinstance(value, tuple) else list(value))
    # A list of scalars in prose ("[1]" is a footnote) proves nothing; objects and lists do.
    return rows if rows is not None and isinstance(value, (list, tuple)) and _nested(value) else None


def _nested(value: Any) -> bool:
    return bool(value) and isinstance(value[0], (dict, list, tuple))


class _Scan:
    """One pass over the lines of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._tries = _TRIES

    def passages(self) -> Iterator[Passage]:
        """Yield what holds tables."""
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            last, found = number + 1, None
            if not line:
                pass
            elif line.lstrip().startswith(_FENCES):
                last, found = self._fenced(number)
            elif (begins := _json_begins(line)) >= 0 and (read := self._json(number, begins)) is not None:
                start, end, value = read
                last = self._line_after(number, end)
                tables = [rows for rows in find_tables(value) if not rows.single]
                found = self._passage(start, end, tables, value)
            elif self._is_markdown(number):
                last, found = self._markdown(number)
            elif line.strip():
                last, found = self._paragraph(number)
            if found is not None:
                yield found
            number = last

    def values(self) -> Iterator[tuple[int, int, Any]]:
        """Yield the JSON values, each with its place."""
        number = 0
        while number < len(self._lines):
            begins = _json_begins(self._lines[number])
            read = self._json(number, begins) if begins >= 0 else None
            if read is not None:
                yield read
            number = self._line_after(number, read[1]) if read is not None else number + 1

    def _passage(self, start: int, end: int, tables: Sequence[Rows], value: Any = NOT_JSON) -> Passage | None:
        return Passage(start, min(end, len(self._text)), tables, value) if tables else None

    def _json(self, number: int, begins: int) -> tuple[int, int, Any] | None:
        """Read the JSON that begins in a line; a list of plain values proves nothing: "[1]" is a footnote."""
        if not self._tries:
            return None
        self._tries -= 1
        start = self._starts[number] + begins
        value, end = loads_beginning(self._text, start)
        return (start, end, value) if isinstance(value, dict) or (isinstance(value, list) and _nested(value)) else None

    def _line_after(self, number: int, end: int) -> int:
        """Return the number of the first line that begins at `end` or later."""
        number += 1
        while number < len(self._lines) and self._starts[number] < end:
            number += 1
        return number

    def _fenced(self, number: int) -> tuple[int, Passage | None]:
        """Read a block of code of Markdown; one that is never closed goes to the end."""
        fence = self._lines[number].lstrip()[:3]
        last = number + 1
        while last < len(self._lines) and not self._lines[last].lstrip().startswith(fence):
            last += 1
        text = "\n".join(self._lines[number + 1 : last])
        value = loads(text)
        rows = _rows_of(text, len(self._text)) if value is NOT_JSON else None
        tables = [rows] if rows is not None else [] if value is NOT_JSON else find_tables(value)
        after = min(last + 1, len(self._lines))
        return after, self._passage(self._starts[number], self._starts[after] - 1, tables, value)

    def _is_markdown(self, number: int) -> bool:
        """Whether a line names the columns of a Markdown table: the next one is its rule."""
        if "|" not in self._lines[number] or "|" not in "".join(self._lines[number + 1 : number + 2]):
            return False
        rule = _cells(self._lines[number + 1])
        return all(_RULE.fullmatch(cell) for cell in rule) and len(_cells(self._lines[number])) == len(rule) >= 2

    def _markdown(self, number: int) -> tuple[int, Passage | None]:
        names = _cells(self._lines[number])
        rows: list[list[Any]] = []
        last = number + 2
        while last < len(self._lines) and "|" in self._lines[last]:
            rows.append(_cells(self._lines[last])[: len(names)])  # GitHub drops and fills the same way
            last += 1
        tables = [TextMatrix(values=rows, names=names)] if rows else []
        return last, self._passage(self._starts[number], self._starts[last] - 1, tables)

    def _paragraph(self, number: int) -> tuple[int, Passage | None]:
        """Look for delimited rows in a paragraph: from its first line on, or after a line or two of prose."""
        last = number + 1
        while last < len(self._lines) and not self._begins_anew(last):
            last += 1
        for first in range(number, min(number + 3, last - 1)):
            lines = self._lines[first:last]
            for delimiter in DELIMITERS:
                count = _rows_alike(lines, delimiter) if delimiter in lines[0] else 0
                rows = Delimited(text="\n".join(lines[:count]), delimiter=delimiter)
                if count > 1 and rows.names_columns() and rows.looks_like_rows():
                    return last, self._passage(self._starts[first], self._starts[first + count] - 1, [rows])
        return last, None

    def _begins_anew(self, number: int) -> bool:
        line = self._lines[number]
        start = line.lstrip()
        return not start or start.startswith(_FENCES) or _json_begins(line) >= 0 or self._is_markdown(number)


def _json_begins(line: str) -> int:
    """Return where JSON may begin in a line: at its beginning, or behind a colon; -1 for nowhere."""
    if line.lstrip()[:1] in ("{", "["):
        return len(line) - len(line.lstrip())
    found = [place + 2 for place in (line.find(": {"), line.find(": [")) if place >= 0]
    return min(found, default=-1)


def _rows_alike(lines: list[str], delimiter: str) -> int:
    """Return how many lines from the first one on are rows with as many cells."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    width = count = 0
    try:
        for row in reader:
            width = width or len(row)
            if len(row) != width:
                break
            count = reader.line_num
    except csv.Error:
        return 0
    return count


def _cells(line: str) -> list[str]:
    line = line.strip()
    line = line.removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)]
