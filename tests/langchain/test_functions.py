"""Functions for models, with schemas that both OpenAI and Anthropic take; no network."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp_types import Tool

from mcp_magic.langchain.functions import Function, function_of, own_arguments
from tests.support.provider_rules import openai_refuses_schema, refusals
from tests.support.strategies import QUICK, anything_like_a_schema, called

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}


def function(schema: Schema) -> Function:
    return function_of("a__b", Tool(name="b", description="Finds.", input_schema=schema))


def parameters_of(schema: Schema) -> Schema:
    return function(schema).openai_tool["function"]["parameters"]  # type: ignore[no-any-return]


def properties(**parts: Any) -> Schema:
    return {"type": "object", "properties": parts}


def test_a_title_stays_only_where_it_says_more_than_the_name():
    parts = {
        "max_days": {"type": "integer", "title": "Max Days"},
        "city": {"type": "string", "title": "Place", "description": "Where"},
        "unit": {"type": "string", "title": "Degrees of Celsius or Fahrenheit"},
        "title": {"type": "string", "title": "Title"},
    }
    sent = parameters_of({**properties(**parts), "title": "forecastArguments"})
    assert sent == properties(
        max_days={"type": "integer"}, city={"type": "string", "description": "Where"}, unit=parts["unit"], title=TEXT
    )


@QUICK
@given(called())
def test_any_schema_and_arguments_fit_what_the_model_gets(tool):
    schema, arguments = tool
    made = function(schema)
    assert refusals([made.openai_tool]) == []
    renamed = {own: name for name, own in made.renamed.items()}
    sent = {renamed.get(name, name): value for name, value in arguments.items()}
    Draft202012Validator(made.openai_tool["function"]["parameters"]).validate(sent)
    assert own_arguments(sent, made.renamed) == arguments


@QUICK
@given(anything_like_a_schema)
def test_any_document_is_made_a_schema_that_providers_take(document):
    assert refusals([function(document).openai_tool]) == []


ONE_OR_OTHER: Schema = {**properties(project=TEXT, id={"type": "integer"}, name=TEXT), "required": ["project"]}
EITHER: Schema = {**ONE_OR_OTHER, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
NUMBER = {"type": "number"}
CLOSED = {"additionalProperties": False}
CIRCLE = {**properties(kind={"const": "circle"}, r=NUMBER), "required": ["kind", "r"], **CLOSED}
SQUARE = {**properties(kind={"const": "square"}, side=NUMBER), "required": ["kind", "side"], **CLOSED}
KINDS = {"anyOf": [{"const": "circle"}, {"const": "square"}]}
SHAPE = {**properties(kind=KINDS, r=NUMBER, side=NUMBER), "required": ["kind"], **CLOSED}
SHAPES = {"$defs": {"c": CIRCLE, "s": SQUARE}}
TUPLE = {"type": "array", "items": [TEXT], "additionalItems": False}
TREE = properties(children={"type": "array", "items": {"$ref": "#"}})

ODD: dict[str, tuple[Schema, Schema]] = {
    "no properties": ({"type": "object"}, properties()),
    "empty": ({}, properties()),
    "at least one of": (EITHER, ONE_OR_OTHER),
    "one of two objects": ({"type": "object", "oneOf": [CIRCLE, SQUARE]}, SHAPE),
    "one of two definitions": ({"anyOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/s"}], **SHAPES}, SHAPE | SHAPES),
    "all of": (
        {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}]},
        {**properties(a=TEXT, b=TEXT), "required": ["a"]},
    ),
    "a reference at the root": ({"$ref": "#/$defs/c", **SHAPES}, CIRCLE | SHAPES),
    "not at the root": ({**ONE_OR_OTHER, "not": {"required": ["id", "name"]}}, ONE_OR_OTHER),
    "an enum at the root": ({"type": "object", "enum": [{"a": 1}]}, properties()),
    "an array without items": (
        properties(a={"type": ["array", "null"]}),
        properties(a={"type": ["array", "null"], "items": {}}),
    ),
    "a tuple of draft 7": (
        properties(a=TUPLE),
        properties(a={"type": "array", "prefixItems": [TEXT], "items": {"not": {}}}),
    ),
    "a bound of draft 4": (
        properties(a={"minimum": 3, "exclusiveMinimum": True}),
        properties(a={"exclusiveMinimum": 3}),
    ),
    "a pattern of another dialect": (
        properties(a={"description": "A name", "pattern": r"^\p{L}+$"}),
        properties(a={"description": "A name"}),
    ),
    "references that lead nowhere": (
        properties(a={"$ref": "#/$defs/x"}, b={"$ref": "https://example.com/b", "title": "B"}),
        properties(a={}, b={}),
    ),
    "a type that is none": (
        {**properties(a={"type": "any"}, b={"type": ["date", "string"]}), "required": True},
        properties(a={}, b={}),
    ),
    "recursion": (TREE, TREE),
}


@pytest.mark.parametrize("name", ODD)
def test_all_of_an_odd_schema_is_kept_that_providers_take(name):
    schema, expected = ODD[name]
    assert parameters_of(schema) == expected
    assert refusals([function(schema).openai_tool]) == []
    assert bool(openai_refuses_schema(schema)) is (name != "recursion"), "OpenAI would refuse it as it was"


def test_a_constraint_that_left_the_schema_is_in_the_description():
    assert function(EITHER).openai_tool["function"]["description"] == (
        'Finds.\n\nThe arguments must fit at least one of: {"required": ["id"]}; {"required": ["name"]}'
    )


def test_argument_names_that_are_refused_are_mapped_both_ways():
    parts = {"filter[id]": {"description": "The id"}, "filter_id": TEXT, "größe": TEXT, "": TEXT, "x" * 70: TEXT}
    made = function({**properties(**parts), "required": ["filter[id]", "filter_id"]})
    sent = made.openai_tool["function"]["parameters"]
    assert refusals([made.openai_tool]) == []
    assert list(sent["properties"]) == ["filter_id_2", "filter_id", "gr_e", "argument", "x" * 64]
    assert sent["properties"]["filter_id_2"] == {"description": "`filter[id]`: The id"}
    assert sent["properties"]["gr_e"] == {"type": "string", "description": "`größe`"}
    assert sent["required"] == ["filter_id_2", "filter_id"]
    numbered = {name: index for index, name in enumerate(sent["properties"])}
    assert own_arguments(numbered, made.renamed) == {name: index for index, name in enumerate(parts)}


@QUICK
@given(st.dictionaries(st.text(max_size=80), st.just(TEXT), max_size=6))
def test_any_names_of_arguments_are_made_names_that_differ(parts):
    made = function({"type": "object", "properties": parts})
    assert refusals([made.openai_tool]) == []
    assert len(made.openai_tool["function"]["parameters"]["properties"]) == len(parts)


def test_a_very_deep_schema_ends():
    schema: Schema = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    assert refusals([function({"properties": {"a": schema}}).openai_tool]) == []
