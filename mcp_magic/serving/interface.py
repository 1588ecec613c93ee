"""A server's interface as plain data, to keep beside a notebook and to compare with later.

A snapshot is JSON: tools, prompts, resources and templates by name, as the server defines them, sorted so that two
snapshots of the same server are the same text.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.config.jsonfile import LARGEST_DATA, read_bytes
from mcp_magic.errors import ConfigError
from mcp_magic.schema.changes import schema_changes
from mcp_magic.schema.merge import json_equal
from mcp_magic.wording import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mcp_magic.core.connection import Connection

__all__ = ["FORMAT", "Change", "compared", "interface_of", "read_snapshot", "written"]

FORMAT = 1
"""The version of a snapshot's format, its member "mcp_magic"."""

_KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}
"""What is in a snapshot, and the member by which it is found again."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class Change:
    """One difference between two interfaces.

    Attributes:
        kind: `"tool"`, `"prompt"`, `"resource"`, `"template"` or `"server"`.
        name: Its name or URI.
        where: The argument or the part that differs, or "".
        text: What happened, in words.
        breaking: Whether what relied on the old interface may fail with the new one.
    """

    kind: str
    name: str
    where: str
    text: str
    breaking: bool = False

    def __str__(self) -> str:
        mark = "breaking: " if self.breaking else ""
        return f"{mark}{self.kind} {self.name}: {' '.join(part for part in (self.where, self.text) if part)}"


async def interface_of(connection: Connection) -> dict[str, Any]:
    """Return the interface of a connected server.

    Raises:
        SessionError: It cannot be listed.
    """
    kinds = await asyncio.gather(*(connection.listing(kind) for kind in _KEYS))
    info = connection.server_info
    found: dict[str, Any] = {
        "mcp_magic": FORMAT,
        "server": {"name": info.name, "version": info.version} if info else {},
        "instructions": connection.instructions or "",
    }
    for (kind, key), items in zip(_KEYS.items(), kinds, strict=True):
        plain = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
        found[kind] = {each.pop(key): each for each in sorted(plain, key=lambda each: str(each[key]))}
    return found


def written(interface: Mapping[str, Any]) -> str:
    """Return a snapshot as text that a version control system can compare."""
    text = json.dumps(interface, indent=2, sort_keys=True, ensure_ascii=False)
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n"


def read_snapshot(path: Path, server: str = "SERVER") -> dict[str, Any]:
    """Read a snapshot, of the server with this name.

    Raises:
        ConfigError: There is none, or it is none that this version reads.
    """
    advice = f"`%mcp snapshot {server} -o {path.name}` writes one"
    try:
        found: Any = json.loads(read_bytes(path, LARGEST_DATA))
    except OSError as error:
        problem = f"{path}: {error.strerror}; {advice}"
    except (ValueError, RecursionError) as error:
        problem = f"{path} is no JSON ({error}); {advice}"
    else:
        version = found.get("mcp_magic") if isinstance(found, dict) else None
        if version == FORMAT and all(isinstance(found.get(kind), dict) for kind in _KEYS):
            return dict(found)
        newer = isinstance(version, int) and version > FORMAT
        problem = f"{path} is of a newer mcp_magic" if newer else f"{path} is no snapshot of a server; {advice}"
    raise ConfigError(problem)


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return what changed from one interface to another, breaking changes first."""
    changes = list(_server(old, new))
    for kind in _KEYS:
        changes += _listed(kind.removesuffix("s"), old[kind], new[kind])
    return sorted(changes, key=lambda change: not change.breaking)


def _server(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, now = old.get("server", {}), new.get("server", {})
    if before.get("version") != now.get("version"):
        yield Change(
            "server", now.get("name", ""), "version", f"{now.get('version')} instead of {before.get('version')}"
        )
    if old.get("instructions", "") != new.get("instructions", ""):
        yield Change("server", now.get("name", ""), "instructions", "changed")


def _listed(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in [name for name in old if name not in new]:
        yield Change(kind, name, "", "is gone", breaking=True)
    for name, definition in new.items():
        if name not in old:
            yield Change(kind, name, "", "is new")
        elif not json_equal(old[name], definition):
            yield from _COMPARE[kind](kind, name, old[name], definition)
            yield from _described(kind, name, old[name], definition)


def _tool(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for change in schema_changes(old.get("inputSchema"), new.get("inputSchema"), "input"):
        yield Change(kind, name, change.path, change.text, change.breaking)
    before, now = old.get("outputSchema"), new.get("outputSchema")
    if (before is None) != (now is None):
        yield Change(kind, name, "result", "has no schema any more" if now is None else "has a schema now", now is None)
    elif before is not None:
        for change in schema_changes(before, now, "output"):
            yield Change(kind, name, f"result.{change.path}".rstrip("."), change.text, change.breaking)
    yield from _hints(kind, name, old.get("annotations") or {}, new.get("annotations") or {})


def _hints(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for hint in _HINTS:
        if old.get(hint) != new.get(hint):
            yield Change(kind, name, hint, f"is {_said(new.get(hint))} instead of {_said(old.get(hint))}")


def _said(value: Any) -> str:
    return "not said" if value is None else str(value).lower()


def _prompt(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before = {argument["name"]: argument for argument in old.get("arguments") or []}
    now = {argument["name"]: argument for argument in new.get("arguments") or []}
    for gone in [argument for argument in before if argument not in now]:
        yield Change(kind, name, gone, "is gone", breaking=True)
    for argument, definition in now.items():
        needed = bool(definition.get("required"))
        if argument not in before:
            yield Change(kind, name, argument, f"is new and {'required' if needed else 'optional'}", breaking=needed)
        elif needed != bool(before[argument].get("required")):
            yield Change(kind, name, argument, f"is {'required' if needed else 'optional'} now", breaking=needed)


def _resource(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, now = old.get("mimeType"), new.get("mimeType")
    if before != now:
        yield Change(kind, name, "type", f"is {_said(now)} instead of {_said(before)}", breaking=before is not None)


def _described(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for word in ("title", "description"):
        if old.get(word) != new.get(word):
            yield Change(kind, name, word, "changed")


_COMPARE = {"tool": _tool, "prompt": _prompt, "resource": _resource, "template": _resource}
"""How two definitions of a kind are compared."""
