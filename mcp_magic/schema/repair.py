"""Reads schemas of older drafts and other dialects, and schemas with mistakes, as the JSON Schema that they mean.

Servers send what their frameworks write: `nullable` of OpenAPI, `"type": "INTEGER"` of Gemini, the boolean bounds of
draft-04 and the tuples of draft-07 without a `$schema`, `title: null`. A validator would refuse the whole schema. Here
each such part is read as what it plainly means, and a value that no draft has for its keyword is left out, so that the
rest is still checked. A valid schema stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_magic._text import join_names
from mcp_magic.schema.patterns import MAX_DEPTH, matches
from mcp_magic.schema.resolve import REFERENCES, is_number

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")

MAX_PARTS = 50_000  # schemas of a document that are repaired; the others stay as they are
MAX_KEPT = 512  # documents whose repaired form is kept
MAX_NOTES = 3  # repairs of a schema that a remark names

_ALIASES = {"int": "integer", "float": "number", "double": "number", "str": "string", "bool": "boolean"}
"""Types of programming languages, which schemas written by hand have."""

TUPLES = "https://json-schema.org/draft/2019-09/schema"
"""The newest draft in which `items` may be a list. A schema with such a list and no draft is read by it."""

DRAFT_4 = "http://json-schema.org/draft-04/schema"
"""The draft by which a schema of draft-03 is read, once it lists the properties that it requires."""

SCHEMA_TABLES = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "schemas")
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLE_SCHEMAS = (
    *("items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema", "components"),
)
"""Keywords that hold schemas: by name, in a list, alone. OpenAPI keeps definitions in `components`, `schemas`."""

_OLD_NAMES = {"divisibleBy": "multipleOf"}  # keywords of draft-03 that only have another name since

_LEFT_OUT: Any = object()

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Repaired:
    """A schema as it is meant.

    Attributes:
        source: The schema as the server sent it.
        schema: The repaired schema; the same object if nothing had to be repaired.
        arguments: The same as an input schema, whose root is an object also without a `type`.
        notes: What was repaired, in words.
    """

    source: Any
    schema: Any
    arguments: Any
    notes: tuple[str, ...]


NULLABLE = ("nullable", "x-nullable")  # of OpenAPI 3.0, and before it

_cache: dict[int, Repaired] = {}
"""Repaired schemas by the id of their source, which each holds, so that no other object gets that id."""


def repair(schema: Any) -> Repaired:
    """Return the meaning of a schema. Never raises; the caller must not change the schema in place."""
    entry = _cache.get(id(schema))
    if entry is None or entry.source is not schema:
        while len(_cache) >= MAX_KEPT:
            _cache.pop(next(iter(_cache)), None)
        entry = _cache[id(schema)] = _repaired(schema)
    return entry


def repairs_text(schema: Any) -> str:
    """Return what was repaired in a schema, in words; "" if nothing was."""
    notes = list(dict.fromkeys(repair(schema).notes))
    more = f"; and {len(notes) - MAX_NOTES} more" if len(notes) > MAX_NOTES else ""
    return "; ".join(notes[:MAX_NOTES]) + more


def _repaired(source: Any) -> Repaired:
    if not isinstance(source, Mapping):
        return Repaired(source, source, source, ())
    draft = str(source.get("$schema") or "")
    walk = _Walk(has_flags="draft-04" in draft)
    schema = walk.schema(source, "", 0)
    if "draft-03" in draft:
        schema = {**schema, "$schema": DRAFT_4}
    if walk.tuples and not walk.prefixes and not any(name in draft for name in ("draft-0", "2019-09")):
        walk.note(walk.tuples, "a list in `items` is read as a tuple")
        schema = {**schema, "$schema": TUPLES}
    arguments = schema
    if "type" not in schema:
        arguments = walk.with_required({**schema, "type": "object"}, "", quiet=True)
    return Repaired(source, schema, arguments, tuple(walk.notes))


@dataclass
class _Walk:
    """One walk through a document; `has_flags` says whether the bounds of its draft are booleans."""

    has_flags: bool
    parts: int = 0
    prefixes: bool = False
    tuples: str = ""  # the place of the first list in `items`
    notes: list[str] = field(default_factory=list)

    def note(self, where: str, text: str) -> None:
        if len(self.notes) < MAX_PARTS:
            self.notes.append(f"{where}: {text}" if where else text)

    def schema(self, schema: Any, where: str, depth: int, *, is_branch: bool = False) -> Any:
        """Return a repaired schema, the same object if nothing had to be repaired.

        A branch may require names that another part of the schema describes.
        """
        self.parts += 1
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or self.parts > MAX_PARTS or _is_plain(schema):
            return schema
        members: dict[str, Any] = {}
        for name, value in schema.items():
            key = str(_OLD_NAMES.get(name, name))
            repaired = self._value(key, value, where, depth)
            if repaired is not _LEFT_OUT and (key == name or key not in schema):
                members[key] = repaired
        same = members.keys() == schema.keys() and all(members[key] is schema[key] for key in members)
        result: Any = schema if same else members
        result = self._with_bounds(result, where)
        result = self._with_flagged(result, schema, where)
        result = self.with_required(result, where, quiet=is_branch)
        is_nullable = any(schema.get(key) is True or schema.get(key) in ("true", "True") for key in NULLABLE)
        return self._with_null(result, where) if is_nullable else result

    def _value(self, key: str, value: Any, where: str, depth: int) -> Any:
        if key in SCHEMA_TABLES:
            return self._by_name(key, value, where, depth)
        if key == "items" and isinstance(value, list):
            self.tuples = self.tuples or where or "the root"
            return self._list(value, where, depth)
        if key in SCHEMA_LISTS:
            self.prefixes = self.prefixes or key == "prefixItems"
            return self._list(value, where, depth) if isinstance(value, list) and value else self._drop(key, where)
        if key in SINGLE_SCHEMAS:
            if isinstance(value, bool):
                return value
            if not isinstance(value, Mapping):
                return self._drop(key, where)
            return self.schema(value, where, depth + 1, is_branch=key in ("not", "if", "then", "else"))
        if key == "type":
            return self._type(value, where)
        if key in _BOUNDS and self.has_flags and isinstance(value, bool):
            return value
        check = _VALUES.get(key)
        if check is None:
            return value
        valid = check(value)
        return self._drop(key, where, value) if valid is _LEFT_OUT else valid

    def _drop(self, key: str, where: str, value: Any = _LEFT_OUT) -> Any:
        # `required: true` and a boolean bound are read elsewhere; a null says nothing
        if value is not None and not isinstance(value, bool):
            self.note(where, f"its {key} is not valid and is left out")
        return _LEFT_OUT

    def _by_name(self, key: str, value: Any, where: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            return self._drop(key, where)
        inside = key in ("properties", "patternProperties")
        members = {}
        for name, inner in value.items():
            place = (f"{where}.{name}" if where else str(name)) if inside else where or str(name)
            members[name] = self.schema(inner, place, depth + 1) if isinstance(inner, bool | Mapping) else True
        return value if all(members[name] is value[name] for name in value) else members

    def _list(self, value: list[Any], where: str, depth: int) -> Any:
        parts = (item for item in value if isinstance(item, bool | Mapping))
        items = [self.schema(item, where, depth + 1, is_branch=True) for item in parts]
        if not items:
            return _LEFT_OUT
        return value if len(items) == len(value) and all(map(lambda a, b: a is b, items, value)) else items

    def _type(self, value: Any, where: str) -> Any:
        names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        read = list(dict.fromkeys(_type_name(name) for name in names))
        if not read or None in read:
            if names:
                self.note(where, f"the type {join_names(repr(str(name)[:30]) for name in names)} is unknown: any value")
            return _LEFT_OUT
        if read == names:
            return value
        self.note(where, f"the type {join_names(map(repr, names))} is read as {join_names(map(repr, read))}")
        return read[0] if isinstance(value, str) else read

    def _with_bounds(self, schema: Schema, where: str) -> Schema:
        """Return a schema in which the boolean bounds of draft-04 are numbers, unless it is of that draft."""
        flagged = [key for key in _BOUNDS if isinstance(schema.get(key), bool)]
        if self.has_flags or not flagged:
            return schema
        result = dict(schema)
        for key in flagged:
            is_exclusive, limit = result.pop(key), _BOUNDS[key]
            if is_exclusive and limit in result:
                result[key] = result.pop(limit)
                self.note(where, f"its {key} is a boolean, as in draft-04")
        return result

    def _with_flagged(self, schema: Schema, source: Schema, where: str) -> Schema:
        """Return a schema that requires the properties that say `"required": true` of themselves, as in draft-03."""
        properties = source.get("properties")
        if not isinstance(properties, Mapping):
            return schema
        stated = schema.get("required", [])
        flagged = [
            str(name)
            for name, inner in properties.items()
            if isinstance(inner, Mapping) and inner.get("required") is True and name not in stated
        ]
        if not flagged:
            return schema
        self.note(where, f"{join_names(map(repr, flagged))} says of itself that it is required")
        return {**schema, "required": [*stated, *flagged]}

    def with_required(self, schema: Schema, where: str, *, quiet: bool = False) -> Schema:
        """Return a schema that lists all properties that it requires, those that it lists nowhere as any value."""
        properties, rest = schema.get("properties"), schema.get("additionalProperties")
        is_listing = isinstance(properties, Mapping) and bool(properties)
        if isinstance(rest, Mapping) or not (is_listing or schema.get("type") == "object"):
            return schema
        parts = list(_in_place(schema))
        names = dict.fromkeys(name for part in parts for name in _required(part))
        if not names:
            return schema
        defined = [part["properties"] for part in parts if isinstance(part.get("properties"), Mapping)]
        refers = any(key in part for part in parts for key in REFERENCES)
        patterns = [pattern for part in parts for pattern in part.get("patternProperties", ())]
        lacking = [
            name
            for name in names
            if not any(name in group for group in defined) and not any(matches(p, name) is not False for p in patterns)
        ]
        if not lacking or (not is_listing and (refers or defined)):
            return schema
        if is_listing and not (quiet or refers):
            self.note(where, f"{join_names(map(repr, lacking))} is required and not described: any value")
        result = {**schema, "properties": {**(properties or {}), **dict.fromkeys(lacking, True)}}
        if not is_listing and "additionalProperties" not in schema and "unevaluatedProperties" not in schema:
            result["additionalProperties"] = True  # it listed none, and so took any
        return result

    def _with_null(self, schema: Schema, where: str) -> Schema:
        """Return a schema that takes null too (OpenAPI 3.0, "nullable")."""
        self.note(where, "`nullable` of OpenAPI is read as `null` among its types")
        if any(key in schema for key in (*REFERENCES, "allOf", "not", "if", "const")):
            notes = {key: schema[key] for key in ("title", "description", "default") if key in schema}
            rest = {key: value for key, value in schema.items() if key not in notes and key not in NULLABLE}
            return {**notes, "anyOf": [rest, {"type": "null"}]}
        result = dict(schema)
        if "type" in result:
            stated = [result["type"]] if isinstance(result["type"], str) else result["type"]
            result["type"] = [*stated, *(["null"] if "null" not in stated else [])]
        if "enum" in result and None not in result["enum"]:
            result["enum"] = [*result["enum"], None]
        for key in ("anyOf", "oneOf"):
            types = [option.get("type") for option in result.get(key, ()) if isinstance(option, Mapping)]
            if key in result and not any("null" in (kind if isinstance(kind, list) else [kind]) for kind in types):
                result[key] = [*result[key], {"type": "null"}]
        return result


_PLAIN_KEYS = frozenset(("type", "title", "description", "default"))


def _is_plain(schema: Schema) -> bool:
    """Return whether a schema is only a type with its description, as most are."""
    if schema.get("type") not in TYPES or not _PLAIN_KEYS.issuperset(schema):
        return False
    return type(schema.get("title", "")) is str and type(schema.get("description", "")) is str


def _type_name(name: Any) -> str | None:
    if not isinstance(name, str):
        return None
    lower = name.lower()
    return lower if lower in TYPES else _ALIASES.get(lower)


def _in_place(schema: Any, depth: int = 0) -> Iterator[Schema]:
    """Yield a schema and the schemas in it that are about the same value."""
    if isinstance(schema, Mapping) and depth <= 4:
        yield schema
        for key in ("allOf", "anyOf", "oneOf"):
            for part in schema[key] if isinstance(schema.get(key), list) else ():
                yield from _in_place(part, depth + 1)
        for key in ("then", "else"):
            yield from _in_place(schema.get(key), depth + 1)


def _required(schema: Schema) -> Iterator[str]:
    lists = [schema.get("required")]
    for key in ("dependentRequired", "dependencies"):
        if isinstance(schema.get(key), Mapping):
            lists += schema[key].values()
    for names in lists:
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


# The values that a keyword may have. Each function returns the value, in its own form if it is plain, or `_LEFT_OUT`.


def _a(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else _LEFT_OUT


def _number(value: Any) -> Any:
    """Return a number; Gemini writes its integers of 64 bits as text."""
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    return value if is_number(value) else _LEFT_OUT


def _count(value: Any) -> Any:
    number = _number(value)
    if number is _LEFT_OUT or number < 0 or number != int(number):
        return _LEFT_OUT
    return int(number)  # draft-04 has no 2.0


def _names(value: Any) -> Any:
    if not isinstance(value, list):
        return _LEFT_OUT
    names = list(dict.fromkeys(name for name in value if isinstance(name, str)))
    return value if len(names) == len(value) else names


def _needs(kinds: tuple[type, ...]) -> Callable[[Any], Any]:
    """Return what reads names by name; draft-03 has one name without a list. A dependency may be a schema, too."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return _LEFT_OUT
        needs = {}
        for name, need in value.items():
            if isinstance(need, list | str):
                needs[name] = _names([need] if isinstance(need, str) else need)
            elif isinstance(need, kinds):
                needs[name] = need
        return value if needs.keys() == value.keys() and all(needs[name] is value[name] for name in needs) else needs

    return read


_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

_VALUES: dict[str, Callable[[Any], Any]] = {
    "required": _names,
    "enum": lambda value: value if isinstance(value, list) and value else _LEFT_OUT,
    "examples": lambda value: value if isinstance(value, list) else _LEFT_OUT,
    "multipleOf": lambda value: value if is_number(value) and value > 0 else _LEFT_OUT,
    **dict.fromkeys(("title", "description", "$comment", "format", "pattern", *REFERENCES), _a(str)),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$anchor", "$dynamicAnchor", "$id"), _a(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _a(bool)),
    **dict.fromkeys(("minimum", "maximum"), _number),
    **dict.fromkeys(tuple(_BOUNDS), lambda value: value if isinstance(value, bool) else _number(value)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _count),
    **dict.fromkeys(("minProperties", "maxProperties"), _count),
    "dependentRequired": _needs(()),
    "dependencies": _needs((bool, Mapping)),
}
