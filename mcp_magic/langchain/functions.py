"""MCP tools as functions for models, with schemas in the form that providers accept."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from mcp_magic._text import free_name
from mcp_magic.schema.patterns import MAX_DEPTH, Budget, is_checked
from mcp_magic.schema.repair import TYPES, repair
from mcp_magic.schema.resolve import Resolver, distinct, is_number

if TYPE_CHECKING:
    from mcp_types import Tool


# Schemas for providers: JSON Schema 2020-12 without anything that a provider is known to refuse.
#
# A provider that rejects one schema refuses the whole request, so one odd tool would block all others. The model's
# schema is only a hint: arguments are checked against the server's own schema.

Schema = dict[str, Any]

_LEFT_OUT = (
    *("additionalItems", "$recursiveAnchor", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary", "$id"),
    *("dependencies", "dependentRequired", "dependentSchemas", "$schema"),
)
"""Keywords that no model needs; `$id` would change the meaning of `#`."""

_NOT_VALID: Any = object()


def acceptable(schema: Mapping[str, Any]) -> Schema:
    """Return a valid schema with the meaning of `schema`, as far as it is valid; an ordinary one comes back equal.

    Invalid values of keywords are left out. Older drafts' forms of arrays and bounds are converted. Arrays without
    `items` get one. References that lead nowhere in the document are dropped. Titles that say no more than names and
    descriptions are left out: pydantic makes one for each parameter, and each costs tokens. Parts past the budget
    (`schema.budget`) become `{}`; the description counts the properties and choices that are left out.
    """
    cleaned = _schema(schema, _Level(0, Budget(), ""))
    followed: Schema = _without_dangling(cleaned, Resolver(cleaned))
    return followed


class _Level(NamedTuple):
    """The depth of a walk, its remaining budget, and the name of the parameter that a schema is for, if any."""

    depth: int
    budget: Budget
    name: str


def _schema(schema: Any, level: _Level) -> Schema:
    if schema is False:
        return {"not": {}}
    if not isinstance(schema, Mapping) or level.depth > MAX_DEPTH:
        return {}
    valid: Schema = {}
    inner = _Level(level.depth + 1, level.budget, "")
    for key, value in _modern(schema).items():
        check = _KEYWORDS.get(key)
        checked = value if check is None else check(value, inner)
        if checked is not _NOT_VALID:
            valid[key] = checked
    if "title" in valid and (
        level.depth == 0 or "description" in valid or _letters(valid["title"]) == _letters(level.name)
    ):
        del valid["title"]
    _tell_cut(schema, valid)
    types = valid.get("type", ())
    if "items" not in valid and "array" in ([types] if isinstance(types, str) else types):
        valid["items"] = {}  # OpenAI: "array schema missing items"
    return valid


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _modern(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    modern = dict(schema)
    if isinstance(schema.get("items"), list):
        modern["prefixItems"] = modern.pop("items")
        if "additionalItems" in schema:
            modern["items"] = schema["additionalItems"]
    for keyword in _LEFT_OUT:
        modern.pop(keyword, None)
    for limit in ("minimum", "maximum"):
        exclusive = f"exclusive{limit.title()}"
        if schema.get(exclusive) is True and limit in schema:
            modern[exclusive] = modern.pop(limit)
    if modern.pop("$recursiveRef", None) == "#":
        modern["$ref"] = "#"
    return modern


def _tell_cut(schema: Mapping[str, Any], valid: Schema) -> None:
    """Count the choices and properties that were left out, and forbid or require none that only these describe."""
    names, properties, choices = (schema.get(key) for key in ("patternProperties", "properties", "enum"))
    notes = []
    if isinstance(names, Mapping) and len(names) > len(valid.get("patternProperties", ())):
        valid.pop("additionalProperties", None)
    if isinstance(choices, list) and choices and "enum" not in valid:
        examples = ", ".join(json.dumps(value, ensure_ascii=False) for value in choices[:5])
        notes.append(f"(one of {len(choices):,} values, such as {examples[:200]})")
    if isinstance(properties, Mapping) and len(properties) > len(valid.get("properties", ())):
        valid["required"] = [name for name in valid.get("required", ()) if name in valid.get("properties", ())]
        notes.append(f"({len(properties) - len(valid['properties']):,} more properties are not listed)")
    if notes:
        valid["description"] = " ".join([valid.get("description", ""), *notes]).strip()


def _if(is_valid: Callable[[Any], Any]) -> Callable[[Any, _Level], Any]:
    return lambda value, level: value if is_valid(value) else _NOT_VALID


def _a(kind: type) -> Callable[[Any, _Level], Any]:
    return _if(lambda value: isinstance(value, kind))


def _count(value: Any, level: _Level) -> Any:
    return int(value) if is_number(value) and value >= 0 and value == int(value) else _NOT_VALID


def _pattern(value: Any, level: _Level) -> Any:
    if not isinstance(value, str) or not is_checked(value):
        return _NOT_VALID
    try:
        re.compile(value)
    except (ValueError, re.error, RecursionError, OverflowError):
        return _NOT_VALID
    return value


def _type(value: Any, level: _Level) -> Any:
    if isinstance(value, str):
        return value if value in TYPES else _NOT_VALID
    names = [name for name in value if name in TYPES] if isinstance(value, list) else []
    return list(dict.fromkeys(names)) or _NOT_VALID


def _values(value: Any, level: _Level) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    if len(value) > level.budget.nodes:
        return _NOT_VALID
    level.budget.take(len(value))
    return distinct(value) or _NOT_VALID


def _names(value: Any, level: _Level) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _part(value: Any, level: _Level) -> Any:
    return _schema(value, level) if isinstance(value, bool | Mapping) else _NOT_VALID


def _parts(value: Any, level: _Level) -> Any:
    if not isinstance(value, list):
        return _NOT_VALID
    parts = [_part(part, level) for part in value[: level.budget.take(len(value))]]
    return [part for part in parts if part is not _NOT_VALID] or _NOT_VALID


def _named_parts(value: Any, level: _Level) -> Any:
    if not isinstance(value, Mapping):
        return _NOT_VALID
    members = itertools.islice(value.items(), level.budget.take(len(value)))
    parts = {name: _part(schema, level._replace(name=str(name))) for name, schema in members}
    return {name: {} if part is _NOT_VALID else part for name, part in parts.items()}


def _named_by_pattern(value: Any, level: _Level) -> Any:
    parts = _named_parts(value, level)
    if parts is _NOT_VALID:
        return parts
    return {name: part for name, part in parts.items() if _pattern(name, level) is not _NOT_VALID}


_KEYWORDS: dict[str, Callable[[Any, _Level], Any]] = {
    "type": _type,
    "enum": _values,
    "required": _names,
    "pattern": _pattern,
    "multipleOf": _if(lambda value: is_number(value) and value > 0),
    "examples": _a(list),
    "patternProperties": _named_by_pattern,
    **dict.fromkeys(("title", "description", "$comment", "format", "$ref"), _a(str)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _a(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _a(bool)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _if(is_number)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _count),
    **dict.fromkeys(("minProperties", "maxProperties"), _count),
    **dict.fromkeys(("items", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema"), _part),
    **dict.fromkeys(
        ("additionalProperties", "unevaluatedItems", "unevaluatedProperties"),
        lambda value, level: value if isinstance(value, bool) else _part(value, level),
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _parts),
    **dict.fromkeys(("properties", "$defs", "definitions"), _named_parts),
}
"""Keyword -> function that returns its valid value, or `_NOT_VALID`. Unknown keywords are annotations, and stay."""


def _without_dangling(node: Any, resolver: Resolver) -> Any:
    if isinstance(node, list):
        return [_without_dangling(part, resolver) for part in node]
    if not isinstance(node, dict):
        return node
    members = {key: _without_dangling(value, resolver) for key, value in node.items()}
    ref = members.get("$ref")
    if isinstance(ref, str):
        target = resolver.find(ref) if ref == "#" or ref.startswith("#/") else None
        if not isinstance(target, Mapping) or target.get("$ref") == ref:
            del members["$ref"]
    return members


# MCP tools as OpenAI functions, which every provider package takes.
#
# The server's schema changes only where OpenAI or Anthropic refuse it: at its root they take only an object without
# alternatives, and Anthropic takes argument names only of `a-zA-Z0-9_.-`, at most 64 characters.

MAX_ARGUMENT = 64  # characters of an argument's name that Anthropic takes

NOTE = 600  # characters of a constraint that is described in words

_NAME = re.compile(rf"[a-zA-Z0-9_.-]{{1,{MAX_ARGUMENT}}}")

# OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
_IN_WORDS = {
    "anyOf": "The arguments must fit at least one of: ",
    "oneOf": "The arguments must fit exactly one of: ",
    "not": "The arguments must not fit: ",
    "enum": "The arguments must be one of: ",
    "const": "The arguments must be: ",
}
_REFUSED = (*_IN_WORDS, "allOf", "$ref", "$dynamicRef")


class Function(NamedTuple):
    """A tool in the form that the model gets."""

    openai_tool: dict[str, Any]
    renamed: dict[str, str]


def function_of(name: str, tool: Tool) -> Function:
    """Return a tool as an OpenAI function."""
    parameters, renamed = parameters_of(tool.input_schema)
    description = described(tool.description or tool.title or tool.name, tool.input_schema)
    function = {"name": name, "description": description, "parameters": parameters}
    return Function({"type": "function", "function": function}, renamed)


def parameters_of(schema: Mapping[str, Any]) -> tuple[Schema, dict[str, str]]:
    """Return an input schema that providers take, and its new names of arguments with the tool's own names."""
    return _renamed(acceptable(_object(repair(schema).arguments)))


def described(description: str, schema: Mapping[str, Any]) -> str:
    """Return a tool's description with what its schema says at the root, where providers take no such keywords."""
    return "\n\n".join([description, *(_note(key, schema[key]) for key in _IN_WORDS if key in schema)])


def own_arguments(arguments: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a model's arguments under the tool's own names."""
    return {renamed.get(name, name): value for name, value in arguments.items()}


def _note(keyword: str, value: Any) -> str:
    """Describe a keyword that had to leave the schema."""
    parts = value if isinstance(value, list) else [value]
    text = "; ".join(json.dumps(part, ensure_ascii=False) for part in parts)
    return _IN_WORDS[keyword] + (text if len(text) <= NOTE else text[:NOTE] + "...")


def _object(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose root is an object without alternatives; the arguments of all alternatives are merged."""
    if not any(key in schema for key in _REFUSED):
        plain = dict(schema)
    else:
        root = Resolver(schema).plain(schema)
        alternatives = [
            part
            for part in root.alternatives or [root.schema]
            if part.get("type", "object") == "object" and part.get("not") != {}
        ]
        merged = _merged(alternatives) if alternatives else {}
        definitions = {key: value for key, value in schema.items() if key in ("$defs", "definitions")}
        notes = {key: value for key, value in root.schema.items() if key in ("title", "description")}
        plain = {key: value for key, value in {**notes, **merged, **definitions}.items() if key not in _REFUSED}
    if not isinstance(plain.get("properties"), Mapping):
        plain["properties"] = {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _merged(alternatives: list[Schema]) -> Schema:
    """Return an object schema with the arguments of all alternatives; it requires what all of them require."""
    if len(alternatives) == 1:
        return alternatives[0]
    property_maps = [
        alternative["properties"] if isinstance(alternative.get("properties"), Mapping) else {}
        for alternative in alternatives
    ]
    names = dict.fromkeys(name for properties in property_maps for name in properties)
    merged: Schema = {"properties": {}}
    for name in names:
        different = distinct([properties[name] for properties in property_maps if name in properties])
        merged["properties"][name] = different[0] if len(different) == 1 else {"anyOf": different}
    required = [
        alternative["required"] if isinstance(alternative.get("required"), list) else [] for alternative in alternatives
    ]
    everywhere = [name for name in required[0] if all(name in alternative for alternative in required)]
    if everywhere:
        merged["required"] = everywhere
    if all(alternative.get("additionalProperties") is False for alternative in alternatives):
        merged["additionalProperties"] = False
    return merged


def _renamed(parameters: Schema) -> tuple[Schema, dict[str, str]]:
    """Rename arguments to names that Anthropic takes; their descriptions quote the original names."""
    properties = parameters["properties"]
    if all(map(_NAME.fullmatch, properties)):
        return parameters, {}
    new: dict[str, str] = {name: name for name in properties if _NAME.fullmatch(name)}
    for name in properties:
        if name not in new:
            base = re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:MAX_ARGUMENT] or "argument"
            new[name] = free_name(base, set(new.values()), MAX_ARGUMENT)
    changes = {}
    for name, schema in properties.items():
        quoted = f"`{name}`: {schema.get('description', '')}".removesuffix(": ")
        changes[name] = schema if new[name] == name else {**schema, "description": quoted}
    renamed = _with_names(_with_references({**parameters, "properties": changes}, new), new)
    return renamed, {new_name: own for own, new_name in new.items() if new_name != own}


def _with_names(schema: Any, new: Mapping[str, str]) -> Any:
    """Return a schema of the arguments, or a part of it about the same object, with their new names."""
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    if isinstance(copy.get("properties"), dict):
        copy["properties"] = {new.get(name, name): part for name, part in copy["properties"].items()}
    if isinstance(copy.get("required"), list):
        copy["required"] = [new.get(name, name) for name in copy["required"]]
    for key in ("if", "then", "else", "not"):
        if key in copy:
            copy[key] = _with_names(copy[key], new)
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(copy.get(key), list):
            copy[key] = [_with_names(part, new) for part in copy[key]]
    return copy


_ARGUMENT = re.compile(r"#/properties/([^/]*)(.*)", re.DOTALL)  # a reference to an argument, or into it


def _with_references(node: Any, new: Mapping[str, str]) -> Any:
    """Return a part of a schema whose references to arguments lead to their new names."""
    if isinstance(node, list):
        return [_with_references(part, new) for part in node]
    if not isinstance(node, dict):
        return node
    copy = {key: _with_references(value, new) for key, value in node.items()}
    match = _ARGUMENT.fullmatch(copy["$ref"]) if isinstance(copy.get("$ref"), str) else None
    if match is not None:
        name = unquote(match[1]).replace("~1", "/").replace("~0", "~")
        copy["$ref"] = f"#/properties/{new.get(name, name)}{match[2]}" if name in new else copy["$ref"]
    return copy
