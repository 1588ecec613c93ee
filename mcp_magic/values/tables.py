"""Values as tables: columns with names and types, and rows, of which only those that are read are made plain.

A `Table` refers to its value and copies nothing. Only classes that are known are read as tables, by their libraries'
own methods. Of a subclass of a DataFrame or a Series the data are read, not its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.display.document import size_text
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.values.classes import attributes, bases, class_name, defined_in, loaded
from mcp_magic.values.plain import Writer, field_names, label, labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd

    from mcp_magic.values.vectors import Vector

MAX_NAMES = 30  # most columns that a message names

SAMPLE = 1_000  # rows of a list whose cells tell the type of a column

MOST_COLUMNS = 10_000  # most columns of a list of objects


class Table(ABC):
    """A value as a table.

    Attributes:
        columns: The names of the columns, all different. Those of an index come first.
        noun: What its rows are called.
    """

    columns: list[str]
    noun = "rows"

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows; a `range` of rows is read without a copy of the others."""

    @abstractmethod
    def dtype(self, position: int) -> str:
        """Return the type of a column, in the words of its library."""

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array to compute with."""
        from mcp_magic.values.vectors import of_cells

        return of_cells(self.cells(position, rows))

    @property
    def size(self) -> int | None:
        """The bytes of its values, without those of objects and texts that it refers to; None if it is not known."""
        return None

    def position(self, name: object) -> int:
        """Return the position of a column; ArgumentsError has the valid names."""
        text = name if type(name) is str else label(name)
        if text in self._positions:
            return self._positions[text]
        near = did_you_mean(text, self.columns)
        names = join_names(self.columns, MAX_NAMES)
        raise ArgumentsError(f"no column {one_line(text, 60)!r}.{near} There are: {names}")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.columns)}

    def positions(self, names: Sequence[str]) -> list[int]:
        """Return the positions of some columns, or of all if no names are given."""
        return [self.position(name) for name in names] if names else list(range(len(self.columns)))

    def rows(self, numbers: Sequence[int], positions: Sequence[int], writer: Writer) -> list[list[Any]]:
        """Return rows as lists of JSON values."""
        columns = [[writer.plain(cell) for cell in self.cells(position, numbers)] for position in positions]
        return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in numbers]


# pandas.

_REPLACED = ("__getattribute__", "_mgr", "__dict__", "__class__")
"""Members of a subclass that would let its code run while its data are read."""

_DTYPES = (
    *("CategoricalDtype", "DatetimeTZDtype", "PeriodDtype", "IntervalDtype", "StringDtype", "BooleanDtype"),
    *("SparseDtype", "ArrowDtype", "Float32Dtype", "Float64Dtype"),
    *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
"""Types of columns of pandas itself."""


def of_pandas(value: Any, name: str) -> Any:
    """Return a value as a plain `DataFrame` or `Series` of pandas with the same data; None if it is none."""
    base = loaded("pandas", name)
    kind = type(value)
    if base is None or base not in bases(kind):
        return None
    own = bases(kind)[: bases(kind).index(base)]
    if any(name in vars(subclass) for subclass in own for name in _REPLACED):
        return None
    return base(value, copy=False)  # without `attrs`, which pandas copies with each slice


class Frame(Table):
    """A DataFrame of pandas; the index is its first columns, unless it only numbers the rows."""

    def __init__(self, frame: pd.DataFrame) -> None:
        index: Any = frame.index
        is_safe = bool(defined_in(type(index), "pandas"))
        is_plain = index.nlevels == 1 and index.names[0] is None and index.inferred_type in ("integer", "empty")
        self._frame = frame
        self._levels = 0 if is_plain or not is_safe else index.nlevels
        names = list(frame.columns) if defined_in(type(frame.columns), "pandas") else list(range(frame.shape[1]))
        self.columns = labels([*self._index_names(names), *names])

    def _index_names(self, columns: Sequence[Any]) -> list[Any]:
        """Return the names of the index's levels as `reset_index` does."""
        if self._levels == 1:
            name = self._frame.index.names[0]
            return ["index" if name is None else name]
        names = self._frame.index.names
        return [f"level_{level}" if names[level] is None else names[level] for level in range(self._levels)]

    def __len__(self) -> int:
        return self._frame.shape[0]

    def column(self, position: int) -> Any:
        """Return a column as a Series, or a level of the index."""
        if position < self._levels:
            return self._frame.index.get_level_values(position)
        return self._frame.iloc[:, position - self._levels]

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        if position < self._levels:
            index: Any = self._frame.index
            part = index[rows.start : rows.stop : rows.step] if type(rows) is range else index.take(list(rows))
            return _pandas_cells(part.get_level_values(position))
        column = self._frame.iloc[:, position - self._levels]
        part = column.iloc[rows.start : rows.stop : rows.step] if type(rows) is range else column.iloc[list(rows)]
        return _pandas_cells(part)

    def dtype(self, position: int) -> str:
        """Return the type of a column."""
        return one_line(_dtype_text(self.column(position).dtype), 60)

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array."""
        if position < self._levels:
            return super().vector(position, rows)
        column = self._frame.iloc[:, position - self._levels].iloc[rows.start : rows.stop : rows.step]
        return _pandas_vector(column) or super().vector(position, rows)

    @property
    def size(self) -> int:
        """The bytes of its columns."""
        sizes: dict[Any, int] = {}
        total = 0
        for position, dtype in enumerate(self._frame.dtypes):
            size = getattr(dtype, "itemsize", None) if _is_numpys(dtype) else None
            if size is None and len(sizes) < 20 and _is_known(dtype):
                sizes[position] = self._frame.iloc[:, position].array.nbytes
                total += sizes[position]
            else:
                total += (size or 8) * len(self._frame)
        return total


def _is_numpys(dtype: Any) -> bool:
    return loaded("numpy", "dtype") in bases(type(dtype))


def _is_known(dtype: Any) -> bool:
    return _is_numpys(dtype) or any(type(dtype) is loaded("pandas", name) for name in _DTYPES)


def _dtype_text(dtype: Any) -> str:
    if type(dtype) is loaded("pandas", "CategoricalDtype"):
        return "category"  # its text has all categories
    return str(dtype) if _is_known(dtype) else class_name(type(dtype))


def _pandas_cells(part: Any) -> list[Any]:
    """Return the values of a part of a column, None for missing ones."""
    if not _is_known(part.dtype):
        return [f"<{class_name(type(part.dtype))}>"] * len(part)
    cells = part.tolist()
    if _is_numpys(part.dtype) and part.dtype.kind == "O":
        return list(cells)
    return [None if missing else cell for cell, missing in zip(cells, part.isna(), strict=True)]


def _pandas_vector(column: Any) -> Vector | None:
    """Return a column as an array without making an object of each cell; None if that is not possible."""
    from mcp_magic.values.vectors import of_array

    dtype = column.dtype
    if _is_numpys(dtype):
        return None if dtype.kind == "O" else of_array(column.to_numpy())
    if not _is_known(dtype):
        return None
    if type(dtype) is loaded("pandas", "CategoricalDtype"):
        codes = column.array.codes
        index = column.array.categories
        if not len(index) or not defined_in(type(index), "pandas") or not _is_known(index.dtype):
            return None
        categories = _pandas_vector(index.to_series()) or _cells_vector(index)
        missing = categories.missing[codes] | (codes < 0)
        return categories._replace(values=categories.values[codes], missing=missing)
    if type(dtype) is loaded("pandas", "DatetimeTZDtype"):
        return of_array(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    missing = column.isna().to_numpy()
    if type(dtype) is loaded("pandas", "StringDtype"):
        return of_array(column.to_numpy(object), missing)
    if type(dtype) is loaded("pandas", "SparseDtype"):
        return of_array(column.to_numpy())
    if _name(dtype) in _NULLABLE:
        return of_array(column.array.to_numpy(dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)), missing)
    return None


def _cells_vector(index: Any) -> Vector:
    from mcp_magic.values.vectors import of_cells

    return of_cells(_pandas_cells(index))


def _name(dtype: Any) -> str:
    return next((name for name in _DTYPES if type(dtype) is loaded("pandas", name)), "")


_NULLABLE = frozenset(name for name in _DTYPES if name.startswith(("Boolean", "Float", "Int", "UInt"))) - {
    "IntervalDtype"
}


# Lists and dicts.


class Records(Table):
    """A list of objects with names: dicts, dataclasses or named tuples of one class."""

    def __init__(self, items: Sequence[Any], members: Callable[[Any], Mapping[str, Any]]) -> None:
        self._items, self._members = items, members
        names = dict.fromkeys(chain.from_iterable(members(item) for item in items[:MOST_COLUMNS]))
        self.columns = list(islice(names, MOST_COLUMNS))

    def __len__(self) -> int:
        return len(self._items)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows, None where an object has no such member."""
        name = self.columns[position]
        return [self._members(self._items[row]).get(name) for row in rows]

    def dtype(self, position: int) -> str:
        """Return the types of the first values of a column."""
        return types_text(self.cells(position, range(min(SAMPLE, len(self)))))


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

    def dtype(self, position: int) -> str:
        """Return the types of the first values of a column."""
        return types_text(self._values[position][:SAMPLE])


class Matrix(Table):
    """A list of lists; a shorter one has no values in the last columns."""

    def __init__(self, items: Sequence[Sequence[Any]], names: Sequence[str] = ()) -> None:
        self._items = items
        width = max(map(len, items), default=0)
        self.columns = list(names) or list(map(str, range(min(width, MOST_COLUMNS))))

    def __len__(self) -> int:
        return len(self._items)

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        items = (self._items[row] for row in rows)
        return [item[position] if position < len(item) else None for item in items]

    def dtype(self, position: int) -> str:
        """Return the types of the first values of a column."""
        return types_text(self.cells(position, range(min(SAMPLE, len(self)))))


class Lines(Lists):
    """The lines of a text, long ones in parts."""

    noun = "lines"

    def __init__(self, text: str) -> None:
        lines = [line[at : at + LINE] for line in text.splitlines() for at in range(0, max(len(line), 1), LINE)]
        super().__init__({"line": lines})


LINE = 500  # characters after which a line of a text is broken, so that a text without line ends can be read in parts


_SCALARS = frozenset([str, int, float, bool, type(None)])


def _plain_members(item: Any) -> Mapping[str, Any]:
    """Return the members of a dict by the text of their keys."""
    if all(type(key) is str for key in item):
        members: Mapping[str, Any] = item
        return members
    return {label(key): value for key, value in dict.items(item)}


def types_text(cells: Iterable[Any]) -> str:
    """Return the types of some values in words.

    >>> types_text([1, 2, None]), types_text([1, 2.5, "a"]), types_text([])
    ('int', 'float or int or str', 'empty')
    """
    kinds = {class_name(kind) for kind in set(map(type, cells)) - {type(None)}}
    return " or ".join(sorted(kinds)[:4]) or "empty"


def of_list(items: Sequence[Any]) -> Table:
    """Return a list as a table: of objects, of lists, else of one column."""
    kinds = set(map(type, islice(items, MAX_ITEMS)))
    if len(items) <= MAX_ITEMS and items and kinds == {dict}:
        return Records(items, _plain_members)
    if len(items) <= MAX_ITEMS and items and kinds <= {list, tuple} and any(items):
        return Matrix(items)
    if len(kinds) == 1 and len(items) <= MAX_ITEMS:
        [kind] = kinds
        names = field_names(kind)
        if names:
            if tuple in bases(kind):
                return Matrix(list(map(tuple.__iter__, items)), names)  # type: ignore[arg-type]
            return Records(items, lambda item: attributes(item, names))
    return Lists({"value": items})


MAX_ITEMS = 5_000_000  # most items of a list whose kinds are looked at


def of_dict(members: Mapping[Any, Any]) -> Table | None:
    """Return a dict of equally long lists, or of scalars, as a table; None for another."""
    kinds = set(map(type, members.values()))
    if kinds and kinds <= {list, tuple}:
        lengths = set(map(len, members.values()))
        if len(lengths) == 1 and len(members) <= MOST_COLUMNS and lengths != {0}:
            return Lists(dict(zip(labels(members), members.values(), strict=True)))
    if kinds and kinds <= _SCALARS:
        names = [label(key) for key in members]
        values = [
            MASK if value is not None and is_secret_name(name) else value
            for name, value in zip(names, members.values(), strict=True)
        ]
        return Lists({"key": names, "value": values})
    return None


def table_of(value: Any) -> Table | None:
    """Return a value as a table, or None if it is none."""
    kind = type(value)
    frame = of_pandas(value, "DataFrame")
    if frame is not None:
        return Frame(frame)
    series = of_pandas(value, "Series")
    if series is not None:
        return Frame(loaded("pandas", "DataFrame")({_series_name(series): series}, copy=False))
    above = bases(kind)
    if kind in (list, tuple) or (list in above):
        return of_list(value if kind is list else list(list.__iter__(value)) if list in above else value)
    if kind in (set, frozenset):
        return Lists({"value": Writer(nodes=MAX_ITEMS).plain(value)})
    if dict in above:
        return of_dict(value if kind is dict else dict(dict.items(value)))
    return None


def _series_name(series: Any) -> Any:
    return "value" if series.name is None else label(series.name)


# Values as JSON, for arguments.


def as_json(
    value: Any, columns: Sequence[str] = (), rows: Sequence[int] | None = None, *, writer: Writer | None = None
) -> Any:
    """Return a value as JSON: a table as a list of objects, a single column of values as a list.

    Args:
        value: The value.
        columns: Only these columns, in this order. They may be of an index.
        rows: Only the rows with these numbers.
        writer: The limits.

    Raises:
        ArgumentsError: The value has no such column, no rows or columns at all, or it exceeds a limit.
    """
    writer = writer or Writer(strict=True)
    table = table_of(value)
    if table is None:
        if columns or rows is not None:
            raise ArgumentsError(f"a {class_name(type(value))} has no rows and columns")
        return writer.plain(value)
    if not columns and list in bases(type(value)):  # as it is: objects may lack members
        items = list.__getitem__
        return writer.plain(value if rows is None else [items(value, row) for row in rows])
    if not columns and rows is None and type(table) is Lists:
        return writer.plain(value)
    positions = table.positions(columns)
    numbers = range(len(table)) if rows is None else rows
    names = [table.columns[position] for position in positions]
    cells = table.rows(numbers, positions, writer)
    return [dict(zip(names, row, strict=True)) for row in cells]


def shape_text(value: Any) -> str:
    """Return the shape of a value in words, such as `"10,000 rows x 3 columns (a, b, c)"`; "" for a scalar."""
    table = table_of(value)
    if table is None:
        return ""
    return f"{plural(len(table), table.noun)} x {plural(len(table.columns), 'columns')}"


def size_words(size: int | None) -> str:
    """Return a size in words, "" if it is not known."""
    return "" if size is None else size_text(size)
