"""DataFrames, Series and indexes of pandas as tables.

Their own methods read them. Of a subclass the data are read, not its methods; of a column whose type is of another
package, such as geometries, only the name of the type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic.display.text import one_line
from mcp_magic.values.classes import bases, class_name, defined_in, loaded, members
from mcp_magic.values.plain import label, labels
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
        return frame_size(self._frame)


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
    return series.shape[0], series.nbytes if _is_known(series.dtype) else 8 * series.shape[0]


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
    from mcp_magic.values.vectors import of_array, of_texts

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
        return replace(categories, values=categories.values[codes], missing=missing)
    if type(dtype) is loaded("pandas", "DatetimeTZDtype"):
        return of_array(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    missing = column.isna().to_numpy()
    if type(dtype) is loaded("pandas", "StringDtype"):
        texts = column.to_numpy(object)
        return of_texts(texts, missing) if dtype.storage.startswith("pyarrow") else of_array(texts, missing)
    if type(dtype) is loaded("pandas", "SparseDtype"):
        return of_array(column.to_numpy())
    if any(type(dtype) is loaded("pandas", name) for name in _NULLABLE):
        return of_array(column.array.to_numpy(dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0)), missing)
    return None


def _cells_vector(index: Any) -> Vector:
    from mcp_magic.values.vectors import of_cells

    return of_cells(_pandas_cells(index))


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
        names = ["value" if name is None else name for name in value.names]
        return Frame(value.to_frame(index=False, name=names[0] if len(names) == 1 else labels(names)))
    return None
