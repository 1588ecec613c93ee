from __future__ import annotations

import contextlib
import subprocess
import sys
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import check_arguments
from mcp_magic.schema.validate import native_check
from tests.support.strategies import QUICK, anything_like_a_schema, called, json_values

CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
    "required": ["kind", "r"],
    "additionalProperties": False,
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}, "turn": {"type": "number"}},
    "required": ["kind", "side"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 10},
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "color": {"enum": ["red", "green"]},
        "day": {"type": "string", "format": "date"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"price": {"type": "number", "minimum": 0}, "id": {"type": "string"}},
                "required": ["price"],
                "additionalProperties": False,
            },
        },
        "shape": {"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/square"}]},
        "tags": {"type": "array", "uniqueItems": True},
        "password": {"type": "string", "minLength": 8},
        "login": {"type": "object", "properties": {"user": {"type": "integer"}}},
        "not_one": {"not": {"const": 1}},
        "never": False,
        "two": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    },
    "$defs": {"circle": CIRCLE, "square": SQUARE},
}


def message(arguments: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> str:
    with pytest.raises(ArgumentsError) as raised:
        check_arguments(arguments, schema)
    return str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": "3"}, "n: expected integer, 1 to 10, got '3'"),
        ({"n": 11}, "n: expected integer, 1 to 10, got 11"),
        ({"n": True}, "n: expected integer, 1 to 10, got True"),
        ({"n": None}, "n: expected integer, 1 to 10, got null"),
        ({"n": 2.5}, "n: expected integer, 1 to 10, got 2.5"),
        ({"name": "A"}, "name: expected string, at least 2 characters, matches ^[a-z]+$, got 'A'"),
        ({"color": "gren"}, "color: expected one of 'red', 'green', got 'gren'. Did you mean 'green'?"),
        ({"day": "31.12.2026"}, "day: expected string (date), got '31.12.2026'"),
        ({"maybe": "x"}, "maybe: expected integer or null, got 'x'"),
        ({"tags": [1, 1]}, "tags: expected list, no duplicates, got [1, 1]"),
        ({"items": [{"price": 1}, {"price": -1}]}, "items[1].price: expected number, at least 0, got -1"),
        ({"items": [{}]}, "missing: items[0].price (number)"),
        (
            {"items": [{"price": 1, "prize": 2}]},
            "unknown argument 'items[0].prize'. Did you mean 'price'? It takes price, id",
        ),
        ({"items": {"price": 1}}, "items: expected list of object, got {'price': 1}"),
        ({"shape": {"kind": "circle"}}, "missing: shape.r (number)"),
        ({"shape": {"kind": "circle", "r": "x"}}, "shape.r: expected number, got 'x'"),
        ({"shape": {"kind": "hexagon"}}, "shape.kind: expected one of 'circle', 'square', got 'hexagon'"),
        ({"shape": 3}, "shape: expected object, got 3"),
        ({"password": "abc"}, "password: expected string, at least 8 characters, got ***"),
        ({"login": [{"password": "abc", "user": 1}]}, "login: expected object, got [{'password': '***', 'user': 1}]"),
        ({"not_one": 1}, "not_one: 1 should not be valid under {'const': 1}"),
        ({"never": 1}, "never: must be left out"),
        ({"two": 1}, "two: expected exactly one of integer or number to fit, got 1"),
        ({"n": "x" * 100}, "n: expected integer, 1 to 10, got '" + "x" * 32 + "..." + "x" * 23 + "…"),
    ],
)  # fmt: skip
def test_problem_line_names_argument_expected_and_got(arguments: dict[str, Any], text: str) -> None:
    assert message(arguments) == text


def test_missing_arguments_are_listed_together() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {}},
        "required": ["a", "b"],
    }
    assert message({"c": 1}, schema) == "missing: a (integer), b (string or null)"


def test_missing_arguments_of_draft_3_are_listed_together() -> None:
    needed = {"type": "integer", "required": True}
    inner = {"type": "object", "properties": {"d": needed}}
    schema = {
        "$schema": "http://json-schema.org/draft-03/schema#",
        "type": "object",
        "properties": {"a": needed, "b": needed, "c": inner, "e": {"type": "integer"}},
    }
    assert message({"c": {}}, schema) == "missing: a (integer), b (integer), c.d (integer)"
    assert message({"a": 1, "b": 2, "c": {"d": "x"}}, schema) == "c.d: expected integer, got 'x'"


def test_unknown_arguments_are_listed_together() -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    assert message({"x": 1, "y": 2}, schema) == "unknown arguments 'x', 'y'. It takes a, b"
    for nothing in ({"properties": {}}, {"type": "object", "properties": {}, "additionalProperties": False}):
        assert message({"x": 1}, nothing) == "unknown argument 'x'. It takes no arguments"
    check_arguments({"x": 1}, {"type": "object"})


def test_unknown_argument_suggests_and_lists_names() -> None:
    schema = {"type": "object", "properties": {f"name{i}": {} for i in range(15)}}
    assert message({"nam3": 1}, schema) == (
        "unknown argument 'nam3'. Did you mean 'name3'? "
        "It takes name0, name1, name2, name3, name4, name5, name6, name7, name8, name9, name10, name11 and 3 more"
    )


def test_at_most_three_problems_are_told() -> None:
    arguments = {"n": 0, "color": "blue", "maybe": "x", "name": "A", "items": 3}
    assert message(arguments).splitlines() == [
        "n: expected integer, 1 to 10, got 0",
        "name: expected string, at least 2 characters, matches ^[a-z]+$, got 'A'",
        "color: expected one of 'red', 'green', got 'blue'",
        "... and 2 more",
    ]


def test_secret_quoted_by_jsonschema_is_masked() -> None:
    schema = {"type": "object", "properties": {"login": {"not": {"required": ["password"]}}}}
    assert message({"login": {"password": "hunter2"}}, schema) == (
        "login: does not fit 'not' of the schema, got {'password': '***'}"
    )


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ({"anything": [1]}, {}),
        ({"x": 1}, {"type": "object"}),
        ({"x": 1}, {"type": "object", "properties": {"a": {}}, "additionalProperties": True}),
        ({"n": 1.0}, {"properties": {"n": {"type": "integer"}}}),
        ({"n": 2**300}, {"properties": {"n": {"type": "integer"}}}),
        ({"t": "2026-01-02T03:04:05"}, {"properties": {"t": {"type": "string", "format": "date-time"}}}),
        ({"t": "2026-01-02T03:04:60Z"}, {"properties": {"t": {"type": "string", "format": "date-time"}}}),
        ({"t": "x"}, {"properties": {"t": {"type": "string", "format": "colour"}}}),
    ],
)
def test_valid_arguments_pass(arguments: dict[str, Any], schema: dict[str, Any]) -> None:
    check_arguments(arguments, schema)


@pytest.mark.parametrize("name", ["date", "date-time", "time", "email", "ipv4", "ipv6", "uuid", "uri", "duration"])
def test_formats_are_asserted_whatever_is_installed(name: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": name}}}
    assert message({"x": "certainly not"}, schema) == f"x: expected string ({name}), got 'certainly not'"


@pytest.mark.parametrize(
    "schema",
    [
        *({"$ref": "http://127.0.0.1:9/never-fetched.json"}, {"properties": {"a": {"type": "strin"}}}),
        *({"properties": {"a": {"type": "string", "pattern": "("}}}, {"properties": {"a": {"minimum": "low"}}}),
        {"$ref": "#"},
    ],
)
def test_what_cannot_be_decided_is_left_to_the_server(schema: dict[str, Any]) -> None:
    check_arguments({"a": "x"}, schema)


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    properties = {"pair": {"items": [{"type": "integer"}, {"type": "string"}]}}
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": properties}
    assert message({"pair": [1, 2]}, draft7) == "pair[1]: expected string, got 2"


@QUICK
@given(called())
def test_generated_arguments_are_valid_for_their_schema(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, arguments = case
    check_arguments(arguments, schema)


@QUICK
@given(called(), st.data())
def test_a_quick_yes_is_never_wrong(case: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    schema, arguments = case
    changed = {**arguments, **data.draw(st.dictionaries(st.sampled_from([*schema["properties"], "x"]), json_values))}
    if native_check(schema)(changed):
        assert Draft202012Validator(schema).is_valid(changed)


@QUICK
@given(anything_like_a_schema, st.dictionaries(st.sampled_from(["a", "b"]), json_values))
def test_quick_yes_is_never_wrong_for_schema_lookalikes(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    if native_check(schema)(arguments):
        with contextlib.suppress(AttributeError, TypeError, Unresolvable):  # invalid schemas
            assert Draft202012Validator(schema, registry=Registry()).is_valid(arguments)


PYDANTIC = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City"},
        "days": {"type": "integer", "minimum": 1, "default": 3},
        "unit": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}], "default": None},
        "day": {"type": "string", "format": "date"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
    },
    "$defs": {"Place": {"type": "object", "properties": {"lat": {"type": "number"}, "in": {"$ref": "#/$defs/Place"}}}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("arguments", "sure"),
    [
        *(({"city": "Oslo"}, True), ({"city": "Oslo", "days": 2, "unit": None, "day": "2026-01-02"}, True)),
        ({"city": "Oslo", "days": 2.0, "unit": "c"}, True),
        ({"city": "Oslo", "places": [{"lat": 1.5, "in": {"in": {}}}]}, True),
        ({"city": "Oslo", "places": [{"lat": 1.5, "in": {"in": {"lat": "x"}}}]}, False),
        *(({"city": "Oslo", "days": True}, False), ({"city": "Oslo", "days": 0}, False)),
        *(({"city": "Oslo", "unit": "k"}, False), ({"city": "Oslo", "day": "2026-02-30"}, False)),
        *(({"city": "Oslo", "days": float("nan")}, False), ({"days": 1}, False)),
    ],
)
def test_plain_schemas_are_decided_without_jsonschema(arguments: dict[str, Any], sure: bool) -> None:
    assert native_check(PYDANTIC)(arguments) is sure


def test_valid_plain_arguments_do_not_import_jsonschema() -> None:
    program = (
        "import sys; from mcp_magic.schema import check_arguments as c;"
        "c({'n': 1}, {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']});"
        "print([m for m in ('jsonschema', 'referencing', 'pandas', 'mcp', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_valid_call_costs_microseconds() -> None:
    arguments = {"city": "Oslo", "days": 2}
    best = min(timeit.repeat(lambda: check_arguments(arguments, PYDANTIC), number=1_000, repeat=20)) / 1_000
    assert best < 20e-6  # 1 µs on an idle machine; jsonschema takes 100


def test_schemas_that_come_and_go_are_not_confused() -> None:
    for kind, value in [("integer", 1), ("string", "a")] * 600:
        check_arguments({"x": value}, {"type": "object", "properties": {"x": {"type": kind}}})
