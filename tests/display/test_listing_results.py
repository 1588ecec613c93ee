"""Listings: tables of what there is, in a terminal, on a page, and as a sequence."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.display.document import Part, aligned, facts, width
from mcp_magic.display.listing import LazyRows
from mcp_magic.results import Listing
from tests.support.showcase import bundle

ROWS: list[dict[str, Any]] = [
    {"name": "weather", "state": "open", "tools": 3, "trusted": True},
    {"name": "math", "state": None, "tools": 12, "trusted": False},
]
SERVERS = Listing(ROWS, title="servers", kind="servers", note="%mcp connect TARGET opens one")
SHOWN = """\
servers
name     state  tools  trusted
weather  open       3  yes
math               12  no
%mcp connect TARGET opens one"""


def test_a_listing_is_a_table_in_a_terminal_and_a_page():
    assert bundle(SERVERS)["text/plain"] == SHOWN
    left = '<td style="text-align:left">'  # also where a notebook is not trusted, and has no style sheet of ours
    line = '<tr style="border-bottom:1px solid rgba(127,127,127,0.35)">'
    page = bundle(SERVERS)["text/html"]
    assert f'{line}{left}weather</td>{left}open</td><td class="mcp-number">3</td>{left}yes</td></tr>' in page
    _, _, body = page.partition("</style>")
    assert body.count('<tr style="border-bottom:1px solid') == len(ROWS)
    assert '<p class="mcp-note" style="opacity:.7;' in body
    assert 'font-weight:normal;opacity:.7">key</th>' in facts([("key", "value")])
    assert '<pre class="mcp-line" style="background:rgba(' in Part.command("%mcp").html
    assert "opacity:1!important" in page  # where the style sheet is, the theme has the colours


def test_a_listing_is_a_sequence_and_a_frame():
    assert len(SERVERS) == 2
    assert [row["name"] for row in SERVERS] == ["weather", "math"]
    assert SERVERS[0] == ROWS[0]
    assert SERVERS[-1]["tools"] == 12
    assert isinstance(SERVERS[1:], Listing)
    assert SERVERS[1:].rows == ROWS[1:]
    assert SERVERS[:] == SERVERS
    assert (ROWS[0] in SERVERS, "math" in SERVERS, "open" in SERVERS) == (True, True, False)
    assert repr(SERVERS) == "<Listing of 2 servers>"
    assert SERVERS.df["tools"].tolist() == [3, 12]
    assert list(SERVERS.df.columns) == ["name", "state", "tools", "trusted"]
    assert bundle(Listing(ROWS, columns=["tools", "name"]))["text/plain"].splitlines()[1] == "    3  weather"
    nothing = Listing([], empty="no servers: %mcp connect TARGET", columns=["name"])
    assert bundle(nothing)["text/plain"] == "no servers: %mcp connect TARGET"
    assert not nothing
    assert list(nothing.df.columns) == ["name"]


def test_a_long_listing_says_how_many_more_there_are():
    shown = bundle(Listing([{"n": i} for i in range(450)], kind="tools"))
    assert shown["text/plain"].endswith("199\n… 250 more tools: .df has all 450")
    assert shown["text/html"].count("<tr") == 201
    rows = [{"name": str(i), "description": "&" * 10_000} for i in range(5000)]
    assert sum(len(part.encode()) for part in bundle(Listing(rows)).values()) < 200_000


def test_rows_are_fitted_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = bundle(Listing([{"name": "a", "description": "long " * 50, "n": 1}]))["text/plain"]
    assert max(map(len, shown.splitlines())) == 40
    assert "…" in shown
    assert bundle(Listing([{"a": "one\n\ntwo"}]))["text/plain"] == "a\none two"


def test_names_that_are_typed_are_never_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    names = ["everything:get-annotated-message", f"files:{'long_' * 20}name"]
    arguments = "messageType, includeImage, " * 3
    shown = bundle(Listing([{"tool": n, "arguments": arguments, "description": "Does it. " * 9} for n in names]))
    lines = shown["text/plain"].splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["tool", *names]
    assert lines[1].split()[1] == "messageType,", "a short one has its row"
    assert lines[lines.index(names[1]) + 1].split()[0] == "messageType,", "a long one has it below"
    assert max(len(line) for line in lines if line != names[1]) <= 100


WRAPPED = """\
tool          description
weather:plot  Draw the highest and
              lowest temperatures of the
              days.
a             b"""


def test_wide_characters_are_two_and_the_last_column_wraps():
    assert aligned(["a", "b"], [["日本", "x"], ["ab", "y"]], total=80) == "a     b\n日本  x\nab    y"
    plot = "Draw the highest and lowest temperatures of the days."
    assert aligned(["tool", "description"], [["weather:plot", plot], ["a", "b"]], total=40) == WRAPPED


@given(st.lists(st.tuples(st.text(), st.text(), st.integers()), max_size=5), st.integers(min_value=24, max_value=120))
def test_no_line_is_wider_than_the_terminal(rows, total):
    text = aligned(["a", "b", "c"], rows, total=total)
    assert all(width(line) <= total for line in text.split("\n"))


def test_long_listing_holds_no_object_per_item():
    items = tuple({"n": number} for number in range(10_000))
    gc.collect()
    before = len(gc.get_objects())
    listing = Listing(LazyRows([(dict, items)]), columns=["n"], kind="numbers")
    assert "10,000" in str(listing)
    gc.collect()
    assert len(gc.get_objects()) - before < 1_000


def test_rows_are_made_when_they_are_read_and_once():
    made: list[int] = []

    def make(number: int) -> dict[str, int]:
        made.append(number)
        return {"n": number}

    rows = LazyRows([(make, range(3_000)), (make, ()), (make, range(3_000, 10_000))])
    listing = Listing(rows, columns=["n"], kind="numbers")
    assert "10,000" in str(listing)
    assert len(made) == len(set(made)) <= 200
    assert listing[-1] == {"n": 9999}
    assert listing[2_999:3_001] == Listing([{"n": 2_999}, {"n": 3_000}])
    assert listing.df["n"].sum() == sum(range(10_000))
    assert len(made) == 10_000
    with pytest.raises(IndexError):
        listing[10_000]


def test_a_listing_shows_backticks_of_descriptions_as_code():
    row = {"tool": "`a`", "description": "Reads `x<b>` & <i>more</i>"}
    shown = bundle(Listing([row]))
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;more&lt;/i&gt;</td>" in shown["text/html"]
    assert ">`a`</td>" in shown["text/html"], "a name is shown exactly"
    assert "Reads `x<b>` & <i>more</i>" in shown["text/plain"]
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;" in Part.prose(row["description"]).html
