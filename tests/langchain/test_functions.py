"""What `bind_tools` of the provider packages would send, held against what the providers take; no network."""

from __future__ import annotations

import json
import subprocess
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_types import Tool

from mcp_magic.agent.tools import Registry
from mcp_magic.langchain.functions import function_of, own_arguments
from mcp_magic.langchain.tools import langchain_tools
from tests import environments
from tests.support.bundled import command, load
from tests.support.provider_rules import anthropic_refuses, openai_refuses, openai_refuses_schema
from tests.support.strategies import QUICK, anything_like_a_schema, called

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

KEY = "sk-not-a-real-key"

Schema = dict[str, Any]


def sent(model: Any, functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a provider's package would send; JSON and back, as it would go out."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # langchain-anthropic warns when it leaves a tool out
        bound = model.bind_tools(functions).kwargs["tools"]
    return json.loads(json.dumps(bound))  # type: ignore[no-any-return]


@cache
def models() -> tuple[Any, Any]:
    """A model of OpenAI and one of Anthropic, whose packages take seconds to import."""
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5", api_key=KEY), ChatAnthropic(model="claude-test-1", api_key=KEY)


def refusals(functions: list[dict[str, Any]]) -> list[str]:
    """Return why OpenAI and Anthropic refuse these tools; nothing may get lost on the way."""
    openai, anthropic = models()
    to_openai, to_anthropic = sent(openai, functions), sent(anthropic, functions)
    assert len(to_openai) == len(to_anthropic) == len(functions)
    return [why for why in (openai_refuses(to_openai), anthropic_refuses(to_anthropic)) if why]


def parameters_of(schema: Schema) -> Schema:
    bound = function_of("a__b", Tool(name="b", input_schema=schema)).bound
    return bound["function"]["parameters"]  # type: ignore[no-any-return]


@pytest.fixture
async def servers(host: Host, tmp_path: Path) -> Host:
    """The bundled servers; server-everything, mcp-server-git and mcp-server-time."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("math", "weather", "showcase"):
        await host.connect(load(f"{name}_server").server, name=name)
    await host.connect(command("paging_server", "--transport", "stdio"), name="paging")
    await host.connect(environments.git_command(tmp_path), name="git")
    await host.connect(environments.time_command(), name="time")
    await host.connect(environments.everything_command(), name="everything")
    return host


@environments.needs_node
@pytest.mark.timeout(2 * environments.BUILD_TIMEOUT)
async def test_both_providers_accept_every_tool_with_its_schema(servers: Host) -> None:
    offers = (await Registry(servers).refresh()).values()
    functions = [offer.bound for offer in offers]
    groups = [functions[start : start + 100] for start in range(0, len(functions), 100)]  # OpenAI takes 128 at once
    assert len({offer.connection.name for offer in offers}) == 8  # with the fixture's own
    assert len(functions) > 100
    assert [refusals(group) for group in groups] == [[] for _ in groups]
    for offer in offers:
        assert untitled(offer.bound["function"]["parameters"]) == untitled(
            {"properties": {}, **offer.tool.input_schema}
        )
    langchain = [convert_to_openai_tool(tool) for tool in langchain_tools(*servers.find())]
    assert len(json.dumps(functions)) <= len(
        json.dumps(langchain)
    )  # they cost as many tokens as with LangChain at most


def untitled(schema: Any) -> Any:
    """Return a schema without its dialect and without titles, but with parameters of these names."""
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: untitled(each) for name, each in value.items()} if key == "properties" else untitled(value)
        for key, value in schema.items()
        if key != "$schema" and not (key == "title" and isinstance(value, str))
    }


def test_a_title_stays_only_where_it_says_what_nothing_else_does() -> None:
    schema = {
        "type": "object",
        "title": "forecastArguments",
        "properties": {
            "max_days": {"type": "integer", "title": "Max Days"},
            "city": {"type": "string", "title": "Place", "description": "Where"},
            "unit": {"type": "string", "title": "Degrees of Celsius or Fahrenheit"},
            "title": {"type": "string", "title": "Title"},
        },
    }
    assert parameters_of(schema)["properties"] == {
        "max_days": {"type": "integer"},
        "city": {"type": "string", "description": "Where"},
        "unit": {"type": "string", "title": "Degrees of Celsius or Fahrenheit"},
        "title": {"type": "string"},
    }
    assert "title" not in parameters_of(schema)


@QUICK
@given(called())
def test_any_schema_of_a_tool_is_taken_by_both_providers(tool: tuple[Schema, Schema]) -> None:
    schema, _ = tool
    assert refusals([function_of("a__b", Tool(name="b", input_schema=schema)).bound]) == []


@QUICK
@given(anything_like_a_schema)
def test_any_document_is_made_a_schema_that_both_providers_take(document: Schema) -> None:
    assert refusals([function_of("a__b", Tool(name="b", input_schema=document)).bound]) == []


@QUICK
@given(called())
def test_arguments_that_fit_a_tool_fit_what_the_model_is_given(tool: tuple[Schema, Schema]) -> None:
    schema, arguments = tool
    function = function_of("a__b", Tool(name="b", input_schema=schema))
    given_names = {own: name for name, own in function.renamed.items()}
    as_given = {given_names.get(name, name): value for name, value in arguments.items()}
    Draft202012Validator(function.bound["function"]["parameters"]).validate(as_given)
    assert own_arguments(as_given, function.renamed) == arguments


ONE_OR_OTHER: Schema = {
    "type": "object",
    "properties": {"project": {"type": "string"}, "id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["project"],
}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
    "required": ["kind", "r"],
    "additionalProperties": False,
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
    "required": ["kind", "side"],
    "additionalProperties": False,
}
SHAPE = {
    "properties": {
        "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}]},
        "r": {"type": "number"},
        "side": {"type": "number"},
    },
    "required": ["kind"],
    "additionalProperties": False,
    "type": "object",
}
TEXT: Schema = {"type": "string"}

ODD: dict[str, tuple[Schema, Schema]] = {
    "a root without properties": ({"type": "object"}, {"type": "object", "properties": {}}),
    "an empty root": ({}, {"type": "object", "properties": {}}),
    "at least one of": ({**ONE_OR_OTHER, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}, ONE_OR_OTHER),
    "one of two objects": ({"type": "object", "oneOf": [CIRCLE, SQUARE]}, SHAPE),
    "one of two definitions": (
        {"anyOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/s"}], "$defs": {"c": CIRCLE, "s": SQUARE}},
        {**SHAPE, "$defs": {"c": CIRCLE, "s": SQUARE}},
    ),
    "all of": (
        {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}]},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]},
    ),
    "a reference at the root": ({"$ref": "#/$defs/c", "$defs": {"c": CIRCLE}}, {**CIRCLE, "$defs": {"c": CIRCLE}}),
    "not at the root": ({**ONE_OR_OTHER, "not": {"required": ["id", "name"]}}, ONE_OR_OTHER),
    "an enum at the root": ({"type": "object", "enum": [{"a": 1}]}, {"type": "object", "properties": {}}),
    "an array without items": (
        {"type": "object", "properties": {"a": {"type": ["array", "null"]}}},
        {"type": "object", "properties": {"a": {"type": ["array", "null"], "items": {}}}},
    ),
    "a tuple of draft 7": (
        {"type": "object", "properties": {"a": {"type": "array", "items": [TEXT], "additionalItems": False}}},
        {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [TEXT], "items": {"not": {}}}}},
    ),
    "a bound of draft 4": (
        {"type": "object", "properties": {"a": {"minimum": 3, "exclusiveMinimum": True}}},
        {"type": "object", "properties": {"a": {"exclusiveMinimum": 3}}},
    ),
    "a pattern of another dialect": (
        {"type": "object", "properties": {"a": {"description": "A name", "pattern": r"^\p{L}+$"}}},
        {"type": "object", "properties": {"a": {"description": "A name"}}},
    ),
    "references that lead nowhere": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "https://example.com/b", "title": "B"}},
        },
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "a type that is none": (
        {"type": "object", "properties": {"a": {"type": "any"}, "b": {"type": ["date", "string"]}}, "required": True},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "recursion": (
        {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
        {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_of_an_odd_schema_all_is_kept_that_providers_take(name: str) -> None:
    schema, expected = ODD[name]
    assert parameters_of(schema) == expected
    assert refusals([function_of("a__b", Tool(name="b", input_schema=schema)).bound]) == []


@pytest.mark.parametrize("name", sorted(ODD.keys() - {"recursion", "all of", "a reference at the root"}))
def test_openai_would_refuse_what_is_changed(name: str) -> None:
    assert openai_refuses_schema(ODD[name][0])


def test_what_had_to_leave_the_schema_is_told_in_the_description() -> None:
    either = {**ONE_OR_OTHER, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]}
    function = function_of("a__b", Tool(name="b", description="Finds.", input_schema=either)).bound["function"]
    assert function["description"] == (
        'Finds.\n\nThe arguments must fit at least one of: {"required": ["id"]}; {"required": ["name"]}'
    )


def test_argument_names_anthropic_refuses_are_mapped_both_ways() -> None:
    properties = {"filter[id]": {"description": "The id"}, "filter_id": TEXT, "größe": TEXT, "": TEXT, "x" * 70: TEXT}
    schema = {"type": "object", "properties": properties, "required": ["filter[id]", "filter_id"]}
    function = function_of("a__b", Tool(name="b", input_schema=schema))
    given_parameters = function.bound["function"]["parameters"]
    assert refusals([function.bound]) == []
    assert list(given_parameters["properties"]) == ["filter_id_2", "filter_id", "gr_e", "argument", "x" * 64]
    assert given_parameters["properties"]["filter_id_2"] == {"description": "`filter[id]`: The id"}
    assert given_parameters["properties"]["gr_e"] == {"type": "string", "description": "`größe`"}
    assert given_parameters["required"] == ["filter_id_2", "filter_id"]
    changed = {name: index for index, name in enumerate(given_parameters["properties"])}
    assert own_arguments(changed, function.renamed) == {name: index for index, name in enumerate(properties)}


@QUICK
@given(st.dictionaries(st.text(max_size=80), st.just(TEXT), max_size=6))
def test_any_names_of_arguments_are_made_names_that_differ(properties: Schema) -> None:
    function = function_of("a__b", Tool(name="b", input_schema={"type": "object", "properties": properties}))
    assert refusals([function.bound]) == []
    assert len(function.bound["function"]["parameters"]["properties"]) == len(properties)


def test_a_very_deep_schema_ends() -> None:
    schema: Schema = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    assert refusals([function_of("a__b", Tool(name="b", input_schema={"properties": {"a": schema}})).bound]) == []
