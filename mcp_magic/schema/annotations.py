"""Fields as type hints."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.schema.fields import Field

__all__ = ["annotation_of"]

MAX_DEPTH = 4
"""Levels of containers that are spelt out; recursive schemas have no end."""

_PLAIN: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "null": None, "any": Any}


def annotation_of(field: Field, depth: int = 0) -> Any:
    """Return the type hint of a field.

    >>> from mcp_magic.schema.fields import root_field
    >>> annotation_of(root_field({"type": ["array", "null"], "items": {"enum": ["a", "b"]}}))
    list[typing.Literal['a', 'b']] | None
    """
    hint = Any if depth > MAX_DEPTH else _hint(field, depth)
    return _union([hint, None]) if field.nullable and hint not in (Any, None) else hint


def _hint(field: Field, depth: int) -> Any:
    match field.kind:
        case "string":
            return str | bytes if field.is_base64 else str
        case "enum" | "const":
            return _literal([value for value, _ in field.choices])
        case "union":
            return _union(annotation_of(variant, depth) for variant in field.variants)
        case "array":
            return _list(field, depth)
        case "object":
            additional = field.additional
            inner = Any if field.children or isinstance(additional, bool) else annotation_of(additional, depth + 1)
            return dict[str, inner]  # type: ignore[valid-type]  # made at run time
    return _PLAIN[field.kind]


def _list(field: Field, depth: int) -> Any:
    inner = Any if field.item is None else annotation_of(field.item, depth + 1)
    return list[inner]  # type: ignore[valid-type]  # made at run time


def _literal(values: list[Any]) -> Any:
    """Literal where Python allows it (PEP 586): not for floats, lists and objects."""
    if not values or not all(value is None or isinstance(value, str | int) for value in values):
        return Any
    return Literal[tuple(values)]


def _union(hints: Iterable[Any]) -> Any:
    distinct = list(dict.fromkeys(hints))
    if Any in distinct:
        return Any
    return functools.reduce(operator.or_, distinct)
