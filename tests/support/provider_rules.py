"""What OpenAI and Anthropic refuse in a list of tools, as their own error messages tell it.

Neither writes these rules down in one place; the messages are those that hosts of MCP servers report.
"""

from __future__ import annotations

import json
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ANTHROPIC_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def openai_refuses(tools: list[dict[str, Any]]) -> str:
    """Return why OpenAI refuses `tools` of a chat completion, or ""."""
    if len(tools) > 128:
        return f"Invalid 'tools': array too long. Expected an array with maximum length 128, but got {len(tools)}."
    for index, tool in enumerate(tools):
        function = tool.get("function", {})
        name, description = str(function.get("name")), function.get("description", "")
        if set(tool) != {"type", "function"} or tool["type"] != "function":
            return f"Invalid value: 'tools[{index}]'"
        if not OPENAI_NAME.fullmatch(name):
            return f"Invalid 'tools[{index}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        if not isinstance(description, str):
            return f"Invalid type for 'tools[{index}].function.description': expected a string."
        if said := openai_refuses_schema(function.get("parameters", {"type": "object", "properties": {}})):
            return f"Invalid schema for function '{name}': {said}"
    return ""


def openai_refuses_schema(schema: Any) -> str:
    """Return why OpenAI refuses a function's `parameters`, or ""."""
    if not isinstance(schema, dict):
        return f"{schema!r} is not of type 'object'."
    if schema.get("type") != "object" or any(key in schema for key in ("oneOf", "anyOf", "allOf", "enum", "not")):
        return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
    if "properties" not in schema:
        return "In context=(), object schema missing properties."
    if invalid := _invalid(schema):
        return invalid
    for path, part in _parts(schema, ()):
        types = part.get("type", [])
        if "array" in ([types] if isinstance(types, str) else types) and "items" not in part:
            return f"In context={path}, array schema missing items."
        if not isinstance(part.get("items", {}), dict):
            return f"In context={path}, {part['items']!r} is not of type 'object'."
        if "pattern" in part and not _compiles(part["pattern"]):
            return f"In context={path}, {part['pattern']!r} is not a 'regex'."
        if "$ref" in part and not _found(part["$ref"], schema):
            return f"In context={path}, reference {part['$ref']!r} can not be resolved."
    return ""


def to_anthropic(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Return tools as Anthropic's package sends them, which takes seconds to import."""
    from langchain_anthropic.chat_models import convert_to_anthropic_tool

    return [dict(convert_to_anthropic_tool(tool)) for tool in tools]


def anthropic_refuses(tools: list[dict[str, Any]]) -> str:
    """Return why Anthropic refuses `tools` of a message, or ""."""
    names = [tool.get("name") for tool in tools]
    if len(set(names)) != len(names):
        return "tools: Tool names must be unique."
    for index, tool in enumerate(tools):
        where, schema = f"tools.{index}.custom", tool.get("input_schema")
        if not ANTHROPIC_NAME.fullmatch(str(tool.get("name"))):
            return f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return f"{where}.input_schema.type: Input should be 'object'"
        if any(key in schema for key in ("oneOf", "allOf", "anyOf")):
            return f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        if not all(ANTHROPIC_ARGUMENT.fullmatch(name) for name in schema.get("properties", {})):
            return f"{where}.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        if _invalid(schema):
            return f"{where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    return ""


def _invalid(schema: dict[str, Any]) -> str:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message
    return ""


def _parts(schema: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield every schema in a schema, with where it is."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
            for name, part in value.items():
                yield from _parts(part, (*path, key, name))
        elif key in ("allOf", "anyOf", "oneOf", "prefixItems"):
            for index, part in enumerate(value):
                yield from _parts(part, (*path, key, index))
        elif key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
            yield from _parts(value, (*path, key))


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _found(ref: str, schema: Any) -> bool:
    if not ref.startswith("#"):
        return False
    place = schema
    for part in ref.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            place = place[int(key)] if isinstance(place, list) else place[key]
        except (KeyError, ValueError, IndexError, TypeError):
            return False
    return isinstance(place, dict | bool)


@cache
def _models() -> tuple[Any, Any]:
    from langchain_anthropic import ChatAnthropic  # takes seconds
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5", api_key="sk-0"), ChatAnthropic(model="claude-test-1", api_key="sk-0")


def refusals(functions: list[dict[str, Any]]) -> list[str]:
    """Return why OpenAI and Anthropic refuse these tools as their packages send them; none may get lost on the way."""
    sent = []
    for model in _models():
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # langchain-anthropic warns when it leaves a tool out
            sent.append(json.loads(json.dumps(model.bind_tools(functions).kwargs["tools"])))
    assert [len(tools) for tools in sent] == [len(functions)] * 2
    return [why for why in (openai_refuses(sent[0]), anthropic_refuses(sent[1])) if why]
