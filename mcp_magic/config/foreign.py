"""Configuration files of other MCP hosts: where they are, and what is in them in our words. Starts nothing."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.parsing import (
    LARGEST,
    FieldError,
    Variables,
    Verbatim,
    is_variable,
    kind_of,
    parse_json,
    path_of,
    read_text,
    toml_document,
    yaml_document,
)
from mcp_magic.config.sandbox import of_vscode
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The hosts and their files. A row says where a host's files are and how they differ from `mcpServers` with `${VAR}`;
# the fields of all hosts together are below, because none of them means two things.

_FOLDERS = {  # variables of folders, and the folders without them
    "APPDATA": "~/AppData/Roaming",
    "CODEX_HOME": "~/.codex",
    "COPILOT_HOME": "~/.copilot",
    "JUPYTER_CONFIG_DIR": "~/.jupyter",
    "XDG_CONFIG_HOME": "~/.config",
}
_COMMON_KEYS = ("mcpServers", "servers", "mcp_servers")
_CODE_USERS = ("$XDG_CONFIG_HOME/{}/User", "~/Library/Application Support/{}/User", "$APPDATA/{}/User")


@dataclass(frozen=True)
class ForeignHost:
    """Another MCP host."""

    name: str
    project: tuple[str, ...] = ()  # its files in a project's folder; `*` is one name
    personal: tuple[str, ...] = ()  # the user's own files, in `~` or in a folder of `_FOLDERS`
    keys: tuple[str, ...] = _COMMON_KEYS  # where the servers are, with a dot between nested keys
    mixed: bool = False  # whether the files hold other settings, too, so that a file without servers is no mistake
    # how it writes variables: `${VAR}`, `{env:VAR}`, `$VAR` and `${VAR}`, the same in headers only, not at all
    variables: Literal["${}", "{}", "$", "headers", ""] = "${}"
    milliseconds: bool = False  # whether `timeout` is in milliseconds
    trusts: bool = True  # whether `trust` means what it means here
    switches: str = ""  # the key of lists of the `allowed` and the `excluded` servers


CLAUDE_CODE = ".claude.json"

HOSTS = (
    ForeignHost("", ("mcp.json", ".mcp.json")),  # of no host, or of several
    ForeignHost("VS Code", (".vscode/mcp.json",)),
    ForeignHost("Cursor", (".cursor/mcp.json",), ("~/.cursor/mcp.json",)),
    ForeignHost(
        "Claude Desktop",
        personal=tuple(
            f"{folder}/Claude/claude_desktop_config.json"
            for folder in ("~/Library/Application Support", "$APPDATA", "~/.config")
        ),
    ),
    ForeignHost("Claude Code", personal=(f"~/{CLAUDE_CODE}",)),
    ForeignHost("Jupyter AI", (".jupyter/mcp_settings.json",), ("$JUPYTER_CONFIG_DIR/mcp_settings.json",)),
    ForeignHost(
        "VS Code",
        (".vscode/settings.json", "*.code-workspace", ".devcontainer/devcontainer.json", ".devcontainer.json"),
        tuple(
            f"{user.format(product)}/{file}"
            for product in ("Code", "Code - Insiders", "VSCodium")
            for user in _CODE_USERS
            for file in ("mcp.json", "profiles/*/mcp.json", "settings.json")
        ),
        keys=("servers", "mcp.servers", "settings.mcp.servers", "customizations.vscode.mcp.servers"),
        mixed=True,
    ),
    ForeignHost(
        "Codex",
        (".codex/config.toml",),
        ("$CODEX_HOME/config.toml",),
        keys=("mcp_servers",),
        mixed=True,
        variables="",
    ),
    ForeignHost(
        "Gemini CLI",
        (".gemini/settings.json",),
        ("~/.gemini/settings.json",),
        keys=("mcpServers",),
        mixed=True,
        variables="$",
        milliseconds=True,
        trusts=False,
        switches="mcp",
    ),
    ForeignHost("Windsurf", personal=("~/.codeium/windsurf/mcp_config.json", "~/.codeium/mcp_config.json")),
    ForeignHost(
        "OpenCode",
        ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        ("$XDG_CONFIG_HOME/opencode/opencode.json", "$XDG_CONFIG_HOME/opencode/opencode.jsonc"),
        keys=("mcp.servers", "mcp"),
        mixed=True,
        variables="{}",
        milliseconds=True,
    ),
    ForeignHost("Copilot CLI", personal=("$COPILOT_HOME/mcp-config.json",)),
    ForeignHost(
        "Goose",
        personal=("$XDG_CONFIG_HOME/goose/config.yaml", "$APPDATA/Block/goose/config/config.yaml"),
        keys=("extensions",),
        mixed=True,
        variables="headers",
    ),
)
_UNKNOWN = ForeignHost("")
_BY_NAME = {host.name: host for host in HOSTS}
_BY_SUFFIX = {".toml": "Codex", ".yaml": "Goose", ".yml": "Goose"}
MOST_FILES = 20  # that one pattern with `*` finds
SUFFIXES = (".json", ".jsonc", ".code-workspace", ".toml", ".yaml", ".yml")
"""The suffixes of configuration files."""


@dataclass(frozen=True)
class Place:
    """A configuration file."""

    path: Path
    host: ForeignHost
    base: Path  # the folder that it configures
    personal: bool  # whether its commands run where the kernel runs
    everywhere: bool = False  # whether it is for all of the user's projects


def project_files(folder: Path) -> list[Path]:
    """Return the files that the hosts would read in a project's folder, and those of them with `*` that exist."""
    return [path for host in HOSTS for pattern in host.project for path in _matches(folder, pattern)]


def personal_files(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the files of the user's own that the hosts would read on all platforms."""
    return [path for host in HOSTS for path in _personal_files(host, home, environ)]


def is_own(path: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a file is the user's own: a host's, or a project's with the home as the project."""
    relative = path.relative_to(home) if path.is_relative_to(home) else None
    patterns = [pattern for host in HOSTS for pattern in host.project]
    in_home = relative is not None and any(_fits(relative, pattern) for pattern in patterns)
    return in_home or path in personal_files(home, environ)


def place_of(path: Path, home: Path, environ: Mapping[str, str]) -> Place:
    """Return what a configuration file is, by its name and folder."""
    projects = [(pattern, host) for host in HOSTS for pattern in host.project if path.match(pattern)]
    pattern, host = max(projects, key=lambda pair: len(PurePath(pair[0]).parts), default=("", None))
    base = path.parents[max(1, len(PurePath(pattern).parts)) - 1]
    owners = [other for other in HOSTS if path in _personal_files(other, home, environ)]
    if owners:
        return Place(path, owners[0], base, personal=True, everywhere=True)
    if host is None:
        named = [other for other in HOSTS if path.name in [PurePath(file).name for file in other.personal]]
        owner = _BY_SUFFIX.get(path.suffix)
        host = named[0] if len(named) == 1 else _BY_NAME[owner] if owner else _UNKNOWN
    return Place(path, host, base, personal=base == home or (bool(host.personal) and not host.project))


def is_foreign(path: Path) -> bool:
    """Return whether a file with this name is another host's configuration, not a declaration of this project."""
    return path.suffix != ".toml" or path.name == "config.toml"


def _personal_files(host: ForeignHost, home: Path, environ: Mapping[str, str]) -> list[Path]:
    files: list[Path] = []
    for file in host.personal:
        folder, _, name = file.partition("/")
        value = environ.get(folder[1:], "")
        value = value if os.path.isabs(value) else _FOLDERS.get(folder[1:], folder)  # noqa: PTH117
        files += _matches(home / value.removeprefix("~").lstrip("/") if value.startswith("~") else Path(value), name)
    return files


def _matches(folder: Path, pattern: str) -> list[Path]:
    if "*" not in pattern:
        return [folder / pattern]
    # `Path.glob` would raise where a folder is not accessible
    return sorted(folder / name for name in glob.glob(pattern, root_dir=folder))[:MOST_FILES]  # noqa: PTH207


def _fits(relative: Path, pattern: str) -> bool:
    return len(relative.parts) == len(PurePath(pattern).parts) and relative.match(pattern)


# From a file to the tables of its servers.


def read_document(path: Path, largest: int = LARGEST) -> Any:
    """Return the content of a configuration file. Raises ConfigError if it cannot be read."""
    text = read_text(path, largest)
    if path.suffix == ".toml":
        return toml_document(text, str(path))
    return yaml_document(text, str(path)) if path.suffix in (".yaml", ".yml") else parse_json(text, source=str(path))


def server_tables(data: Any, source: str, host: ForeignHost = _UNKNOWN) -> list[tuple[str, Any, ForeignHost]]:
    """Return name, table and host of each server in a document.

    Raises ConfigError if the document has none, unless its host keeps them among other settings.
    """
    if data is None and host.mixed:  # an empty file of YAML
        return []
    if not isinstance(data, Mapping):
        raise ConfigError(f"{source}: expected an object with mcpServers or servers, got {kind_of(data)}.")
    keys = _keys_in(data, host)
    if not keys and not host.name:
        host = _by_content(data) or host
        keys = _keys_in(data, host)
    if not keys and not host.mixed and data:
        if not all(isinstance(fields, Mapping) and fields.keys() & {"command", "url"} for fields in data.values()):
            hint = next((hint for name in data if (hint := did_you_mean(name, _COMMON_KEYS))), "")
            raise ConfigError(f"{source}: no mcpServers or servers in it, only {join_names(data)}.{hint}")
        keys = [""]
    return [(name, fields, host) for key in keys for name, fields in _tables_at(data, key, source)]


def _by_content(data: Mapping[str, Any]) -> ForeignHost | None:
    """Return the host that keeps servers among its settings as this document does."""
    for host in (_BY_NAME["VS Code"], _BY_NAME["OpenCode"]):
        for key in host.keys:
            servers = _at(data, key)
            tables = [*servers.values()] if isinstance(servers, Mapping) else []
            types = {str(fields.get("type")) for fields in tables if isinstance(fields, Mapping)}
            if types and (types <= {"local", "remote"}) == (host.name == "OpenCode"):
                return host
    return None


def _at(data: Any, key: str) -> Any:
    for part in filter(None, key.split(".")):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def _keys_in(data: Mapping[str, Any], host: ForeignHost) -> list[str]:
    """Return the keys of a host that a document has. `null` counts as a mistake where there is nothing but servers."""
    return [
        key
        for key in host.keys
        if (key in data and not host.mixed) or (_at(data, key) is not None and not _is_server(_at(data, key)))
    ]


def _is_server(value: Any) -> bool:
    """Return whether a value is the table of one server: OpenCode 1 may have one with the name `servers`."""
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _tables_at(data: Mapping[str, Any], key: str, source: str) -> Iterator[tuple[str, Any]]:
    servers = _at(data, key)
    if isinstance(servers, list):
        for number, fields in enumerate(servers, 1):
            name = fields.get("name") if isinstance(fields, Mapping) else None
            yield name if isinstance(name, str) and name else f"server {number}", fields
    elif isinstance(servers, Mapping):
        for name, fields in servers.items():
            if key == "mcp" and (not isinstance(fields, Mapping) or (name == "servers" and not _is_server(fields))):
                continue  # of OpenCode 2, which keeps its servers in `mcp.servers`
            if key.endswith("servers") and isinstance(fields, Mapping) and fields.get("type") == "http":
                # VS Code means streamable HTTP *or* SSE, like a URL without a type
                fields = {name: value for name, value in fields.items() if name != "type" or "url" not in fields}
            if isinstance(fields, Mapping) and fields.get("sandboxEnabled") and "sandbox" in data:
                fields = {"sandbox": data["sandbox"], **fields}  # VS Code has one for all servers of the file, too
            yield name, fields
    else:
        raise ConfigError(f"{source}: {key}: expected an object of servers by name, got {kind_of(servers)}.")


def find_inputs(data: Any) -> Any:
    """Return what a document says of VS Code's `${input:ID}`, or None."""
    keys = ["inputs", *(f"{key.removesuffix('servers')}inputs" for host in HOSTS for key in host.keys if "." in key)]
    return next((inputs for key in keys if isinstance(inputs := _at(data, key), list)), None)


def excluded_names(data: Any, host: ForeignHost, names: Iterable[str]) -> set[str]:
    """Return the names of the servers that a file switches off beside their tables."""
    allowed, excluded = (_at(data, f"{host.switches}.{key}") for key in ("allowed", "excluded"))
    if not host.switches:
        return set()
    excluded = excluded if isinstance(excluded, list) else []
    return {name for name in names if name in excluded or (isinstance(allowed, list) and name not in allowed)}


# From the table of a server to one with our keys.

_OWN_NAMES = {"serverUrl": "url", "httpUrl": "url", "uri": "url", "cmd": "command", "oauth": "auth"}
_ENVIRONMENTS = ("env", "environment", "envs")  # OpenCode and others, Goose
_HEADERS = ("headers", "http_headers")  # Codex
_SWITCHES = ("name", "enabled", "isActive", "sandboxEnabled")
_NONE_IF_EMPTY = ("available_tools", "disabled_tools", "disabledTools", "excludeTools", "autoApprove", "alwaysAllow")

_REFUSED = {
    "bearer_token": "a token in the file is refused, as in Codex. Name its variable under bearer_token_env_var.",
    "authProviderType": "is not supported here, so requests would lack its token.",  # Gemini CLI
}
_INSIDE_GOOSE = ("builtin", "platform", "frontend", "inline_python")


def translate(
    fields: Mapping[str, Any], host: ForeignHost, variables: Variables, folder: Path | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the table of another host with our keys and any that are unknown, and keys that have no effect here.

    Raises FieldError for a key without which the server would be less safe, or would not work.

    Args:
        fields: The server's table.
        host: Whose file it is from.
        variables: Those of the file.
        folder: The file's folder.
    """
    _check_refused(fields)
    without: list[str] = []
    table: dict[str, Any] = {}
    for key, value in fields.items():
        if value is not None and value != {} and not (value == [] and key in _NONE_IF_EMPTY):
            translator = _Translator(host, variables, folder, key in _ENVIRONMENTS, key in _HEADERS)
            table[key] = translator.translate(value)
    _rename(table, without)
    if "command" not in table and fields.get("sandboxEnabled"):
        without.append("sandboxEnabled")
    if "command" in table and ("sandbox" in table or fields.get("sandboxEnabled")):  # VS Code
        table["sandbox"] = of_vscode(fields.get("sandbox"), str(fields.get("cwd") or variables.workspace or "."))
    if fields.get("sandboxEnabled") is False:
        table.pop("sandbox", None)
    _merge(table, _ENVIRONMENTS, _environment(table, variables, without))
    _merge(table, _HEADERS, _headers(table))
    if "scopes" in table and isinstance(table.get("auth", {}), Mapping):  # Codex
        table["auth"] = {**table.get("auth", {}), "scopes": table.pop("scopes")}
    _set_timeout(table, host, without)
    if not host.trusts and table.pop("trust", False):
        without.append("trust")
    for key in (*_SWITCHES, *_REFUSED):
        table.pop(key, None)
    if table.get("tools") == ["*"]:
        del table["tools"]
    return table, without


def _rename(table: dict[str, Any], without: list[str]) -> None:
    """Put what means the same under our keys."""
    if "httpUrl" in table and table.pop("url", None) is not None:  # Gemini CLI takes this one of both
        without.append("url")
    for key, own in _OWN_NAMES.items():
        if key in table and own not in table:
            table[own] = table.pop(key)
    if table.get("type") == "remote":  # OpenCode: streamable HTTP or SSE
        del table["type"]
    if isinstance(table.get("command"), list) and table["command"]:
        table["command"], *args = table["command"]
        table["args"] = [*args, *table.get("args", [])] if isinstance(table.get("args", []), list) else table["args"]


def _check_refused(fields: Mapping[str, Any]) -> None:
    for key, reason in _REFUSED.items():
        usual = key == "authProviderType" and fields.get(key) == "dynamic_discovery"
        if fields.get(key) and not usual:
            raise FieldError(reason, key)
    if fields.get("type") in _INSIDE_GOOSE:
        raise FieldError(f"{fields['type']!r} is a part of Goose, which nothing else can start.", "type")


def _merge(table: dict[str, Any], keys: tuple[str, ...], more: Mapping[str, str]) -> None:
    """Put the values of several keys, and more, under the first key."""
    values = [table.pop(key) for key in keys if key in table]
    if len(values) == 1 and not more:
        table[keys[0]] = values[0]
    elif values or more:
        if wrong := [value for value in values if not isinstance(value, Mapping)]:
            raise FieldError(f"expected names with values, got {kind_of(wrong[0])}.", keys[0])
        table[keys[0]] = {name: text for value in (more, *values) for name, text in value.items()}


def _environment(table: dict[str, Any], variables: Variables, without: list[str]) -> dict[str, str]:
    """Return the variables of this process that a table passes on. Those that need not be set may be left out."""
    names = _names(table, "env_keys")  # Goose
    for name in _names(table, "env_vars"):  # Codex
        if name in variables:
            names.append(name)
        else:
            without.append(f"env_vars.{name}")
    return {name: f"${{{name}}}" for name in names}


def _names(table: dict[str, Any], key: str) -> list[str]:
    values = table.pop(key, [])
    if not isinstance(values, list):
        raise FieldError(f"expected a list of names of variables, got {kind_of(values)}.", key)
    names = [value.get("name") if isinstance(value, Mapping) else value for value in values]
    if not all(map(is_variable, names)):
        raise FieldError("expected a list of names of variables.", key)
    return [str(name) for name in names]


def _headers(table: dict[str, Any]) -> dict[str, str]:
    """Return the headers of Codex whose values are in variables."""
    variables = table.pop("env_http_headers", {})
    if not isinstance(variables, Mapping) or not all(map(is_variable, variables.values())):
        raise FieldError("expected headers with the names of their variables.", "env_http_headers")
    headers = {name: f"${{{variable}}}" for name, variable in variables.items()}
    token = table.pop("bearer_token_env_var", None)
    if token is not None and not is_variable(token):
        raise FieldError("expected the name of a variable.", "bearer_token_env_var")
    return headers if token is None else {**headers, "Authorization": f"Bearer ${{{token}}}"}


def _set_timeout(table: dict[str, Any], host: ForeignHost, without: list[str]) -> None:
    """Set the seconds for the handshake."""
    if host.milliseconds and "timeout" in table:
        table["timeout"] = _divided(table["timeout"], 1000)
        if not isinstance(table["timeout"], (int, float)):  # OpenCode 2 has a table of them
            del table["timeout"]
            without.append("timeout")
    for key, factor in (("startup_timeout_ms", 1000), ("startup_timeout_sec", 1)):  # Codex
        if key in table:
            table["timeout"] = _divided(table.pop(key), factor)


def _divided(value: Any, factor: int) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < sys.maxsize
    return value / factor if is_number else value


# Variables and files in the texts of other hosts, as ours.

_BRACES = re.compile(r"\{(env|file):([^{}]+)\}")
_DOLLAR = re.compile(r"\$([A-Za-z_]\w*)")


@dataclass(frozen=True)
class _Translator:
    """Writes the variables and files in one value of a table as ours."""

    host: ForeignHost
    variables: Variables
    folder: Path | None
    in_environment: bool
    in_headers: bool

    def translate(self, value: Any) -> Any:
        """Return the value with its variables and files written as ours."""
        if isinstance(value, dict):
            return {key: self.translate(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.translate(inner) for inner in value]
        return self._of_text(value) if isinstance(value, str) else value

    def _of_text(self, text: str) -> str:
        syntax = self.host.variables
        if syntax == "${}":
            return text
        if syntax == "$" or (syntax == "headers" and self.in_headers):
            return _DOLLAR.sub(self._of_dollar, text)
        if syntax == "{}" and _BRACES.search(text):
            return _BRACES.sub(self._of_braces, text)
        return Verbatim(text)

    def _of_dollar(self, match: re.Match[str]) -> str:
        """Return `$VAR` as `${VAR}`. In a command it stays if it is not set, because it may be for a shell."""
        needed = self.in_environment or self.in_headers
        return f"${{{match[1]}}}" if needed or match[1] in self.variables else match[0]

    def _of_braces(self, match: re.Match[str]) -> str:
        kind, name = match[1], match[2].strip()
        if kind == "file":
            return f"${{file:{path_of(name, self.folder)}}}"
        return f"${{{name}}}" if is_variable(name) else match[0]
