"""Why a tool failed, where its server says that only to its own log, as MCPServer does since SDK 2.3."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import TYPE_CHECKING

from mcp_magic.config.specs import UrlSpec
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.errlog import Position
    from mcp_magic.core.place import Place

__all__ = ["cause_in", "clue"]

_BEGINS = "Traceback (most recent call last):"
_CAUSED = "The above exception was the direct"
"""How Python names the cause of an exception, as far as it is on one line where rich is installed."""

_FAILED = "Error executing tool "

_MODULE = re.compile(r"^(?:\w+\.)+")
_FRAME = "╰"
"""What ends a traceback of rich, with which MCPServer logs where it is there: in a narrow column."""


def clue(place: Place, tool: str, begun: Position | None) -> str:
    """Return words behind `half:add failed` that lead to why, or "".

    Args:
        place: The connection.
        tool: The tool's name.
        begun: What the server's stderr had when the tool was called; None where the stderr is not ours.
    """
    if begun is None:
        return " and did not say why; the server's own log may" if isinstance(place.spec, UrlSpec) else ""
    where = f"`%mcp logs {place.name}`"
    cause = one_line(_MODULE.sub("", cause_in(place.stderr(begun), tool)), 300)
    return f": {cause} ({where} has more)" if cause else f" and did not say why; {where} may"


def cause_in(stderr: str, tool: str) -> str:
    r"""Return the exception that MCPServer has logged as why a tool failed; "" if there is none, or more than one.

    Where calls of a tool fail at the same time, nothing says which of them an exception belongs to.

    >>> own = "UnexpectedToolError: Error executing tool add"
    >>> log = f"Traceback (most recent call last):\n  File 'a.py'\nValueError: no\n\n{_CAUSED} cause of ...\n{own}\n"
    >>> cause_in(log, "add"), cause_in(log, "print"), cause_in(log + log, "add")
    ('ValueError: no', '', 'ValueError: no')
    >>> cause_in(log + log.replace("no", "yes"), "add"), cause_in(log + log.replace("add", "print"), "add")
    ('', 'ValueError: no')
    >>> cause_in(f"  ╭─ Traceback ─╮\n  ╰─────╯\n  ValueError: no\n  ink\n  {_CAUSED}\n  cause of\n{own}", "add")
    'ValueError: no ink'
    """
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if line.lstrip().startswith(_CAUSED)]
    causes = set()
    for begin, end, after in zip([0, *ends], ends, [*ends[1:], len(lines)], strict=False):
        if re.search(rf"{_FAILED}{re.escape(tool)}(?![\w./-])", " ".join(map(str.strip, lines[end:after]))):
            causes.add(_cause(lines[begin:end]))
    return causes.pop() if len(causes) == 1 else ""


def _cause(log: list[str]) -> str:
    """Return the exception with which the last traceback of a log ends, or ""."""
    begun, framed = _last(log, lambda line: line.endswith(_BEGINS)), _last(log, lambda line: line.lstrip()[0] == _FRAME)
    said = log[framed + 1 :] if framed > begun else dropwhile(lambda line: line.startswith(" "), log[begun + 1 :])
    return " ".join(map(str.strip, said)) if max(begun, framed) >= 0 else ""


def _last(lines: list[str], fits: Callable[[str], bool]) -> int:
    return next((number for number in reversed(range(len(lines))) if fits(lines[number])), -1)
