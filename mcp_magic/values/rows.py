"""Rows and columns: what a table is, and lists, dicts and texts as tables.

A `Table` refers to its value and copies nothing; only the rows that are read are made plain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.values.classes import are_all, attributes, bases, class_name, kinds_of
from mcp_magic.values.plain import are_known_keys, field_names, label, labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.values.plain import Writer
    from mcp_magic.values.vectors import Vector

MAX_NAMES = 30  # most columns that a message names

SAMPLE = 1_000  # rows of a list whose cells tell the type of a column

MAX_COLUMNS = 10_000  # most columns of arrays, lists and texts that have names

MAX_SEEN = 100_000  # most keys of dicts that are remembered


class Table(ABC):
    """A value as a table.

    Attributes:
        columns: The names of the columns, all different. Those of an index come first.
        unnamed: How many columns follow that have no names, as they are too many; these cannot be read.
        noun: What its rows are called.
        is_array: Whether its columns of numbers are arrays already.
    """

    columns: list[str]
    unnamed = 0
    noun = "rows"
    is_array = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows; a `range` of rows is read without a copy of the others."""

    def dtype(self, position: int) -> str:
        """Return the type of a column: in the words of its library, or the types of its first values."""
        return types_text(self.cells(position, range(min(SAMPLE, len(self)))))

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array to compute with."""
        from mcp_magic.values.vectors import of_cells

        return of_cells(self.cells(position, rows))

    @property
    def size(self) -> int | None:
        """The bytes of its values, without those of objects and texts that it refers to; None if it is not known."""
        return None

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns) + self.unnamed

    def position(self, name: object) -> int:
        """Return the position of a column; ArgumentsError has the valid names."""
        text = name if type(name) is str else label(name)
        if text in self._positions:
            return self._positions[text]
        if self.unnamed:
            raise ArgumentsError(
                f"no column {one_line(text, 60)!r} can be named: of {self.width:,} only the first "
                f"{len(self.columns):,}, {self.columns[0]} to {self.columns[-1]}; ask the person for a part with fewer"
            )
        near = did_you_mean(text, self.columns)
        names = join_names(self.columns, MAX_NAMES)
        raise ArgumentsError(f"no column {one_line(text, 60)!r}.{near} There are: {names}")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.columns)}

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the positions of some columns, each once, or of all that have names if none are given."""
        return list(map(self.position, dict.fromkeys(names))) if names else list(range(len(self.columns)))

    def rows(self, numbers: Sequence[int], positions: Sequence[int], writer: Writer) -> list[list[Any]]:
        """Return rows as lists of JSON values; ArgumentsError if the writer takes fewer values than these are."""
        writer.reserve(len(numbers) * len(positions))
        columns = [[writer.plain(cell) for cell in self.cells(position, numbers)] for position in positions]
        return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in numbers]


# Lists and dicts.


class Records(Table):
    """A list of objects with attributes: dataclasses of one class."""

    def __init__(self, items: Sequence[Any], names: Sequence[str]) -> None:
        self._items = items
        self.columns = list(names)

    def __len__(self) -> int:
        return len(self._items)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of an attribute in some rows, None where an object has no such one."""
        names = (self.columns[position],)
        return [attributes(self._items[row], names).get(names[0]) for row in rows]


class Dicts(Table):
    """A list of dicts; the columns are the texts of their keys.

    A cell is looked up by its key: the other keys of a row are not made texts. That asks keys for `==`, so a row with
    one that would run a foreign class is searched by text instead.

    Attributes:
        is_known: Whether the first rows have no such key.
    """

    def __init__(self, items: Sequence[Mapping[Any, Any]]) -> None:
        self._items = items
        self._states = bytearray(len(items))  # of rows: 0 not looked at, 1 looked up, 2 searched
        self._seen: dict[int, Any] = {}  # known keys by `id`: rows of one source mostly share them
        self.is_known = True
        keys = dict[Any, None]()
        for row, item in enumerate(items[:MAX_COLUMNS]):
            self.is_known = self.is_known and self._is_looked_up(row)
            if not self.is_known or len(keys) >= MAX_COLUMNS:
                break
            if not item.keys() <= keys.keys():
                keys.update(dict.fromkeys(item))
        self._keys: dict[str, list[Any]] = {}
        for key in islice(keys, MAX_COLUMNS):
            self._keys.setdefault(label(key), []).append(key)
        self.columns = list(self._keys)
        self.unnamed = max(len(keys) - MAX_COLUMNS, 0)

    def _is_looked_up(self, row: int) -> bool:
        if not self._states[row]:
            item = self._items[row]
            is_known = all(map(self._seen.__contains__, map(id, item)))
            if not is_known and (is_known := are_known_keys(item)) and len(self._seen) < MAX_SEEN:
                self._seen.update(zip(map(id, item), item, strict=True))
            self._states[row] = 1 if is_known else 2
        return self._states[row] == 1

    def __len__(self) -> int:
        return len(self._items)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows, None where a dict has no such member."""
        name = self.columns[position]
        keys = self._keys[name]
        cells = []
        for row in rows:
            item = self._items[row]
            if not self._is_looked_up(row):
                cells.append(next((value for key, value in item.items() if label(key) == name), None))
            elif len(keys) == 1:
                cells.append(item.get(keys[0]))
            else:
                cells.append(next((item[key] for key in keys if key in item), None))
        return cells


class Lists(Table):
    """Columns as sequences of equal length."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = list(columns)
        self._values = list(columns.values())

    def __len__(self) -> int:
        return len(self._values[0]) if self._values else 0

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        values = self._values[position]
        if type(rows) is range:
            return values[rows.start : rows.stop : rows.step]
        return [values[row] for row in rows]


class Matrix(Table):
    """A list of lists; a shorter one has no values in the last columns."""

    def __init__(self, items: Sequence[Sequence[Any]], names: Sequence[str] = ()) -> None:
        self._items = items
        width = max(map(len, items), default=0)
        self.columns = list(names) or list(map(str, range(min(width, MAX_COLUMNS))))
        self.unnamed = 0 if names else width - len(self.columns)

    def __len__(self) -> int:
        return len(self._items)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        items = (self._items[row] for row in rows)
        return [item[position] if position < len(item) else None for item in items]


_SCALARS = (str, int, float, bool, type(None))


def types_text(cells: Iterable[Any]) -> str:
    """Return the types of some values in words.

    >>> types_text([1, 2, None]), types_text([1, 2.5, "a"]), types_text([])
    ('int', 'float or int or str', 'empty')
    """
    names = {class_name(kind) for kind in kinds_of(cells) if kind is not type(None)}
    return " or ".join(sorted(names)[:4]) or "empty"


def of_list(items: Sequence[Any]) -> Table:
    """Return a list as a table: of objects, of lists, else of one column."""
    if not 0 < len(items) <= MAX_ITEMS:
        return Lists({"value": items})
    if are_all(items, dict):
        dicts = Dicts(items)
        return dicts if dicts.is_known else Lists({"value": items})
    if are_all(items, list, tuple) and any(items):
        return Matrix(items)
    kind = type(items[0])
    names = field_names(kind)
    if names and are_all(items, kind):
        if tuple in bases(kind):
            return Matrix([tuple.__getitem__(item, slice(None)) for item in items], names)
        return Records(items, names)
    return Lists({"value": items})


MAX_ITEMS = 5_000_000  # most items of a list whose kinds are looked at


def of_dict(members: Mapping[Any, Any]) -> Table | None:
    """Return a dict of equally long lists, or of scalars, as a table; None for another."""
    if members and are_all(members.values(), list, tuple):
        lengths = set(map(len, members.values()))
        if len(lengths) == 1 and len(members) <= MAX_COLUMNS and lengths != {0}:
            return Lists(dict(zip(labels(members), members.values(), strict=True)))
    if members and are_all(members.values(), *_SCALARS):
        names = [label(key) for key in members]
        values = [
            MASK if value is not None and is_secret_name(name) else value
            for name, value in zip(names, members.values(), strict=True)
        ]
        return Lists({"key": names, "value": values})
    return None
