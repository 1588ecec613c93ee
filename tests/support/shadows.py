"""Bundled servers, and tools whose names mean something else in a module."""

from __future__ import annotations

from mcp_types import Tool

SERVERS = ("math_server", "weather_server", "showcase_server")

NAMES = ("list", "list_", "str", "dict", "int", "float", "bool", "object", "tuple", "TypedDict", "Literal", "Any")
NAMES += ("NotRequired", "host", "annotations", "_call", "_NAMES", "_UNSET", "__getattr__", "__all__", "__", "result")
NAMES += ("typed", "not", "3d", "Typed2", "\ufb01x", "fix", "x\u00bd", "self", "tool", "ListResult", "class", "")
ARGUMENTS = ("dict", "list", "str", "tool", "self", "_call", "_UNSET", "_NAMES", "given", "class", "class_", "a-b")
ARGUMENTS += ("a_b", "host", "\ufb01x", "__class__", "required", "Any")
_TEXTS = {"type": "object", "properties": {"str": {"type": "string"}, "id": {"type": "string"}}}
_WORDS = {name: {"type": "array", "items": {"type": "string"}} for name in ARGUMENTS}


def _shadow(name: str) -> Tool:
    names = ARGUMENTS if name in ("list", "3d") else ("dict", "items")
    properties = {key: {"type": "array", "items": _TEXTS} for key in names}
    item = {"type": "object", "properties": _WORDS}
    output = {"type": "object", "properties": {**_WORDS, "ListResultItem": item}}
    return Tool(
        name=name,
        input_schema={"type": "object", "properties": properties, "required": ["dict"]},
        output_schema=output if name == "list" else None,
    )


SHADOWS = [_shadow(name) for name in NAMES]
