"""Columns as arrays of one kind."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from mcp_magic.values.tables import table_of


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        raise SystemExit


MOMENT = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        ([1, None, 3], "number", [1, None, 3]),
        ([1, 2.5, float("nan")], "number", [1.0, 2.5, None]),
        ([True, None], "truth", [True, None]),
        (["a", None], "text", ["a", None]),
        ([None, None], "number", [None, None]),
        ([MOMENT, None], "time", [datetime.datetime(2026, 1, 2), None]),
        ([MOMENT.replace(tzinfo=Zone())], "time", [None]),
        ([pd.Timestamp("2026-01-02 12:00", tz="Europe/Oslo")], "time", [datetime.datetime(2026, 1, 2, 11)]),
        (pd.Series(pd.to_datetime(["2026-01-02", None])), "time", [datetime.datetime(2026, 1, 2), None]),
        (pd.Series(["2026-01-02"]).astype("datetime64[ns, UTC]"), "time", [datetime.datetime(2026, 1, 2)]),
        (pd.Series([1, None], dtype="Int64"), "number", [1, None]),
        (pd.Series([True, None], dtype="boolean"), "truth", [True, None]),
        (pd.Series(["a", None], dtype="string"), "text", ["a", None]),
        (pd.Series(["a", None, "a"], dtype="category"), "text", ["a", None, "a"]),
        (pd.Series([2024, None, 2025], dtype="category"), "number", [2024, None, 2025]),
        (pd.Series([True, None], dtype=pd.CategoricalDtype([True, False])), "truth", [True, None]),
        (pd.Series(pd.to_timedelta(["1s", None])), "number", [1.0, None]),
        (pd.Series(pd.arrays.SparseArray([0, 1])), "number", [0, 1]),
        (pd.Series([np.float32(0.5), None], dtype="float32"), "number", [0.5, None]),
        (pd.Series(["a", 1, pd.NA], dtype=object), "mixed", ["a", 1, None]),
    ],
)
def test_columns_become_arrays_of_a_kind(value, kind, values):
    table = table_of(value)
    assert table is not None
    vector = table.vector(0, range(len(table)))
    assert vector.kind == kind
    cells = [None if missing else cell for cell, missing in zip(vector.values.tolist(), vector.missing, strict=True)]
    assert cells == values
