"""Names in English text: what begins with a capital where a plain word would not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.words import STOP, VERBS, stem, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["place_names"]

_CAPITAL = r"[^\W\d_a-z][^\W\d_]*(?:[-'\u2019.][^\W\d_]+)*"
_JOINS = "de|da|do|di|la|of|the|upon|am|del"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:\s+(?:{_JOINS}))*\s+{_CAPITAL})*")

_NOT_NAMES = word_set(
    "i a o monday tuesday wednesday thursday friday saturday sunday january february march april may june july "
    "august september october november december english png jpeg svg csv tsv json pdf wav html http "
    "mcp utf ascii hz khz mb kb celsius fahrenheit true false null none"
)
"""Words with a capital that name no place, person or thing."""


def place_names(text: str, vocabulary: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """Find names: where they begin and end, and without a possessive.

    The first word of a sentence is one only if tools do not know it; so is one all in capitals (PNG).

    >>> [name for _, _, name in place_names("Show Rio de Janeiro's weather, and New York City.", lambda stem: False)]
    ['Rio de Janeiro', 'New York City']
    """
    for match in _NAME.finditer(text):
        start, name = match.start(), match[0]
        while name:
            first = re.match(r"[^\s]+", name)
            assert first is not None
            if not _common(first[0], vocabulary, opens=_opens(text, start)):
                break
            rest = name[first.end() :].lstrip()
            start, name = start + len(name) - len(rest), rest
        name = re.sub(r"(?:['\u2019]s|\.)$", "", name)
        if name and name[0].isupper():
            yield start, start + len(name), name


def _opens(text: str, start: int) -> bool:
    """Whether a sentence begins here."""
    before = text[:start].rstrip(" \"'(")
    return not before or before[-1] in ".!?:;\n"


def _common(word: str, vocabulary: Callable[[str], bool], *, opens: bool) -> bool:
    low = re.sub(r"['\u2019](s|re|ll|m|d|ve|t)$", "", word.lower())
    if low in _NOT_NAMES or low in STOP or word.lower() in STOP:
        return True
    return (opens or word.isupper()) and (vocabulary(stem(low)) or low in _OPENERS)


_OPENERS = VERBS | word_set(
    "after before given if when while because yes ok today tomorrow yesterday temperature time weather order test"
)
"""Words with which requests begin, and which are no names for all their capitals."""
