"""Valid instances of a JSON Schema as servers write them, without a look at the code that makes forms of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import integers, json_values, numbers, texts

__all__ = ["exact", "instances"]

UNDERSTOOD = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf", "$ref"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format", "propertyNames"),
        *("title", "description", "default", "examples", "$schema", "$defs", "definitions", "enumNames", "uniqueItems"),
    )
)

FORMATS: dict[str, st.SearchStrategy[str]] = {
    "date": st.dates().map(str),
    "uri": st.sampled_from(["https://example.org/a?b=c", "data:text/plain;base64,aGk=", "file:///tmp/x"]),
    "email": st.sampled_from(["ada@example.org", "a+b@c.de"]),
}


def instances(schema: Any, root: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """Return what is valid for a schema.

    Raises:
        NotImplementedError: It says something that is not understood here: learn it, do not pass over it.
    """
    root = schema if root is None else root
    if schema is True or schema == {}:
        return json_values
    if strange := set(schema) - UNDERSTOOD:
        raise NotImplementedError(f"{strange} in {schema}")
    if "$ref" in schema:
        place: Any = root
        for part in schema["$ref"].split("/")[1:]:
            place = place[part]
        return st.deferred(lambda: instances(place, root))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of(*(instances(each, root) for each in schema[key]))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of(*(_of_kind(kind, schema, root) for kind in kinds))


def _of_kind(kind: str, schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    least, most = schema.get("minimum"), schema.get("maximum")
    bounded = least is not None or most is not None
    match kind:
        case "string":
            return _text(schema)
        case "integer":
            return st.integers(least, most) if bounded else integers
        case "number" if bounded:
            return st.floats(least, most, allow_nan=False, allow_infinity=False)
        case "number":
            return numbers
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            inner = instances(schema.get("items", True), root)
            unique = repr if schema.get("uniqueItems") else None
            size = {"min_size": schema.get("minItems", 0), "max_size": min(schema.get("maxItems", 4), 8)}
            return st.lists(inner, unique_by=unique, **size)
        case "object":
            return _object(schema, root)
    raise NotImplementedError(kind)


def _text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "format" in schema:
        return FORMATS[schema["format"]]
    if "pattern" in schema:
        return st.from_regex(schema["pattern"])
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "minLength" in schema or "maxLength" in schema:
        return st.text(min_size=least, max_size=most if most is not None else least + 10)
    return texts


def _object(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    inner = {name: instances(each, root) for name, each in schema.get("properties", {}).items()}
    required = set(schema.get("required", ()))
    fixed = st.fixed_dictionaries(
        {name: each for name, each in inner.items() if name in required},
        optional={name: each for name, each in inner.items() if name not in required},
    )
    more = schema.get("additionalProperties")
    if not isinstance(more, dict) and more is not True:
        return fixed
    others = st.dictionaries(st.text(min_size=1, max_size=4).filter(lambda n: n not in inner), instances(more, root))
    return st.tuples(others, fixed).map(lambda pair: {**pair[0], **pair[1]})


def exact(value: Any) -> str:
    """A value with its types: 1, 1.0 and true differ, the order of names does not count."""
    return json.dumps(value, sort_keys=True)
