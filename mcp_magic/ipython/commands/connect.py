"""`%mcp connect`: opens sessions."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, listed
from mcp_magic.config.masking import mask_arguments
from mcp_magic.config.parsing import PROTOCOLS, SAMPLING_MODES, slug
from mcp_magic.config.servers import find_server, load_config
from mcp_magic.config.targets import parse_env, parse_header, resolve_target
from mcp_magic.errors import CommandError, ConfigError, MCPMagicError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, auth_options, auth_table, seconds_typed
from mcp_magic.ipython.commands.servers import server_listing
from mcp_magic.schema.commandline import as_command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.display.listing import Listing
    from mcp_magic.session.connection import Connection

__all__ = ["CONNECT", "asked_for", "one_target", "options", "session_options"]


def options(parser: Parser, completer: str = "") -> None:
    """Add the arguments."""
    add = parser.add_argument
    help_ = "URL, server file, configured name or variable"
    add("target", nargs="*", default=[], metavar="TARGET", completer=completer, help=help_)
    add("--name", help="what to call it (default: made from the target)")
    add("--config", metavar="FILE", help="open all servers of a config file, or those named, in parallel")
    add("--header", action="append", default=[], metavar="'K: V'", help="HTTP header, may be repeated")
    add("--env", action="append", default=[], metavar="K=V", help="environment variable (stdio); K alone hands it on")
    add("--cwd", metavar="DIR", help="working directory of a stdio server")
    add("--transport", choices=("stdio", "http", "sse", "ws"), help="instead of what the target says")
    add("--timeout", type=seconds_typed, metavar="S", help="seconds for the handshake (default: the setting, 30)")
    add("--trust", action="store_true", help="believe what this server's tools say of themselves")
    add(
        "--reconnect",
        action=argparse.BooleanOptionalAction,
        help="open it again by itself when it is lost, whatever the setting says",
    )
    add("--sampling", choices=SAMPLING_MODES, help="when it asks for a model: refuse, ask you (default), answer")
    add(
        "--protocol",
        choices=PROTOCOLS,
        help="begin the session as the server takes it (default), by initialize only, by server/discover only",
    )
    add("--insecure", action="store_true", help="accept any TLS certificate")
    add("--ca", metavar="FILE", help="certificate authority to trust (PEM)")
    add("--cert", metavar="FILE", help="client certificate with its key (PEM)")
    auth_options(parser)


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Connection | Listing:
    """Open one session, or all of a file."""
    if arguments.config:
        return await _from_file(invocation, arguments)
    target = one_target(invocation, arguments.target)
    given = await asked_for(invocation, target, session_options(invocation, arguments))
    return await invocation.host.connect(target, name=arguments.name, **given)


async def asked_for(invocation: Invocation, target: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Ask about a configured server if a target names one; return the options, fixed to the server that was found.

    Raises:
        DeniedError: The answer is no, or the user cannot be asked.
    """
    found: list[ServerEntry] = []

    def find(name: str) -> ServerEntry:
        found.append(options["find_entry"](name))
        return found[0]

    if not isinstance(target, str):
        return options
    with suppress(MCPMagicError):  # opening the target raises it
        resolve_target(target, **{**options, "find_entry": find})
    if not found:
        return options
    from mcp_magic.ipython.ask import ask_for_servers

    await ask_for_servers(invocation, found)
    return {**options, "find_entry": lambda name: found[0]}


def session_options(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Host.connect` except the target and the name."""
    headers = dict(parse_header(invocation.text(text)) for text in arguments.header)
    env = dict(parse_env(invocation.text(text)) for text in arguments.env)
    return dict(  # noqa: C408 (keyword arguments)
        transport=arguments.transport,
        headers=headers,
        env=env,
        cwd=arguments.cwd and invocation.text(arguments.cwd),
        timeout=arguments.timeout if arguments.timeout is not None else invocation.settings.timeout,
        trust=arguments.trust,
        verify=arguments.ca or not arguments.insecure,
        cert=arguments.cert,
        sampling=arguments.sampling,
        reconnect=arguments.reconnect,
        protocol=arguments.protocol,
        auth=auth_table(invocation, arguments),
        lookup=invocation.lookup,
        find_entry=find_server,
        directory=invocation.directory,
        known=invocation.variables(),
    )


def one_target(invocation: Invocation, words: list[str], typed: str = "%mcp connect") -> Any:
    """Return the target of a line: the value of its only word, or the command after `--`.

    Raises:
        CommandError: There is no target, or more than one.
    """
    if invocation.command:
        if words:
            raise CommandError(f"{typed}: {words[0]!r} before `--` and a command after it; one target at a time")
        return [str(invocation.value(word)) for word in invocation.command]
    if not words:
        raise CommandError(
            f"{typed}: what to? A URL, a server file, a configured name, a variable with a server,"
            " or `-- COMMAND ARG...`; `%mcp config` shows what is configured."
        )
    if len(words) > 1:
        raise CommandError(
            f"{typed}: one target at a time, not {listed(words)}; a command goes after `--`:"
            f" {typed} -- {as_command(mask_arguments(tuple(words)))}"
        )
    return invocation.value(words[0])


async def _from_file(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    path = Path(arguments.config).expanduser()
    entries = {entry.name: entry for entry in load_config(invocation.directory / path)}
    for name in arguments.target:
        if name not in entries:
            near = did_you_mean(name, entries)
            raise ConfigError(f"{path} has no server {name!r}.{near} It has: {listed(entries)}")
    wanted = [entries[name] for name in arguments.target] or list(entries.values())
    return server_listing(await open_entries(invocation, wanted), title=f"MCP servers of {path}")


async def open_entries(invocation: Invocation, entries: Iterable[ServerEntry]) -> list[dict[str, Any]]:
    """Open configured servers in parallel; return a row for each, with its error."""
    from mcp_magic.ipython.ask import ask_for_servers

    entries = list(entries)
    await ask_for_servers(invocation, entries, replacing=True)
    ready = {slug(e.name): e.spec for e in entries if e.spec and not e.disabled and not e.problem}
    opened = await invocation.host.connect_many(ready)
    for entry in entries:
        if entry.spec is not None:
            invocation.state.opened[slug(entry.name)] = entry.source, entry.spec.identity
    return [_row(entry, opened.get(slug(entry.name))) for entry in entries]


def _row(entry: ServerEntry, outcome: Connection | MCPMagicError | None) -> dict[str, Any]:
    if outcome is None:
        state = "disabled" if entry.disabled and not entry.problem else "not started"
        return {"server": entry.name, "state": state, "problem": str(entry.problem or "") or None}
    if isinstance(outcome, MCPMagicError):
        return {"server": entry.name, "state": "failed", "problem": f"{type(outcome).__name__}: {outcome}"}
    return outcome.info().row(problem=None)


CONNECT = Implementation(
    run,
    options,
    examples=(
        "%mcp connect http://127.0.0.1:8000/mcp --name weather",
        "%mcp connect -- npx -y @modelcontextprotocol/server-everything",
        "%mcp connect servers/math_server.py",
        "%mcp connect my_server                     # a variable that holds an MCPServer",
        "%mcp connect $url --header 'Authorization: Bearer $token'",
        "%mcp connect --config mcp.json             # all of its servers, in parallel",
        "conn = %mcp connect math",
    ),
    details="The session lives until it is disconnected or the kernel ends; a cell that connects the same server "
    "again gets the session that is open.",
    takes_command=True,
)
