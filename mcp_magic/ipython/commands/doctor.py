"""`%mcp doctor`: finds out, step by step, why a server does not work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic._text import did_you_mean, listed
from mcp_magic.config.servers import load_config
from mcp_magic.doctor.examine import examine
from mcp_magic.errors import ConfigError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser
from mcp_magic.ipython.commands import connect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.doctor.report import DoctorReport

__all__ = ["DOCTOR"]


def options(parser: Parser) -> None:
    """Add the arguments of `connect` and of the call."""
    connect.options(parser, "server or target")
    parser.add_argument(
        "--call",
        nargs="?",
        const="",
        metavar="TOOL",
        help="call a tool; without a name one that is read-only and needs nothing",
    )
    parser.add_argument("--login", action="store_true", help="log in where the server wants it, and go on")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> DoctorReport:
    """Examine a server; every failure becomes a part of the report."""
    target = connect.one_target(invocation, arguments.target, "%mcp doctor")
    given = connect.session_options(invocation, arguments)
    if arguments.config:
        given["find_entry"] = _entries(invocation.directory / Path(arguments.config).expanduser())
    given = await connect.asked_for(invocation, target, given)
    asked = {"name": arguments.name, "call": arguments.call, "login": arguments.login}
    return await examine(invocation.host, target, **asked, **given)


def _entries(path: Path) -> Callable[[str], ServerEntry]:
    entries = {entry.name: entry for entry in load_config(path)}

    def find(name: str) -> ServerEntry:
        if name in entries:
            return entries[name]
        near = did_you_mean(name, entries)
        raise ConfigError(f"{path} has no server {name!r}.{near} It has: {listed(entries)}")

    return find


DOCTOR = Implementation(
    run,
    options,
    examples=(
        "%mcp doctor weather                       # a session: it is left as it is",
        "%mcp doctor https://example.com/mcp",
        "%mcp doctor https://notes.example.com/mcp --login",
        "%mcp doctor servers/math_server.py --call",
        "%mcp doctor -- npx -y @modelcontextprotocol/server-everything",
        "report = %mcp doctor math --config mcp.json",
    ),
    details="It resolves the target, starts or connects it, looks at TLS, HTTP, the handshake of both protocol eras, "
    "capabilities, all lists and their schemas, pings it and ends it, and says at which step it fails, why, and what "
    "to do. It takes what `%mcp connect` takes. A token that is kept is used; nobody is asked to log in without "
    "--login, and nothing is called without --call. The value has .steps, .ok, .problems, .findings and .df.",
    takes_command=True,
)
