"""Schemas as providers take them: JSON Schema 2020-12, and nothing that they are known to refuse.

A provider that dislikes one schema refuses the whole request, so one odd tool would take all the others with it.
What a model is given is a hint; arguments are checked against the schema that the server wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from mcp_magic.schema.merge import is_number, json_equal
from mcp_magic.schema.patterns import is_checked

__all__ = ["acceptable"]

MAX_DEPTH = 64
"""Levels that are kept; what is deeper may be anything."""

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")

Schema = dict[str, Any]

_NOT_VALID: Any = object()
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def acceptable(schema: Mapping[str, Any]) -> Schema:
    """Return a valid schema that says what `schema` says, as far as that is valid; an ordinary one is returned equal.

    Keywords with values that are none of theirs are left out, older drafts' forms of arrays and bounds brought up to
    date, arrays without `items` get one, references that lead nowhere in the document are dropped.

    >>> acceptable({"type": "array"}), acceptable({"type": "any", "minLength": "3", "title": "A"})
    ({'type': 'array', 'items': {}}, {'title': 'A'})
    """
    cleaned = _schema(schema, 0)
    followed: Schema = _without_dangling(cleaned, cleaned)
    return followed


def _schema(schema: Any, depth: int) -> Schema:
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    kept: Schema = {}
    for key, value in _modern(schema).items():
        check = _KEYWORDS.get(key)
        known = value if check is None else check(value, depth + 1)
        if known is not _NOT_VALID:
            kept[key] = known
    _mend_patterns(schema, kept)
    types = kept.get("type", ())
    if "items" not in kept and "array" in ([types] if isinstance(types, str) else types):
        kept["items"] = {}  # OpenAI: "array schema missing items"
    return kept


def _modern(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Bring the forms of drafts 4 to 2019-09 up to date."""
    modern = dict(schema)
    if isinstance(schema.get("items"), list):
        modern["prefixItems"] = modern.pop("items")
        if "additionalItems" in schema:
            modern["items"] = schema["additionalItems"]
    for gone in ("additionalItems", "$recursiveAnchor", "$vocabulary", "$id"):  # "$id" changes what "#" means
        modern.pop(gone, None)
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.title()}"
        if schema.get(exclusive) is True and bound in schema:
            modern[exclusive] = modern.pop(bound)
    if modern.pop("$recursiveRef", None) == "#":
        modern["$ref"] = "#"
    return modern


def _mend_patterns(schema: Mapping[str, Any], kept: Schema) -> None:
    """Say in words what was a regular expression of another dialect: OpenAI takes only those that Python can read."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and "pattern" not in kept:
        kept["description"] = f"{kept.get('description', '')} (pattern: {pattern[:200]})".strip()
    names = schema.get("patternProperties")
    if isinstance(names, Mapping) and len(names) > len(kept.get("patternProperties", ())):
        kept.pop("additionalProperties", None)


def _a(kind: type) -> Callable[[Any, int], Any]:
    return lambda value, depth: value if isinstance(value, kind) else _NOT_VALID


def _anchor(value: Any, depth: int) -> Any:
    return value if isinstance(value, str) and _ANCHOR.fullmatch(value) else _NOT_VALID


def _dialect(value: Any, depth: int) -> Any:
    return value if isinstance(value, str) and re.fullmatch(r"https?://[\w./#-]+", value, re.ASCII) else _NOT_VALID


def _number(value: Any, depth: int) -> Any:
    return value if is_number(value) else _NOT_VALID


def _positive(value: Any, depth: int) -> Any:
    return value if is_number(value) and value > 0 else _NOT_VALID


def _count(value: Any, depth: int) -> Any:
    return int(value) if is_number(value) and value >= 0 and value == int(value) else _NOT_VALID


def _pattern(value: Any, depth: int) -> Any:
    if not isinstance(value, str) or not is_checked(value):
        return _NOT_VALID
    try:
        re.compile(value)
    except (ValueError, re.error, RecursionError, OverflowError):
        return _NOT_VALID
    return value


def _type(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if value in TYPES else _NOT_VALID
    names = [name for name in value if name in TYPES] if isinstance(value, list) else []
    return list(dict.fromkeys(names)) or _NOT_VALID


def _values(value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    different: list[Any] = []
    for each in value:
        if not any(json_equal(each, known) for known in different):
            different.append(each)
    return different or _NOT_VALID


def _names(value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _part(value: Any, depth: int) -> Any:
    return _schema(value, depth) if isinstance(value, bool | Mapping) else _NOT_VALID


def _part_or_flag(value: Any, depth: int) -> Any:
    return value if isinstance(value, bool) else _part(value, depth)


def _parts(value: Any, depth: int) -> Any:
    parts = [_part(each, depth) for each in value] if isinstance(value, list) else []
    return [part for part in parts if part is not _NOT_VALID] or _NOT_VALID


def _named_parts(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    parts = {name: _part(each, depth) for name, each in value.items()}
    return {name: {} if part is _NOT_VALID else part for name, part in parts.items()}


def _named_by_pattern(value: Any, depth: int) -> Any:
    parts = _named_parts(value, depth)
    if parts is _NOT_VALID:
        return parts
    return {name: part for name, part in parts.items() if _pattern(name, depth) is not _NOT_VALID}


def _named_names(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    return {name: _names(each, depth) for name, each in value.items() if isinstance(each, list)}


def _dependencies(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    parts = _named_parts({name: each for name, each in value.items() if not isinstance(each, list)}, depth)
    return {**parts, **_named_names(value, depth)}


_KEYWORDS: dict[str, Callable[[Any, int], Any]] = {
    "type": _type,
    "enum": _values,
    "required": _names,
    "pattern": _pattern,
    "multipleOf": _positive,
    "examples": _a(list),
    "$schema": _dialect,
    "patternProperties": _named_by_pattern,
    "dependentRequired": _named_names,
    "dependencies": _dependencies,
    **dict.fromkeys(("title", "description", "$comment", "format", "$ref", "$dynamicRef"), _a(str)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _a(str)),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _anchor),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _a(bool)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _count),
    **dict.fromkeys(("minProperties", "maxProperties"), _count),
    **dict.fromkeys(("items", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema"), _part),
    **dict.fromkeys(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"), _part_or_flag),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _parts),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _named_parts),
}
"""By keyword what makes its value valid, or `_NOT_VALID`. Unknown keywords are annotations, and kept."""


def _without_dangling(node: Any, root: Schema) -> Any:
    """Drop the references that no resolver could follow inside of the document."""
    if isinstance(node, list):
        return [_without_dangling(each, root) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _without_dangling(value, root) for key, value in node.items()}
    for key in ("$ref", "$dynamicRef"):
        if isinstance(kept.get(key), str) and not _leads_to_schema(kept[key], root):
            del kept[key]
    return kept


def _leads_to_schema(ref: str, root: Schema) -> bool:
    seen: set[str] = set()
    while ref not in seen:
        seen.add(ref)
        target = _target(ref, root)
        if not isinstance(target, dict | bool):
            return False
        further = target.get("$ref") if isinstance(target, dict) else None
        if not isinstance(further, str):
            return True
        ref = further
    return False  # a circle of references that says nothing


def _target(ref: str, root: Schema) -> Any:
    if ref != "#" and not ref.startswith("#/"):
        return None
    place: Any = root
    for part in ref.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and key.isdecimal() and int(key) < len(place):
            place = place[int(key)]
        elif isinstance(place, dict):
            place = place.get(key)
        else:
            return None
    return place
