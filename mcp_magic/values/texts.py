"""Texts as tables: the lines of a text, and the rows of delimited text such as CSV.

Where lines and rows begin is looked for once; of a long text it is kept for the next read. A page is cut from the text
by that, so to read it takes as long as it is large. Secrets are masked in what is read, and in what is around it: a
secret may begin before a page or end after it.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from array import array
from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mcp_magic.values.plain import EDGE, labels
from mcp_magic.values.rows import MAX_COLUMNS, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.display import tables
    from mcp_magic.values.vectors import Vector

LINE = 500  # characters after which a line of a text is broken, so that a text without line ends can be read in parts

MAX_TEXT = 20_000_000  # characters of a text whose lines are read

LONG = 200_000  # characters of a text whose lines and rows are not looked for again

BLOCK = 20_000  # characters that are masked at once, with those around them in which a secret may begin or end


class Lines(Table):
    """The lines of a text, long ones in parts."""

    noun = "lines"

    def __init__(self, text: str, hide: Callable[[str], str] = str) -> None:
        """Read a text; `hide` masks secrets in it."""
        rest = f"\n[cut here; it has {len(text):,} characters]" if len(text) > MAX_TEXT else ""
        self._text = text[:MAX_TEXT] + rest if rest else text
        self._hide = hide
        self._starts = _kept_lines(self._text) if len(text) > LONG else line_starts(self._text)
        self.columns = ["line"]
        self._block, self._lines = range(0), list[str]()  # the lines that were read last

    def __len__(self) -> int:
        return len(self._starts) - 1

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return some lines, masked."""
        cells = []
        for row in rows:
            if row not in self._block:
                self._read(row)
            cells.append(self._lines[row - self._block.start])
        return cells

    def dtype(self, position: int) -> str:
        """Return the type of a line."""
        return "str"

    def _read(self, row: int) -> None:
        """Read the block of lines that a line is in."""
        starts, number = self._starts, self._starts[row] // BLOCK
        first, stop = (bisect_left(starts, at, hi=len(self)) for at in (number * BLOCK, (number + 1) * BLOCK))
        start, end = starts[first], starts[stop]
        lines = self._text[start:end].splitlines()
        masked = masked_lines(self._text, start, end, self._hide)
        masked += [""] * (len(lines) - len(masked))  # a secret of several lines is on one line now
        masked[len(lines) - 1 :] = [" ".join(masked[len(lines) - 1 :])]
        parts = (_parts(new, _count(old)) for old, new in zip(lines, masked, strict=True))
        self._block, self._lines = range(first, stop), [part for line in parts for part in line]


def line_starts(text: str) -> array[int]:
    r"""Return where the lines of a text begin, and the parts of long ones; and last where the text ends.

    >>> list(line_starts("a\n\nbc"))
    [0, 2, 3, 5]
    """
    starts = array("Q")
    at = 0
    for line in text.splitlines(keepends=True):
        if len(line) <= LINE:
            starts.append(at)
        else:
            starts.extend(range(at, at + LINE * _count(line.splitlines()[0]), LINE))
        at += len(line)
    starts.append(at)
    return starts


_kept_lines = lru_cache(maxsize=2)(line_starts)


def _count(line: str) -> int:
    """Return the number of parts of a line."""
    return max(-(-len(line) // LINE), 1)


def _parts(line: str, count: int) -> list[str]:
    """Return a line in a number of parts, of which the last has the rest."""
    last = LINE * (count - 1)
    return [*(line[at : at + LINE] for at in range(0, last, LINE)), line[last:]]


# Secrets at the edges of what is masked.

_ENDS_VALUE = " \t\n\"'&;,<>\\"
"""Characters that end the value behind the name of a secret."""


def masked_lines(text: str, start: int, end: int, hide: Callable[[str], str]) -> list[str]:
    """Return the lines of a part of a text, with secrets masked, also those that reach into it or out of it."""
    before, part, after = _before(text, start), text[start:end], text[end : end + EDGE]
    around = before + part + after
    masked = hide(around)
    if masked == around:
        return part.splitlines()
    lines, counts = masked.splitlines(), [len(piece.splitlines()) for piece in (before, part, after)]
    if sum(counts) == len(around.splitlines()) == len(lines):
        return lines[counts[0] : counts[0] + counts[1]]
    # A secret has several lines, or the part begins or ends within a line: take away what is the same around it.
    masked = hide(masked)  # with the secrets that were learned from it, as those around it are
    head = _common(masked, hide(before))
    tail = _common(masked[head:][::-1], hide(after)[::-1])
    return masked[head : len(masked) - tail].splitlines()


def _common(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _before(text: str, start: int) -> str:
    """Return what is before a part: if the part continues a long word, with the beginning of that."""
    near = text[max(start - EDGE, 0) : start]
    if start <= EDGE or any(mark in near for mark in _ENDS_VALUE):
        return near
    begins = max(text.rfind(mark, 0, start) for mark in _ENDS_VALUE) + 1
    return text[max(begins - LINE, 0) : begins + LINE] + near


# Delimited text.


class DelimitedRows(Table):
    """The rows of delimited text, as they were sent; a column in which all are numbers is computed with as such."""

    def __init__(self, rows: tables.Delimited) -> None:
        """Read delimited text, whose first row names the columns."""
        self._text, self._delimiter = rows.values, rows.delimiter
        find = _kept_rows if len(self._text) > LONG else row_starts
        self._starts = find(self._text, self._delimiter)
        names, _ = rows.head(sys.maxsize)  # of the first rows: it reads no more
        self.columns = labels(names[:MAX_COLUMNS])
        self.unnamed = len(names) - len(self.columns)
        self._rows, self._cells = range(0), list[list[str]]()  # those that were read last

    def __len__(self) -> int:
        return max(len(self._starts) - 2, 0)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the cells of a column in some rows, None where a row has fewer."""
        if not rows:
            return []
        block = range(rows[0], rows[-1] + 1)
        if self._rows != block:
            text = self._text[self._starts[block.start + 1] : self._starts[block.stop + 1]]
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, skipinitialspace=True)
            self._rows, self._cells = block, [row for row in reader if row]
        cells = (self._cells[row - block.start] for row in rows)
        return [row[position] if position < len(row) else None for row in cells]

    def dtype(self, position: int) -> str:
        """Return the type of a column."""
        return "str"

    def vector(self, position: int, rows: range) -> Vector:
        """Return a column in some rows as numbers if all cells that are not empty are, else as texts."""
        from mcp_magic.values.vectors import of_cells

        cells = self.cells(position, rows)
        if any(cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in cells):
            return of_cells([(float if set(".eE") & set(cell) else int)(cell) if cell else None for cell in cells])
        return of_cells(cells)


_NUMBER = re.compile(r"[-+]?(0|[1-9]\d{0,17})(\.\d+)?([eE][-+]?\d{1,3})?", re.ASCII)
"""A number; `007` is none."""


def row_starts(text: str, delimiter: str) -> array[int]:
    r"""Return where the rows of delimited text begin, empty ones left out; and last where the text ends.

    >>> list(row_starts('a,b\n\n"1\n2",3\n', ","))
    [0, 5, 13]
    """
    lines = list(io.StringIO(text, newline=""))
    offsets = array("Q", accumulate(map(len, lines), initial=0))
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    starts, line = array("Q"), 0
    for row in reader:
        if row:
            starts.append(offsets[line])
        line = reader.line_num
    starts.append(len(text))
    return starts


_kept_rows = lru_cache(maxsize=2)(row_starts)
