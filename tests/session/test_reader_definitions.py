"""Listings and handshakes that are odd: what can be understood is read item by item, and each oddity is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_magic.errors import ConnectError, UnknownPromptError, UnknownToolError
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.schema.repair import repairs_text
from tests.support.odd_server import ABOUT, MODERN, TOOL, VERSION, connected, remarks

OBJECT = {"type": "object"}
DEFS = {"$ref": "#/$defs/In", "$defs": {"In": OBJECT}}

# What the definition of a tool has for its schema, as what it is read, and the remark.
SCHEMAS = {
    "empty": ({"inputSchema": {}}, OBJECT, "has the inputSchema {}; it is taken as an object without properties"),
    "absent": ({}, OBJECT, "has no inputSchema; it is taken as an object without properties"),
    "null": ({"inputSchema": None}, OBJECT, "has the inputSchema null"),
    "list": ({"inputSchema": []}, OBJECT, "has the inputSchema []"),
    "any_of": ({"inputSchema": {"anyOf": [{}]}}, {**OBJECT, "anyOf": [{}]}, "inputSchema has no type"),
    "ref": ({"inputSchema": DEFS}, {**OBJECT, **DEFS}, "inputSchema has no type; it is taken as an object"),
    "upper_case": ({"inputSchema": {"type": "OBJECT"}}, OBJECT, 'inputSchema has the type "OBJECT"'),
    "nullable": ({"inputSchema": {"type": ["object", "null"]}}, OBJECT, "inputSchema has the type"),
    "properties": ({"inputSchema": {**OBJECT, "properties": []}}, OBJECT, "properties is [], not an object"),
    "in_text": ({"inputSchema": '{"type": "object"}'}, OBJECT, "inputSchema is JSON in a text"),
    "snake_case": ({"input_schema": OBJECT}, OBJECT, "input_schema is read as inputSchema"),
}


async def test_a_schema_is_mended_and_its_tool_callable(host):
    tools = [{"name": name, **case[0]} for name, case in SCHEMAS.items()]
    answers = {"tools/list": {"tools": [TOOL, *tools]}, "tools/call": {"content": [{"type": "text", "text": "ok"}]}}
    async with connected(host, answers) as connection:
        good, *mended = await connection.listing("tools")
        assert good.name == "good"
        for tool, (name, (_, schema, remark)) in zip(mended, SCHEMAS.items(), strict=True):
            assert (tool.name, tool.input_schema) == (name, schema)
            assert any(f"`{name}`" in text and remark in text for text in connection.info().remarks), name
            assert (await connection.call(name)).text == "ok"


ICONS = [{"src": "https://a.example/i", "sizes": "48x48 96x96"}]
SIZES = 'icons.0.sizes is "48x48 96x96", not a list; it is read as ["48x48", "96x96"]'
PARTS = {
    "output": ({"outputSchema": {}}, "output_schema", None, "outputSchema is {}, which says nothing; it is left out"),
    "hint": ({"annotations": {"readOnlyHint": "maybe"}}, "annotations.read_only_hint", None, "not true or false"),
    "sizes": ({"icons": ICONS}, "icons.0.sizes", ["48x48", "96x96"], SIZES),
    "no_src": ({"icons": [{"sizes": []}]}, "icons", [], "icons.0 has no src; it is left out"),
    "description": ({"description": 5}, "description", "5", 'description is 5, not a text; it is read as "5"'),
    "title": ({"title": ["a"]}, "title", None, 'title is ["a"], not a text; it is left out'),
    "annotations": ({"annotations": []}, "annotations.title", None, "annotations is [], not an object"),
    "meta": ({"_meta": "x"}, "meta", None, '_meta is "x", not an object; it is left out'),
}


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    return value


async def test_a_wrong_part_of_a_tool_is_mended(host):
    tools = [{**TOOL, "name": name, **case[0]} for name, case in PARTS.items()]
    async with connected(host, {"tools/list": {"tools": tools}}) as connection:
        for tool, (name, (_, path, value, remark)) in zip(
            await connection.listing("tools"), PARTS.items(), strict=True
        ):
            assert at(tool, path) == value, name
            assert any(f"`{name}`" in text and remark in text for text in connection.info().remarks), name


UNUSABLE = {
    "number": ({"name": 5, "inputSchema": OBJECT}, "5", "its name is 5, not a text"),
    "no_name": ({"inputSchema": OBJECT}, "number 2", "it has no name"),
    "no_object": ("tool", "number 2", 'it is "tool", not an object'),
    "string": ({"name": "s", "inputSchema": {"type": "string"}}, "s", 'its inputSchema is of type "string"'),
}


@pytest.mark.parametrize(("definition", "name", "reason"), UNUSABLE.values(), ids=UNUSABLE)
async def test_a_tool_that_cannot_be_used_is_listed_so(host, definition, name, reason):
    async with connected(host, {"tools/list": {"tools": [TOOL, definition]}}) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert reason in connection.catalog.unusable["tools"][name]
        assert f"unusable: {name}" in repr(connection.tools)
        for call in (lambda: connection.call(name), lambda: connection.call_tool(name, {}, validate=False)):
            with pytest.raises(UnknownToolError, match=r"cannot be used: .* \(fault: the server\)"):
                await call()
        with pytest.raises(UnknownToolError, match="cannot be used: "):
            connection.tools[name]
        assert [tool.name for tool in langchain_tools(connection)] == ["odd__good"]
        assert "cannot be used: " in remarks(connection)


async def test_unusable_names_of_a_card_are_escaped(host):
    name = "<script>alert(1)</script>"
    async with connected(host, {"tools/list": {"tools": [TOOL, {"name": name, "inputSchema": 3}]}}) as connection:
        card = connection._repr_mimebundle_()
        assert "&lt;script&gt;alert(1)" in card["text/html"]
        assert "<script>" not in card["text/html"]
        assert f"the tool `{name}` cannot be used: " in card["text/plain"]
        for asked in (name, f"odd:{name}"):
            with pytest.raises(UnknownToolError, match=r"of odd cannot be used: .* \(fault: the server\)"):
                await host.resolve(asked)
        assert (await host.resolve("good"))[1].name == "good"


LISTS = {
    "resource_size": ("resources", {"uri": "a:b", "name": "n", "size": "12 kB"}, "size is", None),
    "resource_name": ("resources", {"uri": "a:b"}, "has no name; its uri is taken", None),
    "resource_uri": ("resources", {"name": "n"}, "cannot be used: it has no uri", "number 1"),
    "template": ("templates", {"uriTemplate": "a:{b}", "name": None}, "has no name; its uriTemplate is taken", None),
    "template_uri": ("templates", {"uriTemplate": 5, "name": "n"}, "its uriTemplate is 5, not a text", "5"),
    "prompt_arguments": ("prompts", {"name": "p", "arguments": {"a": {}}}, 'it is read as [{"name": "a"}]', None),
    "prompt_argument": ("prompts", {"name": "p", "arguments": [{}]}, "arguments.0 has no name; it is left out", None),
    "prompt_names": ("prompts", {"name": "p", "arguments": ["a"]}, 'it is read as {"name": "a"}', None),
    "prompt_name": ("prompts", {"name": True}, "its name is true, not a text", "true"),
}


@pytest.mark.parametrize(("kind", "definition", "remark", "unusable"), LISTS.values(), ids=LISTS)
async def test_other_lists_are_read_item_by_item(host, kind, definition, remark, unusable):
    good = {"name": "good", "uri": "a:good", "uriTemplate": "a:{good}"}
    method = {"templates": "resources/templates/list"}.get(kind, f"{kind}/list")
    member = {"templates": "resourceTemplates"}.get(kind, kind)
    async with connected(host, {method: {member: [definition, good]}}) as connection:
        names = [item.name for item in await connection.listing(kind)]
        assert (names[-1], len(names)) == ("good", 1 if unusable else 2)
        assert list(connection.catalog.unusable[kind]) == ([unusable] if unusable else [])
        assert remark in remarks(connection)
        if unusable == "true":
            with pytest.raises(UnknownPromptError, match="its name is true, not a text"):
                await connection.prompt("true")


PAGES = {
    "null_cursor": ({"tools": [TOOL], "nextCursor": None, "_meta": None}, 1, ""),
    "wrong_cursor": ({"tools": [TOOL], "nextCursor": False}, 1, "nextCursor is false, not a text; it is left out"),
    "object": ({"tools": {"good": {"inputSchema": OBJECT}}}, 1, "tools is an object, not a list"),
    "null": ({"tools": None}, 0, "tools is null, not a list"),
    "absent": ({}, 0, "tools is null, not a list"),
}


@pytest.mark.parametrize(("page", "count", "remark"), PAGES.values(), ids=PAGES)
async def test_an_odd_page_is_read(host, page, count, remark):
    async with connected(host, {"tools/list": page}) as connection:
        assert len(await connection.listing("tools")) == count
        assert remark in remarks(connection)
        assert bool(remark) is bool(remarks(connection))
        assert await connection.request("tools/list") == page, "a raw request returns what came"


LATER_PAGES = {
    "error": ('"error": {"code": -32603, "message": "page 2\\nbroken: db locked"}', "broken: db locked", "stream"),
    "unknown": ('"error": {"code": -32601, "message": "Method not found"}', "Method not found", "stdio"),
    "unreadable": ({"resultType": "odd"}, "the server's answer breaks the protocol", "http"),
}


@pytest.mark.parametrize(("page", "reason", "transport"), LATER_PAGES.values(), ids=LATER_PAGES)
async def test_a_page_that_fails_costs_no_earlier_one(host, page, reason, transport):
    answers = {"tools/list 2": page, "tools/list": {"tools": [TOOL], "nextCursor": "2"}, "resources/list 2": page}
    answers["resources/list"] = {"resources": [{"uri": "a:b", "name": "n"}], "nextCursor": "2"}
    async with connected(host, answers, transport) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert (await connection.call("good")).text == "right"
        assert len(await connection.listing("resources")) == 1
        for kind in ("tools", "resources"):
            assert f"the listing of {kind} ends with 1 item: page 2 failed: " in remarks(connection)
        assert reason in remarks(connection)


async def test_a_page_of_2026_without_times_is_read(host):
    async with connected(host, {**MODERN, "tools/list": {"tools": [TOOL]}}, protocol="auto") as connection:
        assert connection.protocol_version == "2026-07-28"
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert "the answer to tools/list breaks the protocol: " in remarks(connection)


async def test_a_tool_that_the_sdk_drops_is_named(host):
    schema = {**OBJECT, "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    page = {**MODERN["tools/list"], "tools": [TOOL, {"name": "odd", "inputSchema": schema}]}
    async with connected(host, {**MODERN, "tools/list": page}, protocol="auto") as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert "its x-mcp-header is invalid" in connection.catalog.unusable["tools"]["odd"]


async def test_an_empty_enum_is_left_out(host):
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": []}}, "required": ["a"]}
    async with connected(host, {"tools/list": {"tools": [{"name": "good", "inputSchema": schema}]}}) as connection:
        assert (await connection.call_tool("good", {"a": "x"})).text == "right"
    assert "a: its enum is not valid and is left out" in repairs_text(schema)


async def test_calls_beside_an_odd_one_are_answered(host):
    answers = {"tools/list": {"tools": [TOOL, {"name": "odd"}]}, "tools/call odd": {"content": "text"}}
    async with connected(host, answers) as connection:
        results = await asyncio.gather(*(connection.call(name) for name in ("good", "odd", "good")))
        assert [result.text for result in results] == ["right", "text", "right"]


INFO = ABOUT["serverInfo"]
HANDSHAKES = {
    "icons": ({"serverInfo": {**INFO, "icons": [{"src": "a", "sizes": "48x48"}]}}, "sizes"),
    "version": ({"serverInfo": {"name": "n", "version": 1.2}}, "serverInfo.version is 1.2"),
    "no_info": ({"serverInfo": None}, "serverInfo.name is null"),
    "true": ({"capabilities": {"tools": True}}, "capabilities.tools is true, not an object; it is read as {}"),
    "names": ({"capabilities": ["tools"]}, 'capabilities is ["tools"]'),
    "php": ({"capabilities": {"tools": [], "logging": []}}, "capabilities.tools is []"),
    "instructions": ({"instructions": 5}, 'instructions is 5, not a text; it is read as "5"'),
    "old": ({"protocolVersion": "2024-10-07"}, "2024-11-05 is spoken"),
    "new": ({"protocolVersion": "2025-08-01"}, "2025-06-18 is spoken"),
    "no_version": ({"protocolVersion": None}, "protocolVersion is null"),
}


@pytest.mark.parametrize(("part", "remark"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_an_odd_handshake_does_not_end_the_session(host, part, remark):
    async with connected(host, {"initialize": {"protocolVersion": VERSION, **ABOUT, **part}}) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert remark in remarks(connection)


async def test_a_handshake_that_says_nothing_is_an_error(host):
    with pytest.raises(ConnectError, match="not as an MCP server"):
        async with connected(host, {"initialize": {"hello": 1}}):
            pass
