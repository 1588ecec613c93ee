"""Everything that is written in a definition, and the parts of a schema, with where each stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mcp_magic.schema.budget import MAX_NODES

__all__ = ["SchemaPart", "parts", "place", "schema_texts", "texts"]

MAX_TEXTS = 20_000
"""Texts of one definition that are looked at."""

_ONE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


class SchemaPart(NamedTuple):
    """A schema in a schema.

    Attributes:
        where: The names of the properties that lead to it, with `[]` for items.
        node: The schema.
        branch: Whether it is one of several, or a condition: only a part of what holds for its value.
    """

    where: str
    node: Mapping[str, Any]
    branch: bool = False


def parts(schema: Any) -> Iterator[SchemaPart]:
    """Yield a schema and all schemas in it.

    >>> [part.where for part in parts({"properties": {"a": {"items": {"type": "string"}}}})]
    ['', 'a', 'a[]']
    """
    pending: list[tuple[str, Any, bool]] = [("", schema, False)]
    for _ in range(MAX_NODES):
        if not pending:
            return
        where, node, branch = pending.pop()
        if isinstance(node, Mapping):
            yield SchemaPart(where, node, branch)
            pending.extend(reversed(list(itertools.islice(_inside(where, node), MAX_NODES))))


def _inside(where: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    for keyword in _NAMED:
        members = node.get(keyword)
        if isinstance(members, Mapping):
            prefix = "" if keyword == "properties" else f"{keyword}/"
            yield from ((_joined(where, f"{prefix}{name}"), inner, False) for name, inner in members.items())
    for keyword in _MANY:
        options = node.get(keyword)
        if isinstance(options, list):
            yield from ((where, inner, keyword != "prefixItems") for inner in options)
    for keyword in _ONE:
        if isinstance(node.get(keyword), Mapping):
            place = f"{where}[]" if keyword in ("items", "contains") else where
            yield place, node[keyword], keyword in ("not", "if", "then", "else")


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def place(owner: str, where: str, kind: str = "argument") -> str:
    """Return where something stands, in words.

    >>> place("tool add", "a.b"), place("tool add", "")
    ('tool add, argument a.b', 'tool add')
    """
    return f"{owner}, {kind} {where}" if where else owner


def schema_texts(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield every text of a schema, names of properties too, with the place of the schema that it stands in."""
    yield from itertools.islice(_schema_texts(schema), MAX_TEXTS)


def _schema_texts(schema: Any) -> Iterator[tuple[str, str]]:
    for where, node, _ in parts(schema):
        for keyword, value in node.items():
            if keyword in _NAMED and isinstance(value, Mapping):
                yield from ((_joined(where, str(name)), str(name)) for name in value)
            elif keyword not in (*_MANY, *_ONE):
                yield from ((where, text) for text in texts(value))


def texts(value: Any) -> Iterator[str]:
    """Yield every text in JSON data, keys too."""
    pending = [value]
    for _ in range(MAX_TEXTS):
        if not pending:
            return
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, Mapping):
            pending.extend([*node.values(), *node])
        elif isinstance(node, list | tuple):
            pending.extend(node)
