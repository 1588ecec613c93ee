"""Listings for clients: each definition by itself, so that an odd one never takes the others away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from mcp_types import INVALID_PARAMS, Icon, Tool

from mcp_magic.outside.gateway import KernelServer
from mcp_magic.outside.listing import PAGE_BYTES, Listings
from mcp_magic.outside.offer import Item
from tests.support.hosts import host as host
from tests.support.outside import served

SDK_BYTES = 1024 * 1024  # of a message that the SDK's client takes over HTTP
KEY = "sk-0123456789abcdef"
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


def items(*tools: Tool) -> list[Item]:
    connection = SimpleNamespace(name="one")
    return [Item(connection, tool, f"one__{tool.name}") for tool in tools]


def tool(name: str, **members) -> Tool:
    return Tool.model_construct(name=name, **{"input_schema": {"type": "object"}, **members})


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
def test_odd_definition_is_left_out_alone(version):
    listing = Listings().result("tools", items(tool("bad", input_schema={"type": 7}), tool("good")), version)
    assert [form["name"] for form in listing["tools"]] == ["one__good"]


def test_definition_lacks_members_that_a_version_lacks():
    listed = items(tool("rows", output_schema={"type": "array"}, icons=[Icon(src="https://example.com/a.png")]))
    [form] = Listings().result("tools", listed, MODERN)["tools"]
    assert form["outputSchema"] == {"type": "array"}
    [form] = Listings().result("tools", listed, HANDSHAKE)["tools"]
    assert "outputSchema" not in form
    assert form["icons"] == [{"src": "https://example.com/a.png"}]


def test_definition_is_changed_once_for_each_version():
    adapted = []

    def adapt(form):
        adapted.append(form["name"])
        return {**form, "description": "other"}

    listings, listed = Listings(adapt), items(tool("add"))
    for _ in range(2):
        for version in (MODERN, HANDSHAKE):
            assert listings.result("tools", listed, version)["tools"][0]["description"] == "other"
    assert adapted == ["one__add", "one__add"]


def wordy_server(number: int = 30) -> MCPServer:
    """A server whose definitions are too long for one message."""
    server = MCPServer("wordy", log_level="ERROR")
    words = "ö" * 25_000
    for n in range(number):
        server.add_tool(lambda: "x", name=f"tool{n}", description=words)
        server.resource(f"x://{n}", name=f"r{n}", description=words)(lambda: "x")
        server.resource(f"y://{n}/{{a}}", name=f"t{n}", description=words)(lambda a: "x")
        server.prompt(name=f"prompt{n}", description=words)(lambda: "x")
    return server


async def paged(call, member):
    """Return the pages of a listing."""
    page = await call()
    pages = [getattr(page, member)]
    while page.next_cursor:
        page = await call(cursor=page.next_cursor)
        pages.append(getattr(page, member))
    return pages


async def test_long_listing_has_pages(host, mode):
    host.consent.policy = "auto"
    await host.connect(wordy_server(), name="wordy")
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        for call, member, named in (
            (client.list_tools, "tools", [f"wordy__tool{n}" for n in range(30)]),
            (client.list_resources, "resources", [f"x://{n}" for n in range(30)]),
            (client.list_resource_templates, "resource_templates", [f"y://{n}/{{a}}" for n in range(30)]),
            (client.list_prompts, "prompts", [f"wordy__prompt{n}" for n in range(30)]),
        ):
            pages = await paged(call, member)
            assert len(pages) == 3
            assert all(sum(len(form.model_dump_json()) for form in page) < SDK_BYTES for page in pages)
            forms = [form for page in pages for form in page]
            names = [getattr(form, "uri", getattr(form, "uri_template", form.name)) for form in forms]
            assert names[-30:] == named
            for cursor in ("none", "0", "1", ""):
                with pytest.raises(MCPError, match="no page has this cursor") as error:
                    await call(cursor=cursor)
                assert error.value.code == INVALID_PARAMS
        assert (await client.call_tool("wordy__tool29", {})).content[0].text == "x"


async def test_short_listing_has_one_page(host, mode):
    await host.connect(wordy_server(8), name="wordy")
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        assert [len(page) for page in await paged(client.list_resources, "resources")] == [8]


def test_definition_that_no_page_holds_is_left_out():
    listed = items(tool("long", description="x" * PAGE_BYTES), tool("good"))
    listing = Listings().result("tools", listed, MODERN)
    assert [form["name"] for form in listing["tools"]] == ["one__good"]
    assert "nextCursor" not in listing


async def test_definitions_have_no_secrets_in_their_prose(host, mode):
    server = MCPServer("tells", log_level="ERROR")

    def connect(key: str = KEY, kind: Literal["sk-0123456789abcdef", "b"] = "b") -> str:
        return key

    server.add_tool(connect, description=f"Connects with {KEY}.", meta={"a": KEY})
    server.prompt(name="ask", description=f"Asks with {KEY}.")(lambda: "x")
    host.consent.policy = "auto"
    connection = await host.connect(server, name="tells")
    connection.spec.secret_values.add([KEY])
    async with served(KernelServer(host)) as url, Client(url, mode=mode) as client:
        tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "tells__connect")
        assert (tool.description, tool.meta) == ("Connects with ***.", {"a": "***"})
        assert KEY not in str(tool.input_schema["properties"]["key"])
        assert KEY in str(tool.input_schema["properties"]["kind"]), "an argument must fit it"
        assert "Asks with ***." in str(await client.list_prompts())
        assert KEY in (await client.call_tool("tells__connect", {})).content[0].text
