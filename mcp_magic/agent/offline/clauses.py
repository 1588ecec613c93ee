"""A request in steps: what is asked for one after the other, and what at the same time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.mentions import masked, mentions, quotations
from mcp_magic.agent.offline.words import PREPOSITIONS, STOP, VERBS, stem, word_set, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.agent.offline.tools import Known

__all__ = ["Part", "actions", "parts", "refers", "ways_to_part"]


MOST_WAYS = 8
"""Places at which a clause is tried to be parted; each costs two searches for a tool."""


@dataclass(frozen=True)
class Part:
    """One thing that a request asks for.

    Attributes:
        text: The words.
        later: Whether it comes after what stands before it, and may use its result.
        like_last: Whether it says only what differs from the part before: "... and in Rome".
    """

    text: str
    later: bool = False
    like_last: bool = False


_THEN = re.compile(
    r"(?i)\s*[,;.]?\s*\b(?:and\s+)?(?:then|after(?:wards| that| this)|finally|lastly|next(?=,)|subsequently)\b\s*,?\s*"
    r"|\s*;\s+|(?<=[^\s\d])[.!?]+\s+(?=[^\s\d])|\s*[.!?]*\s*(?:^|\n)\s*(?:\d+[.)]\s+|[-*\u2022]\s+)?"
)
"""What parts one step from the next; "the next 5 days" does not."""

_AND = re.compile(r"(?i)\s*(?:,\s*(?:and\s+|also\s+|and\s+also\s+)?|\s+(?:and(?:\s+also)?|as well as)\s+)")

_ASKING = VERBS | word_set("what which who how where when")

_ASKED = frozenset(map(stem, _ASKING))

_REFERENCE = re.compile(
    r"(?i)\bthe result of step \d+\b|(?<!is )(?<!was )(?<!if )\bit\b(?!'s| is| was)"
    r"|\b(?:that|this)\b(?=\s*(?:$|[,.;?!]|(?:by|to|from|and|with|in|as|into|over|times|plus|minus|\d)\b))"
    r"|\b(?:the|that|this|its|your|previous|last|first|second)\s+(?:(?:previous|last|first|second|final|two)\s+)?"
    r"(?:results?|answers?|sums?|products?|difference|quotient|outputs?|totals?|numbers?|values?|outcome|response|text)\b"
    r"(?!\s+(?:of|between|for|in|from|'|\"|\d))"
    r"|\b(?:them|these|those|both)\b(?:\s+(?:results|numbers|values|answers|sums))?(?!\s+\w+s\b)"
)


def refers(text: str) -> list[tuple[int, int]]:
    """Return where a text speaks of an earlier result.

    >>> [text[start:end] for text in ("multiply it by 2", "double the result", "what time is it in Rome?")
    ...  for start, end in refers(text)]
    ['it', 'the result']
    """
    blank = masked(text, quotations(text))
    return [found.span() for found in _REFERENCE.finditer(blank)]


def actions(tools: Sequence[Known]) -> frozenset[str]:
    """Return the stems with which a new thing to do may begin: what tools do, and what people ask with."""
    does = {next((word.stem for word in words(tool.description)), "") for tool in tools}
    named = {tool.name_stems[0] for tool in tools if tool.name_stems}
    return frozenset(stem(word) for word in _ASKING) | ((does | named) - {""} - frozenset(map(stem, STOP - _ASKING)))


def parts(text: str, known: frozenset[str]) -> list[Part]:
    """Part a request.

    Args:
        text: The request.
        known: See `actions`.
    """
    found: list[Part] = []
    for number, (start, end) in enumerate(_between(_THEN, text)):
        step = text[start:end]
        together = _together(step, known)
        for order, (piece, like_last) in enumerate(together):
            found.append(Part(piece, later=number > 0 and order == 0, like_last=like_last))
    return [part for part in found if re.search(r"\w", part.text)]


def _anything(stem: str) -> bool:
    return True


def _hidden(text: str) -> str:
    """Blank out quotations, JSON and URLs: nothing is parted there."""
    found = mentions(text, _anything)
    kept = [each for each in found if each.kind in _WHOLE or (each.kind == "number" and "," in each.text)]
    return masked(text, kept)


_WHOLE = frozenset(("quoted", "json", "url", "email", "path", "date", "datetime", "code", "time"))


def _between(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    spans = []
    start = 0
    for match in pattern.finditer(_hidden(text)):
        spans.append((start, match.start()))
        start = match.end()
    return [*spans, (start, len(text))]


def _together(text: str, known: frozenset[str]) -> list[tuple[str, bool]]:
    """Part a step into what may be done at the same time, each with whether it is like the one before."""
    hidden = _hidden(text)
    cuts: list[tuple[int, int, bool]] = []
    start = 0
    for match in _AND.finditer(hidden):
        left, right = hidden[start : match.start()], hidden[match.end() :]
        if re.match(r"(?i)\W*(?:if|when|given|since|as)\b", left) or re.search(r"(?i)\bbetween\b[^,]*$", left):
            continue
        # after a mere comma, "end 2026-01-01" is no request, though a tool may end something
        if _begins(right, known if re.search(r"\w", match[0]) else _ASKED) and _begins(left, known):
            cuts.append((match.start(), match.end(), False))
        elif re.search(r"\w", match[0]) and _elliptical(text[start : match.start()], text[match.end() :]):
            cuts.append((match.start(), match.end(), True))
        else:
            continue
        start = match.end()
    pieces, at, like_last = [], 0, False
    for begin, end, like_next in cuts:
        pieces.append((text[at:begin], like_last))
        at, like_last = end, like_next
    return [*pieces, (text[at:], like_last)]


def ways_to_part(text: str) -> list[tuple[str, str]]:
    """Return what stands before and behind each "and" and comma.

    >>> ways_to_part("the weather in Paris and the time in Rome")
    [('the weather in Paris', 'the time in Rome')]
    """
    found = islice(_AND.finditer(_hidden(text)), MOST_WAYS)
    return [(text[: match.start()], text[match.end() :]) for match in found]


def _begins(text: str, known: frozenset[str]) -> bool:
    """Whether a text begins as a request does."""
    for word in words(text)[:4]:
        low = word.low.removesuffix("'s")
        if word.stem in known or low in _ASKING:
            return True
        if low not in ("please", "also", "can", "could", "you", "i", "want", "to", "would", "like", "now", "the", "me"):
            return False
    return False


def _elliptical(left: str, right: str) -> bool:
    """Whether the right side is another "in Rome" after "... in Oslo"."""
    begins = re.match(r"(?i)(?:also\s+)?(in|for|at|of|on|to|from|with)\s+", right)
    if begins is None or not re.search(rf"(?i)\b{begins[1]}\b", left):
        return False
    head = re.split(r"(?i),|\band\b", right)[0]
    extra = [word for word in words(head)[1:] if word.low in PREPOSITIONS]
    return begins[1].lower() not in ("to", "from") and not extra and len(words(head)) <= 5
