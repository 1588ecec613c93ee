"""Masks: patterns of paths, differences between two values, and what two recordings show to vary."""

from __future__ import annotations

import pytest

from mcp_magic.cassette.masks import Comparison, Mask, infer_masks
from mcp_magic.errors import ArgumentsError

RECORDED = {"rows": [{"id": 1, "name": "tea"}, {"id": 2, "name": "milk"}], "at": "2026-01-01T10:00:00", "n": 1}


def compared(live, *masks: Mask, recorded=RECORDED):
    comparison = Comparison(masks).compare({"result": recorded}, {"result": live})
    return comparison.kind, [str(difference) for difference in comparison.differences]


@pytest.mark.parametrize(
    ("live", "kind", "differences"),
    [
        pytest.param(RECORDED, "", [], id="same"),
        pytest.param({**RECORDED, "n": 1.0}, "", [], id="equal number"),
        pytest.param({**RECORDED, "n": 2}, "value", ["result.n: 1 -> 2"], id="value"),
        pytest.param({**RECORDED, "n": "1"}, "shape", ['result.n: 1 -> "1"'], id="type"),
        pytest.param({**RECORDED, "n": True}, "shape", ["result.n: 1 -> true"], id="truth"),
        pytest.param({**RECORDED, "new": None}, "shape", ["result.new: missing -> null"], id="new member"),
        pytest.param({**RECORDED, "rows": RECORDED["rows"][:1]}, "value", ["result.rows: 2 items -> 1"], id="length"),
        pytest.param(
            {**RECORDED, "rows": RECORDED["rows"][::-1]},
            "value",
            ["result.rows: the same items in another order"],
            id="order",
        ),
        pytest.param({**RECORDED, "a b": 1}, "shape", ['result["a b"]: missing -> 1'], id="odd name"),
        pytest.param([1], "shape", ["result: 3 members -> [1]"], id="whole"),
    ],
)
def test_differences_are_of_the_shape_or_of_a_value(live, kind, differences):
    assert compared(live) == (kind, differences)


def test_long_texts_are_cut_to_where_they_differ():
    story = "Once upon a time there was a shop whose prices were as they are. "
    assert compared(story + "Tea is 3.", recorded=story + "Tea is 2.") == (
        "value",
        ['result: "…e. Tea is 2." -> "…e. Tea is 3."'],
    )
    kind, [difference] = compared("A" * 600, recorded="B" * 600)
    assert (kind, difference.count("600 characters (")) == ("value", 2)


def test_masked_secrets_differ_from_nothing():
    assert compared({"token": "abc"}, recorded={"token": "***"}) == ("", [])


@pytest.mark.parametrize(
    ("path", "covers"),
    [
        ("rows[*].id", True),
        ("result.rows[0].id", True),
        ("id", True),
        ("rows", False),
        ("rows[1].id", False),
        ('rows[*]["id"]', True),
        ("*.*.id", True),
        ("a.b.result.rows[0].id", False),
    ],
)
def test_pattern_fits_the_end_of_a_path(path, covers):
    assert Mask(path).covers(("result", "rows", 0, "id")) is covers


@pytest.mark.parametrize("path", ["", "a..b", "a[", "a[x]", "a[-1]", '["a', f"a[{'9' * 5000}]", '["\\q"]'])
def test_pattern_that_cannot_be_read_is_an_error(path):
    with pytest.raises(ArgumentsError, match="is no"):
        Mask(path)


def test_mask_checks_the_type_and_concerns_all_below():
    changed = {**RECORDED, "rows": [{"id": 8, "name": "tea"}, {"id": "x", "name": "milk"}], "at": "later"}
    assert compared(changed, Mask("rows"), Mask("at", ("string",))) == ("", [])
    kind, differences = compared(changed, Mask("rows[*].id", ("number", "null")), Mask("result.at", ("string",)))
    assert (kind, differences) == ("shape", ["result.rows[1].id: number or null -> string"])


def test_mask_of_an_order_compares_what_is_in_the_list():
    mask = Mask("tags", ("array",), is_order=True)
    assert compared({"tags": ["b", "a"]}, mask, recorded={"tags": ["a", "b"]}) == ("", [])
    kind, differences = compared({"tags": ["c", "a"]}, mask, recorded={"tags": ["a", "b"]})
    assert (kind, differences) == ("value", ['result.tags[1]: "b" -> "c"'])


@pytest.mark.parametrize(
    ("first", "second", "masks"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="same"),
        pytest.param({"a": 1}, {"a": 7}, [("a", ("number",), "a number")], id="number"),
        pytest.param({"a": None}, {"a": "x"}, [("a", ("null", "string"), "a value")], id="null"),
        pytest.param(
            {"at": "2026-01-01T10:00"}, {"at": "2026-01-02 11:30"}, [("at", ("string",), "a time")], id="time"
        ),
        pytest.param({"a": "9f86d081"}, {"a": "60303ae2"}, [("a", ("string",), "an id")], id="id"),
        pytest.param({"a": "It is 3"}, {"a": "It is 4"}, [("a", ("string",), "a text")], id="text"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, [("a", ("array",), "a list of varying order")], id="order"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [("a", ("array",), "a list of varying length")], id="length"),
        pytest.param(
            {"a": 1}, {}, [("a", ("number", "missing"), "a member that is not always there")], id="sometimes there"
        ),
        pytest.param(
            {"r": [{"i": 1, "n": 1}, {"i": 2, "n": 1}]},
            {"r": [{"i": 3, "n": 1}, {"i": 4, "n": 1}]},
            [("r[*].i", ("number",), "a number")],
            id="items",
        ),
        pytest.param({"r": [1, {"i": 2}]}, {"r": [1, {"i": 4}]}, [("r[1].i", ("number",), "a number")], id="one item"),
        pytest.param(
            {"r": [{"i": 1}], "n": 1},
            {"r": [{"i": 2}, {"i": 3}], "n": 2},
            [("r", ("array",), "a list of varying length"), ("n", ("number",), "a number")],
            id="length and items",
        ),
        pytest.param({"token": "***"}, {"token": "x"}, [], id="secret"),
    ],
)
def test_masks_are_inferred_from_two_recordings(first, second, masks):
    inferred = infer_masks([(first, second)])
    assert [(mask.path, mask.types, mask.why) for mask in inferred] == masks
    assert Comparison(inferred).compare(first, second).differences == []


def test_masks_of_several_answers_are_joined():
    pairs = [({"r": [{"i": 1}]}, {"r": [{"i": "x"}]}), ({"r": [{"i": 1}, {"i": 1}]}, {"r": [{"i": 1}, {"i": 3}]})]
    assert [(mask.path, mask.types) for mask in infer_masks(pairs)] == [("r[*].i", ("number", "string"))]


def test_hostile_values_are_compared_within_bounds():
    deep: object = 1
    for _ in range(600):
        deep = [deep]
    assert compared(deep, recorded=[[2]])[0] == "shape"
    long = Comparison([]).compare(list(range(5000)), list(range(1, 5001)))
    assert len(long.differences) == 1000
