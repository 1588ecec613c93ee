"""`%mcp replay`: sends a request of the trace again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import listed
from mcp_magic.config.masking import KEPT_BYTES
from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, timeout_options, timeouts
from mcp_magic.trace.trace import OUT, is_masked

if TYPE_CHECKING:
    import argparse

    from mcp_magic.session.connection import Connection
    from mcp_magic.trace.trace import Entry

__all__ = ["ONCE", "REPLAY"]

_ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}
_WITH_ARGUMENTS = ("tools/call", "prompts/get")
ONCE = ("initialize", "server/discover", "subscriptions/listen")
"""Methods that a session sends once and on its own; they cannot be replayed."""


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "number", metavar="N", completer="request", help="the number of a request in `%%mcp trace`, or its answer"
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        completer="request's argument",
        help="arguments that differ",
    )
    timeout_options(parser)


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Any:
    """Send the request; return what `%mcp call` would, or for other methods the answer unchanged."""
    entry = _request(invocation, _number(invocation, arguments.number))
    connection = invocation.host[entry.server]
    params = _params(invocation, connection, entry, arguments.arguments)
    limits = timeouts(invocation, arguments)
    if entry.method == "tools/call":
        return await connection.call_tool(params["name"], params.get("arguments") or {}, validate=False, **limits)
    return await connection.request(entry.method, params, **limits)


def _number(invocation: Invocation, word: str) -> int:
    """Return the number that is typed, or the value of `$name` or `{expression}`."""
    text = invocation.text(word)
    if not text.isdecimal():
        raise CommandError(f"%mcp replay: {text[:40]!r} is no number of a message; `%mcp trace` lists them")
    return int(text)


def _request(invocation: Invocation, number: int) -> Entry:
    """Return the request to send again."""
    trace = invocation.host.trace
    entry = trace.find(number)
    if entry.kind in ("answer", "error") and entry.pair is not None:
        entry = trace.find(entry.pair)
    if entry.kind != "request" or entry.direction != OUT:
        raise CommandError(f"%mcp replay: message {number} is no request of this kernel; see `%mcp trace`")
    if entry.method in ONCE:
        raise CommandError(f"%mcp replay: {entry.method} belongs to the session; `%mcp reconnect {entry.server}`")
    if entry.size > KEPT_BYTES or not entry.size:
        raise CommandError(f"%mcp replay: message {number} was too long to be kept whole ({entry.size:,} bytes)")
    return entry


def _params(invocation: Invocation, connection: Connection, entry: Entry, words: list[str]) -> dict[str, Any]:
    params = {name: value for name, value in (entry.message.get("params") or {}).items() if name != "_meta"}
    inside = entry.method in _WITH_ARGUMENTS
    old = params.get("arguments") or {} if inside else params
    changed = schema.parse_arguments(
        words, _schema(connection, entry, params), evaluate=invocation.evaluate, directory=invocation.directory
    )
    given = {**old, **changed}
    hidden = [name for name, value in old.items() if name not in changed and is_masked(value)]
    if hidden:
        raise ArgumentsError(
            f"%mcp replay: the trace keeps no secrets; say {listed(f'{name}=...' for name in hidden)} again"
        )
    return {**params, "arguments": given} if inside else given


def _schema(connection: Connection, entry: Entry, params: dict[str, Any]) -> dict[str, Any]:
    known = connection.catalog.cached("tools") if entry.method == "tools/call" else ()
    return next((tool.input_schema for tool in known if tool.name == params.get("name")), _ANYTHING)


REPLAY = Implementation(
    run,
    options,
    examples=("%mcp replay 12", "%mcp replay 12 location=Oslo days=3"),
    details="name=value as for `%mcp call` replaces an argument. A tools/call goes through consent as your own call.",
)
