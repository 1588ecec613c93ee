"""Rows as text with a delimiter: CSV and its relatives (RFC 4180)."""

from __future__ import annotations

import csv
import io
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .tables import Rows, check_shape

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DELIMITERS", "SAMPLE", "Delimited", "delimited"]

DELIMITERS = ("\t", ",", ";", "|")
SAMPLE = 65_536
"""Characters that are looked at to judge a text."""
_COUNTED = 1_000_000
"""Longest text whose rows are counted for display."""

_VALUE = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?|true|false|\d{4}-\d\d-\d\d.*|", re.IGNORECASE)

_CODE = re.compile(r"[=;{}<>\[\]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited(Rows):
    """Rows as text with a delimiter, the first one naming the columns."""

    text: str
    delimiter: str = ","

    def count(self) -> int | None:
        """The number of rows, None for long texts."""
        if len(self.text) > _COUNTED:
            return None
        try:
            return sum(1 for row in self._reader(self.text) if row) - 1
        except csv.Error:  # a cell of more than 131,072 characters
            return None

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        rows = self._sampled()
        first = rows[1 : limit + 1]
        names = _named(rows[0], first) if rows else []
        return names, [(row + [""] * len(names))[: len(names)] for row in first]

    def shape(self) -> tuple[int, int, int]:
        """The rows and columns of `frame()`, by the first row and the line ends, and how many cells were sent."""
        lines = max(self.text.count("\n"), self.text.count("\r"))
        columns = 0
        with suppress(csv.Error):
            columns = len(next(self._reader(self.text), ()))
        return lines, columns, lines + self.text.count(self.delimiter)

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers; columns beyond the names are numbered, as pandas does."""
        import pandas as pd

        try:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # a line that names every column
                return self._read()
        except pd.errors.EmptyDataError:
            return pd.DataFrame()
        except pd.errors.ParserWarning:  # pandas would drop what has no name, or make an index of what has one
            rows = self._all_rows()
        names = _named(next(row for row in rows if row), rows)
        check_shape(len(rows), len(names), sum(map(len, rows)))
        return self._read(names=names, header=0)

    def _all_rows(self) -> list[list[str]]:
        try:
            return list(self._reader(self.text))
        except csv.Error as error:
            problem = str(error)
        raise ValueError(problem)

    def _read(self, **options: Any) -> pd.DataFrame:
        import pandas as pd

        options |= {"sep": self.delimiter, "skipinitialspace": True, "index_col": False}
        made: pd.DataFrame = pd.read_csv(io.StringIO(self.text), **options)
        return made

    def columns(self) -> tuple[int, int]:
        """How many columns all rows at the beginning have in common (0 for none), and how many the first row has."""
        rows = self._sampled()
        first = len(rows[0]) if rows else 0
        return (first if first > 1 and all(len(row) == first for row in rows) else 0), first

    def looks_like_rows(self) -> bool:
        """Whether the beginning is a table beyond reasonable doubt."""
        rows = self._sampled()
        if len(rows) < 2 or len(rows[0]) < 2 or len(set(map(len, rows))) != 1:
            return False
        header = rows[0]
        if len(set(header)) != len(header) or any(_is_value(name) or len(name) > 60 for name in header):
            return False
        if any("\n" in name for name in header) or _ends_a_sentence(header):
            return False
        return self._tight() or any(all(map(_is_value, column)) for column in zip(*rows[1:], strict=True))

    def names_columns(self) -> bool:
        """Whether the first row holds names and no code, which a table in the middle of prose has to show as well."""
        rows = self._sampled()
        return bool(rows) and not any(_CODE.search(name) or name.count("(") != name.count(")") for name in rows[0])

    def _tight(self) -> bool:
        """Whether delimiters stand without a space behind them, which prose never does."""
        return re.search(rf"{re.escape(self.delimiter)}(?![\s\d]|\Z)", self.text[:SAMPLE]) is not None

    def _reader(self, text: str) -> Any:
        start = 1 if text.startswith("\ufeff") else 0  # Excel's mark of UTF-8
        return csv.reader(io.StringIO(text[start:], newline=""), delimiter=self.delimiter, skipinitialspace=True)

    def _sampled(self) -> list[list[str]]:
        text = self.text[:SAMPLE]
        try:
            rows = [row for row in self._reader(text) if row]
        except csv.Error:
            return []
        return rows[:-1] if len(self.text) > SAMPLE else rows  # the last one is cut off


def delimited(text: str, expected: str) -> Delimited:
    r"""Return the rows of a text that is said to be delimited, by the character that makes the most columns.

    CSV has semicolons wherever numbers have decimal commas, and its MIME type does not say so.

    >>> delimited("id;price\n1;3,5\n2;4\n", ",").delimiter, delimited("a,b\n1,2,3\n", ",").delimiter
    (';', ',')
    """
    candidates = [Delimited(text=text, delimiter=delimiter) for delimiter in dict.fromkeys((expected, *DELIMITERS))]
    return max(candidates, key=Delimited.columns)


def _is_value(cell: str) -> bool:
    return _VALUE.fullmatch(cell.strip()) is not None


def _ends_a_sentence(header: list[str]) -> bool:
    """Whether a first row is a line of prose: "Two cities, the largest first:"."""
    last = header[-1].rstrip()
    return last.endswith(":") or (last.endswith((".", "!")) and any(len(name.split()) > 2 for name in header))


def _named(names: list[str], rows: list[list[str]]) -> list[str]:
    """Return names for all columns that hold something."""
    width = max((index + 1 for row in rows for index, cell in enumerate(row) if cell), default=0)
    return names + [f"Unnamed: {index}" for index in range(len(names), width)]
