"""Texts that a server may give anything, and that must stay text wherever they are written."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from mcp_magic._unicode import HIDDEN

WORST = {
    "controls": "\x00\x01\x1b[31m\x7f\x85\x0c\x0b\x1c",
    "quotes": "\"'\\",
    "docstring": '"""\nOWNED = 1\n"""',
    "other docstring": "'''\nOWNED = 1\n'''",
    "escaped docstring": '\\"""\nOWNED = 1\n"""',
    "last quote": 'a"',
    "last backslash": "a\\",
    "escapes": "\\N{BULLET} \\N{no such} \\x \\u12",
    "bidirectional": "\u202e\u2066x\u2069",
    "line ends": "a\rb\r\nc\u2028d\u2029e\x85f",
    "fences": "```\n~~~\n# A heading\n| a |\n|---|",
    "surrogate": "\ud83d x",
    "templates": "{server} {0} {} %s %(prog)s $a",
    "future": "a\nfrom __future__ import annotations\nOWNED = 1",
    "invisible": "\ufeff\u200b\U000e0041",
    "long": "x" * 100_000,
}
hostile_texts = pytest.mark.parametrize("text", WORST.values(), ids=WORST)


def hidden_in(text: str) -> list[str]:
    return [ascii(hidden[0]) for hidden in HIDDEN.finditer(text)]


def hostile_tool(text: str) -> types.Tool:
    """Return a tool that gives one text everywhere."""
    field = {"type": "string", "title": text, "description": text, "default": text, "enum": [text, "b"]}
    inner = {"type": "object", "description": text, "properties": {text[:300]: field, "c": {"const": text}}}
    schema = {"type": "object", "description": text, "properties": {"a": field, text[:300]: field, "o": inner}}
    plain: dict[str, Any] = {"type": "string", "description": text}
    result = {"p": {"type": "object", "description": text, "properties": {"z": plain}}, text[:300]: inner}
    output = {"type": "object", "properties": result}
    return types.Tool(name=text[:300], title=text, description=text, input_schema=schema, output_schema=output)
