"""Listings: rows that display themselves as a table, in HTML or as aligned text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

from mcp_magic.display import document
from mcp_magic.display.document import Badge, Markup, Part, joined, parts_text, show_parts, tag
from mcp_magic.display.text import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd


_AT_A_GLANCE = 10  # rows that can be counted at a glance; for more rows, the heading has the number
_NOTHING: tuple[object, ...] = (None, "", [])  # empty cells; a column that has only these is not displayed


class LazyRows(Sequence[Mapping[str, Any]]):
    """Rows that are made when they are first read: of ten thousand tools a listing displays two hundred.

    For ten thousand tools that is 0.1 s instead of 1.2 s on a busy machine. A group is a function and the items of
    which it makes a row each. The items are kept as they are: IPython keeps each listing that a cell shows, and an
    object per row would make every later garbage collection longer.
    """

    def __init__(self, groups: Iterable[tuple[Callable[[Any], Mapping[str, Any]], Sequence[Any]]]) -> None:
        self._groups = [*groups]
        self._ends = [*accumulate(len(items) for _, items in self._groups)]
        self._made: dict[int, Mapping[str, Any]] = {}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        if number not in self._made:
            group = bisect_right(self._ends, number)
            make, items = self._groups[group]
            self._made[number] = make(items[number - self._ends[group]])
        return self._made[number]


class Listing(Sequence[Mapping[str, Any]]):
    """A sequence of rows, as the listing subcommands return, that displays itself as a table.

    Attributes:
        title: A heading, or "".
        columns: The names of the columns, in order.
        empty: The text shown when there are no rows.
        note: Lines below the table, or "".
        kind: The plural noun for the rows ("tools"), or "".
        newest: Whether the last rows are in view, and not the first.
    """

    newest = False

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
        self._rows = rows if isinstance(rows, LazyRows) else list(rows)
        self.title = title
        names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else list(columns)
        self.columns = sorted(names, key="problem".__eq__)  # the last column has room for it
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

        def plain(value: Any) -> Any:
            badges = isinstance(value, list) and any(isinstance(part, Badge) for part in value)
            return " ".join(map(str, value)) if badges else value

        values = [{name: plain(row.get(name)) for name in self.columns} for row in self._rows]
        return pd.DataFrame(values, columns=self.columns)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Listing: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Listing:
        if not isinstance(index, slice):
            return self._rows[index]
        texts = {"title": self.title, "empty": self.empty, "note": self.note, "kind": self.kind}
        return type(self)(self._rows[index], columns=self.columns, **texts)

    def __contains__(self, item: object) -> bool:
        """Whether the listing has a row; a string is compared with the first column (`"weather" in servers`)."""
        if isinstance(item, str) and self.columns:
            return any(row.get(self.columns[0]) == item for row in self._rows)
        return item in self._rows

    def __eq__(self, listing: object) -> bool:
        if not isinstance(listing, Listing):
            return NotImplemented
        return (self.rows, self.columns) == (listing.rows, listing.columns)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Listing of {len(self)} {self.kind or 'rows'}>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        title = shorten(self.title, 200)
        many = tag("span", f" {len(self):,}", class_="mcp-note") if len(self) > _AT_A_GLANCE else ""
        heading = Part(title, tag("p", joined([tag("b", title), many])) if title else Markup())
        notes = map(Part.note, self.note.split("\n"))  # a page joins lines of one paragraph
        if not self._rows:
            return [Part.stack(heading, Part.note(self.empty), *notes)]
        limit = document.display
        rows = self._rows[-limit.listing_rows :] if self.newest else self._rows[: limit.listing_rows]
        columns = [name for name in self.columns if any(row.get(name) not in _NOTHING for row in rows)] or self.columns
        cells = [[row.get(name) for name in columns] for row in rows]
        table, count = Part.table(columns, cells, limit=limit.bytes, newest=self.newest)
        more = len(self) - count
        rest = f"… {more:,} more {self.kind or 'rows'}: .df has all {len(self):,}" if more > 0 else ""
        return [Part.stack(heading, table, Part.note(rest), *notes)]


class Text:
    """Text (help, hints) that a cell shows exactly as written; IPython shows a `str` by its `repr`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Text of {len(self.text)} characters>"

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        return [Part.pre(self.text)]
