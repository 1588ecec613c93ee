"""Converts texts and Python values to the JSON that a schema expects: numbers, dates, arrays, tables and bytes."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import json
import math
import numbers
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from contextlib import suppress
from typing import Any, Literal

from mcp_magic._text import repeated_names
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.fields import Field, input_root, root_field
from mcp_magic.schema.formats import fits_format

# Arrays and tables of numpy, pandas, polars and pyarrow as plain lists and dicts. This module imports none of these
# libraries: an object of theirs can exist only after its library was imported.


@functools.lru_cache(maxsize=256)
def _converter(kind: type) -> Callable[[Any, Field, str], Any] | None:
    """Return the function that makes objects of a class plain, or None; values inside may still need conversion."""
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        convert = _LIBRARIES.get((library, base.__name__)) or _LIBRARIES.get((library, ""))
        if convert is not None:
            return convert
    return None


def _numpy(value: Any, field: Field, path: str) -> Any:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        raise ArgumentsError(f"{path}: cannot send a {type(value).__name__}; expected {field.type_text}")
    if dtype.names:
        return [dict(zip(dtype.names, row, strict=True)) for row in value.reshape(-1).tolist()]
    if dtype.kind == "f" and dtype.itemsize > 8:
        value = value.astype("f8")  # Python has no long double, so tolist() would return numpy's
    if dtype.kind in "mM":
        # tolist() returns nanoseconds as plain integers.
        value = value.astype(f"{dtype.kind}8[us]")
    return value.tolist()


def _cells(value: Any) -> list[Any]:
    """Return the values of a pandas Series, Index or array, with None for missing ones (NaN, NaT, NA)."""
    return [None if missing else cell for cell, missing in zip(value.tolist(), value.isna(), strict=True)]


def _series(value: Any, field: Field, path: str) -> Any:
    """Return a list; for an object field, the values by label; for records or rows, a table of one column."""
    layout, _ = _layout(field)
    if layout == "list":
        return _cells(value)
    if layout != "columns":
        return _frame(value.to_frame("value" if value.name is None else value.name), field, path)
    if value.index.has_duplicates:
        twice = value.index[value.index.duplicated()][0]
        raise ArgumentsError(f"{path}: the Series has two values for {twice!r}, and an object has each name once")
    return dict(zip(value.index.tolist(), _cells(value), strict=True))


def _frame(value: Any, field: Field, path: str) -> Any:
    names = [str(name) for name in value.columns]
    columns = [_cells(value.iloc[:, position]) for position in range(len(names))]
    numbered = list(value.columns) == list(range(len(names)))
    labels = _labels(value.index, names)
    return _table([*labels, *names], [*labels.values(), *columns], field, path, header=not numbered)


def _labels(index: Any, columns: list[str]) -> dict[str, list[Any]]:
    """Return the levels of an index as columns, except for row numbers and for a level with a column's name."""
    labels = {}
    for level, name in enumerate(index.names):
        if name is None and index.nlevels == 1:
            if index.inferred_type in ("integer", "empty"):
                break
            name = "index"
        name = f"level_{level}" if name is None else str(name)
        if name not in columns:
            labels[name] = _cells(index.get_level_values(level))
    return labels


def _table(names: list[str], columns: list[list[Any]], field: Field, path: str, *, header: bool = True) -> Any:
    """Return a table in the layout of the schema: records, columns, or rows (with names if text fits there)."""
    if twice := repeated_names(names):
        raise ArgumentsError(f"{path}: the DataFrame has two columns {twice[0]!r}; rename one of them")
    layout, row = _layout(field)
    if layout == "columns":
        return dict(zip(names, columns, strict=True))
    if row is None:
        return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
    cells = [row.at(position) for position in range(len(names))]
    fitting = [
        _texts(column, cell) if cell is not None and cell.kind == "string" else column
        for cell, column in zip(cells, columns, strict=True)
    ]
    rows = list(map(list, zip(*fitting, strict=True)))
    takes_names = all(takes_text(cell) for cell in cells if cell)
    return [list(names), *rows] if header and takes_names else rows


def _texts(column: list[Any], cell: Field) -> list[Any]:
    """Return a column for cells that take only text: numbers as text, missing values as "" (as in CSV) or null."""
    missing = None if cell.nullable else ""
    return [missing if value is None else str(value) if isinstance(value, int | float) else value for value in column]


def _layout(field: Field) -> tuple[Literal["columns", "records", "rows", "list"], Field | None]:
    """Return the layout of a table that the schema expects, and for rows the field of a row."""
    variants = field.variants or (field,)
    kinds = {option.kind for option in variants}
    if "object" in kinds and not kinds & {"array", "any"}:
        return "columns", None
    items = [item for option in variants if option.kind == "array" and (item := option.at(0)) is not None]
    items = [variant for item in items for variant in item.variants or (item,)]
    if any(item.kind == "object" for item in items):
        return "records", None
    if any(item.kind == "any" for item in items):
        return "list", None
    row = next((item for item in items if item.kind == "array"), None)
    return ("list", None) if row is None else ("rows", row)


_LIBRARIES: dict[tuple[str, str], Callable[[Any, Field, str], Any]] = {
    ("numpy", ""): _numpy,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("pandas", "MultiIndex"): lambda value, _field, _path: value.tolist(),
    ("pandas", "Index"): lambda value, _field, _path: _cells(value),
    ("pandas", "ExtensionArray"): lambda value, _field, _path: _cells(value),
    ("pandas", "NAType"): lambda _value, _field, _path: None,
    ("pandas", "NaTType"): lambda _value, _field, _path: None,
    ("pandas", "Period"): lambda value, _field, _path: str(value),
    ("polars", "DataFrame"): lambda value, field, path: _table(
        value.columns, [column.to_list() for column in value.get_columns()], field, path
    ),
    ("polars", "Series"): lambda value, _field, _path: value.to_list(),
    ("pyarrow", "Table"): lambda value, field, path: _table(
        value.column_names, [column.to_pylist() for column in value.columns], field, path
    ),
}
"""(library, class, or "" for any class) -> function that makes a value plain."""


# Bytes and pictures as base64, if the schema asks for it.


def base64_text(data: bytes, field: Field) -> str:
    """Return bytes as base64 in the alphabet that the schema names (RFC 4648, section 4 or 5)."""
    schemas = [field.schema, *(variant.schema for variant in field.variants)]
    url_safe = any("base64url" in (schema.get("contentEncoding"), schema.get("format")) for schema in schemas)
    return (base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)).decode("ascii")


def _encoded(data: bytes, field: Field, path: str, kind: str) -> str:
    """Return the base64 of bytes; an ArgumentsError if the schema does not ask for it."""
    if field.is_base64:
        return base64_text(data, field)
    instead = "decode it first" if kind == "bytes" else "give its bytes another way"
    raise ArgumentsError(
        f"{path}: expected {field.type_text}, got {kind}, and the schema does not ask for base64; {instead}, "
        "or give base64.b64encode(data).decode() if the tool means that"
    )


def _picture(value: Any, field: Field) -> bytes | None:
    """Return the image file of a matplotlib figure, a PIL image or an object with a PNG repr; None for others."""
    library = type(value).__module__.partition(".")[0]
    buffer = io.BytesIO()
    if callable(getattr(type(value), "savefig", None)):
        value.savefig(buffer, format="png")
        return buffer.getvalue()
    if library == "PIL" and callable(getattr(type(value), "save", None)):
        value.save(buffer, format="JPEG" if field.schema.get("contentMediaType") == "image/jpeg" else "PNG")
        return buffer.getvalue()
    png = getattr(type(value), "_repr_png_", None)
    data = png(value) if callable(png) else None
    return data if isinstance(data, bytes) else None


# Python objects as JSON values. The schema decides between forms: a `datetime` as a date, bytes as base64, a DataFrame
# as records, rows or an object of columns. An object without a JSON form is an error, never a guess.

_ANYTHING = root_field(True)
MAX_DIGITS = 4_300  # digits of the longest integer that Python's json writes (`sys.set_int_max_str_digits`)


def json_arguments(arguments: Mapping[str, Any], schema: Any = True) -> dict[str, Any]:
    """Return the arguments of a call as JSON values; arguments that are JSON already are returned unchanged."""
    try:
        if _holds_json(arguments):
            return arguments  # type: ignore[return-value]
    except RecursionError:  # `to_json_value` raises the error
        pass
    root = input_root(schema)
    converted: dict[str, Any] = {}
    for key, value in arguments.items():
        name = _name(key, "arguments")
        converted[name] = to_json_value(value, root.at(name), name)
    return converted


def check_text(value: Any, path: str) -> None:
    """Raise ArgumentsError for a lone surrogate, also inside a value: to send it would end a session over stdio."""
    try:
        is_json = _holds_json(value) or _is_plain(value)
    except RecursionError:
        is_json = False
    if not is_json:
        to_json_value(value, None, path)


def to_json_value(value: Any, field: Field | None = None, path: str = "") -> Any:
    """Return the JSON value of a Python object; `path` is its name in the ArgumentsError if it has none."""
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
    unpack = _converter(type(value))  # type: ignore[arg-type]  # mypy #11469: classes are hashable
    if unpack is not None:  # before integers, because numpy's timedelta64 counts as one
        return to_json_value(unpack(value, field, path), field, path)
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
        return _object({member.name: getattr(value, member.name) for member in dataclasses.fields(value)}, field, path)
    if isinstance(value, Mapping):
        return _object(value, field, path)
    as_dict = getattr(value, "_asdict", None)  # of a named tuple
    if isinstance(value, tuple) and as_dict is not None and field.kind == "object":
        return _object(as_dict(), field, path)
    if isinstance(value, Set):
        with suppress(TypeError):  # members that cannot be compared stay in their order
            value = sorted(value)
        return _array(value, field, path)
    if isinstance(value, Sequence | ValuesView | collections.deque):
        return _array(value, field, path)
    data = _picture(value, field)
    if data is None:
        raise ArgumentsError(f"{path}: cannot send a {kind.__name__} object; expected {field.type_text}")
    return _encoded(data, field, path, kind.__name__)


def _is_plain(value: Any) -> bool:
    """Return whether a scalar is JSON already. Most cells of a long table are, and so need no path and no field."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _surrogate(value) is None
    return kind is int or value is None or kind is bool or (kind is float and math.isfinite(value))


def _holds_json(value: Any) -> bool:
    """Return whether a dict or list can be sent unchanged; needs neither schema nor paths, unlike the conversion."""
    items = value
    if type(value) is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or _is_plain(key)):
                return False
        items = value.values()
    elif type(value) is not list:
        return False
    for item in items:  # `all()` of a generator and a call for each leaf would take twice the time
        kind = type(item)
        if kind is str:
            if not item.isascii() and _surrogate(item) is not None:
                return False
        elif kind is not int and item is not None and not _is_plain(item) and not _holds_json(item):
            return False
    return True


def _surrogate(text: str) -> int | None:
    """Return the index of a text's first lone surrogate, or None. Encoding finds it in fast C code."""
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
    converted: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _name(key, path)
        converted[name] = item if _is_plain(item) else _convert(item, _inner(field, name), f"{path}.{name}")
    return converted


def _name(key: Any, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return _text(str.__str__(key), f"{path}: the key {key!r}")
    if not isinstance(key, bool) and isinstance(key, numbers.Integral | uuid.UUID | datetime.date):
        return str(key)
    raise ArgumentsError(f"{path}: the key {key!r} is not text, and JSON names must be text")


def _array(value: Iterable[Any], field: Field, path: str) -> list[Any]:
    return [
        item if _is_plain(item) else _convert(item, _inner(field, index), f"{path}[{index}]")
        for index, item in enumerate(value)
    ]


def _inner(field: Field, key: str | int) -> Field:
    return (None if field.kind == "any" else field.at(key)) or _ANYTHING


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


def _date(value: datetime.date, field: Field, path: str) -> str:
    """Return a date or a datetime as the one that the format asks for."""
    if field.format == "date" and isinstance(value, datetime.datetime):
        return value.date().isoformat()
    if field.format == "date-time" and not isinstance(value, datetime.datetime):
        return datetime.datetime.combine(value, datetime.time()).isoformat()
    return value.isoformat()


def _duration(value: datetime.timedelta, field: Field, path: str) -> Any:
    seconds = value.total_seconds()
    number = int(seconds) if seconds.is_integer() else seconds
    if field.kind in ("integer", "number"):
        return number
    return duration_text(value)


def duration_text(value: datetime.timedelta) -> str:
    """Return a duration as ISO 8601, in seconds; pandas' `Timedelta`, too.

    >>> duration_text(datetime.timedelta(days=1, milliseconds=500)), duration_text(datetime.timedelta(seconds=-1))
    ('PT86400.5S', '-PT1S')
    """
    # In exact integers: a float cannot hold all microseconds of a century, and writes a few alone with an exponent.
    # Only pandas has nanoseconds.
    parts = ((value.days * 86_400 + value.seconds) * 10**6 + value.microseconds) * 1000
    parts += getattr(value, "nanoseconds", 0)
    total, part = divmod(abs(parts), 10**9)
    fraction = f".{part:09}".rstrip("0") if part else ""
    # ISO 8601 has no negative parts, but parsers accept a leading sign.
    return f"{'-' if parts < 0 else ''}PT{total}{fraction}S"


_SCALARS: list[tuple[Any, Callable[[Any, Field, str], Any]]] = [
    (datetime.date, _date),
    (datetime.time, lambda value, _field, _path: value.isoformat()),
    (datetime.timedelta, _duration),
    (decimal.Decimal, _decimal),
    (fractions.Fraction, lambda value, field, path: _finite(float(value), field, path)),
    (uuid.UUID, lambda value, _field, _path: str(value)),
    (os.PathLike, lambda value, _field, path: _text(os.fsdecode(value), path)),
    (bytes | bytearray | memoryview, lambda value, field, path: _encoded(bytes(value), field, path, "bytes")),
]
"""Types of scalars and their conversions; a subclass comes before its base class."""


# Strict JSON.


def read_json(text: str) -> Any:
    """Return the value of a JSON text, without NaN and Infinity (RFC 8259), or raise ValueError that says why."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite_float)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise ValueError(f"{error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a float")
    return value


# Text from a command line as the JSON value that the schema expects.

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# ASCII digits only, which underscores may group, as in Python.
_INTEGER = re.compile(r"([+-]?[0-9]+(?:_[0-9]+)*)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


class UnfitText(ValueError):
    """A text is no value of its field. The caller knows the argument's name and writes the message."""


def from_text(text: str, field: Field) -> Any:
    """Return the value that `text` stands for; it stays text if the field takes text, else `UnfitText` is raised.

    A single value for an array becomes a list of one; `[...]` is read as JSON. Where the field takes text and other
    values, a text that is JSON of a list or object, or of a number that the schema names, is that value (see
    `is_reading`). `null` is null if the field allows null (write the word itself as JSON, `name:='"null"'`).
    """
    if text == "null" and field.nullable:
        return None
    reader = _READERS.get(field.kind)
    if reader is None:
        return text
    try:
        return reader(text, field)
    except ValueError:
        if "type" not in field.schema and field.kind in ("object", "array"):
            # The kind was inferred from other keywords; JSON Schema allows text here too.
            return text
        raise UnfitText from None


def is_reading(value: Any, field: Field) -> bool:
    """Return whether a value read from a text is one reading of two, because the field takes text too."""
    return isinstance(value, dict | list | int | float) and not isinstance(value, bool) and takes_text(field)


def takes_text(field: Field) -> bool:
    """Return whether a field takes any text."""
    return any(variant.kind in ("string", "any") for variant in (field, *field.variants))


# Readers of a kind. They raise a ValueError if the text is no value of it.


def _read_string(text: str, field: Field) -> str:
    if not fits_format(text, field.format):
        raise UnfitText
    return text


def _read_integer(text: str, field: Field) -> int:
    if (match := _INTEGER.fullmatch(text.strip())) is not None:
        return int(match[1])
    value = _read_number(text, field)
    if value != int(value):
        raise UnfitText
    return int(decimal.Decimal(text.strip()))  # 1e23, which no float holds exactly


def _read_number(text: str, field: Field) -> int | float:
    text = text.strip()
    if (match := _INTEGER.fullmatch(text)) is not None and match[2] is None:
        return int(text)
    if not _NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
        raise UnfitText
    return value


def _read_boolean(text: str, field: Field) -> bool:
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise UnfitText from None


def _read_choice(text: str, field: Field) -> Any:
    """Return the choice that a text names: by value, else by label, else by the value's JSON."""
    for value, _ in field.choices:
        if isinstance(value, str) and value == text:
            return value
    for value, label in field.choices:
        if label == text:
            return value
    readings = [_WORDS[text.lower()]] if text.lower() in _WORDS else []
    with suppress(ValueError):
        readings.append(read_json(text))
    for value, _ in field.choices:
        if not isinstance(value, str) and any(type(read) is type(value) and read == value for read in readings):
            return value
    raise UnfitText


def _read_array(text: str, field: Field) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            value = read_json(text)
        except ValueError:
            value = None
        if isinstance(value, list):
            return value
    item = field.at(0)
    return [text if item is None else from_text(text, item)]


def _read_object(text: str, field: Field) -> dict[str, Any]:
    value = read_json(text)
    if not isinstance(value, dict):
        raise UnfitText
    return value


def _read_any(text: str, field: Field) -> Any:
    if isinstance(value := _as_json(text), dict | list) and not field.is_base64 and field.takes(value):
        return value
    return text


def _as_json(text: str) -> Any:
    """Return the list, object or number that a text is as JSON, else None."""
    if text.lstrip()[:1] not in _OPENING:
        return None
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list | int | float) else None


_OPENING = frozenset("{[-0123456789")

_NAMED_KINDS = {dict: ("object", "any"), list: ("array", "any"), int: ("integer", "number"), float: ("number",)}
"""Type of a JSON value -> the kinds of variants that name it."""


def _read_union(text: str, field: Field) -> Any:
    """Return the listed choice that a text is, else the JSON that a variant names, else the text if one takes it.

    If none of them does, it is the value by the first variant that can read it.
    """
    exact = [variant for variant in field.variants if variant.kind in ("enum", "const")]
    if any(variant.takes(text) for variant in exact):
        return text
    value = _as_json(text)
    kinds = _NAMED_KINDS.get(type(value), ())
    if any(variant.kind in kinds and variant.takes(value) for variant in field.variants):
        return value
    if any(variant.kind in ("string", "any") and variant.takes(text) for variant in field.variants):
        return text
    opening = text.lstrip()[:1]
    variants = sorted(
        field.variants, key=lambda candidate: _RANK.get((opening, candidate.kind), _RANK.get(("", candidate.kind), 0))
    )
    for variant in variants:
        try:
            return from_text(text, variant)
        except UnfitText:
            continue
    raise UnfitText


_RANK = {("[", "array"): -1, ("{", "object"): -1, ("", "object"): 1, ("", "array"): 2, ("", "string"): 3}
"""Order of variants: the container that the text looks like, then scalars, object, list of one, unfitting string."""


_READERS: dict[str, Callable[[str, Field], Any]] = {
    "string": _read_string,
    "any": _read_any,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "enum": _read_choice,
    "const": _read_choice,
    "array": _read_array,
    "object": _read_object,
    "union": _read_union,
}
"""Kind -> reader of its text; a kind without a row takes any text."""
