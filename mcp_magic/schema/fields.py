"""A JSON Schema as fields: name, kind, description, default and bounds of each argument."""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

from mcp_magic.schema.formats import fits_format
from mcp_magic.schema.patterns import MAX_DEPTH, is_checked, matches
from mcp_magic.schema.repair import TYPES, repair
from mcp_magic.schema.resolve import Plain, Resolver, distinct, is_multiple, is_number, is_type, json_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Sentinel(Enum):
    """Values for what JSON cannot express; they are false."""

    MISSING = "missing"  # the schema states no default (`None` would be the default null)
    UNSET = "unset"  # the argument is left out (`None` would be sent as null)

    def __repr__(self) -> str:
        return str(self.value)

    def __bool__(self) -> bool:
        return False


MISSING: Final = Sentinel.MISSING
UNSET: Final = Sentinel.UNSET


# Fields in words.

MAX_CHOICES = 8  # choices that a message names; it only counts the others

MAX_DESCRIBED_DEPTH = 3  # levels of nested lists that a message describes; a recursive schema has no last level

MAX_SHOWN = 60  # characters of one value that a message shows

MAX_COMPARED = 8  # levels of a value that `Field.takes` compares


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def label(value: Any) -> str:
    """Return a choice as typed on the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def literal(value: Any) -> str:
    """Return a value of a schema as a message shows it: text in quotes, other values as JSON."""
    return shorten(repr(value) if isinstance(value, str) else label(value))


def type_text(field: Field, depth: int = 0) -> str:
    """Return the expected type in a few words."""
    text = _kind_text(field, depth)
    return f"{text} or null" if field.nullable and field.kind != "null" else text


def _kind_text(field: Field, depth: int) -> str:
    match field.kind:
        case "enum":
            return _choices_text([value for value, _ in field.choices])
        case "const":
            return literal(field.schema["const"])
        case "union":
            return _joined(type_text(variant, depth + 1) for variant in field.variants)
        case "array":
            return _array_text(field, depth)
        case "object":
            return _object_text(field, depth)
        case "string" if field.format or field.is_base64:
            return f"string ({shorten(field.format, 30) or 'base64'})"
    return str(field.kind)


def _choices_text(values: list[Any]) -> str:
    if len(values) < 2:
        return literal(values[0]) if values else "nothing"
    text = ", ".join(literal(value) for value in values[:MAX_CHOICES])
    rest = len(values) - MAX_CHOICES
    return f"one of {text} and {rest} more" if rest > 0 else f"one of {text}"


def _joined(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys(texts))
    return " or ".join(names[:MAX_CHOICES]) + (" or more" if len(names) > MAX_CHOICES else "")


def _array_text(field: Field, depth: int) -> str:
    if depth >= MAX_DESCRIBED_DEPTH or field.item is None:
        return "list"
    if field.prefix:
        return f"list ({', '.join(type_text(item, depth + 1) for item in field.prefix[:MAX_CHOICES])})"
    return _of("list", field.item, depth)


def _object_text(field: Field, depth: int) -> str:
    if not field.children and not isinstance(field.additional, bool) and depth < MAX_DESCRIBED_DEPTH:
        return _of("object", field.additional, depth)
    return "object"


def _of(container: str, item: Field, depth: int) -> str:
    if item.kind == "any" and not item.nullable:
        return container
    text = type_text(item, depth + 1)
    return f"{container} of ({text})" if " or " in text else f"{container} of {text}"


def _constraints_text(schema: Mapping[str, Any]) -> str:
    """Return the constraints of a schema in words: `1 to 10`, `at least 3 characters, matches ^a`."""
    parts = [
        *_range(schema),
        _count(schema, "Length", "character"),
        _count(schema, "Items", "item"),
        _count(schema, "Properties", "name"),
    ]
    if is_number(schema.get("multipleOf")):
        parts.append(f"a multiple of {_digits(schema['multipleOf'])}")
    if isinstance(schema.get("pattern"), str):
        unchecked = "" if is_checked(schema["pattern"]) else " (not checked here)"
        parts.append(f"matches {shorten(schema['pattern'])}{unchecked}")
    if schema.get("uniqueItems") is True:
        parts.append("no duplicates")
    return ", ".join(part for part in parts if part)


def _range(schema: Mapping[str, Any]) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is True:  # in draft-04 `minimum` holds the bound
        low, above = None, low
    if below is True:
        high, below = None, high
    if is_number(low) and is_number(high):
        return [f"{_digits(low)} to {_digits(high)}" if low != high else f"exactly {_digits(low)}"]
    words = (("at least", low), ("more than", above), ("at most", high), ("less than", below))
    return [f"{word} {_digits(limit)}" for word, limit in words if is_number(limit)]


def _digits(number: float) -> str:
    """Return a number as a message shows it, shortened if it has many digits."""
    try:
        return shorten(str(number), MAX_SHOWN)
    except ValueError:  # Python writes at most 4,300 digits
        return "a huge number"


def _count(schema: Mapping[str, Any], keyword: str, noun: str) -> str:
    bounds = {"minimum": schema.get(f"min{keyword}") or None, "maximum": schema.get(f"max{keyword}")}
    [text] = _range(bounds) or [""]
    return f"{text} {noun}{'' if text.endswith(' 1') else 's'}" if text else ""


def expected(field: Field) -> str:
    """Return type and constraints, for "expected ..." in messages."""
    limits = field.constraints_text
    return f"{field.type_text}, {limits}" if limits else field.type_text


# The kind and the choices of a plain schema.

Kind = Literal["string", "integer", "number", "boolean", "null", "array", "object", "enum", "const", "union", "any"]


def text_of(value: Any) -> str:
    """Return a keyword's text, or "" if it is absent or not text."""
    return value if isinstance(value, str) else ""


def inferred_kind(schema: Mapping[str, Any]) -> Kind:
    """Return the kind of a schema without a type, from keywords that apply to one type only."""
    if "type" in schema:
        return "any"
    if any(isinstance(schema.get(key), Mapping) for key in ("properties", "additionalProperties", "patternProperties")):
        return "object"
    return "array" if isinstance(schema.get("items"), Mapping | list) or "prefixItems" in schema else "any"


def is_within(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a scalar is within the bounds of a plain schema, and of its format and pattern if it is a text."""
    if isinstance(value, str):
        low, high = schema.get("minLength"), schema.get("maxLength")
        if (is_number(low) and len(value) < low) or (is_number(high) and len(value) > high):
            return False
        return fits_format(value, text_of(schema.get("format"))) and matches(schema.get("pattern"), value) is not False
    if not is_number(value):
        return True
    bounds = ((fits, schema[key]) for key, fits in BOUNDS.items() if is_number(schema.get(key)))
    return all(fits(value, limit) for fits, limit in bounds) and is_multiple(value, schema.get("multipleOf"))


BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}


def choices_of(leaves: list[dict[str, Any]]) -> Iterator[tuple[Any, str]]:
    """Yield the values of `enum` and `const`, each with its label from `enumNames` or the alternative's title."""
    for leaf in leaves:
        values = [leaf["const"]] if "const" in leaf else leaf["enum"]
        names = leaf.get("enumNames", leaf.get("x-enumNames"))
        if "const" in leaf and len(leaves) > 1 and text_of(leaf.get("title")):
            names = [leaf["title"]]
        if not isinstance(names, list) or len(names) != len(values):
            names = [label(value) for value in values]
        yield from zip(values, map(str, names), strict=True)


def says_base64(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema asks for base64: by a keyword, or, most often, only in its title or description."""
    if text_of(schema.get("contentEncoding")).lower().startswith("base64"):
        return True
    if text_of(schema.get("format")) in ("byte", "binary", "base64", "base64url"):
        return True
    media = text_of(schema.get("contentMediaType"))
    if media and not media.startswith("text/") and "json" not in media and "xml" not in media:
        return True
    return re.search(r"(?i)base[\s_-]?64", f"{schema.get('title')} {schema.get('description')}") is not None


# JSON Schema as a tree of fields. The tree is lazy, so a recursive schema costs nothing until code walks it. The walk
# ends at the schema's budget (`schema.patterns.Budget`): fields past it are not listed, or take any value.

_ELSEWHERE = frozenset(("$ref", "if", "then", "else", "dependentSchemas", "dependencies", "propertyNames"))
"""Keywords that may add properties to those in `properties`."""

_NAMES = ("patternProperties", "required", "minProperties")
"""Keywords that show that an object without listed properties does have some."""


@dataclass(frozen=True, eq=False)
class Field:
    """One value that a schema describes: its name ("" for the root), the schema as written, and its document."""

    name: str
    raw: Any = field(repr=False)
    required: bool = False
    resolver: Resolver = field(repr=False, kw_only=True)
    depth: int = field(default=0, repr=False, kw_only=True)

    @functools.cached_property
    def _plain(self) -> Plain:
        return self.resolver.plain(self.raw if self.depth < MAX_DEPTH else True)

    def _inner(self, name: str, raw: Any, required: bool = False) -> Field:
        self.resolver.budget.made += 1
        return Field(name, raw, required, resolver=self.resolver, depth=self.depth + 1)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The effective schema: references followed, `allOf` merged, null removed (see `nullable`)."""
        return self._plain.schema

    @property
    def nullable(self) -> bool:
        """Whether null is allowed."""
        return self._plain.nullable

    @functools.cached_property
    def kind(self) -> Kind:
        """The kind of value; "any" also for a schema that cannot be understood."""
        if leaves := self._plain.alternatives:
            is_enum = all("const" in leaf or isinstance(leaf.get("enum"), list) for leaf in leaves)
            return "enum" if is_enum else "union"
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
    def usable_default(self) -> Any:
        """The default if it fits the field, else MISSING."""
        return self.default if self.default is not MISSING and self.takes(self.default) else MISSING

    @property
    def is_mandatory(self) -> bool:
        """Whether a call must give it: required, and without a default for `prepare_arguments` to fill in."""
        return self.required and self.usable_default is MISSING

    @property
    def format(self) -> str:
        """The format, or ""."""
        return text_of(self.schema.get("format"))

    @property
    def is_base64(self) -> bool:
        """Whether it takes bytes as base64 text."""
        if self.kind in ("string", "any"):
            return says_base64(self.schema)
        return any(variant.is_base64 for variant in self.variants)

    @functools.cached_property
    def choices(self) -> tuple[tuple[Any, str], ...]:
        """The allowed values, each with a label; empty unless `kind` is "enum" or "const"."""
        if self.kind not in ("enum", "const"):
            return ()
        return tuple(choices_of(self._plain.alternatives or [dict(self.schema)]))

    @functools.cached_property
    def variants(self) -> tuple[Field, ...]:
        """The alternatives of a union, none of which is a union itself; empty for other kinds."""
        if self.kind != "union":
            return ()
        leaves = self._plain.alternatives
        count = self.resolver.budget.take(len(leaves))
        return tuple(self._inner(self.name, leaf, self.required) for leaf in leaves[:count])

    @functools.cached_property
    def children(self) -> tuple[Field, ...]:
        """The properties in order, without those past the budget (`unlisted`); of a union, those of its objects."""
        if self.kind == "union":
            return _merged_children(self)
        members = itertools.islice(self._raws.items(), self.resolver.budget.take(len(self._raws)))
        return tuple(self._inner(str(name), raw, name in self.required_names) for name, raw in members)

    @property
    def unlisted(self) -> int:
        """How many properties `children` leaves out, being past the schema's budget."""
        return max(0, len(self._raws) - len(self.children)) if self.kind == "object" else 0

    @functools.cached_property
    def _raws(self) -> Mapping[str, Any]:
        """The schemas of an object's properties by name."""
        properties = self.schema.get("properties")
        return properties if self.kind == "object" and isinstance(properties, Mapping) else {}

    @functools.cached_property
    def required_names(self) -> frozenset[str]:
        """The names that an object must have, also those that the schema does not describe."""
        required = self.schema.get("required")
        names = required if isinstance(required, list) else ()
        return frozenset(name for name in names if isinstance(name, str))

    @functools.cached_property
    def prefix(self) -> tuple[Field, ...]:
        """The fields of an array's first items, if each has its own schema (`prefixItems`; draft-07: `items`)."""
        items = self.schema.get("prefixItems", self.schema.get("items"))
        if self.kind != "array" or not isinstance(items, list):
            return ()
        count = self.resolver.budget.take(len(items))
        return tuple(self._inner(f"{self.name}[{i}]", raw, True) for i, raw in enumerate(items[:count]))

    @functools.cached_property
    def item(self) -> Field | None:
        """The field of an array's items after the prefix, by default as any of it; None if this is no array."""
        if self.kind != "array":
            return None
        rest = self.schema.get("items", True)
        if isinstance(rest, list):
            rest = self.schema.get("additionalItems", True)
        if self.prefix and isinstance(rest, bool):
            rest = {"anyOf": [item.raw for item in self.prefix]}
        return self._inner(f"{self.name}[]", rest if self.resolver.budget.take(1) else True)

    @functools.cached_property
    def additional(self) -> Field | bool:
        """What JSON Schema allows for unlisted properties: a field, True (anything) or False (none)."""
        rest = self.schema.get("additionalProperties", True)
        if isinstance(rest, Mapping) and rest:
            return self._inner("", rest if self.resolver.budget.take(1) else True)
        return rest is not False

    @functools.cached_property
    def is_open(self) -> bool:
        """Whether it takes unlisted names.

        In JSON Schema every object does unless its schema forbids it. But a schema that lists properties and does not
        mention others is nearly always meant to be complete, and a misspelt name should be found. A tool with an empty
        list of arguments takes none, while a nested object with an empty list usually takes any names.
        """
        if self.kind == "union":
            return any(variant.is_open for variant in self.variants if variant.kind in ("object", "any"))
        if self.kind != "object":
            return self.kind == "any"
        unlisted = self.schema.get("additionalProperties")
        if unlisted is False or (unlisted is None and self.schema.get("unevaluatedProperties") is False):
            return bool(self.schema.get("patternProperties"))
        is_complete = bool(self.children)
        if not is_complete and self.raw is self.resolver.root:
            is_complete = "properties" in self.schema and not any(self.schema.get(keyword) for keyword in _NAMES)
        return unlisted is not None or not is_complete or bool(_ELSEWHERE & self.schema.keys())

    def at(self, key: str | int) -> Field | None:
        """Return the field of a property or an item, or None if it is not allowed."""
        if isinstance(key, int):
            arrays = [variant for variant in (self, *self.variants) if variant.kind == "array"]
            if not arrays:
                return self._inner("", True) if self.kind == "any" else None
            return arrays[0].prefix[key] if key < len(arrays[0].prefix) else arrays[0].item
        if (child := self.child(key)) is not None:
            return child
        for variant in self.variants:
            if (child := variant.at(key)) is not None:
                return child
        patterns = self.schema.get("patternProperties")
        for pattern, raw in patterns.items() if isinstance(patterns, Mapping) else ():
            if matches(pattern, key) is not False:  # if the pattern is not checked here, the server decides
                return self._inner(key, raw)
        if isinstance(self.additional, Field):
            return self._inner(key, self.additional.raw)
        return self._inner(key, True) if self.is_open and self.additional else None

    @functools.cached_property
    def _cache(self) -> dict[str, Field]:
        """The fields that `child` has made, by name; of a union all, because they are merged."""
        return {child.name: child for child in self.children} if self.kind == "union" else {}

    def child(self, name: str) -> Field | None:
        """Return the field of a property that the schema lists, or None."""
        field = self._cache.get(name)
        if field is None and name in self._raws:
            field = self._cache[name] = self._inner(name, self._raws[name], name in self.required_names)
        return field

    def takes(self, value: Any) -> bool:
        """Return whether a value fits by its shape and bounds: types, choices, required names, lengths, format.

        Only a validation decides about the other keywords.

        >>> circle = root_field({"properties": {"kind": {"const": "circle"}, "r": {"minimum": 1}}, "required": ["r"]})
        >>> circle.takes({"kind": "circle", "r": 1}), circle.takes({"kind": "box", "r": 1}), circle.takes({})
        (True, False, False)
        """
        return _takes(self, value, 0)

    @functools.cached_property
    def type_text(self) -> str:
        """The expected type in a few words: "integer", "list of string or null", "one of 'a', 'b'"."""
        return type_text(self)

    @property
    def constraints_text(self) -> str:
        """The constraints in words, or ""."""
        return _constraints_text(self.schema)

    def describe(self) -> str:
        """Return a line of help: name, type, constraints, default and description."""
        facts = [expected(self)]
        if not self.required:
            facts.append("optional")
        if self.default is not MISSING:
            facts.append(f"default {literal(self.default)}")
        text = " ".join((self.description or self.title).split())
        head = f"{self.name} ({', '.join(facts)})" if self.name else ", ".join(facts)
        return f"{head}: {text}" if text else head


def _takes(field: Field, value: Any, depth: int) -> bool:
    if value is None:
        return field.nullable or field.kind in ("null", "any")
    if depth > MAX_COMPARED:
        return True
    match field.kind:
        case "union":
            return any(_takes(variant, value, depth + 1) for variant in field.variants)
        case "enum" | "const":
            return any(json_equal(choice, value) for choice, _ in field.choices)
        case "array":
            return isinstance(value, list) and _takes_items(field, enumerate(value), depth)
        case "object":
            if not isinstance(value, dict) or not field.required_names <= value.keys():
                return False
            return _takes_items(field, value.items(), depth)
        case "string" | "boolean" | "integer" | "number":
            return is_type(value, field.kind) and is_within(value, field.schema)
    return field.kind == "any" and is_within(value, field.schema)


def _takes_items(field: Field, items: Iterable[tuple[str | int, Any]], depth: int) -> bool:
    inner = ((field.at(key), value) for key, value in items)
    return all(item is not None and _takes(item, value, depth + 1) for item, value in inner)


def descendants(field: Field, depth: int, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the fields in an object, and in those up to `depth` levels, each with its path, such as `items[].price`."""
    for child in field.children:
        place = f"{path}.{child.name}" if path else child.name
        yield place, child
        if depth > 0:
            yield from descendants(child, depth - 1, place)
            if child.item is not None:
                yield from descendants(child.item, depth - 1, f"{place}[]")


def root_field(schema: Any) -> Field:
    """Return the field of a whole schema, such as a tool's output schema; see `schema.repair`."""
    repaired = repair(schema).schema
    return Field("", repaired, resolver=Resolver(repaired))


def input_root(schema: Any) -> Field:
    """Return the field of an input schema: an object, also where the root has no `type`."""
    repaired = repair(schema).arguments
    return Field("", repaired, resolver=Resolver(repaired))


MAX_KEPT = 64  # schemas whose fields `kept_root` keeps

_roots: dict[int, tuple[Any, Field]] = {}
"""Input schemas with their roots, by the id of the schema."""


def kept_root(schema: Any) -> Field:
    """Return the field of an input schema, the same one for the same object at each call.

    The caller must not change the schema in place. A new root is made after a tenth of the budget is used, so that a
    call never finds fewer fields than the first one did, and the fields kept stay few.
    """
    entry = _roots.get(id(schema))
    if entry is None or entry[0] is not schema or not entry[1].resolver.budget.is_fresh:
        if len(_roots) >= MAX_KEPT:
            _roots.clear()
        entry = _roots[id(schema)] = schema, input_root(schema)
    return entry[1]


def _merged_children(union: Field) -> tuple[Field, ...]:
    objects = [variant for variant in union.variants if variant.kind == "object"]
    groups: dict[str, list[Field]] = {}
    for variant in objects:
        for child in variant.children:
            groups.setdefault(child.name, []).append(child)
    merged = []
    for name, fields in groups.items():
        raws = distinct({id(child.raw): child.raw for child in fields}.values())
        raw = raws[0] if len(raws) == 1 else {"anyOf": raws}
        required = len(fields) == len(objects) and all(child.required for child in fields)
        merged.append(Field(name, raw, required, resolver=union.resolver, depth=union.depth + 1))
    return tuple(merged)
