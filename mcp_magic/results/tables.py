"""Finding rows in JSON values.

A `Rows` says where rows are and in which layout, without touching more of them than it must: display
looks at the first ones only, and a DataFrame is made in one pass of pandas over what the server sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

__all__ = ["Columns", "Matrix", "Records", "Rows", "describe", "find_rows"]

_SCALARS = {str, int, float, bool, type(None)}
_NAMES = ("columns", "headers", "header", "fields")
_VALUES = ("data", "rows", "values", "records")
_SAMPLE = 50
"""Rows looked at when rows are only wanted for display."""

_NAMED = 5
"""Members of an object that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Where rows were found.

    Attributes:
        member: The member of the object that holds them, "" if the value itself does.
        single: Whether this is one object read as one row: a DataFrame for who asks, not for display.
    """

    member: str = ""
    single: bool = False

    def count(self) -> int | None:
        """The number of rows, or None if counting them means reading them."""
        raise NotImplementedError

    def head(self, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The column names and the first rows."""
        raise NotImplementedError

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


def find_rows(data: Any, *, sample: bool = False) -> Rows | None:
    """Return where the rows of a JSON value are, or None if it has none.

    Rows are a list of objects, an object of equally long lists, a list of equally long lists (the first
    one names the columns if it alone is all text), names and rows side by side (`{"columns": [...],
    "data": [[...]]}`), a list of scalars (a column "value"), or an object with exactly one list of
    objects. A single flat object is one row.

    Args:
        data: The value.
        sample: Judge by the first rows alone, as display does.

    >>> find_rows([{"a": 1}, {"a": 2}]).head(1)
    (['a'], [[1]])
    >>> find_rows({"total": 2, "rows": [{"a": 1}]}).member
    'rows'
    >>> find_rows(42) is None
    True
    """
    if isinstance(data, list):
        return _in_list(data, sample)
    if isinstance(data, dict) and data:
        return _split(data, sample) or _only_member(data, sample) or _columns(data, sample) or _single(data)
    return None


def _types(values: Iterable[Any], sample: bool) -> set[type]:
    return set(map(type, islice(values, _SAMPLE) if sample else values))


def _in_list(values: list[Any], sample: bool) -> Rows | None:
    types = _types(values, sample)
    if types <= {dict}:
        return Records(values=values)
    if types <= _SCALARS:
        return Columns(values={"value": values})
    if types <= {list, tuple} and len(set(map(len, islice(values, _SAMPLE) if sample else values))) == 1:
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


def _split(data: dict[str, Any], sample: bool) -> Rows | None:
    """Names and rows side by side, as pandas' orient="split", SQL services and spreadsheets have it."""
    names = next((data[key] for key in _NAMES if isinstance(data.get(key), list)), None)
    found = [(key, data[key]) for key in _VALUES if isinstance(data.get(key), list)]
    if not names or len(found) != 1 or not _types(names, sample=False) <= {str} or len(set(names)) != len(names):
        return None
    member, values = found[0]
    shown = islice(values, _SAMPLE) if sample else values
    if _types(values, sample) <= {list, tuple} and set(map(len, shown)) == {len(names)}:
        return Matrix(values=values, names=names, member=member)
    return None


def _only_member(data: dict[str, Any], sample: bool) -> Rows | None:
    """The one list of objects among the members; an empty list counts if no other member is a list."""
    lists = {key: value for key, value in data.items() if isinstance(value, list)}
    full = [key for key, value in lists.items() if value and _types(value, sample) == {dict}]
    if len(full) == 1:
        return Records(values=lists[full[0]], member=full[0])
    if len(lists) == 1 and not next(iter(lists.values())):
        return Records(values=[], member=next(iter(lists)))
    return None


def _columns(data: dict[str, Any], sample: bool) -> Rows | None:
    values = list(data.values())
    if _types(values, sample=False) != {list} or len(set(map(len, values))) != 1 or not values[0]:
        return None
    if all(_types(column, sample) <= _SCALARS for column in values):
        return Columns(values=data)
    return None


def _single(data: dict[str, Any]) -> Rows | None:
    if _types(data.values(), sample=False) <= _SCALARS:
        return Records(values=[data], single=True)
    return None


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
