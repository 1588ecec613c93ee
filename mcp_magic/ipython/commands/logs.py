"""`%mcp logs`: a server's stderr and log messages, and its log level."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.display.document import Verbatim
from mcp_magic.display.listing import Listing
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, seconds_typed
from mcp_magic.ipython.live import LISTED, follow
from mcp_magic.protocol import LEVELS, LogMessage, at_least, log_text
from mcp_magic.watch import STDERR

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from mcp_magic.session.connection import Connection

__all__ = ["LOGS"]

FAILED = "failed start"
"""The source of stderr lines of a replacement server that could not be opened."""


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "server",
        nargs="?",
        metavar="SERVER",
        completer="server or failed",
        help="a connected server (default: the only one)",
    )
    parser.add_argument("--last", type=int, metavar="N", help=f"lines of each kind (default: {LISTED})")
    parser.add_argument("--level", choices=LEVELS, metavar="LEVEL", help=f"log from now on: {', '.join(LEVELS)}")
    parser.add_argument("--follow", action="store_true", help="show what comes until Interrupt")
    parser.add_argument("--seconds", type=seconds_typed, metavar="S", help="end --follow after that time")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Set the level if given, list the last lines of stderr and the last log messages, and follow them if asked.

    For a server that could not be opened, list its stderr.
    """
    host = invocation.host
    name = arguments.server or (next(reversed(host.failed), None) if not host.connections else None)
    if name in host.failed and name not in host.connections:
        lines = _lines(host.failed[name], sys.maxsize if arguments.last is None else arguments.last)
        return _listing(name, lines, note=f"{name} could not be opened")
    connection = invocation.connection(name)
    last = LISTED if arguments.last is None else max(arguments.last, 0)
    said = ""
    if arguments.level is not None and not await connection.set_log_level(arguments.level):
        said = f"{connection.name} does not say that it logs at all"
    least = arguments.level or LEVELS[0]
    failed = _lines(host.failed.get(connection.name, ""), last, FAILED)
    messages = [*_lines(connection.stderr(), last), *failed, *_messages(connection, last, least)]
    if arguments.follow or arguments.seconds is not None:
        messages, said = await follow(invocation, connection.name, messages, arguments.seconds, _listing, least)
    return _listing(connection.name, messages, connection.notices.logs.level, said)


def _listing(server: str, messages: Iterable[LogMessage], level: str | None = None, note: str = "") -> Listing:
    return Listing(
        [_row(message) for message in messages],
        title=f"Logs of {server}" + (f", {level} and above" if level is not None else ""),
        columns=("time", "source", "level", "text"),
        empty=f"{server} has written nothing to its stderr and has logged nothing",
        note=note,
        kind="logs",
    )


def _row(message: LogMessage) -> dict[str, Any]:
    return {
        "time": time.strftime("%H:%M:%S", time.localtime(message.time)) if message.time else None,
        "source": message.logger or "log",
        "level": message.level or None,
        "text": Verbatim(message.data),
    }


def _lines(stderr: str, last: int, source: str = STDERR) -> list[LogMessage]:
    return [LogMessage(0.0, "", source, line) for line in stderr.splitlines()[-last:] if last > 0]


def _messages(connection: Connection, last: int, least: str) -> list[LogMessage]:
    wanted = [message for message in connection.notices.messages if at_least(message.level, least)]
    masked = connection.trace.hide
    return [message._replace(data=log_text(message.data, masked)) for message in wanted[-last:] if last]


LOGS = Implementation(
    run,
    options,
    examples=("%mcp logs math", "%mcp logs math --last 10", "%mcp logs math --level debug", "%mcp logs math --follow"),
    details="Of a server that could not be opened, all that it wrote to its stderr is listed; its name is what the "
    "error begins with. --level asks the server for its messages of a level and above, from now on and when the "
    "session is opened again. --follow ends with Interrupt, and the cell with the listing; where nobody could "
    "interrupt it, it takes --seconds.",
)
