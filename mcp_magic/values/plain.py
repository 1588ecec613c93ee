"""Values as JSON: dates as ISO 8601, missing values as null, bytes as base64, and nothing run of a foreign class.

Of a subclass of a builtin the builtin's own methods are used. Of a dataclass, a named tuple and an enum their stored
attributes are read. An object that is none of these becomes its class's name in angle brackets.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import fractions
import math
import uuid
from collections import deque
from itertools import chain, islice
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Any, Final

from mcp_magic._text import free_name
from mcp_magic.config.masking import Concealed
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import duration_text
from mcp_magic.schema.secrets import MASK, is_secret_name
from mcp_magic.values.classes import (
    are_all,
    attributes,
    bases,
    class_name,
    defined_in,
    is_among,
    kinds_of,
    loaded,
    member,
    members,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DEEPEST = 20  # most levels of a nested value
LABEL_DEPTH = 3  # most levels of a tuple that is a label
MAX_BITS = 14_000  # of an integer that Python writes: some 4,300 digits
MAX_NODES = 200_000  # most values of a nested value that is read
EDGE = 8_000  # characters where a text is cut, in which a secret may begin or end
REST = "…"  # stands for what is left out

_TEXT_LIKE: Final = (uuid.UUID, PurePosixPath, PureWindowsPath, PosixPath, WindowsPath, Path)
_ZONES: Final = ("builtins", "datetime", "zoneinfo", "pytz", "dateutil")


class Writer:
    """Makes values plain, within limits for all of them together.

    Attributes:
        is_whole: Whether nothing was left out.
    """

    def __init__(
        self,
        *,
        nodes: int = MAX_NODES,
        characters: int = 50_000_000,
        text: int | None = None,
        hide: Callable[[str], str] | None = None,
        strict: bool = False,
        json_only: bool = False,
    ) -> None:
        """Limit values.

        Args:
            nodes: Most values.
            characters: Most characters of all texts.
            text: Most characters of one text, None for all.
            hide: Masks secrets in a text. With it, as for a reader, members with a secret's name are masked, too, and
                infinite numbers are texts.
            strict: Raise ArgumentsError instead of leaving something out.
            json_only: Raise ArgumentsError for an object that has no JSON form, instead of writing its class's name.
        """
        self.is_whole = True
        self._nodes, self._characters = nodes, characters
        self._text, self._hide, self._strict, self._json_only = text, hide, strict, json_only

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() <= 53 else self._integer(value)
        if kind is float:
            return value if math.isfinite(value) else self._infinite(value)
        if kind is str:
            return self.text(value)
        if kind is Concealed:
            return MASK
        above = bases(kind)
        write = _SCALARS.get(kind) if kind is above[0] else None
        if write is not None:
            written = write(value)
            return self.plain(written) if type(written) is float else written
        return self._of_class(value, kind, above, depth)

    def _infinite(self, value: float) -> str | None:
        """Return what stands for a number that JSON does not have: null for a missing one, what a reader is told."""
        if value != value:
            return None
        if self._strict:
            raise ArgumentsError("an infinite number has no JSON form; leave out its rows or columns")
        return None if self._hide is None else str(value)

    def _integer(self, value: int) -> Any:
        if self._strict and value.bit_length() > MAX_BITS:
            raise ArgumentsError(f"{_integer(value)} is too long; leave out its rows or columns")
        return _integer(value)

    def reserve(self, count: int) -> None:
        """Count values that are about to be made plain; ArgumentsError if they are too many."""
        self._nodes -= count
        if self._nodes < 0:
            raise ArgumentsError(f"{count:,} values are more than can be read at once; name fewer rows or columns")

    def text(self, text: str) -> str:
        """Return a text, cut and masked."""
        limit = self._text
        if limit is not None and len(text) > limit:
            # masked before it is cut: half of a secret is secret, too, and the end of what is masked may be half of one
            start = self._masked(text[: limit + EDGE])
            start = start[: max(len(start) - EDGE, 0)] if len(text) > limit + EDGE else start
            self._characters -= limit
            return f"{start[:limit]}{REST} ({len(text):,} characters)"
        self._characters -= len(text)
        if self._characters < 0:
            self._cut("its texts are longer than can be read at once")
            return REST
        return self._masked(text)

    def _masked(self, text: str) -> str:
        text = text if self._hide is None else self._hide(text)
        return text if text.isascii() else text.encode("utf-8", "replace").decode()

    def _cut(self, reason: str) -> str:
        if self._strict:
            raise ArgumentsError(f"{reason}; name fewer rows or columns")
        self.is_whole = False
        return REST

    def _of_class(self, value: Any, kind: type, above: tuple[type, ...], depth: int) -> Any:
        if depth >= DEEPEST:
            return self._cut("it is nested too deeply")
        if enum.Enum in above:
            return self.plain(attributes(value, ("_value_",)).get("_value_"), depth + 1)
        if str in above:
            return self.text(str.__str__(value))
        if int in above:
            return self.plain(int.__index__(value))
        if float in above:
            return self.plain(float.__float__(value))
        if bytes in above or kind is bytearray:
            return self._bytes(value, bytes if bytes in above else bytearray)
        items = self._items(value, kind, above)
        if items is not None:
            return self._list(items, depth)
        members = self._members(value, kind, above)
        if members is not None:
            return self._object(members, depth)
        return self._of_library(value, kind, depth)

    def _bytes(self, value: Any, base: Any) -> str:
        """Return bytes as base64, as many as fit."""
        count, limit = base.__len__(value), self._characters if self._text is None else self._text
        if count > limit and self._text is None:
            return self._cut("its bytes are more than can be read at once")
        text = base64.b64encode(base.__getitem__(value, slice(2 * limit + 2_000))).decode("ascii")
        return self.text(text) if count <= limit else f"{self._masked(text)[:limit]}{REST} ({count:,} bytes)"

    def _list(self, items: Any, depth: int) -> list[Any]:
        result = []
        for item in items:
            self._nodes -= 1
            if self._nodes < 0 or self._characters < 0:
                result.append(self._cut("it has more than can be read at once"))
                break
            result.append(self.plain(item, depth + 1))
        return result

    def _object(self, members: Any, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in members:
            self._nodes -= 1
            if self._nodes < 0 or self._characters < 0:
                result[REST] = self._cut("it has more than can be read at once")
                break
            name = free_name(self._masked(label(key)), result)
            is_hidden = self._hide is not None and value is not None and is_secret_name(name)
            result[name] = MASK if is_hidden else self.plain(value, depth + 1)
        return result

    def _items(self, value: Any, kind: type, above: tuple[type, ...]) -> Any:
        """Return the items of a list, a tuple, a set or a deque, one more than fit; None for others."""
        most = max(self._nodes, 0) + 1
        if list in above:
            return list.__getitem__(value, slice(most))
        if tuple in above and field_names(kind) is None:
            return tuple.__getitem__(value, slice(most))
        for base in (set, frozenset):
            if base in above:
                items = list(islice(base.__iter__(value), most))
                return sorted(items) if any(are_all(items, scalar) for scalar in (str, int, float)) else items
        return list(islice(value, most)) if kind is deque or kind is range else None

    def _members(self, value: Any, kind: type, above: tuple[type, ...]) -> Any:
        """Return the members of a dict, a named tuple or a dataclass as pairs; None for others."""
        if dict in above:
            return list(islice(dict.items(value), max(self._nodes, 0) + 1))
        names = field_names(kind)
        if names is None:
            return None
        if tuple in above:
            return list(zip(names, tuple.__iter__(value), strict=False))
        return list(attributes(value, names).items())

    def _of_library(self, value: Any, kind: type, depth: int) -> Any:
        scalar = next((write for name, write in _PANDAS if kind is loaded("pandas", name)), None)
        if scalar is not None:
            return scalar(value)
        if is_missing_mark(value):
            return None
        if loaded("numpy", "generic") in bases(kind) and loaded("numpy", class_name(kind)) is kind:
            return self._numpy_scalar(value)
        if kind is loaded("numpy", "ndarray"):
            return self._array(value, depth)
        if self._json_only:
            raise ArgumentsError(f"{class_name(kind)} has no JSON form")
        return f"<{class_name(kind)}>"

    def _array(self, value: Any, depth: int) -> Any:
        if value.size > max(self._nodes, 0):
            return self._cut("it has more than can be read at once")
        return self.plain(cells_of(value), depth)

    def _numpy_scalar(self, value: Any) -> Any:
        if value.dtype.kind in "mM":
            return self.plain(cells_of(value.reshape(1))[0])
        item = value.item()
        if type(item) is type(value):  # of more bits than Python's
            for name, base in (("floating", float), ("complexfloating", complex)):
                if loaded("numpy", name) in bases(type(value)):
                    return self.plain(base(value))
            return f"<{class_name(type(value))}>"
        return self.plain(item)


def is_missing_mark(value: Any) -> bool:
    """Whether a value is what pandas writes for a missing one."""
    return value is loaded("pandas", "NaT") or value is loaded("pandas", "NA")


def cells_of(array: Any) -> list[Any]:
    """Return an array of numpy as lists of Python's objects; a time that Python does not have is a text."""
    cells: list[Any]
    if array.dtype.kind not in "mM":
        cells = array.tolist()
        return cells
    unit, _ = loaded("numpy", "datetime_data")(array.dtype)
    times = array.astype(f"{array.dtype.kind}8[us]") if unit in ("ns", "ps", "fs", "as") else array
    objects = times.astype(object)
    if int in kinds_of(objects.flat):  # the year 12000
        for place, item in enumerate(objects.flat):
            if type(item) is int:
                objects.flat[place] = str(times.flat[place])
    cells = objects.tolist()
    return cells


def label(key: Any, depth: int = 0) -> str:
    """Return a key of a dict, or the label of a column, as text.

    >>> label("a"), label(1), label(None), label(("a", 1)), label(object())
    ('a', '1', 'None', 'a_1', '<object>')
    """
    kind = type(key)
    if kind is str:
        return str(key)
    if is_among(kind, (int, bool, float, type(None))):
        return str(_integer(key) if kind is int else key)
    if kind is tuple:
        return "_".join(label(part, depth + 1) for part in key[:10]) if depth < LABEL_DEPTH else REST
    value = Writer(nodes=10, text=200).plain(key)
    return str(value) if is_among(type(value), (str, int, float, bool)) else f"<{class_name(kind)}>"


def labels(keys: Any) -> list[str]:
    """Return labels of columns as texts, all different.

    >>> labels(["a", "b", "a", "", "a"])
    ['a', 'b', 'a_2', 'Unnamed: 3', 'a_3']
    """
    texts = [label(key) or f"Unnamed: {index}" for index, key in enumerate(keys)]
    if len(set(texts)) == len(texts):
        return texts
    every, names, numbers = set(texts), dict[str, None](), dict[str, int]()
    for text in texts:
        name = text
        while name in names or (name != text and name in every):
            numbers[text] = numbers.get(text, 1) + 1
            name = f"{text}_{numbers[text]}"
        names[name] = None
    return list(names)


def _integer(value: int) -> Any:
    if value.bit_length() > MAX_BITS:
        return f"an integer of about {int(value.bit_length() * math.log10(2)):,} digits"
    return value


def field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a named tuple or a dataclass; None for other classes."""
    fields = member(kind, "_fields") if tuple in bases(kind) else member(kind, "__dataclass_fields__")
    if type(fields) not in (tuple, dict) or not all(type(name) is str for name in fields):
        return None
    return tuple(fields)


def _moment(value: datetime.datetime) -> str:
    is_safe = value.tzinfo is None or is_zone(type(value.tzinfo))
    return (value if is_safe else value.replace(tzinfo=None)).isoformat()


def is_zone(kind: type) -> bool:
    """Whether a class is a time zone whose methods are those of a known library."""
    return _are_of(_ZONES, kind, ("utcoffset", "dst", "tzname", "fromutc", "__getattribute__"))


def _are_of(libraries: tuple[str, ...], kind: type, names: tuple[str, ...]) -> bool:
    """Whether members of a class are defined by classes of some libraries."""
    for name in names:
        owner = next((base for base in bases(kind) if name in members(base)), None)
        if owner is None or not any(defined_in(owner, library) for library in libraries):
            return False
    return True


def are_known_keys(keys: Collection[Any], depth: int = 0) -> bool:
    """Whether to compare some keys of a dict, and to look them up, runs nothing of a foreign class.

    >>> are_known_keys(["a", 1, None, ("a", 2)]), are_known_keys([("a", fractions.Fraction), ((((1,),),),)])
    (True, False)
    """
    for kind in kinds_of(keys):
        if is_among(kind, _PLAIN_KEYS):
            continue
        if kind is tuple:
            parts = list(chain.from_iterable(key for key in keys if type(key) is tuple))
            if depth == LABEL_DEPTH or not are_known_keys(parts, depth + 1):
                return False
        elif is_among(kind, _WITH_ZONE) or kind is loaded("pandas", "Timestamp"):
            moments: list[Any] = [key for key in keys if type(key) is kind]
            if not all(moment.tzinfo is None or is_zone(type(moment.tzinfo)) for moment in moments):
                return False
        elif not (is_among(kind, _SCALARS) or _is_known_key(kind)):
            return False
    return True


_PLAIN_KEYS: Final = (str, int, float, bool, type(None))
_WITH_ZONE: Final = (datetime.datetime, datetime.time)


def _is_known_key(kind: type) -> bool:
    """Whether objects of a class are compared by the code of Python, of an enum or of numpy, and by no parts."""
    if any(base in _OF_PARTS for base in bases(kind)) or kind is loaded("numpy", "void"):
        return False
    return _are_of(("builtins", "enum", "numpy"), kind, ("__eq__", "__hash__"))


_OF_PARTS: Final = (tuple, frozenset, *_WITH_ZONE)


def _time(value: datetime.time) -> str:
    return value.replace(tzinfo=None).isoformat()


def _decimal(value: decimal.Decimal) -> Any:
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    if value == value.to_integral_value() and value.adjusted() < 15:
        return int(value)
    return float(value) if abs(value.adjusted()) < 300 else str(value)


def _quotient(value: fractions.Fraction) -> Any:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_SCALARS: dict[type, Callable[[Any], Any]] = {
    datetime.datetime: _moment,
    datetime.date: lambda value: value.isoformat(),
    datetime.time: _time,
    datetime.timedelta: duration_text,
    decimal.Decimal: _decimal,
    fractions.Fraction: _quotient,
    complex: str,
    **dict.fromkeys(_TEXT_LIKE, str),
}
"""Scalars without a form of their own in JSON -> what stands for them."""


_PANDAS = (("Timestamp", _moment), ("Timedelta", duration_text), ("Period", str), ("Interval", str))
"""Scalars of pandas, by name."""
