"""Finds the servers in configuration files, of this project and of other MCP hosts. Starts none."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.foreign import (
    CLAUDE_CODE,
    ForeignHost,
    Place,
    excluded_names,
    find_inputs,
    is_own,
    personal_files,
    place_of,
    project_files,
    read_document,
    server_tables,
    translate,
)
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
from mcp_magic.config.sandbox import make_sandbox
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
    from collections.abc import Iterable, Sequence


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


@dataclass(frozen=True)
class ServerEntry:
    """A configured server, not started."""

    name: str  # as in the file; empty if `problem` concerns the whole file
    source: str  # the file's path, or "MCP_SERVERS"
    host: str = field(default="", kw_only=True)  # the MCP host whose file it is, or "" if it is of none or of several
    spec: Spec | None = None  # None if `problem` says why it is unknown
    disabled: bool = False
    problem: ConfigError | None = None
    shadowed_by: str | None = None  # the source whose server of this name is used instead
    variables: tuple[str, ...] = ()  # the names of those that its `${VAR}` pass to it
    launch: str = ""  # the command line or URL as in the file: `${VAR}` not expanded, secrets masked
    sets: tuple[str, ...] = ()  # the names of the variables and headers that the file sets
    digest: str = ""  # the hash of its table and of the variables from its `env_file`

    @property
    def reason(self) -> str:
        """The problem, without the file and the name that the entry has."""
        text = re.sub(rf"^{re.escape(self.source)}:(?:(\d+):)? ", _line_number, str(self.problem or ""))
        return text.removeprefix(f"server {self.name!r}: ")


def _line_number(match: re.Match[str]) -> str:
    return f"line {match[1]}: " if match[1] else ""


def _ready_entry(
    name: str, source: str, spec: Spec, disabled: bool, fields: Mapping[str, Any], document: Mapping[str, Any]
) -> ServerEntry:
    """Return the entry of a server with a valid table, which is in the document in its host's own words."""
    if fields.get("command") is None:
        launch = mask_url(fields["url"])
    else:
        launch = shlex.join(mask_arguments((fields["command"], *map(str, fields.get("args") or ()))))
    sets = tuple(spec.env if isinstance(spec, StdioSpec) else spec.headers if isinstance(spec, UrlSpec) else ())
    from_file = {}
    if isinstance(spec, StdioSpec) and (fields.get("env_file") or fields.get("envFile")):
        from_file = {name: value for name, value in spec.env.items() if name not in texts(fields, "env")}
    content = [document, from_file, *(name for name in spec.variables if name.startswith("file:"))]
    digest = sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()
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
    fields: Mapping[str, Any],
    *,
    variables: Variables,
    cwd: Path | None = None,
    strict: bool = False,
    unused: Sequence[str] = (),
) -> Spec:
    """Return the spec of one server, from its table in a config file. Raises FieldError if the table has a mistake.

    Args:
        fields: The table, with our keys.
        variables: Those of the file.
        cwd: Where its command runs if the table does not say it.
        strict: Whether an unknown key is a mistake, as in a file of ours; else it is named as unused.
        unused: Keys of the table that have no effect here.
    """
    if strict:
        reject_unknown(fields, (*SERVER_KEYS, *_ALIASES))
    else:
        unused = (*_unused(fields), *unused)
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
    rest["unused"] = tuple(unused)
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


def _unused(table: Mapping[str, Any]) -> list[str]:
    """Return the keys of another host's table that have no effect here."""
    unused = [key for key in table if key not in (*SERVER_KEYS, *_ALIASES)]
    others = (*_URL_KEYS, "headersHelper") if "command" in table else (*_COMMAND_KEYS, "envFile")
    unused += [key for key in others if key in table and not ("url" in table and "command" in table)]
    unused += ["sampling"] if isinstance(table.get("sampling"), dict) else []
    unused += ["protocol"] if table.get("protocol", PROTOCOLS[0]) not in PROTOCOLS else []
    return unused + [f"auth.{key}" for key in foreign_auth(table.get("auth"))[1] if "auth" not in unused]


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


# A mistake in one server of a file is that entry's `problem`, and the others stay usable.


def parse_servers(
    data: Any,
    *,
    source: str,
    environ: Mapping[str, str],
    base: Path | None,
    cwd: Path | None = None,
    place: Place | None = None,
    workspace: Path | None = None,
) -> list[ServerEntry]:
    """Return the servers of one parsed configuration, in its order.

    Args:
        data: The document.
        source: The file, for messages.
        environ: The values of variables.
        base: The folder that the file configures.
        cwd: Where its commands run; None for where the kernel runs.
        place: The file, if the host is known whose it is.
        workspace: The folder that `${workspaceFolder}` means; by default `base`.
    """
    owner = place.host if place else ForeignHost("")
    inputs = parse_inputs(find_inputs(data), source)
    variables = Variables(environ, base, inputs, workspace, owner.variables == "${}")
    folder = place.path.parent if place else base
    entries = [
        make_entry(name, fields, source, variables, cwd, host=host, folder=folder)
        for name, fields, host in server_tables(data, source, owner)
    ]
    off = excluded_names(data, owner, [entry.name for entry in entries])
    return [replace(entry, disabled=entry.disabled or entry.name in off) for entry in entries]


def make_entry(
    name: str,
    fields: Any,
    source: str,
    variables: Variables,
    cwd: Path | None,
    *,
    host: ForeignHost | None = None,
    folder: Path | None = None,
) -> ServerEntry:
    """Return the entry of one server of a file of ours, or of another host.

    A mistake becomes its problem; in a file of ours, only what this machine lacks does, and another mistake raises
    FieldError.
    """
    disabled, strict, owner = False, host is None, host.name if host else ""
    try:
        if not isinstance(fields, Mapping):
            raise FieldError(f"expected {'a table' if strict else 'an object'}, got {kind_of(fields)}.")
        disabled = flag(fields, "disabled")
        table, unused = dict(fields), list[str]()
        if host is not None:  # other hosts have other switches
            disabled = disabled or fields.get("enabled") is False or fields.get("isActive") is False
            table, unused = translate(fields, host, variables, folder)
        spec = make_spec(table, variables=variables, cwd=cwd, strict=strict, unused=unused)
        entry = _ready_entry(name, source, spec, disabled, table, fields)
    except FieldError as error:
        if strict and not isinstance(error, MissingHereError):
            raise
        problem = ConfigError(f"{source}: server {name!r}: {error}")
    except RecursionError:
        problem = ConfigError(f"{source}: server {name!r}: nested too deeply")
    else:
        if not _leads_to_a_kernel(spec):
            return replace(entry, host=owner)
        disabled, problem = True, ConfigError(f"{source}: server {name!r}: {_FOR_AGENTS}")
    return ServerEntry(name, source, disabled=disabled, problem=problem, host=owner)


_FOR_AGENTS = (
    "it leads agents outside to the kernel, which does not connect to itself. To another kernel: "
    "`%mcp connect -- python -m mcp_magic proxy --kernel NOTEBOOK`"
)


def _leads_to_a_kernel(spec: Spec) -> bool:
    """Whether a server is our proxy, as `%mcp serve --kernel --to` writes it: its calls would go in a circle."""
    return isinstance(spec, StdioSpec) and "-m mcp_magic proxy" in " ".join(spec.args)


# The configuration files of MCP hosts, and the servers in them.

ENVIRONMENT_SOURCE = "MCP_SERVERS"
"""Environment variable that may hold servers as JSON; also the `source` of these servers."""


def load_config(
    path: Path, *, environ: Mapping[str, str] | None = None, home: Path | None = None, directory: Path | None = None
) -> list[ServerEntry]:
    """Return the servers of one file.

    Commands in a project's file run in the project's folder, as in the other hosts.
    """
    environ = os.environ if environ is None else environ
    path = path.expanduser().absolute()
    home = home or _home(environ)
    place = place_of(path, home, environ)
    # Claude Code keeps more than configuration in this file.
    data = read_document(path, LARGEST_DATA if path == home / CLAUDE_CODE else LARGEST)
    if path.name == CLAUDE_CODE and isinstance(data, Mapping):
        return _claude_code(data, place, environ, directory or working_directory())
    base, cwd = place.base, None if place.personal else place.base
    workspace = (directory or working_directory()) if place.everywhere else None
    return parse_servers(data, source=str(path), environ=environ, base=base, cwd=cwd, place=place, workspace=workspace)


def _claude_code(
    data: Mapping[str, Any], place: Place, environ: Mapping[str, str], directory: Path
) -> list[ServerEntry]:
    """Return the servers in `~/.claude.json`: first those of `directory` and its parents, then the user's own."""
    projects = data.get("projects")
    entries: list[ServerEntry] = []
    for folder in (directory.absolute(), *directory.absolute().parents):
        project = projects.get(str(folder)) if isinstance(projects, Mapping) else None
        if isinstance(project, Mapping):
            off = project.get("disabledMcpServers")
            off = off if isinstance(off, list) else []
            section = _section(project, place, environ, folder, folder)
            entries += [replace(entry, disabled=entry.disabled or entry.name in off) for entry in section]
    return _shadowed(entries + _section(data, place, environ, place.path.parent, None))


def _section(
    data: Mapping[str, Any], place: Place, environ: Mapping[str, str], base: Path, cwd: Path | None
) -> list[ServerEntry]:
    servers = {"mcpServers": data.get("mcpServers") or {}}
    return parse_servers(servers, source=str(place.path), environ=environ, base=base, cwd=cwd, place=place)


def find_configs(directory: Path, *, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files; earlier ones win.

    Searches for a project's files in `directory` and its parents up to the root of its git repository or `home`. If
    `directory` is in neither, searches only `directory`, because a file such as `/tmp/mcp.json` may be anyone's.
    """
    candidates = [path for folder in _project_folders(directory.absolute(), home) for path in project_files(folder)]
    candidates += personal_files(home, environ)
    # `Path.is_file` would raise where a folder is not accessible
    return [path for path in dict.fromkeys(candidates) if os.path.isfile(path)]  # noqa: PTH113


def is_personal(source: str, *, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether a server's `source` is the user's own: the environment, or a file in their home folder.

    >>> is_personal("MCP_SERVERS"), is_personal("/clone/.mcp.json", environ={"HOME": "/home/me"})
    (True, False)
    """
    environ = os.environ if environ is None else environ
    return source == ENVIRONMENT_SOURCE or is_own(Path(source), _home(environ), environ)


def _project_folders(directory: Path, home: Path) -> list[Path]:
    folders: list[Path] = []
    for folder in (directory, *directory.parents):
        folders.append(folder)
        if folder == home or (folder / ".git").exists():
            return folders
    return [directory]


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
