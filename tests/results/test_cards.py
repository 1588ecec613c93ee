"""The card of a tool, in a terminal and on a page, and its badges."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp_types import Tool, ToolAnnotations

from mcp_magic.results import Badge, Listing, ToolCard, display, tool_badges
from tests.support.schemas import INTEGER, NUMBER, TEXT, listed, of
from tests.support.showcase import bundle

FORECAST = ToolCard(
    Tool(
        name="forecast",
        title="Forecast",
        description="Says the weather.\n\nFor some days.",
        input_schema=of(
            "city", city={**TEXT, "description": "where", "examples": ["Paris"]}, days={**INTEGER, "default": 3}
        ),
        output_schema=of(degrees={**NUMBER, "description": "Celsius"}),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    server="weather",
)
SHOWN = """\
weather:forecast: Forecast
[○ read-only]

Says the weather.

For some days.

arguments
name  type     required  default  description
city  string   yes                where
days  integer  no        3

returns
name     type    required  description
degrees  number  no        Celsius

%mcp call weather:forecast city=Paris"""
INSIDE = """\
arguments
name                  type            required  description
items                 list of object  yes
items[].name          string          no
items[].price         object          no
items[].price.amount  number          yes       (at least 0)"""


def test_a_card_shows_fields_in_a_terminal_and_on_a_page():
    assert bundle(FORECAST)["text/plain"] == SHOWN
    page = bundle(FORECAST)["text/html"]
    assert "<b>weather:forecast</b> Forecast" in page
    assert "<summary>returns</summary>" in page
    assert ">%mcp call weather:forecast city=Paris</code>" in page
    item = of(name=TEXT, price=of("amount", amount={**NUMBER, "minimum": 0}))
    order = ToolCard(Tool(name="order", input_schema=of("items", items=listed(item))), server="shop")
    assert bundle(order)["text/plain"].split("\n\n")[1] == INSIDE
    assert "no arguments" in bundle(ToolCard(Tool(name="x", input_schema={}), server="s"))["text/plain"]
    assert display.listing_rows == 200


def test_a_card_of_a_huge_tool_stays_small():
    field = {"description": "&" * 5000, "default": ["&" * 5000]}
    fields = of("0", **{f"{i}": field for i in range(5000)})
    tool = Tool(name="x" * 100_000, description="&" * 1_000_000, input_schema=fields, output_schema=fields)
    card = ToolCard(tool, server="s")
    assert sum(len(part.encode()) for part in bundle(card).values()) < 200_000
    assert card.description == tool.description


def hinted(hints: dict[str, Any] | None, **more: Any) -> Tool:
    annotations = None if hints is None else ToolAnnotations(**hints)
    return Tool(name="t", input_schema={"type": "object"}, annotations=annotations, **more)


READS, CHANGES = {"read_only_hint": True}, {"read_only_hint": False}


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        *((None, ["no hints"]), ({}, ["no hints"]), ({"title": "A title"}, ["no hints"]), (READS, ["○ read-only"])),
        *(({**READS, "destructive_hint": True, "idempotent_hint": True}, ["○ read-only"]), (CHANGES, ["± changes"])),
        ({**CHANGES, "destructive_hint": True, "open_world_hint": True}, ["! destructive", "~ open world"]),
        *(({"destructive_hint": False, "open_world_hint": False}, ["+ only adds"]), ({"open_world_hint": False}, [])),
        ({"idempotent_hint": True}, ["= idempotent"]),
    ],
)
def test_only_hints_that_the_server_gives_are_shown(hints, expected):
    assert [badge.text for badge in tool_badges(hinted(hints))] == expected


@pytest.mark.parametrize(
    ("ui", "is_for_apps"),
    [
        *(({"visibility": ["app"]}, True), ({"visibility": []}, True), ({"visibility": ["model", "app"]}, False)),
        *(({"resourceUri": "ui://chart"}, False), ("app", False)),
    ],
)
def test_a_tool_that_is_for_apps_only_says_so(ui, is_for_apps):
    badges = [badge.text for badge in tool_badges(hinted(None, _meta={"ui": ui}))]
    assert badges == [*["app only"] * is_for_apps, "no hints"]


def test_a_badge_says_who_says_so_and_is_text_and_markup():
    [badge] = tool_badges(hinted(READS))
    assert badge.explanation == "the server says, without proof, that it changes nothing"
    assert tool_badges(hinted(READS), trusted=True)[0].explanation.startswith("the server, which you trust, says")
    [nothing] = tool_badges(hinted(None), trusted=True)
    assert nothing.explanation.startswith("the server gives no hints; consent treats the tool as one that")
    badges = [Badge("! destructive", "danger", "it deletes"), Badge("x", "neutral", "")]
    listing = Listing([{"name": "rm", "hints": badges}])
    assert bundle(listing)["text/plain"].endswith("rm    [! destructive] [x]")
    look = r'class="mcp-badge mcp-badge-danger" title="it deletes" style="border:[^"]*;border-color:#d32f2f;[^"]*"'
    assert re.search(f"<span {look}>! destructive</span> <span", bundle(listing)["text/html"])
    assert listing.df["hints"].tolist() == ["[! destructive] [x]"]
