"""Finds the servers in configuration files, of this project and of other MCP hosts. Starts none."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.parsing import (
    LARGEST,
    LARGEST_DATA,
    PROTOCOLS,
    SAMPLING_MODES,
    FieldError,
    MissingHereError,
    Variables,
    as_text,
    choice,
    flag,
    kind_of,
    parse_json,
    path_of,
    read_env_file,
    read_text,
    reject_unknown,
    seconds,
    slug,
    text,
    texts,
    working_directory,
)
from mcp_magic.config.references import (
    check_expanded,
    find_references,
    find_uses,
    mark_references,
    parse_inputs,
)
from mcp_magic.config.sandbox import make_sandbox, of_vscode
from mcp_magic.config.specs import (
    DEFAULT_TIMEOUT,
    HeadersHelper,
    HttpSpec,
    Spec,
    SseSpec,
    StdioSpec,
    UrlSpec,
    WebSocketSpec,
    foreign_auth,
    make_auth,
)
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# From the table of one server to its spec.

SPEC_TYPES: dict[str, type[Spec]] = {"stdio": StdioSpec, "http": HttpSpec, "sse": SseSpec, "ws": WebSocketSpec}
"""Values of `type`, `transport` and `--transport`."""

_SPELLINGS = {"streamable-http": "http", "streamablehttp": "http", "websocket": "ws", "local": "stdio"}
_SCHEMES = {HttpSpec: ("http", "https"), SseSpec: ("http", "https"), WebSocketSpec: ("ws", "wss")}
_ALIASES = {"type": "transport", "envFile": "env_file", "headersHelper": "headers_helper"}
_COMMAND_KEYS = ("command", "args", "env", "cwd", "env_file", "sandbox")
_URL_KEYS = ("url", "headers", "headers_helper", "verify", "cert", "auth")
_SHARED_KEYS = ("transport", "timeout", "trust", "sampling", "reconnect", "protocol", "disabled")
SERVER_KEYS = (*_COMMAND_KEYS, *_URL_KEYS, *_SHARED_KEYS)

# Keys of other hosts. Any other is named as unused, in the listing and when the server is connected.
_FOREIGN_ALIASES = {"serverUrl": "url", "httpUrl": "url", "environment": "env", "oauth": "auth"}
_FOREIGN_SWITCHES = ("name", "enabled", "isActive", "sandboxEnabled")
_NO_HEADERS = "is not supported here, so requests would lack these headers. Write them under headers, as ${VAR}."
_REFUSED = {
    "bearer_token_env_var": _NO_HEADERS,  # Codex
    "env_http_headers": _NO_HEADERS,
    "http_headers": _NO_HEADERS,
    "authProviderType": "is not supported here, so requests would lack its token.",  # Gemini CLI
}


@dataclass(frozen=True)
class ServerEntry:
    """A configured server, not started."""

    name: str  # as in the file; empty if `problem` concerns the whole file
    source: str  # the file's path, or "MCP_SERVERS"
    spec: Spec | None = None  # None if `problem` says why it is unknown
    disabled: bool = False
    problem: ConfigError | None = None
    shadowed_by: str | None = None  # the source whose server of this name is used instead
    variables: tuple[str, ...] = ()  # the names of those that its `${VAR}` pass to it
    launch: str = ""  # the command line or URL as in the file: `${VAR}` not expanded, secrets masked
    sets: tuple[str, ...] = ()  # the names of the variables and headers that the file sets
    digest: str = ""  # the hash of its table and of the variables from its `env_file`


def _ready_entry(name: str, source: str, spec: Spec, disabled: bool, fields: Mapping[str, Any]) -> ServerEntry:
    """Return the entry of a server with a valid table."""
    if fields.get("command") is None:
        launch = mask_url(next(fields[key] for key in ("url", "serverUrl", "httpUrl") if fields.get(key)))
    else:
        launch = shlex.join(mask_arguments((fields["command"], *map(str, fields.get("args") or ()))))
    sets = tuple(spec.env if isinstance(spec, StdioSpec) else spec.headers if isinstance(spec, UrlSpec) else ())
    from_file = {}
    if isinstance(spec, StdioSpec) and (fields.get("env_file") or fields.get("envFile")):
        from_file = {name: value for name, value in spec.env.items() if name not in texts(fields, "env")}
    digest = sha256(json.dumps([fields, from_file], sort_keys=True, default=repr).encode()).hexdigest()
    return ServerEntry(
        name, source, spec, disabled, variables=tuple(spec.variables), launch=launch, sets=sets, digest=digest
    )


def spec_type(transport: Any) -> type[Spec]:
    """Return the spec class of a transport. Raises FieldError if the transport is unknown.

    >>> spec_type("streamableHttp").__name__
    'HttpSpec'
    """
    name = str(transport).lower().replace("_", "-")
    name = _SPELLINGS.get(name, name)
    if name not in SPEC_TYPES:
        valid = "stdio, http (streamable-http), sse, ws (websocket)"
        raise FieldError(f"unknown value {transport!r}.{did_you_mean(name, SPEC_TYPES)} Valid: {valid}.", "transport")
    return SPEC_TYPES[name]


def url_spec(url: str, transport: str | None = None, **rest: Any) -> UrlSpec:
    """Return the spec of a server with a URL; without a transport, the scheme of the URL decides."""
    scheme = _checked_scheme(url)
    if "auth" in rest and (transport is None and scheme in ("ws", "wss")):
        raise FieldError("is for HTTP servers; a WebSocket server takes headers.", "auth")
    if transport is None:
        if scheme in ("ws", "wss"):
            return WebSocketSpec(url=url, **rest)
        return HttpSpec(url=url, fallback=True, **rest)
    kind = spec_type(transport)
    if not issubclass(kind, UrlSpec):
        raise FieldError(f"the transport {transport!r} needs a command, not a url.")
    if scheme not in _SCHEMES[kind]:
        schemes = " or ".join(f"{valid}://" for valid in _SCHEMES[kind])
        raise FieldError(f"the transport {transport!r} needs a URL with {schemes}, not {scheme}://.")
    return kind(url=url, **rest)


def _checked_scheme(url: str) -> str:
    url = mark_references(url, "x")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # reading the port validates it
    except ValueError:
        host = None
    if not host or any(c.isspace() for c in url):
        raise FieldError("not a URL with a host, for example http://127.0.0.1:8000/mcp.", "url")
    if parts.scheme not in ("http", "https", "ws", "wss"):
        raise FieldError(f"the scheme {parts.scheme!r} is not supported. Valid: http, https, ws, wss.", "url")
    return parts.scheme


def make_spec(
    fields: Mapping[str, Any], *, variables: Variables, cwd: Path | None = None, strict: bool = False
) -> Spec:
    """Return the spec of one server, from its table in a config file. Raises FieldError if the table has a mistake."""
    unused: tuple[str, ...] = ()
    if strict:
        reject_unknown(fields, (*SERVER_KEYS, *_ALIASES))
    else:
        fields, unused = _translated(fields)
    values = {_ALIASES.get(key, key): value for key, value in fields.items() if value is not None}
    helper = values.pop("headers_helper", None)  # for a shell, which expands variables itself
    values = {key: values[key] for key in SERVER_KEYS if key in values}
    references = find_uses(values)
    table = {key: variables.expand(value) for key, value in values.items()}
    check_expanded(values, table)
    has_command = _checked_kind(table)
    written = {**table, "headers_helper": helper} if helper is not None else table
    wrong = [key for key in (_URL_KEYS if has_command else _COMMAND_KEYS) if key in written]
    if strict and wrong:
        hint = "with a url, not a command" if has_command else "with a command, not a url"
        raise FieldError(f"is for servers {hint}.", wrong[0])
    rest: dict[str, Any] = {"timeout": seconds(table.get("timeout", DEFAULT_TIMEOUT)), "trust": flag(table, "trust")}
    rest["unused"] = unused
    rest["variables"] = variables.values(list(values.values()))
    rest |= {"references": references, "inputs": variables.inputs} if references else {}
    if "sampling" in table and (strict or not isinstance(table["sampling"], dict)):  # a table is of another host
        rest["sampling"] = choice("sampling", table["sampling"], SAMPLING_MODES)
    rest |= {"reconnect": flag(table, "reconnect")} if "reconnect" in table else {}
    if "protocol" in table and (strict or table["protocol"] in PROTOCOLS):  # in other hosts' files it may mean anything
        rest["protocol"] = choice("protocol", table["protocol"], PROTOCOLS)
    if has_command:
        return _stdio(table, variables.base, cwd, rest)
    if helper is not None:
        rest["headers_helper"] = HeadersHelper(_checked_helper(helper), cwd)
    if table.get("verify") is not None or table.get("cert") is not None:
        rest |= _tls(table, variables.base)
    if "auth" in table:
        rest["auth"] = make_auth(table["auth"], variables.base) if strict else foreign_auth(table["auth"])[0]
    return url_spec(text(table, "url"), table.get("transport"), headers=texts(table, "headers"), **rest)


def _checked_helper(command: Any) -> str:
    """Return the command that writes headers. A secret in it would be in the list of processes."""
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise FieldError(f"expected a command as text, got {kind_of(command)}.", "headers_helper")
    if find_references(command):
        raise FieldError("a command cannot have references to secrets; put them under headers.", "headers_helper")
    return command


def _translated(fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the table of another host with our keys, and the keys that have no effect here.

    Raises FieldError for a key without which the server would be less safe, or would not work.
    """
    for key, reason in _REFUSED.items():
        if fields.get(key):
            raise FieldError(reason, key)
    table = {key: value for key, value in fields.items() if value is not None and value != {}}
    if "command" in table and ("sandbox" in table or fields.get("sandboxEnabled")):
        table["sandbox"] = of_vscode(fields.get("sandbox"), str(fields.get("cwd") or "."))
    if fields.get("sandboxEnabled") is False:
        table.pop("sandbox", None)
    for key, own in _FOREIGN_ALIASES.items():
        if key in table and own not in table:
            table[own] = table.pop(key)
    keys = (*SERVER_KEYS, *_ALIASES, *_FOREIGN_SWITCHES, *_REFUSED)
    unused = [key for key in table if key not in keys and not (key == "tools" and table[key] == ["*"])]
    others = (*_URL_KEYS, "headersHelper") if "command" in table else (*_COMMAND_KEYS, "envFile")
    unused += [key for key in others if key in table and not ("url" in table and "command" in table)]
    unused += ["sampling"] if isinstance(table.get("sampling"), dict) else []
    unused += ["protocol"] if table.get("protocol", PROTOCOLS[0]) not in PROTOCOLS else []
    unused += [f"auth.{key}" for key in foreign_auth(table.get("auth"))[1] if "auth" not in unused]
    return table, tuple(unused)


def _checked_kind(table: Mapping[str, Any]) -> bool:
    """Return whether the server has a command; raise FieldError if it has no command or URL, both, or the wrong one."""
    wants_command = "transport" in table and spec_type(table["transport"]) is StdioSpec
    if "command" in table and "url" in table:
        raise FieldError("has both command and url. Keep one: command (stdio) or url (http, sse, ws).")
    if "command" not in table and "url" not in table:
        needs = "a command" if wants_command else "a url" if "transport" in table else "a command (stdio) or a url"
        raise FieldError(f"needs {needs}.")
    if "command" in table and "transport" in table and not wants_command:
        raise FieldError(f"the transport {table['transport']!r} needs a url, not a command.")
    return "command" in table


def _stdio(table: Mapping[str, Any], base: Path | None, cwd: Path | None, rest: Mapping[str, Any]) -> StdioSpec:
    args = table.get("args", [])
    if not isinstance(args, list):
        raise FieldError(f"expected a list of strings, got {kind_of(args)}.", "args")
    env: dict[str, str] = {}
    if "env_file" in table:
        env |= read_env_file(path_of(text(table, "env_file"), base))
    env |= texts(table, "env")
    folder = path_of(text(table, "cwd"), base) if table.get("cwd") else cwd
    words = tuple(as_text(arg, "args", number) for number, arg in enumerate(args))
    sandbox = make_sandbox(table["sandbox"], base) if "sandbox" in table else None
    return StdioSpec(command=text(table, "command"), args=words, env=env, cwd=folder, sandbox=sandbox, **rest)


def _tls(table: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    verify, cert = table.get("verify", True), table.get("cert")
    if not isinstance(verify, (bool, str)):
        raise FieldError(f"expected true, false or the path of a CA bundle, got {kind_of(verify)}.", "verify")
    paths = [cert] if isinstance(cert, str) else cert or []
    if not isinstance(paths, list) or len(paths) > 2 or not all(isinstance(path, str) for path in paths):
        raise FieldError("expected the path of a certificate, or [certificate, key].", "cert")
    files = tuple(str(path_of(path, base)) for path in paths)
    return {
        "verify": str(path_of(verify, base)) if isinstance(verify, str) else verify,
        "cert": files[0] if len(files) == 1 else files or None,
    }


# The three formats of MCP hosts: `mcpServers` (Claude Desktop, Claude Code, Cursor and most others), `servers`
# (VS Code) and `mcp_servers` (Jupyter AI: a list, with `env` and `headers` as lists of `{"name", "value"}`). A mistake
# in one server is that entry's `problem`, and the others stay usable. A `timeout` is in seconds.

_KEYS = ("mcpServers", "servers", "mcp_servers")


def parse_servers(
    data: Any, *, source: str, environ: Mapping[str, str], base: Path | None, cwd: Path | None = None
) -> list[ServerEntry]:
    """Return the servers of one parsed configuration, in its order."""
    inputs = parse_inputs(data.get("inputs"), source) if isinstance(data, Mapping) else {}
    variables = Variables(environ, base, inputs)
    return [make_entry(name, fields, source, variables, cwd) for name, fields in _tables(data, source)]


def _tables(data: Any, source: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{source}: expected an object with mcpServers or servers, got {kind_of(data)}.")
    keys = [key for key in _KEYS if key in data]
    if not keys and data and not all(isinstance(v, Mapping) and v.keys() & {"command", "url"} for v in data.values()):
        hint = next((hint for name in data if (hint := did_you_mean(name, _KEYS))), "")
        raise ConfigError(f"{source}: no mcpServers or servers in it, only {join_names(data)}.{hint}")
    for key in keys or [""]:
        yield from _tables_of(data[key] if key else data, key, source)


def _tables_of(servers: Any, key: str, source: str) -> Iterator[tuple[str, Any]]:
    if isinstance(servers, list):
        for number, fields in enumerate(servers, 1):
            name = fields.get("name") if isinstance(fields, Mapping) else None
            yield name if isinstance(name, str) and name else f"server {number}", fields
    elif isinstance(servers, Mapping):
        for name, fields in servers.items():
            if key == "servers" and isinstance(fields, Mapping) and fields.get("type") == "http" and "url" in fields:
                # VS Code means streamable HTTP *or* SSE, like a URL without a type
                fields = {name: value for name, value in fields.items() if name != "type"}
            yield name, fields
    else:
        raise ConfigError(f"{source}: {key}: expected an object of servers by name, got {kind_of(servers)}.")


def make_entry(
    name: str, fields: Any, source: str, variables: Variables, cwd: Path | None, *, strict: bool = False
) -> ServerEntry:
    """Return the entry of one server.

    A mistake becomes its problem; with `strict`, only what this machine lacks does, and another mistake raises
    FieldError.
    """
    disabled = False
    try:
        if not isinstance(fields, Mapping):
            raise FieldError(f"expected {'a table' if strict else 'an object'}, got {kind_of(fields)}.")
        disabled = flag(fields, "disabled")
        if not strict:  # other hosts have other switches
            disabled = disabled or fields.get("enabled") is False or fields.get("isActive") is False
        spec = make_spec(fields, variables=variables, cwd=cwd, strict=strict)
    except FieldError as error:
        if strict and not isinstance(error, MissingHereError):
            raise
        problem = ConfigError(f"{source}: server {name!r}: {error}")
        return ServerEntry(name, source, disabled=disabled, problem=problem)
    return _ready_entry(name, source, spec, disabled, fields)


# The configuration files of MCP hosts, and the servers in them.

ENVIRONMENT_SOURCE = "MCP_SERVERS"
"""Environment variable that may hold servers as JSON; also the `source` of these servers."""

_PROJECT_FILES = ("mcp.json", ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".jupyter/mcp_settings.json")
_EDITOR_FOLDERS = (".vscode", ".cursor", ".jupyter")
_CLAUDE_CODE = ".claude.json"
_CLAUDE_DESKTOP = "claude_desktop_config.json"


def load_config(
    path: Path, *, environ: Mapping[str, str] | None = None, home: Path | None = None, directory: Path | None = None
) -> list[ServerEntry]:
    """Return the servers of one file.

    Commands in a project's file run in the project's folder, as in the other hosts.
    """
    environ = os.environ if environ is None else environ
    path = path.expanduser().absolute()
    home = home or _home(environ)
    # Claude Code keeps more than configuration in this file.
    largest = LARGEST_DATA if path == home / _CLAUDE_CODE else LARGEST
    data = parse_json(read_text(path, largest), source=str(path))
    if path.name == _CLAUDE_CODE and isinstance(data, Mapping):
        return _claude_code(data, path, environ, directory or working_directory())
    base = path.parent.parent if path.parent.name in _EDITOR_FOLDERS else path.parent
    personal = path.name == _CLAUDE_DESKTOP or base in (home, _jupyter(environ, path.parent))
    return parse_servers(data, source=str(path), environ=environ, base=base, cwd=None if personal else base)


def _claude_code(data: Mapping[str, Any], path: Path, environ: Mapping[str, str], directory: Path) -> list[ServerEntry]:
    """Return the servers in `~/.claude.json`: first those of `directory` and its parents, then the user's own."""
    projects = data.get("projects")
    entries: list[ServerEntry] = []
    for folder in (directory.absolute(), *directory.absolute().parents):
        project = projects.get(str(folder)) if isinstance(projects, Mapping) else None
        if isinstance(project, Mapping):
            off = project.get("disabledMcpServers")
            off = off if isinstance(off, list) else []
            section = _section(project, path, environ, folder, folder)
            entries += [replace(entry, disabled=entry.disabled or entry.name in off) for entry in section]
    return _shadowed(entries + _section(data, path, environ, path.parent, None))


def _section(
    data: Mapping[str, Any], path: Path, environ: Mapping[str, str], base: Path, cwd: Path | None
) -> list[ServerEntry]:
    servers = {"mcpServers": data.get("mcpServers") or {}}
    return parse_servers(servers, source=str(path), environ=environ, base=base, cwd=cwd)


def find_configs(directory: Path, *, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files; earlier ones win.

    Searches for a project's files in `directory` and its parents up to the root of its git repository or `home`. If
    `directory` is in neither, searches only `directory`, because a file such as `/tmp/mcp.json` may be anyone's.
    """
    candidates = [folder / name for folder in _project_folders(directory.absolute(), home) for name in _PROJECT_FILES]
    candidates += _personal_files(home, environ)
    # `Path.is_file` would raise where a folder is not accessible
    return [path for path in dict.fromkeys(candidates) if os.path.isfile(path)]  # noqa: PTH113


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
    """Return whether a server's `source` is the user's own: the environment, or a file in their home folder.

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


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())


def discover_servers(
    directory: Path | None = None, *, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> list[ServerEntry]:
    """Return all configured servers. The first of several with the same name is used, and shadows the others.

    A file that cannot be read becomes an entry without a name, whose `problem` says why.
    """
    environ = os.environ if environ is None else environ
    home, directory = home or _home(environ), directory or working_directory()
    entries: list[ServerEntry] = []
    for path in find_configs(directory, home=home, environ=environ):
        try:
            entries += load_config(path, environ=environ, home=home, directory=directory)
        except ConfigError as error:
            entries.append(ServerEntry("", str(path), problem=error))
    return _shadowed(entries + _from_environment(environ, directory))


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
    name: str, directory: Path | None = None, *, home: Path | None = None, environ: Mapping[str, str] | None = None
) -> ServerEntry:
    """Return the configured server with this name, or with a name whose `slug` is this name."""
    entries = discover_servers(directory, home=home, environ=environ)
    usable = [entry for entry in entries if entry.name and not entry.shadowed_by]
    for spelling in (str, slug):
        for entry in usable:
            if spelling(entry.name) == name:
                return entry
    hint = did_you_mean(name, [entry.name for entry in usable]) or f" Configured: {join_names(e.name for e in usable)}."
    broken = [str(entry.problem) for entry in entries if not entry.name]
    unread = f" Not read: {join_names(broken, limit=2)}." if broken else ""
    raise ConfigError(f"No config file has a server {name!r}.{hint}{unread}")
