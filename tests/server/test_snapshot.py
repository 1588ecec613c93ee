"""What changed between two schemas, and whom that breaks."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

from mcp_magic.server.snapshot import schema_changes
from tests.support.schemas import INTEGER, NUMBER, TEXT, of
from tests.support.strategies import anything_like_a_schema

RECURSIVE = {"$defs": {"Node": of(next={"$ref": "#/$defs/Node"}, v=INTEGER)}, "$ref": "#/$defs/Node"}


@pytest.mark.parametrize(
    ("old", "new", "said", "breaks_input", "breaks_output"),
    [
        (of(), of(a=TEXT), "is new and optional (string)", False, False),
        (of(), of("a", a=TEXT), "is new and required (string)", True, False),
        (of("a", a=TEXT), of(), "is gone", True, True),
        (of(a=TEXT), of("a", a=TEXT), "is required now", True, False),
        (of("a", a=TEXT), of(a=TEXT), "is optional now", False, True),
        (of(), of("a"), "is required now", True, False),
        (of("a"), of(), "is optional now", False, True),
        (of(a=of()), of(a={**of(), "additionalProperties": False}), "no longer takes other fields", True, False),
        (of(a={**of(), "additionalProperties": False}), of(a=of()), "takes other fields now", False, False),
        (of(a=INTEGER), of(a=NUMBER), "number instead of integer", False, True),
        (of(a=NUMBER), of(a=INTEGER), "integer instead of number", True, False),
        (of(a=TEXT), of(a={"type": ["string", "null"]}), "string or null instead of string", False, True),
        (of(a={"enum": ["x", "y"]}), of(a={"enum": ["x"]}), "'y' is no longer a choice", True, False),
        (of(a={"enum": ["x"]}), of(a={"enum": ["x", "y"]}), "'y' is a choice now", False, True),
        (of(a=TEXT), of(a={"enum": ["x", "y"]}), "takes only one of 'x', 'y' now", True, False),
        (of(a=INTEGER), of(a={**INTEGER, "minimum": 3}), "has minimum 3 now", True, False),
        (of(a={**INTEGER, "maximum": 3}), of(a={**INTEGER, "maximum": 9}), "maximum is 9 instead of 3", False, True),
        (of(a={**TEXT, "pattern": "x"}), of(a=TEXT), "no longer has pattern", False, True),
        (of(a=TEXT), of(a={**TEXT, "default": "x"}), "the default is 'x' now", False, False),
        (of(a=TEXT), of(a={**TEXT, "description": "x"}), "description added", False, False),
        (of(a={**TEXT, "title": "x"}), of(a=TEXT), "title removed", False, False),
        (of(a={"type": "array", "items": TEXT}), of(a={"type": "array", "items": INTEGER}), "integer", True, True),
    ],
)
def test_a_difference_breaks_the_side_that_relied_on_it(old, new, said, breaks_input, breaks_output):
    for side, breaking in (("input", breaks_input), ("output", breaks_output)):
        [change] = schema_changes(old, new, side)  # type: ignore[arg-type]
        assert said in change.text
        assert change.path in ("a", "a[]")
        assert change.breaking is breaking, side


def test_a_change_deep_inside_is_named_by_its_path():
    old = of(rows={"type": "array", "items": of(cell=of(value=INTEGER))})
    new = copy.deepcopy(old)
    new["properties"]["rows"]["items"]["properties"]["cell"]["properties"]["value"] = TEXT
    assert [change.path for change in schema_changes(old, new)] == ["rows[].cell.value"]


def test_a_definition_that_refers_to_itself_is_compared_once():
    new = copy.deepcopy(RECURSIVE)
    new["$defs"]["Node"]["properties"]["v"] = TEXT
    assert [change.path for change in schema_changes(RECURSIVE, new)] == ["next.v"]
    assert schema_changes(RECURSIVE, RECURSIVE) == []


@given(anything_like_a_schema, anything_like_a_schema)
def test_any_schemas_compare_and_none_differs_from_itself(old, new):
    schema_changes(old, new, "input")
    schema_changes(old, new, "output")
    assert schema_changes(old, copy.deepcopy(old)) == []
