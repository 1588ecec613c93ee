"""Input schemas as LangChain can hand them to providers.

`convert_to_openai_tool` follows references itself: it loses what stands beside `$ref`, makes anything of a schema that
holds itself, and fails at anchors, at references out of the document and at data with a key `$ref`. One such tool would
keep a model from all others. So references are resolved before; schemas without any are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_magic.schema.budget import MAX_DEPTH, MAX_NODES
from mcp_magic.schema.merge import merge
from mcp_magic.schema.resolve import Resolver

__all__ = ["portable"]

MAX_ROUNDS = 2
"""Times that a schema which holds itself is written out; below that its type is left."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_IDENTIFIERS = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_EXTRA = ("additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_SINGLE = (*_EXTRA, "items", "contains", "propertyNames", "not", "if", "then", "else")


def portable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input schema that every provider package of LangChain takes and that asks for the same.

    It always has `type` and `properties`, which providers want.

    >>> portable({"required": ["a"]})
    {'type': 'object', 'properties': {}, 'required': ['a']}
    >>> portable({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}})
    {'type': 'object', 'properties': {'a': {'type': 'string'}}}
    """
    plain = _Inliner(schema).inline(schema, ()) if _mentions_reference(schema) else dict(schema)
    return {"type": "object", "properties": {}, **plain}


def _mentions_reference(value: Any) -> bool:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if any(key in node for key in _REFERENCES):
                return True
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return False


class _Inliner:
    """Writes a document's references out."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._resolver = Resolver(root)
        self._nodes = 0
        self._depth = 0

    def inline(self, schema: Any, trail: tuple[str, ...]) -> Any:
        """Return a schema without references; `trail` holds those on the way here."""
        self._nodes += 1
        if not isinstance(schema, Mapping):
            return schema
        if self._nodes > MAX_NODES or self._depth >= MAX_DEPTH:
            return _outline(schema)
        self._depth += 1
        made = self._inlined(schema, trail)
        self._depth -= 1
        return made

    def _inlined(self, schema: Mapping[str, Any], trail: tuple[str, ...]) -> Any:
        kept = {key: value for key, value in schema.items() if key not in (*_REFERENCES, *_IDENTIFIERS)}
        made = {key: self._keyword(key, value, trail) for key, value in kept.items()}
        made = {key: value for key, value in made.items() if key in _NAMED or not _mentions_reference(value)}
        for key in _REFERENCES:
            ref = schema.get(key)
            if isinstance(ref, str):
                target = self._resolver.find(ref)
                known = trail.count(ref) < MAX_ROUNDS
                part = self.inline(target, (*trail, ref)) if known else _outline(target)
                made = merge(made, part) if isinstance(part, Mapping) else made
        return made

    def _keyword(self, key: str, value: Any, trail: tuple[str, ...]) -> Any:
        if key in _SINGLE and isinstance(value, Mapping):
            return self.inline(value, trail)
        if key in (*_LISTED, "items") and isinstance(value, list):
            return [self.inline(each, trail) for each in value]
        if key in _NAMED and isinstance(value, Mapping):
            # a property of the name "$ref" would be taken for a reference
            return {name: self.inline(each, trail) for name, each in value.items() if name != "$ref"}
        return value


def _outline(schema: Any) -> dict[str, Any]:
    """Return what a schema says without any other."""
    if not isinstance(schema, Mapping):
        return {}
    return {key: schema[key] for key in ("type", "title", "description") if isinstance(schema.get(key), str)}
