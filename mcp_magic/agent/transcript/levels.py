"""How much is shown of an entry: the newest in full, what is further back ever shorter.

A run has hundreds of steps, a notebook holds them all, and nobody wants megabytes in it. The sums hold for one
transcript, so that its HTML stays below 500 kB however long it gets.
"""

from __future__ import annotations

from enum import IntEnum

from mcp_magic.results.safe import cut

__all__ = ["ANSWER", "RESULT", "ROOM", "TEXT", "Level", "shortened"]


class Level(IntEnum):
    """From all of it to nothing."""

    FULL = 0
    BRIEF = 1
    LINE = 2
    GONE = 3


ROOM = {Level.FULL: 140_000, Level.BRIEF: 70_000, Level.LINE: 100_000}
"""Bytes of HTML that the entries of each level may take, beside those of the last segment, which is always in full."""

ANSWER = 40_000
"""Characters of an answer."""

TEXT = {Level.FULL: 8_000, Level.BRIEF: 500, Level.LINE: 150}
"""Characters of other text."""

RESULT = 15_000
"""Bytes of one result in full; its text may have a fifth of that, as `Budget.characters` has it."""


def shortened(text: str, limit: int) -> tuple[str, str]:
    """Return the first `limit` characters, with controls written out, and a remark on the rest.

    >>> shortened("abcdef", 4)
    ('abcd', '… 4 of 6 characters')
    """
    return cut(text, limit), "" if len(text) <= limit else f"… {limit:,} of {len(text):,} characters"
