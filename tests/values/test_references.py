"""Values by reference in arguments: what they become, and what is refused."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from mcp_types import CallToolResult, TextContent

from mcp_magic.errors import ArgumentsError
from mcp_magic.results.results import ToolResult
from mcp_magic.schema import prepare_arguments
from mcp_magic.values.frames import Frame
from mcp_magic.values.plain import Writer
from mcp_magic.values.references import MAX_REFERENCES, Resolved, check_others, misfit, resolve_references
from mcp_magic.values.shared import SharedValues
from tests.support.strategies import QUICK, anything_like_a_schema, json_values

ROWS = {"type": "array", "items": {"type": "object"}}
NUMBERS = {"type": "array", "items": {"type": "number"}}
LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.fixture
def space():
    frame = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo"], "high": [3.5, None, 5.0], "n": [1, 2, 3]})
    return {
        "df": frame,
        "secret": "s3cr3t",
        "text": "hello",
        "n": 5,
        "config": {"a": [1, {"b": None}]},
        "marks": {"$value": "secret"},
        "records": [{"a": 1}, {"a": 2, "b": {"$value": "secret"}}],
    }


@pytest.fixture
def shared(space):
    values = SharedValues(space)
    values.share("df", "text", "n", "config", "marks", "records")
    return values


@pytest.fixture
def client(shared):
    return shared.of("1", "agent")


def refusal(arguments, values, tool=None) -> str:
    with pytest.raises(ArgumentsError) as caught:
        resolve_references(arguments, values, tool)
    return str(caught.value)


def test_a_table_becomes_a_list_of_objects(client):
    resolved = resolve_references({"rows": {"$value": "df"}, "limit": 3}, client, schema(rows=ROWS))
    assert resolved.arguments == {
        "rows": [
            {"city": "Oslo", "high": 3.5, "n": 1},
            {"city": "Rome", "high": None, "n": 2},
            {"city": "Oslo", "high": 5.0, "n": 3},
        ],
        "limit": 3,
    }
    [note] = resolved.references
    assert (note.path, note.name, note.shape) == (("rows",), "df", "3 rows x 3 columns (city, high, n)")
    assert note.reference == {"$value": "df"}


def test_columns_and_rows_are_chosen(client):
    reference = {"$value": "df", "columns": ["n", "city"], "rows": [1, 100]}
    resolved = resolve_references({"rows": reference}, client, schema(rows=ROWS))
    assert resolved.arguments["rows"] == [{"n": 2, "city": "Rome"}, {"n": 3, "city": "Oslo"}]
    assert list(resolved.arguments["rows"][0]) == ["n", "city"]
    queried = {"$value": "df", "columns": ["n"], "query": 'city == "Oslo"'}
    assert resolve_references({"x": queried}, client, schema(x=NUMBERS)).arguments == {"x": [1, 3]}
    queried["rows"] = [1, 3]
    assert resolve_references({"x": queried}, client, schema(x=NUMBERS)).arguments == {"x": [3]}
    as_read = {"$value": "df", "columns": "n", "rows": "-2:"}
    assert resolve_references({"x": as_read}, client, schema(x=NUMBERS)).arguments == {"x": [2, 3]}


@pytest.mark.parametrize(
    ("place", "columns", "sent"),
    [
        pytest.param(NUMBERS, ["n"], [1, 2, 3], id="numbers"),
        pytest.param({"anyOf": [NUMBERS, {"type": "null"}]}, ["n"], [1, 2, 3], id="numbers or null"),
        pytest.param({"$ref": "#/$defs/numbers"}, ["n"], [1, 2, 3], id="by reference"),
        pytest.param(LISTS, ["n", "high"], [[1, 3.5], [2, None], [3, 5.0]], id="lists"),
        pytest.param(ROWS, ["n"], [{"n": 1}, {"n": 2}, {"n": 3}], id="objects"),
        pytest.param({"type": "array"}, ["n"], [{"n": 1}, {"n": 2}, {"n": 3}], id="anything"),
        pytest.param({}, ["n"], [{"n": 1}, {"n": 2}, {"n": 3}], id="no schema"),
    ],
)
def test_the_place_decides_the_form_of_a_table(place, columns, sent, client):
    tool = schema(x=place) | {"$defs": {"numbers": NUMBERS}}
    resolved = resolve_references({"x": {"$value": "df", "columns": columns}}, client, tool)
    assert resolved.arguments == {"x": sent}


TEXTS = {"type": "array", "items": {"type": "string"}}
FLAGS = {"type": "array", "items": {"type": "boolean"}}


@pytest.mark.parametrize(
    ("place", "reference", "message"),
    [
        pytest.param(
            NUMBERS,
            {},
            'x: it takes a list of number values: name a column, as in {"$value": "df", "columns": ["n"]}. '
            "Columns that fit: n, high",  # high lacks a value
            id="numbers",
        ),
        pytest.param(
            {"anyOf": [TEXTS, {"type": "null"}]},
            {"columns": ["n", "city"]},
            'x: it takes a list of string values: name a column, as in {"$value": "df", "columns": ["city"]}. '
            "Columns that fit: city",
            id="texts",
        ),
        pytest.param(
            FLAGS,
            {"rows": [0, 1]},
            "x: it takes a list of boolean values, and no column of df has these. There are: city, high, n",
            id="none",
        ),
    ],
)
def test_a_table_for_a_list_of_values_says_what_fits(place, reference, message, client):
    tool = schema(x=place)
    assert refusal({"x": {"$value": "df", **reference}}, client, tool) == message
    if "as in " in message:  # the example works
        example = json.loads(message.partition("as in ")[2].partition(". Columns")[0])
        prepare_arguments(resolve_references({"x": example}, client, tool).arguments, tool)


def test_a_matrix_for_a_list_of_numbers_says_what_fits(client, space):
    space["df"] = np.array([[1, 2], [3, 4]])
    assert refusal({"x": {"$value": "df"}}, client, schema(x=NUMBERS)).endswith(
        'as in {"$value": "df", "columns": ["0"]}. Columns that fit: 0, 1'
    )
    space["df"] = np.array([[1], [3]])
    assert resolve_references({"x": {"$value": "df"}}, client, schema(x=NUMBERS)).arguments == {"x": [1, 3]}


@pytest.mark.parametrize("rows", ["100:200", [100, 200], [3, 3], "2:1"])
def test_rows_that_are_not_there_are_refused(rows, client):
    numbers = rows if isinstance(rows, str) else f"{rows[0]}:{rows[1]}"
    message = f"x: no rows in {numbers}: there are 3, from 0 to 2"
    assert refusal({"x": {"$value": "df", "rows": rows}}, client) == message


def test_what_cannot_be_read_is_an_error(client, space, monkeypatch):
    monkeypatch.setattr("mcp_magic.values.references.as_json", lambda *_, **__: 1 / 0)
    assert refusal({"x": {"$value": "df"}}, client) == "x: this value cannot be read (ZeroDivisionError)"


ANY: dict[str, object] = {}


@pytest.mark.parametrize(
    ("value", "place", "sent"),
    [
        pytest.param(np.array([1, 2]), ANY, [1, 2], id="array"),
        pytest.param(np.ma.array([1, 2], mask=[0, 1]), ANY, [1, None], id="masked array"),
        pytest.param(np.array([1.5], np.longdouble), ANY, [1.5], id="long numbers"),
        pytest.param(np.array([1, 2]), ROWS, [{"value": 1}, {"value": 2}], id="array as rows"),
        pytest.param(np.array([[1, 2], [3, 4]]), ANY, [[1, 2], [3, 4]], id="matrix"),
        pytest.param(np.array([[1, 2], [3, 4]]), LISTS, [[1, 2], [3, 4]], id="matrix as lists"),
        pytest.param(np.zeros((1, 2, 1)), ANY, [[[0.0], [0.0]]], id="three dimensions"),
        pytest.param(pd.Series([1.5, None]), NUMBERS, [1.5, None], id="series"),
        pytest.param(pd.Series([1, 2], name="p"), ANY, [1, 2], id="series for anything"),
        pytest.param(pd.Series([1], ["x"], name="p"), NUMBERS, [1], id="series with an index"),
        pytest.param(pd.Series([1], ["x"], name="p"), ANY, [{"index": "x", "p": 1}], id="its index"),
        pytest.param({"a": [1, 2], "b": [3, 4]}, ROWS, [{"a": 1, "b": 3}, {"a": 2, "b": 4}], id="lists as rows"),
        pytest.param({"a": [1, 2], "b": [3, 4]}, ANY, {"a": [1, 2], "b": [3, 4]}, id="lists"),
        pytest.param(datetime.date(2025, 1, 2), {"type": "string"}, "2025-01-02", id="date"),
    ],
)
def test_values_of_libraries_have_their_usual_form(value, place, sent, client, space):
    space["df"] = value
    assert resolve_references({"x": {"$value": "df"}}, client, schema(x=place)).arguments == {"x": sent}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(object(), "x: object has no JSON form", id="object"),
        pytest.param([{"a": object()}], "x: object has no JSON form", id="within"),
        pytest.param(
            pd.DataFrame({"a": range(1_000_000), "b": 1, "c": 2}),
            'x: 3,000,000 cells are too many, the most are 2,000,000; take fewer at a time: {"$value": ..., "columns": '
            '[...], "rows": [0, 1000]}',
            id="large",
        ),
        pytest.param(
            pd.DataFrame(np.zeros((1, 20_000))),
            "x: 20,000 columns are too many, the most are 10,000; name fewer",
            id="wide",
        ),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused(value, message, client, space):
    space["df"] = value
    assert refusal({"x": {"$value": "df"}}, client) == message


@pytest.mark.parametrize(
    ("name", "sent", "shape"),
    [
        ("text", "hello", "text of 5 characters"),
        ("n", 5, "5"),
        ("config", {"a": [1, {"b": None}]}, "an object with a"),
        ("config.a", [1, {"b": None}], "2 values"),
        ("records", [{"a": 1}, {"a": 2, "b": {"$value": "secret"}}], "2 rows x 2 columns (a, b)"),
    ],
)
def test_other_values_are_sent_as_they_are(name, sent, shape, client):
    resolved = resolve_references({"a": {"b": [0, {"$value": name}]}}, client)
    assert resolved.arguments == {"a": {"b": [0, sent]}}
    assert [(note.path, note.shape) for note in resolved.references] == [(("a", "b", 1), shape)]


def test_a_reference_in_a_value_is_data(client, space):
    resolved = resolve_references({"x": {"$value": "marks"}}, client)
    assert resolved.arguments == {"x": {"$value": "secret"}}
    assert resolve_references({"x": {"$value": "records", "rows": [1, 2]}}, client).arguments == {
        "x": [{"a": 2, "b": {"$value": "secret"}}]
    }
    client.put("put", {"$value": "secret"})
    assert resolve_references({"x": {"$value": "put"}}, client).arguments == {"x": {"$value": "secret"}}


def test_a_later_change_does_not_count(client, space):
    resolved = resolve_references(
        {"a": {"$value": "df"}, "b": {"$value": "config"}, "c": {"$value": "records"}}, client
    )
    before = json.dumps(resolved.arguments)
    space["df"].loc[0, "city"] = "changed"
    space["config"]["a"].append("changed")
    space["records"][0]["a"] = "changed"
    assert json.dumps(resolved.arguments) == before


def test_the_values_are_checked_by_the_schema_of_the_tool(client):
    tool = schema(rows={"type": "array", "items": {"type": "object", "required": ["price"]}})
    resolved = resolve_references({"rows": {"$value": "df"}}, client, tool)
    with pytest.raises(ArgumentsError, match="price"):
        prepare_arguments(resolved.arguments, tool)


def test_a_result_is_sent_as_its_data_or_text(client, shared, space):
    text = '{"rows": [{"a": 1}]}'
    handle = client.keep(ToolResult(CallToolResult(content=[TextContent(text=text)])))
    assert resolve_references({"x": {"$value": handle}}, client).arguments == {"x": {"rows": [{"a": 1}]}}
    assert resolve_references({"x": {"$value": handle}}, client, schema(x={"type": "string"})).arguments == {"x": text}
    assert resolve_references({"x": {"$value": handle}}, client, schema(x=ROWS)).arguments == {"x": [{"a": 1}]}
    reference = {"$value": handle, "columns": ["a"]}
    assert resolve_references({"x": reference}, client, schema(x=NUMBERS)).arguments == {"x": [1]}
    assert "no shared value" in refusal({"x": {"$value": handle}}, shared.of("2"))
    failed = client.keep(ToolResult(CallToolResult(content=[TextContent(text=text)], is_error=True)))
    assert refusal({"x": {"$value": failed}}, client) == "x: it is the error of a call, and has no value"


def test_a_table_of_a_result_is_sent_as_the_server_sent_it(client):
    data = {"sums": {"a": [1, 2], "b": [3, 4]}, "people": [{"n": 1}, {"n": 2, "m": 3}]}
    handle = client.keep(ToolResult(CallToolResult(content=[TextContent(text=json.dumps(data))])))

    def sent(part, tool=None, **selection):
        return resolve_references({"x": {"$value": f"{handle}.{part}", **selection}}, client, tool).arguments["x"]

    assert sent("sums") == data["sums"]
    assert sent("people") == data["people"]
    assert sent("sums", schema(x=ROWS)) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert sent("sums", rows=[1, 2]) == [{"a": 2, "b": 4}]
    assert sent("people", columns=["m"]) == [{"m": None}, {"m": 3}]


NO_VALUE = "`list_values` lists them; the person shares more with `%mcp share NAME`"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"$value": "secret"}, f"rows: no shared value 'secret'. {NO_VALUE}"),
        ({"$value": "missing"}, f"rows: no shared value 'missing'. {NO_VALUE}"),
        ({"$value": "dff"}, f"rows: no shared value 'dff'. Did you mean 'df'? {NO_VALUE}"),
        ({"$value": 'df["city"]'}, f"rows: no shared value 'df[\"city\"]'. {NO_VALUE}"),
        ({"$value": "__builtins__"}, f"rows: no shared value '__builtins__'. {NO_VALUE}"),
        ({"$value": "df.to_csv"}, "rows: df has no part 'to_csv'."),
        ({"$value": "df.__class__"}, "rows: df has no part '__class__'."),
        ({"$value": ["df"]}, 'rows: $value is the name of one value, such as {"$value": "df"}, not a list'),
        (
            {"$value": {"$value": "df"}},
            'rows: $value is the name of one value, such as {"$value": "df"}, not an object',
        ),
        ({"$value": None}, 'rows: $value is the name of one value, such as {"$value": "df"}, not null'),
        (
            {"$value": "df", "row": [0, 1]},
            "rows: a reference has no 'row'. Did you mean 'rows'? It may have: "
            '"columns": ["a", "b"], "rows": [0, 100], "query": "a > 1", beside "$value"',
        ),
        ({"$value": "df", "columns": {"a": 1}}, 'rows: "columns" is a list of names, such as ["a", "b"]'),
        ({"$value": "df", "columns": []}, 'rows: "columns" is a list of names, such as ["a", "b"]'),
        ({"$value": "df", "columns": ["cty"]}, "rows: no column 'cty'. Did you mean 'city'? There are: city, high, n"),
        ({"$value": "df", "rows": [-1, 5]}, 'rows: "rows" is [START, STOP], counted from 0, such as [0, 100]'),
        ({"$value": "df", "rows": [0, True]}, 'rows: "rows" is [START, STOP], counted from 0, such as [0, 100]'),
        (
            {"$value": "df", "rows": "a"},
            "rows: rows is START:STOP, counted from 0, such as 20:40; not 'a'",
        ),
        ({"$value": "df", "query": {}}, 'rows: "query" is text, such as "a > 1"'),
        ({"$value": "n", "rows": [0, 1]}, "rows: a int has no rows and columns"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_reference_says_what_is_valid(reference, message, client):
    assert refusal({"rows": reference}, client, schema(rows=ROWS)) == message


@pytest.mark.parametrize(
    "query", ["__import__('os')", "n.__class__", "secret == 1", "token == 'x'", "[n for n in n]", "n > (", "x" * 9999]
)
def test_a_query_runs_no_code_and_reads_no_secret(query, client, space):
    space["df"] = space["df"].assign(api_token="s3cr3t")
    message = refusal({"rows": {"$value": "df", "query": query.replace("token", "api_token")}}, client)
    assert message.startswith("rows: query: ")
    assert "s3cr3t" not in message


def test_a_query_finds_no_known_secret(client, space):
    space["df"] = pd.DataFrame({"note": ["the key is sesame", "none"]})
    reference = {"$value": "df", "query": '"sesame" in note'}
    hidden = resolve_references({"x": reference}, client, hide=lambda text: text.replace("sesame", "***"))
    assert hidden.arguments == {"x": []}
    assert len(resolve_references({"x": reference}, client).arguments["x"]) == 1


def test_an_error_quotes_no_known_secret(client, space):
    space["text"] = "the password is hunter2"
    arguments, tool = {"x": {"$value": "text"}}, schema(x={"type": "string", "maxLength": 3})

    def read(tool, hide):
        resolve = partial(resolve_references, arguments, client, tool, hide=hide)
        error, is_masked = misfit(ArgumentsError("quotes hunter2"), resolve(), partial(resolve, masks=True), tool)
        return str(error) if is_masked else None

    hidden = "x: expected string, at most 3 characters, got 'the password is ***'"
    assert read(tool, lambda text: text.replace("hunter2", "***")) == hidden
    assert read(schema(x={"type": "string", "maxLength": 19}), lambda text: text[:3]) == (
        "a value that a reference stands for does not fit; tools/list has what the tool takes"
    )
    own = ArgumentsError("x: expected string, got 3")
    assert misfit(own, Resolved({"x": 3}), partial(resolve_references, {"x": 3}, client, tool), tool) == (own, False)
    assert read(tool, str) is None


def test_a_reference_does_not_stand_for_all_arguments(client):
    assert refusal({"$value": "df"}, client, schema(rows=ROWS)) == (
        'a reference stands in the place of one argument, not of all: {"NAME": {"$value": "df"}}. Arguments: rows'
    )
    own = schema(**{"$value": {"type": "string"}})
    assert resolve_references({"$value": "df"}, client, own).arguments == {"$value": "df"}


def test_references_are_bounded(client, space):
    most = [{"$value": "n"}] * MAX_REFERENCES
    assert resolve_references({"a": most}, client).arguments == {"a": [5] * MAX_REFERENCES}
    assert refusal({"a": [{"$value": "n"}] * 10_000}, client).startswith("more than 100 references")
    deep: object = {"$value": "n"}
    for _ in range(500):
        deep = [deep]
    assert refusal({"a": deep}, client) == "the arguments are nested more than 100 levels deep"
    space["text"] = "x" * 10_000_000
    assert refusal({"a": [{"$value": "text"}] * 5}, client).startswith(
        "a[3]: the values are more than 32 MB; send less"
    )


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("selection", [{}, {"rows": [0, 900_000]}, {"query": "a >= 0"}])
def test_a_large_table_is_refused_before_it_is_read(selection, masks, client, space, monkeypatch):
    space["df"] = pd.DataFrame({"a": np.linspace(0.1, 0.9, 1_000_000), "b": np.linspace(0.1, 0.9, 1_000_000)})
    read, cells = [], Frame.cells

    def spy(self, position, rows):
        read.append(len(rows))
        return cells(self, position, rows)

    monkeypatch.setattr(Frame, "cells", spy)
    with pytest.raises(ArgumentsError, match="x: the values are more than 32 MB; send less of them at a time"):
        resolve_references({"x": {"$value": "df", **selection}}, client, masks=masks)
    assert sum(read) < 1_000
    # what is small enough in the form of its place is taken
    column = {"$value": "df", "columns": ["a"], **selection}
    assert len(resolve_references({"x": column}, client, schema(x=NUMBERS), masks=masks).arguments["x"]) >= 900_000


def test_a_large_array_and_list_are_refused_before_they_are_read(client, space, monkeypatch):
    space["text"] = np.linspace(0.1, 0.9, 1_999_998).reshape(-1, 2)
    space["records"] = [{"a": "x" * 400}] * 100_000
    read, plain = [], Writer.plain

    def spy(self, value, depth=0):
        read.append(depth)
        return plain(self, value, depth)

    monkeypatch.setattr(Writer, "plain", spy)
    for name in ("text", "records"):
        assert refusal({"x": {"$value": name}}, client).startswith("x: the values are more than 32 MB")
    assert len(read) < 5_000
    space["config"] = {"a": [True] * 1_500_000}  # its rows would repeat the name
    assert resolve_references({"x": {"$value": "config"}}, client).arguments["x"] == space["config"]


def test_rows_are_masked_as_other_values_are(client, space):
    rows = [{"id": 1, "api_key": "k", "note": "sesame", "in": {"password": "p"}}, {"id": 2, "api_key": None}]

    def hide(text):
        return text.replace("sesame", "***")

    space["records"] = [rows[0], {**rows[0], "api_key": None}]
    uniform = resolve_references({"x": {"$value": "records"}}, client, hide=hide, masks=True).arguments["x"]
    space["records"] = rows
    mixed = resolve_references({"x": {"$value": "records"}}, client, hide=hide, masks=True).arguments["x"]
    assert uniform[0] == mixed[0] == {"id": 1, "api_key": "***", "note": "***", "in": {"password": "***"}}
    assert uniform[1]["api_key"] is mixed[1]["api_key"] is None


def test_other_arguments_are_checked_before_values_are_read():
    colour = {"$ref": "#/$defs/colour"}
    tool = schema(rows=ROWS, colour=colour, n={"type": "integer"}, more={"type": "object", "required": ["a"]})
    tool |= {"$defs": {"colour": {"enum": ["red"]}}}
    rows = {"$value": "df"}
    check_others({"rows": rows, "colour": "red", "n": rows, "more": {"b": [rows]}, "unlisted": 1}, tool)
    check_others({"colour": "blue"}, tool)  # all are checked together where nothing is read
    for arguments in ({"rows": rows, "colour": "blue"}, {"rows": rows, "n": 1, "colour": "blue"}):
        with pytest.raises(ArgumentsError, match=r"^colour: expected 'red', got 'blue'$"):
            check_others(arguments, tool)


def test_a_value_that_contains_itself_is_refused(client, space):
    space["config"]["a"].append(space["config"])
    assert refusal({"a": {"$value": "config"}}, client).startswith("a: ")


def test_a_value_is_read_once_in_each_form(client, monkeypatch):
    reads, peek = [], client.peek
    monkeypatch.setattr(client, "peek", lambda name: reads.append(name) or peek(name))
    resolve_references({"a": [{"$value": "df"}, {"$value": "df"}, {"$value": "df", "rows": [0, 1]}]}, client)
    assert reads == ["df"] * 2


@QUICK
@given(json_values, anything_like_a_schema)
def test_arguments_without_references_stay_as_they_are(arguments, tool):
    if isinstance(arguments, dict) and isinstance(tool, dict):
        assert resolve_references(arguments, SharedValues({}).of("1"), tool).arguments == arguments


WIDE = 12_000


def wide(kind):
    """Return a value with too many columns, and one of its columns that has no name."""
    numbers = np.arange(2 * WIDE).reshape(2, WIDE)
    return {
        "array": (numbers, "11000"),
        "masked": (np.ma.array(numbers), "11000"),
        "records": (np.zeros(2, [(f"c{n}", int) for n in range(WIDE)]), "c11000"),
        "lists": (numbers.tolist(), "11000"),
        "dicts": ([{f"c{n}": n for n in range(WIDE)}] * 2, "c11000"),
    }[kind]


def outcome(reference, client, tool):
    """Return the number of cells in each row, or the error."""
    try:
        return list(map(len, resolve_references({"x": reference}, client, schema(x=tool)).arguments["x"]))
    except ArgumentsError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["array", "masked", "records", "lists", "dicts"])
def test_no_columns_are_left_out_silently(space, client, kind):
    space["df"], last = wide(kind)
    references = [{}, {"rows": [0, 2]}, {"rows": [0, 2], "query": f"`{last[:-3]}` >= 0"}]
    outcomes = [outcome({"$value": "df", **more}, client, tool) for more in references for tool in (LISTS, ROWS, ANY)]
    error = "x: 12,000 columns are too many, the most are 10,000; name fewer"
    assert [end for end in outcomes if end not in ([WIDE, WIDE], error)] == []
    assert f"no column '{last}' can be named: of 12,000 only the first 10,000" in refusal(
        {"x": {"$value": "df", "columns": [last]}}, client
    )


def test_rows_of_an_array_have_the_form_of_the_whole(space, client):
    space["df"] = cube = np.arange(12).reshape(3, 2, 2)
    for selection, rows in (({"rows": [1, 3]}, [1, 2]), ({"query": "`0,0` in [0, 8]"}, [0, 2])):
        reference = {"x": {"$value": "df", **selection}}
        assert resolve_references(reference, client, schema(x=ANY)).arguments["x"] == cube[rows].tolist()


def test_names_of_secrets_in_arrays_are_masked_too(space, client):
    space["df"] = np.array([("a", 1)], [("password", "U1"), ("n", int)])
    masked = resolve_references({"x": {"$value": "df"}}, client, schema(x=ANY), masks=True).arguments["x"]
    assert masked == [{"password": "***", "n": 1}]
    space["df"] = np.array([[{"password": "a"}]], object)
    masked = resolve_references({"x": {"$value": "df"}}, client, schema(x=ANY), masks=True).arguments["x"]
    assert masked == [[{"password": "***"}]]


@pytest.mark.parametrize(
    "value",
    [float("inf"), -np.inf, Decimal("Infinity"), Fraction(-(10**400)), np.float32("inf"), 10**5000],
    ids=["inf", "-inf", "decimal", "fraction", "float32", "integer"],
)
def test_a_number_that_json_lacks_is_an_error(space, client, value):
    space["df"] = [{"a": value}]
    assert "leave out its rows or columns" in refusal({"x": {"$value": "df"}}, client)
    space["df"] = pd.DataFrame({"a": [None, 1.5]})
    assert resolve_references({"x": {"$value": "df"}}, client).arguments["x"] == [{"a": None}, {"a": 1.5}]
