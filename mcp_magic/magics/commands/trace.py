"""`%mcp trace`: every message between this kernel and its servers."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.jsonfile import write_text
from mcp_magic.magics.parsing import Implementation, Invocation, Parser
from mcp_magic.magics.trace_listing import COLUMNS, TraceListing, trace_row

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mcp_magic.core.trace.trace import Entry
    from mcp_magic.magics.trace_plot import Timeline

__all__ = ["TRACE"]

SHOWN = 100
"""Messages listed unless more are asked for."""


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
    parser.add_argument("--method", metavar="M", help="only this method and its answers; also with * and ?")
    parser.add_argument("--errors", action="store_true", help="only what failed")
    parser.add_argument("--last", type=int, metavar="N", help=f"the last N messages (default: {SHOWN})")
    parser.add_argument("--export", metavar="FILE", help="write them all as JSON Lines")
    parser.add_argument("--plot", action="store_true", help="a timeline of the requests instead of a listing")
    parser.add_argument("--clear", action="store_true", help="forget all messages")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> TraceListing | Timeline:
    """List, draw or write the messages that are kept."""
    trace = invocation.host.trace
    if arguments.clear:
        trace.clear()
    found = [entry for entry in _of_server(invocation, arguments.server) if _wanted(entry, arguments)]
    chosen = found if arguments.last is None else found[-arguments.last :] if arguments.last > 0 else []
    if arguments.plot:
        from mcp_magic.magics.trace_plot import timeline

        return timeline(chosen)
    notes = []
    if arguments.export:
        lines = (json.dumps(entry.as_dict(), ensure_ascii=False) + "\n" for entry in chosen)
        write_text(invocation.directory / Path(arguments.export).expanduser(), "".join(lines))
        notes.append(f"{len(chosen):,} messages written to {arguments.export}, secrets masked")
    shown = chosen[-SHOWN:] if arguments.last is None else chosen
    if len(shown) < len(found):
        notes.append(f"the last {len(shown):,} of {len(found):,} messages: --last N lists more")
    if trace.dropped:
        notes.append(f"{trace.dropped:,} older messages were dropped (settings trace_messages, trace_bytes)")
    of = f" of {arguments.server}" if arguments.server else ""
    rows = [trace_row(entry) for entry in shown]
    empty = "nothing is kept: trace_messages is 0" if not trace.messages else "no such messages yet"
    return TraceListing(rows, title=f"Trace{of}", columns=COLUMNS, empty=empty, note="; ".join(notes), kind="messages")


def _of_server(invocation: Invocation, server: str | None) -> Sequence[Entry]:
    entries = invocation.host.trace.entries(server)
    if server is not None and not entries:
        invocation.host[server]  # a name that nobody has is an error; one that said nothing yet is none
    return entries


def _wanted(entry: Entry, arguments: argparse.Namespace) -> bool:
    if arguments.errors and not entry.failed:
        return False
    return arguments.method is None or fnmatchcase(entry.method, arguments.method)


TRACE = Implementation(
    run,
    options,
    examples=(
        "%mcp trace weather",
        "%mcp trace --method tools/call --last 20",
        "%mcp trace --errors",
        "%mcp trace --export trace.jsonl",
        "%mcp trace weather --plot",
    ),
    details="Secrets are masked before anything is kept, long messages are cut. `.df` has the messages with their "
    "JSON. The number in the first column is what `%mcp replay` takes.",
)
