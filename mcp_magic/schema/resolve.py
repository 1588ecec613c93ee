"""Schemas made plain: references followed, `allOf` merged, alternatives flattened, null set apart.

References are followed inside the document only; nothing is ever fetched. A reference that leads
nowhere, a cycle and an invalid keyword all mean "anything", never an error: the schema is a server's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from mcp_magic.schema.budget import MAX_DEPTH, Budget
from mcp_magic.schema.merge import ANNOTATIONS, Schema, is_number, merge

__all__ = ["Plain", "Resolver", "index_in"]

MAX_STEPS = 2_000
"""References and `allOf` parts followed for one of them. Real ones need a dozen; a hostile one doubles at each."""

NAMES_A_STEP = 100
"""Names of a merged object that are a step, too: they are copied at each merge."""

MAX_ALTERNATIVES = 100
"""Alternatives kept of one union."""

MAX_NODES = 50_000
"""Nodes of a document that are searched for anchors."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_SHAPES = frozenset(("type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "format"))


class Plain(NamedTuple):
    """A schema without references, `allOf` and null.

    Attributes:
        schema: The effective schema. With several alternatives: its annotations and `anyOf`.
        alternatives: One schema without alternatives for each; empty unless there are two or more.
        nullable: Whether null is allowed.
    """

    schema: Schema
    alternatives: list[Schema]
    nullable: bool


@dataclass
class _Walk:
    """What may still be done for one schema."""

    steps: int
    depth: int = 0


class Resolver:
    """Makes the schemas of one document plain.

    Attributes:
        root: The document.
        budget: What may still be made of it.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self.budget = Budget()
        self._known: dict[int, tuple[Any, Plain]] = {}  # with the schema, so that its id stays its own

    def plain(self, schema: Any) -> Plain:
        """Return `schema` in its plain form, "anything" past the budget; never raises, always ends."""
        known = self._known.get(id(schema))
        if known is not None:
            return known[1]
        walk = _Walk(min(MAX_STEPS, self.budget.steps))
        before = walk.steps
        made = self._made_plain(schema, walk)
        self.budget.steps -= before - walk.steps
        self._known[id(schema)] = schema, made
        return made

    def _made_plain(self, schema: Any, walk: _Walk) -> Plain:
        head, trail = self._expand(schema, frozenset(), walk)
        leaves: list[Schema] = []
        nullable = False
        for leaf in self._split(head, trail, walk):
            values, null = _without_null(leaf)
            nullable = nullable or null
            if values is not None and values not in leaves:
                leaves.append(values)
            if len(leaves) >= MAX_ALTERNATIVES:
                break
        notes = {key: value for key, value in head.items() if key in ANNOTATIONS}
        if len(leaves) > 1:
            return Plain({**notes, "anyOf": leaves}, leaves, nullable)
        if leaves:
            return Plain(merge(notes, leaves[0]), [], nullable)
        return Plain({**notes, "type": "null"} if nullable else notes, [], nullable)

    def _expand(self, schema: Any, trail: frozenset[str], walk: _Walk) -> tuple[Schema, frozenset[str]]:
        """Follow references and merge `allOf`; `trail` holds the references on the way here."""
        walk.steps -= 1
        if schema is False:
            return {"not": {}}, trail
        if not isinstance(schema, Mapping) or walk.steps < 0 or walk.depth >= MAX_DEPTH:
            return {}, trail
        walk.depth += 1
        merged = {key: value for key, value in schema.items() if key not in _REFERENCES and key != "allOf"}
        for key in _REFERENCES:
            ref = schema.get(key)
            if isinstance(ref, str) and ref not in trail:
                trail |= {ref}
                part, trail = self._expand(self.find(ref), trail, walk)
                merged = merge(merged, part)
        parts = schema.get("allOf")
        for each in parts if isinstance(parts, list) else ():
            part, trail = self._expand(each, trail, walk)
            merged = merge(merged, part)
            walk.steps -= _names(merged) // NAMES_A_STEP
            if walk.steps < 0:
                break
        walk.depth -= 1
        return merged, trail

    def _split(self, schema: Schema, trail: frozenset[str], walk: _Walk, depth: int = 0) -> Iterator[Schema]:
        """Yield the alternatives of an expanded schema, none of which has alternatives itself."""
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if key not in schema:
                continue
            base = {name: value for name, value in schema.items() if name != key}
            if not isinstance(options, list) or not options or walk.steps < 0 or depth >= MAX_DEPTH:
                schema = base
                continue
            parts = [self._expand(option, trail, walk) for option in options if not _seen(option, trail)]
            if _only_constrain(base, [part for part, _ in parts]):
                schema = base
                continue
            base = {name: value for name, value in base.items() if name not in ANNOTATIONS}
            for part, way in parts:
                if part.get("not") != {}:
                    yield from self._split(merge(part, base), way, walk, depth + 1)
            return
        types = schema.get("type")
        if isinstance(types, list):
            yield from ({**schema, "type": name} for name in types if isinstance(name, str))
        else:
            yield schema

    def find(self, ref: str) -> Any:
        """Return what a reference inside the document points to, or True (anything)."""
        base, _, fragment = ref.partition("#")
        place = self.root if not base else self._find_base(base)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(f"#{unquote(fragment)}", True)
        for part in fragment.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(place, Mapping) and key in place:
                place = place[key]
            elif isinstance(place, list) and (index := index_in(place, key)) is not None:
                place = place[index]
            else:
                return True
        return place

    def _find_base(self, base: str) -> Any:
        own = self.root.get("$id") if isinstance(self.root, Mapping) else None
        try:
            absolute = urljoin(own, base) if isinstance(own, str) else base
        except ValueError:  # one of them is no URL
            absolute = base
        return self._anchors.get(base, self._anchors.get(absolute, True))

    @functools.cached_property
    def _anchors(self) -> dict[str, Any]:
        """Every `$id` and `#anchor` of the document (draft-07 writes anchors as `$id: "#name"`)."""
        found: dict[str, Any] = {}
        pending = [self.root]
        for _ in range(MAX_NODES):
            if not pending:
                break
            node = pending.pop()
            if isinstance(node, Mapping):
                for key, prefix in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                    if isinstance(node.get(key), str):
                        found.setdefault(prefix + node[key], node)
            if isinstance(node, Mapping | list):
                pending.extend(node.values() if isinstance(node, Mapping) else node)
        return found


def index_in(place: list[Any], key: str) -> int | None:
    """Return the index that a part of a JSON pointer names, or None if the list has no such item.

    >>> index_in(["a", "b"], "1"), index_in(["a", "b"], "2"), index_in(["a"], "9" * 5_000)
    (1, None, None)
    """
    if not key.isdecimal() or len(key) > len(str(len(place))):
        return None
    return int(key) if int(key) < len(place) else None


def _names(schema: Schema) -> int:
    """How many names of properties a schema has."""
    named = (schema.get(key) for key in ("properties", "patternProperties", "required"))
    return sum(len(each) for each in named if isinstance(each, Mapping | list))


def _seen(option: Any, trail: frozenset[str]) -> bool:
    """Whether an alternative is the union that it is an alternative of."""
    references = (option.get(key) for key in _REFERENCES) if isinstance(option, Mapping) else ()
    return any(isinstance(ref, str) and ref in trail for ref in references)


def _only_constrain(base: Schema, parts: list[Schema]) -> bool:
    """Whether alternatives say nothing of the shape, such as `anyOf` of `required`."""
    shaped = isinstance(base.get("type"), str) or "properties" in base
    return shaped and not any(_SHAPES & part.keys() for part in parts)


def _without_null(leaf: Schema) -> tuple[Schema | None, bool]:
    """Set null apart: the schema of the other values (None if there are none), and whether null is allowed."""
    kind, values = leaf.get("type"), leaf.get("enum")
    if kind == "null":
        return None, not isinstance(values, list) or None in values
    if "const" in leaf and leaf["const"] is None:
        return None, kind is None
    if isinstance(values, list) and None in values:
        rest = [value for value in values if value is not None]
        return ({**leaf, "enum": rest} if rest else None), kind is None
    if isinstance(kind, str) and isinstance(values, list):
        fitting = [value for value in values if _is_type(value, kind)]
        return ({**leaf, "enum": fitting} if fitting else None), False
    return leaf, False


def _is_type(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return is_number(value) and value % 1 == 0
        case "number":
            return is_number(value)
        case _:
            return True
