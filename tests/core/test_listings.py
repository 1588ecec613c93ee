"""What servers offer: pages, changes, absences."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.core.catalog import MAX_PAGES, all_pages
from tests.core.asgi import Forgetful, serving
from tests.servers.bundled import command, load

if TYPE_CHECKING:
    from mcp_types import ListToolsResult

    from mcp_magic.core.host import Host

KINDS = ("tools", "resources", "templates", "prompts")


@pytest.mark.parametrize("options", [(), ("--empty-cursor",)])
async def test_all_pages_are_listed_whichever_way_the_end_is_spelled(host: Host, options: tuple[str, ...]) -> None:
    connection = await host.connect(command("paging_server", *options), name="paging")
    for kind in KINDS:
        assert len(await connection.listing(kind)) == 25


async def test_a_listing_that_never_ends_is_stopped_with_an_error(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = all_pages.__kwdefaults__
    assert limit == {"limit": MAX_PAGES}
    monkeypatch.setitem(limit, "limit", 20)  # of four listings, each of which would take seconds
    connection = await host.connect(command("paging_server", "--endless"), name="paging")
    with pytest.raises(errors.InvalidResponseError) as caught:
        await connection.listing("tools")
    assert str(caught.value).startswith("the listing of tools does not end: stopped after 20 pages, ")


async def test_paging_asks_for_no_more_than_the_limit() -> None:
    asked: list[str | None] = []

    class Page:
        items = ("x",)
        next_cursor = "more"

    async def fetch(cursor: str | None) -> Any:
        asked.append(cursor)
        return Page()

    with pytest.raises(errors.InvalidResponseError):
        await all_pages(fetch, "items", limit=7)
    assert asked == [None, *["more"] * 6]


async def test_a_server_without_tools_resources_or_prompts_has_empty_listings(host: Host) -> None:
    connection = await host.connect(Server("bare"), name="bare")
    for kind in KINDS:
        assert await connection.listing(kind) == ()
    assert connection.failures == 0, "capabilities are asked for, the methods are not"


async def test_a_server_that_announces_what_it_does_not_know_has_empty_listings(host: Host) -> None:
    async def no_tools(*_: object) -> ListToolsResult:
        from mcp import MCPError

        raise MCPError(-32601, "Method not found")

    connection = await host.connect(Server("boasting", on_list_tools=no_tools), name="boasting")
    assert await connection.listing("tools") == ()


async def test_listings_are_fetched_once(host: Host) -> None:
    app = Forgetful(load("math_server").server.streamable_http_app())
    async with serving(app) as url:
        connection = await host.connect(f"{url}/mcp", name="math")
        await asyncio.gather(*(connection.listing("tools") for _ in range(5)))
        assert [method for method, _ in app.requests].count("tools/list") == 1
        await connection.listing("tools", refresh=True)
        assert [method for method, _ in app.requests].count("tools/list") == 2
        await host.disconnect("math")


@pytest.mark.parametrize("era", ["2026-07-28", "handshake"])
async def test_a_tool_that_is_added_at_run_time_is_there_after_the_notice(host: Host, era: str) -> None:
    server = load("showcase_server").server
    app = server.streamable_http_app()
    async with serving(Forgetful(app) if era == "handshake" else app) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
        assert (connection.protocol_version == "2026-07-28") == (era == "2026-07-28")
        before = len(connection.tools)
        async with asyncio.timeout(10):
            number = 0
            while len(connection.tools) == before:  # a notice before the stream is open is not repeated
                number += 1
                await connection.call("add_tool", name=f"later_{number}")
                await asyncio.sleep(0.1)
        assert (await connection.tools.extra_later_1()).text == "I am later_1"
        await host.disconnect("show")


async def test_a_change_notice_over_stdio_refreshes_the_listing(host: Host) -> None:
    connection = await host.connect(command("showcase_server"), name="show")
    before = len(connection.catalog.cached("resources"))
    async with asyncio.timeout(10):
        number = 0
        while len(connection.catalog.cached("resources")) == before:
            number += 1
            await connection.call("add_resource", name=f"later{number}")
            await asyncio.sleep(0.1)
    assert (await connection.read("showcase://extra/later1")).text == "I am later1"


async def test_an_unknown_tool_is_refused_before_anything_is_sent(host: Host) -> None:
    connection = await host.connect(load("math_server").server, name="math")
    sent = connection.calls
    with pytest.raises(errors.UnknownToolError) as caught:
        await connection.call("ad")
    assert str(caught.value).startswith("math has no tool 'ad'. Did you mean 'add'? It has: add, subtract, ")
    assert connection.calls == sent


async def test_names_are_resolved_with_and_without_the_server(host: Host) -> None:
    server = MCPServer("other")

    @server.tool(name="add")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool(name="odd:name")
    def odd() -> str:
        """Odd."""
        return "odd"

    await host.connect(load("math_server").server, name="math")
    assert (await host.resolve("divide"))[0].name == "math"
    await host.connect(server, name="other")
    assert (await host.resolve("odd:name"))[1].name == "odd:name"
    assert (await host.resolve("other:odd:name"))[1].name == "odd:name"
    with pytest.raises(errors.AmbiguousNameError) as caught:
        await host.resolve("add")
    assert str(caught.value) == "2 servers have 'add'; say which: math:add, other:add"
    with pytest.raises(errors.UnknownServerError) as unknown:
        await host.resolve("mth:add")
    assert str(unknown.value) == "no server 'mth' for the tool 'add'. Did you mean 'math'? Connected: math, other"
    with pytest.raises(errors.UnknownToolError, match=r"no server has a tool 'dvide'\. Did you mean 'divide'\?"):
        await host.resolve("dvide")


async def test_a_resource_is_read_from_the_server_that_has_it(host: Host) -> None:
    await host.connect(load("math_server").server, name="math")
    await host.connect(load("showcase_server").server, name="show")
    assert (await host.read("math://constants")).server == "math"
    assert (await host.read("math://table/3")).server == "math"
    with pytest.raises(errors.AmbiguousNameError) as nobodys:
        await host.read("math://constnts")
    assert str(nobodys.value) == (
        "no server lists 'math://constnts'. Did you mean 'math://constants'? "
        "It may be of math, show all the same; say which with --server NAME"
    )


async def test_prompts_are_checked_and_got(host: Host) -> None:
    connection = await host.connect(load("showcase_server").server, name="show")
    assert "Ada" in (await connection.prompt("greet", name="Ada")).text
    with pytest.raises(errors.ArgumentsError):
        await connection.prompt("greet")
    with pytest.raises(errors.ArgumentsError):
        await connection.prompt("greet", nme="Ada")
    with pytest.raises(errors.UnknownPromptError, match="Did you mean 'greet'"):
        await connection.prompt("gret")


async def test_log_messages_are_kept(host: Host) -> None:
    connection = await host.connect(command("showcase_server"), name="show")
    await connection.call("log", level="warning", message="mind the gap")
    async with asyncio.timeout(5):
        while not connection.notices.messages:
            await asyncio.sleep(0.01)
    assert connection.notices.messages[-1].level == "warning"
    assert connection.notices.messages[-1].data == "mind the gap"
