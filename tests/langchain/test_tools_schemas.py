"""What providers get of a tool's schema by way of LangChain."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_types import Tool

from mcp_magic.langchain.tools import MCPTool, portable
from tests.environments import everything_command, needs_node
from tests.support.bundled import load
from tests.support.lowlevel import serving_tools
from tests.support.strategies import QUICK, anything_like_a_schema


def tool(schema: dict[str, Any]) -> MCPTool:
    async def nothing(arguments: dict[str, Any]) -> tuple[str, None]:
        return "", None

    settings: Any = {"coroutine": nothing, "response_format": "content_and_artifact"}
    return MCPTool(name="t", description="Does it", args_schema=schema, **settings)


def parameters(schema: dict[str, Any]) -> Any:
    return convert_to_openai_tool(tool(schema))["function"]["parameters"]


def without_titles(schema: Any) -> Any:
    """Leave out what LangChain leaves out: the titles of schemas, which are for people."""
    if isinstance(schema, list):
        return [without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_titles(part) for key, part in schema.items() if key != "title" or isinstance(part, dict)}


NESTED = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "where": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "A place"},
        "many": {"type": "array", "items": {"type": "object", "properties": {"x": {"enum": [1, "a", None]}}}},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def test_a_schema_arrives_without_its_dialect():
    from langchain_anthropic import convert_to_anthropic_tool  # seconds, which only this test needs

    schema = {**NESTED, "$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert parameters(schema) == NESTED
    assert convert_to_anthropic_tool(tool(schema))["input_schema"] == NESTED


async def test_schemas_of_servers_arrive_without_titles(host):
    for name in ("math_server", "weather_server"):
        connection = await host.connect(load(name).server, name=name)
        for made, definition in zip(host.langchain_tools(name), connection.catalog.cached("tools"), strict=True):
            assert made.args_schema is definition.input_schema
            sent = convert_to_openai_tool(made)["function"]
            assert (sent["name"], sent["description"]) == (made.name, definition.description)
            if "$defs" not in definition.input_schema:
                plain = without_titles(definition.input_schema)
                plain.pop("description", "")
                assert sent["parameters"] == {"properties": {}, **plain}


@needs_node
async def test_schemas_of_server_everything_arrive(host):
    everything = await host.connect([*everything_command(), "stdio"], name="everything")
    for made, definition in zip(host.langchain_tools(), everything.catalog.cached("tools"), strict=True):
        plain = without_titles(definition.input_schema)
        plain.pop("$schema", "")
        assert plain.items() <= convert_to_openai_tool(made)["function"]["parameters"].items()


async def test_descriptions_fall_back_to_title_and_name(host):
    texts: list[dict[str, Any]] = [{"description": "described", "title": "titled"}, {"title": "titled"}, {}]
    tools = [Tool(name=f"t{n}", input_schema={"type": "object"}, **text) for n, text in enumerate(texts)]
    await host.connect(serving_tools(*tools), name="low")
    sent = [convert_to_openai_tool(made)["function"]["description"] for made in host.langchain_tools()]
    assert sent == ["described", "titled", "t2"]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": {}}, {"type": "object", "additionalProperties": False}], ids=str
)
def test_a_schema_without_type_or_properties_works(schema):
    sent = {"type": "object", "properties": {}, **schema}
    function = {"name": "t", "description": "Does it", "parameters": sent}
    assert convert_to_openai_tool(tool(schema))["function"] == function
    assert tool(schema).args == {}


REFERENCES = {
    "beside": {"properties": {"a": {"$ref": "#/$defs/A", "minimum": 3}}, "$defs": {"A": {"type": "integer"}}},
    "root": {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {"minimum": 3}}}}},
    "anchor": {"properties": {"a": {"$ref": "#low"}}, "$defs": {"A": {"$anchor": "low", "minimum": 3}}},
    "escaped": {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"minimum": 3}}},
    "list": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}]}}, "$defs": {"A": {"minimum": 3}}},
}


@pytest.mark.parametrize("schema", REFERENCES.values(), ids=REFERENCES)
def test_references_are_written_out(schema):
    sent = parameters(schema)
    assert "$ref" not in str(sent)
    check = jsonschema.Draft202012Validator(sent)
    assert (check.is_valid({"a": 5}), check.is_valid({"a": 1})) == (True, False)


def test_a_schema_that_holds_itself_is_written_out_twice():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}}}
    sent = parameters({"properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    inner: Any = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"type": "object"}}}
    assert sent["properties"]["tree"] == {**inner, "properties": {**inner["properties"], "child": inner}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"$ref": {"type": "string"}, "a": {}}},
        {"properties": {"a": {"const": {"$ref": "#/data"}}, "b": {"default": [{"$ref": 1}]}}},
        {"$ref": "#"},
        {"properties": {"a": {"$ref": 5}}},
    ],
    ids=["elsewhere", "nowhere", "itself", "a name", "data", "root", "number"],
)
def test_a_reference_that_leads_nowhere_blocks_no_tool(schema):
    sent = parameters(schema)
    assert sent["type"] == "object"
    assert "$ref" not in str(sent)


def test_a_schema_that_doubles_at_each_reference_ends():
    level = {f"L{n}": {"properties": {k: {"$ref": f"#/$defs/L{n + 1}"} for k in "ab"}} for n in range(40)}
    sent = portable({"properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": level})
    assert len(str(sent)) < 2_000_000


@QUICK
@given(anything_like_a_schema)
def test_anything_like_a_schema_reaches_the_provider(schema):
    assert parameters(schema).keys() >= {"type", "properties"}
