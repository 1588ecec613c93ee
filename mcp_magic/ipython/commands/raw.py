"""`%mcp raw`: sends any request or notification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, timeout_options, timeouts

if TYPE_CHECKING:
    import argparse

__all__ = ["RAW"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", metavar="SERVER", help="a connected server")
    parser.add_argument("method", metavar="METHOD", help="for example tools/list")
    parser.add_argument("params", nargs="?", metavar="JSON", help="the params: a JSON object, or $variable")
    parser.add_argument("--notify", action="store_true", help="send a notification, which has no answer")
    timeout_options(parser)


async def run(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Send the message; return the `result` of the answer unchanged."""
    connection = invocation.host[arguments.server]
    given = _params(invocation, arguments.params)
    if arguments.notify:
        await connection.notify(arguments.method, given)
        return None
    return await connection.request(arguments.method, given, **timeouts(invocation, arguments))


def _params(invocation: Invocation, word: str | None) -> dict[str, Any]:
    if word is not None and invocation.body and invocation.body.strip():
        raise ArgumentsError("%%mcp raw: the params are on the line and in the cell; say them once")
    text = word if word is not None else (invocation.body or "").strip() or "{}"
    problem = ""
    try:
        value = json.loads(text)
    except ValueError as error:
        problem = f"%mcp raw: the params are no JSON: {error}"
        value = invocation.value(text) if word is not None else None
    if isinstance(value, dict):
        return value
    raise ArgumentsError(problem if problem and value in (None, text) else _no_object(value))


def _no_object(value: Any) -> str:
    return f'%mcp raw: the params must be a JSON object, for example {{"cursor": "x"}}, not {type(value).__name__}'


RAW = Implementation(
    run,
    options,
    examples=(
        "%mcp raw weather tools/list",
        '%mcp raw math tools/call {"name": "add", "arguments": {"a": 1, "b": 2}}',
        '%mcp raw math notifications/cancelled {"requestId": 7} --notify',
    ),
    details="Nothing is checked first; a tools/call goes through consent as your own call.",
    takes_body=True,
)
