"""`%mcp logs`: what a server wrote to its stderr and logged."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.parsing import Command, Invocation
from mcp_magic.results import Listing
from mcp_magic.results.plain import Verbatim

if TYPE_CHECKING:
    import argparse

    from mcp_magic.core.connection import Connection

__all__ = ["COMMAND"]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("server", metavar="SERVER", help="a connected server")
    parser.add_argument("--last", type=int, default=50, metavar="N", help="lines of each kind (default: 50)")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List stderr's last lines and the last log notifications."""
    connection = invocation.host[arguments.server]
    last = max(arguments.last, 0)
    rows = _stderr(connection, last) + _messages(connection, last)
    empty = f"{connection.name} has written nothing to its stderr and has logged nothing"
    return Listing(
        rows, title=f"Logs of {connection.name}", columns=("time", "source", "level", "text"), empty=empty, kind="logs"
    )


def _stderr(connection: Connection, last: int) -> list[dict[str, Any]]:
    lines = connection.stderr().splitlines()
    return [{"time": None, "source": "stderr", "level": None, "text": Verbatim(line)} for line in lines[-last:] if last]


def _messages(connection: Connection, last: int) -> list[dict[str, Any]]:
    messages = list(connection.notices.messages)[-last:] if last else []
    return [
        {
            "time": time.strftime("%H:%M:%S", time.localtime(message.time)),
            "source": message.logger or "log",
            "level": message.level,
            "text": Verbatim(connection.spec.masked(_text(message.data))),
        }
        for message in messages
    ]


def _text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


COMMAND = Command(
    "logs",
    "Debug",
    "shows the end of a server's stderr and its log messages",
    run,
    options,
    examples=("%mcp logs math", "%mcp logs math --last 10"),
)
