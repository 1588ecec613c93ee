"""How data and text become parts: a table if they hold rows, a tree if they are JSON, else text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import limits
from .html import joined, note, preformatted, table
from .jsontree import NOT_JSON, brief, loads, pretty, tree
from .markdown import harmless
from .parts import Part
from .plain import aligned, columns_that_fit, terminal_width
from .safe import cut
from .tables import Records, Rows, find_rows
from .texttables import TextMatrix, find_in_text

if TYPE_CHECKING:
    from .limits import Budget

__all__ = ["data_part", "markdown_part", "rows_part", "text_part", "verbatim_part"]


def verbatim_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return text as it is, cut with its length and `how` to get the whole."""
    limit = budget.characters
    shown = cut(text, limit)
    rest = ""
    if len(text) > limit:
        rest = f"… {limit:,} of {len(text):,} characters: {how} has all of them"
    return Part(_lines(shown, rest), joined([preformatted(shown), note(rest)]))


def text_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return text as what it holds: JSON, a table, or text. Nothing larger than `parse` is read to find out."""
    if budget.take_parse(len(text)):
        value = loads(text)
        if isinstance(value, (dict, list)):
            return data_part(value, budget)
        rows = find_in_text(text, sample=True) if value is NOT_JSON else None
        if rows is not None and _is_all(rows, text):
            return rows_part(rows, budget)
    return verbatim_part(text, budget, how)


def _is_all(rows: Rows, text: str) -> bool:
    """Whether a table is all that the text says: showing it alone must not hide the prose around it."""
    if not isinstance(rows, TextMatrix):
        return True
    return all("|" in line or not line.strip() for line in text.splitlines())


def data_part(data: Any, budget: Budget, how: str = ".data") -> Part:
    """Return a JSON value: a table if it holds rows, a tree if it has members, else its text."""
    rows = find_rows(data, sample=True)
    if rows is not None and _worth_a_table(rows):
        return rows_part(rows, budget, rest=_beside(data, rows))
    if isinstance(data, (dict, list)) and data:
        limit = budget.characters
        text, whole = pretty(data, limit)
        plain = text if whole else _lines(text, f"… cut: {how} has the whole")
        return Part(plain, tree(data, budget.bytes // 2))
    if isinstance(data, str):
        return text_part(data, budget, how)
    text = brief(data, limits.display.characters)
    return Part(text, preformatted(text))


def _worth_a_table(rows: Rows) -> bool:
    """Whether rows read better as a table: not one object, nothing, or a list of plain values."""
    if rows.single or rows.count() == 0:
        return False
    names, first = rows.head(1)
    return bool(first) and len(names) >= (1 if isinstance(rows, Records) else 2)


def _beside(data: Any, rows: Rows) -> str:
    """Return the other members of an object that holds rows, on one line."""
    if not rows.member or not isinstance(data, dict):
        return ""
    names = getattr(rows, "names", None)
    others = {k: v for k, v in data.items() if k != rows.member and v != names}
    return ", ".join(f"{brief(str(k), 40)}: {brief(v, 80)}" for k, v in list(others.items())[:10])


def rows_part(rows: Rows, budget: Budget, rest: str = "") -> Part:
    """Return the first rows as a table, with the counts and where the others are.

    Args:
        rows: What to show.
        budget: Counts the bytes.
        rest: What stands beside the rows, shown below them.
    """
    limit = limits.display
    names, first = rows.head(limit.rows)
    columns = len(names)
    names = [brief(name, limit.cell) for name in names[: limit.columns]]
    cells = [[_cell(value) for value in row[: limit.columns]] for row in first]
    html, shown = table(names, cells, limit=budget.bytes)
    total = terminal_width()
    across = columns_that_fit(names, cells[:shown], total=total, cell=limit.cell)
    first = [row[:across] for row in cells[:shown]]
    plain = aligned(names[:across], first, total=total, cell=limit.cell) if cells else "  ".join(names)
    count = rows.count()
    below = _lines(_caption(count, shown, columns, across if cells else len(names)), rest)
    return Part(_lines(plain, below), joined([html, note(_caption(count, shown, columns, len(names))), note(rest)]))


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**30):
        return value if not isinstance(value, bool) else str(value).lower()
    return brief(value, limits.display.cell)


def _caption(total: int | None, shown: int, columns: int, across: int) -> str:
    """Return the line below a table: its size, and `.df` if there is more than the rows and columns shown.

    >>> _caption(2, 2, 3, 3)
    '2 rows x 3 columns'
    >>> _caption(100_000, 20, 30, 20)
    '20 of 100,000 rows, 20 of 30 columns: .df has all of them'
    """
    row_word = "row" if total == 1 else "rows"
    column_word = "column" if columns == 1 else "columns"
    if total is not None and shown >= total and columns <= across:
        return f"{total:,} {row_word} x {columns} {column_word}"
    count = f"{shown:,} of {total:,} rows" if total is not None else f"the first {shown:,} rows"
    wide = f", {across} of {columns} columns" if columns > across else f" x {columns} {column_word}"
    return f"{count}{wide}: .df has all of them"


def markdown_part(text: str, budget: Budget, how: str = ".text") -> Part:
    """Return Markdown, harmless: rendered where it stands alone, as its source among other parts."""
    plain = verbatim_part(text, budget, how)
    limit = budget.characters
    rest = f"\n\n*… {limit:,} of {len(text):,} characters: {how} has all of them*" if len(text) > limit else ""
    return Part(plain.plain, plain.html, {"text/markdown": harmless(text[:limit]) + rest})


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
