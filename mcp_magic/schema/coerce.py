"""Text from a command line as the value that a schema asks for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.formats import fits_format
from mcp_magic.schema.jsontext import read_json
from mcp_magic.schema.merge import is_number
from mcp_magic.schema.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.schema.fields import Field

__all__ = ["UnfitText", "from_text"]

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# ASCII only: Python's int() would take digits of any script, and underscores.
_INTEGER = re.compile(r"([+-]?[0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class UnfitText(ValueError):
    """A text that is no value of the field; the caller knows its name and makes the message."""


def from_text(text: str, field: Field) -> Any:
    """Return the value that `text` stands for; a text stays a text wherever the field takes one.

    A single value for an array becomes a list of one; `[...]` is read as JSON. `null` is null
    wherever null is allowed (the word itself is written as JSON, `name:='"null"'`).

    Raises:
        UnfitText: It stands for no value of the field.

    >>> from mcp_magic.schema.fields import root_field
    >>> from_text("12", root_field({"type": ["integer", "null"]}))
    12
    >>> from_text("12", root_field({"type": ["integer", "string"]}))
    '12'
    """
    if text == "null" and field.nullable:
        return None
    reader = _READERS.get(field.kind)
    if reader is None:
        return text
    try:
        return reader(text, field)
    except UnfitText:
        if "type" not in field.schema and field.kind in ("object", "array"):
            # The kind was guessed from other keywords; by JSON Schema a text is fine as well.
            return text
        raise


def _string(text: str, field: Field) -> str:
    if not fits_format(text, field.format):
        raise UnfitText
    return text


def _integer(text: str, field: Field) -> int:
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        raise UnfitText
    return _exact(match[1])


def _exact(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # more than 4,300 digits, which json would not write either
        raise UnfitText from None


def _number(text: str, field: Field) -> int | float:
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return _exact(text)
    if not _NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
        raise UnfitText
    return value


def _boolean(text: str, field: Field) -> bool:
    value = _WORDS.get(text.strip().lower())
    if value is None:
        raise UnfitText
    return value


def _null(text: str, field: Field) -> None:
    if text != "null":
        raise UnfitText


def _choice(text: str, field: Field) -> Any:
    """By value first, then by label, then by how JSON writes the value."""
    for value, _ in field.choices:
        if isinstance(value, str) and value == text:
            return value
    for value, label in field.choices:
        if label == text:
            return value
    for value, _ in field.choices:
        if not isinstance(value, str) and _reads_as(text, value):
            return value
    raise UnfitText


def _reads_as(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return _WORDS.get(text.lower()) is value
    try:
        read = read_json(text)
    except ValueError:
        return False
    return type(read) is type(value) and bool(read == value)


def _array(text: str, field: Field) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            value = read_json(text)
        except ValueError:
            value = None
        if isinstance(value, list):
            return value
    item = field.at(0)
    return [text if item is None else from_text(text, item)]


def _object(text: str, field: Field) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError:
        raise UnfitText from None
    if not isinstance(value, dict):
        raise UnfitText
    return value


def _union(text: str, field: Field) -> Any:
    """Text where a variant takes this very text, else the first variant that the text stands for."""
    for variant in field.variants:
        if variant.kind in ("string", "any", "enum", "const") and _takes(variant, text):
            return text
    opening = text.lstrip()[:1]
    variants = sorted(field.variants, key=lambda each: _RANK.get((opening, each.kind), _RANK.get(("", each.kind), 0)))
    for variant in variants:
        try:
            return from_text(text, variant)
        except UnfitText:
            continue
    raise UnfitText


_RANK = {("[", "array"): -1, ("{", "object"): -1, ("", "object"): 1, ("", "array"): 2, ("", "string"): 3}
"""Which variant is tried first: what the text looks like, then scalars, a list of one, and a string it does not fit."""


def _takes(field: Field, text: str) -> bool:
    """Whether this text itself is a value of a field."""
    if field.kind in ("enum", "const"):
        return any(value == text for value, _ in field.choices if isinstance(value, str))
    schema = field.schema
    low, high = schema.get("minLength"), schema.get("maxLength")
    long_enough = not is_number(low) or len(text) >= low
    short_enough = not is_number(high) or len(text) <= high
    return bool(
        long_enough
        and short_enough
        and fits_format(text, field.format)
        and matches(schema.get("pattern"), text) is not False
    )


_READERS: dict[str, Callable[[str, Field], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "enum": _choice,
    "const": _choice,
    "array": _array,
    "object": _object,
    "union": _union,
}
"""Kind -> how its text is read; a kind without a row takes any text."""
