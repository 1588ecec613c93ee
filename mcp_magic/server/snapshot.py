"""Snapshots of a server's interface, and the changes between two of them, by their effect.

A change is `breaking` if working calls can fail, `behaviour` if consent, display or what a call does changes (hints,
titles, defaults, how long a listing may be kept), and `routing` if a model reads something else (names, descriptions,
examples, what it may pass in addition).

A snapshot is JSON, to keep beside a notebook and compare later. It holds the definitions of tools, prompts, resources
and templates by name, sorted: two snapshots of an unchanged server are equal as text.

An input schema concerns callers that send arguments, an output schema callers that read results. A stricter input
schema can break callers and a stricter output schema makes them safer, so each comparison of schemas knows its side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_magic._text import join_names, json_text
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes
from mcp_magic.display.diff import Pair, pairs_part
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.loops import together
from mcp_magic.schema.fields import MISSING, Field
from mcp_magic.schema.patterns import MAX_DEPTH, measure
from mcp_magic.schema.resolve import Resolver, is_number, json_equal, json_key, object_of
from mcp_magic.session.catalog import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from mcp_magic.display.document import Part
    from mcp_magic.session.connection import Connection

FORMAT = 1  # the version of the snapshot format, stored in the member "mcp_magic"
DEEPEST = 220  # levels of a snapshot that are read; a server's message has at most 200

Effect = Literal["breaking", "behaviour", "routing"]
EFFECTS: tuple[Effect, ...] = ("breaking", "behaviour", "routing")

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class Change:
    """One difference between two interfaces; of a changed text it has both versions."""

    kind: str  # tool, prompt, resource, template or server
    name: str
    where: str
    text: str
    effect: Effect = "routing"
    before: str | None = None
    now: str | None = None

    @property
    def breaking(self) -> bool:
        """Whether working calls can fail."""
        return self.effect == "breaking"

    @property
    def is_alarming(self) -> bool:
        """Whether a tool that was said to be read-only no longer is."""
        return self.where == "readOnlyHint" and self.text.endswith("instead of true")

    def __str__(self) -> str:
        mark = "breaking: " if self.breaking else ""
        return f"{mark}{self.kind} {self.name}: {' '.join(part for part in (self.where, self.text) if part)}"


class Changes(Listing):
    """The changes from one interface to another, as a table, with changed texts side by side below it.

    `.df` has a row for each change, with the whole texts as `before` and `now`.
    """

    @property
    def df(self) -> pd.DataFrame:
        """All changes as a DataFrame, with the texts before and now."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=[*self.columns, "before", "now"])

    def of(self, *effects: str) -> Changes:
        """Return the changes of some effects: `"breaking"`, `"behaviour"`, `"routing"`.

        Raises:
            ArgumentsError: There is no such effect.
        """
        if strange := [effect for effect in effects if effect not in EFFECTS]:
            raise ArgumentsError(f"no change has the effect {strange[0]!r}; it is one of {join_names(EFFECTS)}")
        rows = [row for row in self.rows if row["effect"] in effects]
        return Changes(rows, title=self.title, columns=self.columns, empty=self.empty, note=self.note, kind=self.kind)

    def summary(self, since: str) -> str:
        """Return the numbers of changes and the first of them: `"1 breaking change since a.json: tool b: is gone"`."""
        counts = [(effect, len(self.of(effect))) for effect in EFFECTS]
        numbers = [f"{count} {effect}" for effect, count in counts if count]
        numbers[-1:] = [f"{number} {'change' if number.startswith('1 ') else 'changes'}" for number in numbers[-1:]]
        first = "; ".join(
            " ".join(filter(None, (f"{row['kind']} {row['name']}:", row["where"], row["change"])))
            for row in self.rows[:3]
        )
        more = f" and {len(self) - 3} more" if len(self) > 3 else ""
        return f"{' and '.join(numbers) or 'no changes'} {since}: {first}{more}"

    def parts(self) -> list[Part]:
        """Return the parts to display: the table, and the texts."""
        pairs = [
            Pair(f"{row['kind']} {row['name']} {row['where']}", row["before"], row["now"])
            for row in self.rows
            if row["before"] and row["now"]
        ]
        return [*super().parts(), *([pairs_part(pairs)] if pairs else [])]


def listed_changes(changes: Iterable[Change], title: str = "", note: str = "") -> Changes:
    """Return changes as a listing."""
    rows = [
        {
            "effect": change.effect,
            "kind": change.kind,
            "name": change.name,
            "where": change.where,
            "change": change.text,
            "before": change.before,
            "now": change.now,
        }
        for change in changes
    ]
    columns, empty = ("effect", "kind", "name", "where", "change"), "nothing has changed"
    return Changes(rows, title=title, columns=columns, empty=empty, note=note, kind="changes")


async def offers_of(connection: Connection) -> dict[str, tuple[Any, ...]]:
    """Return all that a server lists, by kind."""
    return dict(zip(KINDS, await together(connection.listing(kind) for kind in KINDS), strict=True))


async def interface_of(connection: Connection) -> dict[str, Any]:
    """Return the snapshot of a connected server."""
    info = connection.server_info
    interface: dict[str, Any] = {
        "mcp_magic": FORMAT,
        "server": {"name": info.name, "version": info.version} if info else {},
        "instructions": connection.instructions or "",
    }
    for kind, items in (await offers_of(connection)).items():
        key = KINDS[kind].key
        plain = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
        interface[kind] = {item.pop(key): item for item in sorted(plain, key=lambda item: str(item[key]))}
    interface["ttlMs"] = connection.catalog.ttls
    return interface


def snapshot_text(interface: Mapping[str, Any]) -> str:
    """Return a snapshot as text for a file, indented and sorted so that version control shows small differences."""
    return json_text(interface, indent=2, sort_keys=True) + "\n"


def read_snapshot(path: Path, server: str = "SERVER") -> dict[str, Any]:
    """Read a snapshot of a server; raise a ConfigError if the file is none that this version reads."""
    name = path.name if path.suffix == ".json" else f"{server}.mcp.json"  # nobody shall overwrite a program
    advice = f"`%mcp snapshot {server} -o {name}` writes one"
    try:
        data: Any = json.loads(read_bytes(path, LARGEST_DATA))
    except OSError as error:
        problem = f"{path}: {error.strerror}; {advice}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not JSON ({error}); {advice}"
    else:
        version = data.get("mcp_magic") if isinstance(data, dict) else None
        if measure(data)[1] > DEEPEST:
            raise ConfigError(f"{path} is nested deeper than {DEEPEST} levels; {advice}")
        if version == FORMAT and all(_is_table(data.get(kind)) for kind in KINDS):
            return dict(data)
        newer = isinstance(version, int) and version > FORMAT
        problem = f"{path} is of a newer mcp_magic" if newer else f"{path} is not a snapshot of a server; {advice}"
    raise ConfigError(problem)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(definition, dict) for definition in value.values())


def interface_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes from one interface to another: a hint that is no longer read-only, then by their effect."""
    changes = list(_server_changes(old, new))
    for kind in KINDS:
        singular, before, now = kind.removesuffix("s"), old[kind], new[kind]
        changes += [Change(singular, name, "", "is gone", "breaking") for name in before if name not in now]
        for name, definition in now.items():
            if name not in before:
                changes.append(Change(singular, name, "", "is new"))
            elif not json_equal(before[name], definition):
                differences = [*_COMPARE[kind](before[name], definition), *_member_changes(before[name], definition)]
                changes += [Change(singular, name, *difference) for difference in differences]
    return sorted(changes, key=lambda change: (not change.is_alarming, EFFECTS.index(change.effect)))


class Difference(NamedTuple):
    """One difference at a member or a path (`filter.tags[]`); of a changed text it has both versions."""

    where: str
    text: str
    effect: Effect = "routing"
    before: str | None = None
    now: str | None = None


def _effect(is_breaking: bool) -> Effect:
    return "breaking" if is_breaking else "routing"


def _text_change(where: str, before: Any, now: Any, effect: Effect = "routing") -> Iterator[Difference]:
    """Yield the change of a text, which may be missing on one side."""
    if before != now:
        text = "changed" if before and now else "added" if now else "removed"
        yield Difference(where, text, effect, str(before or ""), str(now or ""))


def _value_change(where: str, before: Any, now: Any, effect: Effect = "behaviour") -> Iterator[Difference]:
    if not json_equal(before, now):
        yield Difference(where, f"is {_value_text(now)} instead of {_value_text(before)}", effect)


def _array(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _value_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "not said" if value is None else one_line(text, 80)


def _server_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, now = object_of(old.get("server")), object_of(new.get("server"))
    differences = [
        *_value_change("version", before.get("version"), now.get("version")),
        *_text_change("instructions", old.get("instructions") or "", new.get("instructions") or ""),
    ]
    ttls, now_ttls = old.get("ttlMs"), new.get("ttlMs")
    if isinstance(ttls, dict) and isinstance(now_ttls, dict):  # a snapshot of an earlier version has none
        for kind in KINDS:
            if old[kind] and new[kind]:
                differences += _value_change(f"{kind} ttlMs", ttls.get(kind), now_ttls.get(kind))
    for difference in differences:
        yield Change("server", now.get("name", ""), *difference)


_VOLATILE = ("title", "lastModified")  # annotations that are compared elsewhere, or change with the content


def _member_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the changes of members that several kinds of definitions have."""
    yield from _text_change("name", old.get("name"), new.get("name"))
    yield from _text_change("title", old.get("title"), new.get("title"), "behaviour")
    yield from _text_change("description", old.get("description"), new.get("description"))
    before, now = object_of(old.get("annotations")), object_of(new.get("annotations"))
    yield from _text_change("annotations.title", before.get("title"), now.get("title"), "behaviour")
    for name in dict.fromkeys((*_HINTS, *before, *now)):
        if name not in _VOLATILE:
            yield from _value_change(name, before.get(name), now.get(name))
    support = (object_of(definition.get("execution")).get("taskSupport", "forbidden") for definition in (old, new))
    yield from _value_change("taskSupport", *support)
    for name in ("icons", "_meta"):
        if not json_equal(old.get(name), new.get(name)):
            yield Difference(name, "changed", "behaviour")


def _tool_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    yield from schema_changes(old.get("inputSchema"), new.get("inputSchema"), "input")
    before, now = old.get("outputSchema"), new.get("outputSchema")
    if (before is None) != (now is None):
        text = "no longer has a schema" if now is None else "has a schema now"
        yield Difference("result", text, "breaking" if now is None else "behaviour")
    elif before is not None:
        for change in schema_changes(before, now, "output"):
            effect = change.effect if change.effect == "breaking" or change.before is not None else "behaviour"
            where = f"result.{change.where}".rstrip(".")
            yield Difference(where, change.text, effect, change.before, change.now)


def _prompt_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    before, now = (
        {str(argument.get("name")): argument for argument in map(object_of, arguments)}
        for arguments in (_array(old.get("arguments")), _array(new.get("arguments")))
    )
    for name in [argument for argument in before if argument not in now]:
        yield Difference(name, "is gone", "breaking")
    for argument, definition in now.items():
        is_required = bool(definition.get("required"))
        effect = _effect(is_required)
        if argument not in before:
            yield Difference(argument, f"is new and {'required' if is_required else 'optional'}", effect)
            continue
        if is_required != bool(before[argument].get("required")):
            yield Difference(argument, f"is {'required' if is_required else 'optional'} now", effect)
        for word in ("title", "description"):
            yield from _text_change(f"{argument} {word}", before[argument].get(word), definition.get(word))


def _resource_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    before = old.get("mimeType")
    yield from _value_change("type", before, new.get("mimeType"), "behaviour" if before is None else "breaking")


_COMPARE = {
    "tools": _tool_changes,
    "resources": _resource_changes,
    "templates": _resource_changes,
    "prompts": _prompt_changes,
}
"""Kind -> the function that compares two definitions."""


# The changes between two versions of a schema.

Side = Literal["input", "output"]

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_RULES = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "patternProperties"),
    *("propertyNames", "contains", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems"),
    *("additionalItems", "disallow", "extends", "divisibleBy"),
)
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_INNER = (
    *("items", "prefixItems", "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains"),
    *("propertyNames", "unevaluatedProperties", "unevaluatedItems", "anyOf", "oneOf", "allOf", "extends", "disallow"),
)
_SCALAR = (
    *("type", "required", "enum", "const", "$ref", "$dynamicRef", "dependentRequired"),
    *("minContains", "maxContains", "divisibleBy"),
)
_EXACT = ("pattern", "format", "multipleOf", "uniqueItems", "contentEncoding")


def schema_changes(old: Any, new: Any, side: Side = "input") -> list[Difference]:
    """Return the changes from one schema to another: the "input" of a tool, or the "output"."""
    try:
        if json_equal(old, new):
            return []
        # as the server wrote them: a repaired schema would hide what it mended
        before, after = (Field("", schema, resolver=Resolver(schema)) for schema in (old, new))
        comparison = _Comparison(side)
        differences = list(comparison.value(before, after, ""))
        is_cut = comparison.is_cut or before.resolver.budget.is_spent or after.resolver.budget.is_spent
        if is_cut and not json_equal(_rules(old), _rules(new)):
            differences.append(Difference("", "is too large to be compared to its end, and has changed", "breaking"))
    except RecursionError:
        return [Difference("", "is nested too deeply to be compared, and has changed", "breaking")]
    return differences


class _Comparison:
    """Walks two schemas side by side, as deep as fields go. Compares each pair of recursive definitions once."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.is_cut = False
        self._seen: dict[tuple[object, object], tuple[Any, Any]] = {}  # holds the schemas: no other gets their id

    def value(self, old: Field, new: Field, path: str) -> Iterator[Difference]:
        """Yield the changes of one value and the values inside it."""
        texts = repr(old.raw), repr(new.raw)
        refers = "$ref" in texts[0] + texts[1]
        if not refers and json_equal(old.raw, new.raw):
            return
        pair = texts if refers else (id(old.raw), id(new.raw))
        if pair in self._seen:
            return
        self._seen[pair] = old.raw, new.raw
        if old.depth >= MAX_DEPTH:
            self.is_cut = True
            return
        if (old.raw is False) != (new.raw is False):
            text = "takes any value now" if old.raw is False else "takes no value any more"
            yield Difference(path, text, _effect((new.raw is False) == (self.side == "input")))
            return
        if (types := _types(old, new, path, self.side)) is not None:
            yield types
            return
        yield from _choices(old, new, path, self.side)
        yield from _limits(old.schema, new.schema, path, self.side)
        yield from _texts(old, new, path)
        yield from _other_rules(old.schema, new.schema, path, self.side)
        yield from self._variants(old, new, path)
        yield from self._children(old, new, path)
        if old.item is not None and new.item is not None:
            yield from self.value(old.item, new.item, f"{path}[]")

    def _variants(self, old: Field, new: Field, path: str) -> Iterator[Difference]:
        """Yield the changes of alternatives of a union, except objects: their fields are compared together."""
        for kind in dict.fromkeys(variant.kind for variant in old.variants if variant.kind != "object"):
            before, now = ([variant for variant in field.variants if variant.kind == kind] for field in (old, new))
            if len(before) == len(now) == 1:
                yield from self.value(before[0], now[0], path)
            elif not json_equal([_rules(field.raw) for field in before], [_rules(field.raw) for field in now]):
                yield Difference(path, f"the alternatives of kind {kind} changed", "breaking")

    def _children(self, old: Field, new: Field, path: str) -> Iterator[Difference]:
        before = {child.name: child for child in old.children}
        now = {child.name: child for child in new.children}
        for name in [name for name in before if name not in now]:
            former = before[name]
            is_breaking = self.side == "input" or former.required or not new.is_open
            yield Difference(_at(path, name), "is gone", _effect(is_breaking))
        for name, child in now.items():
            yield from self._child(before.get(name), child, _at(path, name))
        yield from _others(old, new, path, self.side)
        others = [field.schema.get("additionalProperties", True) for field in (old, new)]
        if any(isinstance(other, dict) for other in others) and False not in others:
            before_other = Field("*", others[0], resolver=old.resolver, depth=old.depth + 1)
            other = Field("*", others[1], resolver=new.resolver, depth=new.depth + 1)
            yield from self.value(before_other, other, _at(path, "*"))

    def _child(self, old: Field | None, new: Field, path: str) -> Iterator[Difference]:
        if old is None:
            status = "required" if _is_required(new) else "optional"
            effect = _effect(self.side == "input" and _is_required(new))
            yield Difference(path, f"is new and {status} ({new.type_text})", effect)
            return
        was_required, is_required = map(_is_required, (old, new))
        if is_required != was_required:
            text = "is required now" if is_required else "is optional now"
            yield Difference(path, text, _effect(is_required == (self.side == "input")))
        yield from self.value(old, new, path)


def _is_required(field: Field) -> bool:
    """Whether a field is required, as draft-03 said it, too: there the field itself says so."""
    return field.required or object_of(field.raw).get("required") is True


def _others(old: Field, new: Field, path: str, side: Side) -> Iterator[Difference]:
    """Yield the changes for fields that no schema lists: which of them are required, and whether any are taken."""
    before, now = (field.required_names for field in (old, new))
    described = {child.name for child in (*old.children, *new.children)}
    for name in sorted((before ^ now) - described):
        text = "is required now" if name in now else "is optional now"
        yield Difference(_at(path, name), text, _effect((name in now) == (side == "input")))
    closed, closes = (field.schema.get("additionalProperties") is False for field in (old, new))
    if closed != closes:
        text = "no longer takes other fields" if closes else "takes other fields now"
        yield Difference(path, text, _effect(closes and side == "input"))


def _types(old: Field, new: Field, path: str, side: Side) -> Difference | None:
    before, now = _kinds(old), _kinds(new)
    if before == now:
        return None
    text = f"takes {new.type_text} instead of {old.type_text}"
    if side == "output":
        text = f"is {new.type_text} instead of {old.type_text}"
    had, has = (before, now) if side == "input" else (now, before)
    return Difference(path, text, _effect(not ("any" in has or _within(had, has))))


def _within(inner: frozenset[str], outer: frozenset[str]) -> bool:
    """Return whether every inner kind is among the outer kinds; an integer is also a number."""
    return all(kind in outer or (kind == "integer" and "number" in outer) for kind in inner)


def _kinds(field: Field) -> frozenset[str]:
    variants = field.variants or (field,)
    kinds = {kind for variant in variants for kind in _kinds_of(variant)}
    return frozenset(kinds | ({"null"} if field.nullable else set()))


def _kinds_of(field: Field) -> set[str]:
    if field.kind not in ("enum", "const"):
        return {field.kind}
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {names.get(type(value), "any") for value, _ in field.choices}


def _choices(old: Field, new: Field, path: str, side: Side) -> Iterator[Difference]:
    before, now = [value for value, _ in old.choices], [value for value, _ in new.choices]
    if not before and not now:
        return
    if not before or not now:
        narrower = bool(now)
        text = f"takes only {new.type_text} now" if narrower else f"takes any {new.type_text} now"
        yield Difference(path, text, _effect(narrower == (side == "input")))
        return
    had, has = set(map(json_key, before)), set(map(json_key, now))
    for removed in (value for value in before if json_key(value) not in has):
        yield Difference(path, f"{removed!r} is no longer a choice", _effect(side == "input"))
    for added in (value for value in now if json_key(value) not in had):
        yield Difference(path, f"{added!r} is a choice now", _effect(side == "output"))


def _limits(old: Mapping[str, Any], new: Mapping[str, Any], path: str, side: Side) -> Iterator[Difference]:
    old, new = map(_with_exclusive_bounds, (old, new))
    for keywords, sign in ((_LOWER, 1), (_UPPER, -1)):
        for keyword in keywords:
            before, now = old.get(keyword), new.get(keyword)
            if json_equal(before, now):
                continue
            stricter = is_number(now) and (not is_number(before) or (now - before) * sign > 0)
            yield Difference(path, _change_text(keyword, before, now), _effect(stricter == (side == "input")))
    for keyword in _EXACT:
        before, now = old.get(keyword), new.get(keyword)
        if not json_equal(before, now):
            is_looser = now is None if side == "input" else before is None
            yield Difference(path, _change_text(keyword, before, now), _effect(not is_looser))


def _with_exclusive_bounds(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema whose exclusive bounds are numbers: in draft-04, true makes the other bound exclusive."""
    bounds = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
    for exclusive, bound in bounds.items():
        if isinstance(schema.get(exclusive), bool):
            others = {name: value for name, value in schema.items() if name not in (exclusive, bound)}
            schema = {**others, (exclusive if schema[exclusive] else bound): schema.get(bound)}
    return schema


def _other_rules(old: Mapping[str, Any], new: Mapping[str, Any], path: str, side: Side) -> Iterator[Difference]:
    """Yield the changes of keywords whose effect depends on the value: a new one allows less, a changed one may."""
    is_closed = old.get("additionalProperties") is False and new.get("additionalProperties") is False
    for keyword in _RULES:
        before, now = (_rules({keyword: schema[keyword]}) if keyword in schema else None for schema in (old, new))
        if json_equal(before, now):
            continue
        if before is not None and now is not None:
            yield Difference(path, f"{keyword} changed", "breaking")
            continue
        allows_less = (now is not None) != (is_closed and keyword == "patternProperties")
        text = f"has {keyword} now" if before is None else f"no longer has {keyword}"
        yield Difference(path, text, _effect(allows_less == (side == "input")))


def _rules(schema: Any) -> Any:
    """Return what a schema demands of a value, without what only describes it."""
    if isinstance(schema, list):
        return [_rules(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    rules: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            rules[keyword] = {name: _rules(inner) for name, inner in value.items()}
        elif keyword in _INNER:
            rules[keyword] = _rules(value)
        elif keyword in ("required", "enum", "type") and isinstance(value, list):
            rules[keyword] = sorted(value, key=repr)
        elif keyword in (*_SCALAR, *_LOWER, *_UPPER, *_EXACT):
            rules[keyword] = value
    return rules


def _change_text(keyword: str, before: Any, now: Any) -> str:
    if before is None:
        return f"has {keyword} {now!r} now"
    return f"no longer has {keyword}" if now is None else f"{keyword} is {now!r} instead of {before!r}"


def _texts(old: Field, new: Field, path: str) -> Iterator[Difference]:
    if old.default is not MISSING or new.default is not MISSING:
        if old.default is MISSING:
            yield Difference(path, f"the default is {new.default!r} now", "behaviour")
        elif new.default is MISSING:
            yield Difference(path, "no longer has a default", "behaviour")
        elif not json_equal(old.default, new.default):
            text = f"the default is {new.default!r} instead of {old.default!r}"
            yield Difference(path, text, "behaviour")
    texts = [("description", old.description, new.description)]
    if path:  # the title of the whole is made from the name of a function
        texts.insert(0, ("title", old.title, new.title))
    examples, present = old.schema.get("examples"), new.schema.get("examples")
    if not json_equal(examples, present):
        before, now = ("" if value is None else json.dumps(value) for value in (examples, present))
        texts.append(("examples", before, now))
    labels = {json_key(value): text for value, text in old.choices}
    for value, text in new.choices:
        texts.append((f"title of {value!r}", labels.get(json_key(value), text), text))
    for where, before, now in texts:
        for change in _text_change(where, before, now):
            yield Difference(path, f"{where} {change.text}", "routing", change.before, change.now)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
