from __future__ import annotations

import gc
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool, ToolAnnotations

from mcp_magic.display.document import Part, aligned, facts, width
from mcp_magic.display.listing import LazyRows
from mcp_magic.results import Badge, Listing, ToolCard, display, tool_badges
from tests.support.showcase import bundle

ROWS = [
    {"name": "weather", "state": "open", "tools": 3, "trusted": True},
    {"name": "math", "state": None, "tools": 12, "trusted": False},
]


@pytest.fixture
def servers() -> Listing:
    return Listing(ROWS, title="servers", kind="servers", note="%mcp connect TARGET opens one")


def test_a_listing_is_a_table_in_a_terminal(servers: Listing) -> None:
    assert bundle(servers)["text/plain"] == (
        "servers\n"
        "name     state  tools  trusted\n"
        "weather  open       3  yes\n"
        "math               12  no\n"
        "%mcp connect TARGET opens one"
    )


def test_a_listing_is_a_table_in_a_page(servers: Listing) -> None:
    left = '<td style="text-align:left">'  # also where a notebook is not trusted, and has no style sheet of ours
    line = '<tr style="border-bottom:1px solid rgba(127,127,127,0.35)">'
    row = f'{line}{left}weather</td>{left}open</td><td class="mcp-number">3</td>{left}yes</td></tr>'
    assert row in bundle(servers)["text/html"]


def test_a_listing_is_a_sequence(servers: Listing) -> None:
    assert len(servers) == 2
    assert [row["name"] for row in servers] == ["weather", "math"]
    assert servers[0] == ROWS[0]
    assert servers[-1]["tools"] == 12
    assert isinstance(servers[1:], Listing)
    assert servers[1:].rows == ROWS[1:]
    assert servers[:] == servers
    assert ROWS[0] in servers
    assert "math" in servers
    assert "open" not in servers
    assert repr(servers) == "<Listing of 2 servers>"


def test_a_listing_is_a_frame(servers: Listing) -> None:
    assert servers.df["tools"].tolist() == [3, 12]
    assert list(servers.df.columns) == ["name", "state", "tools", "trusted"]


def test_an_empty_listing_says_what_to_do() -> None:
    listing = Listing([], empty="no servers: %mcp connect TARGET", columns=["name"])
    assert bundle(listing)["text/plain"] == "no servers: %mcp connect TARGET"
    assert not listing
    assert list(listing.df.columns) == ["name"]


def test_the_columns_can_be_chosen() -> None:
    assert bundle(Listing(ROWS, columns=["tools", "name"]))["text/plain"].splitlines()[1] == "    3  weather"


def test_a_long_listing_says_how_many_more_there_are() -> None:
    shown = bundle(Listing([{"n": i} for i in range(450)], kind="tools"))
    assert shown["text/plain"].endswith("199\n… 250 more tools: .df has all 450")
    assert shown["text/html"].count("<tr") == 201


def test_a_listing_of_long_texts_stays_small() -> None:
    rows = [{"name": str(i), "description": "&" * 10_000} for i in range(5000)]
    assert sum(len(part.encode()) for part in bundle(Listing(rows)).values()) < 200_000


def test_rows_are_fitted_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = bundle(Listing([{"name": "a", "description": "long " * 50, "n": 1}]))["text/plain"]
    assert max(map(len, shown.splitlines())) == 40
    assert "…" in shown


def test_names_that_are_typed_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    names = ["everything:get-annotated-message", f"files:{'long_' * 20}name"]
    arguments = "messageType, includeImage, " * 3
    shown = bundle(Listing([{"tool": n, "arguments": arguments, "description": "Does it. " * 9} for n in names]))
    lines = shown["text/plain"].splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["tool", *names]
    assert lines[1].split()[1] == "messageType,", "a short one has its row"
    assert lines[lines.index(names[1]) + 1].split()[0] == "messageType,", "a long one has it below"
    assert max(len(line) for line in lines if line != names[1]) <= 100


def test_cells_stay_on_one_line() -> None:
    assert bundle(Listing([{"a": "one\n\ntwo"}]))["text/plain"] == "a\none two"


def test_wide_characters_are_counted_as_two() -> None:
    assert aligned(["a", "b"], [["日本", "x"], ["ab", "y"]], total=80) == "a     b\n日本  x\nab    y"


@given(st.lists(st.tuples(st.text(), st.text(), st.integers()), max_size=5), st.integers(min_value=24, max_value=120))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, int]], total: int) -> None:
    text = aligned(["a", "b", "c"], rows, total=total)
    assert all(width(line) <= total for line in text.split("\n"))


def test_badges_in_a_row_become_text_and_markup() -> None:
    listing = Listing(
        [{"name": "rm", "hints": [Badge("! destructive", "danger", "it deletes"), Badge("x", "neutral", "")]}]
    )
    assert bundle(listing)["text/plain"].endswith("rm    [! destructive] [x]")
    look = r'class="mcp-badge mcp-badge-danger" title="it deletes" style="border:[^"]*;border-color:#d32f2f;[^"]*"'
    assert re.search(f"<span {look}>! destructive</span> <span", bundle(listing)["text/html"])
    assert listing.df["hints"].tolist() == ["[! destructive] [x]"]


HINTS = [
    (None, ["no hints"]),
    ({}, ["no hints"]),
    ({"title": "A title"}, ["no hints"]),
    ({"read_only_hint": True}, ["○ read-only"]),
    ({"read_only_hint": True, "destructive_hint": True, "idempotent_hint": True}, ["○ read-only"]),
    ({"read_only_hint": False}, ["± changes"]),
    ({"read_only_hint": False, "destructive_hint": True, "open_world_hint": True}, ["! destructive", "~ open world"]),
    ({"destructive_hint": False, "open_world_hint": False}, ["+ only adds"]),
    ({"idempotent_hint": True}, ["= idempotent"]),
    ({"open_world_hint": False}, []),
]


def _hinted(hints: dict[str, Any] | None, **more: Any) -> Tool:
    annotations = None if hints is None else ToolAnnotations(**hints)
    return Tool(name="t", input_schema={"type": "object"}, annotations=annotations, **more)


@pytest.mark.parametrize(("hints", "expected"), HINTS)
def test_only_hints_that_the_server_gives_are_shown(hints: dict[str, Any] | None, expected: list[str]) -> None:
    assert [badge.text for badge in tool_badges(_hinted(hints))] == expected


def test_a_badge_says_who_says_so() -> None:
    tool = _hinted({"read_only_hint": True})
    [said] = tool_badges(tool)
    assert said.explanation == "the server says, without proof, that it changes nothing"
    assert tool_badges(tool, trusted=True)[0].explanation.startswith("the server, which you trust, says")
    [nothing] = tool_badges(_hinted(None), trusted=True)
    assert nothing.explanation.startswith("the server gives no hints; consent treats the tool as one that")


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"ui": {"visibility": ["app"]}}, ["app only", "no hints"]),
        ({"ui": {"visibility": []}}, ["app only", "no hints"]),
        ({"ui": {"visibility": ["model", "app"]}}, ["no hints"]),
        ({"ui": {"resourceUri": "ui://chart"}}, ["no hints"]),
        ({"ui": "app"}, ["no hints"]),
    ],
)
def test_a_tool_that_is_for_apps_only_says_so(meta: dict[str, Any], expected: list[str]) -> None:
    assert [badge.text for badge in tool_badges(_hinted(None, _meta=meta))] == expected


def _card() -> ToolCard:
    tool = Tool(
        name="forecast",
        title="Forecast",
        description="Says the weather.\n\nFor some days.",
        input_schema={
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "where", "examples": ["Paris"]},
                "days": {"type": "integer", "default": 3},
            },
            "required": ["city"],
        },
        output_schema={"type": "object", "properties": {"degrees": {"type": "number", "description": "Celsius"}}},
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    return ToolCard(tool, server="weather")


def test_a_card_in_a_terminal() -> None:
    assert bundle(_card())["text/plain"] == (
        "weather:forecast: Forecast\n"
        "[○ read-only]\n\n"
        "Says the weather.\n\nFor some days.\n\n"
        "arguments\n"
        "name  type     required  default  description\n"
        "city  string   yes                where\n"
        "days  integer  no        3\n\n"
        "returns\n"
        "name     type    required  description\n"
        "degrees  number  no        Celsius\n\n"
        "%mcp call weather:forecast city=Paris"
    )


def test_a_card_shows_the_fields_inside_lists_and_objects() -> None:
    price = {"type": "object", "properties": {"amount": {"type": "number", "minimum": 0}}, "required": ["amount"]}
    item = {"type": "object", "properties": {"name": {"type": "string"}, "price": price}}
    inside = {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}
    card = ToolCard(Tool(name="order", input_schema=inside), server="shop")
    assert bundle(card)["text/plain"].split("\n\n")[1] == (
        "arguments\n"
        "name                  type            required  description\n"
        "items                 list of object  yes\n"
        "items[].name          string          no\n"
        "items[].price         object          no\n"
        "items[].price.amount  number          yes       (at least 0)"
    )


def test_a_card_in_a_page() -> None:
    page = bundle(_card())["text/html"]
    assert "<b>weather:forecast</b> Forecast" in page
    assert "<summary>returns</summary>" in page
    assert ">%mcp call weather:forecast city=Paris</code>" in page


def test_a_card_of_a_huge_tool_stays_small() -> None:
    field = {"description": "&" * 5000, "default": ["&" * 5000]}
    fields = {"type": "object", "properties": {f"{i}": field for i in range(5000)}, "required": ["0"]}
    tool = Tool(name="x" * 100_000, description="&" * 1_000_000, input_schema=fields, output_schema=fields)
    card = ToolCard(tool, server="s")
    assert sum(len(part.encode()) for part in bundle(card).values()) < 200_000
    assert card.description == tool.description


def test_a_tool_without_arguments_says_so() -> None:
    card = ToolCard(Tool(name="x", input_schema={}), server="s")
    assert "no arguments" in bundle(card)["text/plain"]
    assert display.listing_rows == 200


def test_last_column_wraps_in_terminal_before_others_are_cut() -> None:
    from mcp_magic.display.document import aligned

    text = aligned(
        ["tool", "description"],
        [["weather:plot", "Draw the highest and lowest temperatures of the days."], ["a", "b"]],
        total=40,
    )
    assert text == (
        "tool          description\n"
        "weather:plot  Draw the highest and\n"
        "              lowest temperatures of the\n"
        "              days.\n"
        "a             b"
    )


def test_long_listing_holds_no_object_per_item() -> None:
    items = tuple({"n": number} for number in range(10_000))
    gc.collect()
    before = len(gc.get_objects())
    listing = Listing(LazyRows([(dict, items)]), columns=["n"], kind="numbers")
    assert "10,000" in str(listing)
    gc.collect()
    assert len(gc.get_objects()) - before < 1_000


def test_rows_are_made_when_they_are_read_and_once() -> None:
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


def test_an_untrusted_page_keeps_lines_and_greys() -> None:
    """JupyterLab drops the style sheet of an untrusted notebook, and keeps these inline styles."""
    html = bundle(Listing(ROWS, note="more"))["text/html"]
    _, _, body = html.partition("</style>")
    assert body.count('<tr style="border-bottom:1px solid') == len(ROWS)
    assert '<p class="mcp-note" style="opacity:.7;' in body
    assert 'font-weight:normal;opacity:.7">key</th>' in facts([("key", "value")])
    assert '<pre class="mcp-line" style="background:rgba(' in Part.command("%mcp").html
    assert "opacity:1!important" in html  # where the style sheet is, the theme has the colours


def test_a_listing_shows_backticks_of_descriptions_as_code() -> None:
    row = {"tool": "`a`", "description": "Reads `x<b>` & <i>more</i>"}
    shown = bundle(Listing([row]))
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;more&lt;/i&gt;</td>" in shown["text/html"]
    assert ">`a`</td>" in shown["text/html"], "a name is shown exactly"
    assert "Reads `x<b>` & <i>more</i>" in shown["text/plain"]
    assert "Reads <code>x&lt;b&gt;</code> &amp; &lt;i&gt;" in Part.prose(row["description"]).html
