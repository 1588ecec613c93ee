"""MCP tools in the form that every provider package takes: an OpenAI function, its schema as the server wrote it.

Changed is only what OpenAI or Anthropic refuse: at the root of a schema they take an object alone, without
alternatives, and Anthropic takes no argument whose name has other characters than `a-zA-Z0-9_.-` (64 at most).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.agent.providerschema import Schema, acceptable
from mcp_magic.schema.resolve import Resolver
from mcp_magic.wording import free_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_types import Tool

__all__ = ["Function", "function_of", "own_arguments"]

MAX_ARGUMENT = 64
"""Characters that Anthropic takes in an argument's name."""

NOTE = 600
"""Characters of a constraint that is told in words."""

_NAME = re.compile(rf"[a-zA-Z0-9_.-]{{1,{MAX_ARGUMENT}}}")

# OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
_TOLD = {
    "anyOf": "The arguments must fit at least one of: ",
    "oneOf": "The arguments must fit exactly one of: ",
    "not": "The arguments must not fit: ",
    "enum": "The arguments must be one of: ",
    "const": "The arguments must be: ",
}
_REFUSED = (*_TOLD, "allOf", "$ref", "$dynamicRef")


class Function(NamedTuple):
    """A tool as a model is given it.

    Attributes:
        bound: What `bind_tools` takes.
        renamed: The tool's own names of arguments, by those that the model is given instead.
    """

    bound: dict[str, Any]
    renamed: dict[str, str]


def function_of(name: str, tool: Tool) -> Function:
    """Return a tool as an OpenAI function.

    Args:
        name: The name under which the model shall know it, `^[a-zA-Z0-9_-]{1,64}$`.
        tool: Its definition.
    """
    schema = tool.input_schema
    description = tool.description or tool.title or tool.name
    notes = [_note(key, schema[key]) for key in _TOLD if key in schema]
    parameters, renamed = _renamed(acceptable(_object(schema)))
    function = {"name": name, "description": "\n\n".join([description, *notes]), "parameters": parameters}
    return Function({"type": "function", "function": function}, renamed)


def own_arguments(arguments: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return what a model gave under the names that the tool's own schema has.

    >>> own_arguments({"filter_id": 1, "page": 2}, {"filter_id": "filter[id]"})
    {'filter[id]': 1, 'page': 2}
    """
    return {renamed.get(name, name): value for name, value in arguments.items()}


def _note(keyword: str, value: Any) -> str:
    """Say in words what had to leave the schema.

    >>> _note("anyOf", [{"required": ["id"]}, {"required": ["name"]}])
    'The arguments must fit at least one of: {"required": ["id"]}; {"required": ["name"]}'
    """
    parts = value if isinstance(value, list) else [value]
    said = "; ".join(json.dumps(part, ensure_ascii=False) for part in parts)
    return _TOLD[keyword] + (said if len(said) <= NOTE else said[:NOTE] + "...")


def _object(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose root is an object without alternatives: their arguments, all of them, stand together."""
    if not any(key in schema for key in _REFUSED):
        plain = dict(schema)
    else:
        found = Resolver(schema).plain(schema)
        alternatives = [
            part
            for part in found.alternatives or [found.schema]
            if part.get("type", "object") == "object" and part.get("not") != {}
        ]
        together = _together(alternatives) if alternatives else {}
        kept = {key: value for key, value in schema.items() if key in ("$defs", "definitions", "$schema")}
        notes = {key: value for key, value in found.schema.items() if key in ("title", "description")}
        plain = {key: value for key, value in {**notes, **together, **kept}.items() if key not in _REFUSED}
    if not isinstance(plain.get("properties"), Mapping):
        plain["properties"] = {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _together(alternatives: list[Schema]) -> Schema:
    """Return an object that takes the arguments of any of these, and asks for those that all of them ask for."""
    if len(alternatives) == 1:
        return alternatives[0]
    named = [each["properties"] if isinstance(each.get("properties"), Mapping) else {} for each in alternatives]
    names = dict.fromkeys(name for properties in named for name in properties)
    merged: Schema = {
        "properties": {name: _either(properties[name] for properties in named if name in properties) for name in names}
    }
    required = [each["required"] if isinstance(each.get("required"), list) else [] for each in alternatives]
    everywhere = [name for name in required[0] if all(name in each for each in required)]
    if everywhere:
        merged["required"] = everywhere
    if all(each.get("additionalProperties") is False for each in alternatives):
        merged["additionalProperties"] = False
    return merged


def _either(schemas: Iterable[Any]) -> Any:
    different: list[Any] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    return different[0] if len(different) == 1 else {"anyOf": different}


def _renamed(parameters: Schema) -> tuple[Schema, dict[str, str]]:
    """Give the arguments names that Anthropic takes; their own stand in their descriptions."""
    properties = parameters["properties"]
    if all(map(_NAME.fullmatch, properties)):
        return parameters, {}
    new: dict[str, str] = {name: name for name in properties if _NAME.fullmatch(name)}
    for name in properties:
        if name not in new:
            base = re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:MAX_ARGUMENT] or "argument"
            new[name] = free_name(base, set(new.values()), MAX_ARGUMENT)
    changed = {new[name]: _named(name, schema) if new[name] != name else schema for name, schema in properties.items()}
    parameters = {**parameters, "properties": changed}
    if "required" in parameters:
        parameters["required"] = [new.get(name, name) for name in parameters["required"]]
    return parameters, {given: own for own, given in new.items() if given != own}


def _named(name: str, schema: Schema) -> Schema:
    return {**schema, "description": f"`{name}`: {schema.get('description', '')}".removesuffix(": ")}
