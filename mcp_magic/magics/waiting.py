"""`--timeout` and `--max-total-timeout`: how long a subcommand waits for an answer."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from mcp_magic.magics.parsing import Invocation, Parser

__all__ = ["Limits", "seconds_typed", "timeout_options", "timeouts"]


class Limits(TypedDict):
    """Both, as the arguments of `Connection.call_tool` and its like."""

    timeout: float | None
    max_total_timeout: float | None


def timeout_options(parser: Parser) -> None:
    """Add both options."""
    parser.add_argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer")
    parser.add_argument(
        "--max-total-timeout", type=seconds_typed, metavar="S", help="seconds it may take while it reports progress"
    )


def timeouts(invocation: Invocation, arguments: argparse.Namespace) -> Limits:
    """Return what was typed; without `--timeout` the setting holds."""
    timeout = arguments.timeout if arguments.timeout is not None else invocation.settings.call_timeout
    return {"timeout": timeout, "max_total_timeout": arguments.max_total_timeout}


def seconds_typed(word: str) -> float:
    """Read a number of seconds.

    >>> seconds_typed("1.5"), seconds_typed("1e3")
    (1.5, 1000.0)

    Raises:
        ArgumentTypeError: It is none, or not above 0.
    """
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        problem = f"seconds above 0 are meant, for example 2.5, not {word[:40]!r}"
        raise argparse.ArgumentTypeError(problem)
    return seconds
