"""Arrays of numpy and DataFrames of Polars as tables. An object of theirs exists only after its library is imported."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from mcp_magic.display.text import one_line
from mcp_magic.values.classes import attributes, bases, class_name, loaded
from mcp_magic.values.plain import LABEL_DEPTH, cells_of
from mcp_magic.values.rows import MAX_COLUMNS, Table
from mcp_magic.values.vectors import of_array, of_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.values.vectors import Vector


class Array(Table):
    """An array of numpy: rows along its first axis, columns along the others, or the fields of its records."""

    is_array = True

    def __init__(self, array: Any) -> None:
        self._mask = attributes(array, ("_mask",)).get("_mask") if np.ma.MaskedArray in bases(type(array)) else None
        if type(self._mask) is not np.ndarray:
            self._mask = None
        self._array = np.ndarray.view(array, np.ndarray)  # of a subclass, too
        self._places: list[Any]
        if self._array.dtype.names and self._array.ndim == 1:
            count = len(self._array.dtype.names)
            self._places = list(self._array.dtype.names[:MAX_COLUMNS])
            self.columns = list(self._places)
        elif self._array.ndim == 1:
            count, self._places, self.columns = 1, [()], ["value"]
        else:
            count = math.prod(self._array.shape[1:])
            self._places = list(islice(product(*map(range, self._array.shape[1:])), MAX_COLUMNS))
            self.columns = [",".join(map(str, place)) for place in self._places]
        self.unnamed = count - len(self.columns)

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def _column(self, array: Any, position: int) -> Any:
        place = self._places[position]
        return array[place] if type(place) is str else array[(slice(None), *place)]

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        index: Any = slice(rows.start, rows.stop, rows.step) if type(rows) is range else list(rows)
        part = self._column(self._array, position)[index]
        cells = cells_of(part)
        if self._mask is None:
            return cells
        masks = self._column(self._mask, position)[index].tolist()
        return [_unmasked(cell, mask) for cell, mask in zip(cells, masks, strict=True)]

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array of one kind."""
        part = self._column(self._array, position)[rows.start : rows.stop : rows.step]
        if part.ndim != 1 or part.dtype.kind in "OV":
            return super().vector(position, rows)
        mask = None if self._mask is None else self._column(self._mask, position)[rows.start : rows.stop : rows.step]
        return of_array(part, mask)

    def dtype(self, position: int) -> str:
        """Return the type of a column."""
        return one_line(str(self._column(self._array, position).dtype), 60)

    @property
    def size(self) -> int:
        """The bytes of its values."""
        return self._array.nbytes


def _unmasked(cell: Any, mask: Any) -> Any:
    """Return a cell, of which a part may be masked if it has several values, with None for what is masked."""
    if type(mask) in (list, tuple):
        return [_unmasked(part, inner) for part, inner in zip(cell, mask, strict=True)]
    return None if mask else cell


class PolarsFrame(Table):
    """A DataFrame of Polars."""

    is_array = True

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = list(frame.columns)

    def __len__(self) -> int:
        return int(self._frame.height)

    def _part(self, position: int, rows: Sequence[int]) -> Any:
        column = self._frame.to_series(position)
        if type(rows) is range and rows.step == 1:
            return column.slice(rows.start, len(rows))
        return column.gather(list(rows))

    def cells(self, position: int, rows: Sequence[int]) -> Sequence[Any]:
        """Return the values of a column in some rows."""
        part = self._part(position, rows)
        far = {}
        if _polars_name(part.dtype) in ("Date", "Datetime"):  # a panic of Rust writes to the screen
            times = part.to_numpy()
            places = np.flatnonzero((times < _FIRST) | (times > _LAST))
            far = dict(zip(places.tolist(), map(str, times[places]), strict=True))
            part = part.scatter(list(far), None) if far else part
        cells: list[Any] = part.to_list()
        return [far.get(row, cell) for row, cell in enumerate(cells)] if far else cells

    def vector(self, position: int, rows: range) -> Vector:
        """Return the values of a column in some rows as an array of one kind."""
        part = self._part(position, rows)
        name = _polars_name(part.dtype)
        if name in _NUMBERS:
            return of_array(part.fill_null(0).to_numpy(), part.is_null().to_numpy())
        if name == "Boolean":
            return of_array(part.fill_null(value=False).to_numpy(), part.is_null().to_numpy())
        if name in ("Date", "Datetime"):
            if getattr(part.dtype, "time_zone", None) is None:
                return of_array(part.to_numpy())
            times = of_array(part.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy())
            return replace(times, shown=of_array(part.dt.replace_time_zone(None).to_numpy()).values)
        if name == "Duration":
            return of_array(part.to_numpy())
        if name in ("Categorical", "Enum"):
            part = part.cast(loaded("polars", "String"))
        return of_cells(part.to_list())

    def dtype(self, position: int) -> str:
        """Return the type of a column."""
        return one_line(_polars_text(self._frame.to_series(position).dtype), 60)

    @property
    def size(self) -> int:
        """The bytes of its columns, about."""
        return int(self._frame.estimated_size())


_FIRST, _LAST = np.datetime64("0001-01-02"), np.datetime64("9999-12-30")
"""Times that Python has in each zone."""

_NUMBERS = frozenset(["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64"])

MAX_FIELDS = 6  # fields of a struct that its type names


def _polars_name(dtype: Any) -> str:
    """Return the name of a type of Polars, without its parameters: those of an `Enum` are its categories."""
    return class_name(dtype if isinstance(dtype, type) else type(dtype))


def _polars_text(dtype: Any, depth: int = 0) -> str:
    """Return a type of Polars as text, without the values that it has."""
    name = _polars_name(dtype)
    if depth < LABEL_DEPTH and name in ("List", "Array"):
        return f"{name}({_polars_text(dtype.inner, depth + 1)})"
    if depth < LABEL_DEPTH and name == "Struct":
        fields = [f"{field.name}: {_polars_text(field.dtype, depth + 1)}" for field in dtype.fields[:MAX_FIELDS]]
        return f"{name}({', '.join(fields)}{', …' if len(dtype.fields) > MAX_FIELDS else ''})"
    return str(dtype) if name in _PLAIN_TYPES else name


_PLAIN_TYPES = _NUMBERS | {"Decimal", "Datetime", "Duration"}
"""Types of Polars whose text has parameters, and no values."""


def array_table(value: Any) -> Table | None:
    """Return an array of numpy or a table of Polars as a table; None for others."""
    kind = type(value)
    if np.ndarray in bases(kind):
        return Array(value) if np.ndarray.view(value, np.ndarray).ndim else None
    if kind is loaded("polars", "DataFrame"):
        return PolarsFrame(value)
    if kind is loaded("polars", "Series"):
        return PolarsFrame(value.to_frame(value.name or "value"))
    return None
