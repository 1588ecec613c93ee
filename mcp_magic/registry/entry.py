"""A server as a registry describes it: `server.json` as values.

Source: modelcontextprotocol/registry, `server.schema.json` of 2025-07-09 to 2025-12-11 and its draft. Earlier files
have `snake_case` keys and other names; all are read. A publisher writes anything, so that one part that cannot be read
is a remark and the rest stays. Nothing is checked against the world: each word here is a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_magic.display.text import one_line
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_NAME = 300  # characters of names, versions and dates; a longer one is left out, since a cut one would be another
MAX_VALUE = 4_000  # of URLs, values and identifiers, as with names
MAX_TEXT = 2_000  # of titles and descriptions, which are cut
MAX_ITEMS = 200  # of one list: packages, remotes, arguments, variables, choices
MAX_REMARKS = 20

OFFICIAL = "io.modelcontextprotocol.registry/official"
"""The key of `_meta` under which a registry says what it knows of an entry."""

PACKAGE_TYPES = ("npm", "pypi", "oci", "mcpb", "nuget")
"""The types of packages that are understood."""

STATUSES = ("active", "deprecated", "deleted")
FORMATS = ("string", "number", "boolean", "filepath")
TRANSPORTS = ("stdio", "streamable-http", "sse")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")

_REGISTRIES = {"docker": "oci", "npmjs": "npm", "dxt": "mcpb", "python": "pypi"}
_SPELLINGS = {"streamable": "streamable-http", "http": "streamable-http", "streamablehttp": "streamable-http"}
T = TypeVar("T")


@dataclass(frozen=True)
class Input:
    """A value that a server takes: an argument, an environment variable, a header, or a part of one of these."""

    name: str = ""  # of the variable or header, or the flag with its dashes; empty for a positional argument
    kind: Literal["value", "named", "positional"] = "value"
    hint: str = ""  # what a positional argument is called, which is no part of the command
    description: str = ""
    value: str | None = None  # fixed by the publisher, but for its `{variables}`
    default: str | None = None
    choices: tuple[str, ...] = ()  # the only valid values, if there are any
    format: str = "string"  # one of FORMATS
    placeholder: str = ""
    required: bool = False
    secret: bool = False
    repeated: bool = False  # whether an argument may be there several times
    variables: tuple[Input, ...] = ()  # what stands for `{name}` in `value`

    @property
    def label(self) -> str:
        """The name under which a person fills it in."""
        return self.name.lstrip("-") or self.hint


@dataclass(frozen=True)
class Remote:
    """An endpoint of a server, or how a package speaks once it runs."""

    type: str  # one of TRANSPORTS
    url: str = ""  # may have `{variables}`; empty for stdio
    headers: tuple[Input, ...] = ()
    variables: tuple[Input, ...] = ()  # of the URL


@dataclass(frozen=True)
class Package:
    """One way to install a server."""

    registry_type: str  # npm, pypi, oci, nuget, mcpb, or what the publisher wrote
    identifier: str  # the package's name, the reference of an image, or the URL of a bundle
    version: str = ""
    registry_url: str = ""  # of the package registry, if the publisher names one
    transport: Remote = Remote("stdio")
    runtime_hint: str = ""  # npx, uvx, docker, dnx
    runtime_arguments: tuple[Input, ...] = ()  # for the program that runs the package
    package_arguments: tuple[Input, ...] = ()  # for the package itself
    environment: tuple[Input, ...] = ()
    sha256: str = ""  # of the file, 64 hexadecimal digits


@dataclass(frozen=True)
class RegistryEntry:
    """A version of a server in a registry. All texts are the publisher's."""

    name: str  # in reverse DNS with one slash; empty if the entry has none
    title: str = ""
    description: str = ""
    version: str = ""
    packages: tuple[Package, ...] = ()
    remotes: tuple[Remote, ...] = ()
    repository: str = ""  # its URL
    website: str = ""
    status: str = "active"  # one of STATUSES, or what the registry wrote
    status_message: str = ""
    published: str = ""  # ISO 8601, as the registry says
    updated: str = ""
    latest: bool | None = None  # whether the registry calls it the latest version
    remarks: tuple[str, ...] = field(default=(), compare=False)  # what could not be read


def read_entry(value: Any) -> RegistryEntry:
    """Read a `server.json`, or the object of a registry that has it as `server`. Never raises.

    >>> entry = read_entry({"name": "org.example/clock", "version": "1.0", "packages": [{"registryType": "npm"}]})
    >>> entry.name, entry.packages, entry.remarks
    ('org.example/clock', (), ('packages[0] has no identifier',))
    """
    reader = _Reader()
    outer = object_of(value)
    fields = object_of(outer["server"]) if isinstance(outer.get("server"), dict) else outer
    if not fields:
        reader.remark("it is not an object with fields")
    meta = {**object_of(fields.get("_meta")), **object_of(outer.get("_meta"))}
    detail = object_of(fields.get("version_detail"))
    official = _official(meta)
    claims = {**official, **{key: fields[key] for key in ("status",) if key in fields and key not in official}}
    status = reader.name(claims, "", "status").lower() or "active"
    if status not in STATUSES:
        reader.remark(f"status: {one_line(status, 40)!r} is unknown")
    name = reader.name(fields, "", "name")
    if fields and not name:
        reader.remark("it has no name")
    return RegistryEntry(
        name=name,
        title=reader.text(fields, "", "title"),
        description=reader.text(fields, "", "description"),
        version=reader.name(fields, "", "version") or reader.name(detail, "version_detail", "version"),
        packages=reader.items(fields, "", "packages", reader.package),
        remotes=reader.items(fields, "", "remotes", reader.remote),
        repository=reader.value(object_of(fields.get("repository")), "repository", "url") or "",
        website=reader.value(fields, "", "websiteUrl") or "",
        status=status,
        status_message=reader.text(claims, "", "statusMessage"),
        published=reader.name(claims, "", "publishedAt") or reader.name(detail, "version_detail", "release_date"),
        updated=reader.name(claims, "", "updatedAt"),
        latest=reader.flag(claims, "", "isLatest") if _at(claims, "isLatest") is not None else None,
        remarks=tuple(reader.remarks),
    )


def _official(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a registry says of an entry: under the key of the official one, or under its own."""
    if isinstance(meta.get(OFFICIAL), dict):
        return object_of(meta[OFFICIAL])
    own = [object_of(part) for part in meta.values() if _at(object_of(part), "status", "publishedAt") is not None]
    return own[0] if own else {}


def _at(fields: Mapping[str, Any], *keys: str) -> Any:
    """Return the value of the first key that is there, in `camelCase` or `snake_case`."""
    for key in keys:
        for spelling in _spellings(key):
            if fields.get(spelling) is not None:
                return fields[spelling]
    return None


@cache
def _spellings(key: str) -> tuple[str, str]:
    return key, re.sub(r"(?=[A-Z])", "_", key).lower()


class _Reader:
    """Reads the parts of one entry and collects remarks; a part is named by the path to it."""

    def __init__(self) -> None:
        self.remarks: list[str] = []

    def remark(self, text: str) -> None:
        if len(self.remarks) < MAX_REMARKS:
            self.remarks.append(text)

    def value(self, fields: Mapping[str, Any], path: str, *keys: str, limit: int = MAX_VALUE) -> str | None:
        """Return a technical value as text; None if there is none, or none that can be used."""
        value = _at(fields, *keys)
        if isinstance(value, bool):
            return str(value).lower()
        if value is None or isinstance(value, int | float):
            return None if value is None else str(value)
        where = _joined(path, keys[0])
        if not isinstance(value, str):
            self.remark(f"{where} is not text")
        elif len(value) > limit:
            self.remark(f"{where} has {len(value):,} characters; at most {limit:,} are read")
        elif UNPRINTABLE.search(value):
            self.remark(f"{where} has control characters")
        else:
            return value
        return None

    def name(self, fields: Mapping[str, Any], path: str, *keys: str) -> str:
        return (self.value(fields, path, *keys, limit=MAX_NAME) or "").strip()

    def text(self, fields: Mapping[str, Any], path: str, *keys: str) -> str:
        """Return text for people, cut to its limit."""
        value = _at(fields, *keys)
        if value is not None and not isinstance(value, str):
            self.remark(f"{_joined(path, keys[0])} is not text")
            return ""
        return (value or "")[:MAX_TEXT]

    def flag(self, fields: Mapping[str, Any], path: str, *keys: str) -> bool:
        value = _at(fields, *keys)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is not None and not isinstance(value, bool):
            self.remark(f"{_joined(path, keys[0])} is neither true nor false")
            # a secret that is shown is worse than one that is hidden, and a value too many better than one too few
            return True
        return bool(value)

    def items(
        self, fields: Mapping[str, Any], path: str, key: str, read: Callable[[dict[str, Any], str], T | None]
    ) -> tuple[T, ...]:
        """Return the items of a list that can be read."""
        value = _at(fields, key)
        where = _joined(path, key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.remark(f"{where} is not a list")
            return ()
        if len(value) > MAX_ITEMS:
            self.remark(f"{where} has {len(value):,} items; the first {MAX_ITEMS} are read")
        items = []
        for number, part in enumerate(value[:MAX_ITEMS]):
            place = f"{where}[{number}]"
            if not isinstance(part, dict):
                self.remark(f"{place} is not an object")
            elif (item := read(part, place)) is not None:
                items.append(item)
        return tuple(items)

    def package(self, fields: dict[str, Any], path: str) -> Package | None:
        kind = self.name(fields, path, "registryType", "registryName").lower()
        identifier = (self.value(fields, path, "identifier", "name") or "").strip()
        for field_name, text in (("registryType", kind), ("identifier", identifier)):
            if not text:
                self.remark(f"{path} has no {field_name}")
                return None
        digest = self.name(fields, path, "fileSha256").lower()
        if digest and not re.fullmatch(r"[0-9a-f]{64}", digest):
            self.remark(f"{path}.fileSha256 is not a SHA-256 hash")
            return None  # a hash that cannot be checked must not become none at all
        transport: Remote | None = Remote("stdio")
        if _at(fields, "transport") is not None:
            transport = self.remote(object_of(_at(fields, "transport")), f"{path}.transport")
        if transport is None:
            return None
        return Package(
            _REGISTRIES.get(kind, kind),
            identifier,
            version=self.name(fields, path, "version"),
            registry_url=self.value(fields, path, "registryBaseUrl") or "",
            transport=transport,
            runtime_hint=self.name(fields, path, "runtimeHint"),
            runtime_arguments=self.items(fields, path, "runtimeArguments", self.argument),
            package_arguments=self.items(fields, path, "packageArguments", self.argument),
            environment=self.items(fields, path, "environmentVariables", self.named_value),
            sha256=digest,
        )

    def remote(self, fields: dict[str, Any], path: str) -> Remote | None:
        kind = self.name(fields, path, "type", "transportType").lower().replace("_", "-")
        kind = _SPELLINGS.get(kind, kind)
        if kind not in TRANSPORTS:
            self.remark(f"{path}: the transport {one_line(kind, 40)!r} is unknown" if kind else f"{path} has no type")
            return None
        url = (self.value(fields, path, "url") or "").strip()
        if kind == "stdio":
            return Remote(kind)
        if not url:
            self.remark(f"{path} has no url")
            return None
        headers = self.items(fields, path, "headers", self.named_value)
        return Remote(kind, url, headers, self.variables(fields, path))

    def variables(self, fields: Mapping[str, Any], path: str) -> tuple[Input, ...]:
        table = _at(fields, "variables")
        if table is None:
            return ()
        if not isinstance(table, dict):
            self.remark(f"{path}.variables is not an object")
            return ()
        if len(table) > MAX_ITEMS:
            self.remark(f"{path}.variables has {len(table):,} items; the first {MAX_ITEMS} are read")
        inputs = []
        for name in list(table)[:MAX_ITEMS]:
            place = f"{path}.variables.{one_line(name, 40)}"
            if not isinstance(table[name], dict):
                self.remark(f"{place} is not an object")
            elif len(name) > MAX_NAME or UNPRINTABLE.search(name):
                self.remark(f"{place} is no name of a variable")
            else:
                flat = {key: inner for key, inner in table[name].items() if key != "variables"}  # a variable has none
                inputs.append(self.input(flat, place, name, "value"))
        return tuple(inputs)

    def argument(self, fields: dict[str, Any], path: str) -> Input | None:
        kind = self.name(fields, path, "type").lower()
        name = self.name(fields, path, "name")
        if kind == "named" or (not kind and name):
            if name:
                return self.input(fields, path, name, "named")
            self.remark(f"{path} has no name")
            return None
        if kind not in ("positional", ""):
            self.remark(f"{path}: the type {one_line(kind, 40)!r} is unknown")
            return None
        return self.input(fields, path, "", "positional")

    def named_value(self, fields: dict[str, Any], path: str) -> Input | None:
        name = self.name(fields, path, "name")
        if name:
            return self.input(fields, path, name, "value")
        self.remark(f"{path} has no name")
        return None

    def input(
        self, fields: dict[str, Any], path: str, name: str, kind: Literal["value", "named", "positional"]
    ) -> Input:
        shape = self.name(fields, path, "format").lower() or "string"
        if shape not in FORMATS:
            self.remark(f"{path}.format: {one_line(shape, 40)!r} is unknown")
            shape = "string"
        choices = _at(fields, "choices")
        if choices is not None and not isinstance(choices, list):
            self.remark(f"{path}.choices is not a list")
        choices = choices if isinstance(choices, list) else []
        texts = [self.value({"choices": choice}, path, "choices", limit=MAX_NAME) for choice in choices[:MAX_ITEMS]]
        return Input(
            name,
            kind,
            hint=self.name(fields, path, "valueHint"),
            description=self.text(fields, path, "description"),
            value=self.value(fields, path, "value"),
            default=self.value(fields, path, "default"),
            choices=tuple(dict.fromkeys(text for text in texts if text is not None)),
            format=shape,
            placeholder=self.text(fields, path, "placeholder"),
            required=self.flag(fields, path, "isRequired"),
            secret=self.flag(fields, path, "isSecret"),
            repeated=self.flag(fields, path, "isRepeated"),
            variables=self.variables(fields, path),
        )


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
