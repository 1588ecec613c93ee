"""Lines of a server's standard output: messages on several lines, beside other text, and in any length."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from mcp_magic.doctor import examine
from mcp_magic.errors import ProtocolError, RequestTimeoutError
from mcp_magic.session import stdio
from mcp_magic.session.stdio import SpreadMessages
from tests.support.odd_http import outcome
from tests.support.odd_server import TOOL, connected, remarks

ANSWER = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "right"}]}}'
NOTICE = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}}'
BESIDE = {
    "before": (f"processing... {ANSWER}", "'processing...'"),
    "after": (f"{ANSWER} // done", "'// done'"),
    "both": (f"[debug] {{}} {ANSWER} ok", "'[debug] {} ok'"),
    "log_of_request": ('got {"id": ID, "method": "tools/call"} ' + ANSWER, '\'got {"id": '),
    "two_messages": (NOTICE + ANSWER, "it writes several messages on one line; each is read"),
}


@pytest.mark.parametrize(("line", "remark"), BESIDE.values(), ids=BESIDE)
async def test_a_message_is_read_out_of_its_line(host, line, remark):
    async with connected(host, {"tools/call good": line}, "stdio") as connection:
        assert await outcome(connection) == "right"
        assert remark in remarks(connection)


FULL = '"error": {"code": -32603, "message": "the disk is full"}'
WITHOUT_ID = [f'{{"jsonrpc": "2.0", "id": null, {FULL}, "about": ID}}', f'{{"jsonrpc": "2.0", {FULL}, "about": ID}}']


@pytest.mark.parametrize("line", WITHOUT_ID, ids=["null", "none"])
async def test_an_error_without_id_ends_the_only_request(host, line):
    unknown = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "unknown notification"}}'
    tools = {"tools": [TOOL, {**TOOL, "name": "mute"}, {**TOOL, "name": "told"}]}
    answers = {"tools/list": tools, "tools/call good": line, "tools/call mute": '{"nothing": ID}'}
    answers |= {"tools/call told": {"content": []}, "before tools/list": [unknown]}
    async with connected(host, answers, "stdio") as connection:
        assert await outcome(connection, "told") == "", "an error for a notification ends no request"
        with pytest.raises(ProtocolError, match="odd:good: the disk is full"):
            await connection.call_tool("good", {}, timeout=20)
        calls = (connection.call_tool(name, {}, timeout=1) for name in ("mute", "good"))
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [RequestTimeoutError] * 2, "it is told to both"
        assert all("the error 'the disk is full', -32603" in str(error) for error in errors)


async def test_a_message_on_several_lines_is_read(host):
    async with connected(host, {"form": "pretty"}, "stdio") as connection:
        assert await outcome(connection) == "right"
        assert remarks(connection) == "it spreads a message over several lines; MCP over stdio has one message on each"
        report = await examine(host, connection.spec, call="good")
        assert report.ok
        assert "over several lines" in "\n".join(report.problems)


def pretty(value: Any, **options: Any) -> str:
    return json.dumps(value, indent=2, **options) + "\n"


MESSAGE = {"jsonrpc": "2.0", "id": 1, "result": {"a": [1, True, None, -2.5, '{"[\\'], "b": {}, "c": [], "é": "\u2028"}}
WHOLE = json.dumps(MESSAGE) + "\n"
LINES: dict[str, tuple[str, list[Any], str]] = {
    "usual": (WHOLE * 2, [MESSAGE] * 2, ""),
    "pretty": (pretty(MESSAGE), [MESSAGE], ""),
    "unicode": (pretty(MESSAGE, ensure_ascii=False), [MESSAGE], ""),
    "windows": (pretty(MESSAGE).replace("\n", "\r\n"), [MESSAGE], ""),
    "tabs": (json.dumps(MESSAGE, indent="\t") + "\n", [MESSAGE], ""),
    "braces": ("{\n" + WHOLE[1:-2] + "\n}\n", [MESSAGE], ""),
    "batch": (pretty([MESSAGE, MESSAGE]), [[MESSAGE, MESSAGE]], ""),
    "text_before": ("[INFO] on,\nLoading {\n" + pretty(MESSAGE), [MESSAGE], "[INFO] on,\nLoading {\n"),
    "brace_before": ("{\n" + WHOLE, [MESSAGE], "{\n"),
    "brace_before_pretty": ("{\n" + pretty(MESSAGE), [MESSAGE], "{\n"),
    "list_before": ('[\n{"a": [\n' + WHOLE, [MESSAGE], '[\n{"a": [\n'),
    "other_object": (pretty({"a": [1]}) + WHOLE, [MESSAGE], pretty({"a": [1]})),
    "text_between": ('{\n  "jsonrpc": "2.0",\nLoading\n' + WHOLE, [MESSAGE], '{\n  "jsonrpc": "2.0",\nLoading\n'),
    "never_closed": ('{\n"a": 1,\n', [], '{\n"a": 1,\n'),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("size", [1, 1000], ids=["line_by_line", "together"])
def test_lines_of_messages_are_joined(name, size):
    text, messages, others = LINES[name]
    spread = SpreadMessages()
    lines = text.splitlines(keepends=True) if name != "unicode" else [f"{line}\n" for line in text[:-1].split("\n")]
    passed = "".join(map(spread.join, lines if size == 1 else [text])) + spread.rest()
    joined, rest = [], ""
    for line in passed.split("\n")[:-1]:
        value = None
        with suppress(ValueError):
            value = json.loads(line)
        if value in messages:
            joined.append(value)
        else:
            rest += f"{line}\n"
    assert (joined, rest) == (messages, others)


def test_lines_are_kept_back_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(stdio, "MAX_LINES", 10)
    spread = SpreadMessages()
    lines = ["{\n", *['"a": 1,\n'] * 20]
    assert "".join(map(spread.join, lines)).startswith("".join(lines[:11]))
