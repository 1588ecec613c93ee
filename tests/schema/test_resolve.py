"""Schemas that refer to others, and two that become one."""

from __future__ import annotations

import pytest

from mcp_magic.schema import root_field
from mcp_magic.schema.resolve import json_equal, merge


@pytest.mark.parametrize(
    ("near", "far", "both"),
    [
        ({"type": "integer"}, {"type": "number"}, {"type": "integer"}),
        ({"type": "number"}, {"type": ["integer", "null"]}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": ["null", "string", "array"]}, {"type": ["string", "null"]}),
        ({"type": "string"}, {"type": "integer"}, {"type": "string"}),
        ({"enum": [1, 2, 3]}, {"enum": [2, True, 3.0]}, {"enum": [2, 3]}),
        ({"enum": [1]}, {"enum": [2]}, {"enum": [1]}),
        ({"minimum": 1, "maximum": 9}, {"minimum": 5, "maximum": 20}, {"minimum": 5, "maximum": 9}),
        ({"minimum": "low"}, {"minimum": 5}, {"minimum": "low"}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"items": True}, {"items": {"type": "string"}}, {"items": {"type": "string"}}),
        ({"items": {"minimum": 1}}, {"items": {"maximum": 3}}, {"items": {"allOf": [{"minimum": 1}, {"maximum": 3}]}}),
        ({"additionalProperties": {}}, {"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": {"a": 1}}, {"additionalProperties": True}, {"additionalProperties": {"a": 1}}),
        ({"properties": {"a": {}}}, {"properties": {"b": {}}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": 3}, {"properties": {"b": {}}}, {"properties": {"b": {}}}),
        ({"anyOf": [{"a": 1}]}, {"anyOf": [{"b": 1}, {"c": 1}]},
         {"anyOf": [{"allOf": [{"a": 1}, {"b": 1}]}, {"allOf": [{"a": 1}, {"c": 1}]}]}),
        ({"title": "near"}, {"title": "far", "description": "far"}, {"title": "near", "description": "far"}),
    ],
)  # fmt: skip
def test_two_schemas_become_one_asking_for_both(near, far, both):
    assert merge(near, far) == both


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        *((1, 1.0, True), (1, True, False), ([1, {"a": 0}], [1, {"a": 0}], True)),
        *(([1, {"a": 0}], [1, {"a": False}], False), ({"a": 1}, {"b": 1}, False), ([1], [1, 2], False)),
    ],
)
def test_json_values_are_equal_as_json_has_it(left, right, equal):
    assert json_equal(left, right) is equal


def test_anchors_and_embedded_ids_are_followed():
    part = "https://example.com/part.json"
    schema = {
        "$id": "https://example.com/root.json",
        "properties": {"a": {"$ref": "#here"}, "b": {"$ref": "part.json"}, "c": {"$ref": part}},
        "$defs": {"x": {"$anchor": "here", "type": "integer"}, "y": {"$id": part, "type": "boolean"}},
    }
    assert [child.kind for child in root_field(schema).children] == ["integer", "boolean", "boolean"]
