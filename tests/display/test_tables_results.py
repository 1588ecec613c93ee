"""Tables in what servers send: as JSON in every layout, in texts, as HTML, and typed by their schema."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

from mcp_magic._text import plural
from mcp_magic.display.tables import MAX_COLUMNS, Columns, Records, check_shape, find_rows, find_tables, passages
from mcp_magic.errors import NoTableError
from mcp_magic.results import ToolResult
from tests.environments import ROOT
from tests.support.clocks import assert_linear
from tests.support.schemas import BOOLEAN, INTEGER, NUMBER, TEXT, listed, of
from tests.support.showcase import bundle, text_result
from tests.support.table_victim import FILES, answered, read
from tests.support.table_victim import TEXTS as HUGE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

WEATHER = {"latitude": 52.5, "hourly_units": {"time": "iso8601"}, "hourly": {"time": ["a", "b"], "t": [1, 2]}}
CLICKHOUSE = {"meta": [{"name": "n", "type": "UInt64"}], "data": [[0]], "rows": 1, "statistics": {"elapsed": 0.1}}
BIGQUERY = {"schema": {"fields": [{"name": "n"}, {"name": "m"}]}, "rows": [{"f": [{"v": "1"}, {"v": None}]}]}
RECORD = {"name": "x", "tags": ["a", "b"], "roles": ["c", "d"]}
LAYOUTS: dict[str, tuple[Any, list[str], list[list[Any]]]] = {
    "objects": ([{"a": 1, "b": 2}, {"a": 3, "c": 4}], ["a", "b", "c"], [[1, 2, None], [3, None, 4]]),
    "equal lists": ({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"], [[1, "x"], [2, "y"]]),
    "one member": ({"total": 1, "items": [{"a": 1}]}, ["a"], [[1]]),
    "beside a list": ({"tags": ["x"], "items": [{"a": 1}]}, ["a"], [[1]]),
    "names and data": ({"columns": ["a", "b"], "data": [[1, 2]]}, ["a", "b"], [[1, 2]]),
    "names and rows": ({"headers": ["a", "b"], "rows": [[1, 2]], "n": 1}, ["a", "b"], [[1, 2]]),
    "header": ([["a", "b"], [1, "x"]], ["a", "b"], [[1, "x"]]),
    "no header": ([[1, 2], [3, 4]], ["0", "1"], [[1, 2], [3, 4]]),
    "text alone": ([["a", "b"], ["c", "d"]], ["0", "1"], [["a", "b"], ["c", "d"]]),
    "scalars": ([1, None, 3], ["value"], [[1], [None], [3]]),
    "unfit names": ({"columns": ["a", "b"], "data": [[1]]}, ["0"], [[1]]),
    "few names": ({"columns": ["a"], "data": [[1, 2]]}, ["a", "Unnamed: 1"], [[1, 2]]),
    "twice": ({"columns": ["a", "a", "b"], "rows": [[1, 2, 3]]}, ["a", "a 2", "b"], [[1, 2, 3]]),
    "numbered": ({"columns": ["a", "a", "a 2"], "rows": [[1, 2, 3]]}, ["a", "a 3", "a 2"], [[1, 2, 3]]),
    "no name": ({"columns": [None, 1], "rows": [[1, 2]]}, ["Unnamed: 0", "1"], [[1, 2]]),
    "described": ({"columns": [{"name": "a"}, {"name": "b"}], "rows": [[1, 2]]}, ["a", "b"], [[1, 2]]),
    "described objects": ({"columns": [{"name": "a", "type": "int"}], "rows": [{"a": 1}]}, ["a"], [[1]]),
    "described, no rows": ({"columns": ["a"], "rows": [], "rowCount": 0}, ["a"], []),
    "boxes": ({"data": {"items": [{"a": 1}], "page": 1}, "ok": True}, ["a"], [[1]]),
    "warnings": ({"warnings": [{"code": 1}], "results": [{"a": 1}]}, ["a"], [[1]]),
    "suggestions": ({"suggestions": [{"code": 1}], "results": [{"a": 1}]}, ["a"], [[1]]),
    "plain results": ({"results": ["x"], "warnings": ["w"]}, ["results"], [["x"]]),
    "cells": ({"range": "A1:B2", "values": [["a", "b"], ["x", 1]]}, ["a", "b"], [["x", 1]]),
    "by name": ({"Oslo": {"t": 1}, "Rome": {"t": 2, "w": 3}}, ["key", "t", "w"], [["Oslo", 1, None], ["Rome", 2, 3]]),
    "keys by name": ({"A": {"key": 1}, "B": {"key": 2}}, ["key_", "key"], [["A", 1], ["B", 2]]),
    "beside scalars": ({"unit": "C", "t": ["t", "u"], "value": [1, 2]}, ["t", "value"], [["t", 1], ["u", 2]]),
    "weather": (WEATHER, ["time", "t"], [["a", 1], ["b", 2]]),
    "empty list": ({"name": "x", "tags": [], "n": 1}, ["name", "tags", "n"], [["x", [], 1]]),
    "record": (RECORD, ["name", "tags", "roles"], [["x", ["a", "b"], ["c", "d"]]]),
    "counts": ({"name": "x", "topics": [], "star_count": 0}, ["name", "topics", "star_count"], [["x", [], 0]]),
    "boxed record": ({"ok": True, "data": {"name": "x"}}, ["name"], [["x"]]),
    "flat": ({"a": 1, "b": "x"}, ["a", "b"], [[1, "x"]]),
    # as services send them
    "excel": ({"values": [["city", "n"], ["Oslo", 1], ["Rome"]]}, ["city", "n"], [["Oslo", 1], ["Rome", None]]),
    "sheets": (
        {"range": "A1:B4", "values": [["city", "n"], ["Oslo", "1"], [], ["Rome"]]},
        ["city", "n"],
        [["Oslo", "1"], [None, None], ["Rome", None]],
    ),
    "all text": ([["id", "day"], ["a", "2026-01-02"]], ["id", "day"], [["a", "2026-01-02"]]),
    "ragged": ({"columns": ["a", "b"], "rows": [[1, 2], [3]]}, ["a", "b"], [[1, 2], [3, None]]),
    "short": ({"columns": ["a", "b", "c"], "rows": [[1, 2], [3]]}, ["a", "b", "c"], [[1, 2, None], [3, None, None]]),
    "long": ({"headers": ["a"], "rows": [[1], [2, 3]]}, ["a", "Unnamed: 1"], [[1, None], [2, 3]]),
    "title": (
        {"values": [["Cities"], ["c", "n"], ["Oslo", 1]]},
        ["0", "1"],
        [["Cities", None], ["c", "n"], ["Oslo", 1]],
    ),
    "bare": ([["city", "n"], ["Oslo", 1], ["Rome"]], ["city", "n"], [["Oslo", 1], ["Rome", None]]),
    "clickhouse": (CLICKHOUSE, ["n"], [[0]]),
    "bigquery": (BIGQUERY, ["n", "m"], [["1", None]]),
    "snowflake": ({"resultSetMetaData": {"rowType": [{"name": "N"}]}, "data": [["1"]]}, ["N"], [["1"]]),
    "columnNames": ({"columnNames": ["a", "b"], "rows": [[1, 2]]}, ["a", "b"], [[1, 2]]),
}
SHOWN_AS_JSON = {"scalars", "unfit names", "described, no rows", "plain results", "empty list", "record", "counts"}
SHOWN_AS_JSON |= {"boxed record", "flat", "clickhouse", "snowflake"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_a_table(name):
    data, names, values = LAYOUTS[name]
    rows = find_rows(data)
    assert rows is not None
    assert rows.head(10) == (names, values)
    assert rows.count() == len(values)
    frame = text_result(json.dumps(data)).df
    assert rows.frame().shape == frame.shape == (len(values), len(names))
    assert list(map(str, frame.columns)) == names
    assert frame.astype(object).where(frame.notna(), None).to_numpy().tolist() == values
    size = f"\n{plural(len(values), 'rows')} x {plural(len(names), 'columns')}"
    assert (size in bundle(text_result(json.dumps(data)))["text/plain"]) is (name not in SHOWN_AS_JSON)


NO_ROWS: list[Any] = [
    *(3, "a", None, {}, {"a": {"b": 1}}, {"a": [1, 2], "b": [3]}, [[1], [1, 2]], [[], []], [1, {"a": 1}]),
    *({"a": [{"x": 1}], "b": [{"y": 2}]}, [["the", "quick", "fox"], ["a", "dog"]], [["a", "a"], [1]]),
    {"results": [[{"a": 1}], [1, 2]]},
]


def test_other_json_is_no_table():
    assert [value for value in NO_ROWS if find_rows(value) is not None] == []


def test_empty_results_are_empty_tables():
    for words in (["nothing found"], [{"code": 1}]):
        assert len(text_result(json.dumps({"results": [], "warnings": words})).df) == 0
    for empty in ({"results": [], "suggestions": [{"code": 1}]}, {"cities": []}, {"total": 0, "papers": []}):
        assert len(text_result(json.dumps(empty)).df) == 0
    assert find_tables({"name": "x", "tags": [], "n": 1})[0].single


def test_several_ranges_are_several_tables():
    ranges = [
        {"range": "A!A1:B3", "values": [["a", "n"], ["x", 1], ["y"]]},
        {"range": "B!A1:B1"},
        {"range": "B!A1:B2", "values": [["b", "n"], ["x", 1]]},
    ]
    result = text_result(json.dumps({"spreadsheetId": "s", "valueRanges": ranges}))
    assert list(result.frames) == ["valueRanges.A!A1:B3", "valueRanges.B!A1:B2"]
    assert bundle(text_result(json.dumps({"valueRanges": ranges[:1]})))["text/plain"].endswith("2 rows x 2 columns")


TEXTS: dict[str, tuple[str, list[str], list[list[Any]]]] = {
    "CSV": ("a,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "quotes": ('name,note\nAnn,"x, y"\n', ["name", "note"], [["Ann", "x, y"]]),
    "Windows": ("a,b\r\n1,2\r\n", ["a", "b"], [["1", "2"]]),
    "spaces": ("city, degrees\nParis, 21\n", ["city", "degrees"], [["Paris", "21"]]),
    "mark, JSON": ('\ufeff[{"a": 1}]', ["a"], [[1]]),
    "mark, CSV": ("\ufeffa,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "mark, lines": ('\ufeff{"a": 1}\n{"a": 2}\n', ["a"], [[1], [2]]),
    "TSV": ("a\tb\nx y\tz\n", ["a", "b"], [["x y", "z"]]),
    "semicolons": ("a;b\n1,5;2\n", ["a", "b"], [["1,5", "2"]]),
    "Markdown": ("| a | b |\n|---|:-:|\n| 1 | x\\|y |\n", ["a", "b"], [["1", "x|y"]]),
    "in prose": ("Here:\n\n a | b\n---|---\n 1 | 2\n\nDone.", ["a", "b"], [["1", "2"]]),
    "JSON Lines": ('{"a": 1, "b": "x, y"}\n{"a": 2, "b": null}\n', ["a", "b"], [[1, "x, y"], [2, None]]),
    "Python": ("[{'a': 1, 'b': None}]", ["a", "b"], [[1, None]]),
    "JSON fence": ('Here:\n```json\n[{"a": 1}]\n```\n', ["a"], [[1]]),
    "sentence": ('Found one city: [{"a": 1}]\nDone.', ["a"], [[1]]),
    "lines": ('Found one:\n\n{\n  "items": [\n    {"a": 1}\n  ]\n}', ["a"], [[1]]),
    "CSV fence": ("Here:\n```csv\na,b\n1,2\n```", ["a", "b"], [["1", "2"]]),
    "CSV after": ("Query result:\na,b\n1,2\n", ["a", "b"], [["1", "2"]]),
    "CSV amid": ("Two cities, by name:\na,b\n1,2\n\n1 row, done.", ["a", "b"], [["1", "2"]]),
    "tuples": ("[(1, 'x'), (2, 'y')]", ["0", "1"], [[1, "x"], [2, "y"]]),
}
PROSE = [
    *("Hello, world\nGoodbye, world\n", "Dear Ann,\nthank you, and kind regards,\nBob", "a,b", "1,2\n3,4\n"),
    *("Traceback (most recent call last):\n  File 'x', line 3, in y\nValueError: a, b\n", "a | b\n- c\n"),
    *("| a | b |\n|---|---|\n", '{"a": 1}\n{"a": ', "[1] see below, there", "[1, 2, 3,]"),
    *("Use it so:\nf(a,b)\ng(c,d)\n", 'Send {"a": 1}\nor: {"a": 2}\n', "def f(a, b):\n    return a, b\n"),
    *("a,b\n1,2,3\n", "a,a\nx,y\n", "", "<table><tr><td>logo<td>menu</table>", "<table><tr><th>a"),
    *("a < b, <table>", "<table></table>"),
]


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_in_text_is_read(name):
    text, names, values = TEXTS[name]
    [passage] = passages(text)
    [rows] = passage.tables
    columns, cells = rows.head(10)
    assert (columns, [list(row) for row in cells]) == (names, values)
    assert rows.frame().shape == (len(values), len(names))


def test_prose_stays_prose():
    assert [text for text in PROSE if passages(text)] == []


def test_a_table_in_prose_is_a_frame_but_the_prose_is_shown():
    result = text_result("Here it is:\n\n| a | b |\n|---|---|\n| 1 | 2.5 |\n")
    assert result.df.to_dict("list") == {"a": [1], "b": [2.5]}
    assert "Here it is:" in bundle(result)["text/plain"]


HTML = {
    "closed": "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x &amp; y</td></tr></table>",
    "open": "<TABLE border=1>\n<tr><th>a<th>b\n<tr><td>1<td>x &amp;\n y\n</TABLE>",
    "amid": "Two:<br><table><thead><tr><td>a<td>b<tbody><tr><td>1<td>x &amp; y</table><p>bye",
    "nested": "<table><tr><th>a<th>b<tr><td>1<td><table><tr><td>x &amp; y</table></table>",
}


@pytest.mark.parametrize("name", HTML)
def test_an_html_table_is_a_table(name):
    assert text_result(HTML[name]).df.to_dict("list") == {"a": [1], "b": ["x & y"]}
    assert "1 row x 2 columns" in bundle(text_result(HTML[name]))["text/plain"]


def test_html_spans_repeat_their_cell_and_tables_are_several():
    text = "<table><tr><th>a<th>b<th>c<tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4</table>"
    assert text_result(text).df.to_numpy().tolist() == [[1, 2, 2], [1, 3, 4]]
    one = "<table><tr><th>a<tr><td>1</table>"
    assert [len(frame) for frame in text_result(f"<p>{one}{one}\nHello, world").frames.values()] == [1, 1]


NAN = ['[{"a": NaN, "b": -Infinity}]', 'Found: [{"a": NaN, "b": -Infinity}]\nDone.', '{"rows": [{"a": NaN, "b": 1}]}']


@pytest.mark.parametrize("text", NAN, ids=["alone", "prose", "member"])
def test_nan_in_text_is_a_table(text):
    frame = text_result(text).df
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].isna().all()


async def test_null_in_a_list_prints_no_cell_twice():
    server = MCPServer("nulls")

    @server.tool()
    def cells() -> list[list[Any]]:
        return [["city", "n"], ["Oslo", None], [None, 2]]

    async with Client(server) as client:
        result = ToolResult(await client.call_tool("cells", {}))  # type: ignore[arg-type]
    assert bundle(result)["text/plain"].count("Oslo") == 1


@given(st.text())
def test_any_text_is_judged_without_an_error(text):
    for passage in passages(text):
        assert passage.start < passage.end <= len(text)
        assert all(rows.head(1)[0] for rows in passage.tables if rows.count())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_shown_within_the_limits(value):
    shown = bundle(text_result(json.dumps(value)))
    assert sum(len(part.encode()) for part in shown.values()) < 200_000
    rows = find_rows(value)
    assert rows is None or rows.count() == len(rows.frame())


DATE = {"type": ["string", "null"], "format": "date"}
WHEN = {**TEXT, "format": "date-time"}
ROW = of(n={"anyOf": [INTEGER, {"type": "null"}]}, when=WHEN, day=DATE, ok=BOOLEAN, x=NUMBER, name=TEXT)
SCHEMA = {**of(result=listed({"$ref": "#/$defs/Row"})), "$defs": {"Row": ROW}}
PAPERS = of(total=INTEGER, papers=listed(of(title={}, year={})), tags=listed(TEXT))


def frame_of(structured: Any, schema: Any = SCHEMA) -> pd.DataFrame:
    return ToolResult(CallToolResult(content=[], structured_content=structured), output_schema=schema).df


def typed(*rows: dict[str, Any]) -> pd.DataFrame:
    return frame_of({"result": list(rows)})


def test_columns_have_the_types_that_the_output_schema_declares():
    full = {"n": 1, "when": "2026-01-02T03:04:05+02:00", "day": "2026-01-02", "ok": True, "x": 1, "name": "a"}
    frame = typed(full, dict.fromkeys(full))
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert (kinds["n"], kinds["ok"], kinds["x"]) == ("Int64", "boolean", "float64")
    assert kinds["when"].endswith("UTC]")
    assert kinds["day"].startswith("datetime64")
    assert frame["when"][0].to_pydatetime() == dt.datetime(2026, 1, 2, 1, 4, 5, tzinfo=dt.UTC)
    assert list(typed().columns) == list(full)
    integers = frame_of({"result": [1, None]}, of(result=listed(INTEGER)))
    assert {name: str(kind) for name, kind in integers.dtypes.items()} == {"value": "Int64"}
    member = frame_of({"total": 1, "rows": [{"n": 1}]}, of(rows=listed(of(n=INTEGER))))
    assert str(member["n"].dtype) == "Int64"
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert frame_of([{"n": 1}], loop)["n"].tolist() == [1]


def test_no_rows_have_the_declared_columns():
    papers = frame_of({"total": 0, "papers": [], "tags": []}, PAPERS)
    assert (list(papers.columns), len(papers)) == (["title", "year"], 0)
    wrapped = {**of(result=PAPERS), "x-fastmcp-wrap-result": True}
    assert list(frame_of({"result": {"total": 0, "papers": []}}, wrapped).columns) == ["title", "year"]


def test_values_that_no_type_holds_stay_as_they_are():
    assert typed({"n": 9_007_199_254_740_993}, {"n": None})["n"][0] == 9_007_199_254_740_993
    assert typed({"n": 2**70}, {"n": None})["n"][0] == 2**70
    assert typed({"n": "many", "when": "soon"}).iloc[0].tolist() == ["many", "soon"]
    for rows in ([{"id": 2**60 + 1}, {"id": None}], {"id": [2**60 + 1, None], "n": [1, 2]}):  # without a schema
        frame = text_result(json.dumps(rows)).df
        assert frame["id"][0] == 2**60 + 1
        assert frame["id"].isna().tolist() == [False, True]
    ragged = text_result(json.dumps({"columns": ["a", "n"], "rows": [["x", 2**60 + 1], ["y"]]})).df
    assert ragged["n"][0] == 2**60 + 1
    floats = text_result(json.dumps([{"x": 1e300, "n": 1}, {"x": 2, "n": None}])).df
    assert [str(kind) for kind in floats.dtypes] == ["float64", "float64"]


def test_wide_table_keeps_whole_numbers_and_counts_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = bundle(text_result(json.dumps([{f"col{n}": 1000.5 * n for n in range(30)}] * 2)))
    lines = shown["text/plain"].splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown["text/plain"]
    assert lines[-1] == "2 of 2 rows, 10 of 30 columns: .df has all of them"
    assert "20 of 30 columns" in shown["text/html"]


def test_a_printed_frame_cannot_control_a_terminal():
    rows = [{"a": "x\x1b[2Jy", "b\u202e": "user\u202egnp.exe"}, {"a": "z", "b\u202e": ["\x1b]0;t\x07"]}]
    frame = text_result(json.dumps(rows)).df
    for shown in (frame, frame["a"], frame.head(1), frame.iloc[0], pickle.loads(pickle.dumps(frame))):
        assert not {"\x1b", "\u202e", "\x07"} & {*str(shown), *repr(shown)}
    assert r"x\x1b[2Jy" in str(frame)
    assert r"user\u202egnp.exe" in str(frame)
    assert not {"\x1b", "\u202e", "\x07"} & {*frame._repr_html_()}  # type: ignore[operator]
    assert frame["a"][0] == "x\x1b[2Jy"
    assert type(text_result('[{"a": "x", "b": 1}]').df) is pd.DataFrame


HOSTILE: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: " " * n + "|" + " " * n + "\n-" + " |" * (n // 2),
    "a rule": lambda n: "a|b\n" + "-" * 2 * n + "|",
    "rules": lambda n: "a|b\n-|-\n" * (n // 5),
    "beginnings": lambda n: "[\n" * n,
    "in a line": lambda n: 'x: {"a": [' * (n // 5),
    "early ends": lambda n: '{"a": 1,\n' * (n // 5),
    "fences": lambda n: "```\n" * (n // 2),
    "paragraphs": lambda n: "a,b\n1,2\nc;d\n1;2\n\n" * (n // 10),
    "one paragraph": lambda n: "a,b\n1,2\nx\n" * (n // 5),
    "quotes": lambda n: 'a,"b\n' * (n // 2),
    "a cell": lambda n: "a,b\n" + " " * 2 * n + "x,1\n",
    "members": lambda n: json.dumps({f"m{i}": [i] for i in range(n // 20)}),
    "counts": lambda n: json.dumps({f"{kind}{i}": v for i in range(n // 33) for kind, v in (("count", 0), ("m", []))}),
    "by name": lambda n: json.dumps({f"m{i}": {"key" + "_" * (i % 50): i, "x": 1} for i in range(n // 20)}),
    "nested": lambda n: '{"a": ' * (n // 200) + "[1]" + "}" * (n // 200),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_table_search_takes_linear_time(name):
    def go(size: int) -> None:
        result = text_result(HOSTILE[name](size))
        bundle(result)
        with suppress(NoTableError):
            result.df
        result.frames

    assert_linear(go, 100_000 // 16, 100_000)


@pytest.fixture(scope="module")
def gave():
    """What `.df` gave in a process that has 2 GB; without bounds the first of them takes 5, others hundreds."""
    victim = [sys.executable, "-m", "tests.support.table_victim"]
    ran = subprocess.run(victim, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [line for line in ran.stdout.splitlines() if line.startswith("TABLE ")]
    return dict(json.loads(line.removeprefix("TABLE ")) for line in lines)


def test_no_table_takes_all_memory(gave):
    assert set(gave) == {*HUGE_TEXTS, *FILES}
    assert all(said.startswith(("no table in this result: ", "no table in this resource: ")) for said in gave.values())
    wide = "no table in this result: 80,000 columns; a DataFrame gets at most 5,000. .data or .text has them"
    assert gave["rows without common columns"] == wide
    sent = "no table in this result: 400,001 rows x 4,999 columns, of which 404,999 cells were sent; "
    assert gave["CSV without cells"].startswith(sent)


def test_ordinary_tables_are_made_whatever_their_size():
    assert Records(values=[{"a": 1}, {"b": 2}]).frame().shape == (2, 2)
    check_shape(*Columns(values={str(number): [1] * 200_000 for number in range(10)}).shape())
    assert answered("[{'a': None}, {'a': 2}]").df.shape == (2, 1)
    assert answered("|a|b|\n|-|-|\n|1|\n|1|2|3|\n").df.shape == (2, 2)
    assert read(",".join(f"a{n}" for n in range(MAX_COLUMNS)) + "\n1\n").df.shape == (1, MAX_COLUMNS)
    assert read("a" * 200_000 + ",b\n1,2\n").df.shape == (1, 2)  # a cell that is too long for `csv`
    answered("a,b\n" + "x" * 200_000 + ",1\n")._repr_mimebundle_()


def test_a_very_long_text_is_a_table_only_as_a_whole(monkeypatch):
    rows = "a,b\n1,2\n3,4\n"
    monkeypatch.setattr("mcp_magic.display.tables.MAX_SCANNED", 20)
    assert len(passages(f"{rows}5,6\n7,8\n9,0\n")) == 1
    assert passages(f"# A table\n\n{rows}") == []
    monkeypatch.setattr("mcp_magic.display.tables.MAX_SCANNED", 30)
    assert len(passages(f"# A table\n\n{rows}")) == 1
