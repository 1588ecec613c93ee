"""The showcase's schemas and hints, the arguments that they take, and how its tools fail."""

import pytest
from jsonschema import Draft202012Validator
from mcp import MCPError

SERVER = "showcase_server"
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def value(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_every_hint_comes_with_each_value_and_one_tool_has_none(client):
    tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    for hint in ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint"):
        assert {getattr(hints, hint) for hints in tools.values() if hints} == {True, False, None}
    assert tools["hint_none"] is None
    assert tools["hint_title"].title == "A title among the hints"
    said = (await client.call_tool("hint_destructive", {})).content[0].text
    assert said == '{"readOnlyHint":false,"destructiveHint":true}'


async def test_schemas_are_valid_and_use_every_keyword(client):
    used = set()

    def collect(schema):
        used.update(schema if isinstance(schema, dict) else ())
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            collect(part)

    for tool in (await client.list_tools()).tools:
        for schema in (tool.input_schema, tool.output_schema or {}):
            Draft202012Validator.check_schema(schema)
            collect(schema)
    numbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    texts = {"minLength", "maxLength", "pattern", "format", "contentEncoding"}
    arrays = {"items", "minItems", "maxItems", "uniqueItems"}
    several = {"anyOf", "oneOf", "allOf", "enum", "const", "$ref", "$defs", "additionalProperties", "default"}
    assert numbers | texts | arrays | several <= used


ADDRESS = {"street": "Hill 1", "postcode": "12345"}
CUSTOMER = {"name": "Ada", "email": "ada@example.com", "address": ADDRESS}
ORDER = {"customer": CUSTOMER, "lines": [{"sku": "AB-1234", "quantity": 2, "price": 1.5}], "priority": "high"}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("enums", {"priority": "low", "size": "l", "level": 3}, {"priority": "low", "size": "l", "level": 3}),
        ("nullable", {"text": None, "flag": True}, {"text": None, "number": None, "flag": True}),
        ("union", {"value": 3}, {"type": "int", "value": 3}),
        ("union", {"value": [1.5]}, {"type": "list", "value": [1.5]}),
        ("union", {"value": {"kind": "circle", "radius": 2}}, {"type": "Circle"}),
        ("tree", {"root": {"name": "a", "children": [{"name": "b"}, {"name": "c"}]}}, {"nodes": 3, "depth": 2}),
        ("defaults", {}, {"text": "some text", "count": 3, "items": [1, 2], "nothing": None}),
        ("formats", {"day": "2026-01-31", "moment": "2026-01-31T12:00:00Z"}, {"day": "date: 2026-01-31"}),
        ("mapping", {"scores": {"a": 1, "b": 2.5}}, {"total": 3.5}),
        ("nothing", {}, {"result": "nothing was asked"}),
        ("anything", {"value": {"a": [None]}}, {"type": "dict", "value": {"a": [None]}}),
        ("constrained", {"even": 4, "fraction": 0.5, "code": "ABC"}, {"even": 4, "pair": [1, 2]}),
        ("combined", {"item": {"id": 1, "name": "x"}}, {"id": 1, "name": "x"}),
        ("binary", {"data": "AAEC"}, {"bytes": 3}),
        ("nested", {"order": ORDER}, {"total": 3.0}),
    ],
)
async def test_arguments_of_every_shape_arrive(client, tool, arguments, expected):
    assert expected.items() <= (await value(client, tool, **arguments)).items()


async def test_arguments_that_do_not_fit_are_tool_errors(client):
    wrong = {"even": 3, "fraction": 1, "code": "abc", "text": "x", "pair": [1]}
    result = await client.call_tool("constrained", wrong)
    assert result.is_error
    for said in ("multiple of 2", "less than 1", "match pattern", "at least 2 characters", "at least 2 items"):
        assert said in result.content[0].text


async def test_a_tool_fails_in_every_way(client, caplog):
    async def failed(tool, **arguments):
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        return result

    assert (await failed("fail_exception")).content[0].text == "Error executing tool fail_exception"
    assert "a secret" in caplog.text
    assert (await failed("fail_error", message="Nope.")).content[0].text.endswith("Nope.")
    structured = await failed("fail_structured")
    assert structured.structured_content["code"] == "quota"
    assert len((await failed("fail_several_texts")).content) == 2
    assert (await failed("fail_silently")).content == []
    with pytest.raises(MCPError, match="always refuses") as refused:
        await client.call_tool("fail_protocol", {})
    assert refused.value.data == {"reason": "showcase"}
    assert await value(client, "fail_sometimes", fail=False) == {"failed": False}
    await failed("fail_sometimes", fail=True)
