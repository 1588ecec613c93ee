"""The schemas of tools whose arguments may be references to values (`references.py`).

Schemas say at each argument for a list or an object that a reference may stand there. They say it without naming
`$value` as a property: Anthropic refuses a property with `$` in its name, Gemini refuses `required` names that are no
properties, `type` as a list, and anything beside `anyOf`, and OpenAI refuses an `anyOf` at the top. Arguments for text
stay as they are, although references are replaced there as well: most tools have several, and an `anyOf` at each would
cost an agent more tokens than references to texts save, and would take the plain field from forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic.schema import input_root
from mcp_magic.values.references import MARK

if TYPE_CHECKING:
    from mcp_magic.schema import Field

HINT = (
    'or a value of the notebook by reference: {"$value": "df", "columns": ["a"], "rows": [0, 100], "query": "a > 1"}; '
    "all but $value may be left out, and query selects among the rows"
)
"""What a schema says at an argument."""

HEADER_MARK = "x-mcp-header"  # the mark of an argument that is sent as an HTTP header as well, so must stay a scalar


def widened_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's input schema that takes references for lists and objects, and is the same for everything else.

    >>> rows = {"type": "array", "items": {"type": "object"}}
    >>> widened = widened_schema({"type": "object", "properties": {"rows": rows, "n": {"type": "integer"}}})
    >>> widened["properties"]["rows"]["anyOf"][0] == rows, widened["properties"]["n"]
    (True, {'type': 'integer'})
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or _points_into_properties(schema):
        return dict(schema)
    root = input_root(schema)
    return {**schema, "properties": {name: _widened(raw, root.child(name)) for name, raw in properties.items()}}


def _widened(raw: Any, place: Field | None) -> Any:
    if place is None or not isinstance(raw, Mapping) or HEADER_MARK in raw or not raw:
        return raw
    kinds = {variant.kind for variant in (place.variants or (place,))}
    if not kinds & {"array", "object", "any"}:
        return raw
    option = {"type": "object", "description": HINT}
    if place.takes({MARK: "df"}) and "$ref" not in raw and "anyOf" not in raw:
        description = raw.get("description")
        text = description.rstrip() if isinstance(description, str) else ""
        return {**raw, "description": f"{text} ({HINT})" if text else HINT}
    alternatives = raw.get("anyOf")
    if isinstance(alternatives, list):
        return {**raw, "anyOf": [*alternatives, option]}
    return {"anyOf": [dict(raw), option]}


def _points_into_properties(schema: Any) -> bool:
    """Whether a reference of a schema leads into its properties, where it would find another schema after a change."""
    stack = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            target = part.get("$ref")
            if isinstance(target, str) and target.startswith("#/properties"):
                return True
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return False
