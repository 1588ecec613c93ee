"""Cases from a cell, TOML and tables, what is expected in them, and what errors say."""

from __future__ import annotations

import contextlib
import datetime
import json
from types import SimpleNamespace

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.evaluation.cases import (
    ANY,
    MAX_CALLS,
    Case,
    Expectation,
    ExpectedCall,
    Predicate,
    read_cases,
    read_cell,
    read_expectation,
    read_toml,
)
from tests.support.raising import said
from tests.support.schemas import INTEGER, TEXT, listed, of

SCHEMA = of(location=TEXT, locations=listed(TEXT), days=INTEGER, day={**TEXT, "format": "date"}, text=TEXT)
SCOPE = {"city": "Oslo", "is_warm": lambda value: value > 20, "day": datetime.date(2026, 1, 2)}


def evaluate(source):
    return eval(source, dict(SCOPE))


def arguments(text):
    [call] = read_expectation(text, evaluate=evaluate).calls
    return call.read(SCHEMA)


def test_a_cell_has_a_case_in_each_line():
    cell = """
# Weather
What is the weather in Oslo?          -> weather:get_weather location=Oslo
  Compare London and Tokyo            -> weather:compare locations=["London", "Tokyo"]  # both

Rain in Rome, then in Oslo            -> weather:get_weather location=Rome, weather:get_weather location=Oslo
Rain in Rome and Oslo                 ~> get_weather location=Rome,
                                         get_weather location=Oslo
Find a place                          >= weather:search *
Delete everything                     -> no call
"""
    cases = read_cell(cell, first=2, evaluate=evaluate)
    assert [(case.place, case.text, str(case.expected)) for case in cases] == [
        ("line 4", "What is the weather in Oslo?", "-> weather:get_weather location=Oslo"),
        ("line 5", "Compare London and Tokyo", '-> weather:compare locations=["London", "Tokyo"]'),
        (
            "line 7",
            "Rain in Rome, then in Oslo",
            "-> weather:get_weather location=Rome, weather:get_weather location=Oslo",
        ),
        ("line 8", "Rain in Rome and Oslo", "~> get_weather location=Rome, get_weather location=Oslo"),
        ("line 10", "Find a place", ">= weather:search *"),
        ("line 11", "Delete everything", "-> no call"),
    ]
    assert cases[3].expected.order == "~>"
    assert cases[4].expected.calls[0].others
    assert cases[5].expected == Expectation()


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("What is -5 - 3 -> no call", "What is -5 - 3"),
        ('"What is 3 >= x?" -> no call', "What is 3 >= x?"),
        (r'"Say \"hi\"\nto a -> b"  ~> no call', 'Say "hi"\nto a -> b'),
        (r"'C:\new -> old' -> no call", r"C:\new -> old"),
        ('"Hi", she said -> no call', '"Hi", she said'),
        ("'# no comment'-> no call", "# no comment"),
        ("a->b -> no call", "a->b"),
        ("größe ☃ -> no call", "größe ☃"),
    ],
)
def test_a_request_may_have_any_text(line, request_):
    assert [case.request for case in read_cell(line)] == [request_]


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_a_quoted_request_is_read_as_it_is(text):
    assert read_cell(f"{json.dumps(text)} -> no call")[0].request == text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a:b location=Oslo days=3", {"location": "Oslo", "days": 3}),
        ("a:b location=12", {"location": "12"}),
        ("a:b location='Paris, France'", {"location": "Paris, France"}),
        ("a:b locations=A locations=B", {"locations": ["A", "B"]}),
        ('a:b {"days": 3} location=Oslo', {"days": 3, "location": "Oslo"}),
        ("a:b location=$city", {"location": "Oslo"}),
        ("a:b location={city.upper()}", {"location": "OSLO"}),
        ("a:b day={day}", {"day": "2026-01-02"}),
        ("a:b location=* days=*", {"location": ANY, "days": ANY}),
        ("a:b locations=A locations=*", {"locations": ["A", ANY]}),
        ("""a:b text:='"*"'""", {"text": "*"}),
        (r"a:b text=\{value}", {"text": "{value}"}),
        ("a:b days={value >= 5}", {"days": Predicate("value >= 5", abs)}),
        ("a:b days={is_warm}", {"days": Predicate("is_warm", abs)}),
        ("a:b *", {}),
    ],
)
def test_arguments_are_read_as_the_schema_means_them(text, values):
    assert arguments(text) == values


def test_a_predicate_says_what_is_wrong():
    days = arguments("a:b days={value >= 5}")["days"]
    assert days.problem(5) == ""
    assert days.problem(4) == "does not meet {value >= 5}"
    assert days.problem("x") == (
        "{value >= 5} raises TypeError: '>=' not supported between instances of 'str' and 'int'"
    )


def test_an_expectation_is_shown_without_secrets():
    call = ExpectedCall("a:b", {"token": "x"}, words=("password=hunter2", "text=two words"))
    assert str(call) == 'a:b token=*** password=*** text="two words"'


def test_an_expression_is_evaluated_once():
    sources = []
    case = read_expectation(
        "a:b days={value > 2} text={1 + 1}", evaluate=lambda text: sources.append(text) or eval(text)
    )
    for _ in range(3):
        case.calls[0].read(SCHEMA)
    assert sources == ["lambda value: (value > 2\n)", "1 + 1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("->", "there is no call after the arrow; write server:tool name=value, or 'no call'"),
        ("a:b,", "there is a comma without a call; write server:tool name=value, or 'no call'"),
        ("a:b x=1, y=2", "expected a tool, got 'y=2': a comma separates calls, a space arguments"),
        ("weather get x=1", "a tool is SERVER:TOOL, in one word; did you mean weather:get?"),
        (
            "a:b x",
            "cannot read 'x' as an argument: write name=value, name:=json, or $dict for all arguments",
        ),
        ("a:b x=New York", "cannot read 'York' as an argument; quote it: x='New York'"),
        ("a:b x={1+}", "cannot evaluate '1+': SyntaxError: invalid syntax"),
        ("a:b x=$nothing", "cannot evaluate 'nothing': NameError: name 'nothing' is not defined"),
        (", ".join(["a:b"] * (MAX_CALLS + 1)), "a case may expect 100 calls, not 101"),
    ],
)
def test_an_expectation_that_cannot_be_read_says_why(text, message):
    assert said(ArgumentsError, read_expectation, text) == message


def test_an_argument_that_does_not_fit_says_so():
    assert said(ArgumentsError, arguments, "a:b days=many") == "days: expected integer, got 'many'"


def test_all_lines_that_cannot_be_read_are_told():
    cell = 'Hello\nfine -> no call\n-> a:b\nsay -> it -> a:b\n"\\q" -> a:b\n'
    assert said(ConfigError, read_cell, cell, first=2) == (
        "line 2: no arrow; write Hello -> server:tool name=value, or -> no call\n"
        "line 4: there is no request before the arrow\n"
        "line 5: cannot read '->' as an argument: write name=value, name:=json, or $dict for all arguments; "
        'a request that has an arrow itself goes in quotes: "What is -> here?" -> ...\n'
        "line 6: the quoted request is no JSON string: Invalid \\escape; in single quotes a backslash is one"
    )
    assert said(ConfigError, read_cell, "x\n" * 20).splitlines()[-1] == "and 12 cases more"
    assert said(ConfigError, read_cell, "# nothing").startswith("there are no cases; write a line such as: What is 2 +")


TOML = """
[[case]]
request = "The weather in Oslo?"
expected = "weather:get_weather location=Oslo"

[[case]]
name = "both"
request = [{ role = "user", content = "Rome?" }, { role = "assistant", content = "Sun." }, \
{ role = "user", content = "Oslo?" }]
order = "~>"
expected = [
  { tool = "weather:get_weather", \
arguments = { location = "*", days = "{value > 2}", day = 2026-01-02, text = "\\\\*" } },
  { tool = "weather:search", arguments = "*" },
]
check = "len(run.calls) < 3"

[[case]]
request = "Hello"
expected = []
"""


def test_toml_has_texts_and_tables():
    first, second, third = read_toml(TOML)
    assert str(first.expected) == "-> weather:get_weather location=Oslo"
    assert (second.name, second.text) == ("both", "Oslo?")
    assert second.expected.calls[0].read(SCHEMA) == {
        "location": ANY,
        "days": Predicate("value > 2", abs),
        "day": "2026-01-02",
        "text": "*",
    }
    assert str(second.expected).endswith(", weather:search *")
    assert second.check(SimpleNamespace(calls=[1, 2])) is True
    assert third.expected == Expectation()


def test_toml_that_cannot_be_read_names_the_lines():
    toml = """[[case]]
request = 3
expected = "no call"
[[case]]
request = "a"
[[case]]
request = "a"
expect = "b"
[[case]]
request = "a"
expected = [{ tol = "b" }]
[[case]]
request = "a"
expected = "a:b"
check = "foo("
[[case]]
request = "a"
expected = [{ tool = "a:b" }]
order = "any"
[[case]]
request = "a"
expected = "a:b, a:c"
order = "~>"
"""
    assert said(ConfigError, read_toml, toml, source="cases.toml").splitlines() == [
        "cases.toml:2: request: expected a text or a list of messages, got a number.",
        "cases.toml:4: it has neither expected nor check; a case without calls has expected = 'no call'.",
        "cases.toml:8: expect: unknown key. Did you mean 'expected'?",
        "cases.toml:11: expected.0.tol: unknown key. Did you mean 'tool'?",
        "cases.toml:15: check: cannot evaluate 'foo(': SyntaxError: '(' was never closed",
        "cases.toml:19: order: expected ->, ~>, >=, got 'any'.",
        "cases.toml:23: order: it goes with a list of tables; in a text the arrow comes first, as in '~> a:b, a:c'.",
    ]
    assert said(ConfigError, read_toml, "[[cases]]\nx = 1") == "the TOML has no [[case]]. Did you mean 'cases'?"
    assert said(ConfigError, read_toml, "x", source="c.toml").startswith("c.toml: not TOML: ")


def is_short(run):
    return len(run.calls) < 3


COLUMNS = {
    "request": ["What is the weather?", "Hello", "Hello"],
    "expected": ["~> a:b x=1, a:b x=2", "no call", None],
    "check": [None, None, is_short],
    "area": ["north", "south", "west"],
}


TABLES = [{"tool": "git:add"}, {"tool": "git:commit"}]


@pytest.mark.parametrize("of", [pd.DataFrame, list], ids=["frame", "dicts"])
def test_order_of_a_row_is_that_of_its_list_of_tables(of):
    rows = [{"request": "a", "expected": TABLES, "order": "~>"}, {"request": "b", "expected": TABLES, "order": None}]
    assert [case.expected.order for case in read_cases(of(rows))] == ["~>", "->"]
    with pytest.raises(ConfigError, match="row 0: order: expected ->, ~>, >=, got 'any'"):
        read_cases(of([{"request": "a", "expected": TABLES, "order": "any"}]))
    with pytest.raises(ConfigError, match="row 0: order: it goes with a list of tables"):
        read_cases(of([{"request": "a", "expected": "git:add, git:commit", "order": "~>"}]))


@pytest.mark.parametrize("order", [17, "A-17", pd.NA, None])
def test_column_order_of_other_things_is_left_alone(order):
    for expected in ("git:add", Expectation((ExpectedCall("git:add"),))):
        [case] = read_cases([{"request": "a", "expected": expected, "order": order}])
        assert str(case.expected) == "-> git:add"


@pytest.mark.parametrize(
    "of", [pd.DataFrame, lambda rows: pd.DataFrame(rows).to_dict("records")], ids=["frame", "dicts"]
)
def test_a_table_has_a_case_in_each_row(of):
    cases = read_cases(of(COLUMNS))
    assert [(case.name, case.place) for case in cases] == [
        ("What is the weather?", "row 0"),
        ("Hello", "row 1"),
        ("Hello_2", "row 2"),
    ]
    assert [case.expected and str(case.expected) for case in cases] == ["~> a:b x=1, a:b x=2", "-> no call", None]
    assert [case.check for case in cases] == [None, None, is_short]


def test_a_table_may_hold_values(tmp_path):
    expected = Expectation((ExpectedCall("a:b", {"x": 1}),), ">=")
    messages = [HumanMessage("hi"), AIMessage("Hello."), HumanMessage("and?")]
    [case] = read_cases([{"request": messages, "expected": expected}])
    assert (case.expected, case.text, str(expected)) == (expected, "and?", ">= a:b x=1")
    assert read_cases([case, case])[1].name == "and?_2"
    frame = pl.DataFrame({"request": ["hi"], "expected": ["no call"]})
    assert [case.expected for case in read_cases(frame)] == [Expectation()]
    (tmp_path / "cases.csv").write_text("request,expected\nhi,no call\n")
    (tmp_path / "cases.toml").write_text(TOML)
    assert len(read_cases(tmp_path / "cases.csv")) == 1
    assert len(read_cases(str(tmp_path / "cases.toml"))) == 3
    assert read_cases("hi -> no call") == [Case("hi", Expectation(), name="hi", place="line 1")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            pd.DataFrame({"requests": ["a"], "expected": ["b"]}),
            "the table of cases has no column 'request'; it has requests, expected. Did you mean 'requests'?",
        ),
        (
            pd.DataFrame({"request": ["a", None], "expected": ["no call", float("nan")]}),
            "row 1: it has neither expected nor check; a case without calls has expected = 'no call'.",
        ),
        ([{"request": None, "expected": "no call"}], "row 0: it has no request."),
        ([{"request": "a", "expected": 3}], "row 0: expected: expected a text or a list of tables, got a number."),
        (
            [{"request": "a", "expected": [3]}],
            "row 0: expected.0: expected a table with tool and arguments, got a number.",
        ),
        ([{"request": "a", "expected": [{}]}], "row 0: expected.0: it has no tool."),
        (
            [{"request": "a", "check": 3}],
            "row 0: check: expected a function, or an expression with `run`, got a number.",
        ),
        ([{"request": [3], "check": len}], "row 0: request: expected messages with role and content, got a number."),
        (
            "cases.txt",
            "'cases.txt' has no ending of cases; .toml, .csv, .tsv, .jsonl, .ndjson, .json, .parquet are read",
        ),
        (3, "int has no rows; give a DataFrame, a list of dicts or a file"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(source, message):
    assert said(ConfigError, read_cases, source) == message


def test_no_rows_are_no_cases():
    assert said(ConfigError, read_cases, []).startswith("there are no cases")
    assert said(ConfigError, read_cases, "missing.toml") == "missing.toml: cannot be read: No such file or directory"


PIECES = ["a:b", " -> ", " >= ", ", ", "x=", "{", "}", "[", "]", '"', "'", "\\", "*", "$v", " ", "\n", "#", ":="]


@given(st.lists(st.sampled_from([*PIECES, "no call", "\u2028", "value", "{value}"]), max_size=14).map("".join))
def test_any_cell_has_cases_or_an_error_in_words(cell):
    with contextlib.suppress(ConfigError):
        assert all(str(case.expected) and case.name for case in read_cell(cell))
