"""Servers whose messages are odd: what can be understood is read, and each oddity is told once."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.ask.elicitation import Answer
from mcp_magic.cassette.cassette import deck
from mcp_magic.doctor import examine
from mcp_magic.errors import (
    ConnectError,
    InvalidResponseError,
    ProtocolError,
    RequestTimeoutError,
    SessionError,
    UnknownPromptError,
    UnknownToolError,
)
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.schema.repair import repairs_text
from tests.support.odd_server import TOOL, TRANSPORTS, connected
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

EVERYWHERE = pytest.mark.parametrize("transport", TRANSPORTS)
OBJECT = {"type": "object"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(20)).decode()


def remarks(connection: Connection) -> str:
    return "\n".join(connection.info().remarks)


def table(cases: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in cases.items()]


# Listings

SCHEMAS = {
    "empty": ({"inputSchema": {}}, OBJECT, "has the inputSchema {}; it is taken as an object without properties"),
    "absent": ({}, OBJECT, "has no inputSchema; it is taken as an object without properties"),
    "null": ({"inputSchema": None}, OBJECT, "has the inputSchema null"),
    "list": ({"inputSchema": []}, OBJECT, "has the inputSchema []"),
    "any_of": ({"inputSchema": {"anyOf": [{}]}}, {**OBJECT, "anyOf": [{}]}, "inputSchema has no type"),
    "reference": (
        {"inputSchema": {"$ref": "#/$defs/In", "$defs": {"In": OBJECT}}},
        {**OBJECT, "$ref": "#/$defs/In", "$defs": {"In": OBJECT}},
        "inputSchema has no type; it is taken as an object",
    ),
    "upper_case": ({"inputSchema": {"type": "OBJECT"}}, OBJECT, 'inputSchema has the type "OBJECT"'),
    "nullable": ({"inputSchema": {"type": ["object", "null"]}}, OBJECT, "inputSchema has the type"),
    "no_properties": ({"inputSchema": {**OBJECT, "properties": []}}, OBJECT, "properties is [], not an object"),
    "in_text": ({"inputSchema": '{"type": "object"}'}, OBJECT, "inputSchema is JSON in a text"),
    "snake_case": ({"input_schema": OBJECT}, OBJECT, "input_schema is read as inputSchema"),
}


@pytest.mark.parametrize(("definition", "schema", "remark"), table(SCHEMAS))
async def test_a_schema_is_mended(host: Host, definition: Any, schema: Any, remark: str) -> None:
    odd = {"name": "odd", **definition}
    answers = {"tools/list": {"tools": [TOOL, odd]}, "tools/call odd": {"content": [{"type": "text", "text": "ok"}]}}
    async with connected(host, answers) as connection:
        good, mended = await connection.listing("tools")
        assert (good.name, mended.input_schema) == ("good", schema)
        assert (await connection.call("odd")).text == "ok"
        assert remark in remarks(connection)


PARTS = {
    "output": ({"outputSchema": {}}, "output_schema", None, "outputSchema is {}, which says nothing; it is left out"),
    "hint": ({"annotations": {"readOnlyHint": "maybe"}}, "annotations.read_only_hint", None, "not true or false"),
    "icons": (
        {"icons": [{"src": "https://a.example/i", "sizes": "48x48 96x96"}]},
        "icons.0.sizes",
        ["48x48", "96x96"],
        'icons.0.sizes is "48x48 96x96", not a list; it is read as ["48x48", "96x96"]',
    ),
    "icon_without_src": ({"icons": [{"sizes": []}]}, "icons", [], "icons.0 has no src; it is left out"),
    "description": ({"description": 5}, "description", "5", 'description is 5, not a text; it is read as "5"'),
    "title": ({"title": ["a"]}, "title", None, 'title is ["a"], not a text; it is left out'),
    "annotations": ({"annotations": []}, "annotations.title", None, "annotations is [], not an object"),
    "meta": ({"_meta": "x"}, "meta", None, '_meta is "x", not an object; it is left out'),
}


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    return value


@pytest.mark.parametrize(("part", "path", "value", "remark"), table(PARTS))
async def test_a_wrong_part_of_a_tool_is_mended(host: Host, part: Any, path: str, value: Any, remark: str) -> None:
    answers = {"tools/list": {"tools": [TOOL, {**TOOL, "name": "odd", **part}]}}
    async with connected(host, answers) as connection:
        assert at((await connection.listing("tools"))[1], path) == value
        assert remark in remarks(connection)


UNUSABLE = {
    "number": ({"name": 5, "inputSchema": OBJECT}, "5", "its name is 5, not a text"),
    "no_name": ({"inputSchema": OBJECT}, "number 2", "it has no name"),
    "no_object": ("tool", "number 2", 'it is "tool", not an object'),
    "string": ({"name": "s", "inputSchema": {"type": "string"}}, "s", 'its inputSchema is of type "string"'),
}


@pytest.mark.parametrize(("definition", "name", "reason"), table(UNUSABLE))
async def test_a_tool_that_cannot_be_used_is_listed_so(host: Host, definition: Any, name: str, reason: str) -> None:
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


@pytest.mark.parametrize(("kind", "definition", "remark", "unusable"), table(LISTS))
async def test_other_lists_are_read_item_by_item(
    host: Host, kind: str, definition: Any, remark: str, unusable: str | None
) -> None:
    good = {"name": "good", "uri": "a:good", "uriTemplate": "a:{good}"}
    method = {"templates": "resources/templates/list"}.get(kind, f"{kind}/list")
    member = {"templates": "resourceTemplates"}.get(kind, kind)
    async with connected(host, {method: {member: [definition, good]}}) as connection:
        names = [item.name for item in await connection.listing(kind)]
        assert names[-1] == "good"
        assert len(names) == (1 if unusable else 2)
        assert list(connection.catalog.unusable[kind]) == ([unusable] if unusable else [])
        assert remark in remarks(connection)


async def test_a_prompt_that_cannot_be_used_says_why(host: Host) -> None:
    async with connected(host, {"prompts/list": {"prompts": [{"name": 5}]}}) as connection:
        await connection.listing("prompts")
        with pytest.raises(UnknownPromptError, match="its name is 5, not a text"):
            await connection.prompt("5")


PAGES = {
    "null_cursor": ({"tools": [TOOL], "nextCursor": None, "_meta": None}, 1, ""),
    "wrong_cursor": ({"tools": [TOOL], "nextCursor": False}, 1, "nextCursor is false, not a text; it is left out"),
    "object": ({"tools": {"good": {"inputSchema": OBJECT}}}, 1, "tools is an object, not a list"),
    "null": ({"tools": None}, 0, "tools is null, not a list"),
    "absent": ({}, 0, "tools is null, not a list"),
}


@pytest.mark.parametrize(("page", "count", "remark"), table(PAGES))
async def test_an_odd_page_is_read(host: Host, page: Any, count: int, remark: str) -> None:
    async with connected(host, {"tools/list": page}) as connection:
        assert len(await connection.listing("tools")) == count
        assert remark in remarks(connection)


LATER_PAGES = {
    "error": ('"error": {"code": -32603, "message": "page 2\\nbroken: db locked"}', "broken: db locked"),
    "unknown": (None, "Method not found"),
    "unreadable": ({"resultType": "odd"}, "the server's answer breaks the protocol"),
}


@pytest.mark.parametrize(("page", "reason"), table(LATER_PAGES))
@EVERYWHERE
async def test_a_page_that_fails_costs_no_earlier_one(host: Host, transport: str, page: Any, reason: str) -> None:
    missing = '"error": {"code": -32601, "message": "Method not found"}'
    answers = {"tools/list 2": page or missing, "resources/list 2": page or missing}
    answers |= {"tools/list": {"tools": [TOOL], "nextCursor": "2"}}
    answers |= {"resources/list": {"resources": [{"uri": "a:b", "name": "n"}], "nextCursor": "2"}}
    async with connected(host, answers, transport) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert (await connection.call("good")).text == "right"
        assert len(await connection.listing("resources")) == 1
        assert "the listing of tools ends with 1 item: page 2 failed: " in remarks(connection)
        assert "the listing of resources ends with 1 item: page 2 failed: " in remarks(connection)
        assert reason in remarks(connection)


async def test_a_page_of_2026_without_times_is_read(host: Host) -> None:
    about = {"capabilities": {"tools": {}}, "resultType": "complete"}
    answers = {"server/discover": {"supportedVersions": ["2026-07-28"], **about}, "tools/list": {"tools": [TOOL]}}
    async with connected(host, answers, protocol="auto") as connection:
        assert connection.protocol_version == "2026-07-28"
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert "the answer to tools/list breaks the protocol: " in remarks(connection)


async def test_a_tool_that_the_sdk_drops_is_named(host: Host) -> None:
    schema = {**OBJECT, "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    about = {"capabilities": {"tools": {}}, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    page = {"tools": [TOOL, {"name": "odd", "inputSchema": schema}], "resultType": "complete"}
    answers = {
        "server/discover": {"supportedVersions": ["2026-07-28"], **about},
        "tools/list": {**page, "ttlMs": 0, "cacheScope": "private"},
    }
    async with connected(host, answers, protocol="auto") as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert "its x-mcp-header is invalid" in connection.catalog.unusable["tools"]["odd"]


# Handshakes

HANDSHAKES = {
    "icons": ({"serverInfo": {"name": "n", "version": "1", "icons": [{"src": "a", "sizes": "48x48"}]}}, "sizes"),
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


@pytest.mark.parametrize(("part", "remark"), table(HANDSHAKES))
async def test_an_odd_handshake_does_not_end_the_session(host: Host, part: Any, remark: str) -> None:
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "n", "version": "1"},
    }
    async with connected(host, {"initialize": {**about, **part}}) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert remark in remarks(connection)


async def test_a_handshake_that_says_nothing_is_an_error(host: Host) -> None:
    with pytest.raises(ConnectError, match="not as an MCP server"):
        async with connected(host, {"initialize": {"hello": 1}}):
            pass


# Results

RESULTS = {
    "unknown_block": (
        {"content": [{"type": "text", "text": "a"}, {"type": "chart", "points": [1]}, {"type": "text", "text": "b"}]},
        ["text", "resource", "text"],
        'a block of the type "chart"; it is shown as JSON',
    ),
    "broken_block": ({"content": [{"type": "text"}, {"type": "text", "text": "a"}]}, ["resource", "text"], "no text"),
    "no_type": ({"content": [{"text": "a"}]}, ["text"], "a block has the type null; it is read as text"),
    "texts": ({"content": ["a", "b"]}, ["text", "text"], "a block is a text, not an object"),
    "text": ({"content": "a"}, ["text"], "a block is a text, not an object"),
    "block": ({"content": {"type": "text", "text": "a"}}, ["text"], "content is one block"),
    "null": ({"content": None}, [], "content is null, not a list"),
    "empty": ({"content": {}}, [], "content is {}, not a list"),
    "number": ({"content": [{"type": "text", "text": 5}]}, ["text"], "a text is 5"),
    "structured": ({"structuredContent": {"a": 1}}, [], "has no content"),
    "rest": ({"toolResult": "a"}, ["text"], "has no content"),
    "annotations": ({"content": [{"type": "text", "text": "a", "annotations": {"priority": 5}}]}, ["text"], "priority"),
    "link": ({"content": [{"type": "resource_link", "uri": "a:b"}]}, ["resource_link"], "a link has no name"),
    "resource": ({"content": [{"type": "resource", "resource": {"text": "a"}}]}, ["resource"], "has no uri"),
    "is_error": ({"content": [], "isError": None}, [], "isError is null"),
    "image": ({"content": [{"type": "image", "data": PNG}]}, ["image"], "it is image/png by its bytes"),
}


@pytest.mark.parametrize(("result", "kinds", "remark"), table(RESULTS))
async def test_a_result_is_read_block_by_block(host: Host, result: Any, kinds: list[str], remark: str) -> None:
    async with connected(host, {"tools/call good": result}) as connection:
        answer = await connection.call("good")
        assert [block.type for block in answer.raw.content] == kinds
        assert remark in remarks(connection)
        assert answer.raw.structured_content == result.get("structuredContent")


BARE = {
    "text": ("42 degrees", "42 degrees", '"42 degrees", not an object'),
    "number": (42, "42", "42, not an object"),
    "false": (False, "false", "false, not an object"),
    "blocks": ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"], "not an object"),
    "list": ([1, "a"], '[1, "a"]', '[1, "a"], not an object'),
    "null": (None, "", "null, not an object"),
}


@pytest.mark.parametrize(("value", "text", "remark"), table(BARE))
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_result_that_is_no_object_is_kept(
    host: Host, transport: str, value: Any, text: Any, remark: str
) -> None:
    async with connected(host, {"tools/call good": f'"result": {json.dumps(value)}'}, transport) as connection:
        answer = await connection.call("good")
        assert (answer.text, answer.is_error) == (text, False)
        assert f"the result of an answer is {remark}" in remarks(connection) or text == ["a", "b"]
        assert "not an object; it is kept" in remarks(connection)


@EVERYWHERE
async def test_other_results_that_are_no_object_are_read(host: Host, transport: str) -> None:
    answers: dict[str, Any] = {
        "tools/list": f'"result": {json.dumps([TOOL])}',
        "resources/read": '"result": "hello"',
        "prompts/list": '"result": [{"name": "p"}]',
        "prompts/get p": '"result": ["say hello"]',
        "odd/method": '"result": 5',
    }
    async with connected(host, answers, transport) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert (await connection.read("a:b")).text == "hello"
        assert (await connection.prompt("p")).raw.messages[0].content.text == "say hello"
        assert await connection.request("odd/method") == {"result": 5}


ONE_ITEM = {
    "text": ({"text": "hello"}, "hello"),
    "blob": ({"blob": "aGk=", "mimeType": "application/x-a"}, None),
    "other": ({"rows": [1]}, '{"rows": [1]}'),
}


@pytest.mark.parametrize(("result", "text"), table(ONE_ITEM))
async def test_a_resource_without_contents_is_one_item(host: Host, result: Any, text: str | None) -> None:
    async with connected(host, {"resources/read": result}) as connection:
        [item] = (await connection.read("a:x")).raw.contents
        assert getattr(item, "text", None) == text
        assert getattr(item, "blob", None) == result.get("blob")
        assert "contents is " in remarks(connection)


@pytest.mark.parametrize("result", [{"content": {"type": "text", "text": "a"}}, {"text": "a"}], ids=["content", "text"])
async def test_a_prompt_without_messages_is_one(host: Host, result: Any) -> None:
    answers = {"prompts/list": {"prompts": [{"name": "p"}]}, "prompts/get p": result}
    async with connected(host, answers) as connection:
        assert [message.content.text for message in (await connection.prompt("p")).raw.messages] == ["a"]


@EVERYWHERE
async def test_what_cannot_be_read_is_shown_as_it_is(host: Host, transport: str) -> None:
    answers = {"tools/call good": {"content": [{"type": "text", "text": "a"}, {"type": "chart", "points": [7]}]}}
    async with connected(host, answers, transport) as connection:
        answer = await connection.call("good")
        assert answer.text == "a"
        assert '"points"' in str(answer)
        sent = [entry.message for entry in connection.trace.entries if entry.method == "tools/call"][-1]
        assert sent["result"]["content"][1] == {"type": "chart", "points": [7]}, "the trace has it as it came"


async def test_a_raw_request_returns_what_came(host: Host) -> None:
    odd = {"tools": [{"name": 5}], "nextCursor": None}
    async with connected(host, {"tools/list": odd}) as connection:
        assert await connection.request("tools/list") == odd


async def test_a_resource_is_read_item_by_item(host: Host) -> None:
    items = [{"text": "a"}, "b", {"uri": "a:c", "text": {"n": 1}}, {"uri": "a:d"}, {"uri": "a:e", "blob": "_-8"}]
    async with connected(host, {"resources/read": {"contents": items}}) as connection:
        contents = (await connection.read("a:x")).raw.contents
        assert [getattr(item, "text", None) for item in contents] == ["a", "b", '{"n": 1}', '{"uri": "a:d"}', None]
        assert (str(contents[0].uri), contents[4].blob) == ("a:x", "/+8=")
        assert "an item of contents has no uri" in remarks(connection)


async def test_a_prompt_is_read_message_by_message(host: Host) -> None:
    messages = [
        {"role": "system", "content": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "odd"}]},
    ]
    listing = {"prompts": [{"name": "p"}]}
    async with connected(host, {"prompts/list": listing, "prompts/get p": {"messages": messages}}) as connection:
        found = (await connection.prompt("p")).raw.messages
        assert [(m.role, m.content.type) for m in found] == [
            ("user", "text"),
            ("assistant", "text"),
            ("assistant", "resource"),
        ]
        assert 'the role of a message is "system"' in remarks(connection)


# Images

MEDIA = {
    "url_safe": ("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\xfb\xff" * 9).decode(), "image/png"),
    "wrong_type": ("image/png", JPEG, "image/jpeg"),
    "no_type": (None, JPEG, "image/jpeg"),
    "data_url": ("image/png", f"data:image/png;base64,{PNG}", "image/png"),
}


@pytest.mark.parametrize(("stated", "data", "kind"), table(MEDIA))
async def test_an_image_is_what_its_bytes_say(host: Host, tmp_path: Path, stated: Any, data: str, kind: str) -> None:
    sent = data.replace("+", "-").replace("/", "_").rstrip("=") if not data.startswith("data:") else data
    block = {"type": "image", "data": sent, **({"mimeType": stated} if stated else {})}
    async with connected(host, {"tools/call good": {"content": [block]}}) as connection:
        [image] = (await connection.call("good")).images
        assert (image.mime_type, image.bytes) == (kind, base64.b64decode(data.rpartition(",")[2]))
        assert image.save(tmp_path / "image").suffix == {"image/png": ".png"}.get(kind, ".jpg")
        assert remarks(connection)


# Text that is almost JSON

HALF = '"result": {"content": [{"type": "text", "text": "a\\ud83d b \\ud83d\\ude00 \\\\ud83d"}]}'


@EVERYWHERE
async def test_half_a_surrogate_is_a_replacement_character(host: Host, transport: str) -> None:
    listing = '"result": {"tools": [{"name": "good", "description": "x\\udfff", "inputSchema": {"type": "object"}}]}'
    error = '"error": {"code": -32000, "message": "no\\ud83d"}'
    log = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "l\\ud83d"}}'
    resource = '"result": {"contents": [{"uri": "a:b", "text": "r\\ud83d"}]}'
    answers = {"tools/list": listing, "tools/call good": HALF, "before tools/call good": [log]}
    answers |= {"resources/read": resource, "ping": error}
    async with connected(host, answers, transport) as connection:
        assert (await connection.listing("tools"))[0].description == "x\ufffd"
        assert (await connection.call("good")).text == "a\ufffd b \U0001f600 \\ud83d"
        assert (await connection.read("a:b")).raw.contents[0].text == "r\ufffd"
        with pytest.raises(ProtocolError, match="no\ufffd"):
            await connection.request("ping")
        if transport != "http":  # which sends answers only
            await until(lambda: any(message.data == "l\ufffd" for message in connection.notices.messages))
        assert remarks(connection).count("halves of surrogate pairs") == 1
        assert any(b"a\\ud83d b" in entry.text for entry in connection.trace.entries), "as it came"


async def test_a_cassette_keeps_half_a_surrogate(host: Host, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    for mode in ("record", "replay"):
        with deck.holding(tape, mode):
            async with connected(host, {"tools/call good": HALF}, "stdio") as connection:
                assert (await connection.call("good")).text == "a\ufffd b \U0001f600 \\ud83d"
                assert "halves of surrogate pairs" in remarks(connection)
            await host.disconnect("odd")
    assert b"a\\ud83d b" in tape.read_bytes()


async def test_a_server_of_this_kernel_may_send_half_a_surrogate(host: Host) -> None:
    server = MCPServer("here")

    @server.tool(structured_output=False)
    def half() -> str:
        return "a\ud83d b"

    connection = await host.connect(server, name="here")
    assert (await connection.call("half")).text == "a\ufffd b"
    assert "halves of surrogate pairs" in remarks(connection)


TEXTS = {
    "mark": ('\ufeff{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}', "byte-order mark"),
    "control": ('"result": {"content": [{"type": "text", "text": "a\x01\tb"}]}', "control characters"),
    "version": ('{"id": ID, "result": {"content": []}}', 'its answers have no "jsonrpc": "2.0"'),
    "float_id": ('{"jsonrpc": "2.0", "id": ID.0, "result": {"content": []}}', "its answers have ids such as 7.0 for 7"),
    "long_integer": (
        f'"result": {{"content": [], "structuredContent": {{"a": [{"9" * 5000}, "{"8" * 5000}"]}}}}',
        "integers of more than 4,300 digits; they are read as texts",
    ),
}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("text", "remark"), table(TEXTS))
async def test_almost_json_is_read(host: Host, transport: str, text: str, remark: str) -> None:
    async with connected(host, {"tools/call good": text}, transport) as connection:
        assert (await connection.call("good")).text in ("", "a\x01\tb")
        assert remark in remarks(connection)


ERRORS = {
    "text": ('"error": "it is full"', "it is full"),
    "no_code": ('"error": {"message": "it is full"}', "it is full"),
    "code_with_letters": ('"error": {"code": "E_FULL", "message": "it is full"}', "it is full"),
    "no_message": ('"error": {"code": -32000, "message": {"why": "it is full"}}', "it is full"),
}


@pytest.mark.parametrize(("text", "reason"), table(ERRORS))
async def test_an_odd_error_says_its_reason(host: Host, text: str, reason: str) -> None:
    async with connected(host, {"tools/call good": text}) as connection:
        with pytest.raises(ProtocolError, match=reason):
            await connection.call("good")
        assert "its errors have no code that is a number" in remarks(connection)


async def test_an_empty_list_is_an_empty_result(host: Host) -> None:
    async with connected(host, {"ping": '"result": []'}) as connection:
        assert await connection.ping() > 0
        assert "it sends [] for an empty object" in remarks(connection)


# Notifications

LEVELS = {
    "warn": ("warn", "warning"),
    "fatal": ("fatal", "critical"),
    "trace": ("trace", "debug"),
    "upper_case": ("ERROR", "error"),
    "number": (3, "error"),
    "python": (30, "warning"),
    "unknown": ("loud", "warning"),
    "null": (None, "info"),
}


@pytest.mark.parametrize(("level", "shown"), table(LEVELS))
async def test_a_log_level_is_the_nearest(host: Host, level: Any, shown: str) -> None:
    notice = {"method": "notifications/message", "params": {"level": level, "data": "it"}}
    async with connected(host, {"before tools/call good": [notice]}) as connection:
        await connection.call("good")
        await until(lambda: [m.level for m in connection.notices.messages if m.data == "it"] == [shown])
        assert f"they are shown as {shown}" in remarks(connection)


async def test_a_log_message_without_data_is_shown(host: Host) -> None:
    notice = {"method": "notifications/message", "params": {"level": "info", "message": "it", "logger": 5}}
    async with connected(host, {"before tools/call good": [notice]}) as connection:
        await connection.call("good")
        await until(lambda: [m.logger for m in connection.notices.messages if m.data == "it"] == ["5"])


async def test_progress_in_texts_is_shown(host: Host) -> None:
    params = {"progressToken": "TOKEN", "progress": "3", "total": "5", "message": 7}
    seen: list[Any] = []

    async def note(*progress: Any) -> None:
        seen.append(progress)

    async with connected(
        host, {"before tools/call good": [{"method": "notifications/progress", "params": params}]}
    ) as connection:
        await connection.call_tool("good", {}, on_progress=note)
        await until(lambda: seen == [(3.0, 5.0, "7")])


# Where it is told

ODD = {"tools/list": {"tools": [TOOL, {"name": "odd"}, {"name": 5}]}, "tools/call good": {"content": "text"}}


async def test_each_oddity_is_told_once(host: Host) -> None:
    async with connected(host, ODD) as connection:
        for _ in range(2):
            await connection.listing("tools", refresh=True)
            await connection.call("good")
        texts = [m.data for m in connection.notices.messages if m.level == "warning"]
        assert texts == list(connection.info().remarks)
        assert len(texts) == len(set(texts)) == 4
        assert "the tool `odd` has no inputSchema" in str(connection.info())


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_doctor_lists_oddities(host: Host, transport: str) -> None:
    async with connected(host, ODD, transport) as connection:
        report = await examine(host, "odd", call="good")
        told = "\n".join(remark.text for remark in report["lists"].remarks if remark.status == "warning")
        for remark in connection.info().remarks:
            assert remark in told
        assert "a block is a text, not an object" in told
        assert report.ok is False, "a definition cannot be used"
        assert "not a valid definition: its name is 5, not a text" in "\n".join(report.problems)


async def test_the_doctor_names_what_a_page_lacks(host: Host) -> None:
    about = {"capabilities": {"tools": {}}, "resultType": "complete"}
    answers = {"server/discover": {"supportedVersions": ["2026-07-28"], **about}, "tools/list": {"tools": [TOOL]}}
    async with connected(host, answers, protocol="auto"):
        report = await examine(host, "odd")
        assert "the answer to tools/list breaks the protocol: " in "\n".join(report.problems)


async def test_many_odd_items_take_bounded_memory(host: Host) -> None:
    answers = {"tools/list": {"tools": [{"name": f"t{number}"} for number in range(200)]}}
    async with connected(host, answers) as connection:
        assert len(await connection.listing("tools")) == 200
        assert len(connection.info().remarks) == 50


async def test_calls_beside_an_odd_one_are_answered(host: Host) -> None:
    answers = {"tools/list": ODD["tools/list"], "tools/call odd": {"content": "text"}}
    async with connected(host, answers) as connection:
        results = await asyncio.gather(connection.call("good"), connection.call("odd"), connection.call("good"))
        assert [result.text for result in results] == ["right", "text", "right"]
        assert json.loads(json.dumps(connection.info().remarks))


# Lines with more than a message, and errors without an id, over stdio

ANSWER = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "right"}]}}'
NOTICE = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}}'
LINES = {
    "before": (f"processing... {ANSWER}", "'processing...'"),
    "after": (f"{ANSWER} // done", "'// done'"),
    "both": (f"[debug] {{}} {ANSWER} ok", "'[debug] {} ok'"),
    "log_of_request": ('got {"id": ID, "method": "tools/call"} ' + ANSWER, '\'got {"id": '),
    "two_messages": (NOTICE + ANSWER, "it writes several messages on one line; each is read"),
}


@pytest.mark.parametrize(("line", "remark"), table(LINES))
async def test_a_message_is_read_out_of_its_line(host: Host, line: str, remark: str) -> None:
    async with connected(host, {"tools/call good": line}, "stdio") as connection:
        assert (await connection.call_tool("good", {}, timeout=20)).text == "right"
        assert remark in remarks(connection)


FULL = '"error": {"code": -32603, "message": "the disk is full"}'
WITHOUT_ID = {
    "null": f'{{"jsonrpc": "2.0", "id": null, {FULL}, "about": ID}}',
    "none": f'{{"jsonrpc": "2.0", {FULL}, "about": ID}}',
}


@pytest.mark.parametrize("line", WITHOUT_ID.values(), ids=WITHOUT_ID)
async def test_an_error_without_id_ends_the_only_request(host: Host, line: str) -> None:
    async with connected(host, {"tools/call good": line}, "stdio") as connection:
        with pytest.raises(ProtocolError, match="odd:good: the disk is full"):
            await connection.call_tool("good", {}, timeout=20)


@pytest.mark.parametrize("line", WITHOUT_ID.values(), ids=WITHOUT_ID)
async def test_an_error_without_id_is_told_to_several(host: Host, line: str) -> None:
    tools = {"tools": [TOOL, {**TOOL, "name": "mute"}]}
    answers = {"tools/list": tools, "tools/call good": line, "tools/call mute": '{"nothing": ID}'}
    async with connected(host, answers, "stdio") as connection:
        await connection.listing("tools")
        calls = (connection.call_tool(name, {}, timeout=1) for name in ("mute", "good"))
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [RequestTimeoutError] * 2
        assert all("the error 'the disk is full', -32603" in str(error) for error in errors)


async def test_an_error_for_a_notification_ends_no_request(host: Host) -> None:
    refusal = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "unknown notification"}}'
    async with connected(host, {"before tools/list": [refusal]}, "stdio") as connection:
        assert (await connection.call_tool("good", {}, timeout=20)).text == "right"


# Questions in an answer


def asks(params: Any) -> dict[str, Any]:
    question = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}


FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTIONS = {
    "for_ever": (asks(FORM), SessionError, "odd:good: asked 10 times; given up."),
    "wrong": (asks({**FORM, "message": 5}), InvalidResponseError, "its question cannot be read: message is 5"),
    "missing": (asks({"message": "a"}), InvalidResponseError, "cannot be read: requestedSchema is missing"),
}


@pytest.mark.parametrize(("result", "kind", "text"), table(QUESTIONS))
async def test_questions_that_lead_nowhere_are_told(host: Host, result: Any, kind: type[Exception], text: str) -> None:
    async def accepts(question: Any) -> Answer:
        return Answer.accept({})

    host.elicitation.elicitor = accepts
    about = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }
    listed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [TOOL]}
    discovered = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **about}
    answers = {"server/discover": discovered, "tools/list": listed, "tools/call good": result}
    async with connected(host, answers, "http", protocol="auto") as connection:
        with pytest.raises(kind) as error:
            await connection.call_tool("good", {}, timeout=20)
    assert text in str(error.value)


async def test_an_empty_enum_is_left_out(host: Host) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": []}}, "required": ["a"]}
    answers = {"tools/list": {"tools": [{"name": "good", "inputSchema": schema}]}}
    async with connected(host, answers, "http") as connection:
        assert (await connection.call_tool("good", {"a": "x"})).text == "right"
    assert "a: its enum is not valid and is left out" in repairs_text(schema)
