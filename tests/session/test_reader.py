"""Odd answers and notifications: results are read block by block, and text that is almost JSON is read."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.ask.elicitation import Answer
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import InvalidResponseError, ProtocolError, SessionError
from tests.support.odd_server import MODERN, TOOL, TRANSPORTS, connected, remarks
from tests.support.waiting import until

EVERYWHERE = pytest.mark.parametrize("transport", TRANSPORTS)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(20)).decode()
A, B = ({"type": "text", "text": text} for text in "ab")

RESULTS: dict[str, Any] = {
    "unknown": (
        {"content": [A, {"type": "chart", "points": [1]}, B]},
        ["text", "resource", "text"],
        'a block of the type "chart"; it is shown as JSON',
    ),
    "broken_block": ({"content": [{"type": "text"}, A]}, ["resource", "text"], "no text"),
    "no_type": ({"content": [{"text": "a"}]}, ["text"], "a block has the type null; it is read as text"),
    "texts": ({"content": ["a", "b"]}, ["text", "text"], "a block is a text, not an object"),
    "text": ({"content": "a"}, ["text"], "a block is a text, not an object"),
    "block": ({"content": A}, ["text"], "content is one block"),
    "null": ({"content": None}, [], "content is null, not a list"),
    "empty": ({"content": {}}, [], "content is {}, not a list"),
    "number": ({"content": [{"type": "text", "text": 5}]}, ["text"], "a text is 5"),
    "structured": ({"structuredContent": {"a": 1}}, [], "has no content"),
    "rest": ({"toolResult": "a"}, ["text"], "has no content"),
    "annotations": ({"content": [{**A, "annotations": {"priority": 5}}]}, ["text"], "priority"),
    "link": ({"content": [{"type": "resource_link", "uri": "a:b"}]}, ["resource_link"], "a link has no name"),
    "resource": ({"content": [{"type": "resource", "resource": {"text": "a"}}]}, ["resource"], "has no uri"),
    "is_error": ({"content": [], "isError": None}, [], "isError is null"),
    "image": ({"content": [{"type": "image", "data": PNG}]}, ["image"], "it is image/png by its bytes"),
}


@pytest.mark.parametrize(("result", "kinds", "remark"), RESULTS.values(), ids=RESULTS)
async def test_a_result_is_read_block_by_block(host, result, kinds, remark):
    async with connected(host, {"tools/call good": result}) as connection:
        answer = await connection.call("good")
        assert [block.type for block in answer.raw.content] == kinds
        assert remark in remarks(connection)
        assert answer.raw.structured_content == result.get("structuredContent")
        if kinds == ["text", "resource", "text"]:
            assert (answer.text, '"points"' in str(answer)) == (["a", "b"], True)
            sent = [entry.message for entry in connection.trace.entries if entry.method == "tools/call"][-1]
            assert sent["result"]["content"][1] == {"type": "chart", "points": [1]}, "the trace has it as it came"


BARE: dict[str, tuple[Any, Any, str]] = {
    "text": ("42 degrees", "42 degrees", 'the result of an answer is "42 degrees", not an object'),
    "number": (42, "42", "the result of an answer is 42, not an object"),
    "false": (False, "false", "the result of an answer is false, not an object"),
    "blocks": ([A, B], ["a", "b"], "not an object"),
    "list": ([1, "a"], '[1, "a"]', 'the result of an answer is [1, "a"], not an object'),
    "null": (None, "", "the result of an answer is null, not an object"),
}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_result_that_is_no_object_is_kept(host, transport):
    answers = {f"tools/call {name}": f'"result": {json.dumps(case[0])}' for name, case in BARE.items()}
    answers["tools/list"] = {"tools": [{**TOOL, "name": name} for name in BARE]}
    async with connected(host, answers, transport) as connection:
        for name, (_, text, remark) in BARE.items():
            answer = await connection.call(name)
            assert (answer.text, answer.is_error) == (text, False), name
            assert remark in remarks(connection)
            assert "not an object; it is kept" in remarks(connection)


@EVERYWHERE
async def test_other_results_that_are_no_object_are_read(host, transport):
    answers: dict[str, Any] = {
        "tools/list": f'"result": {json.dumps([TOOL])}',
        "resources/read": '"result": "hello"',
        "prompts/list": '"result": [{"name": "p"}]',
        "prompts/get p": '"result": ["say hello"]',
        "odd/method": '"result": 5',
        "ping": '"result": []',
    }
    async with connected(host, answers, transport) as connection:
        assert [tool.name for tool in await connection.listing("tools")] == ["good"]
        assert (await connection.read("a:b")).text == "hello"
        assert (await connection.prompt("p")).raw.messages[0].content.text == "say hello"
        assert await connection.request("odd/method") == {"result": 5}
        assert await connection.ping() > 0
        assert "it sends [] for an empty object" in remarks(connection)


ONE_ITEM: dict[str, tuple[Any, str | None]] = {
    "text": ({"text": "hello"}, "hello"),
    "blob": ({"blob": "aGk=", "mimeType": "application/x-a"}, None),
    "other": ({"rows": [1]}, '{"rows": [1]}'),
}


@pytest.mark.parametrize(("result", "text"), ONE_ITEM.values(), ids=ONE_ITEM)
async def test_a_resource_without_contents_is_one_item(host, result, text):
    async with connected(host, {"resources/read": result}) as connection:
        [item] = (await connection.read("a:x")).raw.contents
        assert (getattr(item, "text", None), getattr(item, "blob", None)) == (text, result.get("blob"))
        assert "contents is " in remarks(connection)


async def test_a_resource_is_read_item_by_item(host):
    items = [{"text": "a"}, "b", {"uri": "a:c", "text": {"n": 1}}, {"uri": "a:d"}, {"uri": "a:e", "blob": "_-8"}]
    async with connected(host, {"resources/read": {"contents": items}}) as connection:
        contents = (await connection.read("a:x")).raw.contents
        assert [getattr(item, "text", None) for item in contents] == ["a", "b", '{"n": 1}', '{"uri": "a:d"}', None]
        assert (str(contents[0].uri), contents[4].blob) == ("a:x", "/+8=")
        assert "an item of contents has no uri" in remarks(connection)


PROMPTS: dict[str, tuple[Any, list[tuple[str, str]], str]] = {
    "content": ({"content": A}, [("user", "text")], "content is one block, not a list of blocks"),
    "text": ({"text": "a"}, [("user", "text")], "a block is a text, not an object"),
    "messages": (
        {"messages": [{"role": "system", "content": "a"}, {"role": "assistant", "content": [B, {"type": "odd"}]}]},
        [("user", "text"), ("assistant", "text"), ("assistant", "resource")],
        'the role of a message is "system"',
    ),
}


@pytest.mark.parametrize(("result", "kinds", "remark"), PROMPTS.values(), ids=PROMPTS)
async def test_a_prompt_is_read_message_by_message(host, result, kinds, remark):
    listing = {"prompts": [{"name": "p"}]}
    async with connected(host, {"prompts/list": listing, "prompts/get p": result}) as connection:
        messages = (await connection.prompt("p")).raw.messages
        assert [(message.role, message.content.type) for message in messages] == kinds
        assert messages[0].content.text == "a"
        assert remark in remarks(connection)


MEDIA = {
    "url_safe": ("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\xfb\xff" * 9).decode(), "image/png"),
    "wrong_type": ("image/png", JPEG, "image/jpeg"),
    "no_type": (None, JPEG, "image/jpeg"),
    "data_url": ("image/png", f"data:image/png;base64,{PNG}", "image/png"),
}


@pytest.mark.parametrize(("stated", "data", "kind"), MEDIA.values(), ids=MEDIA)
async def test_an_image_is_read_by_its_bytes(host, tmp_path, stated, data, kind):
    sent = data.replace("+", "-").replace("/", "_").rstrip("=") if not data.startswith("data:") else data
    block = {"type": "image", "data": sent, **({"mimeType": stated} if stated else {})}
    async with connected(host, {"tools/call good": {"content": [block]}}) as connection:
        [image] = (await connection.call("good")).images
        assert (image.mime_type, image.bytes) == (kind, base64.b64decode(data.rpartition(",")[2]))
        assert image.save(tmp_path / "image").suffix == {"image/png": ".png"}.get(kind, ".jpg")
        assert remarks(connection)


# Text that is almost JSON

HALF = '"result": {"content": [{"type": "text", "text": "a\\ud83d b \\ud83d\\ude00 \\\\ud83d"}]}'
MENDED = "a\ufffd b \U0001f600 \\ud83d"


@EVERYWHERE
async def test_half_a_surrogate_is_a_replacement_character(host, transport):
    answers: dict[str, Any] = {
        "tools/list": '"result": {"tools": [{"name": "good", "description": "x\\udfff", "inputSchema": {}}]}',
        "tools/call good": HALF,
        "before tools/call good": [
            '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "l\\ud83d"}}'
        ],
        "resources/read": '"result": {"contents": [{"uri": "a:b", "text": "r\\ud83d"}]}',
        "ping": '"error": {"code": -32000, "message": "no\\ud83d"}',
    }
    async with connected(host, answers, transport) as connection:
        assert (await connection.listing("tools"))[0].description == "x\ufffd"
        assert (await connection.call("good")).text == MENDED
        assert (await connection.read("a:b")).raw.contents[0].text == "r\ufffd"
        with pytest.raises(ProtocolError, match="no\ufffd"):
            await connection.request("ping")
        if transport != "http":  # which sends answers only
            await until(lambda: any(message.data == "l\ufffd" for message in connection.notices.messages))
        assert remarks(connection).count("halves of surrogate pairs") == 1
        assert any(b"a\\ud83d b" in entry.text for entry in connection.trace.entries), "as it came"


async def test_a_cassette_keeps_half_a_surrogate(host, tmp_path):
    tape = tmp_path / "tape.jsonl"
    for mode in ("record", "replay"):
        with deck.holding(tape, mode):
            async with connected(host, {"tools/call good": HALF}, "stdio") as connection:
                assert (await connection.call("good")).text == MENDED
                assert "halves of surrogate pairs" in remarks(connection)
            await host.disconnect("odd")
    assert b"a\\ud83d b" in tape.read_bytes()


async def test_a_server_of_this_kernel_may_send_half_a_surrogate(host):
    server = MCPServer("here")
    server.add_tool(lambda: "a\ud83d b", name="half", structured_output=False)
    connection = await host.connect(server, name="here")
    assert (await connection.call("half")).text == "a\ufffd b"
    assert "halves of surrogate pairs" in remarks(connection)


LONG = f'"result": {{"content": [], "structuredContent": {{"a": [{"9" * 5000}, "{"8" * 5000}"]}}}}'
TEXTS = {
    "mark": ('\ufeff{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}', "byte-order mark"),
    "control": ('"result": {"content": [{"type": "text", "text": "a\x01\tb"}]}', "control characters"),
    "version": ('{"id": ID, "result": {"content": []}}', 'its answers have no "jsonrpc": "2.0"'),
    "float_id": ('{"jsonrpc": "2.0", "id": ID.0, "result": {"content": []}}', "its answers have ids such as 7.0 for 7"),
    "long_integer": (LONG, "integers of more than 4,300 digits; they are read as texts"),
}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_almost_json_is_read(host, transport):
    answers: dict[str, Any] = {f"tools/call {name}": text for name, (text, _) in TEXTS.items()}
    answers["tools/list"] = {"tools": [{**TOOL, "name": name} for name in TEXTS]}
    async with connected(host, answers, transport) as connection:
        for name, (_, remark) in TEXTS.items():
            assert remark not in remarks(connection)
            assert (await connection.call(name)).text == ("a\x01\tb" if name == "control" else "")
            assert remark in remarks(connection)


ERRORS = {
    "text": '"error": "it is full"',
    "no_code": '"error": {"message": "it is full"}',
    "letters": '"error": {"code": "E_FULL", "message": "it is full"}',
    "no_message": '"error": {"code": -32000, "message": {"why": "it is full"}}',
}


@pytest.mark.parametrize("text", ERRORS.values(), ids=ERRORS)
async def test_an_odd_error_says_its_reason(host, text):
    async with connected(host, {"tools/call good": text}) as connection:
        with pytest.raises(ProtocolError, match="it is full"):
            await connection.call("good")
        assert "its errors have no code that is a number" in remarks(connection)


# Notifications

LEVELS: dict[str, tuple[Any, str]] = {
    "warn": ("warn", "warning"),
    "fatal": ("fatal", "critical"),
    "trace": ("trace", "debug"),
    "upper_case": ("ERROR", "error"),
    "number": (3, "error"),
    "python": (30, "warning"),
    "unknown": ("loud", "warning"),
    "null": (None, "info"),
}


@pytest.mark.parametrize(("level", "shown"), LEVELS.values(), ids=LEVELS)
async def test_a_log_level_is_the_nearest(host, level, shown):
    notice = {"method": "notifications/message", "params": {"level": level, "data": "it"}}
    async with connected(host, {"before tools/call good": [notice]}) as connection:
        await connection.call("good")
        await until(lambda: [m.level for m in connection.notices.messages if m.data == "it"] == [shown])
        assert f"they are shown as {shown}" in remarks(connection)


async def test_odd_progress_and_a_log_without_data_are_shown(host):
    params = {"progressToken": "TOKEN", "progress": "3", "total": "5", "message": 7}
    log = {"method": "notifications/message", "params": {"level": "info", "message": "it", "logger": 5}}
    seen: list[Any] = []

    async def note(*progress: Any) -> None:
        seen.append(progress)

    notices = [{"method": "notifications/progress", "params": params}, log]
    async with connected(host, {"before tools/call good": notices}) as connection:
        await connection.call_tool("good", {}, on_progress=note)
        await until(lambda: seen == [(3.0, 5.0, "7")])
        await until(lambda: [m.logger for m in connection.notices.messages if m.data == "it"] == ["5"])


# Questions in an answer

FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTIONS: dict[str, tuple[Any, type[Exception], str]] = {
    "for_ever": (FORM, SessionError, "odd:good: asked 10 times; given up."),
    "wrong": ({**FORM, "message": 5}, InvalidResponseError, "its question cannot be read: message is 5"),
    "missing": ({"message": "a"}, InvalidResponseError, "cannot be read: requestedSchema is missing"),
}


@pytest.mark.parametrize(("params", "kind", "text"), QUESTIONS.values(), ids=QUESTIONS)
async def test_questions_that_lead_nowhere_are_told(host, params, kind, text):
    async def accepts(question: Any) -> Answer:
        return Answer.accept({})

    host.elicitation.elicitor = accepts
    question = {"q": {"method": "elicitation/create", "params": params}}
    asked = {"resultType": "input_required", "inputRequests": question, "requestState": "s"}
    async with connected(host, {**MODERN, "tools/call good": asked}, "http", protocol="auto") as connection:
        with pytest.raises(kind) as error:
            await connection.call_tool("good", {}, timeout=20)
    assert text in str(error.value)
