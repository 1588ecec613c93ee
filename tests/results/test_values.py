"""Values as real servers send them: ragged rows, services' own layouts, HTML, images twice, nothing at all."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pandas as pd
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent, TextResourceContents
from mcp_types import ReadResourceResult as Read

from mcp_magic.display.tables import find_rows, find_tables, passages
from mcp_magic.results import ResourceResult, ToolResult
from tests.support.showcase import b64, bundle, png, text_result

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'

TABLES: dict[str, tuple[Any, list[str], list[list[Any]]]] = {
    "excel": (
        {"range": "A1:D4", "values": [["city", "n"], ["Oslo", 1], ["Rome"]]},
        ["city", "n"],
        [["Oslo", 1], ["Rome", None]],
    ),
    "sheets-text": (
        {"range": "A1:B4", "values": [["city", "n"], ["Oslo", "1"], [], ["Rome"]]},
        ["city", "n"],
        [["Oslo", "1"], [None, None], ["Rome", None]],
    ),
    "all-text": ([["id", "day"], ["a", "2026-01-02"]], ["id", "day"], [["a", "2026-01-02"]]),
    "columns-rows": ({"columns": ["a", "b"], "rows": [[1, 2], [3]]}, ["a", "b"], [[1, 2], [3, None]]),
    "short": ({"columns": ["a", "b", "c"], "rows": [[1, 2], [3]]}, ["a", "b", "c"], [[1, 2, None], [3, None, None]]),
    "long": ({"headers": ["a"], "rows": [[1], [2, 3]]}, ["a", "Unnamed: 1"], [[1, None], [2, 3]]),
    "title-above": (
        {"values": [["Cities"], ["city", "n"], ["Oslo", 1]]},
        ["0", "1"],
        [["Cities", None], ["city", "n"], ["Oslo", 1]],
    ),
    "bare": ([["city", "n"], ["Oslo", 1], ["Rome"]], ["city", "n"], [["Oslo", 1], ["Rome", None]]),
    "clickhouse": (
        {"meta": [{"name": "n", "type": "UInt64"}], "data": [[0]], "rows": 1, "statistics": {"elapsed": 0.1}},
        ["n"],
        [[0]],
    ),
    "bigquery": (
        {"schema": {"fields": [{"name": "n"}, {"name": "m"}]}, "rows": [{"f": [{"v": "1"}, {"v": None}]}]},
        ["n", "m"],
        [["1", None]],
    ),
    "snowflake": ({"resultSetMetaData": {"rowType": [{"name": "N"}]}, "data": [["1"]]}, ["N"], [["1"]]),
    "column-names": ({"columnNames": ["a", "b"], "rows": [[1, 2]]}, ["a", "b"], [[1, 2]]),
}


@pytest.mark.parametrize("name", TABLES)
def test_layout_is_a_table(name: str) -> None:
    data, names, values = TABLES[name]
    rows = find_rows(data)
    assert rows is not None
    assert rows.head(10) == (names, values)
    frame = text_result(json.dumps(data)).df
    assert frame.shape == (len(values), len(names))
    assert frame.astype(object).where(frame.notna(), None).to_numpy().tolist() == values
    assert "columns" in bundle(text_result(json.dumps(data)))["text/plain"] or frame.size == 1


PLAIN = {
    "words": [["the", "quick", "fox"], ["a", "dog"]],
    "numbers": [[1], [1, 2]],
    "twice": [["a", "a"], [1]],
    "nested": {"results": [[{"a": 1}], [1, 2]]},
}


@pytest.mark.parametrize("name", PLAIN)
def test_ragged_lists_without_names_are_none(name: str) -> None:
    assert find_rows(PLAIN[name]) is None


def test_long_integers_in_ragged_rows_stay() -> None:
    frame = text_result(json.dumps({"columns": ["a", "n"], "rows": [["x", 2**60 + 1], ["y"]]})).df
    assert frame["n"][0] == 2**60 + 1


def test_several_ranges_are_several_tables() -> None:
    ranges = [
        {"range": "A!A1:B3", "values": [["a", "n"], ["x", 1], ["y"]]},
        {"range": "B!A1:B1"},
        {"range": "B!A1:B2", "values": [["b", "n"], ["x", 1]]},
    ]
    result = text_result(json.dumps({"spreadsheetId": "s", "valueRanges": ranges}))
    assert list(result.frames) == ["valueRanges.A!A1:B3", "valueRanges.B!A1:B2"]
    assert bundle(text_result(json.dumps({"valueRanges": ranges[:1]})))["text/plain"].endswith("2 rows x 2 columns")


HTML = {
    "closed": ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x &amp; y</td></tr></table>", ["a", "b"]),
    "open": ("<TABLE border=1>\n<tr><th>a<th>b\n<tr><td>1<td>x &amp;\n y\n</TABLE>", ["a", "b"]),
    "amid": ("Two:<br><table><thead><tr><td>a<td>b<tbody><tr><td>1<td>x &amp; y</table><p>bye", ["a", "b"]),
    "nested": ("<table><tr><th>a<th>b<tr><td>1<td><table><tr><td>x &amp; y</table></table>", ["a", "b"]),
}


@pytest.mark.parametrize("name", HTML)
def test_html_table_is_a_table(name: str) -> None:
    text, names = HTML[name]
    frame = text_result(text).df
    assert frame.to_dict("list") == dict(zip(names, [[1], ["x & y"]], strict=True))
    assert "1 row x 2 columns" in bundle(text_result(text))["text/plain"]


def test_html_spans_repeat_their_cell() -> None:
    text = "<table><tr><th>a<th>b<th>c<tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4</table>"
    assert text_result(text).df.to_numpy().tolist() == [[1, 2, 2], [1, 3, 4]]


def test_html_tables_in_one_line_are_several() -> None:
    one = "<table><tr><th>a<tr><td>1</table>"
    assert [len(frame) for frame in text_result(f"<p>{one}{one}\nHello, world").frames.values()] == [1, 1]


NO_HTML = ["<table><tr><td>logo<td>menu</table>", "<table><tr><th>a", "a < b, <table>", "<table></table>"]


@pytest.mark.parametrize("text", NO_HTML)
def test_html_without_rows_is_no_table(text: str) -> None:
    assert passages(text) == []


NAN = ['[{"a": NaN, "b": -Infinity}]', 'Found: [{"a": NaN, "b": -Infinity}]\nDone.', '{"rows": [{"a": NaN, "b": 1}]}']


@pytest.mark.parametrize("text", NAN, ids=["alone", "prose", "member"])
def test_nan_in_text_is_a_table(text: str) -> None:
    frame = text_result(text).df
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].isna().all()


async def test_null_in_a_list_prints_no_cell_twice() -> None:
    server = MCPServer("nulls")

    @server.tool()
    def cells() -> list[list[Any]]:
        return [["city", "n"], ["Oslo", None], [None, 2]]

    async with Client(server) as client:
        result = ToolResult(await client.call_tool("cells", {}))
    assert bundle(result)["text/plain"].count("Oslo") == 1


PAPERS = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "papers": {"type": "array", "items": {"type": "object", "properties": {"title": {}, "year": {}}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}


def test_no_rows_beside_scalars_have_the_columns() -> None:
    raw = CallToolResult(content=[], structured_content={"total": 0, "papers": [], "tags": []})
    frame = ToolResult(raw, output_schema=PAPERS).df
    assert (list(frame.columns), len(frame)) == (["title", "year"], 0)


def test_no_rows_in_a_wrapper_have_the_columns() -> None:
    raw = CallToolResult(content=[], structured_content={"result": {"total": 0, "papers": []}})
    schema = {"type": "object", "properties": {"result": PAPERS}, "x-fastmcp-wrap-result": True}
    assert list(ToolResult(raw, output_schema=schema).df.columns) == ["title", "year"]


def test_no_rows_beside_a_count_are_an_empty_table() -> None:
    assert len(text_result('{"total": 0, "papers": []}').df) == 0
    assert find_tables({"name": "x", "tags": [], "n": 1})[0].single


IMAGE = ImageContent(data=b64(png()), mime_type="image/png")
BLOCK = {"type": "image", "data": b64(png()), "mimeType": "image/png"}
REPEATED: dict[str, Any] = {
    "list": {"result": [BLOCK]},
    "block": {"result": BLOCK},
    "mixed": {"result": ["Here:", BLOCK]},
    "member": {"image": b64(png())},
    "url": {"images": [{"url": f"data:image/png;base64,{b64(png())}", "format": "png"}]},
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_image_is_shown_once_as_image(name: str) -> None:
    texts = [TextContent(text="Here:")] if name == "mixed" else []
    result = ToolResult(CallToolResult(content=[*texts, IMAGE], structured_content=REPEATED[name]))
    shown = bundle(result)
    assert shown["text/plain"].count("image/png") == 1
    assert shown["text/plain"].count("Here:") == len(texts)
    assert b64(png())[:20] not in shown["text/plain"]
    assert result.frames == {} or name == "mixed"


def test_data_beside_a_repeated_image_is_shown() -> None:
    structured = {"plot": BLOCK, "rows": [{"a": 1}, {"a": 2}]}
    result = ToolResult(CallToolResult(content=[IMAGE], structured_content=structured))
    assert result.df["a"].tolist() == [1, 2]
    assert "iVBOR" not in bundle(result)["text/plain"]
    assert result.data == structured


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("text", [SVG, f'<?xml version="1.0"?>\n<!-- a -->\n{SVG}\n'])
def test_svg_text_is_an_image_that_runs_nothing(text: str, boxed: bool) -> None:
    result = text_result(text, structured_content={"result": text} if boxed else None)
    shown = bundle(result)
    assert '<img src="data:image/svg+xml;base64,' in shown["text/html"]
    assert "<svg" not in shown["text/html"] + shown["text/plain"]
    assert "image/svg+xml" not in shown
    assert result.images[0].bytes.decode() == text
    assert result.text == text


def test_svg_resource_without_a_type_is_an_image() -> None:
    contents = TextResourceContents(uri="a:b", text=SVG)
    assert ResourceResult(Read(contents=[contents])).images[0].mime_type == "image/svg+xml"


@pytest.mark.parametrize("text", [f"Look: {SVG}", f'<!DOCTYPE svg [<!ENTITY a "b">]>{SVG}', "<svg>"])
def test_text_that_is_not_one_svg_stays_text(text: str) -> None:
    assert text_result(text).images == []


@pytest.mark.parametrize("boxed", [False, True])
def test_empty_text_gets_a_sentence(boxed: bool) -> None:
    result = text_result("", structured_content={"result": ""} if boxed else None)
    assert bundle(result)["text/plain"] == "The text is empty."


def test_printed_frame_cannot_control_a_terminal() -> None:
    rows = [{"a": "x\x1b[2Jy", "b\u202e": "user\u202egnp.exe"}, {"a": "z", "b\u202e": ["\x1b]0;t\x07"]}]
    frame = text_result(json.dumps(rows)).df
    for shown in (frame, frame["a"], frame.head(1), frame.iloc[0], pickle.loads(pickle.dumps(frame))):
        assert not {"\x1b", "\u202e", "\x07"} & {*str(shown), *repr(shown)}
    assert r"x\x1b[2Jy" in str(frame)
    assert r"user\u202egnp.exe" in str(frame)
    assert "\u202e" not in frame.to_html() or "\u202e" not in frame._repr_html_()  # type: ignore[operator]
    assert frame["a"][0] == "x\x1b[2Jy"


def test_ordinary_frame_is_a_plain_one() -> None:
    assert type(text_result('[{"a": "x", "b": 1}]').df) is pd.DataFrame
