"""Answers that miss the output schema of their tool are kept, with a remark; where it is wanted, they are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from tests.support.defined_server import command

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.results.results import ToolResult

PRICE = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "price": {"type": "number", "multipleOf": 0.01}},
    "required": ["n"],
}
UNFIT = "the answer does not fit the tool's output schema: "


def tool(schema: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}


def answer(structured: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "{}"}], "structuredContent": structured}


async def called(host: Host, schema: Any, result: dict[str, Any]) -> ToolResult:
    await host.connect(command(tool(schema), answers={"t": result}), name="s")
    return await host["s"].call("t")


MISSED = {
    "wrong type": (answer({"n": "three"}), UNFIT + "n: expected integer, got 'three'"),
    "missing": (answer({"price": 1}), UNFIT + "missing: n (integer)"),
    "not an object": (answer([1]), UNFIT + "the whole: expected object, got [1]"),
    "no structured content": (
        {"content": [{"type": "text", "text": "n is 3"}]},
        "the tool has an output schema, but its answer has no structured content",
    ),
}


@pytest.mark.parametrize("name", MISSED)
async def test_an_answer_that_misses_its_schema_is_kept(host: Host, name: str) -> None:
    raw, unfit = MISSED[name]
    result = await called(host, PRICE, raw)

    assert result.unfit == unfit
    assert result.raw.structured_content == raw.get("structuredContent")
    assert unfit in str(result)
    assert unfit in repr(result)
    assert host["s"].info().remarks == (f"the tool `t`: {unfit}",)


async def test_a_remark_about_answers_is_made_once(host: Host) -> None:
    await called(host, PRICE, answer({"n": "three"}))
    await host["s"].call("t")

    assert len(host["s"].info().remarks) == 1
    assert sum("does not fit" in str(message.data) for message in host["s"].notices.logs.messages) == 1


async def test_the_strict_mode_raises_with_the_result(host: Host) -> None:
    host.outputs.strict = True
    with pytest.raises(errors.InvalidResponseError) as caught:
        await called(host, PRICE, answer({"n": "three"}))

    assert str(caught.value) == (
        f"s:t: {UNFIT}n: expected integer, got 'three'\n  The tool has run: `error.result` has its answer"
    )
    assert caught.value.result.data == {"n": "three"}


TOLERATED: dict[str, tuple[Any, Any]] = {
    "prices": (PRICE, {"n": 1, "price": 19.99}),
    "a boolean bound": ({"type": "object", "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}}, {"n": 1}),
    "a tuple": ({"type": "object", "properties": {"p": {"items": [{"type": "number"}, {}]}}}, {"p": [1, "a"]}),
    "an unknown type": ({"type": "object", "properties": {"d": {"type": "date"}}}, {"d": "2026-01-01"}),
    "required in a property": (
        {"type": "object", "properties": {"d": {"type": "string", "required": True}}},
        {"d": ""},
    ),
    "a title that is null": ({"type": "object", "title": None, "properties": {"d": {"title": None}}}, {"d": 1}),
    "nullable": ({"type": "object", "properties": {"d": {"type": "string", "nullable": True}}}, {"d": None}),
    "types of Gemini": ({"type": "OBJECT", "properties": {"d": {"type": "INTEGER"}}}, {"d": 1}),
    "a format that tells apart": (
        {
            "type": "object",
            "properties": {"d": {"oneOf": [{"type": "string", "format": f} for f in ("date", "uuid")]}},
        },
        {"d": "2026-01-01"},
    ),
    "a format that is missed": ({"type": "object", "properties": {"d": {"format": "date"}}}, {"d": "tomorrow"}),
    "no schema": ({}, {"d": 1}),
}


@pytest.mark.parametrize("name", TOLERATED)
async def test_a_schema_that_is_odd_refuses_no_answer(host: Host, name: str) -> None:
    schema, structured = TOLERATED[name]
    result = await called(host, schema, answer(structured))

    assert (result.unfit, result.unchecked) == ("", "")
    assert result.data == structured


async def test_a_model_reads_the_answer_and_what_is_wrong(host: Host) -> None:
    from mcp_magic.langchain.content import result_of, to_content
    from mcp_magic.langchain.tools import langchain_tools

    result = await called(host, PRICE, answer({"n": "three"}))
    content, artifact = to_content(result)

    assert content == [f"[{UNFIT}n: expected integer, got 'three']", "{}"]
    host.consent.policy = "auto"
    [made] = langchain_tools(host["s"])
    message = await made.ainvoke({"type": "tool_call", "id": "1", "name": made.name, "args": {}})
    assert message.status == "success"
    assert result_of(message).unfit == result.unfit == artifact["unfit"]
    assert result_of(message).data == {"n": "three"}


async def test_what_was_repaired_in_schemas_is_remarked(host: Host) -> None:
    odd = {"type": "object", "properties": {"n": {"type": "INTEGER"}, "p": {"items": [{}]}}, "required": ["q"]}
    await host.connect(command({"name": "t", "inputSchema": odd}), name="s")
    await host["s"].listing("tools")

    assert host["s"].info().remarks == (
        "the inputSchema of the tool `t`: n: the type 'INTEGER' is read as 'integer'; 'q' is required and not "
        "described: any value; p: a list in `items` is read as a tuple",
    )
