"""What kind of value a plain schema describes, and which values when it names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from mcp_magic.schema import describe
from mcp_magic.schema.patterns import matches

__all__ = ["TYPES", "Kind", "choices_of", "inferred_kind", "is_fixed", "name_matches", "says_base64", "text_of"]

Kind = Literal["string", "integer", "number", "boolean", "null", "array", "object", "enum", "const", "union", "any"]

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")


def text_of(value: Any) -> str:
    """Return a keyword's text, or "" if it is absent or no text."""
    return value if isinstance(value, str) else ""


def is_fixed(leaf: Mapping[str, Any]) -> bool:
    """Return whether a schema names its values."""
    return "const" in leaf or isinstance(leaf.get("enum"), list)


def inferred_kind(schema: Mapping[str, Any]) -> Kind:
    """The kind of a schema without a type, from keywords that only make sense for one."""
    if "type" in schema:
        return "any"
    if any(isinstance(schema.get(key), Mapping) for key in ("properties", "additionalProperties", "patternProperties")):
        return "object"
    return "array" if isinstance(schema.get("items"), Mapping | list) or "prefixItems" in schema else "any"


def choices_of(leaves: list[dict[str, Any]]) -> Iterator[tuple[Any, str]]:
    """The values of `enum` and `const`, labelled by `enumNames` or the alternative's title."""
    for leaf in leaves:
        values = [leaf["const"]] if "const" in leaf else leaf["enum"]
        names = leaf.get("enumNames", leaf.get("x-enumNames"))
        if "const" in leaf and len(leaves) > 1 and text_of(leaf.get("title")):
            names = [leaf["title"]]
        if not isinstance(names, list) or len(names) != len(values):
            names = [describe.label(value) for value in values]
        yield from zip(values, map(str, names), strict=True)


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a key of `patternProperties` matches a property's name."""
    return matches(pattern, name) is not False  # where it is not checked, the server will judge


def says_base64(schema: Mapping[str, Any]) -> bool:
    """Return whether a text stands for bytes in base64.

    There are four ways to say so: contentEncoding, OpenAPI's formats byte and binary, a media type that is no
    text, and, what most servers do, only in words.

    >>> says_base64({"type": "string", "description": "The picture, base64-encoded"})
    True
    """
    if text_of(schema.get("contentEncoding")).lower().startswith("base64"):
        return True
    if text_of(schema.get("format")) in ("byte", "binary", "base64", "base64url"):
        return True
    media = text_of(schema.get("contentMediaType"))
    if media and not media.startswith("text/") and "json" not in media and "xml" not in media:
        return True
    return re.search(r"(?i)base[\s_-]?64", f"{schema.get('title')} {schema.get('description')}") is not None
