"""Schemas that are valid at a glance: the metaschema takes milliseconds for each, and servers may have thousands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_magic.schema.merge import is_number

__all__ = ["plainly_valid"]

MAX_DEPTH = 20

_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))


def plainly_valid(schema: Any, depth: int = 0) -> bool:
    """Whether a schema is certainly valid in every draft from 6 to 2020-12; False: the metaschema has to say.

    >>> plainly_valid({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}})
    True
    >>> plainly_valid({"type": "int"}), plainly_valid({"dependentRequired": {}})
    (False, False)
    """
    if not isinstance(schema, Mapping):
        return isinstance(schema, bool)
    if depth > MAX_DEPTH:
        return False
    for keyword, value in schema.items():
        check = _KEYWORDS.get(keyword)
        if check is None or not check(value, depth + 1):
            return False
    return True


def _is_text(value: Any, depth: int) -> bool:
    return isinstance(value, str)


def _is_bound(value: Any, depth: int) -> bool:
    return is_number(value)


def _is_count(value: Any, depth: int) -> bool:
    return type(value) is int and value >= 0


def _is_type(value: Any, depth: int) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    texts = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    return texts and len(set(value)) == len(value) and _TYPES.issuperset(value)


def _is_names(value: Any, depth: int) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(set(value)) == len(value)


def _is_members(value: Any, depth: int) -> bool:
    return isinstance(value, Mapping) and all(plainly_valid(one, depth) for one in value.values())


def _is_choice(value: Any, depth: int) -> bool:
    return isinstance(value, list) and bool(value) and all(plainly_valid(one, depth) for one in value)


def _is_list(value: Any, depth: int) -> bool:
    return isinstance(value, list)


def _is_truth(value: Any, depth: int) -> bool:
    return isinstance(value, bool)


def _is_anything(value: Any, depth: int) -> bool:
    return True


def _is_local(value: Any, depth: int) -> bool:
    return isinstance(value, str) and value.startswith("#/") and " " not in value


_KEYWORDS: dict[str, Callable[[Any, int], bool]] = {
    "type": _is_type,
    "properties": _is_members,
    "$defs": _is_members,
    "required": _is_names,
    "items": plainly_valid,
    "additionalProperties": plainly_valid,
    "propertyNames": plainly_valid,
    "anyOf": _is_choice,
    "oneOf": _is_choice,
    "allOf": _is_choice,
    "enum": _is_list,
    "const": _is_anything,
    "default": _is_anything,
    "examples": _is_list,
    "$ref": _is_local,
    "uniqueItems": _is_truth,
    **dict.fromkeys(("title", "description", "format", "pattern"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_bound),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
}
"""Keyword -> whether its value is certainly valid; of all others the metaschema has to say."""
