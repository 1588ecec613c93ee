"""DataFrames, Series and indexes of pandas as tables.

Their own methods read them. Of a subclass the data are read, not its methods; of a column whose type is of another
package, such as geometries, only the name of the type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic.display.text import one_line
from mcp_magic.values.classes import are_all, bases, class_name, defined_in, loaded, members
from mcp_magic.values.plain import is_zone, label, labels
from mcp_magic.values.rows import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from mcp_magic.values.vectors import Vector

_REPLACED = ("__getattribute__", "_mgr", "__dict__", "__class__")
"""Members of a subclass that would let its code run while its data are read."""

_NULLABLE = (
    *("BooleanDtype", "Float32Dtype", "Float64Dtype"),
    *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
"""Types of columns of numbers and truth values with a mask."""

_DTYPES = (
    *("CategoricalDtype", "DatetimeTZDtype", "PeriodDtype", "IntervalDtype", "StringDtype"),
    *("SparseDtype", "ArrowDtype", *_NULLABLE),
)
"""Types of columns of pandas itself."""


def of_pandas(value: Any, name: str) -> Any:
    """Return a value as a plain `DataFrame` or `Series` of pandas with the same data; None if it is none."""
    base = loaded("pandas", name)
    kind = type(value)
    if base is None or base not in bases(kind):
        return None
    if kind is base and not value.attrs:
        return value
    own = bases(kind)[: bases(kind).index(base)]
    if any(name in members(subclass) for subclass in own for name in _REPLACED):
        return None
    return base(value, copy=False)  # without `attrs`, which pandas copies with each slice


class Frame(Table):
    """A DataFrame of pandas; the index is its first columns, unless it only numbers the rows."""

    is_array = True

    def __init__(self, frame: pd.DataFrame) -> None:
        index: Any = frame.index
        numbers: Any = loaded("pandas", "RangeIndex")
        count = len(frame.columns)
        names = list(frame.columns) if defined_in(type(frame.columns), "pandas") else list(range(count))
        if not are_all(names, str, int):  # pandas compares the names of columns, which may be any objects
            frame = frame.copy(deep=False)
            frame.columns = numbers(count)
        if not defined_in(type(index), "pandas") or (index.nlevels == 1 and not _is_known(index.dtype)):
            frame = frame.copy(deep=False)
            frame.index = index = numbers(len(index))
        self._frame = frame
        self._levels = 0 if _only_numbers(index) else index.nlevels
        self.columns = labels([*self._index_names(index.names), *names])

    def _index_names(self, names: Sequence[Any]) -> list[Any]:
        """Return the names of the index's levels as `reset_index` does."""
        if self._levels == 1:
            return ["index" if names[0] is None else names[0]]
        return [f"level_{level}" if names[level] is None else names[level] for level in range(self._levels)]

    def _dtype(self, position: int) -> Any:
        """Return the type of a column, or of the values of a level."""
        if position >= self._levels:
            return self._frame.dtypes.iloc[position - self._levels]
        index: Any = self._frame.index
        return index.dtype if index.nlevels == 1 else index.levels[position].dtype

    def __len__(self) -> int:
        return self._frame.shape[0]

    def _part(self, position: int, rows: Sequence[int]) -> Any:
        """Return some rows of a column, or of a level of the index."""
        if position < self._levels:
            index: Any = self._frame.index
            part = index[rows.start : rows.stop : rows.step] if type(rows) is range else index.take(list(rows))
            return part.get_level_values(position)
        column = self._frame.iloc[:, position - self._levels]
        return column.iloc[rows.start : rows.stop : rows.step] if type(rows) is range else column.iloc[list(rows)]

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        if not _is_known(dtype := self._dtype(position)):
            return [dtype] * len(rows)  # each is written as the name of its class, or has no JSON form
        return _pandas_cells(self._part(position, rows))

    def dtype(self, position: int) -> str:
        """Return the type of a column."""
        return one_line(_dtype_text(self._dtype(position)), 60)

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array."""
        if not _is_known(self._dtype(position)):
            return super().vector(position, rows)
        return _pandas_vector(self._part(position, rows)) or super().vector(position, rows)

    @property
    def size(self) -> int | None:
        """The bytes of its columns."""
        return frame_size(self._frame) if self._frame.shape[1] else None


def _only_numbers(index: Any) -> bool:
    """Whether an index has no name, and only numbers its rows."""
    if index.nlevels > 1 or index.names[0] is not None:
        return False
    return are_all(index.tolist(), int) if index.dtype.kind == "O" else index.dtype.kind in "iu"


def frame_size(frame: pd.DataFrame) -> int:
    """Return the bytes of a DataFrame's columns, without those of objects that they refer to, by cheap means."""
    count = frame.shape[0]
    total = arrays = 0
    for position, dtype in enumerate(frame.dtypes):
        if _is_numpys(dtype):
            total += dtype.itemsize * count
        elif arrays < MAX_ARRAYS and _is_known(dtype):
            arrays += 1
            total += frame.iloc[:, position].array.nbytes
        else:
            total += 8 * count
    return total


MAX_ARRAYS = 20  # columns of pandas' own types that are asked for their size


def series_outline(value: Any) -> tuple[int, int] | None:
    """Return the rows and the bytes of a Series, without making a table of it; None for other values."""
    series = of_pandas(value, "Series")
    if series is None:
        return None
    count = len(series.index)
    return count, series.nbytes if _is_known(series.dtype) else 8 * count


def _is_numpys(dtype: Any) -> bool:
    return loaded("numpy", "dtype") in bases(type(dtype))


def _is_known(dtype: Any) -> bool:
    return _is_numpys(dtype) or any(type(dtype) is loaded("pandas", name) for name in _DTYPES)


def _dtype_text(dtype: Any) -> str:
    if type(dtype) is loaded("pandas", "CategoricalDtype"):
        return "category"  # its text has all categories
    if type(dtype) is loaded("pandas", "SparseDtype"):
        return f"Sparse[{_dtype_text(dtype.subtype)}]"  # its text has the value that most cells have
    if type(dtype) is loaded("pandas", "IntervalDtype"):
        return f"interval[{_dtype_text(dtype.subtype)}, {dtype.closed}]"
    if _has_foreign_zone(dtype):
        return f"datetime64[{dtype.unit}, {class_name(type(dtype.tz))}]"
    return str(dtype) if _is_known(dtype) else class_name(type(dtype))


def _has_foreign_zone(dtype: Any) -> bool:
    return type(dtype) is loaded("pandas", "DatetimeTZDtype") and not is_zone(type(dtype.tz))


def _pandas_cells(part: Any) -> list[Any]:
    """Return the values of a part of a column or of an index, None for missing ones."""
    if _has_foreign_zone(part.dtype):
        part = getattr(part, "dt", part).tz_convert("UTC")
    cells = part.tolist()
    if _is_numpys(part.dtype) and part.dtype.kind == "O":
        return list(cells)
    return [None if missing else cell for cell, missing in zip(cells, part.isna(), strict=True)]


def _pandas_vector(column: Any) -> Vector | None:
    """Return a column or an index as an array, without an object for each cell; None if that is not possible."""
    from mcp_magic.values.vectors import of_array, of_texts

    dtype = column.dtype
    if _is_numpys(dtype):
        return None if dtype.kind == "O" else of_array(column.to_numpy())
    if not _is_known(dtype):
        return None
    column = loaded("pandas", "Series")(column.array, copy=False)  # of an index, too
    if type(dtype) is loaded("pandas", "CategoricalDtype"):
        return _of_categories(column)
    if type(dtype) is loaded("pandas", "DatetimeTZDtype"):
        times = of_array(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        if _has_foreign_zone(dtype):
            return times
        return replace(times, shown=of_array(column.dt.tz_localize(None).to_numpy()).values)
    missing = column.isna().to_numpy()
    if type(dtype) is loaded("pandas", "PeriodDtype"):
        return of_texts(column.astype(str).to_numpy(object), missing)
    if type(dtype) is loaded("pandas", "StringDtype"):
        texts = column.to_numpy(object)
        return of_texts(texts, missing) if dtype.storage.startswith("pyarrow") else of_array(texts, missing)
    if type(dtype) is loaded("pandas", "SparseDtype"):
        return of_array(column.to_numpy())
    if any(type(dtype) is loaded("pandas", name) for name in _NULLABLE):
        return of_array(column.array.to_numpy(dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)), missing)
    return None


def _of_categories(column: Any) -> Vector | None:
    from mcp_magic.values.vectors import of_cells

    codes = column.array.codes
    index = column.array.categories
    if not len(index) or not defined_in(type(index), "pandas") or not _is_known(index.dtype):
        return None
    categories = _pandas_vector(index) or of_cells(_pandas_cells(index))
    missing = categories.missing[codes] | (codes < 0)
    shown = None if categories.shown is None else categories.shown[codes]
    return replace(categories, values=categories.values[codes], missing=missing, shown=shown)


def frame_table(value: Any) -> Table | None:
    """Return a DataFrame, a Series or an index as a table; None for another value."""
    frame = of_pandas(value, "DataFrame")
    if frame is not None:
        return Frame(frame)
    series = of_pandas(value, "Series")
    if series is not None:
        name = "value" if series.name is None else label(series.name)
        return Frame(loaded("pandas", "DataFrame")({name: series}, copy=False))
    index = loaded("pandas", "Index")
    if index is not None and index in bases(type(value)) and defined_in(type(value), "pandas"):
        names = ["value" if name is None else label(name) for name in value.names]
        return Frame(loaded("pandas", "DataFrame")(index=value.set_names(labels(names))))
    return None
