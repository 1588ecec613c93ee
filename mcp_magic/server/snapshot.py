"""Snapshots of a server's interface, and the changes between two of them: which break code that uses the server.

A snapshot is JSON, to keep beside a notebook and compare later. It holds the definitions of tools, prompts, resources
and templates by name, sorted: two snapshots of an unchanged server are equal as text.

An input schema concerns callers that send arguments, an output schema callers that read results. A stricter input
schema can break callers and a stricter output schema makes them safer, so each comparison of schemas knows its side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_magic._text import json_text
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes
from mcp_magic.errors import ConfigError
from mcp_magic.loops import together
from mcp_magic.schema.fields import MISSING, Field
from mcp_magic.schema.resolve import Resolver, is_number, json_equal, json_key
from mcp_magic.session.catalog import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mcp_magic.session.connection import Connection

FORMAT = 1  # the version of the snapshot format, stored in the member "mcp_magic"

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class Change:
    """One difference between two interfaces."""

    kind: str  # tool, prompt, resource, template or server
    name: str
    where: str
    text: str
    breaking: bool = False

    def __str__(self) -> str:
        mark = "breaking: " if self.breaking else ""
        return f"{mark}{self.kind} {self.name}: {' '.join(part for part in (self.where, self.text) if part)}"


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
    return interface


def snapshot_text(interface: Mapping[str, Any]) -> str:
    """Return a snapshot as text for a file, indented and sorted so that version control shows small differences."""
    return json_text(interface, indent=2, sort_keys=True) + "\n"


def read_snapshot(path: Path, server: str = "SERVER") -> dict[str, Any]:
    """Read a snapshot of a server; raise a ConfigError if the file is none that this version reads."""
    advice = f"`%mcp snapshot {server} -o {path.name}` writes one"
    try:
        data: Any = json.loads(read_bytes(path, LARGEST_DATA))
    except OSError as error:
        problem = f"{path}: {error.strerror}; {advice}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not JSON ({error}); {advice}"
    else:
        version = data.get("mcp_magic") if isinstance(data, dict) else None
        if version == FORMAT and all(isinstance(data.get(kind), dict) for kind in KINDS):
            return dict(data)
        newer = isinstance(version, int) and version > FORMAT
        problem = f"{path} is of a newer mcp_magic" if newer else f"{path} is not a snapshot of a server; {advice}"
    raise ConfigError(problem)


def interface_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes from one interface to another, breaking ones first."""
    changes = list(_server_changes(old, new))
    for kind in KINDS:
        singular, before, now = kind.removesuffix("s"), old[kind], new[kind]
        changes += [Change(singular, name, "", "is gone", breaking=True) for name in before if name not in now]
        for name, definition in now.items():
            if name not in before:
                changes.append(Change(singular, name, "", "is new"))
            elif not json_equal(before[name], definition):
                changes += [Change(singular, name, *change) for change in _COMPARE[kind](before[name], definition)]
                words = [word for word in ("title", "description") if before[name].get(word) != definition.get(word)]
                changes += [Change(singular, name, word, "changed") for word in words]
    return sorted(changes, key=lambda change: not change.breaking)


def _server_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, now = old.get("server", {}), new.get("server", {})
    name = now.get("name", "")
    if before.get("version") != now.get("version"):
        yield Change("server", name, "version", f"{now.get('version')} instead of {before.get('version')}")
    if old.get("instructions", "") != new.get("instructions", ""):
        yield Change("server", name, "instructions", "changed")


_Difference = tuple[str, str, bool]  # where, what, and whether it breaks code, as in `Change`


def _tool_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    for change in schema_changes(old.get("inputSchema"), new.get("inputSchema"), "input"):
        yield change.path, change.text, change.breaking
    before, now = old.get("outputSchema"), new.get("outputSchema")
    if (before is None) != (now is None):
        yield "result", "no longer has a schema" if now is None else "has a schema now", now is None
    elif before is not None:
        for change in schema_changes(before, now, "output"):
            yield f"result.{change.path}".rstrip("."), change.text, change.breaking
    earlier, hints = old.get("annotations") or {}, new.get("annotations") or {}
    for hint in _HINTS:
        if earlier.get(hint) != hints.get(hint):
            yield hint, f"is {_hint_text(hints.get(hint))} instead of {_hint_text(earlier.get(hint))}", False


def _hint_text(value: Any) -> str:
    return "not said" if value is None else str(value).lower()


def _prompt_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    before = {argument["name"]: argument for argument in old.get("arguments") or []}
    now = {argument["name"]: argument for argument in new.get("arguments") or []}
    for name in [argument for argument in before if argument not in now]:
        yield name, "is gone", True
    for argument, definition in now.items():
        is_required = bool(definition.get("required"))
        if argument not in before:
            yield argument, f"is new and {'required' if is_required else 'optional'}", is_required
        elif is_required != bool(before[argument].get("required")):
            yield argument, f"is {'required' if is_required else 'optional'} now", is_required


def _resource_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Difference]:
    before, now = old.get("mimeType"), new.get("mimeType")
    if before != now:
        yield "type", f"is {_hint_text(now)} instead of {_hint_text(before)}", before is not None


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
_EXACT = ("pattern", "format", "multipleOf", "uniqueItems", "contentEncoding")


class SchemaChange(NamedTuple):
    """One difference at a path (`filter.tags[]`); a breaking one may fail code that worked before."""

    path: str
    text: str
    breaking: bool


def schema_changes(old: Any, new: Any, side: Side = "input") -> list[SchemaChange]:
    """Return the changes from one schema to another: the "input" of a tool, or the "output"."""
    if json_equal(old, new):
        return []
    # as the server wrote them: a repaired schema would hide what it mended
    before, after = (Field("", schema, resolver=Resolver(schema)) for schema in (old, new))
    return list(_Comparison(side).value(before, after, ""))


class _Comparison:
    """Walks two schemas side by side. Compares each pair of recursive definitions once."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._seen: set[tuple[str, str]] = set()

    def value(self, old: Field, new: Field, path: str) -> Iterator[SchemaChange]:
        """Yield the changes of one value and the values inside it."""
        refers = (repr(old.raw), repr(new.raw))
        if "$ref" not in refers[0] + refers[1] and json_equal(old.raw, new.raw):
            return
        if refers in self._seen:
            return
        self._seen.add(refers)
        if (types := _types(old, new, path, self.side)) is not None:
            yield types
            return
        yield from _choices(old, new, path, self.side)
        yield from _limits(old.schema, new.schema, path, self.side)
        yield from _texts(old, new, path)
        yield from self._children(old, new, path)
        if old.item is not None and new.item is not None:
            yield from self.value(old.item, new.item, f"{path}[]")

    def _children(self, old: Field, new: Field, path: str) -> Iterator[SchemaChange]:
        before = {child.name: child for child in old.children}
        now = {child.name: child for child in new.children}
        for name in [name for name in before if name not in now]:
            former = before[name]
            breaking = self.side == "input" or former.required or not new.is_open
            yield SchemaChange(_at(path, name), "is gone", breaking)
        for name, child in now.items():
            yield from self._child(before.get(name), child, _at(path, name))
        yield from _others(old, new, path, self.side)

    def _child(self, old: Field | None, new: Field, path: str) -> Iterator[SchemaChange]:
        if old is None:
            status = "required" if new.required else "optional"
            yield SchemaChange(path, f"is new and {status} ({new.type_text})", self.side == "input" and new.required)
            return
        if new.required != old.required:
            text = "is required now" if new.required else "is optional now"
            yield SchemaChange(path, text, new.required == (self.side == "input"))
        yield from self.value(old, new, path)


def _others(old: Field, new: Field, path: str, side: Side) -> Iterator[SchemaChange]:
    """Yield the changes for fields that no schema lists: which of them are required, and whether any are taken."""
    before, now = (field.required_names for field in (old, new))
    described = {child.name for child in (*old.children, *new.children)}
    for name in sorted((before ^ now) - described):
        text = "is required now" if name in now else "is optional now"
        yield SchemaChange(_at(path, name), text, (name in now) == (side == "input"))
    closed, closes = (field.schema.get("additionalProperties") is False for field in (old, new))
    if closed != closes:
        text = "no longer takes other fields" if closes else "takes other fields now"
        yield SchemaChange(path, text, closes and side == "input")


def _types(old: Field, new: Field, path: str, side: Side) -> SchemaChange | None:
    before, now = _kinds(old), _kinds(new)
    if before == now:
        return None
    text = f"takes {new.type_text} instead of {old.type_text}"
    if side == "output":
        text = f"is {new.type_text} instead of {old.type_text}"
    had, has = (before, now) if side == "input" else (now, before)
    return SchemaChange(path, text, not ("any" in has or _within(had, has)))


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


def _choices(old: Field, new: Field, path: str, side: Side) -> Iterator[SchemaChange]:
    before, now = [value for value, _ in old.choices], [value for value, _ in new.choices]
    if not before and not now:
        return
    if not before or not now:
        narrower = bool(now)
        text = f"takes only {new.type_text} now" if narrower else f"takes any {new.type_text} now"
        yield SchemaChange(path, text, narrower == (side == "input"))
        return
    had, has = set(map(json_key, before)), set(map(json_key, now))
    for removed in (value for value in before if json_key(value) not in has):
        yield SchemaChange(path, f"{removed!r} is no longer a choice", side == "input")
    for added in (value for value in now if json_key(value) not in had):
        yield SchemaChange(path, f"{added!r} is a choice now", side == "output")


def _limits(old: Mapping[str, Any], new: Mapping[str, Any], path: str, side: Side) -> Iterator[SchemaChange]:
    for keywords, sign in ((_LOWER, 1), (_UPPER, -1)):
        for keyword in keywords:
            before, now = old.get(keyword), new.get(keyword)
            if json_equal(before, now):
                continue
            stricter = is_number(now) and (not is_number(before) or (now - before) * sign > 0)
            yield SchemaChange(path, _change_text(keyword, before, now), stricter == (side == "input"))
    for keyword in _EXACT:
        before, now = old.get(keyword), new.get(keyword)
        if not json_equal(before, now):
            is_looser = now is None if side == "input" else before is None
            yield SchemaChange(path, _change_text(keyword, before, now), not is_looser)


def _change_text(keyword: str, before: Any, now: Any) -> str:
    if before is None:
        return f"has {keyword} {now!r} now"
    return f"no longer has {keyword}" if now is None else f"{keyword} is {now!r} instead of {before!r}"


def _texts(old: Field, new: Field, path: str) -> Iterator[SchemaChange]:
    if old.default is not MISSING or new.default is not MISSING:
        if old.default is MISSING:
            yield SchemaChange(path, f"the default is {new.default!r} now", False)
        elif new.default is MISSING:
            yield SchemaChange(path, "no longer has a default", False)
        elif not json_equal(old.default, new.default):
            yield SchemaChange(path, f"the default is {new.default!r} instead of {old.default!r}", False)
    for word, before, now in (("title", old.title, new.title), ("description", old.description, new.description)):
        if path and before != now:
            yield SchemaChange(path, f"{word} {'changed' if before and now else 'added' if now else 'removed'}", False)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
