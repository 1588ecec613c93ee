"""Answers that are too large for an outside agent: it gets head, shape and a handle, and the kernel a variable.

The answer becomes a variable `result_3`, which the agent that called reads by this name, and puts into arguments by
reference. Images, audio and links go to the agent as they are. An error is only cut: there is nothing to read on in.

A client that validates structured content by the output schema of a tool must be able to take such an answer. So the
schema that is listed requires nothing at its root, and has a member that says where the whole is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import TextContent

from mcp_magic._text import json_text
from mcp_magic.langchain.large_results import outline, text_of, texts_of
from mcp_magic.lint import CHARACTERS_A_TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import CallToolResult

    from mcp_magic.results.results import ToolResult
    from mcp_magic.values.shared import ClientValues

MEMBER = "spilled"  # of the structured content of an answer that is too large

READER = "read_value"

_MEMBER_SCHEMA = {
    "type": "object",
    "description": "Instead of the other members, where the answer is too large: `handle` is the name of the variable "
    "that has it, for read_value and for references.",
    "properties": {"handle": {"type": "string"}},
    "required": ["handle"],
}

_COMBINING = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$dynamicRef", "const", "enum"),
        *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"),
        *("minProperties", "maxProperties", "propertyNames", "patternProperties"),
    )
)
"""Keywords at the root of a schema that could refuse an object with only `MEMBER`."""


def spilled(result: ToolResult, values: ClientValues, tokens: int | None) -> CallToolResult:
    """Return an answer for a client: as it is, or its head and a handle if it has more than `tokens`."""
    raw = result.raw
    texts = texts_of(result)
    characters = sum(map(len, texts))
    if raw.structured_content is not None:
        characters = max(characters, len(json_text(raw.structured_content)))
    if tokens is None or characters <= (limit := tokens * CHARACTERS_A_TOKEN):
        return raw
    others = [block for block in raw.content if text_of(block) is None]
    if result.is_error:
        text = "\n".join(texts) or json_text(raw.structured_content)
        cut = f"{text[:limit]}\n[cut here; the error has {len(text):,} characters]"
        return raw.model_copy(update={"content": [TextContent(text=cut), *others], "structured_content": None})
    handle = values.keep(result)
    advice = f'{{"$value": "{handle}"}} puts it into the arguments of a tool, without reading it.'
    text = f"{outline(result, handle, READER)}\n{advice}"
    has_schema = raw.structured_content is not None or result.output_schema is not None
    structured = {MEMBER: {"handle": handle}} if has_schema else None
    return raw.model_copy(update={"content": [TextContent(text=text), *others], "structured_content": structured})


def listed_output_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a tool's output schema that an answer in place of a too large one fits as well; None if there is none.

    >>> schema = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    >>> sorted(listed_output_schema(schema)["properties"]), "required" in listed_output_schema(schema)
    (['rows', 'spilled'], False)
    """
    if schema is None or schema.get("type") != "object" or not _COMBINING.isdisjoint(schema):
        return None
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict) or MEMBER in properties:
        return None
    members = {name: value for name, value in schema.items() if name not in ("required", "additionalProperties")}
    return {**members, "properties": {**properties, MEMBER: _MEMBER_SCHEMA}}
