"""Finding tables in text: CSV and its relatives, JSON Lines, Markdown tables, rows as Python prints them.

Text is prose until it proves otherwise: a comma in each of two sentences makes no table.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .delimited import DELIMITERS, SAMPLE, Delimited
from .jsontree import loads
from .tables import Matrix, Records, Rows, find_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TextMatrix", "find_in_text", "json_lines", "markdown_table", "python_rows"]

_PYTHON = 200_000
"""Longest text read as Python's own notation for display: `ast` needs 5 microseconds a value."""

_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_CELL = re.compile(r"(?<!\\)\|")


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
    start = text[:100].lstrip()[:1]
    if start in ("[", "("):
        return python_rows(text) if len(text) <= _PYTHON or not sample else None
    if start == "{" and (rows := json_lines(text)) is not None:
        return rows
    table = markdown_table(text)
    if table is not None:
        return table
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
