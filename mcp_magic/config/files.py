"""The configuration files of MCP hosts: where they are, and the servers in them. Nothing is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.entries import ServerEntry
from mcp_magic.config.hostfiles import parse_servers
from mcp_magic.config.jsonfile import LARGEST, LARGEST_DATA, parse_json, read_text
from mcp_magic.config.names import slug
from mcp_magic.errors import ConfigError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ENVIRONMENT_SOURCE",
    "ServerEntry",
    "discover_servers",
    "find_configs",
    "find_server",
    "is_personal",
    "load_config",
    "parse_servers",
]

ENVIRONMENT_SOURCE = "MCP_SERVERS"
"""The environment variable that may hold servers as JSON, and their `source`."""

_PROJECT_FILES = ("mcp.json", ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".jupyter/mcp_settings.json")
_EDITOR_FOLDERS = (".vscode", ".cursor", ".jupyter")
_CLAUDE_CODE = ".claude.json"
_CLAUDE_DESKTOP = "claude_desktop_config.json"


def load_config(
    path: Path,
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    directory: Path | None = None,
) -> list[ServerEntry]:
    """Return the servers of one file.

    The files of a project run their commands in the project's folder, as the hosts do.

    Args:
        path: The file.
        environ: The environment, by default this process's.
        home: The person's home folder; files of the person are no project's.
        directory: Whose projects of Claude Code's own file count, by default the current one.

    Raises:
        ConfigError: when it cannot be read, with line and column, or has no servers.
    """
    environ = os.environ if environ is None else environ
    path = path.expanduser().absolute()
    home = home or _home(environ)
    # Claude Code keeps more than its configuration there
    largest = LARGEST_DATA if path == home / _CLAUDE_CODE else LARGEST
    data = parse_json(read_text(path, largest), source=str(path))
    if path.name == _CLAUDE_CODE and isinstance(data, Mapping):
        return _claude_code(data, path, environ, directory or Path.cwd())
    base = path.parent.parent if path.parent.name in _EDITOR_FOLDERS else path.parent
    personal = path.name == _CLAUDE_DESKTOP or base in (home, _jupyter(environ, path.parent))
    return parse_servers(data, source=str(path), environ=environ, base=base, cwd=None if personal else base)


def _claude_code(data: Mapping[str, Any], path: Path, environ: Mapping[str, str], directory: Path) -> list[ServerEntry]:
    """Read `~/.claude.json`: the servers of the folder we are in and those above it, then the person's own."""
    projects = data.get("projects")
    found: list[ServerEntry] = []
    for folder in (directory.absolute(), *directory.absolute().parents):
        project = projects.get(str(folder)) if isinstance(projects, Mapping) else None
        if isinstance(project, Mapping):
            found += _section(project, path, environ, folder, folder)
    return _shadowed(found + _section(data, path, environ, path.parent, None))


def _section(
    data: Mapping[str, Any], path: Path, environ: Mapping[str, str], base: Path, cwd: Path | None
) -> list[ServerEntry]:
    servers = {"mcpServers": data.get("mcpServers") or {}}
    return parse_servers(servers, source=str(path), environ=environ, base=base, cwd=cwd)


def find_configs(directory: Path, *, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the configuration files there are, those that win first.

    A project's files are looked for in `directory` and its parents up to the root of its git repository
    or `home`; when it is in neither, in `directory` only: `/tmp/mcp.json` may be anybody's.
    """
    candidates = [folder / name for folder in _project_folders(directory.absolute(), home) for name in _PROJECT_FILES]
    return [path for path in dict.fromkeys([*candidates, *_personal_files(home, environ)]) if _is_file(path)]


def _personal_files(home: Path, environ: Mapping[str, str]) -> list[Path]:
    appdata = Path(environ["APPDATA"]) if environ.get("APPDATA") else home / "AppData" / "Roaming"
    return [
        home / ".cursor" / "mcp.json",
        home / "Library" / "Application Support" / "Claude" / _CLAUDE_DESKTOP,
        appdata / "Claude" / _CLAUDE_DESKTOP,
        home / ".config" / "Claude" / _CLAUDE_DESKTOP,
        home / _CLAUDE_CODE,
        _jupyter(environ, home) / "mcp_settings.json",
    ]


def is_personal(source: str, *, environ: Mapping[str, str] | None = None) -> bool:
    """Whether a server's `source` is the person's own: the environment, or a file of their home folder.

    >>> is_personal("MCP_SERVERS"), is_personal("/clone/.mcp.json", environ={"HOME": "/home/me"})
    (True, False)
    """
    environ = os.environ if environ is None else environ
    home = _home(environ)
    own = [home / name for name in _PROJECT_FILES]
    return source == ENVIRONMENT_SOURCE or Path(source) in [*own, *_personal_files(home, environ)]


def _project_folders(directory: Path, home: Path) -> list[Path]:
    folders: list[Path] = []
    for folder in (directory, *directory.parents):
        folders.append(folder)
        if folder == home or (folder / ".git").exists():
            return folders
    return [directory]


def _jupyter(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("JUPYTER_CONFIG_DIR") or home / ".jupyter")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be entered has no configuration for us
        return False


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())


def discover_servers(
    directory: Path | None = None, *, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[ServerEntry]:
    """Return every server that is configured anywhere; of two with one name the first is used.

    A file that cannot be read is an entry without a name, whose `problem` says why.
    """
    environ = os.environ if environ is None else environ
    home, directory = home or _home(environ), directory or Path.cwd()
    found: list[ServerEntry] = []
    for path in find_configs(directory, home=home, environ=environ):
        try:
            found += load_config(path, environ=environ, home=home, directory=directory)
        except ConfigError as error:
            found.append(ServerEntry("", str(path), problem=error))
    return _shadowed(found + _from_environment(environ, directory))


def _from_environment(environ: Mapping[str, str], directory: Path) -> list[ServerEntry]:
    text = environ.get(ENVIRONMENT_SOURCE, "")
    if not text.strip():
        return []
    try:
        data = parse_json(text, source=ENVIRONMENT_SOURCE)
        return parse_servers(data, source=ENVIRONMENT_SOURCE, environ=environ, base=directory)
    except ConfigError as error:
        return [ServerEntry("", ENVIRONMENT_SOURCE, problem=error)]


def _shadowed(entries: Iterable[ServerEntry]) -> list[ServerEntry]:
    first: dict[str, str] = {}
    marked: list[ServerEntry] = []
    for entry in entries:
        winner = first.get(entry.name) if entry.name else None
        if entry.name:
            first.setdefault(entry.name, entry.source)
        marked.append(replace(entry, shadowed_by=winner) if winner else entry)
    return marked


def find_server(
    name: str,
    directory: Path | None = None,
    *,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ServerEntry:
    """Return the server that the files call `name`, or call something that becomes that name.

    Raises:
        ConfigError: when there is none, with the closest name and the files that could not be read.
    """
    entries = discover_servers(directory, home=home, environ=environ)
    usable = [entry for entry in entries if entry.name and not entry.shadowed_by]
    for spelling in (str, slug):
        for entry in usable:
            if spelling(entry.name) == name:
                return entry
    hint = did_you_mean(name, [entry.name for entry in usable]) or f" Configured: {listed(e.name for e in usable)}."
    broken = [str(entry.problem) for entry in entries if not entry.name]
    unread = f" Not read: {listed(broken, limit=2)}." if broken else ""
    raise ConfigError(f"No config file has a server {name!r}.{hint}{unread}")
