"""Which parts of a JSON value are tables: the one rule, for `.df`, `.frames` and the display.

A `Rows` says where rows are and in which layout, without touching more of them than it must: display
looks at the first ones only, and a DataFrame is made in one pass of pandas over what the server sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

__all__ = ["Columns", "Matrix", "Records", "Rows", "check_shape", "describe", "find_rows", "find_tables", "meant"]

MAX_COLUMNS = 5_000
"""Columns of a DataFrame; pandas takes seconds to name more of them."""

MAX_CELLS = 1_000_000
"""Cells of a DataFrame that is mostly empty: a row gets the columns of all others, a megabyte can ask for billions."""

_SCALARS = {str, int, float, bool, type(None)}
_NAMES = ("columns", "headers", "header", "fields")
_NAME = ("name", "id", "key", "field", "label", "title", "column_name")
"""The members that name a column where it is described by an object."""
_VALUES = ("data", "rows", "values", "records")
_PAYLOAD = frozenset([*_VALUES, "items", "results", "result", "entries", "hits", "matches"])
"""Members that hold what was asked for."""
_ASIDE = frozenset(["errors", "warnings", "notices", "notes", "hints"])
"""Members that say something about the answer."""
_COUNTING = re.compile("count|total|number|num|size|length|of|[_-]")
"""What a member's name has beside that of the list whose length it is."""

_DEEPEST = 6
"""Objects in objects that are looked into."""

_MOST = 50
"""Tables of one value."""

_NAMED = 5
"""Members of an object that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Where rows were found.

    Attributes:
        path: The members of the value that lead to them, () if it holds them itself.
        single: Whether this is one object read as one row: a DataFrame for who asks, not for display.
        keyed: Whether they are the members of an object, whose names are the first column.
        weak: Whether a list of objects beside them is the table rather than these.
    """

    path: tuple[str, ...] = ()
    single: bool = False
    keyed: bool = False
    weak: bool = False

    def count(self) -> int | None:
        """The number of rows, or None if counting them means reading them."""
        raise NotImplementedError

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        raise NotImplementedError

    def shape(self) -> tuple[int, int, int]:
        """The rows and columns of `frame()`, and how many of its cells were sent."""
        rows, columns = self.count() or 0, len(self.head(1)[0])
        return rows, columns, rows * columns

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Records(Rows):
    """A list of objects."""

    values: list[dict[str, Any]]

    def count(self) -> int:
        """The number of rows."""
        return len(self.values)

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        first = self.values[:limit]
        names = list(dict.fromkeys(name for record in first for name in record))
        return [str(name) for name in names], [[record.get(name) for name in names] for record in first]

    def shape(self) -> tuple[int, int, int]:
        """The rows and columns of `frame()`, and how many of its cells were sent."""
        columns = len(set[str]().union(*self.values))
        return len(self.values), columns, sum(map(len, self.values))

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        return pd.DataFrame(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(Rows):
    """An object of lists of one length."""

    values: dict[str, list[Any]]

    def count(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values.values())))

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        columns = [column[:limit] for column in self.values.values()]
        return [str(name) for name in self.values], [list(row) for row in zip(*columns, strict=True)]

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        return pd.DataFrame(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Rows):
    """A list of lists of one length, with the names of the columns or without."""

    values: list[list[Any]]
    names: list[str] | None = None

    def count(self) -> int:
        """The number of rows."""
        return len(self.values)

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        first = [list(row) for row in self.values[:limit]]
        return self.names or [str(i) for i in range(len(first[0]))], first

    def frame(self) -> pd.DataFrame:
        """All rows, with the types that pandas infers."""
        import pandas as pd

        return pd.DataFrame(self.values, columns=self.names)


def check_shape(rows: int, columns: int, sent: int) -> None:
    """Refuse a DataFrame that would take all memory.

    Raises:
        ValueError: It would.
    """
    if columns > MAX_COLUMNS:
        raise ValueError(f"{columns:,} columns; a DataFrame gets at most {MAX_COLUMNS:,}. .data or .text has them")
    if rows * columns > max(MAX_CELLS, 4 * sent):
        raise ValueError(
            f"{rows:,} rows x {columns:,} columns, of which {sent:,} cells were sent; "
            "a DataFrame would fill the memory with empty ones. .data or .text has them"
        )


def find_tables(data: Any) -> list[Rows]:
    """Return all tables of a JSON value, in their order; if there is none, the value itself where it is one row.

    These are tables:

    - a list of objects; a list of equally long lists, whose first one names the columns if it alone is all
      text; a list of scalars (a column "value")
    - names and rows side by side: `{"columns": ["a"], "rows": [[1]]}`, the names as text or as `{"name": "a"}`
    - an object of equally long lists; beside scalars two of them or more, with a number in one of them
    - an object of objects that have the same members: a row each, with its name in the first column
    - any of these as a member of an object, or of an object in it. A list of scalars or of lists is one there
      only if the member's name says so ("results", "data") or a count beside it has its length; an empty list
      also if there is nothing else.

    >>> [rows.path for rows in find_tables({"a": [{"x": 1}], "b": {"c": [{"y": 2}]}})]
    [('a',), ('b', 'c')]
    >>> find_tables({"name": "x", "tags": [], "n": 1})[0].head(1)
    (['name', 'tags', 'n'], [['x', [], 1]])
    """
    rows = _in_list(data) if isinstance(data, list) else None
    if rows is not None:
        return [rows]
    if not isinstance(data, dict) or not data:
        return []
    return list(islice(_in_object(data, 0), _MOST)) or _one_row(data)


def meant(tables: Sequence[Rows]) -> list[Rows]:
    """Return the table that stands for the whole value, or all between which nothing decides.

    A member called "results", "data" or the like goes before others, what has rows before what has none, a list of
    objects before the weak forms, and the outer before the inner; warnings and errors come last.

    >>> [rows.path for rows in meant(find_tables({"results": [], "warnings": [{"code": 1}]}))]
    [('results',)]
    >>> [rows.path for rows in meant(find_tables({"a": [{"x": 1}], "b": [{"y": 2}]}))]
    [('a',), ('b',)]
    """
    left = list(tables)
    left = [rows for rows in left if not _ASIDE.intersection(rows.path)] or left
    left = [rows for rows in left if _PAYLOAD.intersection(rows.path)] or left
    left = [rows for rows in left if rows.count() != 0] or left
    left = [rows for rows in left if not rows.weak] or left
    outermost = min((len(rows.path) for rows in left), default=0)
    return [rows for rows in left if len(rows.path) == outermost]


def find_rows(data: Any) -> Rows | None:
    """Return the table of a JSON value, or None if it has none or several.

    >>> find_rows([{"a": 1}, {"a": 2}]).head(1)
    (['a'], [[1]])
    >>> find_rows({"total": 2, "rows": [{"a": 1}]}).path
    ('rows',)
    >>> find_rows(42) is None
    True
    """
    found = meant(find_tables(data))
    return found[0] if len(found) == 1 else None


def _types(values: Iterable[Any]) -> set[type]:
    return set(map(type, values))


def _in_list(values: list[Any]) -> Rows | None:
    types = _types(values)
    if types <= {dict}:
        return Records(values=values)
    if types <= _SCALARS:
        return Columns(values={"value": values})
    if types <= {list, tuple} and len(set(map(len, values))) == 1:
        return _matrix(values) if values[0] else None
    return None


def _matrix(values: list[list[Any]]) -> Matrix:
    first = values[0]
    is_header = (
        len(values) > 1
        and all(isinstance(name, str) and name for name in first)
        and len(set(first)) == len(first)
        and any(not isinstance(value, str) for value in values[1])
    )
    return Matrix(values=values[1:], names=list(first)) if is_header else Matrix(values=values)


def _in_object(data: dict[str, Any], depth: int) -> Iterator[Rows]:
    own = _split(data) or _columns(data, depth) or _keyed(data)
    if own is not None:
        yield own
        return
    counts = _counts(data)
    lists_alone = all(key in _ASIDE or value == [] or _holds_objects(value) for key, value in data.items())
    for name, value in data.items():
        inner: Iterable[Rows] = ()
        if isinstance(value, list):
            is_payload = str(name).lower() in _PAYLOAD or _is_counted(str(name), counts.get(len(value), ()))
            rows = _in_member(name, value, is_payload=is_payload or (not value and lists_alone))
            inner = () if rows is None else (rows,)
        elif isinstance(value, dict) and value and depth < _DEEPEST:
            inner = _in_object(value, depth + 1)
        for rows in inner:
            yield replace(rows, path=(str(name), *rows.path))


def _split(data: dict[str, Any]) -> Rows | None:
    """Names and rows side by side, as pandas' orient="split", SQL services and spreadsheets have it."""
    described = next((data[key] for key in _NAMES if isinstance(data.get(key), list)), None)
    found = [(key, data[key]) for key in _VALUES if isinstance(data.get(key), list)]
    names = [_column_name(column) for column in described or ()]
    if not names or len(found) != 1 or "" in names or len(set(names)) != len(names):
        return None
    member, values = found[0]
    types = _types(values)
    if values and types == {dict}:
        return Records(values=values, path=(member,))
    lengths = set(map(len, values)) if types <= {list, tuple} else set()
    if values and (len(lengths) != 1 or min(lengths) < len(names)):
        return None
    unnamed = [f"Unnamed: {index}" for index in range(len(names), max(lengths, default=0))]
    return Matrix(values=values, names=[*names, *unnamed], path=(member,))


def _column_name(column: Any) -> str:
    if isinstance(column, dict):
        column = next((column[key] for key in _NAME if isinstance(column.get(key), str)), "")
    return column if isinstance(column, str) else ""


def _columns(data: dict[str, Any], depth: int) -> Rows | None:
    """Equally long lists of scalars; beside anything else a list alone is a value like the others."""
    lists = {name: value for name, value in data.items() if isinstance(value, list)}
    columns = list(lists.values())
    if not columns or not columns[0] or len(set(map(len, columns))) != 1:
        return None
    if depth and len(columns) == 1:
        return None
    types = [_types(column) for column in columns]
    if not all(kinds <= _SCALARS for kinds in types):
        return None
    if len(lists) < len(data):
        others = [value for value in data.values() if not isinstance(value, list)]
        flat = all(type(v) in _SCALARS or (isinstance(v, dict) and _types(v.values()) <= _SCALARS) for v in others)
        numbers = any(kinds & {int, float} for kinds in types)
        if not (flat and numbers and len(columns) > 1 and len(columns[0]) > 1):
            return None
    elif _ASIDE.intersection(lists) and not lists.keys() <= _ASIDE:
        return None
    return Columns(values=lists)


def _keyed(data: dict[str, Any]) -> Rows | None:
    """Objects that are alike, under names of their own."""
    if len(data) < 2 or _types(data.values()) != {dict}:
        return None
    names = [set(member) for member in data.values()]
    common, every = set.intersection(*names), set.union(*names)
    if 2 * len(common) < len(every):
        return None
    if not any(all(type(member[name]) in _SCALARS for member in data.values()) for name in common):
        return None
    if any(_holds_objects(value) for member in data.values() for name, value in member.items() if name not in common):
        return None
    key = "key"
    while key in every:
        key += "_"
    return Records(values=[{key: name} | member for name, member in data.items()], keyed=True, weak=True)


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _in_member(name: str, values: list[Any], *, is_payload: bool) -> Rows | None:
    """Return the rows of a list that is a member of an object, if it is more than one of the object's values."""
    if values and _types(values) == {dict}:
        return Records(values=values)
    if not is_payload:
        return None
    rows = _in_list(values) if values else Records(values=[])
    if isinstance(rows, Columns):
        return Columns(values={name: values}, weak=True)
    return replace(rows, weak=bool(values)) if rows is not None else None


def _counts(data: dict[str, Any]) -> dict[int, set[str]]:
    """Return what an object says it has how many of, by their number.

    >>> _counts({"total": 0, "cityCount": 0, "cities": [], "population": 7})[0] == {"", "city"}
    True
    """
    counts: dict[int, set[str]] = {}
    for name, value in data.items():
        if type(value) is int and _COUNTING.search(lower := str(name).lower()):
            names = counts.setdefault(value, set())
            if len(names) < _MOST:
                names.add(_COUNTING.sub("", lower))
    return counts


def _is_counted(name: str, counted: Iterable[str]) -> bool:
    lower = name.lower()
    return any(
        what in ("", "row") or what in _PAYLOAD or (len(what) > 2 and lower.startswith(what)) for what in counted
    )


def _one_row(data: dict[str, Any]) -> list[Rows]:
    """Return an object as one row if it is flat: scalars, and lists of them; else the flat object that it boxes."""
    if _is_flat(data):
        return [Records(values=[data], single=True)]
    boxed = [name for name, value in data.items() if name in _PAYLOAD and isinstance(value, dict) and _is_flat(value)]
    return [Records(values=[data[boxed[0]]], single=True, path=(boxed[0],))] if len(boxed) == 1 else []


def _is_flat(data: dict[str, Any]) -> bool:
    lists = [value for value in data.values() if isinstance(value, list)]
    plain = [value for value in data.values() if not isinstance(value, list)]
    return bool(plain) and {*map(type, plain)} <= _SCALARS and all(_types(each) <= _SCALARS for each in lists)


_NOUNS = {str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def describe(data: Any) -> str:
    """Return what a JSON value is, for the message that it holds no table.

    >>> describe({"a": {}, "b": []}), describe([1, {}]), describe(3)
    ('an object with a, b', 'a list of 2 values of different kinds', 'a number')
    """
    if isinstance(data, dict):
        from ..errors import listed
        from .safe import one_line

        names = [one_line(str(key), 40) for key in islice(data, _NAMED)] + list(data)[_NAMED:]  # those are only counted
        return f"an object with {listed(names, limit=_NAMED)}" if data else "an empty object"
    if isinstance(data, list):
        return f"a list of {len(data):,} values of different kinds"
    return _NOUNS.get(type(data), type(data).__name__)
