"""Arguments checked before they are sent: what is told of them, and how seldom jsonschema is asked."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import timeit
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import check_arguments
from mcp_magic.schema.engine import DRAFTS, CompiledSchema
from tests.support.raising import said
from tests.support.schemas import DRAFT7, INTEGER, NULL, NUMBER, TEXT, either, listed, of
from tests.support.strategies import QUICK, anything_like_a_schema, called, json_values

CLOSED = {"additionalProperties": False}
CIRCLE = {**of("kind", "r", kind={"const": "circle"}, r=NUMBER), **CLOSED}
SQUARE = of("kind", "side", kind={"const": "square"}, side=NUMBER, turn=NUMBER)
SCHEMA: dict[str, Any] = {
    **of(
        n={**INTEGER, "minimum": 1, "maximum": 10},
        name={**TEXT, "minLength": 2, "pattern": "^[a-z]+$"},
        color={"enum": ["red", "green"]},
        day={**TEXT, "format": "date"},
        maybe=either(INTEGER, NULL),
        items=listed({**of("price", price={**NUMBER, "minimum": 0}, id=TEXT), **CLOSED}),
        shape={"oneOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/square"}]},
        tags={"type": "array", "uniqueItems": True},
        password={**TEXT, "minLength": 8},
        login=of(user=INTEGER),
        not_one={"not": {"const": 1}},
        never=False,
        two={"oneOf": [INTEGER, NUMBER]},
    ),
    "$defs": {"circle": CIRCLE, "square": SQUARE},
}


def message(arguments: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> str:
    return said(ArgumentsError, check_arguments, arguments, schema)


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
        ({"maybe": "x"}, "maybe: expected integer or null, got 'x'"),
        ({"tags": [1, 1]}, "tags: expected list, no duplicates, got [1, 1]"),
        ({"items": [{"price": 1}, {"price": -1}]}, "items[1].price: expected number, at least 0, got -1"),
        ({"items": [{}]}, "missing: items[0].price (number)"),
        ({"items": [{"price": 1, "prize": 2}]}, "unknown argument 'items[0].prize'. Did you mean 'price'? It takes "
         "price, id"),
        ({"items": {"price": 1}}, "items: expected list of object, got {'price': 1}"),
        ({"shape": {"kind": "circle"}}, "missing: shape.r (number)"),
        ({"shape": {"kind": "circle", "r": "x"}}, "shape.r: expected number, got 'x'"),
        ({"shape": {"kind": "hexagon"}}, "shape.kind: expected one of 'circle', 'square', got 'hexagon'"),
        ({"shape": 3}, "shape: expected object, got 3"),
        ({"password": "abc"}, "password: expected string, at least 8 characters, got ***"),
        ({"login": [{"password": "abc", "user": 1}]}, "login: expected object, got [{'password': '***', 'user': 1}]"),
        ({"not_one": 1}, "not_one: must not fit {'const': 1}, got 1"),
        ({"never": 1}, "never: must be left out"),
        ({"two": 1}, "two: expected exactly one of integer or number to fit, got 1"),
        ({"n": "x" * 100}, "n: expected integer, 1 to 10, got '" + "x" * 32 + "..." + "x" * 23 + "…"),
        ({"n": 0, "color": "blue", "maybe": "x", "name": "A", "items": 3}, "n: expected integer, 1 to 10, got 0\n"
         "color: expected one of 'red', 'green', got 'blue'\nmaybe: expected integer or null, got 'x'\n... and 2 more"),
    ],
)  # fmt: skip
def test_problem_line_names_argument_expected_and_got(arguments, text):
    assert message(arguments) == text


NEEDED = {**INTEGER, "required": True}
DRAFT3 = {
    "$schema": "http://json-schema.org/draft-03/schema#",
    **of(a=NEEDED, b=NEEDED, c={"type": "object", "properties": {"d": NEEDED}}, e={**INTEGER, "divisibleBy": 5}),
}
MANY = of(**{f"name{i}": {} for i in range(15)})


@pytest.mark.parametrize(
    ("schema", "arguments", "text"),
    [
        pytest.param(of("a", "b", a=INTEGER, b={"type": ["string", "null"]}, c={}), {"c": 1},
                     "missing: a (integer), b (string or null)", id="missing"),
        pytest.param(DRAFT3, {"c": {}}, "missing: a (integer), b (integer), c.d (integer)", id="draft 3"),
        pytest.param(DRAFT3, {"a": 1, "b": 2, "c": {"d": "x"}}, "c.d: expected integer, got 'x'", id="draft 3 value"),
        pytest.param(DRAFT3, {"a": 1, "b": 2, "e": 7},
                     "e: expected integer, a multiple of 5, got 7", id="draft 3 multiple"),
        pytest.param({"$schema": DRAFT7, "properties": {"pair": {"items": [INTEGER, TEXT]}}}, {"pair": [1, 2]},
                     "pair[1]: expected string, got 2", id="draft 7"),
        pytest.param({"additionalProperties": of("a", a=TEXT)}, {"1": {}, "007": {"a": 1}},
                     "missing: 1.a (string)\n007.a: expected string, got 1", id="name of digits"),
        pytest.param(of(a={"$ref": "#/$defs/01"}) | {"$defs": {"01": of("b", b=TEXT)}}, {"a": {}},
                     "missing: a.b (string)", id="definition of digits"),
        pytest.param({"$schema": DRAFTS[-1], **of("b", a=INTEGER, c={"items": True})}, {"a": "x", "b": 1},
                     "a: expected integer, got 'x'", id="booleans in draft 4"),
        pytest.param(of(a={"type": ["string", "String"]}), {"a": 1}, "a: expected string, got 1", id="same type twice"),
        pytest.param({**of(a={}, b={}), "dependencies": {"a": "b"}}, {"a": 1},
                     "missing: b, which a needs", id="name without a list"),
        pytest.param(of(a={}, b={}), {"x": 1, "y": 2}, "unknown arguments 'x', 'y'. It takes a, b", id="unknown"),
        pytest.param({"properties": {}}, {"x": 1}, "unknown argument 'x'. It takes no arguments", id="nothing"),
        pytest.param({**of(), **CLOSED}, {"x": 1}, "unknown argument 'x'. It takes no arguments", id="closed"),
        pytest.param(MANY, {"nam3": 1}, "unknown argument 'nam3'. Did you mean 'name3'? It takes name0, name1, name2, "
                     "name3, name4, name5, name6, name7, name8, name9, name10, name11 and 3 more", id="many"),
        pytest.param(of(login={"not": {"required": ["password"]}}), {"login": {"password": "hunter2"}},
                     "login: does not fit 'not' of the schema, got {'password': '***'}", id="secret"),
    ],
)  # fmt: skip
def test_errors_name_the_arguments_and_what_fits(schema, arguments, text):
    assert message(arguments, schema) == text


@pytest.mark.parametrize("name", ["date", "date-time", "time", "email", "ipv4", "ipv6", "uuid", "uri", "duration"])
def test_formats_are_asserted_whatever_is_installed(name):
    schema = of(x={**TEXT, "format": name})
    assert message({"x": "certainly not"}, schema) == f"x: expected string ({name}), got 'certainly not'"


WHEN = of(t={**TEXT, "format": "date-time"})


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        *(({"anything": [1]}, {}), ({"x": 1}, {"type": "object"}), ({"n": 1.0}, of(n=INTEGER))),
        *(({"x": 1}, {**of(a={}), "additionalProperties": True}), ({"n": 2**300}, of(n=INTEGER))),
        *(({"t": "2026-01-02T03:04:05"}, WHEN), ({"t": "2026-01-02T03:04:60Z"}, WHEN)),
        ({"t": "x"}, of(t={**TEXT, "format": "colour"})),
        # left to the server
        ({"a": "x"}, {"$ref": "http://127.0.0.1:9/never-fetched.json"}),
        *(({"a": "x"}, of(a={"type": "strin"})), ({"a": "x"}, of(a={**TEXT, "pattern": "("}))),
        *(({"a": "x"}, of(a={"minimum": "low"})), ({"a": "x"}, {"$ref": "#"})),
    ],
)
def test_arguments_that_are_valid_or_undecided_pass(arguments, schema):
    check_arguments(arguments, schema)


@QUICK
@given(called(), st.data())
def test_a_quick_yes_is_never_wrong(case, data):
    schema, arguments = case
    check_arguments(arguments, schema)
    changed = {**arguments, **data.draw(st.dictionaries(st.sampled_from([*schema["properties"], "x"]), json_values))}
    if CompiledSchema(schema).fits(changed):
        assert Draft202012Validator(schema).is_valid(changed)


@QUICK
@given(anything_like_a_schema, st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, max_size=3))
@example({"anyOf": [False]}, {})
@example({"properties": {"a": {"oneOf": [False, {"type": "array"}]}}}, {"a": {}})
def test_any_document_is_checked_or_left_to_the_server(schema, arguments):
    with contextlib.suppress(ArgumentsError):
        check_arguments(arguments, schema)
    if CompiledSchema(schema).fits(arguments):
        with contextlib.suppress(AttributeError, TypeError, Unresolvable):  # invalid schemas
            assert Draft202012Validator(schema, registry=Registry()).is_valid(arguments)


PYDANTIC = {
    **of(
        "city",
        city={**TEXT, "title": "City"},
        days={**INTEGER, "minimum": 1, "default": 3},
        unit={**either({"enum": ["c", "f"]}, NULL), "default": None},
        day={**TEXT, "format": "date"},
        places=listed({"$ref": "#/$defs/Place"}),
    ),
    "$defs": {"Place": of(**{"lat": NUMBER, "in": {"$ref": "#/$defs/Place"}})},
}


@pytest.mark.parametrize(
    ("arguments", "is_sure"),
    [
        *(({}, True), ({"days": 2, "unit": None, "day": "2026-01-02"}, True), ({"days": 2.0, "unit": "c"}, True)),
        ({"places": [{"lat": 1.5, "in": {"in": {}}}]}, True),
        ({"places": [{"lat": 1.5, "in": {"in": {"lat": "x"}}}]}, False),
        *(({"days": True}, False), ({"days": 0}, False), ({"unit": "k"}, False), ({"day": "2026-02-30"}, False)),
        ({"days": float("nan")}, False),
    ],
)
def test_plain_schemas_are_decided_without_jsonschema(arguments, is_sure):
    compiled = CompiledSchema(PYDANTIC)
    assert compiled.fits({"city": "Oslo", **arguments}) is is_sure
    assert not compiled.fits(arguments)


PROGRAM = """
import sys
from mcp_magic.schema import check_arguments
check_arguments({'n': 1}, {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']})
print([m for m in ('jsonschema', 'referencing', 'pandas', 'mcp', 'IPython') if m in sys.modules])
"""


def test_modules_are_imported_when_they_are_needed():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


def test_a_valid_call_costs_a_part_of_jsonschema():
    arguments = {"city": "Oslo", "days": 2}
    validator = Draft202012Validator(PYDANTIC)
    ours = min(timeit.repeat(lambda: check_arguments(arguments, PYDANTIC), number=200, repeat=20))
    theirs = min(timeit.repeat(lambda: validator.is_valid(arguments), number=200, repeat=20))
    assert ours < theirs / 2  # a hundredth


def test_schemas_that_come_and_go_are_not_confused():
    for kind, value in [("integer", 1), ("string", "a")] * 600:
        check_arguments({"x": value}, {"type": "object", "properties": {"x": {"type": kind}}})
