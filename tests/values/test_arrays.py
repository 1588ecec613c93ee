"""Arrays of numpy and DataFrames of Polars as tables."""

from __future__ import annotations

import asyncio
import datetime

import numpy as np
import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.values.query import select
from mcp_magic.values.reading import Reader, readable
from mcp_magic.values.shared import SharedValues
from mcp_magic.values.tables import as_json, table_of
from mcp_magic.values.tools import value_tools

pl = pytest.importorskip("polars")


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        (np.array([1, 2]), [{"value": 1}, {"value": 2}]),
        (np.array([[1.5, np.nan]]), [{"0": 1.5, "1": None}]),
        (np.arange(4).reshape(1, 2, 2), [{"0,0": 0, "0,1": 1, "1,0": 2, "1,1": 3}]),
        (np.array([(1, "x")], dtype=[("a", "i4"), ("b", "U3")]), [{"a": 1, "b": "x"}]),
        (np.ma.array([1, 2], mask=[False, True]), [{"value": 1}, {"value": None}]),
        (np.array(["2026-01-02", "NaT"], "datetime64[D]"), [{"value": "2026-01-02"}, {"value": None}]),
        (np.array([object], dtype=object), [{"value": "<type>"}]),
        (np.array([1j]), [{"value": "1j"}]),
    ],
    ids=["numbers", "matrix", "cube", "records", "masked", "dates", "objects", "complex"],
)
def test_an_array_has_rows_and_columns(array, rows):
    assert as_json(array, list(rows[0])) == rows


def test_a_subclass_of_an_array_is_read_without_its_methods():
    class Loud(np.ndarray):
        def __getitem__(self, index):
            raise SystemExit

        tolist = __len__ = __iter__ = __getitem__  # type: ignore[assignment]

    array = np.array([1, 2]).view(Loud)
    assert as_json(array, ["value"]) == [{"value": 1}, {"value": 2}]


def test_arrays_are_queried_by_the_places_of_columns():
    table = table_of(np.arange(12).reshape(3, 4))
    assert table is not None
    assert select(table, "`0` >= 4 and `3` < 11", range(3)) == [1]


def test_the_true_number_of_columns_is_told():
    array, reader = np.zeros((1, 15_000)), Reader()
    assert "; the first 50 of 15,000 columns, name others as columns]" in reader.read(array)
    assert "and 14,950 columns more" in reader.describe(array, "a")


MOMENT = datetime.datetime(2026, 1, 2)


@pytest.fixture
def frame():
    """A frame of Polars; tests run in forks, and its threads do not outlive a fork: it is made in the fork."""
    return pl.DataFrame(
        {
            "n": [1, None, 2**60],
            "text": ["x", "y", None],
            "when": [MOMENT, None, MOMENT],
            "zone": pl.Series([MOMENT, None, MOMENT]).dt.replace_time_zone("Europe/Oslo"),
            "list": [[1], None, [2, 3]],
            "kind": pl.Series(["a", "b", None], dtype=pl.Categorical),
            "ok": [True, None, False],
            "any": pl.Series([object(), None, 1], dtype=pl.Object),
            "took": [datetime.timedelta(1), None, datetime.timedelta(2)],
            "hour": [datetime.time(1), None, datetime.time(2)],
        }
    )


def test_a_polars_frame_is_read_in_parts(frame):
    assert as_json(frame, ["n", "when", "zone", "list", "kind", "any"], range(1)) == [
        {
            "n": 1,
            "when": "2026-01-02T00:00:00",
            "zone": "2026-01-02T00:00:00+01:00",
            "list": [1],
            "kind": "a",
            "any": "<object>",
        }
    ]
    assert as_json(frame, ["n"], [2, 1]) == [{"n": 2**60}, {"n": None}]
    assert as_json(pl.Series("s", [1, 2])) == [{"s": 1}, {"s": 2}]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"n == {2**60}", [2]),
        ("n is null", [1]),
        ('text == "y"', [1]),
        ('when == "2026-01-02"', [0, 2]),
        ('zone == "2026-01-02"', [0, 2]),
        ('zone == "2026-01-01T23:00:00Z"', [0, 2]),
        ('kind in ["a", "b"]', [0, 1]),
        ("ok", [0]),
        ("not ok", [2]),
        ("list is not null", [0, 2]),
        ("any == 1", [2]),
        ("took > 86400", [2]),
        ('hour == "01:00:00"', [0]),
    ],
)
def test_polars_columns_are_queried(frame, query, rows):
    table = table_of(frame)
    assert table is not None
    assert select(table, query, range(3)) == rows


def test_types_of_polars_are_named_without_their_values():
    kind = pl.Enum(["sesame", "hunter2"])
    password = pl.Series(["sesame", "hunter2"], dtype=kind)
    frame = pl.DataFrame(
        {
            "password": password,
            "keys": pl.Series([["sesame"], None], dtype=pl.List(kind)),
            "user": pl.Series([{"n": 1, "password": "sesame"}] * 2, dtype=pl.Struct({"n": pl.Int8, "password": kind})),
            "wide": [{f"field_{number}": number for number in range(1_000)}] * 2,
            "price": pl.Series([None, None], dtype=pl.Decimal(9, 2)),
        }
    )
    lines = Reader(columns=1).describe(frame, "frame", list(frame.columns)).splitlines()
    assert [line.partition(", masked")[0] for line in lines[1:4]] == [
        "password: Enum",
        "keys: List(Enum), 1 missing",
        "user: Struct(n: Int8, password: Enum)",
    ]
    assert lines[4].startswith("wide: Struct(field_0: Int64, field_1: Int64, ")
    assert len(lines[4]) < 80
    assert lines[5] == "price: Decimal(precision=9, scale=2), 2 missing"
    assert "sesame" not in "\n".join(lines[:-2])


def test_a_lazy_frame_is_not_collected():
    calls: list[int] = []
    lazy = pl.LazyFrame({"a": [1]}).map_batches(lambda frame: calls.append(1) or frame)
    assert table_of(lazy) is None
    assert calls == []


def test_parts_of_masked_records_are_masked():
    array = np.ma.zeros(2, np.dtype([("a", float, 2), ("b", [("x", int)]), ("z", int)]))
    array["a"] = np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    array["b"]["x"][1] = np.ma.masked
    assert as_json(array) == [{"a": [1.0, None], "b": [0], "z": 0}, {"a": [3.0, 4.0], "b": [None], "z": 0}]
    assert select(table_of(array), "b is not null and z == 0", range(2)) == [0, 1]


# Times that Python does not have.


@pytest.mark.parametrize(
    ("array", "cells"),
    [
        (np.array(["500000-01-01", "2026-01-02", "NaT"], "datetime64[D]"), ["500000-01-01", "2026-01-02", None]),
        (np.array(["-500000-01", "2026-01"], "datetime64[M]"), ["-500000-01", "2026-01-01"]),
        (np.array([5, 10**12], "timedelta64[D]"), ["PT432000S", "1000000000000 days"]),
    ],
    ids=["days", "months", "durations"],
)
def test_a_time_that_python_lacks_is_a_text(array, cells):
    assert as_json(array, ["value"]) == [{"value": cell} for cell in cells]
    assert as_json({"times": array}) == {"times": cells}
    assert as_json({"time": array[0]}) == {"time": cells[0]}


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms", "us"])
def test_a_far_time_is_compared_as_far(unit):
    far = np.array(["200001", "-200001", "2026"], f"datetime64[{unit}]")
    assert select(table_of(far), 'value > "2030-01-01"', range(3)) == [0]
    assert select(table_of(far), 'value < "1900-01-01"', range(3)) == [1]
    told = Reader().describe(far, "far")
    assert unit == "us" or "the year -200000 or farther to the year 200000 or farther" in told


def far_dates(dtype):
    return pl.DataFrame({"day": pl.Series([10**8, 1, None], dtype=pl.Int64).cast(dtype)})


def test_a_date_of_polars_that_python_lacks_is_a_text():
    frame = far_dates(pl.Date)
    assert [row["day"] for row in as_json(frame)] == ["275760-09-13", "1970-01-02", None]
    assert select(table_of(frame), 'day > "2030-01-01"', range(3)) == [0]
    frame = pl.DataFrame({"t": pl.Series([2**60, 1, None]).cast(pl.Datetime("ms", "Europe/Oslo"))})
    assert [row["t"] for row in as_json(frame)] == [
        "36536598-01-28T21:54:06.976",
        "1970-01-01T01:00:00.001000+01:00",
        None,
    ]


def test_times_of_polars_are_compared_as_they_are_shown():
    moments = pl.Series([datetime.datetime(2026, 10, 25, 0, 30), None]).dt.replace_time_zone("UTC")
    table = table_of(pl.DataFrame({"t": moments.dt.convert_time_zone("Europe/Oslo")}))
    assert select(table, 't == "2026-10-25T02:30"', range(2)) == [0]
    assert select(table, 't == "2026-10-25T00:30Z"', range(2)) == [0]


def test_a_panic_of_a_library_is_told_as_its_other_errors():
    values = SharedValues({"dates": pl.DataFrame({"days": [far_dates(pl.Date)["day"]]})})
    values.share("dates")
    for tool in value_tools()[1:]:
        with pytest.raises(ArgumentsError, match=r"this value cannot be read \(PanicException\)"):
            tool.answer({"name": "dates"}, values.of("1"))


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_the_end_of_a_program_is_no_error_of_a_library(end):
    with pytest.raises(end), readable():
        raise end
