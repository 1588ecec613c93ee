"""Values as tables, and their rows and columns as JSON."""

from __future__ import annotations

import datetime
import decimal
import enum
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.values.reading import Reader
from mcp_magic.values.tables import as_json, table_of
from tests.support.clocks import assert_linear


@dataclass
class Point:
    x: int
    y: int


Pair = namedtuple("Pair", ["left", "right"])


class Colour(enum.Enum):
    RED = "r"


class Trap:
    """A key that fails when it is compared."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        raise SystemExit


FRAME = pd.DataFrame(
    {
        "n": [1.0, float("nan"), 2.5],
        "when": pd.to_datetime(["2026-01-02T03:04:05", None, "2026-01-03T00:00:00"]),
        "kind": pd.Categorical(["a", None, "b"]),
        "price": [decimal.Decimal("1.50"), None, decimal.Decimal(2)],
        "nested": [{"a": [1, float("nan")]}, [b"\x00"], Point(1, 2)],
    }
)


def test_cells_of_a_frame_are_json():
    assert as_json(FRAME) == [
        {"n": 1.0, "when": "2026-01-02T03:04:05", "kind": "a", "price": 1.5, "nested": {"a": [1, None]}},
        {"n": None, "when": None, "kind": None, "price": None, "nested": ["AA=="]},
        {"n": 2.5, "when": "2026-01-03T00:00:00", "kind": "b", "price": 2, "nested": {"x": 1, "y": 2}},
    ]


def test_rows_and_columns_are_chosen():
    assert as_json(FRAME, ["kind", "n"], range(1)) == [{"kind": "a", "n": 1.0}]
    assert as_json([{"a": 1, "b": 2}, {"a": 3}], ["a"], [1]) == [{"a": 3}]
    assert as_json([{"a": 1, "b": 2}, {"a": 3}]) == [{"a": 1, "b": 2}, {"a": 3}]
    assert as_json({"a": 1}) == {"a": 1}


def test_the_levels_of_an_index_are_columns():
    frame = pd.DataFrame({"v": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None]))
    assert as_json(frame) == [{"k": "a", "level_1": 1, "v": 1}, {"k": "b", "level_1": 2, "v": 2}]


def test_columns_of_the_same_name_get_numbers():
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "a", ("b", 1)])
    assert as_json(frame) == [{"a": 1, "a_2": 2, "b_1": 3}]


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (pd.Series([1, 2], name="s"), ["s"]),
        (pd.Series([1, 2]), ["value"]),
        ([1, 2], ["value"]),
        ([[1, 2], [3]], ["0", "1"]),
        ([Point(1, 2)], ["x", "y"]),
        ([Pair(1, 2), Pair(3, 4)], ["left", "right"]),
        ({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"]),
        ({"a": 1, "b": 2}, ["key", "value"]),
        ({2, 1}, ["value"]),
    ],
    ids=["series", "unnamed_series", "list", "lists", "dataclasses", "named_tuples", "columns", "scalars", "set"],
)
def test_values_are_tables(value, columns):
    table = table_of(value)
    assert table is not None
    assert table.columns == columns


def test_a_cell_of_a_dict_is_read_without_its_other_keys():
    def rows(count: int) -> list[dict[Any, int]]:
        return [{(number, "a"): number for number in range(count)} for _ in range(400)]

    assert_linear(lambda value: Reader().describe(value, "rows"), rows(3), rows(48))


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ((1, "a"), ["1", "a"]),
        ((("a", 1), ("a", 2)), ["a_1", "a_2"]),
        ((datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2)), ["2026-01-02", "2026-01-02T00:00:00"]),
        ((np.int64(7), pd.Timestamp("2026-01-02"), None), ["7", "2026-01-02T00:00:00", "None"]),
        ((Colour.RED, b"a"), ["r", "YQ=="]),
        ((Trap(1), 2), ["value"]),
        ((("a", Trap(1)), 2), ["value"]),
    ],
)
def test_columns_of_a_list_of_dicts_are_the_texts_of_its_keys(keys, columns):
    rows = [dict.fromkeys(keys, 5), {}]
    table = table_of(rows)
    assert table is not None
    assert table.columns == columns
    if columns != ["value"]:
        assert [list(table.cells(position, range(2))) for position in range(len(keys))] == [[5, None]] * len(keys)


def test_keys_of_the_same_text_are_one_column():
    table = table_of([{1: "a"}, {"1": "b"}, {1.0: "c"}])
    assert table is not None
    assert table.columns == ["1"]
    assert table.cells(0, range(3)) == ["a", "b", "c"]


def test_a_later_key_of_a_foreign_class_is_not_compared():
    table = table_of([{1: "a"}] * 10_000 + [{Trap(1): "b", 2: "c"}, {Trap(2): "b", 1: "c"}])
    assert table is not None
    assert table.cells(0, range(9_999, 10_002)) == ["a", None, "c"]


def test_a_value_without_rows_has_none_to_choose():
    with pytest.raises(ArgumentsError, match="a dict has no rows and columns"):
        as_json({"a": {"b": 1}, "c": 2}, ["a"])


def test_a_subclass_of_a_frame_is_read_without_its_methods():
    class Loud(pd.DataFrame):
        def __getattr__(self, name):
            raise AssertionError(name)

        @property
        def iloc(self):
            raise AssertionError

        def __len__(self):
            raise AssertionError

    assert as_json(Loud({"a": [1]})) == [{"a": 1}]


def test_scalars_of_numpy_are_plain():
    assert as_json([np.int64(1), np.float64("nan"), np.bool_(True), np.datetime64("2026-01-02")]) == [
        1,
        None,
        True,
        "2026-01-02",
    ]


def test_more_values_than_fit_are_refused_before_they_are_made():
    many = np.broadcast_to(np.array(1), (1_000_000, 1_000))
    with pytest.raises(ArgumentsError, match="1,000,000,000 values are more than can be read at once; name fewer rows"):
        as_json(many)
    assert as_json(many, ["0"], range(1)) == [{"0": 1}]
