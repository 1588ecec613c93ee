"""DataFrames, Series and indexes of pandas, whose other methods and columns may be anybody's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from mcp_magic.display.frames import EscapedFrame
from mcp_magic.errors import ArgumentsError
from mcp_magic.values.plain import Writer
from mcp_magic.values.query import select
from mcp_magic.values.tables import as_json, table_of


class LoudType(ExtensionDtype):
    name = "loud"
    type = object

    def __str__(self):
        raise SystemExit


class LoudArray(ExtensionArray):
    """A column of another package, which fails when it is read."""

    dtype = LoudType()

    def __len__(self):
        return 2

    read = 0

    def __getitem__(self, item):
        LoudArray.read += 1
        return self

    def copy(self):
        return self

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise SystemExit

    isna = tolist = take = __iter__ = to_numpy = _formatter = _fail  # type: ignore[assignment]

    @property
    def nbytes(self):
        raise SystemExit


def test_a_column_of_another_package_is_only_named():
    frame = pd.DataFrame({"a": [1, 2]})
    frame["geometry"] = LoudArray()
    LoudArray.read = 0
    table = table_of(frame)
    assert table is not None
    assert table.dtype(1) == "LoudType"
    assert table.size == 32
    assert as_json(frame, [], range(1)) == [{"a": 1, "geometry": "<LoudType>"}]
    assert select(table, "a == 2", range(2)) == [1]
    assert select(table, "geometry is null", range(2)) == []
    assert LoudArray.read == 0
    with pytest.raises(ArgumentsError, match="LoudType has no JSON form"):
        as_json(frame, writer=Writer(json_only=True))


def test_types_are_named_without_their_values():
    sparse = pd.arrays.SparseArray(["sesame", "sesame"], fill_value="sesame", dtype=pd.SparseDtype("object", "sesame"))
    frame = pd.DataFrame({"password": sparse, "kind": pd.Categorical(["sesame", "b"]), "i": pd.interval_range(0, 2)})
    table = table_of(frame)
    assert table is not None
    assert [table.dtype(position) for position in range(3)] == ["Sparse[object]", "category", "interval[int64, right]"]


def test_attributes_of_a_frame_are_not_copied():
    class Loud:
        def __deepcopy__(self, memo):
            raise SystemExit

    frame = pd.DataFrame({"a": [1]})
    frame.attrs["loud"] = Loud()
    assert as_json(frame) == [{"a": 1}]


@pytest.mark.parametrize("name", ["_mgr", "__getattribute__"])
def test_a_subclass_that_is_asked_for_its_data_is_no_table(name):
    def fail(self, *_):
        raise SystemExit

    loud = type("Loud", (pd.DataFrame,), {})
    value = loud({"a": [1]})
    setattr(loud, name, property(fail) if name != "__getattribute__" else fail)
    assert table_of(value) is None


def test_frames_of_results_are_tables():
    assert as_json(EscapedFrame({"a": ["\x1b[2J"]})) == [{"a": "\x1b[2J"}]


def test_labels_may_be_anything():
    class Label:
        def __str__(self):
            raise SystemExit

        __repr__ = __str__

    frame = pd.DataFrame(
        [[1, 2, 3, 4]], columns=pd.Index([Label(), None, 1.5, pd.Timestamp("2026-01-02")], dtype=object)
    )
    assert list(as_json(frame)[0]) == ["<Label>", "None", "1.5", "2026-01-02T00:00:00"]


def test_ten_thousand_columns_are_read_by_name():
    frame = pd.DataFrame(np.zeros((2, 10_000)), columns=[f"c{number}" for number in range(10_000)])
    assert as_json(frame, ["c9999"], range(1)) == [{"c9999": 0.0}]


@pytest.mark.parametrize(
    ("index", "columns"),
    [
        (pd.RangeIndex(1), ["a"]),
        (pd.Index([7]), ["a"]),
        (pd.Index([7], name="id"), ["id", "a"]),
        (pd.Index(["x"]), ["index", "a"]),
        (pd.MultiIndex.from_tuples([("x", 1)]), ["level_0", "level_1", "a"]),
        (pd.DatetimeIndex(["2026-01-02"]), ["index", "a"]),
    ],
)
def test_an_index_is_columns_unless_it_only_numbers_rows(index, columns):
    frame = pd.DataFrame({"a": [1]}, index=index)
    assert list(as_json(frame)[0]) == columns
    assert list(as_json(frame, rows=[0])[0]) == columns


def test_an_index_is_a_table():
    assert as_json(pd.Index(["x", "y"])) == [{"value": "x"}, {"value": "y"}]
    assert as_json(pd.MultiIndex.from_tuples([(1, 2)], names=["a", None])) == [{"a": 1, "value": 2}]
