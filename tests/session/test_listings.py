"""What servers offer: pages, changes, absences."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.session.catalog import MAX_PAGES, all_pages
from tests.support import SUPPORT
from tests.support.asgi import Forgetful, serving
from tests.support.bundled import command, load
from tests.support.processes import children
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_types import ListToolsResult

    from mcp_magic._host import Host

SICK = SUPPORT / "sick_server.py"
KINDS = ("tools", "resources", "templates", "prompts")


@pytest.mark.parametrize("last", [None, ""])
async def test_all_pages_are_listed_whichever_way_the_end_is_spelled(host: Host, last: str | None) -> None:
    paging = load("paging_server")
    connection = await host.connect(paging.make_server(paging.Pages(last=last)), name="paging")
    for kind in KINDS:
        assert len(await connection.listing(kind)) == 25


async def test_endless_listing_keeps_what_came(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = all_pages.__kwdefaults__
    assert limit["limit"] == MAX_PAGES
    monkeypatch.setitem(limit, "limit", 20)  # of four listings, each of which would take seconds
    paging = load("paging_server")
    connection = await host.connect(paging.make_server(paging.Pages(endless=True)), name="paging")
    assert len(await connection.listing("tools")) > 20
    remark = "the listing of tools does not end: it was stopped after 20 pages with "
    assert any(text.startswith(remark) for text in connection.info().remarks)


async def test_paging_asks_for_no_more_than_the_limit() -> None:
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


async def test_server_without_features_has_empty_listings(host: Host) -> None:
    connection = await host.connect(Server("bare"), name="bare")
    for kind in KINDS:
        assert await connection.listing(kind) == ()
    assert connection.failures == 0, "capabilities are asked for, the methods are not"


async def test_server_without_announced_method_has_empty_listing(host: Host) -> None:
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
async def test_tool_added_at_run_time_appears_after_notice(host: Host, era: str) -> None:
    server = load("showcase_server").server
    app = server.streamable_http_app()
    async with serving(Forgetful(app) if era == "handshake" else app) as url:
        connection = await host.connect(f"{url}/mcp", name="show")
        assert (connection.protocol_version == "2026-07-28") == (era == "2026-07-28")
        before = len(connection.tools)
        async with asyncio.timeout(60):
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
    async with asyncio.timeout(60):
        number = 0
        while len(connection.catalog.cached("resources")) == before:
            number += 1
            await connection.call("add_resource", name=f"later{number}")
            await asyncio.sleep(0.1)
    assert (await connection.read("showcase://extra/later1")).text == "I am later1"


async def test_unknown_tool_is_refused_after_one_listing(host: Host) -> None:
    connection = await host.connect(load("math_server").server, name="math")
    sent = connection.calls
    for _ in range(3):
        with pytest.raises(errors.UnknownToolError) as caught:
            await connection.call("ad")
    assert str(caught.value).startswith("math has no tool 'ad'. Did you mean 'add'? It has: add, subtract, ")
    assert connection.calls == sent + 1


async def test_tool_or_prompt_added_without_notice_is_usable(host: Host) -> None:
    server = MCPServer("late")
    connection = await host.connect(server)

    @server.tool()
    def added() -> str:
        """Was not there before."""
        return "new"

    @server.prompt()
    def asked() -> str:
        """Was not there before."""
        return "well?"

    assert connection.catalog.cached("tools") == ()
    assert (await host.resolve("added"))[0] is connection
    assert (await connection.call("added")).text == "new"
    assert "well?" in str(await connection.prompt("asked"))


async def test_failed_refresh_keeps_old_listing(host: Host) -> None:
    server = MCPServer("late")

    @server.tool()
    def known() -> str:
        """Is there."""
        return "here"

    connection = await host.connect(server)
    server._tool_manager = None  # type: ignore[assignment]  # every listing fails from now on
    with pytest.raises(errors.UnknownToolError, match=r"late has no tool 'knwn'\. Did you mean 'known'"):
        await connection.call("knwn")
    assert [tool.name for tool in await connection.listing("tools")] == ["known"]
    assert connection.catalog.problems == {}


async def test_error_for_missing_tool_names_lost_session_that_has_it(host: Host) -> None:
    pages = {"tools": [{"name": "t1", "inputSchema": {"type": "object"}}]}
    half = await host.connect([sys.executable, str(SICK), json.dumps({"tools/list": pages})], name="half")
    await host.connect(load("math_server").server, name="math")
    children(str(SICK))[0].kill()
    await until(lambda: half.state == "lost")
    with pytest.raises(errors.UnknownToolError) as caught:
        await host.resolve("t1")
    assert str(caught.value) == "no open session has a tool 't1'. half (lost) has it: `%mcp reconnect half`"


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
        "It could be on math, show; say which with --server NAME"
    )


async def test_resource_is_read_from_server_with_matching_template(host: Host) -> None:
    days, months = MCPServer("days"), MCPServer("months")

    @days.resource("notes://{day}{?lang}")
    def day(day: str, lang: str = "en") -> str:
        return f"{day} in {lang}"

    @months.resource("notes://{year}/{month}")
    def month(year: str, month: str) -> str:
        return f"{month} of {year}"

    await host.connect(days, name="days")
    await host.connect(months, name="months")
    assert (await host.read("notes://2024/01")).text == "01 of 2024"
    assert (await host.read("notes://today?lang=no")).text == "today in no"


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
    connection = await host.connect(load("showcase_server").server, name="show")
    await connection.call("log", level="warning", message="mind the gap")
    async with asyncio.timeout(60):
        while not connection.notices.messages:
            await asyncio.sleep(0.01)
    assert connection.notices.messages[-1].level == "warning"
    assert connection.notices.messages[-1].data == "mind the gap"


BAD = {"name": "t2", "inputSchema": {"type": "string"}}
WHY = 'its inputSchema is of type "string"; the arguments of a tool are an object'


async def test_unusable_tool_is_named_and_others_work(host: Host) -> None:
    pages = {"tools": [{"name": "t1", "inputSchema": {"type": "object"}}, BAD]}
    connection = await host.connect([sys.executable, str(SICK), json.dumps({"tools/list": pages})], name="low")
    assert [tool.name for tool in await connection.listing("tools")] == ["t1"]
    assert (await host.resolve("t1"))[1].name == "t1"
    for name in ("t2", "low:t2"):
        with pytest.raises(errors.UnknownToolError) as caught:
            await host.resolve(name)
        assert f"the tool 't2' of low cannot be used: {WHY} (fault: the server)" in str(caught.value)
    assert f"the tool `t2` cannot be used: {WHY}" in connection._repr_mimebundle_()["text/plain"]


async def test_card_escapes_names_of_unusable_tools(host: Host) -> None:
    pages = {"tools": [{"name": "<script>alert(1)</script>", "inputSchema": 3}]}
    connection = await host.connect([sys.executable, str(SICK), json.dumps({"tools/list": pages})], name="low")
    assert "&lt;script&gt;alert(1)" in connection._repr_mimebundle_()["text/html"]
    assert "<script>" not in connection._repr_mimebundle_()["text/html"]
