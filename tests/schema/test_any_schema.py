"""Whatever a server calls a schema, nothing raises but ArgumentsError, and everything ends."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_magic import schema as s
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.validate import native_check
from tests.support.strategies import QUICK, anything_like_a_schema, json_values


def walk(field: s.Field, depth: int = 3) -> None:
    assert field.type_text
    assert isinstance(field.describe(), str)
    assert isinstance(field.choices, tuple)
    assert all(variant.kind != "union" for variant in field.variants)
    inner = [*field.children, *field.variants, *field.prefix, field.item, field.additional, field.at("a"), field.at(0)]
    for each in inner if depth else ():
        if isinstance(each, s.Field):
            walk(each, depth - 1)


@QUICK
@given(anything_like_a_schema)
def test_any_document_is_a_tree_of_fields(document: dict[str, Any]) -> None:
    walk(s.root_field(document))


@QUICK
@given(anything_like_a_schema)
def test_any_document_makes_signature_docstring_and_example(document: dict[str, Any]) -> None:
    assert isinstance(s.make_signature(document), inspect.Signature)
    assert s.make_docstring("t", None, None, document, document)
    assert isinstance(s.example_arguments(document), dict)


@QUICK
@given(anything_like_a_schema, st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, max_size=3))
@example({"anyOf": [False]}, {})
@example({"properties": {"a": {"oneOf": [False, {"type": "array"}]}}}, {"a": {}})
def test_any_arguments_are_checked_or_left_to_server(document: dict[str, Any], arguments: dict[str, Any]) -> None:
    with contextlib.suppress(ArgumentsError):
        s.check_arguments(arguments, document)


@QUICK
@given(anything_like_a_schema, st.lists(st.sampled_from(["a=1", "b:=[1]", "a.b=x", "a=null", "b=[", "c={}"])))
def test_lines_for_any_document_are_read_or_refused(document: dict[str, Any], items: list[str]) -> None:
    with contextlib.suppress(ArgumentsError):
        assert isinstance(s.parse_arguments(items, document), dict)


@pytest.mark.parametrize(
    "schema",
    [
        *({"$ref": "#"}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        *({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        {"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}},
    ],
)
def test_cycles_end(schema: dict[str, Any]) -> None:
    walk(s.root_field(schema))
    s.make_signature(schema)
    s.example_arguments(schema)
    with contextlib.suppress(ArgumentsError):
        s.check_arguments({"a": 1}, schema)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_at_each_step_end(keyword: str) -> None:
    defs = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}", "title": str(j)} for j in (1, 2)]} for i in range(40)}
    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d40": {"type": "integer"}}}
    assert s.root_field(schema).at("a") is not None
    assert s.root_field(schema).at("a").type_text
    assert native_check({"type": "object", **schema})({"a": "x"}) is False


def test_a_schema_that_nothing_satisfies_is_any() -> None:
    assert s.root_field(False).kind == "any"
