"""Which mention goes to which argument: the best pairs first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.fitting import fit
from mcp_magic.agent.offline.purposes import name_stems, purpose
from mcp_magic.agent.offline.surroundings import NEAR, pointed, preposition, role, stem_before
from mcp_magic.agent.offline.words import PREPOSITIONS, stem, word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp_magic.agent.offline.mentions import Mention
    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

__all__ = ["Assigned", "assign", "joined"]

_CALLED = frozenset(map(stem, word_set("called named name")))

_SOURCE = frozenset(map(stem, word_set("source from start origin")))

LEAST = {True: 0.4, False: 1.0}
"""What a mention must score to fill an argument that is required, and one that is not."""


@dataclass(frozen=True)
class Assigned:
    """An argument with its value.

    Attributes:
        name: The argument.
        value: Its value.
        score: How well it suits.
        mentions: What it was made of.
    """

    name: str
    value: Any
    score: float
    mentions: tuple[Mention, ...]


def assign(text: str, blank: str, seen: Sequence[Mention], fields: Sequence[Field], tool: Known) -> list[Assigned]:
    """Give each mention to at most one argument, and each argument at most one mention (a list: one group).

    Args:
        text: The clause.
        blank: The clause, with mentions and all that is used already blanked out.
        seen: The mentions, from left to right.
        fields: The arguments that are still open.
        tool: The tool.
    """
    possible: list[tuple[float, int, int, Assigned]] = []
    for order, field in enumerate(fields):
        for found in _possible(text, blank, seen, field, tool):
            if found.score >= LEAST[field.required]:
                possible.append((-round(found.score, 3), found.mentions[0].start, order, found))
    chosen: dict[str, Assigned] = {}
    used: set[int] = set()
    for *_, found in sorted(possible, key=lambda each: each[:3]):
        starts = {mention.start for mention in found.mentions}
        if found.name not in chosen and not used & starts:
            chosen[found.name] = found
            used |= starts
    return [_extended(each, seen, used, fields) for each in chosen.values()]


def _extended(found: Assigned, seen: Sequence[Mention], used: set[int], fields: Sequence[Field]) -> Assigned:
    """Add what is left over to a list of its like: "Lima compared with Cairo" names two cities."""
    field = next(each for each in fields if each.name == found.name)
    kinds = {mention.kind for mention in found.mentions} - {"number", "words", "json", "reference"}
    if purpose(field) != "list" or field.item is None or not kinds:
        return found
    item = _named(field.item, field)
    rest = [each for each in seen if each.start not in used and each.kind in kinds and fit(each, item)]
    every = sorted([*found.mentions, *rest], key=lambda mention: mention.start)
    high = field.schema.get("maxItems")
    if not rest or (isinstance(high, int) and len(every) > high):
        return found
    used |= {mention.start for mention in rest}
    values = [fitted[0] for each in every if (fitted := fit(each, item))]
    return Assigned(found.name, values, found.score, tuple(every))


def _possible(
    text: str, blank: str, seen: Sequence[Mention], field: Field, tool: Known
) -> Iterator[Assigned]:  # fmt: skip
    if purpose(field) == "list":
        yield from _lists(text, blank, seen, field, tool)
        return
    for i, mention in enumerate(seen):
        if mention.kind == "month" and purpose(field) == "date":
            yield _day_of_month(mention, field)
            continue
        scored = _score(text, blank, seen, i, field, field, tool)
        if scored is not None:
            yield Assigned(field.name, *scored, (mention,))


def _score(
    text: str, blank: str, seen: Sequence[Mention], i: int, field: Field, item: Field, tool: Known
) -> tuple[Any, float] | None:
    """Return the value and the score of a mention for a field, or for an item of it."""
    mention = seen[i]
    fitted = fit(mention, item, text[mention.end : mention.end + NEAR])
    if fitted is None:
        return None
    value, score = fitted
    before = stem_before(blank, mention)
    verb = before if before in tool.own_stems else ""
    score += pointed(blank, mention, field, tool) + role(blank, mention, field, tool, verb)
    wanted = purpose(item)
    if before in _CALLED and wanted in ("code", "text"):
        score += 2.0
    if wanted == "zone" and i and seen[i - 1].kind == "time" and mention.start - seen[i - 1].end < 7:
        source = _SOURCE & set(name_stems(field))
        score += 2.5 if source else -1.0
    score += _loosely(preposition(blank, mention), mention, field, item, verb)
    if wanted == "number" and _is_pair(text, seen, i):
        score += 0.5
    optional = 0.0 if field.required else -0.4
    return value, score + optional


def _is_pair(text: str, seen: Sequence[Mention], i: int) -> bool:
    """Whether a number is one of two: "300 x 200", "300 by 200"."""
    before = next((each for each in reversed(seen[max(0, i - 2) : i]) if each.kind == "number"), None)
    after = next((each for each in seen[i + 1 : i + 3] if each.kind == "number"), None)
    sides = [(before, seen[i]), (seen[i], after)]
    return any(
        re.fullmatch(r"(?i)\s*(?:x|\u00d7|by)\s*", text[one.end : other.start][:9])
        for one, other in sides
        if one is not None and other is not None
    )


def _loosely(before: str, mention: Mention, field: Field, item: Field, verb: str) -> float:
    """What a preposition adds to a mention that may be anything: a plain word, or a file for a name."""
    wanted = purpose(item)
    if before in ("as", "into") and wanted in ("code", "text", "path") and mention.kind in ("path", "code", "words"):
        return 1.0
    if mention.kind != "words" or wanted not in ("place", "zone", "path", "code"):
        return 0.0
    if not field.required:
        return -0.5
    if before in ("in", "at", "for", "of", "to", "from", "on", "near", "against", "with"):
        return 1.0
    return 0.0 if verb else -0.5


def _day_of_month(mention: Mention, field: Field) -> Assigned:
    first = bool({"start", "from", "first", "since", "begin"} & set(name_stems(field)))
    # a second use of the same mention is no conflict: each end of the month has a place of its own
    place = mention if first else type(mention)(mention.kind, mention.end - 1, mention.end, mention.text, mention.value)
    return Assigned(field.name, mention.value[0 if first else 1], 3.0, (place,))


def _lists(text: str, blank: str, seen: Sequence[Mention], field: Field, tool: Known) -> Iterator[Assigned]:
    for mention in seen:
        whole = fit(mention, field)
        if whole is not None:
            yield Assigned(field.name, whole[0], whole[1], (mention,))
    item = field.item
    if item is None:
        return
    scored = [_score(text, blank, seen, i, field, _named(item, field), tool) for i in range(len(seen))]
    for group in _groups(text, seen, [each is not None for each in scored]):
        if len({seen[i].kind == "words" for i in group}) > 1:
            continue
        values = [each for i in group if (each := scored[i]) is not None]
        size = len(values)
        low, high = field.schema.get("minItems"), field.schema.get("maxItems")
        if (isinstance(low, int) and size < low) or (isinstance(high, int) and size > high):
            continue
        score = max(score for _, score in values) + 0.6 * (size - 1) - (0.8 if size == 1 else 0.0)
        yield Assigned(field.name, [value for value, _ in values], score, tuple(seen[i] for i in group))


def _named(item: Field, field: Field) -> Field:
    """Return an item's field under the name of its list, which says what it is for: locations, files."""
    about = item.raw if isinstance(item.raw, dict) else {}
    described = {"description": field.description, **about}
    return type(item)(field.name, described if item.kind == "string" else item.raw, resolver=item.resolver)


def _groups(text: str, seen: Sequence[Mention], fits: Sequence[bool]) -> Iterator[list[int]]:
    """Find the longest runs of mentions that commas, "and" or nothing but a space join."""
    group: list[int] = []
    for i, fitting in enumerate(fits):
        if group and (not fitting or not joined(text[seen[group[-1]].end : seen[i].start])):
            yield group
            group = []
        if fitting:
            group.append(i)
    if group:
        yield group
    yield from ([i] for i, fitting in enumerate(fits) if fitting)


def joined(between: str) -> bool:
    """Whether what stands between two mentions makes them a list.

    >>> joined(", "), joined(" and "), joined(" in ")
    (True, True, False)
    """
    rest = re.sub(r"(?i)\b(?:and|or|plus|with|to|versus|vs|then)\b|[,;&\s\"'`.]", "", between)
    return not rest and not (set(between.lower().split()) & (PREPOSITIONS - {"and", "with", "to"}))
