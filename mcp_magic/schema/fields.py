"""JSON Schema as a tree of fields, for forms, help, messages, signatures and completion.

The tree is made as it is walked, so a recursive schema costs nothing until somebody walks it. One that is walked
ends with the schema's budget (`schema.budget`): fields past it are not listed, or take any value.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_magic.schema import describe
from mcp_magic.schema.budget import MAX_DEPTH
from mcp_magic.schema.kinds import TYPES, Kind, choices_of, inferred_kind, is_fixed, name_matches, says_base64, text_of
from mcp_magic.schema.merge import distinct
from mcp_magic.schema.resolve import Plain, Resolver
from mcp_magic.schema.sentinels import MISSING

__all__ = ["Field", "Kind", "root_field"]

_ELSEWHERE = frozenset(("$ref", "if", "then", "else", "dependentSchemas", "dependencies", "propertyNames"))
"""Keywords that may name properties which `properties` does not list."""

_NAMES = ("patternProperties", "required", "minProperties")
"""Keywords that say of an object without listed properties that it has some."""


@dataclass(frozen=True, eq=False)
class Field:
    """One value that a schema describes.

    Attributes:
        name: The property's name; "" for the root.
        raw: The schema as the server wrote it.
        required: Whether the object that it belongs to must have it.
        depth: How many levels of the schema it is in.
    """

    name: str
    raw: Any = field(repr=False)
    required: bool = False
    resolver: Resolver = field(repr=False, kw_only=True)
    depth: int = field(default=0, repr=False, kw_only=True)

    @functools.cached_property
    def _plain(self) -> Plain:
        return self.resolver.plain(self.raw if self.depth < MAX_DEPTH else True)

    def _inner(self, name: str, raw: Any, required: bool = False) -> Field:
        return Field(name, raw, required, resolver=self.resolver, depth=self.depth + 1)

    def _within_budget(self, count: int) -> int:
        return self.resolver.budget.take(count)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The effective schema: references followed, `allOf` merged, null taken out (see `nullable`)."""
        return self._plain.schema

    @property
    def nullable(self) -> bool:
        """Whether null is allowed."""
        return self._plain.nullable

    @functools.cached_property
    def kind(self) -> Kind:
        """What to make of it; "any" also for a schema that cannot be understood."""
        if self._plain.alternatives:
            return "enum" if all(is_fixed(leaf) for leaf in self._plain.alternatives) else "union"
        if "const" in self.schema:
            return "const"
        if isinstance(self.schema.get("enum"), list):
            return "enum"
        stated = self.schema.get("type")
        return stated if stated in TYPES else inferred_kind(self.schema)

    @property
    def title(self) -> str:
        """The title, or ""."""
        return text_of(self.schema.get("title"))

    @property
    def description(self) -> str:
        """The description, or ""."""
        return text_of(self.schema.get("description"))

    @property
    def default(self) -> Any:
        """The default, or MISSING."""
        return self.schema.get("default", MISSING)

    @property
    def needed(self) -> bool:
        """Whether a call must give it: it is required, and has no default to be filled in (see `prepare_arguments`)."""
        return self.required and (self.default is MISSING or (self.default is None and not self.nullable))

    @property
    def format(self) -> str:
        """The format, or ""."""
        return text_of(self.schema.get("format"))

    @property
    def is_base64(self) -> bool:
        """Whether the text is the base64 of bytes."""
        return any(variant.is_base64 for variant in self.variants) or (
            self.kind in ("string", "any") and says_base64(self.schema)
        )

    @functools.cached_property
    def choices(self) -> tuple[tuple[Any, str], ...]:
        """The only values there are, each with a label; empty unless `kind` is "enum" or "const"."""
        return (
            tuple(choices_of(self._plain.alternatives or [dict(self.schema)])) if self.kind in ("enum", "const") else ()
        )

    @functools.cached_property
    def variants(self) -> tuple[Field, ...]:
        """The alternatives of a union (none is a union itself)."""
        if self.kind != "union":
            return ()
        leaves = self._plain.alternatives
        return tuple(self._inner(self.name, leaf, self.required) for leaf in leaves[: self._within_budget(len(leaves))])

    @functools.cached_property
    def children(self) -> tuple[Field, ...]:
        """The properties in order; of a union, those of all its objects, required if all of them require it.

        Those past the schema's budget are left out, see `unlisted`; `at` knows them all the same.
        """
        if self.kind == "union":
            return _merged_children(self)
        listed = itertools.islice(self._raws.items(), self._within_budget(len(self._raws)))
        return tuple(self._inner(str(name), raw, name in self._required_names) for name, raw in listed)

    @property
    def unlisted(self) -> int:
        """How many properties `children` leaves out because they are past the schema's budget."""
        return max(0, len(self._raws) - len(self.children)) if self.kind == "object" else 0

    @property
    def is_cut(self) -> bool:
        """Whether the schema's budget is used up: what was not made yet is not listed, or takes any value."""
        return min(self.resolver.budget.nodes, self.resolver.budget.steps) <= 0

    @functools.cached_property
    def _raws(self) -> Mapping[str, Any]:
        """The schemas of an object's properties by name."""
        properties = self.schema.get("properties")
        return properties if self.kind == "object" and isinstance(properties, Mapping) else {}

    @functools.cached_property
    def _required_names(self) -> frozenset[str]:
        required = self.schema.get("required")
        names = required if isinstance(required, list) else ()
        return frozenset(name for name in names if isinstance(name, str))

    @functools.cached_property
    def prefix(self) -> tuple[Field, ...]:
        """The fields of the first items of an array that gives each its own (`prefixItems`; draft-07: `items`)."""
        listed = self.schema.get("prefixItems", self.schema.get("items"))
        if self.kind != "array" or not isinstance(listed, list):
            return ()
        kept = listed[: self._within_budget(len(listed))]
        return tuple(self._inner(f"{self.name}[{i}]", raw, True) for i, raw in enumerate(kept))

    @functools.cached_property
    def item(self) -> Field | None:
        """The field of an array's items (after the prefix; else any of the prefix); None if this is no array."""
        if self.kind != "array":
            return None
        rest = self.schema.get("items", True)
        if isinstance(rest, list):
            rest = self.schema.get("additionalItems", True)
        if self.prefix and isinstance(rest, bool):
            rest = {"anyOf": [each.raw for each in self.prefix]}
        return self._inner(f"{self.name}[]", rest if self._within_budget(1) else True)

    @functools.cached_property
    def additional(self) -> Field | bool:
        """What JSON Schema says of properties that are not listed: a field, True (anything) or False (none)."""
        rest = self.schema.get("additionalProperties", True)
        if isinstance(rest, Mapping) and rest:
            return self._inner("", rest if self._within_budget(1) else True)
        return rest is not False

    @functools.cached_property
    def is_open(self) -> bool:
        """Whether it takes names that it does not list.

        By JSON Schema every object does unless it says no; but one that lists properties and says
        nothing is nearly always meant to be complete, and a misspelt name should be found. A tool whose
        list of arguments is there and empty takes none; an object inside of them with an empty list is
        mostly a free one.
        """
        if self.kind == "union":
            return any(variant.is_open for variant in self.variants if variant.kind in ("object", "any"))
        if self.kind != "object":
            return self.kind == "any"
        said = self.schema.get("additionalProperties")
        if said is False or (said is None and self.schema.get("unevaluatedProperties") is False):
            return bool(self.schema.get("patternProperties"))
        return said is not None or not self._is_complete or bool(_ELSEWHERE & self.schema.keys())

    @property
    def _is_complete(self) -> bool:
        """Whether the names that an object lists are meant to be all."""
        if self.children or self.raw is not self.resolver.root:
            return bool(self.children)
        return "properties" in self.schema and not any(self.schema.get(keyword) for keyword in _NAMES)

    def at(self, key: str | int) -> Field | None:
        """Return the field of a property or an item, or None where there can be none."""
        if isinstance(key, int):
            arrays = [each for each in (self, *self.variants) if each.kind == "array"]
            if not arrays:
                return self._anything("") if self.kind == "any" else None
            return arrays[0].prefix[key] if key < len(arrays[0].prefix) else arrays[0].item
        return self.listed(key) or self.allowed(key)

    @functools.cached_property
    def _named(self) -> dict[str, Field]:
        """The properties that were asked for by name; of a union all, because they are merged."""
        return {child.name: child for child in self.children} if self.kind == "union" else {}

    def listed(self, name: str) -> Field | None:
        """Return the field of a property that the schema lists, or None."""
        known = self._named.get(name)
        if known is None and name in self._raws:
            known = self._named[name] = self._inner(name, self._raws[name], name in self._required_names)
        return known

    def allowed(self, name: str) -> Field | None:
        """Return the field of a property that the schema does not list but allows, or None."""
        for each in self.variants:
            if (found := each.allowed(name)) is not None:
                return found
        patterns = self.schema.get("patternProperties")
        for pattern, raw in patterns.items() if isinstance(patterns, Mapping) else ():
            if name_matches(pattern, name):
                return self._inner(name, raw)
        if isinstance(self.additional, Field):
            return self._inner(name, self.additional.raw)
        return self._anything(name) if self.is_open and self.additional else None

    def _anything(self, name: str) -> Field:
        return self._inner(name, True)

    @functools.cached_property
    def type_text(self) -> str:
        """What is expected, in a few words: "integer", "list of string or null", "one of 'a', 'b'"."""
        return describe.type_text(self)

    @property
    def constraints_text(self) -> str:
        """What else is expected: "1 to 10", "at least 3 characters", or ""."""
        return describe.constraints_text(self.schema)

    def describe(self) -> str:
        """Return one line for help: type, limits, default and description."""
        return describe.describe(self)


def root_field(schema: Any) -> Field:
    """Return the field of a whole schema, such as a tool's input schema.

    >>> root = root_field({"type": "object", "properties": {"n": {"type": ["integer", "null"]}}})
    >>> [(child.name, child.kind, child.nullable) for child in root.children]
    [('n', 'integer', True)]
    """
    return Field("", schema, resolver=Resolver(schema))


def _merged_children(union: Field) -> tuple[Field, ...]:
    objects = [variant for variant in union.variants if variant.kind == "object"]
    found: dict[str, list[Field]] = {}
    for child in (child for each in objects for child in each.children):
        found.setdefault(child.name, []).append(child)
    merged = []
    for name, fields in found.items():
        raws = distinct({id(each.raw): each.raw for each in fields}.values())
        raw = raws[0] if len(raws) == 1 else {"anyOf": raws}
        required = len(fields) == len(objects) and all(each.required for each in fields)
        merged.append(Field(name, raw, required, resolver=union.resolver, depth=union.depth + 1))
    return tuple(merged)
