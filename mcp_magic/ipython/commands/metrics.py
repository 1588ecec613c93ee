"""`%mcp metrics`: the number, outcomes and durations of calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.parsing import write_text
from mcp_magic.display.listing import Listing
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

__all__ = ["METRICS"]

COLUMNS = ("server", "tool", "calls", "failed", "errors", "mean ms", "p50 ms", "p95 ms", "longest ms")


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
    parser.add_argument("--export", metavar="FILE", help="write all counters as Prometheus text")
    parser.add_argument("--clear", action="store_true", help="begin again at zero")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """List the counters by server and tool."""
    from mcp_magic.telemetry.telemetry import telemetry

    metrics = invocation.host.metrics
    notes = []
    if arguments.export:
        write_text(invocation.directory / Path(arguments.export).expanduser(), metrics.text())
        notes.append(f"written to {arguments.export} as Prometheus text")
    if arguments.clear:
        metrics.clear()
    rows = [row for row in metrics.rows() if arguments.server in (None, row["server"])]
    if arguments.server is not None and not rows:
        invocation.host[arguments.server]  # an unknown name is an error
    notes += [telemetry.status] if telemetry.status else []
    return Listing(
        rows, title="Calls", columns=COLUMNS, empty="no tool was called yet", note="; ".join(notes), kind="tools"
    )


METRICS = Implementation(
    run,
    options,
    examples=("%mcp metrics", "%mcp metrics weather", "%mcp metrics --export mcp.prom"),
    details="Quantiles are exact to a bucket of the histogram. The counters stay in this kernel: `host.metrics` has "
    "them, `host.metrics.text()` is what Prometheus reads.",
)
