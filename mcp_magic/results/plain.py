"""Tables as text that fit the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from itertools import accumulate
from typing import TYPE_CHECKING

from .safe import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Verbatim", "aligned", "cell_text", "columns_that_fit", "terminal_width", "width"]

_ENOUGH = 20
"""Characters of the last column, which wraps, that the other columns leave it."""

_MOST_LINES = 3
"""Lines of one row."""

_NARROWEST = 6
"""Characters below which a column says nothing any more."""

_READABLE = 12
"""Characters that a column gets before another one is shown beside it."""

_LONGEST_NAME = 500
"""Characters of a name at most: a server may send anything."""


class Verbatim(str):
    """Text whose spaces mean something, such as a line of a traceback; tables leave them as they are."""

    __slots__ = ()


def width(text: str) -> int:
    """Return the columns that `text` takes in a terminal (East Asian wide characters take two).

    >>> width("abc"), width("日本")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)


def terminal_width() -> int:
    """Return the terminal's width, or `COLUMNS`; 100 where there is none, as in a notebook.

    A kernel inherits the terminal that Jupyter was started from, but nobody reads its outputs there: what
    a saved notebook has must not depend on it.
    """
    if "COLUMNS" not in os.environ and not (sys.stdout is not None and sys.stdout.isatty()):
        return 100
    return shutil.get_terminal_size((100, 24)).columns


def cell_text(value: object, limit: int) -> str:
    r"""Return one cell: None is empty, truth is yes or no, text stays on one line.

    >>> [cell_text(v, 80) for v in (None, True, 1.5, "a\nb", Verbatim("  a"))]
    ['', 'yes', '1.5', 'a b', '  a']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Verbatim):
        return shorten(" ".join(value[: limit * 4].expandtabs().splitlines()), limit)
    if isinstance(value, list):
        separator = ", " if all(isinstance(part, str) for part in value) else " "
        return one_line(separator.join(str(part) for part in value), limit)
    return one_line(str(value), limit)


def aligned(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, total: int, cell: int = 100, names: bool = False
) -> str:
    """Return rows as aligned text, at most `total` wide; numbers flush right, long cells shortened.

    Args:
        headers: The names of the columns.
        rows: Their cells.
        total: Characters of a line.
        cell: Characters of a cell at most.
        names: Whether the first column has what a person types: it is never cut, but gets a line of its own.

    >>> print(aligned(["name", "n"], [["a", 1], ["bb", 10]], total=40))
    name   n
    a      1
    bb    10
    """
    most = [_LONGEST_NAME if names else cell, *(cell for _ in headers[1:])]
    texts = [[cell_text(value, room) for value, room in zip(row, most, strict=True)] for row in rows]
    heads = [one_line(header, cell) for header in headers]
    widths = [max(map(width, column)) for column in zip(heads, *texts, strict=True)]
    widths = _fitted(widths, total - 2 * (len(widths) - 1))
    right = [_numeric([row[i] for row in rows]) for i in range(len(heads))]
    lines: list[str] = []
    for cells in [heads, *texts]:
        if names and len(cells) > 1 and width(cells[0]) > widths[0]:
            lines.append(cells[0])
            cells = ["", *cells[1:]]
        lines += _lines(cells, widths, right)
    return "\n".join(lines)


def columns_that_fit(headers: Sequence[str], rows: Sequence[Sequence[object]], *, total: int, cell: int = 100) -> int:
    """Return how many columns `aligned` should be given: all that can be made to fit, else those that can be read.

    >>> columns_that_fit(["a"] * 30, [[1] * 30], total=100), columns_that_fit(["a"] * 30, [["b" * 99] * 30], total=100)
    (30, 7)
    """
    columns = zip(headers, *rows, strict=True)
    widths = [max(width(cell_text(value, cell)) for value in column) for column in columns]
    gaps = 2 * (len(widths) - 1)
    if sum(min(each, _NARROWEST) for each in widths) + gaps <= total:
        return len(widths)
    ends = accumulate(min(each, _READABLE) + 2 for each in widths)
    return max(sum(end - 2 <= total for end in ends), 1)


def _fitted(widths: list[int], total: int) -> list[int]:
    """Make columns narrower until they fit.

    The last explains the others and goes first, then the widest of the others. The first has names that a person
    types: up to half of the room it is left as it is, as long as anything else can be narrower.

    >>> _fitted([45, 40, 80], 96), _fitted([70, 40, 80], 96), _fitted([45, 3, 40], 30)
    ([45, 31, 20], [48, 28, 20], [15, 3, 12])
    """
    widths = list(widths)
    while sum(widths) > total and max(widths) > _NARROWEST:
        wide = [i for i, room in enumerate(widths) if room > (_NARROWEST if i else max(total // 2, _NARROWEST))] or [0]
        widest = max(wide, key=widths.__getitem__)
        widths[-1 if widths[-1] > _ENOUGH else widest] -= 1
    return widths


def _numeric(column: list[object]) -> bool:
    given = [value for value in column if value is not None]
    return bool(given) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in given)


def _lines(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Return the lines of a row: the last column goes on below itself, the others are cut."""
    last = cells[-1] if cells else ""
    if not last.isascii() or right[-1:] == [True] or len(last) <= widths[-1] or widths[-1] < _ENOUGH:
        return [_line(cells, widths, right)]
    first, *rest = textwrap.wrap(last, widths[-1], max_lines=_MOST_LINES, placeholder="...")
    indent = " " * (sum(widths[:-1]) + 2 * (len(widths) - 1))
    return [_line([*cells[:-1], first], widths, right), *(indent + line for line in rest)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [_padded(text, room, flush) for text, room, flush in zip(cells, widths, right, strict=True)]
    return "  ".join(padded).rstrip()


def _padded(text: str, room: int, flush: bool) -> str:
    if width(text) > room:
        while width(text) > room - 1:
            text = text[:-1]
        text += "…"
    space = " " * (room - width(text))
    return space + text if flush else text + space
