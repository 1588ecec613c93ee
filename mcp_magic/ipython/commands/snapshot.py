"""`%mcp snapshot` and `%mcp diff`: saves a server's interface, and shows how it changed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic._text import counted
from mcp_magic.config.parsing import write_text
from mcp_magic.display.listing import Listing, Text
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_magic.server.docs import Change

__all__ = ["DIFF", "SNAPSHOT", "change_listing"]


def _file(invocation: Invocation, given: str | None, server: str) -> Path:
    return invocation.directory / Path(invocation.text(given) if given else f"{server}.mcp.json").expanduser()


def snapshot_options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="a connected server (default: the only one)")
    parser.add_argument("-o", "--out", metavar="FILE", help="where to write it (default: SERVER.mcp.json)")


async def snapshot(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    """Write a server's interface to a file."""
    from mcp_magic.server.docs import interface_of, written

    connection = invocation.connection(arguments.server)
    found = await interface_of(connection)
    file = _file(invocation, arguments.out, connection.name)
    write_text(file, written(found))
    counts = ", ".join(counted(len(found[kind]), kind) for kind in ("tools", "prompts", "resources", "templates"))
    line = " ".join(["%mcp diff", connection.name, *([shlex.quote(arguments.out)] if arguments.out else [])])
    return Text(f"{file}: {counts}; `{line}` says what has changed since.")


def diff_options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="a connected server (default: the only one)")
    parser.add_argument("file", nargs="?", metavar="FILE", help="a snapshot (default: SERVER.mcp.json)")
    parser.add_argument("--check", action="store_true", help="breaking changes are an error, so that Run All stops")


async def diff(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Compare a server with a snapshot."""
    from mcp_magic.server.docs import compared, interface_of, read_snapshot

    connection = invocation.connection(arguments.server)
    file = _file(invocation, arguments.file, connection.name)
    before = read_snapshot(file, connection.name)
    changes = compared(before, await interface_of(connection))
    breaking = [change for change in changes if change.breaking]
    if arguments.check and breaking:
        first = "; ".join(str(change).removeprefix("breaking: ") for change in breaking[:3])
        more = f" and {len(breaking) - 3} more" if len(breaking) > 3 else ""
        counts = counted(len(breaking), "breaking changes")
        raise CommandError(f"%mcp diff: {counts} since {file.name}: {first}{more}")
    return change_listing(changes, f"{connection.name} since {file.name}")


def change_listing(changes: Sequence[Change], title: str) -> Listing:
    """Return changes as a listing, breaking ones first."""
    rows = [
        {
            "breaking": "breaking" if change.breaking else "",
            "kind": change.kind,
            "name": change.name,
            "where": change.where,
            "change": change.text,
        }
        for change in changes
    ]
    columns = ("breaking", "kind", "name", "where", "change")
    return Listing(rows, title=title, columns=columns, empty="nothing has changed", kind="changes")


SNAPSHOT = Implementation(
    snapshot,
    snapshot_options,
    examples=("%mcp snapshot weather", "%mcp snapshot weather -o api/weather.json"),
    details="Tools, prompts, resources and templates as JSON, sorted, to keep under version control.",
)
DIFF = Implementation(
    diff,
    diff_options,
    examples=("%mcp diff weather", "%mcp diff weather api/weather.json --check"),
    details="A change is breaking if what worked before may fail now: a tool that is gone, an argument that is "
    "required now, a choice that is none any more, a field of the answer that is missing.",
)
