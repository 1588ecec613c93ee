"""Listings of servers: pages, changes, absences."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from mcp import MCPError
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.session.catalog import MAX_PAGES, all_pages
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import command, load
from tests.support.changing_server import Changing

KINDS = ("tools", "resources", "templates", "prompts")


@pytest.mark.parametrize("last", [None, ""])
async def test_all_pages_are_listed_however_the_end_is_spelled(host, last):
    paging = load("paging_server")
    connection = await host.connect(paging.make_server(paging.Pages(last=last)), name="paging")
    assert [len(await connection.listing(kind)) for kind in KINDS] == [25] * 4


async def test_a_listing_without_end_keeps_its_first_pages(host, monkeypatch):
    limit = all_pages.__kwdefaults__
    assert limit["limit"] == MAX_PAGES
    monkeypatch.setitem(limit, "limit", 20)  # of four listings, each of which would take seconds
    paging = load("paging_server")
    connection = await host.connect(paging.make_server(paging.Pages(endless=True)), name="paging")
    assert len(await connection.listing("tools")) > 20
    remark = "the listing of tools does not end: it was stopped after 20 pages with "
    assert any(text.startswith(remark) for text in connection.info().remarks)


async def test_paging_asks_for_no_more_than_the_limit():
    asked: list[str | None] = []

    class Page:
        def __init__(self) -> None:
            self.next_cursor = f"page {len(asked)}"
            self.items = [self.next_cursor]

    async def fetch(cursor: str | None) -> Any:
        asked.append(cursor)
        return Page()

    assert await all_pages(fetch, "items", limit=7) == [f"page {number}" for number in range(1, 8)]
    assert asked == [None, *(f"page {number}" for number in range(1, 7))]


PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from mcp_magic import Host

async def main():
    async with Host() as host:
        connection = await host.connect([sys.executable, "-m", "tests.support.listing_server"], name="endless")
        for kind in ("tools", "resources"):
            print(len(await connection.listing(kind)))
        print(*sorted(connection.info().remarks), sep="\\n")
        print(await connection.ping() < 60)

asyncio.run(main())
"""


def test_huge_listings_without_end_are_kept_to_their_limits():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        "9",
        "100000",
        "the listing of resources does not end: it was stopped after 6 pages with 120,000 items and 4 MB",
        "the listing of tools does not end: it was stopped after 9 pages with 9 items and 108 MB",
        "True",
    ], done.stderr


async def test_a_missing_feature_or_method_is_an_empty_listing(host):
    async def no_tools(*_: object) -> Any:
        raise MCPError(-32601, "Method not found")

    connection = await host.connect(Server("bare"), name="bare")
    assert [await connection.listing(kind) for kind in KINDS] == [()] * 4
    assert connection.failures == 0, "capabilities are asked for, the methods are not"
    connection = await host.connect(Server("boasting", on_list_tools=no_tools), name="boasting")
    assert await connection.listing("tools") == ()


async def test_listings_are_fetched_once(host):
    app = Forgetful(load("math_server").server.streamable_http_app())
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="math")
        await asyncio.gather(*(connection.listing("tools") for _ in range(5)))
        assert [method for method, _ in app.requests].count("tools/list") == 1
        await connection.listing("tools", refresh=True)
        assert [method for method, _ in app.requests].count("tools/list") == 2
        await host.disconnect("math")


@pytest.mark.parametrize("way", ["2026-07-28", "handshake", "stdio"])
async def test_a_tool_added_at_run_time_appears_after_notice(host, way):
    app = load("showcase_server").server.streamable_http_app()
    async with serving(Forgetful(app) if way == "handshake" else app) as url:
        connection = await host.connect(command("showcase_server") if way == "stdio" else f"{url}/mcp", name="show")
        assert (connection.protocol_version == "2026-07-28") == (way != "handshake")
        for kind, tool in (("tools", "add_tool"), ("resources", "add_resource")):
            before, number = len(connection.catalog.cached(kind)), 0
            async with asyncio.timeout(60):
                while len(connection.catalog.cached(kind)) == before:
                    number += 1  # a notice before the stream is open is not repeated
                    await connection.call(tool, name=f"later_{number}")
                    await asyncio.sleep(0.1)
        assert (await connection.tools.extra_later_1()).text == "I am later_1"
        assert (await connection.read("showcase://extra/later_1")).text == "I am later_1"
        await host.disconnect("show")


def changed_while_listing(changing: Changing, once: Any) -> None:
    """Have a server do something each time that its tools are listed."""
    from mcp_types import PaginatedRequestParams

    listing = changing._tools

    async def tools(context: Any, params: Any) -> Any:
        page = await listing(context, params)
        await once()
        return page

    changing.server.add_request_handler("tools/list", PaginatedRequestParams, tools)


async def test_a_listing_that_changes_meanwhile_is_fetched_again(host):
    changing = Changing()
    connection = await host.connect(changing.server, name="changing")
    fetched, first = changing.lists, asyncio.Event()

    async def change() -> None:
        if not first.is_set():
            first.set()
            changing.description = "Changed meanwhile."
            await changing.announce_tools()
            connection.catalog.mark_changed("tools")

    changed_while_listing(changing, change)
    connection.catalog.mark_changed("tools")  # nobody waits for it
    async with asyncio.timeout(60):
        while connection.tools["work"].definition.description != "Changed meanwhile.":
            await asyncio.sleep(0.01)
    assert changing.lists >= fetched + 2


async def test_a_change_at_each_listing_keeps_nobody_waiting(host):
    changing = Changing()
    connection = await host.connect(changing.server, name="changing")

    async def change() -> None:
        connection.catalog.mark_changed("tools")

    changed_while_listing(changing, change)
    async with asyncio.timeout(60):
        assert len(await connection.listing("tools", refresh=True)) == 3


async def test_an_unknown_tool_is_refused_after_one_listing(host):
    connection = await host.connect(load("math_server").server, name="math")
    sent = connection.calls
    for _ in range(3):
        with pytest.raises(errors.UnknownToolError) as caught:
            await connection.call("ad")
    assert str(caught.value).startswith("math has no tool 'ad'. Did you mean 'add'? It has: add, subtract, ")
    assert connection.calls == sent + 1


async def test_a_tool_or_prompt_added_without_notice_is_usable(host):
    server = MCPServer("late")
    connection = await host.connect(server)
    server.add_tool(lambda: "new", name="added")
    server.prompt(name="asked")(lambda: "well?")
    assert connection.catalog.cached("tools") == ()
    assert (await host.resolve("added"))[0] is connection
    assert (await connection.call("added")).text == "new"
    assert "well?" in str(await connection.prompt("asked"))


async def test_a_failed_refresh_keeps_the_old_listing(host):
    server = MCPServer("late")
    server.add_tool(lambda: "here", name="known")
    connection = await host.connect(server)
    server._tool_manager = None  # type: ignore[assignment]  # every listing fails from now on
    with pytest.raises(errors.UnknownToolError, match=r"late has no tool 'knwn'\. Did you mean 'known'"):
        await connection.call("knwn")
    assert [tool.name for tool in await connection.listing("tools")] == ["known"]
    assert connection.catalog.problems == {}


async def test_prompts_are_checked_before_they_are_asked_for(host):
    connection = await host.connect(load("showcase_server").server, name="show")
    assert "Ada" in (await connection.prompt("greet", name="Ada")).text
    for arguments in ({}, {"nme": "Ada"}):
        with pytest.raises(errors.ArgumentsError):
            await connection.prompt("greet", **arguments)
    with pytest.raises(errors.UnknownPromptError, match="Did you mean 'greet'"):
        await connection.prompt("gret")
