from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mcp_magic.schema import check_arguments, example_arguments
from tests.support.strategies import QUICK, called


@QUICK
@given(called())
def test_an_example_is_valid(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, _ = case
    assert Draft202012Validator(schema).is_valid(example_arguments(schema))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *(({"type": "string"}, "text"), ({"type": "string", "examples": ["Oslo"]}, "Oslo")),
        *(({"type": "string", "default": "Rome"}, "Rome"), ({"enum": ["b", "a"]}, "b"), ({"const": 7}, 7)),
        *(({"type": "integer"}, 1), ({"type": "integer", "minimum": 5}, 5)),
        *(({"type": "integer", "exclusiveMinimum": 5}, 6), ({"type": "integer", "maximum": -3}, -3)),
        ({"type": "integer", "minimum": 11, "multipleOf": 5}, 15),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        *(({"type": "number", "minimum": 0, "maximum": 1}, 1), ({"type": "boolean"}, True), ({"type": "null"}, None)),
        *(({"type": "string", "format": "date"}, "2026-01-31"), ({"type": "string", "minLength": 6}, "texttext"[:6])),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, [1, "text"]),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        *(({"type": ["integer", "string"]}, 1), ({"type": ["integer", "null"], "default": None}, 1), ({}, "text")),
    ],
)
def test_an_example_is_plausible(schema: dict[str, Any], value: Any) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    made = example_arguments(whole)
    assert made == {"x": value}
    check_arguments(made, whole)


def test_only_required_arguments_are_in_the_example() -> None:
    assert example_arguments({"properties": {"a": {"type": "integer"}}}) == {}


def test_an_example_of_the_whole_is_taken() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "examples": [{"b": 1}, {"a": 9}]}
    assert example_arguments(schema) == {"a": 9}


def test_of_alternatives_the_first_is_shown() -> None:
    schema = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                "required": ["kind"],
            },
            {"type": "object", "properties": {"kind": {"const": "square"}}, "required": ["kind"]},
        ]
    }
    assert example_arguments(schema) == {"kind": "circle"}


def test_an_example_runs_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []
    monkeypatch.setattr("mcp_magic.schema.patterns._compiled", run.append)
    schema = {"properties": {"a": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["a"]}
    assert example_arguments(schema) == {"a": "text"}
    assert run == []


@pytest.mark.parametrize("name", ["text", "Text"])
def test_an_example_is_not_the_name_of_its_argument(name: str) -> None:
    of = {
        "type": "object",
        "properties": {name: {"type": "string"}, "city": {"type": "string"}},
        "required": [name, "city"],
    }
    assert example_arguments(of) == {name: "hello", "city": "text"}
