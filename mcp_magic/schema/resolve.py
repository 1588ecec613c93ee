"""Resolves `$ref`, `allOf` and alternatives in a server's schema, within a budget."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote, urljoin

from mcp_magic.schema.patterns import MAX_DEPTH, Budget

# Merging of two schemas, as `allOf` asks, for forms, messages, signatures and text. Validation uses the original.

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment")
)
"""Keywords that describe a value without constraining it."""

MAX_PRODUCT = 64  # alternatives kept of the product of two `anyOf`; more would not help the user

Schema = dict[str, Any]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a keyword's value is a JSON number; a boolean is not, nor `1e400`, which reads as infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def is_multiple(value: object, step: object) -> bool:
    """Return whether a number is a multiple, counted in decimals as it is written; True for other values.

    >>> 19.99 % 0.01 == 0, is_multiple(19.99, 0.01), is_multiple(19.995, 0.01)
    (False, True, False)
    """
    if not is_number(value) or not is_number(step) or step <= 0:
        return True
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    # `repr` gives the fewest digits that read back as the same float: those that the server or the user wrote.
    exact = [Fraction(number) if isinstance(number, int) else Fraction(repr(number)) for number in (value, step)]
    return (exact[0] / exact[1]).denominator == 1


def object_of(value: Any) -> dict[str, Any]:
    """Return a JSON object; {} if the value is none: what comes from a server or a file may be anything."""
    return value if isinstance(value, dict) else {}


def json_equal(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal. Unlike in Python, 1 and true differ, at any depth."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(json_equal, first, second))
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(json_equal(first[key], second[key]) for key in first)
    return bool(first == second)


def json_key(value: Any) -> Hashable:
    """Return a key that is equal for equal JSON values only, to find them without comparing each pair."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list | tuple):
        return list, tuple(map(json_key, value))
    if isinstance(value, Mapping):
        return dict, frozenset((key, json_key(inner)) for key, inner in value.items())
    return value if isinstance(value, Hashable) else (type(value), id(value))


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return JSON values in order, without duplicates."""
    unique: dict[Hashable, Any] = {}
    for value in values:
        unique.setdefault(json_key(value), value)
    return list(unique.values())


def merge(near: Mapping[str, Any], far: Mapping[str, Any]) -> Schema:
    """Return a schema with the constraints of both schemas; annotations of `near` win."""
    merged = dict(near)
    for key, value in far.items():
        if key not in merged:
            merged[key] = value
        elif key in _COMBINE:
            merged[key] = _COMBINE[key](merged[key], value)
    return merged


def _both_named(near: Any, far: Any) -> Any:
    if not (isinstance(near, Mapping) and isinstance(far, Mapping)):
        return near if isinstance(near, Mapping) else far
    both = {name: _both(near[name], far[name]) if name in far else near[name] for name in near}
    return both | {name: schema for name, schema in far.items() if name not in near}


def _both(near: Any, far: Any) -> Any:
    if near is False or far is False:
        return False
    if near is True or near == far:
        return far
    return near if far is True else {"allOf": [near, far]}


def _lists(combine: Callable[[list[Any], list[Any]], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that combines two lists, and ignores what is none."""

    def combined(near: Any, far: Any) -> Any:
        if isinstance(near, list) and isinstance(far, list):
            return combine(near, far)
        return near if isinstance(near, list) else far

    return combined


def _types(near: Any, far: Any) -> Any:
    first = near if isinstance(near, list) else [near]
    second = far if isinstance(far, list) else [far]
    first, second = ([name for name in distinct(names) if isinstance(name, str)] for names in (first, second))
    common = [name for name in first if name in second or (name == "integer" and "number" in second)]
    common += [name for name in second if name == "integer" and "number" in first and name not in common]
    if not common:
        return near
    return common if len(common) > 1 else common[0]


def _enums(near: list[Any], far: list[Any]) -> list[Any]:
    keys = set(map(json_key, far))  # not a comparison of each pair: a hostile schema has two long lists
    return [value for value in near if json_key(value) in keys] or near


def _alternatives(near: list[Any], far: list[Any]) -> list[Any]:
    return [{"allOf": list(pair)} for pair in itertools.islice(itertools.product(near, far), MAX_PRODUCT)]


def _limit(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def tighter(near: Any, far: Any) -> Any:
        return choose(near, far) if is_number(near) and is_number(far) else near

    return tighter


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _both_named,
    "patternProperties": _both_named,
    "required": _lists(lambda near, far: distinct([*near, *far])),
    "type": _types,
    "enum": _lists(_enums),
    "items": _both,
    "additionalProperties": _both,
    **dict.fromkeys(("anyOf", "oneOf"), _lists(_alternatives)),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _limit(max)),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _limit(min)),
}


# Plain schemas: references followed, `allOf` merged, alternatives flattened, null set apart. References are followed
# inside the document only; nothing is fetched. An unresolvable reference, a cycle or an invalid keyword means
# "anything" and raises nothing, because the schema is the server's.

MAX_PLAIN_STEPS = 2_000
"""References and `allOf` parts followed for one plain schema. Real ones need a dozen; a hostile one doubles at each."""

NAMES_A_STEP = 100  # names of a merged object that count as one step, because each merge copies them
MAX_ALTERNATIVES = 100  # alternatives kept of a union
MAX_ANCHOR_NODES = 50_000  # nodes of a document that the search for anchors visits

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_INDIRECT = frozenset((*REFERENCES, "allOf", "anyOf", "oneOf", "enum", "const"))
_PLAIN = ("string", "integer", "number", "boolean", "array", "object")
_SHAPES = frozenset(("type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "format"))


class Plain(NamedTuple):
    """A schema without references, `allOf` and null, and its alternatives, which have none themselves."""

    schema: Schema
    alternatives: list[Schema]
    nullable: bool


@dataclass
class _Walk:
    """The remaining steps for one schema, and the current depth."""

    steps: int
    depth: int = 0


class Resolver:
    """Makes the schemas of one document plain, within its budget."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.budget = Budget()
        self._plain_schemas: dict[
            int, tuple[Any, Plain]
        ] = {}  # holds the schema too, so that no other object gets its id

    def plain(self, schema: Any) -> Plain:
        """Return the plain form of `schema`, which past the budget is "anything". Never raises, always ends."""
        entry = self._plain_schemas.get(id(schema))
        if entry is not None:
            return entry[1]
        if type(schema) is dict and schema.get("type") in _PLAIN and _INDIRECT.isdisjoint(schema):
            self.budget.steps -= 1
            plain = Plain(schema, [], False)  # as nearly all are
        else:
            walk = _Walk(min(MAX_PLAIN_STEPS, self.budget.steps))
            before = walk.steps
            plain = self._make_plain(schema, walk)
            self.budget.steps -= before - walk.steps
        self._plain_schemas[id(schema)] = schema, plain
        return plain

    def _make_plain(self, schema: Any, walk: _Walk) -> Plain:
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
        """Follow references and merge `allOf`; `trail` holds the references followed so far."""
        walk.steps -= 1
        if schema is False:
            return {"not": {}}, trail
        if not isinstance(schema, Mapping) or walk.steps < 0 or walk.depth >= MAX_DEPTH:
            return {}, trail
        walk.depth += 1
        merged = {key: value for key, value in schema.items() if key not in REFERENCES and key != "allOf"}
        for key in REFERENCES:
            ref = schema.get(key)
            if isinstance(ref, str) and ref not in trail:
                trail |= {ref}
                part, trail = self._expand(self.find(ref), trail, walk)
                merged = merge(merged, part)
        parts = schema.get("allOf")
        for branch in parts if isinstance(parts, list) else ():
            part, trail = self._expand(branch, trail, walk)
            merged = merge(merged, part)
            lists = [merged.get(key) for key in ("properties", "patternProperties", "required")]
            walk.steps -= sum(len(names) for names in lists if isinstance(names, Mapping | list)) // NAMES_A_STEP
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
            parts = [self._expand(option, trail, walk) for option in options if not _refers_back(option, trail)]
            is_shaped = isinstance(base.get("type"), str) or "properties" in base
            if is_shaped and not any(_SHAPES & part.keys() for part, _ in parts):  # such as `anyOf` of `required`
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
        """Return the target of a reference inside the document, or True (anything) if it has none."""
        base, _, fragment = ref.partition("#")
        place = self.root
        if base:
            own = self.root.get("$id") if isinstance(self.root, Mapping) else None
            try:
                absolute = urljoin(own, base) if isinstance(own, str) else base
            except ValueError:  # not a URL
                absolute = base
            place = self._anchors.get(base, self._anchors.get(absolute, True))
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

    @functools.cached_property
    def _anchors(self) -> dict[str, Any]:
        """Every `$id` and `#anchor` of the document (draft-07 writes anchors as `$id: "#name"`)."""
        anchors: dict[str, Any] = {}
        pending = [self.root]
        for _ in range(MAX_ANCHOR_NODES):
            if not pending:
                break
            node = pending.pop()
            if isinstance(node, Mapping):
                for key, prefix in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                    if isinstance(node.get(key), str):
                        anchors.setdefault(prefix + node[key], node)
            if isinstance(node, Mapping | list):
                pending.extend(node.values() if isinstance(node, Mapping) else node)
        return anchors


def index_in(place: list[Any], key: str) -> int | None:
    """Return the list index that a part of a JSON pointer names, or None if the list has no such item."""
    if not key.isdecimal() or len(key) > len(str(len(place))):
        return None
    return int(key) if int(key) < len(place) else None


def _refers_back(option: Any, trail: frozenset[str]) -> bool:
    """Return whether an alternative refers to the union that it belongs to."""
    references = (option.get(key) for key in REFERENCES) if isinstance(option, Mapping) else ()
    return any(isinstance(ref, str) and ref in trail for ref in references)


def _without_null(leaf: Schema) -> tuple[Schema | None, bool]:
    """Return the schema of the values other than null (None if there are none), and whether null is allowed."""
    kind, values = leaf.get("type"), leaf.get("enum")
    if kind == "null":
        return None, not isinstance(values, list) or None in values
    if "const" in leaf and leaf["const"] is None:
        return None, kind is None
    if isinstance(values, list) and None in values:
        rest = [value for value in values if value is not None]
        return ({**leaf, "enum": rest} if rest else None), kind is None
    if isinstance(kind, str) and isinstance(values, list):
        fitting = [value for value in values if is_type(value, kind)]
        return ({**leaf, "enum": fitting} if fitting else None), False
    return leaf, False


def is_type(value: Any, kind: str) -> bool:
    """Return whether a value is of a scalar type; True for any other type."""
    if kind in ("integer", "number"):
        return is_number(value) and (kind == "number" or value % 1 == 0)
    return isinstance(value, {"string": str, "boolean": bool}.get(kind, object))
