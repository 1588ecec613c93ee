from __future__ import annotations

from typing import Any

import pytest

from mcp_magic.schema import MISSING, Field, root_field

DEFS = {
    "$defs": {
        "Color": {"title": "Color", "enum": ["red", "green"], "description": "A colour"},
        "Node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "many": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["value"],
        },
    },
    "definitions": {"Old": {"type": "string", "minLength": 2}},
}


def field(schema: Any) -> Field:
    """The field of a property with this schema."""
    found = root_field({"type": "object", "properties": {"x": schema}, **DEFS}).at("x")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("schema", "kind", "nullable", "text"),
    [
        ({"type": "string"}, "string", False, "string"),
        ({"type": "string", "format": "date-time"}, "string", False, "string (date-time)"),
        ({"type": "string", "contentEncoding": "base64"}, "string", False, "string (base64)"),
        ({"type": "integer"}, "integer", False, "integer"),
        ({"type": ["integer", "null"]}, "integer", True, "integer or null"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number", True, "number or null"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean", True, "boolean or null"),
        ({"type": "null"}, "null", True, "null"),
        ({"const": None}, "null", True, "null"),
        ({"const": 3}, "const", False, "3"),
        ({"enum": ["a", "b"]}, "enum", False, "one of 'a', 'b'"),
        ({"enum": ["a", None]}, "enum", True, "'a' or null"),
        ({"type": ["string", "null"], "enum": ["a", None, "b"]}, "enum", True, "one of 'a', 'b' or null"),
        ({"type": ["string", "null"], "enum": ["a", "b"]}, "enum", False, "one of 'a', 'b'"),
        ({"enum": list(range(10))}, "enum", False, "one of 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
        ({"type": ["integer", "string"]}, "union", False, "integer or string"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}, "union", True, None),
        ({"type": "array"}, "array", False, "list"),
        ({"type": "array", "items": {"type": "string"}}, "array", False, "list of string"),
        ({"type": "array", "items": {"type": ["integer", "string"]}}, "array", False, "list of (integer or string)"),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, "array", False, "list (integer, string)"),
        ({"type": "object"}, "object", False, "object"),
        ({"properties": {"a": {}}}, "object", False, "object"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object", False, "object of integer"),
        ({}, "any", False, "any"),
        (True, "any", False, "any"),
        (False, "any", False, "any"),
        ({"type": "spaceship"}, "any", False, "any"),
        ({"$ref": "#/$defs/Color"}, "enum", False, "one of 'red', 'green'"),
        ({"$ref": "#/definitions/Old"}, "string", False, "string"),
        ({"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]}, "enum", True, "one of 'red', 'green' or null"),
        ({"$ref": "#/$defs/Nowhere"}, "any", False, "any"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "any", False, "any"),
        ({"allOf": [{"type": "number"}, {"type": "integer"}]}, "integer", False, "integer"),
    ],
)
def test_a_schema_has_a_kind_and_is_said_in_a_few_words(
    schema: Any, kind: str, nullable: bool, text: str | None
) -> None:
    found = field(schema)
    assert (found.kind, found.nullable) == (kind, nullable)
    assert text is None or found.type_text == text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        *(({"minimum": 1, "maximum": 10}, "1 to 10"), ({"minimum": 0}, "at least 0")),
        ({"exclusiveMinimum": 0, "maximum": 1}, "more than 0, at most 1"),
        *(({"minimum": 1, "exclusiveMinimum": True}, "more than 1"), ({"multipleOf": 5}, "a multiple of 5")),
        *(({"minLength": 3}, "at least 3 characters"), ({"minLength": 1}, "at least 1 character")),
        ({"minLength": 4, "maxLength": 4}, "exactly 4 characters"),
        ({"maxItems": 3, "uniqueItems": True}, "at most 3 items, no duplicates"),
        *(({"minProperties": 2, "maxProperties": 3}, "2 to 3 names"), ({"pattern": "^a"}, "matches ^a")),
        ({"minimum": "low", "pattern": 3}, ""),
    ],
)
def test_limits_are_said_in_words(schema: dict[str, Any], text: str) -> None:
    assert field(schema).constraints_text == text


def test_keys_beside_a_reference_win_over_its_target() -> None:
    found = field({"$ref": "#/$defs/Color", "title": "Paint", "default": "red"})
    assert (found.title, found.description, found.default) == ("Paint", "A colour", "red")


def test_a_missing_default_is_not_null() -> None:
    assert field({"type": "string"}).default is MISSING
    assert field({"type": ["string", "null"], "default": None}).default is None


def test_all_of_merges_tighter_limits_and_all_properties() -> None:
    found = field(
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]},
                {"properties": {"a": {"minimum": 5}, "b": {"type": "string"}}, "required": ["b"]},
            ],
            "description": "Both",
        }
    )
    a, b = found.children
    assert (a.name, a.kind, a.required, a.constraints_text) == ("a", "integer", True, "at least 5")
    assert (b.name, b.kind, b.required) == ("b", "string", True)
    assert found.description == "Both"


def test_a_recursive_schema_is_an_endless_tree() -> None:
    node = field({"$ref": "#/$defs/Node"})
    for _ in range(50):
        inner = node.at("next")
        assert inner is not None
        assert inner.nullable
        assert [child.name for child in inner.children] == ["value", "next", "many"]
        node = inner
    assert node.at("many").at(3).at("value").kind == "integer"  # type: ignore[union-attr]


def test_union_lists_flat_variants_and_all_properties() -> None:
    cat = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}}
    dog = {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}}
    found = field(
        {"oneOf": [{**cat, "required": ["kind"]}, {"anyOf": [{**dog, "required": ["kind"]}, {"type": "string"}]}]}
    )
    assert [variant.kind for variant in found.variants] == ["object", "object", "string"]
    assert [(c.name, c.type_text, c.required) for c in found.children] == [
        ("kind", "one of 'cat', 'dog'", True),
        ("lives", "integer", False),
        ("name", "string", False),
    ]


def test_alternatives_that_only_require_do_not_make_a_union() -> None:
    found = field({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"not": {}}]})
    assert found.kind == "object"


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["a", 1, None]}, (("a", "a"), (1, "1"))),
        ({"enum": ["a", "b"], "enumNames": ["Ann", "Bob"]}, (("a", "Ann"), ("b", "Bob"))),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}, ((1, "One"), (2, "Two"))),
        ({"oneOf": [{"const": 1}, {"enum": [2, 3]}, {"type": "null"}]}, ((1, "1"), (2, "2"), (3, "3"))),
        ({"const": True, "title": "Agree"}, ((True, "true"),)),
    ],
)
def test_choices_have_labels(schema: dict[str, Any], choices: tuple[tuple[Any, str], ...]) -> None:
    assert field(schema).choices == choices


def test_items_of_a_tuple_have_fields_of_their_own() -> None:
    for spelling in (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}},
        {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": {"type": "boolean"}},
    ):
        found = field({"type": "array", **spelling})
        assert [found.at(index).kind for index in range(3)] == ["integer", "string", "boolean"]  # type: ignore[union-attr]


def test_additional_properties_are_a_field_or_a_word() -> None:
    numbers = field({"type": "object", "additionalProperties": {"type": "number"}})
    assert isinstance(numbers.additional, Field)
    assert numbers.at("anything").kind == "number"  # type: ignore[union-attr]
    assert field({"type": "object"}).additional is True
    assert field({"type": "object", "additionalProperties": False}).additional is False


@pytest.mark.parametrize(
    ("schema", "is_open"),
    [
        ({"type": "object"}, True),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {}, "required": []}, False),
        ({"type": "object", "properties": {}, "additionalProperties": True}, True),
        ({"type": "object", "properties": {}, "patternProperties": {"^x_": {}}}, True),
        ({"type": "object", "properties": {}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "if": {}, "then": {"properties": {"b": {}}}}, True),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "string"}, False),
    ],
)
def test_object_with_listed_names_is_closed_by_default(schema: dict[str, Any], is_open: bool) -> None:
    assert root_field(schema).is_open is is_open


def test_an_object_inside_another_that_lists_no_names_takes_any() -> None:
    schema = {"properties": {"meta": {"type": "object", "properties": {}}}}
    assert root_field(schema).children[0].is_open


def test_pattern_properties_have_a_field() -> None:
    found = field({"type": "object", "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False})
    assert found.at("n_1").kind == "integer"  # type: ignore[union-attr]
    assert found.at("other") is None


def test_anchors_and_embedded_ids_are_followed() -> None:
    schema = {
        "$id": "https://example.com/root.json",
        "properties": {
            "a": {"$ref": "#here"},
            "b": {"$ref": "part.json"},
            "c": {"$ref": "https://example.com/part.json"},
        },
        "$defs": {
            "x": {"$anchor": "here", "type": "integer"},
            "y": {"$id": "https://example.com/part.json", "type": "boolean"},
        },
    }
    assert [child.kind for child in root_field(schema).children] == ["integer", "boolean", "boolean"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        *(({"type": "string", "format": "byte"}, True), ({"type": "string", "contentMediaType": "image/png"}, True)),
        ({"type": "string", "contentMediaType": "text/html"}, False),
        ({"type": "string", "description": "Base64-encoded audio"}, True),
        *(({"anyOf": [{"type": "string", "format": "binary"}, {"type": "null"}]}, True), ({"type": "string"}, False)),
    ],
)
def test_base64_is_recognised_however_it_is_said(schema: dict[str, Any], said: bool) -> None:
    assert field(schema).is_base64 is said


def test_a_field_describes_itself_on_one_line() -> None:
    schema = {"type": "integer", "minimum": 1, "default": 3, "description": "How many\n  rows"}
    assert field(schema).describe() == "x (integer, at least 1, optional, default 3): How many rows"
