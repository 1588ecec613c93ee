"""Which of several fields a value is meant for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.schema.formats import fits_format
from mcp_magic.schema.merge import json_equal

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["matches"]

MAX_DEPTH = 8
"""Levels of a value that are looked at. It decides between variants only; jsonschema checks the whole."""


def matches(field: Field, value: Any, depth: int = 0) -> bool:
    """Return whether a value has the shape of a field: its types, its named values, its required names.

    >>> from mcp_magic.schema import root_field
    >>> circle = root_field({"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["r"]})
    >>> matches(circle, {"kind": "circle", "r": 1}), matches(circle, {"kind": "box", "r": 1}), matches(circle, {})
    (True, False, False)
    """
    if value is None:
        return field.nullable or field.kind in ("null", "any")
    if depth > MAX_DEPTH:
        return True
    match field.kind:
        case "union":
            return any(matches(each, value, depth + 1) for each in field.variants)
        case "enum" | "const":
            return any(json_equal(choice, value) for choice, _ in field.choices)
        case "array":
            return isinstance(value, list) and all(_inner(field, i, each, depth) for i, each in enumerate(value))
        case "object":
            return isinstance(value, dict) and _object(field, value, depth)
    return _scalar(field, value)


def _scalar(field: Field, value: Any) -> bool:
    match field.kind:
        case "string":
            return isinstance(value, str) and fits_format(value, field.format)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return field.kind == "any"


def _object(field: Field, value: dict[str, Any], depth: int) -> bool:
    required = all(child.name in value for child in field.children if child.required)
    return required and all(_inner(field, name, each, depth) for name, each in value.items())


def _inner(field: Field, key: str | int, value: Any, depth: int) -> bool:
    inner = field.at(key)
    return inner is not None and matches(inner, value, depth + 1)
