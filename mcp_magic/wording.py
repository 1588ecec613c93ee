"""Words that errors are made of."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["clause", "counted", "did_you_mean", "listed", "sentence"]


def clause(text: str) -> str:
    """Return words that somebody else wrote as a part of a sentence: without the full stop at their end.

    >>> clause("not today. "), clause("wait ..."), clause("is it there?")
    ('not today', 'wait ...', 'is it there?')
    """
    text = text.strip()
    return text if text.endswith("..") else text.removesuffix(".")


def sentence(*clauses: str) -> str:
    """Join clauses by colons to one sentence with one end; empty ones are left out.

    >>> sentence("x was not called", "not today."), sentence("x was not called", "")
    ('x was not called: not today.', 'x was not called.')
    >>> sentence("HTTP 400", "is this its MCP endpoint?"), sentence("it says", "wait ...")
    ('HTTP 400: is this its MCP endpoint?', 'it says: wait ...')
    """
    joined = ": ".join(said for each in clauses if (said := clause(each)))
    return joined if joined.endswith((".", "?", "!", "…")) else f"{joined}."


def counted(count: int, plural: str) -> str:
    """Return how many there are.

    >>> counted(2, "tools"), counted(1, "tools")
    ('2 tools', '1 tool')
    """
    return f"{count:,} {plural if count != 1 else plural.removesuffix('s')}"


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest valid name, or an empty string.

    >>> did_you_mean("waether", ["math", "weather"])
    " Did you mean 'weather'?"
    >>> did_you_mean("zzz", ["math"])
    ''
    """
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Join names for a message, at most `limit` of them.

    >>> listed(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    >>> listed([])
    'none'
    """
    names = list(names)
    if not names:
        return "none"
    shown = ", ".join(names[:limit])
    rest = len(names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
