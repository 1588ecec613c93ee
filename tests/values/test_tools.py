"""The tools that list, describe and read values."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from mcp_magic.errors import ArgumentsError
from mcp_magic.results import ToolResult
from mcp_magic.values.references import resolve_references
from mcp_magic.values.shared import SharedValues
from mcp_magic.values.tools import value_tools
from tests.support.sampling_servers import PIXEL


class Namespace:
    """Values that all may read."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def get(self, name: str) -> Any:
        if name not in self.values:
            raise ArgumentsError(f"no shared value {name!r}")
        return self.values[name]

    peek = get


def answer(tool: str, values: Namespace, limit: int = 20_000, **arguments: Any) -> str:
    tools = {tool.name: tool for tool in value_tools(limit)}
    [block] = tools[tool].answer(arguments, values)
    return str(block.text)


CITIES = pd.DataFrame({"city": ["Oslo", "Rome", "Bonn"], "rain": [1.5, None, 3.0]})


def test_values_are_listed_with_type_shape_and_size():
    values = Namespace(df=CITIES, rows=[{"a": 1}], names={"a": 1}, text="ab", number=3)
    lines = answer("list_values", values).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["df", "rows", "names", "text", "number"]
    assert lines[0].startswith("df: DataFrame, 3 rows x 2 columns (city, rain), ")
    assert lines[1:] == [
        "rows: list, 1 item",
        "names: dict, 1 member (a)",
        "text: str, 2 characters, 51 bytes",
        "number: int",
    ]


def test_a_list_of_nothing_says_who_shares():
    assert answer("list_values", Namespace()) == (
        "No value is shared. The person shares one with `%mcp share NAME` in the notebook."
    )


def test_a_long_list_is_read_in_pages():
    values = Namespace(**{f"v{number}": number for number in range(100)})
    page = answer("list_values", values, limit=40)
    assert page == 'v0: int\nv1: int\nv2: int\nv3: int\nv4: int\n[95 values more; rows="5:100" lists them]'
    assert answer("list_values", values, rows="98:") == "v98: int\nv99: int"
    assert answer("list_values", values, search="V9", rows=":1") == "v9: int"


def test_rows_of_a_frame_are_csv():
    assert answer("read_value", Namespace(df=CITIES), name="df", rows="1:", columns=["rain", "city"]) == (
        "[rows 1 to 2 of 3]\nrain,city\n,Rome\n3.0,Bonn"
    )


def test_a_read_ends_at_its_limit_and_says_how_to_read_on():
    values = Namespace(df=pd.DataFrame({"a": range(100)}))
    assert answer("read_value", values, limit=8, name="df") == (
        '[rows 0 to 3 of 100; rows="4:100" reads on]\na\n0\n1\n2\n3'
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name is missing; `list_values` lists the names"),
        ({"name": "x"}, "no shared value 'x'"),
        ({"name": "df", "columns": ["cty"]}, "no column 'cty'. Did you mean 'city'? There are: city, rain"),
        ({"name": "df", "rows": "a"}, "rows is START:STOP, counted from 0, such as 20:40; not 'a'"),
        ({"name": "df", "columns": [1]}, 'columns is a list of names, such as ["city", "price"]'),
        ({"name": "df.shape"}, "df has no part 'shape'."),
        ({"name": "df.city"}, 'df has no part \'city\'. It is a column: name it in "columns", as ["city"]'),
        ({"name": "nest.b"}, "nest has no part 'b'. There are: a"),
        ({"name": "rows.7"}, "rows has no part '7'. Its items are 0 to 2"),
        ({"name": "df.__class__"}, "df has no part '__class__'."),
        ({"table": "df"}, "read_value has no argument 'table'. It has: name, rows, columns, query"),
        (
            {"name": "df", "rows": [1]},
            "rows is START:STOP, counted from 0, such as 20:40, or a list of these two numbers",
        ),
    ],
)
def test_errors_name_what_is_valid(arguments, message):
    values = Namespace(df=CITIES, nest={"a": {"b": 1}}, rows=[1, 2, 3])
    with pytest.raises(ArgumentsError) as caught:
        answer("read_value", values, **arguments)
    assert str(caught.value) == message


def test_parts_of_nested_values_are_read_by_name():
    values = Namespace(nest={"a": {"b": [{"c": 1}, {"c": 2}]}})
    assert answer("read_value", values, name="nest.a.b") == "[rows 0 to 1 of 2]\nc\n1\n2"
    assert answer("read_value", values, name="nest.a.b.1") == "[rows 0 to 0 of 1]\nkey,value\nc,2"


def test_columns_with_a_secrets_name_are_masked():
    values = Namespace(df=pd.DataFrame({"api_key": ["sk-1"], "n": [1]}))
    assert answer("read_value", values, name="df") == (
        "[rows 0 to 0 of 1; masked, as the name is a secret's: api_key]\napi_key,n\n***,1"
    )


def test_rows_that_fit_a_query_have_their_numbers():
    values = Namespace(df=CITIES, text="one\ntwo\nthree", counts={"Oslo": 3, "api_key": "sk-1"})
    assert answer("read_value", values, name="df", query='rain > 1 and city in ["Bonn", "Oslo"]', columns=["city"]) == (
        "[2 of 3 rows fit the query, here with their numbers]\nrow,city\n0,Oslo\n2,Bonn"
    )
    assert answer("read_value", values, name="df", query="rain is null", rows="2:") == (
        "[no rows that fit the query in 2:3; there are 3]"
    )
    assert answer("read_value", values, name="text", query='"t" in line') == (
        "[2 of 3 lines fit the query, here with their numbers]\n1: two\n2: three"
    )
    assert answer("read_value", values, name="counts", query="value > 2") == (
        "[1 of 2 rows fit the query, here with their numbers]\nrow,key,value\n0,Oslo,3"
    )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("100:200", "[no rows in 100:200: there are 3, from 0 to 2]"),
        ([100, 200], "[no rows in 100:200: there are 3, from 0 to 2]"),
        ("3", "[no rows in 3: there are 3, from 0 to 2]"),
        (3, "[no rows in 3: there are 3, from 0 to 2]"),
        ("2:1", "[no rows in 2:1: there are 3, from 0 to 2]"),
        ("0:0", "[no rows in 0:0: there are 3, from 0 to 2]"),
        ("-9:-5", "[no rows in -9:-5: there are 3, from 0 to 2]"),
        ("9" * 50, f"[no rows in {'9' * 39}…: there are 3, from 0 to 2]"),
        ([10**5000, None], "[no rows in an integer of about 5,000 digits:: there are 3, from 0 to 2]"),
        ("2:" + "9" * 50, "[rows 2 to 2 of 3]\ncity\nBonn"),
        ([2, None], "[rows 2 to 2 of 3]\ncity\nBonn"),
        ([2.0, 3.0], "[rows 2 to 2 of 3]\ncity\nBonn"),
        (-1, "[rows 2 to 2 of 3]\ncity\nBonn"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else type(value).__name__,
)
def test_an_empty_range_is_told_with_the_rows_there_are(rows, text):
    assert answer("read_value", Namespace(df=CITIES), name="df", rows=rows, columns=["city"]) == text


@pytest.mark.parametrize("rows", ["1.5", "a:b", "1:2:3", [1, 2, 3], [1.5, 2], ["0", "1"], [True, 2], []])
def test_rows_that_are_no_range_say_what_is_one(rows):
    with pytest.raises(ArgumentsError, match="rows is START:STOP, counted from 0, such as 20:40"):
        answer("read_value", Namespace(df=CITIES), name="df", rows=rows)


def test_what_has_no_rows_or_columns_says_so():
    values = Namespace(rows=CITIES[:0], text="", columns=CITIES[[]])
    assert answer("read_value", values, name="rows") == "[there are no rows]"
    assert answer("read_value", values, name="text", rows="5:") == "[there are no lines]"
    assert answer("read_value", values, name="columns") == "[3 rows, and no columns]"
    assert answer("list_values", values, rows="7:") == "[no values in 7:: there are 3, from 0 to 2]"
    assert answer("list_values", values, search="zz") == "[no names have 'zz']"


def test_a_query_reads_on_where_the_answer_ended():
    values = Namespace(df=pd.DataFrame({"a": range(100)}))
    assert answer("read_value", values, limit=10, name="df", query="a % 10 == 0", rows="15:").splitlines()[0] == (
        '[8 of 85 rows fit the query, here with their numbers; rows="30:100" reads on]'
    )


def test_parts_with_a_secrets_name_are_masked():
    values = Namespace(config={"api_key": "sk-1", "deep": {"password": "sesame", "n": [1]}}, flat={"token": "sk-1"})
    assert answer("read_value", values, name="config.api_key") == "[lines 0 to 0 of 1]\n***"
    dotted = Namespace(config={"api.key": "sk-1"})
    assert answer("read_value", dotted, name="config.api.key") == "[lines 0 to 0 of 1]\n***"
    assert "sk-1" not in answer("read_value", values, name="config")
    assert "sesame" not in answer("describe_value", values, name="config")
    assert answer("read_value", values, name="flat") == "[rows 0 to 0 of 1]\nkey,value\ntoken,***"


def test_a_description_has_columns_statistics_and_head():
    assert answer("describe_value", Namespace(df=CITIES), name="df").splitlines()[1:] == [
        f"city: {CITIES.dtypes['city']}, 3 different",
        "rain: float64, 1 missing, 1.5 to 3, mean 2.25",
        "It begins with:",
        "city,rain",
        "Oslo,1.5",
        "Rome,",
        "Bonn,3.0",
    ]


def test_a_wide_table_is_described_by_columns():
    values = Namespace(wide=pd.DataFrame([range(60)], columns=[f"c{number}" for number in range(60)]), k={"token": 1})
    lines = answer("describe_value", values, name="wide").splitlines()
    assert lines[0].startswith("wide: DataFrame, 1 row x 60 columns, ")
    assert lines[51] == "and 10 columns more, described if they are named as columns"
    assert (
        answer("describe_value", values, name="wide", columns="c55").splitlines()[1] == "c55: int64, 55 to 55, mean 55"
    )
    assert answer("read_value", values, name="wide").startswith(
        "[rows 0 to 0 of 1; the first 50 of 60 columns, name others as columns]\nc0,"
    )


def result(*content: Any, **options: Any) -> ToolResult:
    return ToolResult(CallToolResult(content=list(content), **options), server="s", tool="t")


TABLES = {"users": [{"id": 1, "name": "a"}], "orders": [{"id": 1, "total": 2}, {"id": 2, "total": 3}]}


def test_a_result_of_rows_is_listed_with_them():
    rows = {"result": [{"city": "Oslo", "high": 16.8}, {"city": "Rome", "high": 28.1}]}
    values = Namespace(result_1=result(TextContent(text="x"), TextContent(text="y"), structured_content=rows))
    assert answer("list_values", values).startswith("result_1: ToolResult, of s:t, 2 rows x 2 columns")


def test_tables_of_a_result_are_read_by_name():
    values = Namespace(result_1=result(TextContent(text="x"), structured_content=TABLES))
    assert answer("describe_value", values, name="result_1").splitlines() == [
        "result_1: ToolResult, of s:t, 2 members (users, orders), 1 bytes",
        "result_1.users: 1 row x 2 columns (id, name)",
        "result_1.orders: 2 rows x 2 columns (id, total)",
    ]
    assert answer("read_value", values, name="result_1.orders", query="total > 2") == (
        "[1 of 2 rows fit the query, here with their numbers]\nrow,id,total\n1,2,3"
    )
    with pytest.raises(ArgumentsError, match=r"several tables; read one of them as result_1\.TABLE: users, orders"):
        answer("read_value", values, name="result_1")


def test_a_result_is_its_table_its_json_or_its_text():
    values = Namespace(
        table=result(TextContent(text='[{"a": 1}]')),
        nest=result(TextContent(text='{"a": {"b": [1, {"c": 2}]}}')),
        text=result(TextContent(text="one"), TextContent(text="two")),
    )
    assert answer("read_value", values, name="table") == "[rows 0 to 0 of 1]\na\n1"
    assert answer("read_value", values, name="nest", rows="0:2") == '[lines 0 to 1 of 10]\n{\n "a": {'
    assert answer("read_value", values, name="nest.a.b.1") == "[rows 0 to 0 of 1]\nkey,value\nc,2"
    assert answer("read_value", values, name="text") == "[lines 0 to 1 of 2]\none\ntwo"


def test_images_are_image_blocks():
    tools = {tool.name: tool for tool in value_tools()}
    picture = result(ImageContent(data=PIXEL, mime_type="image/png"))
    values = Namespace(picture=picture, image=picture.images[0])
    for name, kind in (("picture", "ToolResult"), ("image", "Media")):
        text, image = tools["read_value"].answer({"name": name}, values)
        assert text.text == f"[{name}: {kind}, 1 x 1 pixels]"
        assert (image.type, image.mime_type, image.data) == ("image", "image/png", PIXEL)
    with pytest.raises(ArgumentsError, match="image is an image, which has no rows, columns and query"):
        answer("read_value", values, name="image", rows="0:1")
    assert answer("describe_value", values, name="image").endswith("An image: `read_value` shows it.")


def test_what_is_not_read_says_what_can_be_shared():
    rows = (number for number in range(3))
    values = Namespace(rows=rows, thing=object())
    assert answer("list_values", values) == "rows: generator\nthing: object"
    for tool in ("describe_value", "read_value"):
        with pytest.raises(ArgumentsError, match="rows is of the class generator, which is not read; the person can"):
            answer(tool, values, name="rows")
    assert list(rows) == [0, 1, 2]


def test_known_secrets_are_masked_before_a_text_is_cut():
    tools = {tool.name: tool for tool in value_tools(2_000, lambda text: text.replace("sesame", "***"))}
    values = Namespace(
        text="x" * 497 + "sesame" + "y" * 600,
        df=pd.DataFrame({"a": ["x" * 1_997 + "sesame" + "y" * 5_000], "sesame": [1]}),
        nest={"a": {"b": "sesame"}},
    )
    for name in values.names():
        for tool in ("describe_value", "read_value"):
            [block] = tools[tool].answer({"name": name}, values)
            assert "ses" not in block.text
            assert "***" in block.text
    [block] = tools["list_values"].answer({}, values)
    assert "sesame" not in block.text


def test_a_cell_with_a_million_characters_is_cut():
    values = Namespace(df=pd.DataFrame({"a": ["x" * 1_000_000, "y"]}))
    text = answer("read_value", values, name="df")
    assert text.startswith('[rows 0 to 1 of 2]\na\n"xxx')
    assert text.endswith('… (1,000,000 characters)"\ny')
    assert len(text) < 2_100


def test_a_column_is_read_once_and_not_too_many_at_a_time():
    wide = pd.DataFrame(np.zeros((1, 1_001)), columns=[f"c{number}" for number in range(1_001)])
    values = Namespace(df=CITIES, wide=wide)
    assert answer("read_value", values, name="df", rows="0", columns=["city"] * 100_000) == (
        "[rows 0 to 0 of 3]\ncity\nOslo"
    )
    with pytest.raises(ArgumentsError, match="at most 1,000 columns are read at a time, not 1,001"):
        answer("read_value", values, name="wide", columns=list(wide.columns))


def test_rows_and_columns_are_read_in_both_notations():
    values = Namespace(df=CITIES)
    expected = "[rows 1 to 1 of 3]\ncity\nRome"
    assert answer("read_value", values, name="df", rows=[1, 2], columns="city") == expected
    assert answer("read_value", values, name="df", rows="1:2", columns=["city"]) == expected


def test_a_nested_value_that_is_too_large_says_that_it_is_cut():
    values = Namespace(nest={"a": {"b": [list(range(1000))] * 300}}, loop={"a": {}})
    values.values["loop"]["a"]["a"] = values.values["loop"]
    text = answer("read_value", values, name="nest", rows="-1:")
    assert text.endswith("[cut here; parts of it can be read as nest.PART]")
    assert answer("read_value", values, name="loop", rows="-1:").endswith("can be read as loop.PART]")


def test_nothing_of_a_hostile_value_runs():
    def boom(*args: Any) -> Any:
        raise AssertionError("it ran")

    replaced = dict.fromkeys(("__eq__", "__hash__", "__getattribute__", "__instancecheck__"), boom)
    kind = type("Meta", (type,), replaced)("Alien", (), {})
    members = dict.fromkeys(("keys", "items", "__iter__", "__getitem__", "__len__", "copy"), boom)
    members_of_its_own = type("Members", (dict,), members)(a=1)
    masquerade = type("Masquerade", (), {"__class__": property(boom)})()
    circle = Enum("Circle", "ONE").ONE
    circle._value_ = circle
    space = {"alien": type.__call__(kind), "members": members_of_its_own, "mask": masquerade, "circle": [circle]}
    values = SharedValues(space)
    values.share_all()
    values.share(*space)
    client = values.of("1")
    tools = {tool.name: tool for tool in value_tools()}
    [listing] = tools["list_values"].answer({}, client)
    assert listing.text == "alien: Alien\nmembers: Members, 1 member (a)\nmask: Masquerade\ncircle: list, 1 item"
    [read] = tools["read_value"].answer({"name": "members"}, client)
    assert read.text == "[rows 0 to 0 of 1]\nkey,value\na,1"
    for name, problem in (("mask", "Masquerade has no JSON form"), ("circle", "nested too deeply")):
        with pytest.raises(ArgumentsError, match=problem):
            resolve_references({"x": {"$value": name}}, client)


def test_labels_and_time_zones_of_any_class_run_nothing():
    ran: list[str] = []

    class Alien:
        armed = False

        def __getattribute__(self, name: str) -> Any:
            if Alien.armed:
                ran.append(name)
            return object.__getattribute__(self, name)

        def __hash__(self) -> int:
            if Alien.armed:
                ran.append("hash")
            return 1

    class Zone(datetime.tzinfo):
        def utcoffset(self, when: Any) -> Any:
            if Alien.armed:
                ran.append("utcoffset")
            return datetime.timedelta(hours=1)

        dst = utcoffset
        __repr__ = utcoffset

    one, other = Alien(), Alien()
    when = datetime.datetime(2026, 1, 1, 1, tzinfo=Zone())
    values = Namespace(
        columns=pd.DataFrame([[1, 2]], columns=pd.Index([one, other], dtype=object)),
        index=pd.DataFrame({"v": [1, 2]}, index=pd.Index([one, other], dtype=object)),
        labels=pd.Index([one, other], dtype=object),
        categories=pd.Series(pd.Categorical.from_codes([0, 1], categories=pd.Index([one, other], dtype=object))),
        times=pd.Series([when, None]),
    )
    Alien.armed = True
    described = {name: answer("describe_value", values, name=name) for name in values.names()}
    read = {name: answer("read_value", values, name=name) for name in values.names()}
    Alien.armed = False
    assert ran == []
    assert read["columns"] == "[rows 0 to 0 of 1]\n<Alien>,<Alien>_2\n1,2"
    assert read["index"] == "[rows 0 to 1 of 2]\nindex,v\n<Alien>,1\n<Alien>,2"
    assert read["labels"] == read["categories"] == "[rows 0 to 1 of 2]\nvalue\n<Alien>\n<Alien>"
    assert read["times"] == '[rows 0 to 1 of 2]\nvalue\n2026-01-01T00:00:00+00:00\n""'
    assert ", Zone], 1 missing, 2026-01-01" in described["times"]


def test_numbers_without_an_end_are_told_from_missing_ones():
    values = Namespace(df=pd.DataFrame({"a": [1.0, float("nan"), float("-inf")], "b": [float("inf")] * 3}))
    assert answer("read_value", values, name="df") == "[rows 0 to 2 of 3]\na,b\n1.0,inf\n,inf\n-inf,inf"
    assert "a: float64, 1 missing, -inf to 1, mean -inf\nb: float64, inf to inf" in answer(
        "describe_value", values, name="df"
    )


def test_a_value_that_cannot_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mcp_magic.values.reading.series_outline", lambda _: 1 / 0)
    assert answer("list_values", Namespace(df=CITIES, n=[1])) == "df: DataFrame\nn: list, 1 item"


def test_large_indexes_and_ranges_are_not_made():
    values = Namespace(index=pd.RangeIndex(10**12), range=range(10**12), bytes=b"x" * 10_000_000)
    for name in ("index", "range"):
        assert answer("read_value", values, name=name, rows="-1:") == (
            "[rows 999999999999 to 999999999999 of 1,000,000,000,000]\nvalue\n999999999999"
        )
        assert "0 to 99999, mean 49999.5 (of the first 100,000 rows)" in answer("describe_value", values, name=name)
    assert "can be read" in answer("read_value", values, name="bytes", rows="-1:")


def test_an_error_names_no_known_secret():
    tools = {tool.name: tool for tool in value_tools(hide=lambda text: text.replace("sesame", "***"))}
    with pytest.raises(ArgumentsError, match=r"There are: \*\*\*$"):
        tools["read_value"].answer({"name": "df", "columns": ["a"]}, Namespace(df=pd.DataFrame({"sesame": [1]})))


def test_names_with_marks_are_columns_and_parts():
    frame = pd.DataFrame([[1, 2]], columns=["a`b", "c.d"])
    values = Namespace(df=frame, nest={"a": {"x": [1]}, "a.b": {"c.d": {"e": [2]}}})
    assert answer("read_value", values, name="df", query="`a``b` == 1 and `c.d` == 2").endswith("\n0,1,2")
    assert answer("read_value", values, name="nest.a.b.c.d.e") == "[rows 0 to 0 of 1]\nvalue\n2"
    assert answer("read_value", values, name="nest.a.x") == "[rows 0 to 0 of 1]\nvalue\n1"


def test_an_error_of_a_library_does_not_get_out(monkeypatch: pytest.MonkeyPatch):
    def fail(self, *_):
        raise KeyError("sesame")

    monkeypatch.setattr(pd.Series, "tolist", fail)
    with pytest.raises(ArgumentsError, match=r"^this value cannot be read \(KeyError\)$"):
        answer("read_value", Namespace(df=CITIES), name="df")


def test_tools_are_read_only_with_schemas_of_one_type():
    for tool in value_tools():
        assert tool.tool.annotations is not None
        assert tool.tool.annotations.read_only_hint
        assert tool.tool.input_schema == dict(tool.schema)
        assert all(type(prop["type"]) is str for prop in tool.function["parameters"]["properties"].values())
