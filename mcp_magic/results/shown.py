"""How data and text become parts: a table if they hold rows, a tree if they are JSON, else text."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import limits
from .html import joined, note, preformatted, table
from .jsontree import NOT_JSON, brief, loads, pretty, tree
from .markdown import harmless
from .parts import Part
from .plain import aligned, columns_that_fit, terminal_width
from .safe import cut, one_line
from .tables import Columns, Records, Rows, find_tables, meant
from .texttables import Passage, passages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .limits import Budget

_BESIDE = 10
"""Other members of an object that are shown below its rows."""

__all__ = ["data_part", "markdown_part", "members_line", "rows_part", "text_part", "verbatim_part"]


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
    if not budget.take_parse(len(text)):
        return verbatim_part(text, budget, how)
    value = loads(text)
    if isinstance(value, (dict, list)):
        return data_part(value, budget)
    found = passages(text) if value is NOT_JSON else []
    tables = [rows for passage in found for rows in meant(passage.tables) if not rows.single]
    if len(tables) == len(found) == 1:
        return _among_prose(text, found[0], budget, how)
    return _with_note(verbatim_part(text, budget, how), tables)


def _among_prose(text: str, passage: Passage, budget: Budget, how: str) -> Part:
    """Return a table between the words around it."""
    around = [text[: passage.start].strip(), text[passage.end :].strip()]
    prose = sum(map(bool, around))
    share = replace(budget, bytes=budget.bytes // (1 + prose))
    table = rows_part(passage.tables[0], share) if passage.value is NOT_JSON else data_part(passage.value, share, how)
    if not prose:
        return table
    before, after = (verbatim_part(words, share, how) if words else None for words in around)
    parts = [part for part in (before, table, after) if part is not None]
    return Part("\n\n".join(part.plain for part in parts), joined(part.html for part in parts))


def data_part(data: Any, budget: Budget, how: str = ".data") -> Part:
    """Return a JSON value: a table if it holds rows, a tree if it has members, else its text."""
    tables = meant(find_tables(data))
    if len(tables) == 1 and _worth_a_table(tables[0]):
        return rows_part(tables[0], budget, rest=_beside(data, tables[0]))
    if isinstance(data, (dict, list)) and data:
        limit = budget.characters
        text, whole = pretty(data, limit)
        plain = text if whole else _lines(text, f"… cut: {how} has the whole")
        return _with_note(Part(plain, tree(data, budget.bytes // 2)), tables)
    if isinstance(data, str):
        return text_part(data, budget, how)
    text = brief(data, limits.display.characters)
    return Part(text, preformatted(text))


def _with_note(part: Part, tables: Sequence[Rows]) -> Part:
    """Return a part with a line that says where its tables are, if it has several."""
    if len(tables) < 2:
        return part
    text = f"{len(tables)} tables: .frames has them"
    return Part(f"{part.plain}\n{text}", joined([part.html, note(text)]))


def _worth_a_table(rows: Rows) -> bool:
    """Whether rows read better as a table: not one object, nothing, or a list of plain values."""
    if rows.single or rows.count() == 0:
        return False
    names, first = rows.head(1)
    return bool(first) and len(names) >= (1 if isinstance(rows, Records) else 2)


def _beside(data: Any, rows: Rows) -> str:
    """Return the other members of the objects that hold rows."""
    others: dict[str, Any] = {}
    names = getattr(rows, "names", None)
    for step in rows.path:
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key != step and value != names}
        data = data[step]
    if isinstance(data, dict) and isinstance(rows, Columns):
        others |= {key: value for key, value in islice(data.items(), _BESIDE) if key not in rows.values}
    return members_line(others)


def members_line(members: Mapping[str, Any]) -> str:
    r"""Return the first members of an object on one line.

    >>> members_line({"kind": "list", "text": "a\nb"})
    'kind: list, text: a b'
    """
    shown = ((one_line(key, 40), value) for key, value in islice(members.items(), _BESIDE))
    return ", ".join(f"{key}: {one_line(v, 80) if isinstance(v, str) else brief(v, 80)}" for key, v in shown)


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
