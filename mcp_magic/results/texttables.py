"""Finding tables in text: CSV and its relatives, Markdown tables, and rows written as Python prints them.

Text is prose until it proves otherwise: a comma in each of two sentences makes no table.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .tables import Matrix, Rows, find_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Delimited", "TextMatrix", "find_in_text", "markdown_table", "python_rows"]

_DELIMITERS = ("\t", ",", ";", "|")
_SAMPLE = 65_536
"""Characters that are looked at to judge a text."""
_COUNTED = 1_000_000
"""Longest text whose rows are counted for display."""
_PYTHON = 200_000
"""Longest text read as Python's own notation for display: `ast` needs 5 microseconds a value."""

_VALUE = re.compile(r"\s*(?:[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?|true|false|\d{4}-\d\d-\d\d.*|)\s*", re.IGNORECASE)
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited(Rows):
    """Rows as text with a delimiter, the first one naming the columns."""

    text: str
    delimiter: str = ","

    def count(self) -> int | None:
        """The number of rows, None for long texts."""
        if len(self.text) > _COUNTED:
            return None
        return sum(1 for row in self._reader(self.text) if row) - 1

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        rows = self._sampled()
        names = rows[0] if rows else []
        return names, [(row + [""] * len(names))[: len(names)] for row in rows[1 : limit + 1]]

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        try:
            return pd.read_csv(io.StringIO(self.text), sep=self.delimiter, skipinitialspace=True)
        except pd.errors.EmptyDataError:
            return pd.DataFrame()

    def looks_like_rows(self) -> bool:
        """Whether the beginning is a table beyond reasonable doubt."""
        rows = self._sampled()
        if len(rows) < 2 or len(rows[0]) < 2 or len(set(map(len, rows))) != 1:
            return False
        header = rows[0]
        if len(set(header)) != len(header) or any(_VALUE.fullmatch(name) or len(name) > 60 for name in header):
            return False
        if any("\n" in name for name in header):
            return False
        return self._tight() or any(all(_VALUE.fullmatch(c) for c in column) for column in zip(*rows[1:], strict=True))

    def _tight(self) -> bool:
        """Whether delimiters stand without a space behind them, which prose never does."""
        return re.search(rf"{re.escape(self.delimiter)}(?![\s\d]|\Z)", self.text[:_SAMPLE]) is not None

    def _reader(self, text: str) -> Any:
        return csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, skipinitialspace=True)

    def _sampled(self) -> list[list[str]]:
        text = self.text[:_SAMPLE]
        try:
            rows = [row for row in self._reader(text) if row]
        except csv.Error:
            return []
        return rows[:-1] if len(self.text) > _SAMPLE else rows  # the last one is cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatrix(Matrix):
    """Rows of text cells, whose types are read from the text as in CSV."""

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        out = io.StringIO(newline="")
        csv.writer(out).writerows([self.names or [], *self.values])
        return pd.read_csv(io.StringIO(out.getvalue()))


def find_in_text(text: str, *, sample: bool = False) -> Rows | None:
    r"""Return the table in a text that is not JSON, or None.

    >>> find_in_text("city,degrees\nParis,21\n").head(1)
    (['city', 'degrees'], [['Paris', '21']])
    >>> find_in_text("Dear Ann, hello\nKind regards, Bob") is None
    True
    """
    stripped = text[:100].lstrip()
    if stripped[:1] in ("[", "("):
        return python_rows(text) if len(text) <= _PYTHON or not sample else None
    table = markdown_table(text)
    if table is not None:
        return table
    candidates = [Delimited(text=text, delimiter=delimiter) for delimiter in _DELIMITERS if delimiter in text[:_SAMPLE]]
    return next((found for found in candidates if found.looks_like_rows()), None)


def python_rows(text: str) -> Rows | None:
    """Return rows written as Python prints them, as servers of the first generation send them.

    >>> python_rows("[{'a': None}]").head(1)
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


def markdown_table(text: str) -> Rows | None:
    r"""Return the first Markdown table of a text, with prose around it or without.

    >>> markdown_table("Rows:\n\n| a | b |\n|---|--:|\n| x | 1 |\n").head(9)
    (['a', 'b'], [['x', '1']])
    """
    if "|" not in text or "-" not in text:
        return None
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], start=1):
        if "|" in line and _RULE.fullmatch(line) and "|" in lines[number - 1]:
            return _markdown_rows(lines, number)
    return None


def _markdown_rows(lines: list[str], rule: int) -> Rows | None:
    names = _cells(lines[rule - 1])
    if len(names) < 2 or len(_cells(lines[rule])) != len(names):
        return None
    rows: list[list[Any]] = []
    for line in lines[rule + 1 :]:
        if "|" not in line:
            break
        cells = _cells(line)
        rows.append((cells + [""] * len(names))[: len(names)])  # GitHub fills and drops the same way
    return TextMatrix(values=rows, names=names) if rows else None


def _cells(line: str) -> list[str]:
    line = line.strip()
    line = line.removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)]
