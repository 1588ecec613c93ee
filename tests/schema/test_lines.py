from __future__ import annotations

import shlex
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import call_line, parse_arguments, prompt_line
from tests.support.strategies import QUICK, called, json_values, names


def read(line: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Read a line as the magic does: a scope is there, and nothing in the line may ask it."""
    words = shlex.split(line, posix=True)
    assert words[:3] == ["%mcp", "call", "srv:tool"]
    return parse_arguments(words[3:], schema, evaluate=pytest.fail)


@QUICK
@given(called())
@example(({"properties": {"a": {"type": ["string", "null"]}}}, {"a": "null"}))
@example(({"properties": {"a": {"minimum": 3}}}, {"a": "5"}))
def test_a_line_reads_back_as_the_arguments_it_was_written_for(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, arguments = case
    assert repr(read(call_line("srv:tool", arguments, schema=schema), schema)) == repr(arguments)


@QUICK
@given(called())
def test_line_written_without_schema_reads_back(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, arguments = case
    assert repr(read(call_line("srv:tool", arguments), schema)) == repr(arguments)


@QUICK
@given(st.dictionaries(names, json_values, max_size=3))
def test_a_line_reads_back_for_an_open_schema(arguments: dict[str, Any]) -> None:
    assert repr(read(call_line("srv:tool", arguments), {"type": "object"})) == repr(arguments)


@QUICK
@given(st.dictionaries(st.just("a"), json_values))
def test_values_never_break_the_line(arguments: dict[str, Any]) -> None:
    assert len(call_line("srv:tool", arguments).splitlines()) == 1


SCHEMA = {
    "properties": {
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"x": {"type": "number"}}},
        "text": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
    }
}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"n": 3}, "%mcp call srv:tool n=3"),
        ({"n": 2**80}, f"%mcp call srv:tool n={2**80}"),
        ({"tags": ["a", "b"]}, "%mcp call srv:tool tags=a tags=b"),
        ({"tags": list("abcde")}, """%mcp call srv:tool 'tags:=["a", "b", "c", "d", "e"]'"""),
        ({"tags": []}, "%mcp call srv:tool 'tags:=[]'"),
        ({"at": {"x": 1.5}}, "%mcp call srv:tool at.x=1.5"),
        ({"text": "12"}, "%mcp call srv:tool text=12"),
        ({"text": "$5"}, r"%mcp call srv:tool 'text=\$5'"),
        ({"text": "a\nb"}, r"""%mcp call srv:tool 'text:="a\nb"'"""),
        ({"text": "a\u2028b"}, r"""%mcp call srv:tool 'text:="a\u2028b"'"""),
        ({"text": "Zürich"}, "%mcp call srv:tool 'text=Zürich'"),
        ({"maybe": "null"}, """%mcp call srv:tool 'maybe:="null"'"""),
        ({"maybe": None}, "%mcp call srv:tool maybe:=null"),
    ],
)
def test_the_simplest_spelling_is_chosen(arguments: dict[str, Any], line: str) -> None:
    assert call_line("srv:tool", arguments, schema=SCHEMA) == line


def test_names_that_would_be_options_or_nesting_are_escaped() -> None:
    assert call_line("t", {"--df": "x", "a.b": "y"}) == r"%mcp call t '\--df=x' 'a\.b=y'"


def test_what_is_no_json_has_no_line() -> None:
    with pytest.raises(ArgumentsError, match=r"^x: no JSON value: "):
        call_line("t", {"x": float("nan")})


def test_a_prompts_line() -> None:
    assert prompt_line("srv:review", {"code": "x = 1", "n": "5"}) == "%mcp prompt srv:review 'code=x = 1' n=5"


LOCATIONS = {"properties": {"locations": {"type": "array", "items": {"type": "string"}}}}
COLUMNS = {
    "likely": (["n", "location"], "locations=$df", "locations={df.location}"),
    "text": (["n", "city"], "locations={df}", "locations={df.city}"),
    "blank": (["n", "the city"], "locations=$df", 'locations={df["the city"]}'),
    "method": (["n", "mode"], "locations=$df", 'locations={df["mode"]}'),
    "part": (["n", "city"], "locations={df[:1]}", "locations={(df[:1]).city}"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_table_for_a_list_of_texts_names_a_column(name: str) -> None:
    columns, written, line = COLUMNS[name]
    frame = pd.DataFrame([[1, "Oslo"]], columns=columns)

    def evaluate(source: str) -> Any:
        return eval(source, {"df": frame})

    with pytest.raises(ArgumentsError) as raised:
        parse_arguments([written], LOCATIONS, evaluate=evaluate)
    expected = "locations: expected list of string, got a DataFrame; give one of its columns: "
    assert str(raised.value) == expected + line
    assert parse_arguments([line], LOCATIONS, evaluate=evaluate) == {"locations": ["Oslo"]}
