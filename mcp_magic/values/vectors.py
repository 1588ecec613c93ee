"""Columns as arrays of one kind, to compute with: numbers, texts, times, or true and false, and which are missing.

Cells of objects are told by their exact type, so that nothing of them runs. A duration is its seconds, and a time of
day a text. What is neither number, text, time nor truth value can only be asked whether it is missing.
"""

from __future__ import annotations

import datetime
import decimal
import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mcp_magic.values.classes import bases, defined_in, is_among, kinds_of, loaded
from mcp_magic.values.plain import is_missing_mark, is_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Kind = Literal["number", "text", "time", "truth", "mixed", "other"]
"""Mixed values are of several kinds; other ones are of none, and cannot be compared."""

_CLASSES: dict[Kind, tuple[type, ...]] = {
    "number": (int, float, decimal.Decimal, datetime.timedelta),
    "truth": (bool,),
    "text": (str, datetime.time),
    "time": (datetime.datetime, datetime.date),
}
"""Kind -> classes of Python whose objects are of it."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of a column or of an expression.

    Attributes:
        kind: What they are.
        values: An array of int64, float64, bool, datetime64[us], or of objects for texts and mixed values.
        missing: An array that is true where there is no value; what `values` has there means nothing.
        shown: Of times with a zone, whose `values` are in UTC, what a clock there shows; None of others.
    """

    kind: Kind
    values: np.ndarray[Any, Any]
    missing: np.ndarray[Any, Any]
    shown: np.ndarray[Any, Any] | None = None

    @property
    def local(self) -> Vector:
        """The times as they are shown, without zones."""
        return self if self.shown is None else replace(self, values=self.shown, shown=None)

    def of_kind(self, kind: Kind) -> Vector | None:
        """Return the values of a kind, others as missing; None if a column of this kind has none of that."""
        if self.kind == kind:
            return self
        if self.kind == "mixed":
            picked = _picked(self.values, kind)
            return replace(picked, missing=picked.missing | self.missing)
        if self.kind == "truth" and kind == "number":
            return Vector("number", self.values.astype("int64"), self.missing)
        return None


def of_cells(cells: Sequence[Any]) -> Vector:
    """Return Python objects as a vector, of one kind if all of them are."""
    array = np.fromiter(cells, object, len(cells))
    kinds = kinds_of(cells)
    if is_among(float, kinds):
        kinds = kinds_of(cell for cell in cells if not (type(cell) is float and cell != cell))
    classes = [kind for kind in kinds if kind is not type(None)]
    for kind, own in _CLASSES.items():
        if all(is_among(item, own) or (kind == "time" and item is loaded("pandas", "Timestamp")) for item in classes):
            return _picked(array, kind)
    mixed: Kind = "mixed" if any(map(_is_of_a_kind, classes)) else "other"
    return Vector(mixed, array, np.fromiter(map(_is_missing, array), bool, len(array)))


def _is_of_a_kind(kind: type) -> bool:
    """Whether cells of a class can be compared."""
    is_known = any(is_among(kind, own) for own in _CLASSES.values()) or _is_numpys(kind) or _is_text(kind)
    return is_known or kind is loaded("pandas", "Timestamp") or kind is loaded("pandas", "Timedelta")


def of_array(array: np.ndarray[Any, Any], missing: Any = None) -> Vector:
    """Return an array of numpy with one axis as a vector."""
    nothing = np.zeros(len(array), bool) if missing is None else np.asarray(missing, bool)
    kind = array.dtype.kind
    if kind == "b":
        return Vector("truth", array, nothing)
    if kind in "iu":
        return Vector("number", array, nothing)
    if kind == "f":
        values = array.astype("float64", copy=False)
        return Vector("number", values, nothing | np.isnan(values))
    if kind == "M":
        unit, _ = np.datetime_data(array.dtype)
        if unit in _COARSE:  # microseconds do not have all of their years
            array = np.clip(array, *FAR_YEARS.astype(array.dtype))
        return Vector("time", array.astype("datetime64[us]"), nothing | np.isnat(array))
    if kind == "m":  # in seconds
        seconds = array.astype("timedelta64[us]").astype("float64") / 1e6
        return Vector("number", seconds, nothing | np.isnat(array))
    if kind == "U":
        return Vector("text", array.astype(object), nothing)
    if kind == "O":
        if missing is not None:
            array = array.copy()
            array[nothing] = None
        return of_cells(array)  # type: ignore[arg-type]
    return Vector("other", np.full(len(array), "", object), nothing)


_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms")
FAR_YEARS = np.array(["-200000", "200000"], "datetime64[Y]")
"""They stand for all that are farther."""


def of_texts(array: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> Vector:
    """Return an array of objects as a vector: all that are not missing are of the class `str` itself."""
    values = array.copy()
    values[missing] = ""
    return Vector("text", values, missing)


def _is_missing(cell: Any) -> bool:
    return cell is None or (type(cell) is float and cell != cell) or is_missing_mark(cell)


def _picked(cells: np.ndarray[Any, Any], kind: Kind) -> Vector:
    """Return the cells of a kind as an array, and others as missing."""
    pick, fill, dtype = _PICKS[kind]
    picks = [pick(cell) for cell in cells]
    missing = np.fromiter((value is None for value in picks), bool, len(picks))
    if kind == "number" and not any(type(value) is float for value in picks):
        try:
            return Vector(kind, np.array([0 if v is None else v for v in picks], "int64"), missing)
        except OverflowError:  # Python compares larger ones exactly
            dtype = object
    values = np.fromiter((fill if value is None else value for value in picks), dtype, len(picks))
    times = cells[~missing] if kind == "time" else ()
    if any(map(_has_zone, times)):
        shown = values.copy()
        shown[~missing] = [_time(_without_zone(cell)) for cell in times]
        return Vector(kind, values, missing, shown)
    return Vector(kind, values, missing)


def _has_zone(cell: Any) -> bool:
    return getattr(cell, "tzinfo", None) is not None


def _without_zone(cell: Any) -> Any:
    return cell.replace(tzinfo=None) if _has_zone(cell) else cell


def _number(cell: Any) -> Any:
    kind = type(cell)
    if kind is int:
        return cell if cell.bit_length() < 1024 else None
    if kind is float:
        return None if cell != cell else cell
    if kind is bool:
        return int(cell)
    if kind is decimal.Decimal:
        return float(cell) if cell.is_finite() else None
    if kind is datetime.timedelta or (kind is loaded("pandas", "Timedelta") and cell is not loaded("pandas", "NaT")):
        return cell.total_seconds()
    return _number(cell.item()) if _is_numpys(kind) else None


def _is_numpys(kind: type) -> bool:
    """Whether a class is one of numpy's numbers or truth values."""
    return bool(defined_in(kind, "numpy")) and np.generic in kind.__mro__ and kind.__name__[:3] in _SCALARS


_SCALARS = ("int", "uin", "flo", "boo")


def _text(cell: Any) -> Any:
    if type(cell) is datetime.time:
        return cell.replace(tzinfo=None).isoformat()
    return str.__str__(cell) if _is_text(type(cell)) else None


def _is_text(kind: type) -> bool:
    """Whether objects of a class are shown as the text that they are; an enum is shown as its value."""
    return str in bases(kind) and enum.Enum not in bases(kind)


def _time(cell: Any) -> Any:
    kind = type(cell)
    if kind is datetime.date:
        return np.datetime64(cell, "us")
    if kind is not datetime.datetime and (kind is not loaded("pandas", "Timestamp") or cell is loaded("pandas", "NaT")):
        return None
    if cell.tzinfo is not None:
        if not is_zone(type(cell.tzinfo)):
            return None
        cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
    if kind is not datetime.datetime:
        cell = cell.to_pydatetime(warn=False)
    return np.datetime64(cell, "us")


_PICKS: dict[Kind, tuple[Callable[[Any], Any], Any, Any]] = {
    "number": (_number, 0.0, "float64"),
    "text": (_text, "", object),
    "truth": (lambda cell: cell if type(cell) is bool else None, False, bool),
    "time": (_time, np.datetime64(0, "us"), "datetime64[us]"),
}
"""Kind -> what a cell is as one, or None; what stands where there is none; the type of the array."""
