"""How the words around a mention point at an argument."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.agent.offline.purposes import labels, name_stems
from mcp_magic.agent.offline.words import PREPOSITIONS, near, stem, word_set, words

if TYPE_CHECKING:
    from mcp_magic.agent.offline.mentions import Mention
    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

__all__ = ["pointed", "preposition", "role", "stem_before"]

NEAR = 80
"""Characters before and behind a mention that may say what it is for."""

_LINKS = word_set("of to is the a an with as for called named equal equals be set on from at in into by about than")
"""Words that may stand between a name and its value."""

_SOURCE = frozenset(map(stem, word_set("source from start origin begin beginning since after base first min minimum")))
_TARGET = frozenset(map(stem, word_set("target to end destination dest until till before stop last max maximum")))
_COUNTS = frozenset(map(stem, word_set("count max limit num number n rows size top amount quantity steps lines")))


def preposition(text: str, mention: Mention) -> str:
    """Return the preposition before a mention, articles aside, or "".

    Of a second one in a list ("between 1 and 2") it is "and".
    """
    before = re.search(
        r"([^\W\d_]+)(?:\s+(?:the|a|an))?\s*[\"'`(\[]?\s*$", text[max(0, mention.start - NEAR) : mention.start]
    )
    return before[1].lower() if before and before[1].lower() in PREPOSITIONS else ""


def stem_before(text: str, mention: Mention) -> str:
    """Return the stem of the word right before a mention, or ""."""
    before = re.search(r"([^\W\d_]+)\s*[:\"'`]?\s*$", text[max(0, mention.start - NEAR) : mention.start])
    return stem(before[1]) if before else ""


def pointed(text: str, mention: Mention, field: Field, tool: Known) -> float:
    """Return how clearly words next to a mention name a field: 0 (not) to 4 (by its name).

    Args:
        text: The clause, with all mentions blanked out.
        mention: One of the mentions.
        field: An argument of the tool.
        tool: Whose own words name the tool rather than an argument.
    """
    known = labels(field)
    best = max(_before(text, mention, known, tool), _behind(text, mention, known))
    if best < 2 and mention.kind == "number" and _counted(text, mention, field):
        best = 1.5
    return best


def _clarity(word: str, known: dict[str, float]) -> float:
    return max((weight * near(stem(word), label) for label, weight in known.items()), default=0.0)


def _before(text: str, mention: Mention, known: dict[str, float], tool: Known) -> float:
    stretch = re.split(r"[\0,;.!?]", text[max(0, mention.start - NEAR) : mention.start].rstrip("\"'`( "))[-1]
    for distance, word in enumerate(reversed(words(stretch)[-4:])):
        clear = _clarity(word.low, known)
        if clear:
            named = word.stem in tool.name_stems and clear < 4
            return max(clear - 0.2 * distance - (1.5 if named else 0.0), 0.1)
        if word.low not in _LINKS:
            return 0.0
    return 0.0


def _behind(text: str, mention: Mention, known: dict[str, float]) -> float:
    stretch = re.split(r"[\0,;.!?:]", text[mention.end : mention.end + NEAR].lstrip("\"'`) -"))[0]
    best = 0.0
    for distance, word in enumerate(words(stretch)[:2]):
        if word.low in PREPOSITIONS or word.low == "and":
            break
        best = max(best, _clarity(word.low, known) - 0.3 * distance)
    return best if mention.kind == "number" else best - 0.5


def _counted(text: str, mention: Mention, field: Field) -> bool:
    """Whether a number says how many of something, and a field takes that."""
    follows = re.match(r"\s+(?:[a-z]+\s+){0,2}?([a-z]+s)\b", text[mention.end : mention.end + NEAR])
    return follows is not None and bool(_COUNTS & set(name_stems(field)))


def role(text: str, mention: Mention, field: Field, tool: Known, verb: str) -> float:
    """Return how well the preposition before a mention goes with a field, below 0 if it goes with another.

    "from" and "to" go with fields of such names; and what a description says of its arguments ("Subtract b from a")
    holds for the request, too ("subtract 3 from 10").

    Args:
        text: The clause.
        mention: One of the mentions.
        field: An argument of the tool.
        tool: The tool.
        verb: The stem right before the mention if it is one of the tool's own words, or "".
    """
    before = preposition(text, mention)
    names = set(name_stems(field))
    if names & _SOURCE or names & _TARGET:
        wanted = "source" if names & _SOURCE else "target"
        said = {"from": "source", "since": "source", "between": "source", "starting": "source", "off": "source"}
        said |= dict.fromkeys(("to", "until", "till", "through", "into", "and", "onto"), "target")
        if before in said:
            return 3.0 if said[before] == wanted else -2.0
    learned = _learned(tool)
    if len(learned) < 2:
        return _general(before, field, tool)
    if before:
        return 3.0 if learned.get(field.name) == before else 0.0
    return 1.0 if verb and learned.get(field.name) == "object" else 0.0


def _learned(tool: Known) -> dict[str, str]:
    """Return by argument the preposition before its name in the description, "object" where there is none."""
    said = [word.low for word in words(tool.description)]
    found: dict[str, str] = {}
    for field in tool.fields:
        for i, word in enumerate(said):
            if i and word == field.name.lower():
                found.setdefault(field.name, said[i - 1] if said[i - 1] in PREPOSITIONS else "object")
    return found


_BACKWARDS = frozenset(map(stem, word_set("subtract deduct minus")))


def _general(before: str, field: Field, tool: Known) -> float:
    numeric = [each.name for each in tool.fields if each.kind in ("integer", "number", "union")]
    if field.name not in numeric[:2] or len(numeric) < 2:
        return 0.0
    if before == "from" and _BACKWARDS & tool.own_stems:
        return 1.0 if field.name == numeric[0] else 0.0
    return 0.5 if before in ("by", "to") and field.name == numeric[1] else 0.0
