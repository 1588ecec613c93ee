from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import socket
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ImageContent,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

from mcp_magic.errors import ArgumentsError, ToolError
from mcp_magic.results import ResourceResult, ToolResult
from mcp_magic.schema import root_field, to_json_value
from tests.support.strategies import QUICK, json_values

PNG = b"\x89PNG\r\n\x1a\n"


class Level(enum.IntEnum):
    HIGH = 3


class Name(enum.Enum):
    ANN = "ann"


@dataclasses.dataclass
class Place:
    city: str
    when: dt.date


class Model(pydantic.BaseModel):
    when: dt.datetime
    size: int


class Picture:
    def _repr_png_(self) -> bytes:
        return PNG


class Plot:
    def savefig(self, file: Any, format: str) -> None:
        assert format == "png"
        file.write(PNG)


Point = collections.namedtuple("Point", "x y")


@QUICK
@given(json_values)
def test_json_stays_what_it_is(value: Any) -> None:
    assert repr(to_json_value(value)) == repr(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((2**200, 2**200), ((1, "a"), [1, "a"]), ({3, 1, 2}, [1, 2, 3]), (range(3), [0, 1, 2])),
        *(({"a": 1}.values(), [1]), (collections.deque([1]), [1]), ({1: "a", Name.ANN: "b"}, {"1": "a", "ann": "b"})),
        *((Level.HIGH, 3), (Name.ANN, "ann")),
        (Place("Oslo", dt.date(2026, 1, 2)), {"city": "Oslo", "when": "2026-01-02"}),
        (Model(when=dt.datetime(2026, 1, 2, 3), size=2**70), {"when": "2026-01-02T03:00:00", "size": 2**70}),
        *((Point(1, 2), [1, 2]), (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T03:00:00+00:00")),
        *((dt.time(1, 2), "01:02:00"), (dt.timedelta(days=1, seconds=5), "PT86405S")),
        (dt.timedelta(microseconds=5), "PT0.000005S"),
        (dt.timedelta(days=10**6, microseconds=-1), "PT86399999999.999999S"),
        *((dt.timedelta(seconds=-1.5), "-PT1.5S"), (dt.timedelta(0), "PT0S")),
        *((pd.Timedelta(5, "ns"), "PT0.000000005S"), (pd.Timedelta("-1s"), "-PT1S")),
        *((np.timedelta64(5, "us"), "PT0.000005S"), (np.timedelta64(5, "D"), "PT432000S")),
        *((np.timedelta64("NaT", "s"), None), (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001")),
        *((pathlib.PurePosixPath("/a/b"), "/a/b"), (decimal.Decimal("1.5"), 1.5), (decimal.Decimal(2**80), 2**80)),
        *((fractions.Fraction(1, 4), 0.25), (np.int64(2**62), 2**62), (np.float32(0.5), 0.5)),
        *((np.longdouble(0.5), 0.5), (np.bool_(True), True), (np.str_("a"), "a")),
        (np.datetime64("2026-01-02T03:00:00", "ns"), "2026-01-02T03:00:00"),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array(["2026-01-02", "NaT"], dtype="datetime64[ns]"), ["2026-01-02T00:00:00", None]),
        (np.array([(1, "a")], dtype=[("n", "i4"), ("s", "U1")]), [{"n": 1, "s": "a"}]),
        *((pd.Series([1.5, math.nan]), [1.5, None]), (pd.Index(["a", "b"]), ["a", "b"])),
        *((pd.MultiIndex.from_tuples([("a", 1), ("b", None)]), [["a", 1.0], ["b", None]]), (pd.NaT, None)),
        *((pd.NA, None), (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00")),
        (pd.array([1, None], dtype="Int64"), [1, None]),
    ],
)
def test_an_object_has_a_json_value(value: Any, expected: Any) -> None:
    made = to_json_value(value)
    assert repr(made) == repr(expected)


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (dt.datetime(2026, 1, 2, 3), {"type": "string", "format": "date"}, "2026-01-02"),
        (pd.Timestamp("2026-01-02 03:00"), {"type": "string", "format": "date"}, "2026-01-02"),
        (dt.date(2026, 1, 2), {"type": "string", "format": "date-time"}, "2026-01-02T00:00:00"),
        (dt.timedelta(seconds=1.5), {"type": "number"}, 1.5),
        (decimal.Decimal("1.10"), {"type": "string"}, "1.10"),
        (Point(1, 2), {"type": "object"}, {"x": 1, "y": 2}),
        (b"\xff", {"type": "string", "contentEncoding": "base64"}, "/w=="),
        (bytearray(b"\xff"), {"type": "string", "contentEncoding": "base64url"}, "_w=="),
        (memoryview(b"\xff"), {"anyOf": [{"type": "string", "format": "binary"}, {"type": "null"}]}, "/w=="),
        ([b"\xff"], {"type": "array", "items": {"type": "string", "format": "byte"}}, ["/w=="]),
        ({"a": b"\xff"}, {"properties": {"a": {"type": "string", "format": "byte"}}}, {"a": "/w=="}),
        (Picture(), {"type": "string", "contentMediaType": "image/png"}, base64.b64encode(PNG).decode()),
        (Plot(), {"type": "string", "description": "base64 image"}, base64.b64encode(PNG).decode()),
    ],
)
def test_the_schema_decides_where_there_is_a_choice(value: Any, schema: dict[str, Any], expected: Any) -> None:
    assert to_json_value(value, root_field(schema)) == expected


FRAME = pd.DataFrame(
    {"n": [1, 2], "x": [0.5, math.nan], "s": ["a", None], "t": pd.to_datetime(["2026-01-02", None])}, index=[7, 8]
)


def test_a_data_frame_is_records_with_null_for_what_is_missing() -> None:
    assert to_json_value(FRAME) == [
        {"n": 1, "x": 0.5, "s": "a", "t": "2026-01-02T00:00:00"},
        {"n": 2, "x": None, "s": None, "t": None},
    ]
    assert to_json_value(FRAME[:0]) == []


def test_an_index_is_sent_unless_it_only_numbers_the_rows() -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.DatetimeIndex(["2026-01-02", "2026-01-03"], name="day"))
    schema = {"type": "array", "items": {"properties": {"day": {"type": "string", "format": "date"}, "n": {}}}}
    rows = [{"day": "2026-01-02", "n": 1}, {"day": "2026-01-03", "n": 2}]
    assert to_json_value(frame, root_field(schema)) == rows
    assert to_json_value(frame) == [{"day": f"{row['day']}T00:00:00", "n": row["n"]} for row in rows]
    counts = pd.DataFrame({"city": ["A", "B"], "kind": ["x", "y"], "n": [1, 2]}).groupby(["city", "kind"]).sum()
    assert to_json_value(counts, root_field({"type": "object"})) == {
        "city": ["A", "B"],
        "kind": ["x", "y"],
        "n": [1, 2],
    }
    assert to_json_value(frame.reset_index(drop=True)[::-1]) == [{"n": 2}, {"n": 1}]
    assert to_json_value(pd.DataFrame({"n": [1]}, index=["a"])) == [{"index": "a", "n": 1}]
    twice = pd.DataFrame({"city": ["A"]}, index=pd.Index(["A"], name="city"))
    assert to_json_value(twice) == [{"city": "A"}]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ({"type": "array"}, [["n", "s"], [1, "a"], [2, None]]),
        ({"type": "array", "items": {"type": ["string", "null"]}}, [["n", "s"], ["1", "a"], ["2", None]]),
        ({"type": "array", "items": {"type": "string"}}, [["n", "s"], ["1", "a"], ["2", ""]]),
        ({"type": "array", "items": {"type": ["number", "null"]}}, [[1, "a"], [2, None]]),
        ({"anyOf": [{"type": "array"}, {"type": "object"}]}, [{"n": 1, "s": "a"}, {"n": 2, "s": None}]),
        ({}, [{"n": 1, "s": "a"}, {"n": 2, "s": None}]),
    ],
)
def test_data_frame_becomes_rows_below_its_names_if_they_fit(items: Any, expected: Any) -> None:
    field = root_field({"anyOf": [{"type": "array", "items": items}, {"type": "null"}]})
    assert to_json_value(FRAME[["n", "s"]], field) == expected


def test_a_series_is_an_object_by_its_labels() -> None:
    series = pd.Series([1, math.nan], index=["a", "b"])
    assert to_json_value(series, root_field({"type": ["object", "null"]})) == {"a": 1.0, "b": None}
    assert to_json_value(series, root_field({"type": "array"})) == [1.0, None]
    twice = pd.Series([1, 2], index=["a", "a"])
    assert fails(twice, {"type": "object"}) == (
        "x: the Series has two values for 'a', and an object has each name once"
    )


def test_a_data_frame_is_columns_where_an_object_is_asked_for() -> None:
    assert to_json_value(FRAME[["n", "x"]], root_field({"type": "object"})) == {"n": [1, 2], "x": [0.5, None]}


def fails(value: Any, schema: Any = True, path: str = "x") -> str:
    with pytest.raises(ArgumentsError) as raised:
        to_json_value(value, root_field(schema), path)
    return str(raised.value)


def test_nan_has_no_json_value() -> None:
    assert fails(math.nan, {"type": "number"}) == "x: expected number, got nan, which JSON does not have"
    assert fails([1, {"a": math.inf}]) == "x[1].a: expected any, got inf, which JSON does not have"
    numbers = {"type": "array", "items": {"type": "number"}}
    assert fails(np.array([math.nan]), numbers) == "x[0]: expected number, got nan, which JSON does not have"


def test_nan_is_null_where_null_is_allowed() -> None:
    assert to_json_value(math.nan, root_field({"type": ["number", "null"]})) is None
    assert to_json_value([1.5, math.nan], root_field({"items": {"anyOf": [{"type": "number"}, {"type": "null"}]}})) == [
        1.5,
        None,
    ]
    assert to_json_value({"a": np.array([math.nan])}) == {"a": [None]}
    assert to_json_value(decimal.Decimal("nan")) is None


@pytest.mark.parametrize("value", ["a\ud800", ["a", {"b": "\udcff"}], {"\ud800": 1}, pathlib.PurePosixPath("\udcff")])
def test_a_lone_surrogate_is_refused_and_shown_escaped(value: Any) -> None:
    said = fails(value)
    assert "half of a surrogate pair, and JSON in UTF-8 cannot hold it" in said
    assert said.isprintable()
    assert to_json_value({"größe": "😀"}) == {"größe": "😀"}


def test_bytes_need_a_schema_that_asks_for_base64() -> None:
    assert fails(b"a", {"type": "string"}) == (
        "x: expected string, got bytes, and the schema does not ask for base64; decode it first, "
        "or give base64.b64encode(data).decode() if the tool means that"
    )


def test_an_object_without_a_json_value_is_named_with_its_type() -> None:
    with socket.socket() as unsendable:
        assert fails({"a": [unsendable]}, {}) == "x.a[0]: cannot send a socket object; expected any"
    assert fails(1j, {"type": "number"}) == "x: cannot send a complex object; expected number"


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert fails(loop) == "x: contains itself, or is nested too deeply for JSON"


def test_a_key_that_is_no_text_is_refused() -> None:
    assert fails({(1, 2): 3}) == "x: the key (1, 2) is not text, and JSON names must be text"


def test_two_columns_of_the_same_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert fails(frame) == "x: the DataFrame has two columns 'a'; rename one of them"


def text_result(*texts: str, structured: Any = None, **more: Any) -> ToolResult:
    content = [*(TextContent(text=text) for text in texts), *more.pop("media", [])]
    return ToolResult(CallToolResult(content=content, structured_content=structured, **more))


IMAGE = ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")
ENCODED = {"type": "string", "format": "binary"}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (text_result('[{"a": 1}]'), {"type": "array"}, [{"a": 1}]),
        (text_result("[1]", structured={"result": [1]}), True, [1]),
        (text_result(structured={"result": None}), True, None),
        (text_result("42", structured={"result": 42}), {"type": "integer"}, 42),
        (text_result("42", structured={"result": 42}), {"type": "string"}, "42"),
        (text_result("tea"), {"type": "string"}, "tea"),
        (text_result("tea", "milk"), {"type": "array"}, ["tea", "milk"]),
        (text_result(media=[IMAGE]), ENCODED, IMAGE.data),
        (text_result("a picture", media=[IMAGE]).images[0], ENCODED, IMAGE.data),
        ({"rows": [text_result("1")]}, True, {"rows": [1]}),
    ],
)
def test_a_result_stands_for_its_value(value: Any, schema: Any, expected: Any) -> None:
    assert to_json_value(value, root_field(schema)) == expected


def test_a_resource_stands_for_its_data_its_text_or_its_bytes() -> None:
    def read(*contents: Any) -> ResourceResult:
        return ResourceResult(ReadResourceResult(contents=list(contents)))

    as_text = read(TextResourceContents(uri="a://b", text="[1, 2]"))
    assert to_json_value(as_text, root_field({"type": "array"})) == [1, 2]
    assert to_json_value(as_text, root_field({"type": "string"})) == "[1, 2]"
    assert to_json_value(as_text, root_field(ENCODED)) == base64.b64encode(b"[1, 2]").decode()
    as_blob = read(BlobResourceContents(uri="a://b", blob=IMAGE.data))
    assert to_json_value(as_blob, root_field(ENCODED)) == IMAGE.data


def test_an_image_needs_a_schema_that_asks_for_base64() -> None:
    assert fails(text_result(media=[IMAGE]).images[0], {"type": "string"}) == (
        "x: expected string, got bytes, and the schema does not ask for base64; decode it first, "
        "or give base64.b64encode(data).decode() if the tool means that"
    )


def test_the_error_of_a_tool_is_no_value() -> None:
    with pytest.raises(ToolError, match="no such city"):
        to_json_value(text_result("no such city", is_error=True), root_field({"type": "string"}))
