"""Arguments that show what a tool takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mcp_magic.schema import check_arguments, example_arguments
from tests.support.schemas import INTEGER, NUMBER, TEXT, listed, of
from tests.support.strategies import QUICK, called


@QUICK
@given(called())
def test_an_example_is_valid(case):
    schema, _ = case
    assert Draft202012Validator(schema).is_valid(example_arguments(schema))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *((TEXT, "text"), ({**TEXT, "examples": ["Oslo"]}, "Oslo"), ({**TEXT, "default": "Rome"}, "Rome")),
        *(({"enum": ["b", "a"]}, "b"), ({"const": 7}, 7), (INTEGER, 1), ({**INTEGER, "minimum": 5}, 5), ({}, "text")),
        *(({**INTEGER, "exclusiveMinimum": 5}, 6), ({**INTEGER, "maximum": -3}, -3), ({"type": "boolean"}, True)),
        *(({**INTEGER, "minimum": 11, "multipleOf": 5}, 15), ({**NUMBER, "minimum": 0, "maximum": 1}, 1)),
        *(({**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5), ({"type": "null"}, None)),
        *(({**TEXT, "format": "date"}, "2026-01-31"), ({**TEXT, "minLength": 6}, "textte")),
        *(({**TEXT, "maxLength": 2}, "te"), (listed(INTEGER, minItems=2), [1, 1])),
        *(({"type": "array", "prefixItems": [INTEGER, TEXT]}, [1, "text"]), (of("a", a=INTEGER, b={}), {"a": 1})),
        *(({"type": ["integer", "string"]}, 1), ({"type": ["integer", "null"], "default": None}, 1)),
    ],
)
def test_an_example_is_plausible(schema, value):
    made = example_arguments(of("x", x=schema))
    assert made == {"x": value}
    check_arguments(made, of("x", x=schema))


CIRCLE_OR_SQUARE = {"oneOf": [of("kind", kind={"const": "circle"}, r=NUMBER), of("kind", kind={"const": "square"})]}


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        pytest.param(of(a=INTEGER), {}, id="required"),
        pytest.param({**of("a", a=INTEGER), "examples": [{"b": 1}, {"a": 9}]}, {"a": 9}, id="whole"),
        pytest.param(CIRCLE_OR_SQUARE, {"kind": "circle"}, id="first"),
        # not the name of the argument
        pytest.param(of("text", "city", text=TEXT, city=TEXT), {"text": "hello", "city": "text"}, id="name"),
        pytest.param(of("Text", "city", Text=TEXT, city=TEXT), {"Text": "hello", "city": "text"}, id="Name"),
    ],
)
def test_an_example_has_what_is_required_or_shown(schema, made):
    assert example_arguments(schema) == made
