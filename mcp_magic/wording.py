"""Words that errors are made of."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["did_you_mean", "listed"]


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
