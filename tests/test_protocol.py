"""The protocol as this package understands it: levels, codes, kinds of results, and results against their schemas."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

import pytest
from mcp_types import LoggingLevel

from mcp_magic.errors import InvalidResponseError
from mcp_magic.langchain.content import result_of, to_content
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.protocol import CODES, LEVELS, STATUSES, at_least
from tests.support.odd_server import MODERN, connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


def test_levels_are_those_of_the_protocol():
    assert get_args(LoggingLevel) == LEVELS
    assert [level for level in LEVELS if at_least(level, "error")] == ["error", "critical", "alert", "emergency"]
    assert not any(at_least(level, "off") for level in LEVELS)


def test_every_code_has_somebody_whose_fault_it_is():
    somebody = {"the caller", "mcp_magic", "the server", "the network", "you"}
    assert {fault.party for fault in [*CODES.values(), *STATUSES.values()]} == somebody


async def test_a_result_of_2026_without_type_is_complete(host):
    async with connected(host, MODERN, "stdio", protocol="auto") as connection:
        assert connection.protocol_version == "2026-07-28"
        assert (await connection.call("good")).text == "right"
        [answer] = [e for e in connection.trace.entries if e.method == "tools/call" and e.kind == "answer"]
        assert b"resultType" not in answer.text, "the trace has what came"


async def test_a_result_of_an_unknown_kind_is_an_error(host):
    answers = {**MODERN, "tools/call good": {"content": [], "resultType": "surprise"}}
    async with connected(host, answers, "stdio", protocol="auto") as connection:
        with pytest.raises(InvalidResponseError) as raised:
            await connection.call("good")
    breaks = "the server's answer breaks the protocol: its resultType is 'surprise', which mcp_magic does not know"
    assert str(raised.value) == f"odd:good: {breaks}"


# Results against the output schema of their tool

PRICE = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "price": {"type": "number", "multipleOf": 0.01}},
    "required": ["n"],
}
UNFIT = "the answer does not fit the tool's output schema: "
THREE = {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"n": "three"}}


@asynccontextmanager
async def answering(host: Host, schema: Any, result: dict[str, Any]) -> AsyncIterator[Connection]:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with connected(host, {"tools/list": {"tools": [tool]}, "tools/call t": result}, name="s") as connection:
        yield connection


MISSED: dict[str, tuple[Any, str]] = {
    "wrong_type": ({"structuredContent": {"n": "three"}}, f"{UNFIT}n: expected integer, got 'three'"),
    "missing": ({"structuredContent": {"price": 1}}, f"{UNFIT}missing: n (integer)"),
    "no_object": ({"structuredContent": [1]}, f"{UNFIT}the whole: expected object, got [1]"),
    "nothing": ({}, "the tool has an output schema, but its answer has no structured content"),
}


@pytest.mark.parametrize(("members", "unfit"), MISSED.values(), ids=MISSED)
async def test_an_answer_that_misses_its_schema_is_kept(host, members, unfit):
    async with answering(host, PRICE, {"content": [{"type": "text", "text": "n is 3"}], **members}) as connection:
        for _ in range(2):
            result = await connection.call("t")
            assert result.unfit == unfit
            assert result.raw.structured_content == members.get("structuredContent")
            assert unfit in str(result)
            assert unfit in repr(result)
        told = [remark for remark in connection.info().remarks if unfit in remark]
        assert told == [f"the tool `t`: {unfit}"], "a remark is made once"
        assert sum(unfit in str(message.data) for message in connection.notices.messages) == 1


async def test_the_strict_mode_raises_with_the_result(host):
    host.outputs.strict = True
    async with answering(host, PRICE, THREE) as connection:
        with pytest.raises(InvalidResponseError) as caught:
            await connection.call("t")
    run = "The tool has run: `error.result` has its answer"
    assert str(caught.value) == f"s:t: {UNFIT}n: expected integer, got 'three'\n  {run}"
    assert caught.value.result.data == {"n": "three"}


async def test_a_model_reads_an_unfit_answer_and_why(host):
    host.consent.policy = "auto"
    async with answering(host, PRICE, THREE) as connection:
        result = await connection.call("t")
        content, artifact = to_content(result)
        assert content == [f"[{UNFIT}n: expected integer, got 'three']", "{}"]
        [made] = langchain_tools(connection)
        message = await made.ainvoke({"type": "tool_call", "id": "1", "name": made.name, "args": {}})
    assert message.status == "success"
    assert result_of(message).unfit == result.unfit == artifact["unfit"]
    assert result_of(message).data == {"n": "three"}


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


FORMATS = [{"type": "string", "format": name} for name in ("date", "uuid")]
TOLERATED: dict[str, tuple[Any, Any]] = {
    "prices": (PRICE, {"n": 1, "price": 19.99}),
    "boolean_bound": (properties(n={"minimum": 0, "exclusiveMinimum": True}), {"n": 1}),
    "tuple": (properties(p={"items": [{"type": "number"}, {}]}), {"p": [1, "a"]}),
    "unknown_type": (properties(d={"type": "date"}), {"d": "2026-01-01"}),
    "required_inside": (properties(d={"type": "string", "required": True}), {"d": ""}),
    "null_title": ({**properties(d={"title": None}), "title": None}, {"d": 1}),
    "nullable": (properties(d={"type": "string", "nullable": True}), {"d": None}),
    "gemini": ({"type": "OBJECT", "properties": {"d": {"type": "INTEGER"}}}, {"d": 1}),
    "telling_format": (properties(d={"oneOf": FORMATS}), {"d": "2026-01-01"}),
    "missed_format": (properties(d={"format": "date"}), {"d": "tomorrow"}),
    "no_schema": ({}, {"d": 1}),
}


@pytest.mark.parametrize(("schema", "structured"), TOLERATED.values(), ids=TOLERATED)
async def test_an_odd_output_schema_refuses_no_answer(host, schema, structured):
    async with answering(host, schema, {"content": [], "structuredContent": structured}) as connection:
        result = await connection.call("t")
    assert (result.unfit, result.unchecked, result.data) == ("", "", structured)


async def test_repairs_of_input_schemas_are_remarked(host):
    odd = {**properties(n={"type": "INTEGER"}, p={"items": [{}]}), "required": ["q"]}
    async with connected(host, {"tools/list": {"tools": [{"name": "t", "inputSchema": odd}]}}) as connection:
        await connection.listing("tools")
        assert connection.info().remarks == (
            "the inputSchema of the tool `t`: n: the type 'INTEGER' is read as 'integer'; 'q' is required and not "
            "described: any value; p: a list in `items` is read as a tuple",
        )
