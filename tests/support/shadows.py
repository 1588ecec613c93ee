"""Tools, arguments and results whose names mean something else in a module of Python."""

from __future__ import annotations

import mcp_types as types

from tests.support.schemas import TEXT

NAMES = "list list_ str dict int float bool object tuple TypedDict Literal Any NotRequired host annotations _call"
NAMES += (
    " _NAMES _UNSET __getattr__ __all__ __ result typed not 3d Typed2 \ufb01x fix x\u00bd self tool ListResult class"
)
ARGUMENTS = "dict list str tool self _call _UNSET _NAMES given class class_ a-b a_b host \ufb01x __class__ required Any"
THINGS = {"type": "array", "items": {"type": "object", "properties": {"str": TEXT, "id": TEXT}}}
WORDS = {"type": "object", "properties": {key: {"type": "array", "items": TEXT} for key in ARGUMENTS.split()}}


def shadow(name: str) -> types.Tool:
    """Return a tool whose name, arguments and results mean something else in a module."""
    arguments = ARGUMENTS.split() if name in ("list", "3d") else ["dict", "items"]
    schema = {"type": "object", "properties": dict.fromkeys(arguments, THINGS), "required": ["dict"]}
    output = {**WORDS, "properties": {**WORDS["properties"], "ListResultItem": WORDS}} if name == "list" else None
    return types.Tool(name=name, input_schema=schema, output_schema=output)


SHADOWS = [shadow(name) for name in [*NAMES.split(), ""]]
