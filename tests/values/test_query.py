"""Queries over columns: what fits, and all that is not valid in them."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import re
import zoneinfo
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.values.query import select
from mcp_magic.values.reading import Reader
from mcp_magic.values.tables import table_of

if TYPE_CHECKING:
    from mcp_magic.values.rows import Table

ROWS = [
    {"city": "Oslo", "n": 1, "price": 1.5, "ok": True, "unit price": 3, "when": datetime.date(2026, 1, 1), "mix": "a"},
    {"city": "Rome", "n": 2, "price": None, "ok": False, "unit price": 4, "when": datetime.date(2026, 2, 1), "mix": 2},
    {"city": None, "n": 3, "price": 2.5, "ok": None, "unit price": 5, "when": None, "mix": [1]},
    {"city": "Bonn", "n": 4, "price": 4.0, "ok": True, "unit price": 6, "when": datetime.date(2026, 4, 1), "mix": 2.5},
]
FRAME = pd.DataFrame(ROWS)
TYPED = FRAME.convert_dtypes().astype({"city": "category", "when": "datetime64[ns]"})


def table(value: object) -> Table:
    result = table_of(value)
    assert result is not None
    return result


@pytest.mark.parametrize("value", [ROWS, FRAME, TYPED], ids=["list", "frame", "typed_frame"])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("n > 2", [2, 3]),
        ("n > 2 and price < 3", [2]),
        ("(n > 2) & (price < 3)", [2]),
        ("n == 1 or n == 4", [0, 3]),
        ("not n == 1", [1, 2, 3]),
        ("1 < n <= 3", [1, 2]),
        ("price > 2", [2, 3]),
        ("price != 2.5", [0, 3]),
        ("not price > 2", [0]),
        ("price is null", [1]),
        ("price is not null and city is not None", [0, 3]),
        ("price == null", [1]),
        ('city == "Rome"', [1]),
        ('city != "Rome"', [0, 3]),
        ('city in ["Rome", "Bonn"]', [1, 3]),
        ('city not in ("Rome", "Bonn")', [0]),
        ('city in ["Rome", null]', [1, 2]),
        ("n in [1, 4.0, -1]", [0, 3]),
        ('"o" in city', [0, 1, 3]),
        ('"s" not in city', [1, 3]),
        ('city < "P"', [0, 3]),
        ("ok", [0, 3]),
        ("not ok", [1]),
        ("ok == false", [1]),
        ("ok and n > 1", [3]),
        ("ok or n > 1", [0, 1, 2, 3]),
        ("n * 2 - 1 >= 5", [2, 3]),
        ("n % 2 == 0 and n // 2 == 1", [1]),
        ("n / (n - 1) > 0", [1, 2, 3]),
        ("-n < -3", [3]),
        ("`unit price` == 4", [1]),
        ("`unit price` - n == 2 and n == 1", [0]),
        ('when >= "2026-02-01"', [1, 3]),
        ('when == "2026-01-01"', [0]),
        ('when < "2026-01-31T23:00:00+02:00"', [0]),
        ('mix == "a"', [0]),
        ("mix >= 2", [1, 3]),
        ("mix is null", []),
        ("n >\n2", [2, 3]),
        ("true", [0, 1, 2, 3]),
        ("ok == 1", [0, 3]),
        ('city != "#"', [0, 1, 3]),
        ("n == 1or n == 0x4", [0, 3]),
        ("n==1.or n in[2]", [0, 1]),
    ],
)
def test_rows_that_fit_a_query_are_selected(value, query, rows):
    assert select(table(value), query, range(4)) == rows


def test_only_the_rows_in_question_are_looked_at():
    assert select(table(FRAME), "n > 0", range(1, 4, 2)) == [1, 3]


def test_numbers_are_compared_exactly():
    large = table([{"n": 2**53}, {"n": 2**53 + 1}, {"n": 10**400}, {"n": decimal.Decimal("0.5")}])
    assert select(table([2**53, 2**53 + 1]), f"value == {2**53 + 1}", range(2)) == [1]
    assert select(large, "n < 1", range(4)) == [3]


VALID = (
    "\nValid are columns, numbers, texts, lists, comparisons, `in`, `is null`, `and`, `or`, `not`, and + - * / // %, "
    'such as: price > 10 and city in ["Oslo", "Rome"]'
)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("n.real > 1", f"query: an attribute is not valid here.{VALID}"),
        ("`unit price`.x", f"query: an attribute is not valid here.{VALID}"),
        ("city.__class__ == 1", f"query: an attribute is not valid here.{VALID}"),
        ("open('x')", f"query: a call is not valid here.{VALID}"),
        ("__import__('os')", f"query: a call is not valid here.{VALID}"),
        ("n[0] == 1", f"query: an index is not valid here.{VALID}"),
        ("[x for x in n]", f"query: a loop is not valid here.{VALID}"),
        ("n in [x for x in n]", f"query: a loop is not valid here.{VALID}"),
        ("f'{n}' == city", f"query: an f-string is not valid here.{VALID}"),
        ("(n := 1) == 1", f"query: an assignment is not valid here.{VALID}"),
        ("(lambda: 1) == 1", f"query: a function is not valid here.{VALID}"),
        ("n if ok else n", f"query: `if` is not valid here.{VALID}"),
        ("9 ** 9 ** 9 > n", f"query: `**` is not valid here.{VALID}"),
        ("n << 9 > 1", f"query: `<<` is not valid here.{VALID}"),
        ("n @ n", f"query: `@` is not valid here.{VALID}"),
        ("@n > 1", f"query: it cannot be read: '@n > 1'.{VALID}"),
        ("unit price > 3", f"'unit price > 3'. A column with a blank is written `unit price`.{VALID}"),
        ("n = 1", f"query: it cannot be read: 'n = 1'. Equality is ==.{VALID}"),
        ('city like "x"', "Write `and`, `or`, `not`, `in`, `is null`; a text is searched with"),
        ("n BETWEEN 1 AND 2", f"'n BETWEEN 1 AND 2'. A range is written 1 <= price <= 2.{VALID}"),
        ("n <> 1", f"'n <> 1'. Inequality is !=.{VALID}"),
        ("n == 1 AND n == 2", "'n == 1 AND n == 2'. Write `and`, `or`, `not`, `in`, `is null`;"),
        ("n > 0 # x\n and n > 9", "query: `#` stands in texts and in names only; a column is written `item #`."),
        ("b'x' == city", f"query: b'x' is neither number nor text.{VALID}"),
        ("... == n", f"query: ... is neither number nor text.{VALID}"),
        ("'x' * 99999999 == city", "query: 'x' is no number"),
        ("city * 3 == 1", "query: city holds text, not numbers"),
        ("city > 3", "query: city holds text, not numbers"),
        ("n == 'x'", "query: n holds numbers, not text"),
        ("when > 3", 'query: when holds times, not numbers; a time is written "2026-01-31"'),
        ("when > 'May'", "query: a time is written \"2026-01-31\" or \"2026-01-31T12:00\", not 'May'"),
        ("n", f"query: n is no condition: compare it, as in `price > 10`.{VALID}"),
        ("1 < 2", "query: it compares 1 with 2: name a column"),
        ("n is 1", "query: `is` asks for missing values only: `x is null`, `x is not null`; else write =="),
        ("cty == 1", "query: no column 'cty'. Did you mean 'city'? There are: "),
        ("`unit prise` == 1", "query: no column 'unit prise'. Did you mean 'unit price'?"),
        ("n == " + "9" * 30, "query: a number has more than 64 bits"),
        ("n == " + "9" * 1990, "query: a number has more than 64 bits"),
        ("n == 1 " * 300, "query: it has 2,100 characters, and at most 2,000 are read"),
        ("-" * 1900 + "n > 1", "query: it is too long or too deep: at most 800 parts in 40 levels"),
        ("(" * 500, "query: it cannot be read"),
        ("not " * 450 + "n", "query: it"),
        ("n == 1 and " * 180 + "n == 1", "query: it is too long or too deep"),
        ("\0", "query: it cannot be read"),
        ("", "query: it cannot be read"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_named(query, message):
    with pytest.raises(ArgumentsError, match=re.escape(message)):
        select(table(FRAME), query, range(4))


def test_what_cannot_be_compared_says_so():
    frame = pd.DataFrame({"z": [1 + 0j, None], "raw": [b"a", None], "many": [[1], None], "mix": ["a", 1]})
    rows = table(frame)
    for name in ("z", "raw", "many"):
        for query in (f"{name} == 1", f'"a" in {name}', f"{name} in [1]", f"mix == {name}", f"{name} == {name}"):
            with pytest.raises(ArgumentsError, match=f"^query: {name} holds values that cannot be compared, only by"):
                select(rows, query, range(2))
    assert select(rows, "raw is null and many is null", range(2)) == [1]
    for array in (np.array([b"a"]), np.array([1j])):
        with pytest.raises(ArgumentsError, match="query: value holds values that cannot be compared"):
            select(table(array), "value == 1", range(1))


@pytest.mark.parametrize(
    ("value", "query"),
    [
        (pd.Series(pd.period_range("2020-01", periods=2, freq="M")), 'value > "2020-01"'),
        (pd.Series(pd.period_range("2020-01", periods=2, freq="M"), dtype=object), "value is not null and true"),
        ([datetime.time(1), datetime.time(2), None], 'value == "02:00:00"'),
        ([datetime.timedelta(1), datetime.timedelta(2), None], "value > 86400"),
        ([pd.Timedelta(1, "D"), pd.Timedelta(2, "D"), None], "value > 86400"),
        (np.array([-(2**63) + 1, -(2**63)]), f"value == {-(2**63)}"),
        (np.array([0, 2**63], "uint64"), f"value == {2**63}"),
        (np.array([0, 2**64 - 1], "uint64"), f"value in [{2**64 - 1}]"),
    ],
)
def test_values_of_other_classes_are_compared(value, query):
    assert select(table(value), query, range(len(value)))[-1:] == [1]


def test_a_column_is_named_as_it_is_written():
    micro, mu = "\N{MICRO SIGN}m", "\N{GREEK SMALL LETTER MU}m"
    assert select(table([{micro: 1}, {micro: 2}]), f"{micro} > 1", range(2)) == [1]
    assert select(table([{micro: 1, mu: 2}]), f"{mu} == 2 and `{micro}` == 1", range(1)) == [0]
    masked = table([{"api_\N{FULLWIDTH LATIN SMALL LETTER K}ey": "sesame", "api_key": "x"}])
    with pytest.raises(ArgumentsError, match="the column 'api_key' is masked"):
        select(masked, "api_\N{FULLWIDTH LATIN SMALL LETTER K}ey is null", range(1))


@pytest.mark.parametrize(
    "query",
    ["1in city", r'"\d" in city', r'r"\d" in city', r"'\777' in city", "1if n else 2", "0xfor n"],
)
@pytest.mark.filterwarnings("error")
def test_nothing_is_printed_about_a_query(query):
    with contextlib.suppress(ArgumentsError):
        select(table(FRAME), query, range(4))


def test_an_unknown_escape_is_two_characters():
    rows = table([{"path": r"C:\data"}, {"path": "Cdata"}])
    for query in (r'"\d" in path', r'r"\d" in path', r'"\\d" in path'):
        assert select(rows, query, range(2)) == [0]


def test_texts_are_searched_for_secrets_in_parts():
    lengths: list[int] = []

    def hide(text: str) -> str:
        lengths.append(len(text))
        return text

    assert select(table(["x" * 400_000] * 10), '"foo" in value', range(10), hide) == []
    assert len(lengths) == 4
    assert max(lengths) < 1_300_000


def test_more_text_than_can_be_searched_is_refused(monkeypatch):
    rows = table(["x" * 1_000_000] * 300)
    read: list[str] = []

    def hide(text: str) -> str:
        read.append(text)
        return text

    problem = "the texts have 250,000,000 characters, and at most 200,000,000 are read; name fewer rows, such as rows="
    with pytest.raises(ArgumentsError, match=f'^query: {problem}"50:250"$'):
        select(rows, '"foo" in value', range(50, 300), hide)
    assert read == []
    monkeypatch.setattr("mcp_magic.values.query.MAX_SEARCHED", 3_000_000)
    assert select(rows, '"foo" in value', range(3)) == []
    with pytest.raises(ArgumentsError, match=r'at most 1,000,000 are searched; name fewer rows, such as rows="0:1"'):
        select(rows, '"foo" in value or "bar" in value', range(2))


def test_a_long_query_over_many_rows_is_refused():
    rows = table(pd.DataFrame({"n": range(1_000_000)}))
    with pytest.raises(ArgumentsError, match="it is too long for 1,000,000 rows; shorten it, or name fewer rows"):
        select(rows, " or ".join(["n == 1"] * 50), range(1_000_000))


def test_secrets_cannot_be_searched_for():
    frame = table(pd.DataFrame({"api_key": ["sk-1"], "text": ["the key is sesame"], "mix": ["sesame"]}).assign(n=[1]))
    frame_of_objects = table([{"mix": "sesame"}, {"mix": 1}])
    with pytest.raises(ArgumentsError, match="query: the column 'api_key' is masked, as its name is a secret's"):
        select(frame, '"s" in api_key', range(1))

    def hide(text: str) -> str:
        return text.replace("sesame", "***")

    assert select(frame, '"sesame" in text', range(1), hide) == []
    assert select(frame, '"is ***" in text', range(1), hide) == [0]
    assert select(frame_of_objects, 'mix == "sesame"', range(2), hide) == []


def test_cells_of_other_classes_are_never_asked():
    class Trap:
        def __eq__(self, other):
            raise SystemExit

        __lt__ = __bool__ = __float__ = __str__ = __contains__ = __eq__  # type: ignore[assignment]
        __hash__ = None  # type: ignore[assignment]

    class Word(str):
        __eq__ = Trap.__eq__  # type: ignore[assignment]
        __hash__ = str.__hash__

    for value in (
        pd.DataFrame({"x": [Trap(), Word("a"), 1, "b"]}),
        [{"x": Trap()}, {"x": Word("a")}, {"x": 1}, {"x": "b"}],
    ):
        rows = table(value)
        assert select(rows, "x == 1", range(4)) == [2]
        assert select(rows, '"b" in x', range(4)) == [3]
        assert select(rows, 'x in ["a", "b", 1]', range(4)) == [1, 2, 3]
        assert select(rows, "x is null", range(4)) == []
        with pytest.raises(ArgumentsError, match="x and x hold values of several kinds"):
            select(rows, "x == x", range(4))


def test_a_missing_cell_of_several_kinds_is_no_value():
    frame = pd.DataFrame({"c": pd.Categorical([1, "a", None, "a"], categories=[1, "a"])})
    assert select(table(frame), "c == 'a'", range(4)) == [1, 3]
    assert select(table(frame), "c != 'b'", range(4)) == [1, 3]
    assert select(table(frame), "c is null", range(4)) == [2]


ZONE = zoneinfo.ZoneInfo("Europe/Oslo")
MOMENTS = [
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZONE),
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1),
]


@pytest.mark.parametrize(
    "value",
    [MOMENTS, pd.Series(MOMENTS), pd.Series(MOMENTS, dtype=object), pd.Series(MOMENTS, dtype="category")],
    ids=["list", "series", "objects", "categories"],
)
def test_a_time_without_a_zone_is_compared_with_what_is_shown(value):
    column = table(value)
    assert select(column, 'value == "2026-10-25T02:30"', range(2)) == [0, 1]
    assert select(column, 'value in ["2026-10-25T02:30", null]', range(2)) == [0, 1]
    assert select(column, 'value == "2026-10-25T02:30+02:00"', range(2)) == [0]
    assert select(column, '"2026-10-25T01:30Z" == value', range(2)) == [1]
    assert select(column, 'value == "2026-10-25T00:30"', range(2)) == []
    assert "2026-10-25T02:30:00 to 2026-10-25T02:30:00" in Reader().describe(value, "times")


def test_large_integers_are_compared_exactly():
    frame = pd.DataFrame({"id": [2**63 + 1, 2**63 + 2, None]}, dtype=object)
    assert select(table(frame), f"id == {2**63 + 2}", range(3)) == [1]
    assert select(table(frame), f"id in [{2**63 + 1}]", range(3)) == [0]
    assert select(table(frame), f"id < {2**63 + 2} and id - 1 > 0", range(3)) == [0]
    assert "1 missing, 9.22337e+18 to 9.22337e+18" in Reader().describe(frame, "ids")


def test_texts_are_compared_as_they_are_shown():
    class Kind(enum.StrEnum):
        OTHER = "b"

    frame = pd.DataFrame(
        {"b": [np.str_("a"), "a", Kind.OTHER, type("Text", (str,), {"__eq__": None})("a")]}, dtype=object
    )
    assert select(table(frame), "b == 'a'", range(4)) == [0, 1, 3]
    assert select(table([np.str_("a"), np.str_("b")]), "value == 'b'", range(2)) == [1]
