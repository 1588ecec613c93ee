"""What rows may be, and what is computed for each."""

from __future__ import annotations

import json
import os
from typing import Any

import pandas as pd
import pytest

from mcp_magic import ArgumentsError
from mcp_magic.map.rows import col

CITIES = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo"], "n": [1, 2, 3]}, index=["x", "y", "z"])


async def test_columns_are_passed_by_name_and_index_is_kept(host, calls):
    run = await host.map("s:weather", CITIES)
    assert run.note == "passed by name: city"
    frame = run.df
    assert list(frame.index) == ["x", "y", "z"]
    assert list(frame.columns) == ["city", "n", "weather.city", "degrees", "error", "attempts", "seconds"]
    assert frame["weather.city"].tolist() == ["OSLO", "ROME", "OSLO"]
    assert frame["degrees"].tolist() == [4, 4, 4]
    assert frame["error"].tolist() == [None] * 3
    await host.map("s:add", CITIES, a=1)
    assert calls == {"weather": 2, "add": 3}  # only equal calls of a read-only tool are sent once


async def test_a_column_that_only_later_rows_have_is_passed(host, calls):
    run = await host.map("s:add", [{"a": 1}, {"a": 2, "b": 5}])
    assert run.df["result"].tolist() == [11, 7]
    run = await host.map("s:add", [{"a": 1}, {"a": 2, "b": 5}], a=col("a"), b=lambda row: row.get("b", 1))
    assert run.df["result"].tolist() == [2, 7]


@pytest.mark.parametrize("value", [col("n"), lambda row: row.n, lambda row: row["n"]], ids=["col", "attribute", "item"])
async def test_an_argument_is_computed_for_each_row(host, calls, value):
    run = await host.map("s:add", CITIES, a=value, b=5)
    assert [result.data for result in run.results] == run.df["result"].tolist() == [6, 7, 8]


async def test_rows_are_lists_generators_frames_and_files(host, calls, tmp_path):
    rows = [{"a": 1}, {"a": 2}]
    files = {name: tmp_path / f"rows.{name}" for name in ("csv", "tsv", "json", "jsonl")}
    files["csv"].write_text("a\n1\n2\n")
    files["tsv"].write_text("a\tc\n1\tx\n2\ty\n")
    files["json"].write_text(json.dumps(rows))
    files["jsonl"].write_text('\ufeff{"a": 1}\n\n{"a": 2}\n')
    for source in (rows, iter(rows), *files.values(), str(files["csv"])):
        run = await host.map("s:add", source)
        assert [result.data for result in run.results] == [11, 12], source
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(rows)
    for source in (frame, frame.lazy()):
        assert (await host.map("s:add", source)).df["result"].tolist() == [11, 12]
    pytest.importorskip("pyarrow")
    frame.write_parquet(tmp_path / "rows.parquet")
    assert (await host.map("s:add", tmp_path / "rows.parquet")).df["result"].tolist() == [11, 12]


async def test_only_the_first_rows_are_read_with_a_limit(host, calls):
    run = await host.map("s:add", ({"a": n} for n in range(10**9)), limit=5)
    assert run.df["result"].tolist() == [10, 11, 12, 13, 14]


async def test_types_labels_and_empty_tables_are_kept(host, calls):
    frame = pd.DataFrame(
        {"a": [1, 2], "kind": pd.Categorical(["x", "y"]), "when": pd.to_datetime(["2026-01-01", "2026-01-02"])},
        index=pd.MultiIndex.from_tuples([("p", 1), ("q", 2)], names=["letter", "number"]),
    )
    result = (await host.map("s:add", frame)).df
    pd.testing.assert_frame_equal(result[["a", "kind", "when"]], frame)
    assert result["result"].tolist() == [11, 12]
    empty = await host.map("s:add", pd.DataFrame({"a": []}))
    assert (len(empty.df), empty.stats["rows"]) == (0, 0)
    doubled = await host.map("s:add", pd.DataFrame({"a": [1, 2]}, index=["x", "x"]))
    assert doubled.df.loc["x", "result"].tolist() == [11, 12]
    own = (await host.map("s:add", pd.DataFrame({"a": [1], "error": ["mine"], "result": [7]}))).df
    assert list(own.columns) == ["a", "error", "result", "add.result", "add.error", "attempts", "seconds"]
    assert own.iloc[0].tolist()[:5] == [1, "mine", 7, 11, None]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NaT, pd.NA], ids=["None", "NaN", "NaT", "NA"])
async def test_missing_value_is_omitted_for_optional_parameter(host, calls, missing):
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Series([5, missing], dtype=object)})
    assert (await host.map("s:add", frame)).df["result"].tolist() == [6, 12]
    with pytest.raises(ArgumentsError, match=r"row 1: a: expected integer, got (null|nan)"):
        await host.map("s:add", frame, a=col("b"))


VALUED = 'no column is named like a parameter. Columns: A value, x; parameters: a, b. Write a={row["A value"]}'
PARTLY = "no column is named like a. Columns: b, a_value; parameters: a, b. Write a={row.a_value} b={row.b}"
BAD: dict[str, tuple[Any, str]] = {
    "dict": ({"a": [1]}, "a dict has no rows; give pd.DataFrame(columns) or a list of dicts"),
    "number": (3, "int has no rows; give a DataFrame, a list of dicts or a file"),
    "items": ([1, 2], "row 0 is int, not a dict: 1"),
    "ending": ("rows.xyz", "'rows.xyz' has no ending of a table; .csv, .tsv"),
    "missing": ("gone.csv", "gone.csv: No such file or directory"),
    "twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "the table has several columns 'a'; rename them first"),
    "nothing fits": ([{"x": 1}], "no column is named like a parameter. Columns: x; parameters: a, b"),
    "other words": ([{"A value": 1, "x": 2}], VALUED),
    "some in other words": ([{"b": 1, "a_value": 2}], PARTLY),
}


@pytest.mark.parametrize("name", BAD)
async def test_no_table_is_refused_before_anything_is_sent(host, calls, name):
    source, text = BAD[name]
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", source)
    assert text in str(raised.value)
    assert not calls


async def test_hostile_files_of_rows_are_refused_at_once(host, calls, tmp_path):
    for ending in ("csv", "json", "jsonl"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
        with pytest.raises(ArgumentsError, match="it is not a regular file"):
            await host.map("s:add", tmp_path / f"pipe.{ending}")
    for name, size, words in (
        ("rows.json", 300_000_000, "it has 300,000,000 bytes, and at most 256,000,000 are read"),
        ("rows.jsonl", 70_000_000, "line 1: not JSON: a line has more than 64,000,000 characters"),
    ):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        with pytest.raises(ArgumentsError, match=words):
            await host.map("s:add", tmp_path / name)
    assert not calls


async def test_misfits_are_counted_by_problem_and_skipped_if_asked(host, calls):
    rows = [{"a": 1}, *[{"a": "x", "b": None}] * 6, {"b": 2}]
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", rows)
    assert str(raised.value).splitlines() == [
        "7 rows of 8 do not fit s:add; nothing was sent. --skip-invalid leaves them out.",
        "  rows 1, 2, 3, 4 and 2 more: a: expected integer, got 'x'",
        "  row 7: missing: a (integer)",
    ]
    with pytest.raises(ArgumentsError, match=r"\n  row 7: row has no a; it has b\.$"):
        await host.map("s:add", rows, a=lambda row: row.a)
    assert not calls
    run = await host.map("s:add", rows, a=lambda row: row.a, skip_invalid=True)
    assert [run.stats[key] for key in ("rows", "done", "invalid")] == [8, 1, 7]
    assert run.failed["state"].tolist() == ["invalid"] * 7


async def test_an_unreadable_row_stops_a_map_and_keeps_answers(host, calls, tmp_path):
    def rows() -> Any:
        yield from ({"a": n} for n in range(5))
        raise OSError("the disk is gone")

    run = await host.map("s:add", rows(), concurrency=2)
    assert run.problem == "the rows cannot be read: row 5 raised OSError: the disk is gone"
    assert run.df["result"].tolist() == [10, 11, 12, 13, 14]
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\nnonsense\n')
    run = await host.map("s:add", tmp_path / "rows.jsonl")
    assert run.problem.startswith(f"{tmp_path / 'rows.jsonl'}, line 2: not JSON: ")
    assert run.stats["done"] == 1
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", ({"a": {}["city"]} for _ in range(1)))
    assert str(raised.value) == "the rows cannot be read: row 0 raised KeyError: 'city'"
