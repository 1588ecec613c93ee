"""Schemas as providers take them: JSON Schema 2020-12, and nothing that they are known to refuse.

A provider that dislikes one schema refuses the whole request, so one odd tool would take all the others with it.
What a model is given is a hint; arguments are checked against the schema that the server wrote.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from mcp_magic.schema.budget import MAX_DEPTH, Budget
from mcp_magic.schema.merge import distinct, is_number
from mcp_magic.schema.patterns import is_checked
from mcp_magic.schema.resolve import index_in

__all__ = ["acceptable"]

MAX_CHAIN = 64
"""References that are followed from one to the next."""

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")

Schema = dict[str, Any]

_NOT_VALID: Any = object()
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def acceptable(schema: Mapping[str, Any]) -> Schema:
    """Return a valid schema that says what `schema` says, as far as that is valid; an ordinary one is returned equal.

    Keywords with values that are none of theirs are left out, older drafts' forms of arrays and bounds brought up to
    date, arrays without `items` get one, references that lead nowhere in the document are dropped. Of a schema past its
    budget (`schema.budget`) the rest may be anything; properties and choices that are left out are counted in words.

    >>> acceptable({"type": "array"}), acceptable({"type": "any", "minLength": "3", "title": "A"})
    ({'type': 'array', 'items': {}}, {'title': 'A'})
    """
    cleaned = _schema(schema, _Level(0, Budget()))
    followed: Schema = _without_dangling(cleaned, cleaned)
    return followed


class _Level(NamedTuple):
    """Where a walk is, and what it may still keep."""

    depth: int
    budget: Budget


def _schema(schema: Any, level: _Level) -> Schema:
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, Mapping) or level.depth > MAX_DEPTH:
        return {}
    kept: Schema = {}
    inner = _Level(level.depth + 1, level.budget)
    for key, value in _modern(schema).items():
        check = _KEYWORDS.get(key)
        known = value if check is None else check(value, inner)
        if known is not _NOT_VALID:
            kept[key] = known
    _mend_patterns(schema, kept)
    _tell_cut(schema, kept)
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
        _add_note(kept, f"pattern: {pattern[:200]}")
    names = schema.get("patternProperties")
    if isinstance(names, Mapping) and len(names) > len(kept.get("patternProperties", ())):
        kept.pop("additionalProperties", None)


def _tell_cut(schema: Mapping[str, Any], kept: Schema) -> None:
    """Say in words how many properties and choices were left out."""
    if isinstance(choices := schema.get("enum"), list) and choices and "enum" not in kept:
        shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in choices[:5])
        _add_note(kept, f"one of {len(choices):,} values, such as {shown[:200]}")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and len(properties) > len(kept.get("properties", ())):
        kept["required"] = [name for name in kept.get("required", ()) if name in kept.get("properties", ())]
        _add_note(kept, f"{len(properties) - len(kept['properties']):,} more properties are not listed")


def _add_note(kept: Schema, note: str) -> None:
    kept["description"] = f"{kept.get('description', '')} ({note})".strip()


def _a(kind: type) -> Callable[[Any, _Level], Any]:
    return lambda value, level: value if isinstance(value, kind) else _NOT_VALID


def _anchor(value: Any, level: _Level) -> Any:
    return value if isinstance(value, str) and _ANCHOR.fullmatch(value) else _NOT_VALID


def _dialect(value: Any, level: _Level) -> Any:
    return value if isinstance(value, str) and re.fullmatch(r"https?://[\w./#-]+", value, re.ASCII) else _NOT_VALID


def _number(value: Any, level: _Level) -> Any:
    return value if is_number(value) else _NOT_VALID


def _positive(value: Any, level: _Level) -> Any:
    return value if is_number(value) and value > 0 else _NOT_VALID


def _count(value: Any, level: _Level) -> Any:
    return int(value) if is_number(value) and value >= 0 and value == int(value) else _NOT_VALID


def _pattern(value: Any, level: _Level) -> Any:
    if not isinstance(value, str) or not is_checked(value):
        return _NOT_VALID
    try:
        re.compile(value)
    except (ValueError, re.error, RecursionError, OverflowError):
        return _NOT_VALID
    return value


def _type(value: Any, level: _Level) -> Any:
    if isinstance(value, str):
        return value if value in TYPES else _NOT_VALID
    names = [name for name in value if name in TYPES] if isinstance(value, list) else []
    return list(dict.fromkeys(names)) or _NOT_VALID


def _values(value: Any, level: _Level) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    if len(value) > level.budget.nodes:
        return _NOT_VALID
    level.budget.take(len(value))
    return distinct(value) or _NOT_VALID


def _names(value: Any, level: _Level) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _part(value: Any, level: _Level) -> Any:
    return _schema(value, level) if isinstance(value, bool | Mapping) else _NOT_VALID


def _part_or_flag(value: Any, level: _Level) -> Any:
    return value if isinstance(value, bool) else _part(value, level)


def _parts(value: Any, level: _Level) -> Any:
    parts = [_part(each, level) for each in value[: level.budget.take(len(value))]] if isinstance(value, list) else []
    return [part for part in parts if part is not _NOT_VALID] or _NOT_VALID


def _named_parts(value: Any, level: _Level) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    kept = itertools.islice(value.items(), level.budget.take(len(value)))
    parts = {name: _part(each, level) for name, each in kept}
    return {name: {} if part is _NOT_VALID else part for name, part in parts.items()}


def _named_by_pattern(value: Any, level: _Level) -> Any:
    parts = _named_parts(value, level)
    if parts is _NOT_VALID:
        return parts
    return {name: part for name, part in parts.items() if _pattern(name, level) is not _NOT_VALID}


def _named_names(value: Any, level: _Level) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    return {name: _names(each, level) for name, each in value.items() if isinstance(each, list)}


def _dependencies(value: Any, level: _Level) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    parts = _named_parts({name: each for name, each in value.items() if not isinstance(each, list)}, level)
    return {**parts, **_named_names(value, level)}


_KEYWORDS: dict[str, Callable[[Any, _Level], Any]] = {
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
        target = _target(ref, root) if len(seen) < MAX_CHAIN else None
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
        if isinstance(place, list) and (index := index_in(place, key)) is not None:
            place = place[index]
        elif isinstance(place, dict):
            place = place.get(key)
        else:
            return None
    return place
