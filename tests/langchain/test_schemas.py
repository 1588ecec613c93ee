"""What providers get of a tool's schema by way of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_types import Tool

from mcp_magic.langchain.tools import MCPTool, langchain_tools, portable
from tests.environments import everything_command, needs_node
from tests.support.bundled import load
from tests.support.lowlevel import serving_tools
from tests.support.strategies import QUICK, anything_like_a_schema

if TYPE_CHECKING:
    from mcp_magic.notebook import NotebookHost


def tool(schema: dict[str, Any], description: str = "Does it") -> MCPTool:
    async def nothing(arguments: dict[str, Any]) -> tuple[str, None]:
        return "", None

    return MCPTool(
        name="t", description=description, args_schema=schema, coroutine=nothing, response_format="content_and_artifact"
    )


def parameters(schema: dict[str, Any]) -> Any:
    return convert_to_openai_tool(tool(schema))["function"]["parameters"]


def without_titles(schema: Any) -> Any:
    """Leave out what LangChain leaves out: the titles of schemas, which are for people."""
    if isinstance(schema, list):
        return [without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_titles(each) for key, each in schema.items() if key != "title" or isinstance(each, dict)}


NESTED = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "where": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": "A place"},
        "many": {"type": "array", "items": {"type": "object", "properties": {"x": {"enum": [1, "a", None]}}}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$schema": "https://json-schema.org/draft/2020-12/schema",
}


def test_a_schema_arrives_without_its_dialect() -> None:
    from langchain_anthropic import convert_to_anthropic_tool  # seconds, which only this test needs

    kept = {key: value for key, value in NESTED.items() if key != "$schema"}
    assert parameters(NESTED) == kept
    assert convert_to_anthropic_tool(tool(NESTED))["input_schema"] == kept


async def test_bundled_schemas_arrive_without_titles(host: NotebookHost) -> None:
    for name in ("math_server", "weather_server"):
        connection = await host.connect(load(name).server, name=name)
        for made, definition in zip(host.langchain_tools(name), connection.catalog.cached("tools"), strict=True):
            assert made.args_schema is definition.input_schema
            sent = convert_to_openai_tool(made)["function"]
            assert (sent["name"], sent["description"]) == (made.name, definition.description)
            if "$defs" not in definition.input_schema:
                given = without_titles(definition.input_schema)
                assert sent["parameters"] == {
                    "properties": {},
                    **{k: v for k, v in given.items() if k != "description"},
                }


@needs_node
async def test_the_schemas_of_server_everything_arrive(host: NotebookHost) -> None:
    everything = await host.connect([*everything_command(), "stdio"], name="everything")
    for made, definition in zip(langchain_tools(everything), everything.catalog.cached("tools"), strict=True):
        given = without_titles(definition.input_schema)
        sent = convert_to_openai_tool(made)["function"]["parameters"]
        assert {key: value for key, value in given.items() if key != "$schema"}.items() <= sent.items()


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"properties": {}}, {"type": "object", "additionalProperties": False}]
)
def test_a_schema_without_type_or_properties_works(schema: dict[str, Any]) -> None:
    assert parameters(schema) == {"type": "object", "properties": {}, **schema}
    assert convert_to_openai_tool(tool(schema))["function"] | {"parameters": 0} == {
        "name": "t",
        "description": "Does it",
        "parameters": 0,
    }
    assert tool(schema).args == {}


REFERENCES = {
    "beside": {"properties": {"a": {"$ref": "#/$defs/A", "minimum": 3}}, "$defs": {"A": {"type": "integer"}}},
    "at the root": {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {"minimum": 3}}}}},
    "an anchor": {"properties": {"a": {"$ref": "#low"}}, "$defs": {"A": {"$anchor": "low", "minimum": 3}}},
    "escaped": {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"minimum": 3}}},
    "in a list": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}]}}, "$defs": {"A": {"minimum": 3}}},
}


@pytest.mark.parametrize("schema", REFERENCES.values(), ids=REFERENCES)
def test_references_are_written_out(schema: dict[str, Any]) -> None:
    sent = parameters(schema)
    assert "$ref" not in str(sent)
    check = jsonschema.Draft202012Validator(sent)
    assert check.is_valid({"a": 5})
    assert not check.is_valid({"a": 1})


def test_a_schema_that_holds_itself_is_written_out_twice() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}}}
    sent = parameters({"properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    inner = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"type": "object"}}}
    assert sent["properties"]["tree"] == {**inner, "properties": {**inner["properties"], "child": inner}}  # type: ignore[dict-item]


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
)
def test_dangling_reference_does_not_block_the_tools(schema: dict[str, Any]) -> None:
    sent = parameters(schema)
    assert sent["type"] == "object"
    assert "$ref" not in str(sent)


def test_a_schema_that_doubles_at_each_reference_ends() -> None:
    level = {f"L{n}": {"properties": {k: {"$ref": f"#/$defs/L{n + 1}"} for k in "ab"}} for n in range(40)}
    sent = portable({"properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": level})
    assert len(str(sent)) < 2_000_000


@QUICK
@given(anything_like_a_schema)
def test_anything_like_a_schema_reaches_the_provider(schema: dict[str, Any]) -> None:
    assert parameters(schema).keys() >= {"type", "properties"}


async def test_descriptions_fall_back_to_title_and_name(host: NotebookHost) -> None:
    empty: dict[str, Any] = {"type": "object"}
    tools = [
        Tool(name="a", input_schema=empty, description="described", title="titled"),
        Tool(name="b", input_schema=empty, title="titled"),
        Tool(name="c", input_schema=empty),
    ]
    await host.connect(serving_tools(*tools), name="low")
    sent = [convert_to_openai_tool(made)["function"]["description"] for made in host.langchain_tools()]
    assert sent == ["described", "titled", "c"]
