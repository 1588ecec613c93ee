"""Fields in words. Functions of anything shaped like a `Field`, so that `fields` can import them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.merge import is_number
from mcp_magic.schema.patterns import is_checked
from mcp_magic.schema.sentinels import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.schema.fields import Field

__all__ = ["constraints_text", "describe", "expected", "label", "shorten", "type_text"]

MAX_CHOICES = 8
"""Choices named in a message; with more of them the rest is counted."""

MAX_DEPTH = 3
"""Levels of lists in lists that are spelt out; recursive schemas have no end."""

MAX_TEXT = 60
"""Characters of one value in a message."""


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """Cut a text for a message.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def label(value: Any) -> str:
    """Return how a choice is written on the command line.

    >>> label("a b"), label(None), label(3)
    ('a b', 'null', '3')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def literal(value: Any) -> str:
    """Return a value of a schema for a message: text in quotes, the rest as JSON."""
    return shorten(repr(value) if isinstance(value, str) else label(value))


def type_text(field: Field, depth: int = 0) -> str:
    """Return what is expected in a few words."""
    text = _kind_text(field, depth)
    return f"{text} or null" if field.nullable and field.kind != "null" else text


def _kind_text(field: Field, depth: int) -> str:
    match field.kind:
        case "enum":
            return _choices_text([value for value, _ in field.choices])
        case "const":
            return literal(field.schema["const"])
        case "union":
            return _joined(type_text(each, depth + 1) for each in field.variants)
        case "array":
            return _array_text(field, depth)
        case "object":
            return _object_text(field, depth)
        case "string" if field.format or field.is_base64:
            return f"string ({shorten(field.format, 30) or 'base64'})"
    return str(field.kind)


def _choices_text(values: list[Any]) -> str:
    if len(values) < 2:
        return literal(values[0]) if values else "nothing"
    shown = ", ".join(literal(value) for value in values[:MAX_CHOICES])
    rest = len(values) - MAX_CHOICES
    return f"one of {shown} and {rest} more" if rest > 0 else f"one of {shown}"


def _joined(texts: Iterable[str]) -> str:
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) > MAX_CHOICES:
            break
    names = list(found)
    return " or ".join(names[:MAX_CHOICES]) + (" or more" if len(names) > MAX_CHOICES else "")


def _array_text(field: Field, depth: int) -> str:
    if depth >= MAX_DEPTH or field.item is None:
        return "list"
    if field.prefix:
        return f"list ({', '.join(type_text(each, depth + 1) for each in field.prefix[:MAX_CHOICES])})"
    return _of("list", field.item, depth)


def _object_text(field: Field, depth: int) -> str:
    if not field.children and not isinstance(field.additional, bool) and depth < MAX_DEPTH:
        return _of("object", field.additional, depth)
    return "object"


def _of(container: str, item: Field, depth: int) -> str:
    if item.kind == "any" and not item.nullable:
        return container
    text = type_text(item, depth + 1)
    return f"{container} of ({text})" if " or " in text else f"{container} of {text}"


def constraints_text(schema: Mapping[str, Any]) -> str:
    """Return the limits that a schema sets, in words.

    >>> constraints_text({"minimum": 1, "maximum": 10})
    '1 to 10'
    >>> constraints_text({"minLength": 3, "pattern": "^a"})
    'at least 3 characters, matches ^a'
    """
    parts = [
        *_range(schema),
        _count(schema, "Length", "character"),
        _count(schema, "Items", "item"),
        _count(schema, "Properties", "name"),
    ]
    if is_number(schema.get("multipleOf")):
        parts.append(f"a multiple of {_digits(schema['multipleOf'])}")
    if isinstance(schema.get("pattern"), str):
        unchecked = "" if is_checked(schema["pattern"]) else " (not checked here)"
        parts.append(f"matches {shorten(schema['pattern'])}{unchecked}")
    if schema.get("uniqueItems") is True:
        parts.append("no duplicates")
    return ", ".join(part for part in parts if part)


def _range(schema: Mapping[str, Any]) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is True:  # draft-04 wrote the bound in `minimum`
        low, above = None, low
    if below is True:
        high, below = None, high
    if is_number(low) and is_number(high):
        return [f"{_digits(low)} to {_digits(high)}" if low != high else f"exactly {_digits(low)}"]
    words = (("at least", low), ("more than", above), ("at most", high), ("less than", below))
    return [f"{word} {_digits(bound)}" for word, bound in words if is_number(bound)]


def _digits(number: float) -> str:
    """Return a number for a message; of one with thousands of digits the first."""
    try:
        return shorten(str(number), MAX_TEXT)
    except ValueError:  # Python writes no more than 4,300 digits
        return "a huge number"


def _count(schema: Mapping[str, Any], keyword: str, noun: str) -> str:
    low, high = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    low = low if is_number(low) and low else None
    if low is not None and is_number(high):
        least = _digits(low)
        return f"exactly {least} {_plural(noun, low)}" if low == high else f"{least} to {_digits(high)} {noun}s"
    if low is not None:
        return f"at least {_digits(low)} {_plural(noun, low)}"
    return f"at most {_digits(high)} {_plural(noun, high)}" if is_number(high) else ""


def _plural(noun: str, count: Any) -> str:
    return noun if count == 1 else f"{noun}s"


def expected(field: Field) -> str:
    """Return type and limits together, for "expected ..." in messages."""
    limits = field.constraints_text
    return f"{field.type_text}, {limits}" if limits else field.type_text


def describe(field: Field) -> str:
    """Return one line for help.

    >>> from mcp_magic.schema.fields import root_field
    >>> schema = {"properties": {"n": {"type": "integer", "minimum": 1, "default": 3, "description": "How many"}}}
    >>> root_field(schema).children[0].describe()
    'n (integer, at least 1, optional, default 3): How many'
    """
    facts = [expected(field)]
    if not field.required:
        facts.append("optional")
    if field.default is not MISSING:
        facts.append(f"default {literal(field.default)}")
    text = " ".join((field.description or field.title).split())
    head = f"{field.name} ({', '.join(facts)})" if field.name else ", ".join(facts)
    return f"{head}: {text}" if text else head
