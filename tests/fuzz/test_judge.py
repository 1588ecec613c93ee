"""What one call shows about a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import CallToolResult, TextContent, Tool

from mcp_magic.fuzz import check_call
from mcp_magic.fuzz.judge import ArgumentsJudge
from mcp_magic.results.results import CheckFailedError
from tests.support.lowlevel import serving_tools

PYDANTIC = "1 validation error for callArguments\nn\n  Input should be a valid integer [type=int_type, input_value='x']"
VALUE = "1 validation error for callArguments\nn\n  Value error, no such day [type=value_error, input_value='x']"
ZOD = 'MCP error -32602: Invalid arguments for tool f: [{"code": "too_small", "path": ["n"]}]'
JAVASCRIPT = "TypeError: x is undefined\n    at run (/app/index.js:12:3)\n    at node:internal/process:95:5"
JAVA = 'Exception in thread "main"\n\tat org.example.Main.run(Main.java:12)'
GO = "panic: nil map\n\ngoroutine 1 [running]:\nmain.main()"
RUST = "thread 'main' panicked at src/main.rs:4:9:\nindex out of bounds"

OUTCOMES: list[tuple[dict[str, Any], bool, str, str]] = [
    ({"n": 1}, False, "ok", ""),
    ({"n": 1}, True, "no such city: 1", ""),
    ({"n": 1}, True, PYDANTIC, "refuses"),
    ({"n": 1}, True, ZOD, "refuses"),
    ({"n": 1}, True, VALUE, ""),
    ({"n": "x"}, True, PYDANTIC, ""),
    ({"n": "x"}, False, "ok", "accepts: takes what breaks `type` of n"),
    ({}, False, "ok", "accepts: takes what breaks `required`"),
    ({"n": 1, "m": 2}, False, "ok", "accepts: takes a name that is not listed"),
    ({"n": "x"}, False, f"Error: {PYDANTIC}", ""),
    ({"n": 1, "day": "someday"}, False, "a `format` is an annotation", ""),
    ({"n": 1}, True, JAVASCRIPT, "traceback"),
    ({"n": 1}, True, JAVA, "traceback"),
    ({"n": 1}, False, GO, "traceback"),
    ({"n": 1}, True, RUST, "traceback"),
    (
        {"n": 1},
        True,
        "Error executing tool f: IndexError: list index out of range",
        "exception: IndexError: list index",
    ),
    ({"n": 1}, True, "Error: Cannot read properties of undefined (reading 'a')", "exception: Cannot read properties"),
    ({"n": 1}, True, "ValueError: there is no such city", ""),
    ({"n": 1}, False, "the lesson is about IndexError: list index out of range", ""),
]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "day": {"type": "string", "format": "date"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(("arguments", "is_error", "text", "fault"), OUTCOMES, ids=range(len(OUTCOMES)))
async def test_answer_is_judged_by_the_schema(host, arguments, is_error, text, fault):
    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        assert values == arguments, "they are sent as they are"
        return CallToolResult(content=[TextContent(text=text)], is_error=is_error)

    connection = await host.connect(serving_tools(Tool(name="f", input_schema=SCHEMA), handler=answer), name="shop")
    if not fault:
        await check_call(connection, "f", arguments)
        return
    with pytest.raises(CheckFailedError, match=r"^shop:f: ") as caught:
        await check_call(connection, "f", arguments)
    assert str(caught.value).startswith(f"shop:f: {fault}")


@pytest.mark.parametrize(
    ("code", "arguments", "fault"),
    [(-32603, {"n": 1}, "internal error"), (-32602, {"n": 1}, "refuses"), (-32602, {}, ""), (-32000, {"n": 1}, "")],
)
async def test_errors_are_judged_by_their_code(host, code, arguments, fault):
    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        raise MCPError(code, "not that")

    connection = await host.connect(serving_tools(Tool(name="f", input_schema=SCHEMA), handler=answer), name="shop")
    if not fault:
        await check_call(connection, "f", arguments)
        return
    with pytest.raises(CheckFailedError, match=f"^shop:f: {fault}: not that"):
        await check_call(connection, "f", arguments)


async def test_answer_has_to_fit_the_output_schema(host):
    async def answer(name: str, values: dict[str, Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=json.dumps(values))], structured_content=values)

    output = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}}
    tool = Tool(name="f", input_schema=SCHEMA, output_schema=output)
    connection = await host.connect(serving_tools(tool, handler=answer), name="shop")
    await check_call(connection, "f", {"n": 5})
    with pytest.raises(CheckFailedError, match="output: the answer does not fit the tool's output schema: n: "):
        await check_call(connection, "f", {"n": 6})


def test_judge_says_nothing_where_it_is_not_sure():
    judge = ArgumentsJudge({"type": "object", "properties": {"a": {"type": "str"}, "b": {"type": "integer"}}})
    assert judge.unsure == "a: the type 'str' is read as 'string'"
    assert judge.allows({"b": "x"}) is None
    judge = ArgumentsJudge({"type": "object", "properties": {"day": {"format": "date", "type": "string"}}})
    assert [judge.allows({"day": day}) for day in ("2026-01-31", "someday", 5)] == [True, None, False]
    judge = ArgumentsJudge({"type": "object", "properties": {"a": {"pattern": "[", "type": "string"}}})
    assert judge.allows({"a": "x"}) is None
