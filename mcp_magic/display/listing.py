"""Listings: rows that display themselves as a table, in HTML or as aligned text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from mcp_magic.display import document
from mcp_magic.display.document import (
    Badge,
    Markup,
    Part,
    Verbatim,
    aligned,
    bundle,
    cell_text,
    joined,
    note,
    preformatted,
    table,
    tag,
    terminal_width,
)
from mcp_magic.display.text import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pandas as pd

__all__ = ["Listing", "Text"]


_CELL = 300
"""Most characters of a cell in HTML: the first sentences of a description."""

_COUNTED = 10
"""Rows that can be counted at a glance; for more rows, the heading has the number."""

_LINE = 1000
"""Most characters of a log line in HTML: such lines hold whole messages and paths."""

_NOTHING: tuple[object, ...] = (None, "", [])
"""Empty cells; a column that has only these is not displayed."""


class Listing(Sequence[Mapping[str, Any]]):
    """A sequence of rows, as the listing subcommands return, that displays itself as a table.

    Attributes:
        title: A heading, or "".
        columns: The names of the columns, in order.
        empty: The text shown when there are no rows.
        note: A line below the table, or "".
        kind: The plural noun for the rows ("tools"), or "".
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        title: str = "",
        columns: Sequence[str] | None = None,
        empty: str = "nothing to list",
        note: str = "",
        kind: str = "",
    ) -> None:
        self._rows = list(rows)
        self.title = title
        self.columns = (
            list(columns) if columns is not None else list(dict.fromkeys(k for row in self._rows for k in row))
        )
        self.empty = empty
        self.note = note
        self.kind = kind

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The rows."""
        return list(self._rows)

    @property
    def df(self) -> pd.DataFrame:
        """All rows as a DataFrame; badges become text."""
        import pandas as pd

        values = [{name: _plain_value(row.get(name)) for name in self.columns} for row in self._rows]
        return pd.DataFrame(values, columns=self.columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Listing: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Listing:
        if isinstance(index, slice):
            return self.with_rows(self._rows[index])
        return self._rows[index]

    def __contains__(self, item: object) -> bool:
        """Whether the listing has a row; a string is compared with the first column (`"weather" in servers`)."""
        if isinstance(item, str) and self.columns:
            return any(row.get(self.columns[0]) == item for row in self._rows)
        return item in self._rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Listing):
            return NotImplemented
        return (self._rows, self.columns) == (other.rows, other.columns)

    __hash__ = None  # type: ignore[assignment]

    def with_rows(self, rows: Sequence[Mapping[str, Any]]) -> Listing:
        """Return a listing of other rows with the same title, columns and texts."""
        return Listing(rows, title=self.title, columns=self.columns, empty=self.empty, note=self.note, kind=self.kind)

    def __repr__(self) -> str:
        return f"<Listing of {len(self)} {self.kind or 'rows'}>"

    def __str__(self) -> str:
        text: str = bundle([self.part()])["text/plain"]
        return text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([self.part()], include, exclude)

    def part(self) -> Part:
        """Return the listing as text and markup."""
        title = shorten(self.title, 200)
        if not self._rows:
            text = "\n".join(line for line in (title, self.empty, self.note) if line)
            return Part(text, joined([self._heading(), note(self.empty), note(self.note)]))
        limit = document.display
        first = self._rows[: limit.listing_rows]
        columns = [name for name in self.columns if any(row.get(name) not in _NOTHING for row in first)] or self.columns
        html_rows = ([_html_cell(row.get(name)) for name in columns] for row in first)
        html, shown = table(columns, html_rows, limit=limit.bytes)
        values = [[row.get(name) for name in columns] for row in first[:shown]]
        text = aligned(columns, values, total=terminal_width(), cell=limit.cell, names=True)
        more = len(self) - shown
        rest = f"… {more:,} more {self.kind or 'rows'}: .df has all {len(self):,}" if more > 0 else ""
        plain = "\n".join(line for line in (title, text, rest, self.note) if line)
        return Part(plain, joined([self._heading(), html, note(rest), note(self.note)]))

    def _heading(self) -> Markup:
        if not self.title:
            return Markup()
        count = tag("span", f" {len(self):,}", class_="mcp-note") if len(self) > _COUNTED else ""
        return tag("p", joined([tag("b", shorten(self.title, 200)), count]))


def _plain_value(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(part, Badge) for part in value):
        return " ".join(str(part) for part in value)
    return value


def _html_cell(value: Any) -> Any:
    """Return a cell for a table: numbers stay numbers, badges become markup, other values become text."""
    if isinstance(value, list):
        badges = any(isinstance(part, Badge) for part in value)
        parts = (part.html() if isinstance(part, Badge) else cell_text(part, _CELL) for part in value)
        return tag("span", joined(parts, " "), class_="mcp-badges") if badges else joined(parts, ", ")
    if isinstance(value, Badge):
        return value.html()
    if isinstance(value, Verbatim):
        return preformatted(shorten(value, _LINE))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return cell_text(value, _CELL)


class Text:
    """Text (help, hints) that a cell shows exactly as written.

    Not a `str`: IPython shows a `str` by its `repr`, even with a mimebundle.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Text of {len(self.text)} characters>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([Part(self.text, preformatted(self.text))], include, exclude)
