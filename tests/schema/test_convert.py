"""What Python's objects are as JSON, by the schema they go to."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import re
import socket
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given
from mcp_types import BlobResourceContents, ImageContent, ReadResourceResult, TextResourceContents

from mcp_magic.errors import ArgumentsError, ToolError
from mcp_magic.results import ResourceResult
from mcp_magic.schema import root_field, to_json_value
from mcp_magic.schema.convert import read_json
from tests.support.raising import said
from tests.support.schemas import INTEGER, NULL, NUMBER, TEXT, either, listed
from tests.support.showcase import b64, text_result
from tests.support.strategies import QUICK, json_values

PNG = b"\x89PNG\r\n\x1a\n"
Level = enum.IntEnum("Level", {"HIGH": 3})
Name = enum.Enum("Name", {"ANN": "ann"})
Point = collections.namedtuple("Point", "x y")


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


@QUICK
@given(json_values)
def test_json_stays_what_it_is(value):
    assert repr(to_json_value(value)) == repr(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((2**200, 2**200), ((1, "a"), [1, "a"]), ({3, 1, 2}, [1, 2, 3]), (range(3), [0, 1, 2])),
        *(({"a": 1}.values(), [1]), (collections.deque([1]), [1]), ({1: "a", Name.ANN: "b"}, {"1": "a", "ann": "b"})),
        *((Level.HIGH, 3), (Name.ANN, "ann"), (Point(1, 2), [1, 2]), (pathlib.PurePosixPath("/a/b"), "/a/b")),
        (Place("Oslo", dt.date(2026, 1, 2)), {"city": "Oslo", "when": "2026-01-02"}),
        (Model(when=dt.datetime(2026, 1, 2, 3), size=2**70), {"when": "2026-01-02T03:00:00", "size": 2**70}),
        (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T03:00:00+00:00"),
        *((dt.time(1, 2), "01:02:00"), (dt.timedelta(days=1, seconds=5), "PT86405S"), (dt.timedelta(0), "PT0S")),
        (dt.timedelta(days=10**6, microseconds=-1), "PT86399999999.999999S"),
        *((dt.timedelta(microseconds=5), "PT0.000005S"), (dt.timedelta(seconds=-1.5), "-PT1.5S")),
        *(
            (pd.Timedelta(5, "ns"), "PT0.000000005S"),
            (pd.Timedelta("-1s"), "-PT1S"),
            (np.timedelta64("NaT", "s"), None),
        ),
        *((np.timedelta64(5, "us"), "PT0.000005S"), (np.timedelta64(5, "D"), "PT432000S")),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        *((decimal.Decimal("1.5"), 1.5), (decimal.Decimal(2**80), 2**80), (fractions.Fraction(1, 4), 0.25)),
        *((np.int64(2**62), 2**62), (np.float32(0.5), 0.5), (np.longdouble(0.5), 0.5), (np.bool_(True), True)),
        *((np.str_("a"), "a"), (np.datetime64("2026-01-02T03:00:00", "ns"), "2026-01-02T03:00:00")),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array(["2026-01-02", "NaT"], dtype="datetime64[ns]"), ["2026-01-02T00:00:00", None]),
        (np.array([(1, "a")], dtype=[("n", "i4"), ("s", "U1")]), [{"n": 1, "s": "a"}]),
        *((pd.Series([1.5, math.nan]), [1.5, None]), (pd.Index(["a", "b"]), ["a", "b"]), (pd.NaT, None), (pd.NA, None)),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", None)]), [["a", 1.0], ["b", None]]),
        *((pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"), (pd.array([1, None], dtype="Int64"), [1, None])),
    ],
)
def test_an_object_has_a_json_value(value, expected):
    assert repr(to_json_value(value)) == repr(expected)


FRAME = pd.DataFrame(
    {"n": [1, 2], "x": [0.5, math.nan], "s": ["a", None], "t": pd.to_datetime(["2026-01-02", None])}, index=[7, 8]
)
DATE, BYTES, BINARY = {**TEXT, "format": "date"}, {**TEXT, "format": "byte"}, {**TEXT, "format": "binary"}
ROWS = [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
LABELLED = pd.Series([1, math.nan], index=["a", "b"])
IMAGE = ImageContent(data=b64(PNG), mime_type="image/png")
PICTURED, ONLY_IMAGE = text_result("a picture"), text_result()
PICTURED.raw.content.append(IMAGE)
ONLY_IMAGE.raw.content.append(IMAGE)


def resource(*contents: Any) -> ResourceResult:
    return ResourceResult(ReadResourceResult(contents=list(contents)))


LIST_RESOURCE = resource(TextResourceContents(uri="a://b", text="[1, 2]"))


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (dt.datetime(2026, 1, 2, 3), DATE, "2026-01-02"),
        (pd.Timestamp("2026-01-02 03:00"), DATE, "2026-01-02"),
        (dt.date(2026, 1, 2), {**TEXT, "format": "date-time"}, "2026-01-02T00:00:00"),
        (dt.timedelta(seconds=1.5), NUMBER, 1.5),
        (decimal.Decimal("1.10"), TEXT, "1.10"),
        (Point(1, 2), {"type": "object"}, {"x": 1, "y": 2}),
        (b"\xff", {**TEXT, "contentEncoding": "base64"}, "/w=="),
        (bytearray(b"\xff"), {**TEXT, "contentEncoding": "base64url"}, "_w=="),
        (memoryview(b"\xff"), either(BINARY, NULL), "/w=="),
        ([b"\xff"], listed(BYTES), ["/w=="]),
        ({"a": b"\xff"}, {"properties": {"a": BYTES}}, {"a": "/w=="}),
        (Picture(), {**TEXT, "contentMediaType": "image/png"}, b64(PNG)),
        (Plot(), {**TEXT, "description": "base64 image"}, b64(PNG)),
        (math.nan, {"type": ["number", "null"]}, None),
        ([1.5, math.nan], {"items": either(NUMBER, NULL)}, [1.5, None]),
        ({"a": np.array([math.nan])}, True, {"a": [None]}),
        (decimal.Decimal("nan"), True, None),
        ({"größe": "😀"}, True, {"größe": "😀"}),
        # rows below their names, if they fit
        (FRAME[["n", "s"]], either(listed({"type": "array"}), NULL), [["n", "s"], [1, "a"], [2, None]]),
        (FRAME[["n", "s"]], listed(listed({"type": ["string", "null"]})), [["n", "s"], ["1", "a"], ["2", None]]),
        (FRAME[["n", "s"]], listed(listed(TEXT)), [["n", "s"], ["1", "a"], ["2", ""]]),
        (FRAME[["n", "s"]], listed(listed({"type": ["number", "null"]})), [[1, "a"], [2, None]]),
        (FRAME[["n", "s"]], listed(either({"type": "array"}, {"type": "object"})), ROWS),
        (FRAME[["n", "s"]], listed({}), ROWS),
        (FRAME[["n", "x"]], {"type": "object"}, {"n": [1, 2], "x": [0.5, None]}),
        (FRAME[:0], True, []),
        (LABELLED, {"type": ["object", "null"]}, {"a": 1.0, "b": None}),
        (LABELLED, {"type": "array"}, [1.0, None]),
        # a result stands for its value
        (text_result('[{"a": 1}]'), {"type": "array"}, [{"a": 1}]),
        (text_result("[1]", structured_content={"result": [1]}), True, [1]),
        (text_result(structured_content={"result": None}), True, None),
        (text_result("42", structured_content={"result": 42}), INTEGER, 42),
        (text_result("42", structured_content={"result": 42}), TEXT, "42"),
        (text_result("tea"), TEXT, "tea"),
        (text_result("tea", "milk"), {"type": "array"}, ["tea", "milk"]),
        (ONLY_IMAGE, BINARY, IMAGE.data),
        (PICTURED.images[0], BINARY, IMAGE.data),
        ({"rows": [text_result("1")]}, True, {"rows": [1]}),
        (LIST_RESOURCE, {"type": "array"}, [1, 2]),
        (LIST_RESOURCE, TEXT, "[1, 2]"),
        (LIST_RESOURCE, BINARY, b64(b"[1, 2]")),
        (resource(BlobResourceContents(uri="a://b", blob=IMAGE.data)), BINARY, IMAGE.data),
    ],
)
def test_the_schema_decides_where_there_is_a_choice(value, schema, expected):
    assert to_json_value(value, root_field(schema)) == expected


def test_an_index_is_sent_unless_it_only_numbers_the_rows():
    numbers = [{"n": 1, "x": 0.5, "s": "a", "t": "2026-01-02T00:00:00"}, {"n": 2, "x": None, "s": None, "t": None}]
    assert to_json_value(FRAME) == numbers
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.DatetimeIndex(["2026-01-02", "2026-01-03"], name="day"))
    rows = [{"day": "2026-01-02", "n": 1}, {"day": "2026-01-03", "n": 2}]
    assert to_json_value(frame, root_field(listed({"properties": {"day": DATE, "n": {}}}))) == rows
    assert to_json_value(frame) == [{"day": f"{row['day']}T00:00:00", "n": row["n"]} for row in rows]
    counts = pd.DataFrame({"city": ["A", "B"], "kind": ["x", "y"], "n": [1, 2]}).groupby(["city", "kind"]).sum()
    columns = {"city": ["A", "B"], "kind": ["x", "y"], "n": [1, 2]}
    assert to_json_value(counts, root_field({"type": "object"})) == columns
    assert to_json_value(frame.reset_index(drop=True)[::-1]) == [{"n": 2}, {"n": 1}]
    assert to_json_value(pd.DataFrame({"n": [1]}, index=["a"])) == [{"index": "a", "n": 1}]
    twice = pd.DataFrame({"city": ["A"]}, index=pd.Index(["A"], name="city"))
    assert to_json_value(twice) == [{"city": "A"}]


LOOP: list[Any] = []
LOOP.append(LOOP)
UNENCODED = (
    "x: expected string, got bytes, and the schema does not ask for base64; decode it first, "
    "or give base64.b64encode(data).decode() if the tool means that"
)


def refused(value: Any, schema: Any = True) -> str:
    return said(ArgumentsError, to_json_value, value, root_field(schema), "x")


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        (math.nan, NUMBER, "x: expected number, got nan, which JSON does not have"),
        ([1, {"a": math.inf}], True, "x[1].a: expected any, got inf, which JSON does not have"),
        (np.array([math.nan]), listed(NUMBER), "x[0]: expected number, got nan, which JSON does not have"),
        (b"a", TEXT, UNENCODED),
        (PICTURED.images[0], TEXT, UNENCODED),
        (1j, NUMBER, "x: cannot send a complex object; expected number"),
        (LOOP, True, "x: contains itself, or is nested too deeply for JSON"),
        ({(1, 2): 3}, True, "x: the key (1, 2) is not text, and JSON names must be text"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), True, "x: the DataFrame has two columns 'a'; rename one of them"),
        (pd.Series([1, 2], index=["a", "a"]), {"type": "object"}, "x: the Series has two values for 'a', and an object "
         "has each name once"),
    ],
    ids=["nan", "inf", "array", "bytes", "image", "complex", "loop", "key", "columns", "labels"],
)  # fmt: skip
def test_a_value_without_json_is_refused(value, schema, message):
    assert refused(value, schema) == message


def test_an_object_without_json_is_named_by_its_type():
    with socket.socket() as unsendable:
        assert refused({"a": [unsendable]}, {}) == "x.a[0]: cannot send a socket object; expected any"
    with pytest.raises(ToolError, match="no such city"):
        to_json_value(text_result("no such city", is_error=True), root_field(TEXT))


@pytest.mark.parametrize("value", ["a\ud800", ["a", {"b": "\udcff"}], {"\ud800": 1}, pathlib.PurePosixPath("\udcff")])
def test_a_lone_surrogate_is_refused_and_shown_escaped(value):
    assert "half of a surrogate pair, and JSON in UTF-8 cannot hold it" in refused(value)
    assert refused(value).isprintable()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1,", "Expecting value at column 4"),
        ("[1,\n2,", "Expecting value at line 2, column 3"),
        ("1e999", "1e999 is too large for a float"),
        ("-Infinity", "-Infinity is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=["end", "line", "float", "infinity", "depth"],
)
def test_a_text_that_is_no_json_says_why(text, why):
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        read_json(text)
