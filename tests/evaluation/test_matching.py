"""Whether calls meet an expectation: names of tools, arguments as their schema means them, orders, and what is told."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.errors import ConfigError, UnknownToolError
from mcp_magic.evaluation.cases import Expectation, ExpectedCall, OneOf, read_cell, read_expectation
from mcp_magic.evaluation.matching import MAX_SET, Matcher, maximum_matching
from mcp_magic.langchain.names import provider_name
from tests.support.raising import said
from tests.support.schemas import BOOLEAN, INTEGER, NUMBER, TEXT, listed, of

PLACE = of("city", city=TEXT, country={**TEXT, "default": "NO"})
SCHEMA = {
    "type": "object",
    "properties": {"location": TEXT, "days": {**INTEGER, "default": 1}, "limit": NUMBER, "flag": BOOLEAN}
    | {"day": {**TEXT, "format": "date"}, "when": {**TEXT, "format": "date-time"}, "at": {**TEXT, "format": "time"}}
    | {"id": {**TEXT, "format": "uuid"}, "tags": listed(TEXT), "kinds": {**listed(TEXT), "uniqueItems": True}}
    | {"place": PLACE, "places": listed(PLACE), "maybe": {"anyOf": [{**TEXT, "format": "date"}, {"type": "null"}]}}
    | {
        "password": TEXT,
        "units": {"enum": ["metric", "imperial"], "default": "metric"},
        "orders": listed({"enum": [1, 2]}),
    },
    "required": ["location"],
}
TOOLS = {
    "weather:get_weather": SCHEMA,
    "weather:compare": of(locations=listed(TEXT)),
    "a_:b": {},
    "one:search": {},
    "two:search": {},
    "files:a:b": {},
}
MATCHER = Matcher(TOOLS)


def get(**arguments):
    return ("weather__get_weather", {"location": "Oslo", **arguments})


def match(expected, *calls):
    return MATCHER.match(read_expectation(expected), calls)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("weather:get_weather", "weather:get_weather"),
        ("weather__get_weather", "weather:get_weather"),
        ("get_weather", "weather:get_weather"),
        ("files:a:b", "files:a:b"),
        ("a:b", "files:a:b"),
        (provider_name("a_", "b"), "a_:b"),
        ("b", "a_:b"),
        ("one:search", "one:search"),
    ],
)
def test_a_tool_has_three_names(name, tool):
    assert MATCHER.tool(name) == tool


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weather:get_wether", "there is no tool 'weather:get_wether'. Did you mean 'weather:get_weather'?"),
        ("search", "'search' is a tool of several servers; write one of one:search, two:search"),
        (
            "zzz",
            "there is no tool 'zzz'. There are weather:get_weather, weather:compare, a_:b, one:search, two:search, "
            "files:a:b.",
        ),
    ],
)
def test_a_name_that_is_no_tool_says_so(name, message):
    assert said(UnknownToolError, MATCHER.tool, name) == message


def test_a_tool_without_a_server_has_one_name():
    matcher = Matcher({"read_result": of(name=TEXT)})
    assert matcher.tool("read_result") == "read_result"
    assert matcher.match(read_expectation("read_result name=*"), [("read_result", {"name": "x"})]).right


def test_without_tools_no_name_is_one():
    assert said(UnknownToolError, Matcher({}).tool, "a:b") == "there is no tool 'a:b', because none is offered"


EQUAL = {
    "days=3": {"days": 3},
    "days=4": {"days": 4.0},
    "limit=2.5": {"limit": 2.5},
    "limit=3": {"limit": 3.0},
    "limit=1e3": {"limit": 1000},
    "flag=yes": {"flag": True},
    "day=2026-01-02": {"day": "2026-01-02T00:00:00Z"},
    "when=2026-01-02T00:00:00Z": {"when": "2026-01-02"},
    "when=2026-01-02T10:00:00Z": {"when": "2026-01-02t12:00:00.000+02:00"},
    "when=2026-01-02T10:00": {"when": "2026-01-02T10:00:00Z"},
    "at=10:00": {"at": "10:00:00Z"},
    "maybe=2026-01-02": {"maybe": "2026-01-02T00:00:00+00:00"},
    "id=6ba7b810-9dad-11d1-80b4-00c04fd430c8": {"id": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"},
    "tags=a tags=b": {"tags": ["a", "b"]},
    'tags=["a", "b"] ': {"tags": ["a", "b"]},
    "kinds=a kinds=b": {"kinds": ["b", "a"]},
    "kinds=* kinds=a": {"kinds": ["a", "b"]},
    "kinds=a kinds=*": {"kinds": ["b", "a"]},
    "kinds={value[0]} kinds=b": {"kinds": ["b", "a"]},
    "place.city=Oslo": {"place": {"city": "Oslo", "country": "NO"}},
    "place.city=Oslo place.country=NO": {"place": {"city": "Oslo"}},
    'places=[{"city": "Oslo"}]': {"places": [{"country": "NO", "city": "Oslo"}]},
    "days=1": {},
    "days={value < 2}": {},
    "units=metric": {},
    "": {"days": 1, "units": "metric", "maybe": None},
    "limit={value is None or value > 3}": {},
    "limit=*": {"limit": 3},
    "limit={3 < value < 5}": {"limit": 4},
    "*": {"limit": 3, "tags": []},
    "maybe=null": {},
}

DIFFERENT = {
    "days=3": ({"days": 2}, "days is 2, expected 3"),
    "days=5": ({"days": "5"}, "days is '5', expected 5"),
    "days=1": ({"days": True}, "days is True, expected 1"),
    "limit=3": ({"limit": 3.5}, "limit is 3.5, expected 3"),
    "location=oslo": ({}, "location is 'Oslo', expected 'oslo'"),
    "location=*": ({"limit": 3}, "limit is 3, and is not expected"),
    "day=2026-01-02": ({"day": "2026-01-02T10:00:00Z"}, "day is '2026-01-02T10:00:00Z', expected '2026-01-02'"),
    "day=2026-01-03": ({"day": "tomorrow"}, "day is 'tomorrow', expected '2026-01-03'"),
    "when=2026-01-02T10:00Z": ({"when": "2026-01-02T10:00+01:00"}, "when is '2026-01-02T10:00+01:00', expected "),
    "tags=a tags=b": ({"tags": ["b", "a"]}, "tags[0] is 'b', expected 'a'"),
    "tags=a": ({"tags": ["a", "b"]}, "tags is ['a', 'b'] with 2 items, expected 1"),
    "orders=1 orders=2": ({"orders": [2, 1]}, "orders[0] is 2, expected 1"),
    "kinds=a kinds=b": ({"kinds": ["b", "c"]}, "kinds[0] is 'b', expected 'a'"),
    "place.city=Oslo": ({"place": {"city": "Rome"}}, "place.city is 'Rome', expected 'Oslo'"),
    "place.city=Rome": ({"place": {"city": "Rome", "x": 1}}, "place.x is 1, and is not expected"),
    "place.city=Bergen": ({"place": "Bergen"}, "place is 'Bergen', expected {'city': 'Bergen'}"),
    "days=2": ({}, "days is left out, expected 2"),
    "limit=4": ({}, "limit is left out, expected 4"),
    "days=*": ({}, "days is left out, expected a value"),
    "limit={value > 3}": ({}, "limit is left out, expected {value > 3}"),
    "limit={value > 4}": ({"limit": 4}, "limit is 4, which does not meet {value > 4}"),
    "limit={value[0]}": ({"limit": 4}, "limit is 4, which {value[0]} raises TypeError: 'int' object is not"),
    "": ({"password": "hunter2"}, "password is ***, and is not expected"),
    "password=hunter3": ({"password": "hunter2"}, "password is ***, expected ***"),
    "units=imperial": ({}, "units is left out, expected 'imperial'"),
}


@pytest.mark.parametrize("words", EQUAL)
def test_arguments_are_equal_as_the_schema_means_them(words):
    expected = f"weather:get_weather {words}" if "location" in words else f"weather:get_weather location=Oslo {words}"
    assert match(expected, get(**EQUAL[words])).differences == ()


@pytest.mark.parametrize("words", DIFFERENT)
def test_arguments_that_differ_are_told_in_a_line(words):
    arguments, difference = DIFFERENT[words]
    expected = f"get_weather {words}" if "location" in words else f"get_weather location=Oslo {words}"
    result = match(expected, get(**arguments))
    assert (result.right, result.right_tool, result.right_arguments) == (False, True, False)
    assert str(result).startswith(f"weather:get_weather: {difference}")
    assert "\n" not in str(result)


def test_a_large_set_is_compared_without_pairs():
    texts = [f"t{number}" for number in range(MAX_SET + 1)]
    expected = Expectation((ExpectedCall("get_weather", {"location": "Oslo", "kinds": texts}),))
    assert MATCHER.match(expected, [get(kinds=texts[::-1])]).right
    assert not MATCHER.match(expected, [get(kinds=["x", *texts[1:]])]).right


def test_one_of_several_values_is_right():
    expected = Expectation(
        (ExpectedCall("get_weather", {"location": OneOf(("Oslo", "oslo")), "limit": OneOf((3,), True)}),)
    )
    assert MATCHER.match(expected, [get()]).right
    assert MATCHER.match(expected, [get(limit=3.0)]).right
    assert str(MATCHER.match(expected, [get(location="Rome")])) == (
        "weather:get_weather: location is 'Rome', expected Oslo or oslo"
    )


def test_texts_may_be_made_equal():
    matcher = Matcher(TOOLS, plain=str.lower)
    assert matcher.match(read_expectation("get_weather location=OSLO"), [get()]).right


OSLO, ROME, BOTH = get(), get(location="Rome"), ("compare", {"locations": ["Rome", "Oslo"]})
A, B, C = "get_weather location=Oslo", "get_weather location=Rome", 'compare locations=["Rome", "Oslo"]'

ORDERS = [
    ("no call", [], (True, True, None), ""),
    ("no call", [OSLO], (False, False, None), "weather:get_weather location='Oslo' is not expected, nor is any call"),
    (f"-> {A}", [], (False, False, None), f"there is no call {A}"),
    (f"-> {A}", [OSLO], (True, True, True), ""),
    (f"-> {A}", [OSLO, OSLO], (False, False, None), "weather:get_weather location='Oslo' is not expected"),
    (f"-> {A}, {B}", [OSLO, ROME], (True, True, True), ""),
    (
        f"-> {A}, {B}",
        [ROME, OSLO],
        (False, True, False),
        "the order is weather:get_weather location='Rome', weather:get_weather location='Oslo'",
    ),
    (f"-> {A}, {C}", [BOTH, OSLO], (False, False, None), "the order is weather:compare locations=['Rome', 'Oslo'], "),
    (f"-> {A}, {B}, {C}", [ROME, BOTH], (False, False, None), f"there is no call {A}"),
    (f"-> {A}", [BOTH], (False, False, None), f"weather:compare locations=['Rome', 'Oslo'] instead of {A}"),
    (f"~> {A}, {B}", [ROME, OSLO], (True, True, True), ""),
    (f"~> {A}, {B}", [ROME, ROME], (False, True, False), "weather:get_weather: location is 'Rome', expected 'Oslo'"),
    (f"~> {A}, {B}", [ROME], (False, False, None), f"there is no call {A}"),
    (f"~> {A}, {B}", [ROME, BOTH], (False, False, None), f"weather:compare locations=['Rome', 'Oslo'] instead of {A}"),
    (f"~> {A}", [OSLO, BOTH], (False, False, None), "weather:compare locations=['Rome', 'Oslo'] is not expected"),
    ("~> get_weather location=*, get_weather location=Oslo", [OSLO, ROME], (True, True, True), ""),
    (f">= {A}", [BOTH, ROME, OSLO], (True, True, True), ""),
    (f">= {A}, {C}", [BOTH, OSLO], (True, True, True), ""),
    (f">= {A}", [BOTH], (False, False, None), f"there is no call {A}"),
    (f">= {A}, {A}", [OSLO], (False, False, None), f"there is no call {A}"),
    (f">= {A}", [ROME], (False, True, False), "weather:get_weather: location is 'Rome', expected 'Oslo'"),
]


@pytest.mark.parametrize(("expected", "calls", "verdict", "difference"), ORDERS, ids=range(len(ORDERS)))
def test_calls_meet_an_expectation(expected, calls, verdict, difference):
    result = match(expected, *calls)
    assert (result.right, result.right_tool, result.right_arguments) == verdict
    assert str(result).startswith(difference or "right")
    assert len(result.differences) == (difference != "")


def test_equal_differences_are_counted():
    result = match(f"-> {A}", *[OSLO] * 4)
    assert str(result) == "weather:get_weather location='Oslo' is not expected (3 times)"


def test_pairs_say_which_tool_was_taken_for_which():
    weather, compare = "weather:get_weather", "weather:compare"
    assert match(f"-> {A}, {C}", BOTH).pairs == ((weather, None), (compare, compare))
    assert match(f"-> {A}", BOTH).pairs == ((weather, compare),)
    assert match(f"~> {A}, {B}", BOTH, ("made_up", {}), ROME).pairs == (
        (weather, weather),
        (weather, compare),
        (None, "made_up"),
    )
    assert match("no call", OSLO).pairs == ((None, weather),)
    assert match(f">= {A}", OSLO, BOTH).pairs == ((weather, weather),)


def test_a_tool_that_is_not_offered_is_never_right():
    result = Matcher({"weather:compare": {}}).match(read_expectation(A), [("get_weather", {"location": "Oslo"})])
    assert (result.right, result.right_tool) == (False, False)
    assert str(result) == f"get_weather location='Oslo' instead of {A}"
    assert not match("search", ("search", {})).right


def test_many_differences_are_counted():
    assert match("no call", *[OSLO] * 50).differences[-1] == "and 42 more"


def test_arguments_that_nest_deeply_are_not_right():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    expected = Expectation((ExpectedCall("one:search", {"x": deep}),))
    assert str(MATCHER.match(expected, [("one:search", {"x": deep})])) == (
        "one:search: the arguments are nested too deeply to be compared"
    )


def test_a_file_is_read_once(tmp_path):
    file = tmp_path / "place.txt"
    file.write_text("Oslo")
    [case] = read_cell(f"Where? -> get_weather location=@{file}")
    matcher = Matcher(TOOLS)
    matcher.check([case])
    file.unlink()
    assert matcher.match(case.expected, [OSLO]).right


def test_cases_are_checked_against_the_tools():
    cell = """ok -> weather:get_weather location=Oslo
nothing -> no call
Paris -> get_weather location=Paris, France
misspelt -> get_weather loction=Oslo
unfit -> get_weather location=Oslo days=many
unread -> search
"""
    assert said(ConfigError, MATCHER.check, read_cell(cell)).splitlines() == [
        "line 3: there is no tool 'France'. There are weather:get_weather, weather:compare, a_:b, one:search, "
        "two:search, files:a:b. A value with a comma and a space goes in quotes.",
        "line 4: get_weather: unknown argument 'loction'. Did you mean 'location'? It takes location, days, limit, "
        "flag, day, when, at, id, tags, kinds, place, places and 4 more",
        "line 5: get_weather: days: expected integer, got 'many'",
        "line 6: 'search' is a tool of several servers; write one of one:search, two:search",
    ]
    assert MATCHER.check(read_cell("ok -> weather:get_weather location=Oslo")) is None


@given(st.integers(0, 4), st.integers(0, 4), st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))))
def test_no_larger_matching_exists(left, right, edges):
    owners = maximum_matching(left, right, lambda i, j: (i, j) in edges)
    assert all((i, j) in edges for i, j in owners.items())
    assert len(set(owners.values())) == len(owners)
    best = max(
        sum((i, j) in edges for i, j in zip(range(left), order, strict=False))
        for order in itertools.permutations([*range(right), *range(-left, 0)], left)
    )
    assert len(owners) == best


@given(
    st.lists(st.sampled_from([OSLO, ROME, BOTH]), max_size=4),
    st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=4),
)
def test_orders_agree_with_each_other(calls, expected):
    texts = {A: OSLO, B: ROME, C: BOTH}
    wanted = [texts[text] for text in expected]
    exact, any_order, at_least = (match(f"{arrow} {', '.join(expected)}", *calls) for arrow in ("->", "~>", ">="))
    assert exact.right == (calls == wanted)
    assert any_order.right == (sorted(map(repr, calls)) == sorted(map(repr, wanted)))
    assert at_least.right == all(calls.count(call) >= wanted.count(call) for call in wanted)
    for result in (exact, any_order, at_least):
        assert result.right == (result.differences == ()) == (result.right_tool and result.right_arguments is True)
