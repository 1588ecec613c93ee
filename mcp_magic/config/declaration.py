"""`mcp_magic.toml`: what the kernel's host should be, declared. Parsed and checked here, acted on elsewhere.

A mistake in the document is an error with its line. What only this machine lacks (a variable that is
not set, an `env_file` that is not there) is the `problem` of that server, and the others come up.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.checks import check_agent, check_consent, check_setting
from mcp_magic.config.entries import ServerEntry, make_spec, ready_entry
from mcp_magic.config.fields import FieldError, flag, kind_of, reject_unknown
from mcp_magic.config.files import load_config, parse_servers
from mcp_magic.config.jsonfile import parse_json, read_text
from mcp_magic.config.names import check_name
from mcp_magic.config.tomllines import find_line, parse_toml
from mcp_magic.config.variables import MissingHereError, Variables
from mcp_magic.errors import ConfigError, TargetError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Declaration", "find_declaration", "load_declaration", "parse_declaration"]

_FILES = ("mcp_magic.toml", "pyproject.toml", "mcp.json", ".mcp.json")
_SECTIONS = ("servers", "consent", "agents", "settings")
_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


@dataclass(frozen=True)
class Declaration:
    """What a document declares.

    Attributes:
        servers: By name, in the document's order.
        consent: Rules, each with one of `allow`, `deny` and `ask`, perhaps `arguments` and `reason`.
        agents: By name.
        settings: By name.
        source: The file, for messages.
        digest: The hash of what it says.
    """

    servers: dict[str, ServerEntry] = field(default_factory=dict)
    consent: tuple[dict[str, Any], ...] = ()
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    digest: str = ""

    @property
    def started(self) -> list[ServerEntry]:
        """The servers that it has started: those that are not disabled and have no problem."""
        return [entry for entry in self.servers.values() if entry.spec and not entry.disabled]


def parse_declaration(
    text: str,
    *,
    source: str,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
    settings: Mapping[str, type] | None = None,
) -> Declaration:
    """Read a declaration: TOML, or for the servers alone the JSON of other hosts.

    Args:
        text: The document. In one called pyproject.toml the table `tool.mcp_magic` counts.
        source: The file, or what to call a cell.
        environ: What `${VAR}` stands for, by default this process's environment.
        base: The declaration's folder: relative paths are relative to it and its commands run in it.
        settings: The settings there are with their types; None takes any.

    Raises:
        ConfigError: with file and line, and what would be valid.
    """
    environ = os.environ if environ is None else environ
    if text.lstrip().startswith("{"):
        data = parse_json(text, source=source)
        entries = parse_servers(data, source=source, environ=environ, base=base, cwd=base)
        return _of_entries(entries, source, data)
    in_pyproject = Path(source).name == "pyproject.toml"
    table, above = _toml_table(text, source, in_pyproject)
    try:
        return _declaration(table, source, Variables(environ, base), settings)
    except FieldError as error:
        line = find_line(text, (*above, *error.path))
        problem = f"{source}:{line}: {error}" if line else f"{source}: {error}"
    raise ConfigError(problem)


def _toml_table(text: str, source: str, in_pyproject: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parse, and return the table that counts with the keys that lead to it."""
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        problem = _syntax_error(str(error), text, source)
    else:
        if not in_pyproject:
            return data, ()
        found = _pyproject_table(data)
        if found is not None:
            return found, ("tool", "mcp_magic")
        problem = f"{source}: no table [tool.mcp_magic] in it."
    raise ConfigError(problem)


def _syntax_error(message: str, text: str, source: str) -> str:
    match = _AT.fullmatch(message)
    if match is None:
        return f"{source}: not TOML: {message}"
    line, column = match[2] or str(text.count("\n") + 1), match[3] or str(len(text) - text.rfind("\n"))
    return f"{source}:{line}:{column}: not TOML: {match[1]}"


def _pyproject_table(data: Mapping[str, Any]) -> dict[str, Any] | None:
    tool = data.get("tool")
    found = tool.get("mcp_magic") if isinstance(tool, dict) else None
    return found if isinstance(found, dict) else None


def _declaration(
    table: Mapping[str, Any], source: str, variables: Variables, known: Mapping[str, type] | None
) -> Declaration:
    reject_unknown(table, _SECTIONS)
    servers = {name: _server(name, fields, source, variables) for name, fields in _section(table, "servers").items()}
    rules = table.get("consent", [])
    if not isinstance(rules, list):
        raise FieldError(f"expected [[consent]] rules, got {kind_of(rules)}.", "consent")
    for number, rule in enumerate(rules):
        check_consent(rule, number)
    agents = _section(table, "agents")
    for name, agent in agents.items():
        check_agent(agent, name)
    settings = _section(table, "settings")
    for name, value in settings.items():
        check_setting(name, value, known)
    return Declaration(servers, tuple(rules), agents, settings, source, _digest(table, servers))


def _section(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise FieldError(f"expected a table, got {kind_of(section)}.", name)
    return section


def _server(name: str, fields: Any, source: str, variables: Variables) -> ServerEntry:
    """Read one server; a mistake is raised with its full path, what the machine lacks becomes a problem."""
    try:
        check_name(name)
        if not isinstance(fields, dict):
            raise FieldError(f"expected a table, got {kind_of(fields)}.")
        disabled = flag(fields, "disabled")
        spec = make_spec(fields, variables=variables, cwd=variables.base, strict=True)
    except MissingHereError as error:
        return ServerEntry(name, source, disabled=disabled, problem=ConfigError(f"{source}: server {name!r}: {error}"))
    except (FieldError, TargetError) as error:
        path = error.path if isinstance(error, FieldError) else ()
        problem = FieldError(error.message if isinstance(error, FieldError) else str(error), "servers", name, *path)
    else:
        return ready_entry(name, source, spec, disabled, fields)
    raise problem


def _digest(document: Any, servers: Mapping[str, ServerEntry]) -> str:
    """Return the hash of what a document says, and each `env_file` in it: comments are no part of it."""
    said = [document, {name: entry.digest for name, entry in servers.items()}]
    return sha256(json.dumps(said, sort_keys=True, default=repr).encode()).hexdigest()


def _of_entries(entries: list[ServerEntry], source: str, document: Any) -> Declaration:
    servers: dict[str, ServerEntry] = {}
    for entry in entries:
        servers.setdefault(entry.name, entry)
    return Declaration(servers=servers, source=source, digest=_digest(document, servers))


def load_declaration(
    path: Path, *, environ: Mapping[str, str] | None = None, settings: Mapping[str, type] | None = None
) -> Declaration:
    """Read a declaration from a file: TOML, pyproject.toml, or the JSON of another host.

    Raises:
        ConfigError: as `parse_declaration`, or when the file cannot be read.
    """
    path = path.expanduser().absolute()
    if path.suffix == ".json":
        document = parse_json(read_text(path), source=str(path))
        return _of_entries(load_config(path, environ=environ), str(path), document)
    return parse_declaration(read_text(path), source=str(path), environ=environ, base=path.parent, settings=settings)


def find_declaration(directory: Path) -> Path:
    """Return the declaration of a folder: `mcp_magic.toml` before the files that serve as well.

    Raises:
        ConfigError: saying what was looked for.
    """
    for name in _FILES:
        path = directory / name
        if path.is_file() and (name != "pyproject.toml" or _declares(path)):
            return path
    files = "mcp_magic.toml, pyproject.toml with [tool.mcp_magic], mcp.json, .mcp.json"
    raise ConfigError(f"no declaration in {directory.absolute()}. Looked for {files}.")


def _declares(path: Path) -> bool:
    """Tell whether a pyproject.toml has our table; a broken one that names it is ours to complain about."""
    text = read_text(path)
    try:
        return _pyproject_table(parse_toml(text)) is not None
    except tomllib.TOMLDecodeError:
        return "[tool.mcp_magic" in text
