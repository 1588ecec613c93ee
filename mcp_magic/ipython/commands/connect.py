"""`%mcp connect` and its like: sessions are opened, listed, examined and closed."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import ago, did_you_mean, duration, join_names
from mcp_magic.config.foreign import HOSTS, is_foreign
from mcp_magic.config.masking import mask_arguments
from mcp_magic.config.parsing import (
    PROTOCOLS,
    SAMPLING_MODES,
    SERVER_FILES,
    FieldError,
    command_words,
    slug,
    working_directory,
)
from mcp_magic.config.programs import missing_program
from mcp_magic.config.project import find_declaration, load_declaration
from mcp_magic.config.references import Reference, SecretUse, find_references, mark_references
from mcp_magic.config.servers import ServerEntry, discover_servers, find_server, load_config
from mcp_magic.config.specs import StdioSpec, UrlSpec
from mcp_magic.config.targets import is_server, means_server, parse_env, parse_header, resolve_target
from mcp_magic.display.document import Problem
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import CommandError, ConfigError, MCPMagicError, TargetError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import (
    ANY_SERVER,
    ENVIRONMENT_REFERENCE,
    ONE_SERVER,
    Argument,
    Implementation,
    Invocation,
    Tab,
    seconds_typed,
)
from mcp_magic.ipython.preload import import_for_connect
from mcp_magic.loops import together
from mcp_magic.schema.commandline import REFERENCE, as_command, as_word
from mcp_magic.stderr import started_early

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from mcp_magic.doctor.report import DoctorReport
    from mcp_magic.lint import Findings
    from mcp_magic.session.connection import Connection


# The connected servers.


_server_listing = partial(
    Listing,
    title="MCP servers",
    empty="no server is connected: `%mcp connect TARGET` opens a session, `%mcp --help` shows what there is",
    kind="servers",
)


async def _servers(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    connections = invocation.host.connections.values()
    # A problem says what opens the session again; that its program has changed would say it twice.
    problems = [connection.problem or connection.outdated for connection in connections]
    notes = [one_line(problem, 400) for problem in problems if problem]
    try:
        working_directory()
    except ConfigError as error:
        notes.append(str(error))
    infos = [connection.info() for connection in connections]
    rows = [info.row() for info in infos]
    if any(row["rights"] for row in rows):  # then the others say that they have all
        rows = [{**row, "rights": info.rights.partition(":")[0] or None} for row, info in zip(rows, infos, strict=True)]
        notes += [f"{info.name}: {info.rights}" for info in infos if info.is_isolated]
    return _server_listing(rows, note="\n".join(notes))


SERVERS = Implementation(_servers)


# Sessions, opened and closed.


def _complete_target(tab: Tab) -> list[str]:
    variables = [name for name, value in tab.namespace.items() if not name.startswith("_") and means_server(value)]
    configured: list[str] = []
    with suppress(ConfigError):  # the folder was deleted
        configured += filter(None, (as_word(entry.name) for entry in discover_servers() if not entry.problem))
    return completion.starting(tab, [*variables, *configured, *completion.paths(tab, tuple(SERVER_FILES))])


_target = partial(Argument, "target", nargs="*", metavar="TARGET", help="URL, server file, configured name or variable")


_SESSION_ARGUMENTS = (
    Argument("--name", help="its name (default: made from the target)"),
    Argument("--config", metavar="FILE", help="open the servers of a config file in parallel: all, or the named ones"),
    Argument("--header", action="append", default=[], metavar="'K: V'", help="an HTTP header; can be repeated"),
    Argument(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        help="an environment variable of a stdio server; K alone passes on the kernel's value",
    ),
    Argument("--cwd", metavar="DIR", help="working directory of a stdio server"),
    Argument(
        "--sandbox",
        metavar="read=DIR,...",
        complete=completion.sandbox_words,
        help="what a stdio server may reach: read, write, net=HOST:PORT, memory, processes, or npx, uvx, python",
    ),
    Argument("--observe", action="store_true", help="record what a stdio server uses, for %%mcp behaviour"),
    Argument("--transport", choices=("stdio", "http", "sse", "ws"), help="the transport (default: by the target)"),
    Argument("--timeout", type=seconds_typed, metavar="S", help="seconds for the handshake (default: the setting, 30)"),
    Argument("--trust", action="store_true", help="trust the hints of this server's tools"),
    Argument(
        "--reconnect",
        action=argparse.BooleanOptionalAction,
        help="whether to open a lost session again automatically (default: the setting)",
    ),
    Argument(
        "--sampling", choices=SAMPLING_MODES, help="when the server asks for a model: refuse, ask you (default), answer"
    ),
    Argument(
        "--protocol",
        choices=PROTOCOLS,
        help="how to begin the session: try both ways (default), initialize only, server/discover only",
    ),
    Argument("--insecure", action="store_true", help="accept any TLS certificate"),
    Argument("--ca", metavar="FILE", help="certificate authority to trust (PEM)"),
    Argument("--cert", metavar="FILE", help="client certificate with its key (PEM)"),
    Argument(
        "--auth", choices=("none", "oauth", "client-credentials"), help="how to log in (default: as the server asks)"
    ),
    Argument("--client-id", metavar="ID", help="the client that is registered with the authorization server"),
    Argument("--client-secret", metavar="$VARIABLE", help="its secret, in a variable, so that no notebook keeps it"),
    Argument("--private-key", metavar="FILE", help="in place of a secret: the client's key (PEM)"),
    Argument("--issuer", metavar="URL", help="the authorization server that the client belongs to"),
    Argument("--scope", action="append", default=[], metavar="SCOPE", help="a scope to ask for; can be repeated"),
    Argument("--redirect-port", type=int, metavar="PORT", help="the port of the registered redirect URI"),
)


async def _connect(invocation: Invocation, arguments: argparse.Namespace) -> Connection | Listing:
    if arguments.config:
        return await _from_file(invocation, arguments)
    target = _one_target(invocation, arguments.target)
    options = await _asked_for(invocation, target, _session_options(invocation, arguments))
    is_name = isinstance(target, str) and arguments.name is None and not _means_anything(target, options)
    if is_name and target in invocation.host:
        from mcp_magic._host import open_again

        return await open_again(invocation.host, target)  # the server of a cell, which has no variable
    async with _prepared(target, options):  # before the host is imported
        return await invocation.host.connect(target, name=arguments.name, **options)


def _means_anything(target: Any, options: dict[str, Any]) -> bool:
    """Whether a target is a server by itself, apart from the names of connections."""
    try:
        resolve_target(target, **options)
    except TargetError:
        return False
    except MCPMagicError:  # `Host.connect` raises it
        return True
    return True


@asynccontextmanager
async def _prepared(target: Any, options: dict[str, Any]) -> AsyncIterator[None]:
    """Start the server of the kernel's first session, and import meanwhile what a session needs.

    A cassette may answer in place of the server; then it is not started.
    """
    spec = None
    with suppress(MCPMagicError):  # `Host.connect` raises it
        spec, _ = resolve_target(target, **options)
    may_replay = "mcp_magic.cassette.cassette" in sys.modules or "MCP_MAGIC_CASSETTE" in os.environ
    program = None
    # a secret is resolved when the session is opened, and an observation begins there
    if isinstance(spec, StdioSpec) and not (may_replay or spec.references or spec.observe):
        from mcp_magic.sandbox.backends import isolated

        with suppress(MCPMagicError, OSError):
            program = isolated(spec)
    async with nullcontext() if program is None else started_early(program):
        if spec is not None:
            import_for_connect()
        yield


async def _asked_for(invocation: Invocation, target: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Ask about a configured server if a target names one; return the options, fixed to the server that was found."""
    entries: list[ServerEntry] = []

    def find(name: str) -> ServerEntry:
        entries.append(options["find_entry"](name))
        return entries[0]

    if not isinstance(target, str):
        return options
    with suppress(MCPMagicError):  # opening the target raises it
        resolve_target(target, **{**options, "find_entry": find})
    if not entries:
        return options
    from mcp_magic.ipython.ask import ask_for_servers

    await ask_for_servers(invocation, entries)
    return {**options, "find_entry": lambda name: entries[0]}


def _session_options(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any]:
    headers = dict(parse_header(_text(invocation, text)) for text in arguments.header)
    env = dict(parse_env(_text(invocation, text)) for text in arguments.env)
    secret = arguments.client_secret or ""
    uses = [SecretUse("auth.client_secret", reference) for reference in _references(secret)]
    for words, parse in ((arguments.header, parse_header), (arguments.env, parse_env)):
        for word in words:
            if references := _references(word):  # in what is typed, and never in the value of a variable
                place = parse(mark_references(word, "x"))[0]
                uses += [SecretUse(place, reference) for reference in references]
    return dict(  # noqa: C408 (keyword arguments)
        transport=arguments.transport,
        headers=headers,
        env=env,
        cwd=arguments.cwd and invocation.text(arguments.cwd),
        sandbox=arguments.sandbox and invocation.text(arguments.sandbox),
        observe=arguments.observe,
        timeout=arguments.timeout if arguments.timeout is not None else invocation.settings.timeout,
        trust=arguments.trust,
        verify=arguments.ca or not arguments.insecure,
        cert=arguments.cert,
        sampling=arguments.sampling,
        reconnect=arguments.reconnect,
        protocol=arguments.protocol,
        references=tuple(uses),
        auth=_auth_table(invocation, arguments),
        lookup=invocation.variables.get,
        find_entry=_find_entry,
        directory=invocation.directory,
        variables=[name for name, value in invocation.variables.items() if is_server(value)],
    )


def _text(invocation: Invocation, word: str) -> str:
    """Return a text with `$name` and `{expression}` replaced, and with the references to secrets as they are."""
    references = [reference.text for reference in _references(word)]
    parts = [invocation.text(part) for part in mark_references(word, "\0").split("\0")]
    return parts[0] + "".join(map("".join, zip(references, parts[1:], strict=True)))


def _references(word: str) -> list[Reference]:
    try:
        return find_references(word)
    except FieldError as error:
        raise CommandError(f"%mcp connect: {error}") from None


def _auth_table(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the line's log-in options, or None."""
    secret = arguments.client_secret
    is_reference = secret is not None and bool(_references(secret))
    is_variable = secret is not None and (REFERENCE.fullmatch(secret) or ENVIRONMENT_REFERENCE.fullmatch(secret))
    if secret is not None and not (is_reference or is_variable):
        raise CommandError(
            "%mcp connect: --client-secret takes a variable, because the notebook keeps the line: "
            "--client-secret $secret, or --client-secret '${env:SECRET}', or '${keyring:SERVICE/NAME}'"
        )
    table: dict[str, Any] = {
        "client_id": arguments.client_id and invocation.text(arguments.client_id),
        "client_secret": secret and (secret if is_reference else str(invocation.value(secret))),
        "private_key": arguments.private_key and invocation.text(arguments.private_key),
        "issuer": arguments.issuer and invocation.text(arguments.issuer),
        "scopes": [invocation.text(scope) for scope in arguments.scope] or None,
        "redirect_port": arguments.redirect_port,
    }
    if arguments.auth == "client-credentials":
        table["grant"] = "client_credentials"
    elif arguments.auth is not None:
        table["mode"] = arguments.auth
    return {name: value for name, value in table.items() if value is not None} or None


def _one_target(invocation: Invocation, words: list[str], typed: str = "%mcp connect") -> Any:
    """Return the target of a line: the value of its only word, or the command after `--`."""
    if invocation.command:
        if words:
            raise CommandError(f"{typed}: {words[0]!r} before `--` and a command after it; one target at a time")
        return [str(invocation.value(word)) for word in invocation.command]
    if not words:
        raise CommandError(
            f"{typed}: no target given. Give a URL, a server file, a configured name, a variable with a server,"
            " or `-- COMMAND ARG...`; `%mcp config` shows what is configured."
        )
    if len(words) > 1:
        raise CommandError(
            f"{typed}: one target at a time, not {join_names(words)}; a command goes after `--`:"
            f" {typed} -- {as_command(mask_arguments(command_words(words)))}"
        )
    return invocation.value(words[0])


async def _from_file(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Open configured servers in parallel; return a row for each, with its error."""
    from mcp_magic.ipython.ask import ask_for_servers

    every, find = _entries_of(invocation, arguments.config)
    entries = [find(name) for name in arguments.target] or every
    await ask_for_servers(invocation, entries, replacing=True)
    ready = {slug(e.name): e.spec for e in entries if e.spec and not e.disabled and not e.problem}
    opened = await invocation.host.connect_many(ready)
    for entry in entries:
        if entry.spec is not None:
            invocation.state.opened[slug(entry.name)] = entry.source, entry.spec.identity
    rows = [_entry_row(entry, opened.get(slug(entry.name))) for entry in entries]
    return _server_listing(rows, title=f"MCP servers of {Path(arguments.config).expanduser()}")


def _entries_of(invocation: Invocation, file: str) -> tuple[list[ServerEntry], Callable[[str], ServerEntry]]:
    """Return the servers of a config file, and a function that finds one of them by its name."""
    entries = {entry.name: entry for entry in _servers_of(invocation.path(file))}

    def find(name: str) -> ServerEntry:
        if name in entries:
            return entries[name]
        near = did_you_mean(name, entries)
        raise ConfigError(f"{Path(file).expanduser()} has no server {name!r}.{near} It has: {join_names(entries)}")

    return list(entries.values()), find


def _servers_of(path: Path) -> list[ServerEntry]:
    return load_config(path) if is_foreign(path) else [*load_declaration(path).servers.values()]


def _problem(entry: ServerEntry) -> Problem | None:
    return Problem(str(entry.problem)) if entry.problem else None


def _entry_row(entry: ServerEntry, outcome: Connection | MCPMagicError | None) -> dict[str, Any]:
    if outcome is None:
        state = "disabled" if entry.disabled and not entry.problem else "not started"
        return {"server": entry.name, "state": state, "problem": _problem(entry)}
    if isinstance(outcome, MCPMagicError):
        return {"server": entry.name, "state": "failed", "problem": Problem(f"{type(outcome).__name__}: {outcome}")}
    return outcome.info().row(problem=None)


CONNECT = Implementation(
    _connect,
    (_target(complete=_complete_target), *_SESSION_ARGUMENTS),
    examples=(
        "%mcp connect http://127.0.0.1:8000/mcp --name weather",
        "%mcp connect -- npx -y @modelcontextprotocol/server-everything",
        "%mcp connect servers/math_server.py",
        "%mcp connect --sandbox read=.,write=out,net=api.example.com:443 -- npx -y @acme/server",
        "%mcp connect my_server                     # a variable that holds an MCPServer",
        "%mcp connect $url --header 'Authorization: Bearer $token'",
        "%mcp connect $url --header 'Authorization: Bearer ${keyring:acme/token}'",
        "%mcp connect --config mcp.json             # all of its servers, in parallel",
        "conn = %mcp connect math",
    ),
    details="The session lives until it is disconnected or the kernel ends; a cell that connects the same server "
    "again gets the open session.",
    takes_command=True,
    before_host=True,
)


async def _disconnect(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    host = invocation.host
    if bool(arguments.names) == arguments.all:
        raise CommandError(f"%mcp disconnect: name the servers, or say --all. Connected: {join_names(host)}")
    names = list(host) if arguments.all else list(dict.fromkeys(arguments.names))
    await host.disconnect(*names)
    rows = [connection.info().row() for connection in host.connections.values()]
    return _server_listing(rows, note=f"disconnected: {join_names(names)}")


DISCONNECT = Implementation(
    _disconnect,
    (
        Argument("names", nargs="*", metavar="SERVER", help="a connected server"),
        Argument("--all", action="store_true", help="all of them"),
    ),
    examples=("%mcp disconnect weather math", "%mcp disconnect --all"),
)


RECONNECT = Implementation(
    lambda invocation, arguments: invocation.host.reconnect(arguments.name),
    (Argument("name", metavar="SERVER", help="a server that is or was connected"),),
    examples=("%mcp reconnect weather",),
)


async def _ping(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    host = invocation.host
    connections = [host[arguments.server]] if arguments.server else list(host.connections.values())
    rows = await together(_ping_row(connection, arguments.timeout) for connection in connections)
    return Listing(
        rows,
        title="Ping",
        columns=("server", "answered in", "state", "seen", "problem"),
        empty="no server is connected: `%mcp connect TARGET` opens a session",
        kind="ping",
    )


async def _ping_row(connection: Connection, timeout: float | None) -> dict[str, Any]:
    seconds, problem = None, None
    try:
        seconds = await connection.ping(timeout)
    except MCPMagicError as error:
        problem = Problem(str(error))
    return {
        "server": connection.name,
        "answered in": None if seconds is None else duration(seconds),
        "state": connection.state,
        "seen": ago(connection.last_seen),
        "problem": problem,
    }


PING = Implementation(
    _ping,
    (
        ANY_SERVER,
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer (default: 5)"),
    ),
    examples=("%mcp ping", "%mcp ping weather", "%mcp ping weather --timeout 1"),
    details="Sends `ping`; protocol 2026-07-28 has no ping, so there it sends `server/discover`. If the setting "
    "`reconnect` allows it, a lost session is opened again first.",
)


# Configured servers, log-ins and the doctor.


def _declared(directory: Path) -> list[ServerEntry]:
    """Return the servers of a folder's declaration, such as mcp_magic.toml; what is wrong is in an entry."""
    try:
        path = find_declaration(directory)
    except ConfigError:  # there is none
        return []
    try:
        return [*load_declaration(path).servers.values()]
    except ConfigError as error:
        return [ServerEntry("", str(path), problem=error)]


def _find_entry(name: str) -> ServerEntry:
    """Return the configured server of a name. Raises ConfigError, which says if `%mcp up` would open it."""
    try:
        return find_server(name)
    except ConfigError:
        entry = next((own for own in _declared(working_directory()) if name in (own.name, slug(own.name))), None)
        if entry is None:
            raise
    file = Path(entry.source).name
    raise ConfigError(
        f"{file} declares it: `%mcp connect --config {file} {name}` opens it, `%mcp up` all servers of that file."
    )


async def _config(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    file, note = arguments.file, ""
    if file:
        entries = _servers_of(invocation.path(file))
    else:
        entries = discover_servers(invocation.directory)
        if own := [
            entry for entry in _declared(invocation.directory) if entry.source not in {e.source for e in entries}
        ]:
            note = f"`%mcp up` opens those of {Path(own[0].source).name}"
        entries = [*own, *entries]
    return Listing(
        [_config_row(entry) for entry in entries],
        title="Configured MCP servers",
        note=note,
        empty="no configured servers: looked for mcp_magic.toml, pyproject.toml, mcp.json, .mcp.json, the files of "
        f"{', '.join(sorted({host.name for host in HOSTS} - {''}))}, and the variable MCP_SERVERS",
        kind="config",
    )


def _config_row(entry: ServerEntry) -> dict[str, Any]:
    state = "disabled" if entry.disabled else "shadowed" if entry.shadowed_by else "ready"
    lack = missing_program(entry.spec) if isinstance(entry.spec, StdioSpec) else ""
    state = "missing" if lack and state == "ready" else state
    row = {"server": entry.name, "state": "wrong" if entry.problem and not entry.disabled else state}
    if entry.spec is not None:
        row |= {"transport": entry.spec.transport, "where": entry.spec.where}
    if isinstance(entry.spec, StdioSpec) and entry.spec.sandbox is not None:
        row["rights"] = entry.spec.isolation
    if entry.spec is not None and entry.spec.secret_sources:
        row["secrets"] = ", ".join(entry.spec.secret_sources)
    if entry.spec is not None and entry.spec.unused:
        row["without effect"] = ", ".join(entry.spec.unused)
    problem = lack if state == "missing" else entry.reason
    return row | {
        "host": entry.host or None,
        "file": _with_tilde(entry.source),
        "problem": Problem(problem) if problem else None,
    }


def _with_tilde(path: str) -> str:
    home = os.path.expanduser("~").rstrip(os.sep)  # noqa: PTH111
    return f"~{path[len(home) :]}" if home and path.startswith(home + os.sep) else path


CONFIG = Implementation(
    _config,
    (Argument("file", nargs="?", metavar="FILE", help="one file instead of all that are found"),),
    examples=("%mcp config", "%mcp config ~/.codex/config.toml"),
    details="Lists the servers that MCP hosts on this machine and this project's files configure, and starts none. A "
    "server is `ready` if its program and its variables are there.",
)


async def _logout(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    from mcp_magic.auth.client import log_out
    from mcp_magic.session.secrets import ignore, resolve_secrets

    host = invocation.host
    name = str(invocation.value(arguments.server))
    spec = host[name].spec if name in host else resolve_target(name, find_entry=find_server)[0]
    if not isinstance(spec, UrlSpec):
        raise CommandError(f"%mcp logout: {name} is not a server with a URL, so it has no log-in.")
    if spec.references and name not in host:
        raise CommandError(f"%mcp logout: the log-in of {name} needs its secrets; `%mcp connect {name}` first.")
    specs = {key: connection.spec for key, connection in host.connections.items()}
    closed = [
        key for key, other_spec in specs.items() if isinstance(other_spec, UrlSpec) and other_spec.url == spec.url
    ]
    full_spec = await resolve_secrets(replace(spec, headers_helper=None), name, ignore, host.secrets.ask_input)
    assert isinstance(full_spec, UrlSpec)
    await host.disconnect(*closed)
    rows: list[dict[str, Any]] = [
        {"server": name, "authorization server": logout.authority, "tokens": logout.outcome}
        for logout in await log_out(full_spec, host.logins)
    ]
    note = f"disconnected: {', '.join(closed)}" if closed else ""
    empty = f"no tokens of {spec.where} are kept{'; ' + note if note else ''}"
    return Listing(rows, title=f"Logged out of {spec.where}", empty=empty, note=note, kind="logout")


LOGOUT = Implementation(
    _logout,
    (
        Argument(
            "server",
            metavar="SERVER|URL",
            complete=completion.COMPLETERS["SERVER"],
            help="a server, connected or configured, or its URL",
        ),
    ),
    examples=("%mcp logout notes", "%mcp logout https://mcp.example.com/mcp"),
    details="The tokens are in the system's keyring, or in a file that only you can read (setting `tokens`). The "
    "registration as a client is forgotten, too.",
)


_REPORT_FILES = (
    Argument("--sarif", metavar="FILE", help="write what is wrong as SARIF 2.1.0, for code scanning"),
    Argument("--junit", metavar="FILE", help="write the outcome as JUnit XML, for CI"),
)


async def _doctor(invocation: Invocation, arguments: argparse.Namespace) -> DoctorReport:
    from mcp_magic.doctor.examine import examine, examine_all

    for file in (arguments.sarif, arguments.junit):
        invocation.new_file(file)
    if arguments.all:
        _check_all(invocation, arguments)
        report = await examine_all(invocation.host)
        _write_report(invocation, arguments, report, "")
        return report
    target = _one_target(invocation, arguments.target, "%mcp doctor")
    options = _session_options(invocation, arguments)
    if arguments.config:
        options["find_entry"] = _entries_of(invocation, arguments.config)[1]
    options = await _asked_for(invocation, target, options)
    own_options = {"name": arguments.name, "call": arguments.call, "login": arguments.login}
    report = await examine(invocation.host, target, **own_options, **options)
    _write_report(invocation, arguments, report, str(report.target))
    return report


def _write_report(
    invocation: Invocation, arguments: argparse.Namespace, report: DoctorReport | Findings, server: str
) -> None:
    """Write a report, or findings, to the files of `--sarif` and `--junit`."""
    if not (arguments.sarif or arguments.junit):
        return
    from mcp_magic.doctor.report import (
        DoctorReport,
        results_of_findings,
        results_of_report,
        rules_of,
        suite_of_findings,
        suite_of_report,
    )
    from mcp_magic.junit import write_junit
    from mcp_magic.sarif import write_sarif

    if arguments.sarif:
        files = _declared_in(invocation, server, [*getattr(arguments, "target", ()), *invocation.command])
        results = (
            results_of_report(report, server, files)
            if isinstance(report, DoctorReport)
            else results_of_findings(report.findings, server, files)
        )
        write_sarif(invocation.path(invocation.text(arguments.sarif)), results, rules_of(results))
    if arguments.junit:
        suite = suite_of_report(report) if isinstance(report, DoctorReport) else suite_of_findings(report, server)
        write_junit(invocation.path(invocation.text(arguments.junit)), [suite])


def _declared_in(invocation: Invocation, server: str, words: Sequence[str]) -> dict[str, str]:
    """Return server -> the file of this folder that starts or declares it; `words` are the target of `server`."""
    files: dict[str, str] = {}
    with suppress(ConfigError):
        path = find_declaration(invocation.directory)
        declared = {slug(name) for name in load_declaration(path).servers}
        files |= {name: path.name for name in (server, *invocation.host) if slug(name) in declared}
        files[""] = path.name  # of what concerns several servers
    commands = {server: [*words]}
    for name, connection in invocation.host.connections.items():
        if isinstance(spec := connection.spec, StdioSpec):
            commands.setdefault(name, []).extend((spec.command, *spec.args))
    for name, parts in commands.items():
        if programs := [*filter(None, (_inside(invocation.directory, part) for part in parts))]:
            files[name] = programs[0]
    return files


def _inside(folder: Path, word: str) -> str:
    """Return the path of a server file from the folder; "" if it is none, or elsewhere."""
    if not word.endswith(tuple(SERVER_FILES)) or not (folder / word).is_file():
        return ""
    path = (folder / word).resolve()
    return path.relative_to(folder.resolve()).as_posix() if path.is_relative_to(folder.resolve()) else ""


def _check_all(invocation: Invocation, arguments: argparse.Namespace) -> None:
    """Raise a CommandError if `--all` comes with what concerns one server."""
    if arguments.target or invocation.command:
        raise CommandError(
            "%mcp doctor: --all looks at the connected servers together, and takes no target; `%mcp connect TARGET` "
            "connects one more."
        )
    set_options = [name for name, value in vars(arguments).items() if value not in (None, False, [])]
    if others := [name for name in set_options if name not in ("all", "sarif", "junit")]:
        raise CommandError(f"%mcp doctor: --all opens no session and calls no tool, so it takes no --{others[0]}.")


DOCTOR = Implementation(
    _doctor,
    (
        _target(complete=lambda tab: [*dict.fromkeys([*completion.COMPLETERS["SERVER"](tab), *_complete_target(tab)])]),
        *_SESSION_ARGUMENTS,
        Argument(
            "--call",
            nargs="?",
            const="",
            metavar="TOOL",
            help="call a tool; without a name a read-only one without required arguments",
        ),
        Argument("--login", action="store_true", help="log in if the server wants it"),
        Argument("--all", action="store_true", help="look at all connected servers together"),
        *_REPORT_FILES,
    ),
    examples=(
        "%mcp doctor weather                       # a session: it is left as it is",
        "%mcp doctor --all                         # what the connected servers do to each other",
        "%mcp doctor --all --sarif doctor.sarif --junit doctor.xml",
        "%mcp doctor https://example.com/mcp",
        "%mcp doctor https://notes.example.com/mcp --login",
        "%mcp doctor servers/math_server.py --call add",
        "%mcp doctor -- npx -y @modelcontextprotocol/server-everything",
        "report = %mcp doctor math --config mcp.json",
    ),
    details="The steps: resolve the target, start or connect, TLS, HTTP, both ways to begin a session, version, "
    "capabilities, all lists and their schemas, ping, end. It says at which step the server fails, why, and what to "
    "do. It has the options of `%mcp connect`. It uses a kept token, asks you to log in only with --login, and calls "
    "a tool only with --call. The value has .steps, .ok, .problems, .findings and .df.\n\n"
    "--all looks at the connected servers together: texts of one about another's tools, names that are equal or look "
    "alike, and tools that together can send your data to the outside. It calls none.",
    takes_command=True,
)


async def _lint(invocation: Invocation, arguments: argparse.Namespace) -> Findings:
    connection = invocation.connection(arguments.server)
    findings = (await connection.lint()).masked(connection.spec.masked)
    findings.note = "\n".join(filter(None, (findings.note, connection.outdated)))
    _write_report(invocation, arguments, findings, connection.name)
    return findings


LINT = Implementation(
    _lint,
    (ONE_SERVER, *_REPORT_FILES),
    examples=("%mcp lint weather", "%mcp lint weather --sarif lint.sarif", "findings = %mcp lint weather"),
    details="Checks names, descriptions, schemas, hints, URIs, hidden characters, and texts that give orders to the "
    "model. Calls no tool. The value has .findings, .of('error'), .codes and .df. `%mcp doctor` also checks everything "
    "else.",
)
