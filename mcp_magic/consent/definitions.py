"""The history of tool definitions, and of the servers behind server names, since this kernel first saw them.

A server may change a tool after the user has allowed it (a "rug pull"), also by leaving and coming back under the same
name. So the history is kept by name, across all sessions. A rule covers a tool as it was when the rule was given, or as
it was first seen if that was later. The same holds for the server behind a name: its command line or its URL.

Definitions are numbered in their order, and a rule keeps the last number at its time. So one number serves patterns
and later tools, and thousands of unchanged tools cost nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcp_magic.display.diff import Line, json_diff, text_diff
from mcp_magic.display.document import Badge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_types import Tool

    from mcp_magic.config.specs import Spec

MAX_VERSIONS = 20  # complete definitions kept of one tool, besides the first; of older ones only the digest is kept

GONE_BYTES = 20_000_000
"""Bytes of whole definitions kept of tools that are no longer listed; beyond that only digests are kept."""


def definition_of(tool: Tool) -> dict[str, Any]:
    """Return the parts of a tool that define it, under their names in the protocol, without empty ones."""
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    parts = {
        "title": tool.title,
        "description": tool.description,
        "annotations": annotations or None,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
    }
    return {name: value for name, value in parts.items() if value}


def digest(tool: Tool) -> str:
    """Return a short digest of a tool's definition; the order of JSON keys does not count."""
    text = json.dumps(definition_of(tool), sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Version(NamedTuple):
    """A definition: its number, when it was seen (`time.time()`), its digest, and the tool if it is kept."""

    number: int
    time: float
    digest: str
    tool: Tool | None


class Server(NamedTuple):
    """A server that had a name: its number, its `Spec.identity`, and its command line or URL."""

    number: int
    identity: str
    where: str


class Replacement(NamedTuple):
    """Another server has taken over a name: the command lines or URLs of both."""

    before: str
    now: str


class Change(NamedTuple):
    """A change of a tool's definition; `time` is when the present one was first seen (`time.time()`)."""

    before: Tool
    after: Tool
    time: float

    @property
    def lines(self) -> list[Line]:
        """The differing lines, under the label of each changed part."""
        old, new = definition_of(self.before), definition_of(self.after)
        differences: list[Line] = []
        for name, label in _LABELS.items():
            a, b = old.get(name), new.get(name)
            texts = isinstance(a or "", str) and isinstance(b or "", str)
            lines = text_diff(a or "", b or "") if texts else json_diff(a or {}, b or {})
            differences += [Line("@", label), *lines] if lines else []
        return differences

    @property
    def badge(self) -> Badge:
        """The badge shown next to the tool."""
        when = time.strftime("%H:%M:%S", time.localtime(self.time))
        return Badge("Δ changed", "danger", f"its {self.parts} changed after it was first seen here; noticed at {when}")

    @property
    def parts(self) -> str:
        """The changed parts in words: `"description and arguments"`."""
        old, new = definition_of(self.before), definition_of(self.after)
        names = [label for name, label in _LABELS.items() if old.get(name) != new.get(name)]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_LABELS = {
    "title": "title",
    "description": "description",
    "annotations": "hints",
    "inputSchema": "arguments",
    "outputSchema": "result",
}


class Definitions:
    """The definitions of all tools that a host has seen, and their servers; `count` is their clock."""

    def __init__(self) -> None:
        self.count = 0
        self._servers: dict[str, list[Server]] = {}
        self._versions: dict[str, dict[str, list[Version]]] = {}  # by server, then by tool
        self._latest: dict[str, tuple[Tool, ...]] = {}
        self._gone: dict[tuple[str, str], int] = {}

    def note_server(self, name: str, spec: Spec) -> None:
        """Note the server that has a name from now on."""
        servers = self._servers.setdefault(name, [])
        if not servers or servers[-1].identity != spec.identity:
            self.count += 1
            servers.append(Server(self.count, spec.identity, spec.where))

    def identity(self, server: str, since: int | None = None) -> str:
        """Return the `Spec.identity` of the server of this name, now or at `since`; "" if there was none yet."""
        servers = self._servers.get(server)
        if not servers:
            return ""
        return (servers[-1] if since is None else _at(servers, since)).identity

    def replacement(self, server: str, since: int = 0) -> Replacement | None:
        """Return how the server of a name was replaced since a `count`; None if it is the same server."""
        servers = self._servers.get(server)
        if not servers:
            return None
        then, now = _at(servers, since), servers[-1]
        return None if then.identity == now.identity else Replacement(then.where, now.where)

    def note_tools(self, server: str, tools: tuple[Tool, ...]) -> None:
        """Note all tools that a server lists now. Costs nothing for the same tuple as last time."""
        before = self._latest.get(server, ())
        if before is not tools:
            self._latest[server] = tools
            self.add_tools(server, tools)
            if before or self._gone:
                self._part(server, before, tools)

    def _part(self, server: str, before: Iterable[Tool], now: Iterable[Tool]) -> None:
        """Reduce tools that are long gone to digests: a server may list new tools again and again."""
        names = {tool.name for tool in now}
        self._gone = {key: size for key, size in self._gone.items() if key[0] != server or key[1] not in names}
        for tool in before:
            if tool.name not in names:
                self._gone[server, tool.name] = len(str(definition_of(tool)))
        total = sum(self._gone.values())
        while total > GONE_BYTES:
            key = next(iter(self._gone))
            total -= self._gone.pop(key)
            versions = self._versions[key[0]][key[1]]
            _sign(versions)
            versions[:] = [Version(number, since, digest, None) for number, since, digest, _ in versions]

    def add_tools(self, server: str, tools: Iterable[Tool]) -> None:
        """Note tools as a server lists them."""
        by_tool = self._versions.setdefault(server, {})
        now = time.time()
        self.count += 1
        for tool in tools:
            versions = by_tool.get(tool.name)
            if versions is None:
                by_tool[tool.name] = [Version(self.count, now, "", tool)]  # most never change: the digest comes later
            elif versions[-1].tool is not tool:
                last = versions[-1]
                if last.tool is not None and last.tool.__dict__ == tool.__dict__:  # as nearly always
                    versions[-1] = Version(last.number, last.time, last.digest, tool)
                else:
                    _add(versions, Version(self.count, now, digest(tool), tool))

    def _of(self, name: str) -> list[Version]:
        server, _, tool = name.partition(":")
        return self._versions.get(server, {}).get(tool, [])

    def latest(self, name: str) -> Tool | None:
        """Return the latest definition of a tool, or None."""
        versions = self._of(name)
        return versions[-1].tool if versions else None

    def digest(self, name: str, since: int | None = None) -> str:
        """Return the digest of a tool, now or at `since` (as for `change`); "" if the tool was never seen."""
        versions = self._of(name)
        if not versions:
            return ""
        _sign(versions)
        return (versions[-1] if since is None else _at(versions, since)).digest

    def seal(self, name: str) -> str:
        """Return a text that identifies a tool, its definition and its server; "" if the tool was never seen."""
        digest = self.digest(name)
        return digest and f"{digest} {self.identity(name.partition(':')[0])} {name}"

    def change(self, name: str, since: int = 0) -> Change | None:
        """Return how a tool has changed since a `count`, at most since it was first seen; None if it has not."""
        versions = self._of(name)
        if len(versions) < 2:
            return None
        now, then = versions[-1], _at(versions, since)
        if then.digest == now.digest or now.tool is None:
            return None
        return Change(then.tool or versions[0].tool or now.tool, now.tool, now.time)

    def __iter__(self) -> Iterator[str]:
        return (f"{server}:{name}" for server, by_tool in self._versions.items() for name in by_tool)


def _sign(versions: list[Version]) -> None:
    """Compute the digest of the first version, if it has none yet."""
    number, since, signed, tool = versions[0]
    if not signed and tool is not None:
        versions[0] = Version(number, since, digest(tool), tool)


def _add(versions: list[Version], latest: Version) -> None:
    """Add a version, or put it in the place of the last one if only the object is another."""
    _sign(versions)
    last = versions[-1]
    if last.digest == latest.digest:
        versions[-1] = Version(last.number, last.time, last.digest, latest.tool)
        return
    versions.append(latest)
    if len(versions) > MAX_VERSIONS + 1:
        number, since, signed, _ = versions[-MAX_VERSIONS - 1]
        versions[-MAX_VERSIONS - 1] = Version(number, since, signed, None)


_Numbered = TypeVar("_Numbered", Version, Server)


def _at(versions: list[_Numbered], since: int) -> _Numbered:
    """Return the version known at a time, or the first one if that came later."""
    return next((version for version in reversed(versions) if version.number <= since), versions[0])
