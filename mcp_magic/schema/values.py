"""Python objects as JSON values.

The schema decides where there is a choice: a `datetime` for a date, bytes where base64 is asked for, a
DataFrame as records, as rows or, for an object, as columns. Nothing is guessed: what has no JSON form is an error.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import numbers
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from typing import Any

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.arrays import unpacked
from mcp_magic.schema.binary import encoded, picture
from mcp_magic.schema.fields import Field, root_field

__all__ = ["check_text", "json_arguments", "to_json_value"]

_ANYTHING = root_field(True)
MAX_DIGITS = 4_300
"""Digits Python's json writes for an integer (`sys.set_int_max_str_digits`)."""


def json_arguments(arguments: Mapping[str, Any], schema: Any = True) -> dict[str, Any]:
    """Return the arguments of a call as JSON values; those that are JSON already are returned as they are.

    Args:
        arguments: The arguments by name, as Python objects.
        schema: The schema that they are meant for.

    Raises:
        ArgumentsError: One has no JSON form.

    >>> json_arguments({"days": (1, 2)})
    {'days': [1, 2]}
    """
    if _is_json(arguments):
        return arguments  # type: ignore[return-value]
    root = root_field(schema)
    made: dict[str, Any] = {}
    for key, value in arguments.items():
        name = _name(key, "arguments")
        made[name] = to_json_value(value, root.at(name), name)
    return made


def check_text(value: Any, path: str) -> None:
    """Raise where a text, or one of the texts in a list or dict, cannot be sent.

    Args:
        value: What is to be sent.
        path: How the message names it.

    Raises:
        ArgumentsError: A text has a lone surrogate. UTF-8 cannot encode one, and a message with one would end a session
            over stdio.

    >>> check_text({"city": "Oslo"}, "params")
    """
    if not _is_json(value):
        to_json_value(value, None, path)


def to_json_value(value: Any, field: Field | None = None, path: str = "") -> Any:
    """Return the JSON value that stands for a Python object: None, bool, int, float, str, list or dict.

    Args:
        value: Numbers, text, containers, dataclasses, enums, dates, UUIDs, paths, decimals, bytes, pydantic
            models, numpy arrays, DataFrames, pictures; results of this package, which say what they stand for.
        field: What the schema expects there.
        path: How messages name the value; the field's name if left out.

    Raises:
        ArgumentsError: The value, or something in it, has no JSON form; the message names it.

    >>> to_json_value({"when": datetime.date(2026, 1, 2), "size": 2**80})
    {'when': '2026-01-02', 'size': 1208925819614629174706176}
    """
    field = field or _ANYTHING
    path = path or field.name or "value"
    try:
        return value if _is_plain(value) else _convert(value, field, path)
    except RecursionError:
        raise ArgumentsError(f"{path}: contains itself, or is nested too deeply for JSON") from None


def _convert(value: Any, field: Field, path: str) -> Any:
    if type(value) is dict:
        return _object(value, field, path)
    if type(value) is list:
        return _array(value, field, path)
    return _scalar(value, field, path)


def _scalar(value: Any, field: Field, path: str) -> Any:
    if isinstance(value, enum.Enum):
        return to_json_value(value.value, field, path)
    if isinstance(value, str):
        return _text(str.__str__(value), path)
    if isinstance(value, float):
        return _finite(float(value), field, path)
    known, plain = unpacked(value, field, path)  # before integers: numpy calls its timedelta64 one
    if known:
        return to_json_value(plain, field, path)
    if isinstance(value, numbers.Integral):
        return int(value)
    for types, convert in _SCALARS:
        if isinstance(value, types):
            return convert(value, field, path)
    return _container(value, field, path)


def _container(value: Any, field: Field, path: str) -> Any:
    kind = type(value)
    if callable(getattr(kind, "__mcp_argument__", None)):
        return to_json_value(value.__mcp_argument__("bytes" if field.is_base64 else field.kind), field, path)
    if callable(getattr(kind, "model_dump", None)):
        return to_json_value(value.model_dump(mode="json"), field, path)
    if dataclasses.is_dataclass(kind):
        return _object({each.name: getattr(value, each.name) for each in dataclasses.fields(value)}, field, path)
    if isinstance(value, Mapping):
        return _object(value, field, path)
    if isinstance(value, tuple) and hasattr(value, "_asdict") and field.kind == "object":
        return _object(value._asdict(), field, path)
    if isinstance(value, Set):
        return _array(_ordered(value), field, path)
    if isinstance(value, Sequence | ValuesView | collections.deque):
        return _array(value, field, path)
    data = picture(value, field)
    if data is None:
        raise ArgumentsError(f"{path}: cannot send a {kind.__name__} object; expected {field.type_text}")
    return encoded(data, field, path, kind.__name__)


def _is_plain(value: Any) -> bool:
    """Whether a value is JSON as it is; most cells of a long table are, and need no path and no field."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _surrogate(value) is None
    return kind is int or value is None or kind is bool or (kind is float and math.isfinite(value))


def _is_json(value: Any) -> bool:
    """Whether a value can be sent as it is: a walk that needs neither schema nor paths."""
    try:
        return _is_plain(value) or _holds_json(value)
    except RecursionError:
        return False


def _holds_json(value: Any) -> bool:
    items = value
    if type(value) is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or _is_plain(key)):
                return False
        items = value.values()
    elif type(value) is not list:
        return False
    for item in items:  # `all()` of a generator, and a call for each leaf, take twice the time
        kind = type(item)
        if kind is str:
            if not item.isascii() and _surrogate(item) is not None:
                return False
        elif kind is not int and item is not None and not _is_plain(item) and not _holds_json(item):
            return False
    return True


def _surrogate(text: str) -> int | None:
    """Return where the first lone surrogate of a text is, or None. C code looks for it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _text(text: str, path: str) -> str:
    at = _surrogate(text)
    if at is None:
        return text
    raise ArgumentsError(
        f"{path}: character {at + 1} is {text[at]!r}, half of a surrogate pair, and JSON in UTF-8 cannot hold it; "
        "text.encode(errors='replace').decode() has ? in its place"
    )


def _object(value: Mapping[Any, Any], field: Field, path: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _name(key, path)
        made[name] = item if _is_plain(item) else _convert(item, _inner(field, name), f"{path}.{name}")
    return made


def _name(key: Any, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return _text(str.__str__(key), f"{path}: the key {key!r}")
    if not isinstance(key, bool) and isinstance(key, numbers.Integral | uuid.UUID | datetime.date):
        return str(key)
    raise ArgumentsError(f"{path}: the key {key!r} is no text, and JSON names are")


def _array(value: Iterable[Any], field: Field, path: str) -> list[Any]:
    return [
        item if _is_plain(item) else _convert(item, _inner(field, index), f"{path}[{index}]")
        for index, item in enumerate(value)
    ]


def _inner(field: Field, key: str | int) -> Field:
    return (None if field.kind == "any" else field.at(key)) or _ANYTHING


def _ordered(value: Set[Any]) -> list[Any]:
    """A set in an order that is the same the next time, if its members have one."""
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def _finite(value: float, field: Field, path: str) -> float | None:
    if math.isfinite(value):
        return value
    if math.isnan(value) and (field.nullable or field.kind in ("any", "null")):
        return None
    raise ArgumentsError(f"{path}: expected {field.type_text}, got {value}, which JSON does not have")


def _decimal(value: decimal.Decimal, field: Field, path: str) -> Any:
    if field.kind == "string":
        return str(value)
    if value.is_finite() and value.adjusted() < MAX_DIGITS and value == value.to_integral_value():
        return int(value)
    return _finite(float(value), field, path)


def _datetime(value: datetime.datetime, field: Field, path: str) -> str:
    return value.date().isoformat() if field.format == "date" else value.isoformat()


def _date(value: datetime.date, field: Field, path: str) -> str:
    if field.format == "date-time":
        return datetime.datetime.combine(value, datetime.time()).isoformat()
    return value.isoformat()


def _duration(value: datetime.timedelta, field: Field, path: str) -> Any:
    seconds = value.total_seconds()
    whole = int(seconds) if seconds.is_integer() else seconds
    if field.kind in ("integer", "number"):
        return whole
    # Exactly: a float has neither all microseconds of a century nor a spelling without exponent for a few of them.
    # Only pandas has nanoseconds.
    parts = ((value.days * 86_400 + value.seconds) * 10**6 + value.microseconds) * 1000
    total, part = divmod(abs(parts + getattr(value, "nanoseconds", 0)), 10**9)
    fraction = f".{part:09}".rstrip("0") if part else ""
    # ISO 8601 has no negative parts, but everyone reads a sign in front.
    return f"{'-' if seconds < 0 else ''}PT{total}{fraction}S"


_SCALARS: list[tuple[Any, Callable[[Any, Field, str], Any]]] = [
    (datetime.datetime, _datetime),
    (datetime.date, _date),
    (datetime.time, lambda value, _field, _path: value.isoformat()),
    (datetime.timedelta, _duration),
    (decimal.Decimal, _decimal),
    (fractions.Fraction, lambda value, field, path: _finite(float(value), field, path)),
    (uuid.UUID, lambda value, _field, _path: str(value)),
    (os.PathLike, lambda value, _field, path: _text(os.fsdecode(value), path)),
    (bytes | bytearray | memoryview, lambda value, field, path: encoded(bytes(value), field, path, "bytes")),
]
"""What has one value, the more special type first."""
