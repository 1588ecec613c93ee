from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult

from mcp_magic.display.tables import find_rows, passages
from mcp_magic.results import ToolResult
from tests.support.showcase import bundle, text_result

FOUND: dict[str, tuple[Any, list[str], list[list[Any]]]] = {
    "objects": ([{"a": 1, "b": 2}, {"a": 3, "c": 4}], ["a", "b", "c"], [[1, 2, None], [3, None, 4]]),
    "equal lists": ({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"], [[1, "x"], [2, "y"]]),
    "one member": ({"total": 1, "items": [{"a": 1}]}, ["a"], [[1]]),
    "one member beside a plain list": ({"tags": ["x"], "items": [{"a": 1}]}, ["a"], [[1]]),
    "names and data": ({"columns": ["a", "b"], "data": [[1, 2]]}, ["a", "b"], [[1, 2]]),
    "names and rows": ({"headers": ["a", "b"], "rows": [[1, 2]], "n": 1}, ["a", "b"], [[1, 2]]),
    "lists with a header": ([["a", "b"], [1, "x"]], ["a", "b"], [[1, "x"]]),
    "lists without": ([[1, 2], [3, 4]], ["0", "1"], [[1, 2], [3, 4]]),
    "lists of text alone": ([["a", "b"], ["c", "d"]], ["0", "1"], [["a", "b"], ["c", "d"]]),
    "scalars": ([1, None, 3], ["value"], [[1], [None], [3]]),
    "names that do not fit": ({"columns": ["a", "b"], "data": [[1]]}, ["0"], [[1]]),
    "fewer names than columns": ({"columns": ["a"], "data": [[1, 2]]}, ["a", "Unnamed: 1"], [[1, 2]]),
    "a name twice": ({"columns": ["a", "a", "b"], "rows": [[1, 2, 3]]}, ["a", "a 2", "b"], [[1, 2, 3]]),
    "a numbered name twice": (
        {"columns": ["a", "a", "a 2", "a"], "rows": [[1, 2, 3, 4]]},
        ["a", "a 3", "a 2", "a 4"],
        [[1, 2, 3, 4]],
    ),
    "a column without a name": ({"columns": [None, 1], "rows": [[1, 2]]}, ["Unnamed: 0", "1"], [[1, 2]]),
    "described columns": ({"columns": [{"name": "a"}, {"name": "b"}], "rows": [[1, 2]]}, ["a", "b"], [[1, 2]]),
    "described columns of objects": ({"columns": [{"name": "a", "type": "int"}], "rows": [{"a": 1}]}, ["a"], [[1]]),
    "described columns without rows": ({"columns": ["a"], "rows": [], "rowCount": 0}, ["a"], []),
    "a list in boxes": ({"data": {"items": [{"a": 1}], "page": 1}, "ok": True}, ["a"], [[1]]),
    "results beside warnings": ({"warnings": [{"code": 1}], "results": [{"a": 1}]}, ["a"], [[1]]),
    "results beside suggestions": ({"suggestions": [{"code": 1}], "results": [{"a": 1}]}, ["a"], [[1]]),
    "results of plain values": ({"results": ["x"], "warnings": ["w"]}, ["results"], [["x"]]),
    "cells": ({"range": "A1:B2", "values": [["a", "b"], ["x", 1]]}, ["a", "b"], [["x", 1]]),
    "objects by name": (
        {"Oslo": {"t": 1}, "Rome": {"t": 2, "w": 3}},
        ["key", "t", "w"],
        [["Oslo", 1, None], ["Rome", 2, 3]],
    ),
    "objects by name that have a key": ({"A": {"key": 1}, "B": {"key": 2}}, ["key_", "key"], [["A", 1], ["B", 2]]),
    "lists beside scalars": (
        {"unit": "C", "time": ["t", "u"], "value": [1, 2]},
        ["time", "value"],
        [["t", 1], ["u", 2]],
    ),
    "lists in an object beside scalars": (
        {"latitude": 52.5, "hourly_units": {"time": "iso8601", "t": "C"}, "hourly": {"time": ["a", "b"], "t": [1, 2]}},
        ["time", "t"],
        [["a", 1], ["b", 2]],
    ),
    "a record with an empty list": ({"name": "x", "tags": [], "n": 1}, ["name", "tags", "n"], [["x", [], 1]]),
    "a record with lists": (
        {"name": "x", "tags": ["a", "b"], "roles": ["c", "d"]},
        ["name", "tags", "roles"],
        [["x", ["a", "b"], ["c", "d"]]],
    ),
    "a record that counts something else": (
        {"name": "x", "topics": [], "star_count": 0},
        ["name", "topics", "star_count"],
        [["x", [], 0]],
    ),
    "a record in a box": ({"ok": True, "data": {"name": "x"}}, ["name"], [["x"]]),
    "a flat object": ({"a": 1, "b": "x"}, ["a", "b"], [[1, "x"]]),
}

NOT_FOUND: dict[str, Any] = {
    "a number": 3,
    "a text": "a",
    "null": None,
    "an empty object": {},
    "nested objects": {"a": {"b": 1}},
    "lists of different lengths": {"a": [1, 2], "b": [3]},
    "ragged lists": [[1], [1, 2]],
    "empty lists": [[], []],
    "mixed": [1, {"a": 1}],
    "two lists of objects": {"a": [{"x": 1}], "b": [{"y": 2}]},
}


@pytest.mark.parametrize("name", FOUND)
def test_rows_are_found_in(name: str) -> None:
    data, names, values = FOUND[name]
    rows = find_rows(data)
    assert rows is not None
    assert rows.head(10) == (names, values)
    assert rows.count() == len(values)
    assert rows.frame().shape == (len(values), len(names))


EMPTY: dict[str, Any] = {
    "results beside warnings": {"results": [], "warnings": ["nothing found"]},
    "results beside warnings that are objects": {"results": [], "warnings": [{"code": 1}]},
    "results beside suggestions": {"results": [], "suggestions": [{"code": 1}]},
    "a list alone": {"cities": []},
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_result_is_an_empty_table_not_its_words(name: str) -> None:
    assert len(text_result(json.dumps(EMPTY[name])).df) == 0


@pytest.mark.parametrize("name", NOT_FOUND)
def test_no_rows_are_found_in(name: str) -> None:
    assert find_rows(NOT_FOUND[name]) is None


TEXTS: dict[str, tuple[str, list[str], list[list[Any]]]] = {
    "CSV": ("a,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "CSV with quotes": ('name,note\nAnn,"x, y"\n', ["name", "note"], [["Ann", "x, y"]]),
    "CSV with Windows line ends": ("a,b\r\n1,2\r\n", ["a", "b"], [["1", "2"]]),
    "CSV with spaces and numbers": ("city, degrees\nParis, 21\n", ["city", "degrees"], [["Paris", "21"]]),
    "JSON after a byte-order mark": ('\ufeff[{"a": 1}]', ["a"], [[1]]),
    "CSV after a byte-order mark": ("\ufeffa,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "JSON Lines after a byte-order mark": ('\ufeff{"a": 1}\n{"a": 2}\n', ["a"], [[1], [2]]),
    "TSV": ("a\tb\nx y\tz\n", ["a", "b"], [["x y", "z"]]),
    "semicolons": ("a;b\n1,5;2\n", ["a", "b"], [["1,5", "2"]]),
    "Markdown": ("| a | b |\n|---|:-:|\n| 1 | x\\|y |\n", ["a", "b"], [["1", "x|y"]]),
    "Markdown in prose": ("Here:\n\n a | b\n---|---\n 1 | 2\n\nDone.", ["a", "b"], [["1", "2"]]),
    "JSON Lines": ('{"a": 1, "b": "x, y"}\n{"a": 2, "b": null}\n', ["a", "b"], [[1, "x, y"], [2, None]]),
    "Python rows": ("[{'a': 1, 'b': None}]", ["a", "b"], [[1, None]]),
    "JSON in a fence": ('Here:\n```json\n[{"a": 1}]\n```\n', ["a"], [[1]]),
    "JSON after a sentence": ('Found one city: [{"a": 1}]\nDone.', ["a"], [[1]]),
    "JSON on lines after a sentence": ('Found one:\n\n{\n  "items": [\n    {"a": 1}\n  ]\n}', ["a"], [[1]]),
    "CSV in a fence": ("Here:\n```csv\na,b\n1,2\n```", ["a", "b"], [["1", "2"]]),
    "CSV after a sentence": ("Query result:\na,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "CSV after a sentence with a comma": ("Two cities, by name:\na,b\n1,2\n\n1 row, done.", ["a", "b"], [["1", "2"]]),
    "Python tuples": ("[(1, 'x'), (2, 'y')]", ["0", "1"], [[1, "x"], [2, "y"]]),
}

PROSE: dict[str, str] = {
    "two sentences with a comma each": "Hello, world\nGoodbye, world\n",
    "a letter": "Dear Ann,\nthank you, and kind regards,\nBob",
    "one line": "a,b",
    "numbers alone": "1,2\n3,4\n",
    "a traceback": "Traceback (most recent call last):\n  File 'x', line 3, in y\nValueError: a, b\n",
    "a pipe and a dash": "a | b\n- c\n",
    "a rule without rows": "| a | b |\n|---|---|\n",
    "JSON Lines that end in the middle": '{"a": 1}\n{"a": ',
    "a footnote": "[1] see below, there",
    "a Python list of numbers": "[1, 2, 3,]",
    "code in prose": "Use it so:\nf(a,b)\ng(c,d)\n",
    "objects that are one row": 'Send {"a": 1}\nor: {"a": 2}\n',
    "code": "def f(a, b):\n    return a, b\n",
    "ragged": "a,b\n1,2,3\n",
    "the same name twice": "a,a\nx,y\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_is_found_in_text(name: str) -> None:
    text, names, values = TEXTS[name]
    [passage] = passages(text)
    [rows] = passage.tables
    found_names, found = rows.head(10)
    assert (found_names, [list(row) for row in found]) == (names, values)
    assert rows.frame().shape == (len(values), len(names))


@pytest.mark.parametrize("name", PROSE)
def test_prose_stays_prose(name: str) -> None:
    assert passages(PROSE[name]) == []


def test_a_table_in_prose_is_a_frame_but_the_prose_is_shown() -> None:
    result = text_result("Here it is:\n\n| a | b |\n|---|---|\n| 1 | 2.5 |\n")
    assert result.df.to_dict("list") == {"a": [1], "b": [2.5]}
    assert "Here it is:" in bundle(result)["text/plain"]


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    for passage in passages(text):
        assert passage.start < passage.end <= len(text)
        assert all(rows.head(1)[0] for rows in passage.tables if rows.count())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_shown_within_the_limits(value: Any) -> None:
    shown = bundle(text_result(json.dumps(value)))
    assert sum(len(part.encode()) for part in shown.values()) < 200_000
    rows = find_rows(value)
    assert rows is None or rows.count() == len(rows.frame())


SCHEMA = {
    "type": "object",
    "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
    "$defs": {
        "Row": {
            "properties": {
                "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "when": {"type": "string", "format": "date-time"},
                "day": {"type": ["string", "null"], "format": "date"},
                "ok": {"type": "boolean"},
                "x": {"type": "number"},
                "name": {"type": "string"},
            }
        }
    },
}


def _typed(rows: list[dict[str, Any]]) -> Any:
    raw = CallToolResult(content=[], structured_content={"result": rows})
    return ToolResult(raw, output_schema=SCHEMA).df


def test_columns_have_the_types_that_the_output_schema_declares() -> None:
    full = {"n": 1, "when": "2026-01-02T03:04:05+02:00", "day": "2026-01-02", "ok": True, "x": 1, "name": "a"}
    frame = _typed([full, {"n": None, "when": None, "day": None, "ok": None, "x": None, "name": None}])
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert kinds["n"] == "Int64"
    assert kinds["ok"] == "boolean"
    assert kinds["x"] == "float64"
    assert kinds["when"].endswith("UTC]")
    assert kinds["day"].startswith("datetime64")
    assert frame["when"][0].to_pydatetime() == dt.datetime(2026, 1, 2, 1, 4, 5, tzinfo=dt.UTC)


def test_integers_beside_missing_ones_keep_every_digit() -> None:
    frame = _typed([{"n": 9_007_199_254_740_993}, {"n": None}])
    assert frame["n"][0] == 9_007_199_254_740_993


@pytest.mark.parametrize("rows", [[{"id": 2**60 + 1}, {"id": None}], {"id": [2**60 + 1, None], "n": [1, 2]}])
def test_long_integers_keep_every_digit_without_a_schema_too(rows: Any) -> None:
    frame = text_result(json.dumps(rows)).df
    assert frame["id"][0] == 2**60 + 1
    assert frame["id"].isna().tolist() == [False, True]


def test_floats_and_integers_beside_missing_match_pandas() -> None:
    frame = text_result(json.dumps([{"x": 1e300, "n": 1}, {"x": 2, "n": None}])).df
    assert [str(kind) for kind in frame.dtypes] == ["float64", "float64"]


def test_integers_that_no_int64_holds_stay_as_they_are() -> None:
    assert _typed([{"n": 2**70}, {"n": None}])["n"][0] == 2**70


def test_values_that_do_not_fit_their_schema_stay_as_they_are() -> None:
    frame = _typed([{"n": "many", "when": "soon"}])
    assert frame["n"][0] == "many"
    assert frame["when"][0] == "soon"


def test_no_rows_have_the_declared_columns() -> None:
    assert list(_typed([]).columns) == ["n", "when", "day", "ok", "x", "name"]


def test_a_list_of_integers_is_one_typed_column() -> None:
    raw = CallToolResult(content=[], structured_content={"result": [1, None]})
    schema = {"properties": {"result": {"type": "array", "items": {"type": "integer"}}}}
    frame = ToolResult(raw, output_schema=schema).df
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {"value": "Int64"}


def test_rows_in_a_member_are_typed_by_the_schema_of_that_member() -> None:
    raw = CallToolResult(content=[], structured_content={"total": 1, "rows": [{"n": 1}]})
    schema = {"properties": {"rows": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}}}
    assert str(ToolResult(raw, output_schema=schema).df["n"].dtype) == "Int64"


def test_a_schema_that_refers_to_itself_is_no_trap() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    raw = CallToolResult(content=[], structured_content=[{"n": 1}])
    assert ToolResult(raw, output_schema=schema).df["n"].tolist() == [1]


def test_wide_table_keeps_whole_numbers_and_counts_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = bundle(text_result(json.dumps([{f"col{n}": 1000.5 * n for n in range(30)}] * 2)))
    lines = shown["text/plain"].splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown["text/plain"]
    assert lines[-1] == "2 of 2 rows, 10 of 30 columns: .df has all of them"
    assert "20 of 30 columns" in shown["text/html"]


def test_rows_with_nan_are_shown_once() -> None:
    rows = [{"a": None, "b": 1}, {"a": 2.5, "b": None}]
    result = text_result('{"a": NaN, "b": 1}', '{"a": 2.5, "b": null}', structured_content={"result": rows})
    assert bundle(result)["text/plain"].splitlines()[-1] == "2 rows x 2 columns"
