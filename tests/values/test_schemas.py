"""Schemas whose arguments may be references to values: what they say, and that they still take what they took."""

from __future__ import annotations

import pytest
from hypothesis import given

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import check_arguments, prepare_arguments
from mcp_magic.values.schemas import widened_schema
from tests.support.strategies import QUICK, anything_like_a_schema, json_values

ROWS = {"type": "array", "items": {"type": "object"}}
NUMBERS = {"type": "array", "items": {"type": "number"}}


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_a_schema_takes_references_for_lists_and_objects():
    place = {
        "type": "object",
        "properties": {"x": {"type": "number"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    union = {"anyOf": [NUMBERS, {"type": "null"}], "default": None}
    tool = schema(
        rows=ROWS, place=place, union=union, name={"type": "string"}, n={"type": "integer"}, by={"$ref": "#/$defs/r"}
    )
    tool |= {"$defs": {"r": ROWS}, "additionalProperties": False}
    widened = widened_schema(tool)
    before, after = tool["properties"], widened["properties"]
    assert {name: widened[name] for name in widened if name != "properties"} == {
        name: tool[name] for name in tool if name != "properties"
    }
    assert after["name"] == before["name"]
    assert after["n"] == before["n"]
    option = after["rows"]["anyOf"][1]
    assert after["rows"] == {"anyOf": [ROWS, option]}
    assert after["place"] == {"anyOf": [place, option]}
    assert after["by"] == {"anyOf": [{"$ref": "#/$defs/r"}, option]}
    assert after["union"] == {"anyOf": [NUMBERS, {"type": "null"}, option], "default": None}
    assert option["type"] == "object"
    assert '{"$value": "df", "columns": ["a"]' in option["description"]
    reference = {"$value": "df"}
    arguments = {"rows": reference, "place": reference, "union": reference, "by": reference, "name": "a", "n": 1}
    assert prepare_arguments(arguments, widened)[0] == arguments


def test_a_schema_that_takes_any_object_says_so_only():
    tool = schema(data={"type": "object", "description": "The data."}, any={"description": "x"}, all={})
    properties = widened_schema(tool)["properties"]
    assert properties["data"]["type"] == "object"
    assert properties["data"]["description"].startswith("The data. (or a value of the notebook by reference: ")
    assert properties["any"]["description"].startswith("x (or")
    assert properties["all"] == {}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "object"},
        {},
        {"type": "object", "properties": {"a": ROWS, "b": {"$ref": "#/properties/a/items"}}},
        {"type": "object", "properties": {"a": True, "b": False}},
        {"type": "object", "properties": []},
        schema(a={"type": "array", "x-mcp-header": "A"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_schemas_stay_as_they_are(tool):
    assert widened_schema(tool) == tool


@QUICK
@given(anything_like_a_schema, json_values)
def test_a_wider_schema_takes_what_the_schema_takes(tool, arguments):
    if isinstance(tool, dict) and isinstance(arguments, dict):
        widened = widened_schema(tool)
        try:
            check_arguments(arguments, tool)
        except ArgumentsError:
            return
        check_arguments(arguments, widened)
