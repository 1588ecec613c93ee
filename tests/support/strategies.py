"""Schemas with instances that are valid for them, and documents that only look like schemas."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])
"""For properties that are tried fast; seeds and the number of examples of `make fuzz` are in tests/conftest.py."""

json_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
awkward = ["null", "true", "12", "1e5", "[1]", "{}", "$x", "{x}", "@x", "\\$x", "\\\\@x", "a=b", "it's", 'say "x"', ""]
texts = st.text(max_size=10) | st.sampled_from([*awkward, "naïve ☃", "two\nlines", "a\u2028b", "tab\t", "\\", "-1"])
names = st.text(min_size=1, max_size=5) | st.sampled_from(
    ["a", "b", "a.b", "a.b.c", "a=b", "a:", ":a", "--df", "-o", "a\\", "a b", "größe", "class", "arguments"]
)
integers = st.integers() | st.integers(min_value=2**60, max_value=2**200)
numbers = st.floats(allow_nan=False, allow_infinity=False) | integers

Described = tuple[dict[str, Any] | bool, st.SearchStrategy[Any]]


def _plain(schema: dict[str, Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Described]:
    return st.just((schema, values))


scalars: st.SearchStrategy[Described] = st.one_of(
    _plain({"type": "string"}, texts),
    _plain({"type": "integer"}, integers),
    _plain({"type": "number"}, numbers),
    _plain({"type": "boolean"}, st.booleans()),
    _plain({"enum": ["red", "1", 1, None, 2.5]}, st.sampled_from(["red", "1", 1, None, 2.5])),
    _plain({"const": "fixed"}, st.just("fixed")),
    _plain({"type": "string", "enum": ["null", "[x", "a b"]}, st.sampled_from(["null", "[x", "a b"])),
    _plain({"type": ["integer", "string"]}, integers | texts),
    _plain({}, json_values),
    _plain({"type": "string", "format": "date"}, st.dates().map(str)),
)


def _nullable(inner: Described) -> Described:
    schema, values = inner
    return {"anyOf": [schema, {"type": "null"}]}, values | st.none()


def _array(inner: Described) -> Described:
    schema, values = inner
    return {"type": "array", "items": schema}, st.lists(values, max_size=4)


def _map(inner: Described) -> Described:
    schema, values = inner
    return {"type": "object", "additionalProperties": schema}, st.dictionaries(names, values, max_size=3)


def _union(inner: list[Described]) -> Described:
    return {"anyOf": [schema for schema, _ in inner]}, st.one_of(*(values for _, values in inner))


def _object(inner: dict[str, Described]) -> Described:
    schema = {
        "type": "object",
        "properties": {name: each for name, (each, _) in inner.items()},
        "required": sorted(inner)[:1],
        "additionalProperties": False,
    }
    required = {name: values for name, (_, values) in inner.items() if name in schema["required"]}
    optional = {name: values for name, (_, values) in inner.items() if name not in schema["required"]}
    return schema, st.fixed_dictionaries(required, optional=optional)


def _extend(inner: st.SearchStrategy[Described]) -> st.SearchStrategy[Described]:
    return st.one_of(
        inner.map(_nullable),
        inner.map(_array),
        inner.map(_map),
        st.lists(inner, min_size=2, max_size=3).map(_union),
        st.dictionaries(names, inner, max_size=3).map(_object),
    )


objects: st.SearchStrategy[Described] = st.dictionaries(
    names, st.recursive(scalars, _extend, max_leaves=4), min_size=1, max_size=4
).map(_object)


@st.composite
def called(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool's input schema and valid arguments."""
    schema, values = draw(objects)
    return schema, draw(values)  # type: ignore[return-value]


_KEYWORDS = [
    *("type", "properties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "enum", "const", "required", "$ref"),
    *("additionalProperties", "patternProperties", "minimum", "maximum", "minLength", "pattern", "format", "title"),
    *("description", "default", "examples", "$defs", "not", "if", "multipleOf", "minItems", "enumNames", "$id"),
]
_KEYWORD_VALUES = st.sampled_from(
    [
        *("string", "integer", "object", "array", "null", ["string", "null"], ["object", "array"], "#", "#/$defs/a"),
        *("#/properties/a", "http://127.0.0.1:9/", "(", "^a", "date", True, False, 0, 3, -1.5, None, ["a"], [1, None]),
    ]
)
anything_like_a_schema = st.recursive(
    st.booleans() | _KEYWORD_VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from(_KEYWORDS), inner | _KEYWORD_VALUES, max_size=5)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
).filter(lambda each: isinstance(each, dict))
