"""What changed between two schemas or interfaces, whom that breaks, and what else it affects."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given

from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.server.snapshot import (
    Change,
    interface_changes,
    interface_of,
    listed_changes,
    read_snapshot,
    schema_changes,
    snapshot_text,
)
from tests.support.changing_server import Changing
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
        assert change.where in ("a", "a[]")
        assert (change.effect == "breaking") is breaking, side


@pytest.mark.parametrize(
    ("old", "new", "said", "breaks_input", "breaks_output"),
    [
        (True, False, "takes no value any more", True, False),
        (TEXT, {**TEXT, "not": {"const": "x"}}, "has not now", True, False),
        ({**TEXT, "not": {"const": "x"}}, {**TEXT, "not": {"const": "y"}}, "not changed", True, True),
        (of(), {**of(), "dependentRequired": {"b": ["c"]}}, "has dependentRequired now", True, False),
        ({**of(), "propertyNames": {"pattern": "^x"}}, of(), "no longer has propertyNames", False, True),
        (
            {**of(), "additionalProperties": False},
            {**of(), "additionalProperties": False, "patternProperties": {"^x": TEXT}},
            "has patternProperties now",
            False,
            True,
        ),
        (of(), {**of(), "additionalProperties": TEXT}, "string instead of any", True, False),
        (INTEGER, {**INTEGER, "divisibleBy": 2}, "has divisibleBy now", True, False),
        ({**INTEGER, "minimum": 1, "exclusiveMinimum": False}, {**INTEGER, "minimum": 2}, "minimum is 2", True, False),
        ({**TEXT, "required": True}, {**TEXT, "required": False}, "is optional now", False, True),
        (
            {"anyOf": [{**TEXT, "maxLength": 9}, INTEGER]},
            {"anyOf": [{**TEXT, "maxLength": 5}, INTEGER]},
            "maxLength is 5 instead of 9",
            True,
            False,
        ),
        (
            {"anyOf": [{**TEXT, "format": "date"}, {**TEXT, "format": "time"}, INTEGER]},
            {"anyOf": [{**TEXT, "format": "date"}, {**TEXT, "format": "email"}, INTEGER]},
            "the alternatives of kind string changed",
            True,
            True,
        ),
    ],
)
def test_rules_beyond_types_and_limits_are_compared(old, new, said, breaks_input, breaks_output):
    for side, breaking in (("input", breaks_input), ("output", breaks_output)):
        [change] = schema_changes(of(a=old), of(a=new), side)  # type: ignore[arg-type]
        assert said in change.text
        assert change.where in ("a", "a.*")
        assert (change.effect == "breaking") is breaking, side


def test_equal_fields_that_change_alike_are_all_named():
    old, new = json.loads(json.dumps([of(a=TEXT, b=TEXT), of(a=INTEGER, b=INTEGER)]))
    changes = schema_changes(old, new)
    assert [change.where for change in changes] == ["a", "b"]


@pytest.mark.parametrize("levels", [40, 100, 1000])
def test_a_change_below_the_deepest_level_is_breaking(levels):
    old, new = TEXT, INTEGER
    for _ in range(levels):
        old, new = of(a=old), of(a=new)
    [change] = schema_changes(old, new)
    assert change.effect == "breaking"
    assert ("compared" in change.text) is (levels > 40)
    described = {**old, "description": "Only this has changed."}
    assert levels == 1000 or [change.effect for change in schema_changes(old, described)] == ["routing"]


def test_a_change_deep_inside_is_named_by_its_path():
    old = of(rows={"type": "array", "items": of(cell=of(value=INTEGER))})
    new = copy.deepcopy(old)
    new["properties"]["rows"]["items"]["properties"]["cell"]["properties"]["value"] = TEXT
    assert [change.where for change in schema_changes(old, new)] == ["rows[].cell.value"]


def test_a_definition_that_refers_to_itself_is_compared_once():
    new = copy.deepcopy(RECURSIVE)
    new["$defs"]["Node"]["properties"]["v"] = TEXT
    assert [change.where for change in schema_changes(RECURSIVE, new)] == ["next.v"]
    assert schema_changes(RECURSIVE, RECURSIVE) == []


@given(anything_like_a_schema, anything_like_a_schema)
def test_any_schemas_compare_and_none_differs_from_itself(old, new):
    schema_changes(old, new, "input")
    schema_changes(old, new, "output")
    assert schema_changes(old, copy.deepcopy(old)) == []


def interface(**tool: Any) -> dict[str, Any]:
    return {"mcp_magic": 1, "tools": {"work": tool}, "prompts": {}, "resources": {}, "templates": {}}


def prompt(**argument: Any) -> dict[str, Any]:
    return {**interface(), "prompts": {"ask": {"arguments": [{"name": "a", **argument}]}}}


def hints(**values: bool) -> dict[str, Any]:
    return interface(annotations=values)


def choice(title: str) -> dict[str, Any]:
    choices = [{"const": "c", "title": title}, {"const": "f", "title": "F"}]
    return interface(inputSchema=of(a={"oneOf": choices}))


def takes(**fields: Any) -> dict[str, Any]:
    return interface(inputSchema=of(a={**TEXT, **fields}))


@pytest.mark.parametrize(
    ("old", "new", "effect", "text"),
    [
        (takes(), interface(inputSchema=of("a", a=TEXT)), "breaking", "a is required now"),
        (interface(outputSchema=of("a", a=TEXT)), interface(), "breaking", "result no longer has a schema"),
        (hints(readOnlyHint=True), hints(readOnlyHint=False), "behaviour", "readOnlyHint is false instead of true"),
        (interface(), hints(destructiveHint=True), "behaviour", "destructiveHint is true instead of not said"),
        (interface(title="A"), interface(title="B"), "behaviour", "title changed"),
        (interface(), interface(annotations={"title": "B"}), "behaviour", "annotations.title added"),
        (
            interface(),
            interface(execution={"taskSupport": "required"}),
            "behaviour",
            "taskSupport is required instead of forbidden",
        ),
        (interface(), interface(icons=[{"src": "data:,"}]), "behaviour", "icons changed"),
        (takes(), takes(default="x"), "behaviour", "a the default is 'x' now"),
        (interface(outputSchema=of()), interface(outputSchema=of(a=TEXT)), "behaviour", "result.a is new and optional"),
        (interface(description="A"), interface(description="B"), "routing", "description changed"),
        (takes(), takes(description="B"), "routing", "a description added"),
        (takes(examples=["x"]), takes(examples=["y"]), "routing", "a examples changed"),
        (choice("C"), choice("Celsius"), "routing", "a title of 'c' changed"),
        (interface(inputSchema=of()), takes(), "routing", "a is new and optional"),
        (prompt(), prompt(description="B"), "routing", "a description added"),
        (prompt(), prompt(required=True), "breaking", "a is required now"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_has_the_effect_of_what_it_touches(old, new, effect, text):
    [change] = interface_changes(old, new)
    assert f"{change.where} {change.text}".startswith(text)
    assert change.effect == effect


def test_a_tool_that_is_no_longer_read_only_comes_first():
    new = {**hints(destructiveHint=False), "prompts": {"new": {}}}
    changes = interface_changes({**hints(readOnlyHint=True), "prompts": {"old": {}}}, new)
    assert [change.effect for change in changes] == ["behaviour", "breaking", "behaviour", "routing"]
    assert changes[0].text == "is not said instead of true"


async def test_time_to_live_changes_only_where_both_hold_it(host, tmp_path):
    offers = [await interface_of(await host.connect(Changing(ttl=ttl).server, name=f"s{ttl}")) for ttl in (0, 60_000)]
    changes = [change for change in interface_changes(*offers) if change.kind == "server"]
    assert [(change.where, change.effect) for change in changes] == [
        ("tools ttlMs", "behaviour"),
        ("resources ttlMs", "behaviour"),
    ]
    assert changes[0].text == "is 60000 instead of not said"
    earlier = {name: value for name, value in offers[0].items() if name != "ttlMs"}
    (tmp_path / "earlier.json").write_text(snapshot_text(earlier))
    assert interface_changes(read_snapshot(tmp_path / "earlier.json"), offers[1]) == []


def test_changed_words_are_marked_side_by_side():
    before, now = "Finds items by name, the cheapest first.", "Finds items by their name, the best first."
    changes = listed_changes(interface_changes(interface(description=before), interface(description=now)))
    [old, new] = re.findall(r"<td[^>]*><div[^>]*>(.*?)</div>", changes._repr_mimebundle_()["text/html"])[-2:]
    assert re.sub(r" style=\"[^\"]*\"", "", old) == "Finds items by name, the <del><b>cheapest </b></del>first."
    assert "<ins><b>their </b></ins>name" in new
    columns = [line.split(" | ") for line in str(changes).splitlines() if " | " in line]
    assert " ".join(column[0].strip() for column in columns).strip() == "Finds items by name, the [-cheapest-] first."
    assert changes.df["now"].tolist() == [now]


def test_hidden_and_long_texts_are_shown_within_limits():
    long = "same " * 100_000
    pairs = [
        ("Adds.", "Adds.\u202e<b>"),
        (f"{long}old", f"{long}new"),
        ("a b " * 5_000, "b c " * 5_000),
        *((str(number), "x") for number in range(30)),
    ]
    changes = listed_changes(Change("tool", "t", "description", "changed", "routing", *pair) for pair in pairs)
    shown = changes._repr_mimebundle_()
    assert r"{+Adds.\u202e<b>+}" in shown["text/plain"]
    assert "[-old-]" in shown["text/plain"]
    assert "… 13 more texts" in shown["text/plain"]
    assert len(shown["text/plain"]) < 30_000
    assert "<ins><b>Adds.\\u202e&lt;b&gt;</b></ins>" in shown["text/html"]


def test_an_edited_snapshot_is_compared_as_far_as_it_goes(tmp_path):
    odd = interface(annotations=[1], execution="x", description=["a"], inputSchema=3)
    odd |= {"server": [], "ttlMs": 1, "prompts": {"ask": {"arguments": [1, {"name": []}]}}}
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(odd))
    changes = interface_changes(read_snapshot(file), {**prompt(), "server": {}})
    assert "description removed" in [f"{change.where} {change.text}" for change in changes]
    odd["prompts"]["ask"]["arguments"] = 5
    [gone] = interface_changes({**prompt(), "server": {}}, {**odd, "tools": prompt()["tools"]})
    assert str(gone) == "breaking: prompt ask: a is gone"


def test_no_error_suggests_to_overwrite_a_program(tmp_path):
    (tmp_path / "server.py").write_text("import this")
    with pytest.raises(ConfigError, match=r"server\.py is not JSON .* `%mcp snapshot shop -o shop\.mcp\.json` writes"):
        read_snapshot(tmp_path / "server.py", "shop")


def test_a_snapshot_of_endless_depth_is_refused(tmp_path):
    schema: dict[str, Any] = TEXT
    for _ in range(110):
        schema = of(a=schema)
    file = tmp_path / "deep.json"
    file.write_text(json.dumps(interface(inputSchema=schema)))
    with pytest.raises(
        ConfigError, match=r"deep\.json is nested deeper than 220 levels; `%mcp snapshot SERVER -o deep"
    ):
        read_snapshot(file)


def test_changes_are_chosen_by_their_effect():
    changes = listed_changes(interface_changes(interface(title="A"), interface(title="B", description="C")))
    assert [row["where"] for row in changes.of("routing")] == ["description"]
    assert len(changes.of("behaviour", "routing")) == 2
    assert changes.summary("since a.json") == (
        "1 behaviour and 1 routing change since a.json: tool work: title changed; tool work: description added"
    )
    with pytest.raises(ArgumentsError, match="'odd'; it is one of breaking, behaviour, routing"):
        changes.of("odd")
