"""What a field of a schema is, and how it is said in words."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from hypothesis import given

from mcp_magic import schema as s
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import MISSING, Field, root_field
from mcp_magic.schema.engine import CompiledSchema
from tests.support.schemas import INTEGER, NUMBER, TEXT, either, listed, of
from tests.support.strategies import QUICK, anything_like_a_schema

NULL, NODE = {"type": "null"}, {"$ref": "#/$defs/Node"}
COLOR = {"title": "Color", "enum": ["red", "green"], "description": "A colour"}
DEFS = {
    "$defs": {"Color": COLOR, "Node": of("value", value=INTEGER, next=either(NODE, NULL), many=listed(NODE))},
    "definitions": {"Old": {"type": "string", "minLength": 2}},
}


def field(schema: Any) -> Field:
    """The field of a property with this schema."""
    made = root_field({**of(x=schema), **DEFS}).at("x")
    assert made is not None
    return made


KINDS: dict[str, list[tuple[Any, str]]] = {
    "string": [
        *((TEXT, "string"), ({**TEXT, "format": "date-time"}, "string (date-time)")),
        *(({**TEXT, "contentEncoding": "base64"}, "string (base64)"), ({"$ref": "#/definitions/Old"}, "string")),
    ],
    "integer": [(INTEGER, "integer"), ({"allOf": [NUMBER, INTEGER]}, "integer")],
    "integer, nullable": [({"type": ["integer", "null"]}, "integer or null")],
    "number, nullable": [(either(NUMBER, NULL), "number or null")],
    "boolean, nullable": [({"oneOf": [NULL, {"type": "boolean"}]}, "boolean or null")],
    "null, nullable": [(NULL, "null"), ({"const": None}, "null")],
    "const": [({"const": 3}, "3")],
    "enum": [
        *(({"enum": ["a", "b"]}, "one of 'a', 'b'"), ({"$ref": "#/$defs/Color"}, "one of 'red', 'green'")),
        ({"type": ["string", "null"], "enum": ["a", "b"]}, "one of 'a', 'b'"),
        ({"enum": list(range(10))}, "one of 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
    ],
    "enum, nullable": [
        ({"enum": ["a", None]}, "'a' or null"),
        ({"type": ["string", "null"], "enum": ["a", None, "b"]}, "one of 'a', 'b' or null"),
        (either({"$ref": "#/$defs/Color"}, NULL), "one of 'red', 'green' or null"),
    ],
    "union": [({"type": ["integer", "string"]}, "integer or string")],
    "union, nullable": [(either(INTEGER, TEXT, NULL), "integer or string or null")],
    "array": [
        *(({"type": "array"}, "list"), (listed(TEXT), "list of string")),
        (listed({"type": ["integer", "string"]}), "list of (integer or string)"),
        ({"prefixItems": [INTEGER, TEXT]}, "list (integer, string)"),
    ],
    "object": [
        *(({"type": "object"}, "object"), ({"properties": {"a": {}}}, "object")),
        ({"type": "object", "additionalProperties": INTEGER}, "object of integer"),
    ],
    "any": [
        *(({}, "any"), (True, "any"), (False, "any"), ({"type": "spaceship"}, "any")),
        *(({"$ref": "#/$defs/Nowhere"}, "any"), ({"$ref": "http://127.0.0.1:9/schema.json"}, "any")),
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_has_a_kind_and_a_few_words(kind):
    for schema, text in KINDS[kind]:
        made = field(schema)
        assert made.kind + ", nullable" * made.nullable == kind
        assert made.type_text == text
    assert root_field(False).kind == "any"


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
def test_limits_are_said_in_words(schema, text):
    assert field(schema).constraints_text == text


def test_a_field_describes_itself_on_one_line():
    schema = {"type": "integer", "minimum": 1, "default": 3, "description": "How many\n  rows"}
    assert field(schema).describe() == "x (integer, at least 1, optional, default 3): How many rows"
    paint = field({"$ref": "#/$defs/Color", "title": "Paint", "default": "red"})  # it wins over what it refers to
    assert (paint.title, paint.description, paint.default) == ("Paint", "A colour", "red")
    assert field(TEXT).default is MISSING
    assert field({"type": ["string", "null"], "default": None}).default is None


def test_all_of_merges_tighter_limits_and_all_properties():
    first = of("a", a={"type": "integer", "minimum": 1})
    second = {"properties": {"a": {"minimum": 5}, "b": TEXT}, "required": ["b"]}
    both = field({"allOf": [first, second], "description": "Both"})
    a, b = both.children
    assert (a.name, a.kind, a.required, a.constraints_text) == ("a", "integer", True, "at least 5")
    assert (b.name, b.kind, b.required) == ("b", "string", True)
    assert both.description == "Both"


def test_a_recursive_schema_is_an_endless_tree():
    node = field(NODE)
    for _ in range(50):
        inner = node.at("next")
        assert inner is not None
        assert inner.nullable
        assert [child.name for child in inner.children] == ["value", "next", "many"]
        node = inner
    assert node.at("many").at(3).at("value").kind == "integer"  # type: ignore[union-attr]


def test_union_lists_flat_variants_and_all_properties():
    cat, dog = of("kind", kind={"const": "cat"}, lives=INTEGER), of("kind", kind={"const": "dog"}, name=TEXT)
    union = field({"oneOf": [cat, either(dog, TEXT)]})
    assert [variant.kind for variant in union.variants] == ["object", "object", "string"]
    children = [(child.name, child.type_text, child.required) for child in union.children]
    assert children == [("kind", "one of 'cat', 'dog'", True), ("lives", "integer", False), ("name", "string", False)]
    only_required = {**of(a={}, b={}), **either({"required": ["a"]}, {"not": {}})}
    assert field(only_required).kind == "object"


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["a", 1, None]}, (("a", "a"), (1, "1"))),
        ({"enum": ["a", "b"], "enumNames": ["Ann", "Bob"]}, (("a", "Ann"), ("b", "Bob"))),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}, ((1, "One"), (2, "Two"))),
        ({"oneOf": [{"const": 1}, {"enum": [2, 3]}, NULL]}, ((1, "1"), (2, "2"), (3, "3"))),
        ({"const": True, "title": "Agree"}, ((True, "true"),)),
    ],
)
def test_choices_have_labels(schema, choices):
    assert field(schema).choices == choices


def test_items_and_names_have_fields_of_their_own():
    boolean, pair = {"type": "boolean"}, [INTEGER, TEXT]
    for spelling in ({"prefixItems": pair, "items": boolean}, {"items": pair, "additionalItems": boolean}):
        made = field({"type": "array", **spelling})
        assert [made.at(index).kind for index in range(3)] == ["integer", "string", "boolean"]  # type: ignore[union-attr]
    numbers = field({"type": "object", "additionalProperties": NUMBER})
    assert isinstance(numbers.additional, Field)
    assert numbers.at("anything").kind == "number"  # type: ignore[union-attr]
    assert field({"type": "object"}).additional is True
    assert field({"type": "object", "additionalProperties": False}).additional is False
    named = field({"type": "object", "patternProperties": {"^n_": INTEGER}, "additionalProperties": False})
    assert named.at("n_1").kind == "integer"  # type: ignore[union-attr]
    assert named.at("other") is None


OPEN = [
    {"type": "object"},
    {**of(), "additionalProperties": True},
    {**of(), "patternProperties": {"^x_": {}}},
    of("a"),
    {**of(a={}), "additionalProperties": True},
    {**of(a={}), "if": {}, "then": {"properties": {"b": {}}}},
]
CLOSED = [
    *(of(a={}), of(), {**of(), "required": []}, {**of(a={}), "additionalProperties": False}, TEXT),
    {"type": "object", "additionalProperties": False},
]


def test_an_object_with_listed_names_is_closed_by_default():
    assert [schema for schema in OPEN if not root_field(schema).is_open] == []
    assert [schema for schema in CLOSED if root_field(schema).is_open] == []
    assert root_field({"properties": {"meta": of()}}).children[0].is_open  # inside another


@pytest.mark.parametrize(
    ("schema", "is_base64"),
    [
        *(({**TEXT, "format": "byte"}, True), ({**TEXT, "contentMediaType": "image/png"}, True), (TEXT, False)),
        *(({**TEXT, "contentMediaType": "text/html"}, False), ({**TEXT, "description": "Base64-encoded audio"}, True)),
        (either({**TEXT, "format": "binary"}, NULL), True),
    ],
)
def test_base64_is_recognised_however_it_is_said(schema, is_base64):
    assert field(schema).is_base64 is is_base64


def walk(field: Field, depth: int = 3) -> None:
    assert field.type_text
    assert isinstance(field.describe(), str)
    assert isinstance(field.choices, tuple)
    assert all(variant.kind != "union" for variant in field.variants)
    inner = [*field.children, *field.variants, *field.prefix, field.item, field.additional, field.at("a"), field.at(0)]
    for part in inner if depth else ():
        if isinstance(part, Field):
            walk(part, depth - 1)


@QUICK
@given(anything_like_a_schema)
def test_any_document_is_fields_a_signature_and_an_example(document):
    walk(root_field(document))
    assert isinstance(s.make_signature(document), inspect.Signature)
    assert s.make_docstring("t", None, None, document, document)
    assert isinstance(s.example_arguments(document), dict)


ROOT = {"$ref": "#"}
CYCLES = {
    "itself": ROOT,
    "two": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "any": {"anyOf": [ROOT, ROOT]},
    "all": {"allOf": [ROOT, ROOT]},
    "inside": {"properties": {"a": ROOT}, "items": ROOT, "additionalProperties": ROOT},
}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles_of_references_end(name):
    walk(root_field(CYCLES[name]))
    s.make_signature(CYCLES[name])
    s.example_arguments(CYCLES[name])
    with contextlib.suppress(ArgumentsError):
        s.check_arguments({"a": 1}, CYCLES[name])


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_with_every_step_end(keyword):
    defs = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}", "title": str(j)} for j in (1, 2)]} for i in range(40)}
    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d40": INTEGER}}
    doubled = root_field(schema).at("a")
    assert doubled is not None
    assert doubled.type_text
    assert CompiledSchema({"type": "object", **schema}).fits({"a": "x"})  # it is not checked


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(s.__path__)])
def test_examples_in_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(f"mcp_magic.schema.{name}")).failed == 0
