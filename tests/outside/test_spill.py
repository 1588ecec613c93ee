"""Answers that are too large for an agent: head, shape and handle, which a client that validates takes as well."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp_types import CallToolResult, ImageContent, TextContent, Tool

from mcp_magic.outside.spill import MEMBER, listed_output_schema, spilled
from mcp_magic.results.results import ToolResult
from mcp_magic.values.shared import SharedValues
from tests.support.lowlevel import serving_tools

ROWS = [{"city": f"City {number}", "n": number} for number in range(1000)]
SCHEMA = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}, "total": {"type": "integer"}},
    "required": ["rows", "total"],
    "additionalProperties": False,
    "$defs": {"row": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


@pytest.fixture
def shared():
    return SharedValues({"result_1": "the person's"})


def answer(*texts, structured=None, output_schema=None, **more) -> ToolResult:
    blocks = [TextContent(text=text) for text in texts]
    raw = CallToolResult(content=blocks, structured_content=structured, **more)
    return ToolResult(raw, server="crm", tool="list", output_schema=output_schema)


def test_a_small_answer_stays_as_it_is(shared):
    result = answer("x" * 400)
    assert spilled(result, shared.of("1"), 100) is result.raw
    assert spilled(answer("x" * 10_000), shared.of("1"), None).content[0].text == "x" * 10_000
    assert shared.of("1").names() == ()


def test_a_large_answer_becomes_head_shape_and_handle(shared):
    client = shared.of("1")
    result = answer("x", structured={"rows": ROWS, "total": 1000}, output_schema=SCHEMA)
    large = spilled(result, client, 100)
    text = large.content[0].text
    assert text.startswith("[result_2: table of 1,000 rows x 2 columns (city, n). About")
    assert "read_value reads on.]\nIt begins with:\ncity,n\nCity 0,0\n" in text
    assert text.endswith('{"$value": "result_2"} puts it into the arguments of a tool, without reading it.')
    assert len(text) < 500
    assert large.structured_content == {MEMBER: {"handle": "result_2"}}
    assert client.get("result_2") is result
    assert shared.of("2").names() == ()


def test_images_stay_and_errors_are_cut(shared):
    client = shared.of("1")
    image = ImageContent(data="AAAA", mime_type="image/png")
    raw = CallToolResult(content=[TextContent(text="x" * 1000), image], is_error=True)
    failed = spilled(ToolResult(raw), client, 10)
    assert failed.is_error
    assert [block.type for block in failed.content] == ["text", "image"]
    assert failed.content[0].text == f"{'x' * 40}\n[cut here; the error has 1,000 characters]"
    assert client.names() == ()
    large = spilled(ToolResult(raw.model_copy(update={"is_error": False})), client, 10)
    assert [block.type for block in large.content] == ["text", "image"]
    assert large.structured_content is None


@pytest.mark.parametrize(
    ("schema", "listed"),
    [
        (None, None),
        ({"type": "array"}, None),
        ({"type": "object", "$ref": "#/$defs/a"}, None),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, None),
        ({"type": "object", "properties": {MEMBER: {}}}, None),
        ({"type": "object", "minProperties": 2}, None),
    ],
    ids=str,
)
def test_other_output_schemas_are_left_out(schema, listed):
    assert listed_output_schema(schema) == listed


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_validates_takes_both(shared, mode):
    values = shared.of("1")
    small = {"rows": ROWS[:1], "total": 1}
    listed = Tool(name="list", input_schema={"type": "object"}, output_schema=listed_output_schema(SCHEMA))
    assert {"$defs", "properties", "type"} == set(listed.output_schema)

    async def handle(name, arguments):
        structured = {"rows": ROWS, "total": 1000} if arguments else small
        return spilled(answer("x", structured=structured, output_schema=SCHEMA), values, 100)

    async with Client(serving_tools(listed, handler=handle), mode=mode) as client:
        await client.list_tools()
        assert (await client.call_tool("list", {})).structured_content == small
        assert (await client.call_tool("list", {"all": 1})).structured_content == {MEMBER: {"handle": "result_2"}}
