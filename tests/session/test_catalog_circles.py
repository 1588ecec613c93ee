"""Listings that change all the time or go in a circle are not fetched for ever."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from mcp_types import Tool

from mcp_magic.session.catalog import all_pages
from tests.environments import ROOT
from tests.support.doctors import sick
from tests.support.waiting import until

CHANGING = """
import json, sys
from tests.support.speaking import LEGACY, answer_to, called

for line in sys.stdin:
    message = json.loads(line)
    answer = answer_to(message, LEGACY, ["one"])
    if message.get("method") == "initialize":
        answer["result"]["capabilities"] = {"tools": {"listChanged": True}}
    if message.get("method") == "tools/call":
        answer = called(message["id"], LEGACY, "done")
    if answer is not None:
        print(json.dumps(answer), flush=True)
    if message.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
"""


async def test_ever_changing_listings_are_fetched_with_pauses(host):
    connection = await host.connect([sys.executable, "-c", CHANGING], name="changing", cwd=str(ROOT))
    await connection.listing("tools")
    await until(lambda: bool(connection.info().remarks))
    assert connection.info().remarks == (
        "it announces changes of its tools all the time; they are listed again with growing pauses",
    )
    lists = [entry for entry in connection.trace.entries if entry.method == "tools/list" and entry.kind == "request"]
    assert len(lists) < 30
    assert (await connection.call("one")).text == "done"


def page(name: str, cursor: str) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}}], "nextCursor": cursor}


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([page("one", "1"), page("two", "2"), page("three", "1")], id="circle"),
        pytest.param([page("one", "0")], id="same page"),
    ],
)
async def test_pages_in_a_circle_are_kept(host, pages):
    answer = {"content": [{"type": "text", "text": "done"}]}
    connection = await host.connect(sick(tools__list=pages, tools__call=answer), name="paging")
    names = [item["tools"][0]["name"] for item in pages]
    assert [tool.name for tool in await connection.listing("tools")] == names
    assert (await connection.call(names[-1])).text == "done"
    [remark] = connection.info().remarks
    assert remark.startswith("the listing of tools goes in a circle: the cursor of page ")


async def paged(*pages: tuple[list[Any], str]) -> tuple[list[Any], list[str], int]:
    """Fetch pages of items with their next cursors, the last again and again; return all, remarks and requests."""
    remarks: list[str] = []
    asked: list[str | None] = []

    class Page:
        def __init__(self, items: list[Any], next_cursor: str) -> None:
            self.items, self.next_cursor = items, next_cursor

    async def fetch(cursor: str | None) -> Any:
        asked.append(cursor)
        items, following = pages[min(len(asked), len(pages)) - 1]
        return Page(items, following or str(len(asked)))

    return await all_pages(fetch, "items", remark=remarks.append), remarks, len(asked)


async def test_paging_ends_where_a_cursor_or_all_items_came_before():
    items, _, asked = await paged((["x"], "more"))
    assert (items, asked) == (["x"], 2)
    items, remarks, asked = await paged((["x", "y"], ""))
    said = "the listing of items goes in a circle: all of page 2 came before; it ends there, with 2 items"
    assert (items, remarks, asked) == (["x", "y"], [said], 2)


async def test_long_pages_are_not_compared_item_by_item():
    class Item(Tool):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("two pages of 50,000 items would take hours")

    a, b, again, c = (Item(name=name, input_schema={"type": "object"}) for name in "abbc")
    items, _, _ = await paged(([a, b], "again"), ([again, c], "again"))
    assert [item.name for item in items] == ["a", "b", "c"]
