"""`%mcp last`: the whole answer of the last tool that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation
from mcp_magic.results.results import last_failed

if TYPE_CHECKING:
    import argparse

    from mcp_magic.results.results import ToolResult

__all__ = ["LAST"]


async def run(invocation: Invocation, arguments: argparse.Namespace) -> ToolResult:
    """Return the answer."""
    result = last_failed()
    if result is None:
        raise CommandError("%mcp last: no tool has failed yet; a result that is no error is the value of its call.")
    return result


LAST = Implementation(
    run,
    examples=("%mcp last", "result = %mcp last"),
    details="The error below a cell shows six lines at most; this is the whole answer, a result as any other: `.text` "
    "has its words, `.data` its JSON. In Python the same is `error.result`.",
)
