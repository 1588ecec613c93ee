"""Arguments that words give: yes and no, one of several choices, a text without quotes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.purposes import labels, name_stems, purpose, suggested
from mcp_magic.agent.offline.words import PREPOSITIONS, STOP, Word, near, stem, word_set, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

__all__ = ["Span", "choice_said", "choices_said", "leading", "runs", "text_said", "truth_said"]

Span = tuple[int, int]

_FOLLOWING = word_set("following text words word string sentence phrase message back")
"""Words that announce a text, and are no part of it."""

_NOT = word_set("no not without don't doesn't never off disable disabled false skip omit exclude excluding hide")
_AUXILIARY = frozenset(map(stem, word_set("include is has enable with show use allow whether do should to given time")))
_SAYING = r"(?:\s*(?::|=|,|\b(?:saying|that says|that reads|is|of|to|as|with the (?:text|words?)|reading)\b))*\s*"
_OPENING = re.compile(
    r"^(?:\s|[:,=]|(?:back|that|about|on|of|for|into|with|saying|says|to me|me|the (?:text|words?|message|following)|"
    r"following|regarding|concerning|as)\b)+",
    re.IGNORECASE,
)


def truth_said(text: str, field: Field, tool: Known, *, named: bool) -> tuple[bool, Span] | None:
    """Return what a clause says of a truth value, and where, or None if it does not speak of it.

    Words of the tool's own name do not count, unless it was named besides or the clause says no to them.
    """
    known = {label for label in name_stems(field) if label not in _AUXILIARY} or set(name_stems(field))
    said = words(text)
    for i, word in enumerate(said):
        if not any(near(word.stem, label) == 1.0 for label in known):
            continue
        before = [each.low for each in said[max(0, i - 3) : i]]
        denied = bool(_NOT & set(before)) or (i + 1 < len(said) and said[i + 1].low in ("off", "false", "no"))
        if denied or named or word.stem not in tool.name_stems:
            return not denied, (word.start, word.end)
    return None


def choice_said(text: str, field: Field, tool: Known) -> tuple[Any, Span] | None:
    """Return the choice whose value, title or described words a clause has, or None."""
    found = next(_choices(text, field, tool), None)
    return found and (found[0], found[1])


def choices_said(text: str, field: Field, tool: Known) -> list[tuple[Any, Span]]:
    """Return all choices that a clause names, in the order of the clause."""
    return sorted(_choices(text, field, tool), key=lambda found: found[1])


def _choices(text: str, field: Field, tool: Known) -> Iterator[tuple[Any, Span]]:
    taken: list[Any] = []
    for exact in (True, False):
        for value, spoken in _spoken(field):
            span = _said(text, spoken, tool, exact=exact)
            if span is not None and value not in taken:
                taken.append(value)
                yield value, span


def _spoken(field: Field) -> list[tuple[Any, list[str]]]:
    """Return each choice with what people call it."""
    options = list(field.choices) or [(value, value) for value in suggested(field)]
    found = []
    for value, label in options:
        if isinstance(value, bool | int | float):
            continue
        after = re.search(rf"(?i)(?<![\w]){re.escape(str(value))}\s*[:=]\s*([^;:.\n]+)(?=[;.\n]|$)", field.description)
        others = re.split(r"\s*,\s*", after[1]) if after else []
        found.append((value, [str(value), label, *others]))
    return found


def _said(text: str, spoken: list[str], tool: Known, *, exact: bool) -> Span | None:
    for phrase in spoken:
        match = re.search(rf"(?i)(?<![\w/]){re.escape(phrase.strip())}(?![\w/])", text) if phrase.strip() else None
        if match:
            return match.span()
    if exact:
        return None
    for phrase in spoken:
        stems = [word.stem for word in words(phrase)]
        for word in words(text):
            if len(stems) == 1 and word.low not in STOP and word.stem not in tool.name_stems:
                alike = near(word.stem, stems[0])
                if alike == 1.0 or (alike >= 0.5 and len(word.low) > 1 and not _own_word(word, tool)):
                    return word.start, word.end
    return None


def _own_word(word: Word, tool: Known) -> bool:
    return word.low in STOP or word.stem in tool.own_stems or any(near(word.stem, own) for own in tool.own_stems)


def runs(text: str, tool: Known) -> Iterator[Span]:
    """Find runs of words that neither English nor the tool has a use for: names without a capital."""
    start = end = -1
    for word in words(text):
        plain = (
            len(word.text) > 1
            and not _own_word(word, tool)
            and not any(near(word.stem, each) for each in tool.spoken_stems)
        )
        if plain and end >= 0 and text[end : word.start].isspace():
            end = word.end
            continue
        if end >= 0:
            yield start, end
        start, end = (word.start, word.end) if plain else (-1, -1)
    if end >= 0:
        yield start, end


def leading(text: str, tool: Known) -> int:
    """Return where the words end with which a clause says what to do."""
    end = 0
    for word in words(text):
        colon = re.search(r":\s|\n", text[end : word.start])
        if colon:
            return end + colon.end()
        if "\0" in text[end : word.start]:
            break
        known = _own_word(word, tool) or word.low == tool.server.lower() or word.low in _FOLLOWING
        if not known:
            break
        if word.low not in STOP and word.low not in _FOLLOWING:
            end = word.end
    return end


def text_said(text: str, blank: str, field: Field, tool: Known, *, alone: bool) -> tuple[str, Span] | None:
    """Return a text without quotes, and where it stands: after the argument's name, or after what to do.

    Args:
        text: The clause.
        blank: The clause with what is taken already blanked out.
        field: The argument.
        tool: The tool.
        alone: Whether no other argument may take the rest of the clause.
    """
    start = _after_label(blank, field, tool)
    if start is None:
        if not alone:
            return None
        start = leading(blank, tool)
        opening = _OPENING.match(text[start:])
        start += opening.end() if opening else 0
    end = len(text)
    taken = re.search(rf"[\s,]*(?:\b(?:{'|'.join(PREPOSITIONS)})\b[\s\w]{{0,12}})?[\"'`]?\0", blank[start:])
    last = re.search(r"[\s,;]*(?:\b(?:and|but|it is|it's)\b[\s\w]{0,12})?\0+[\s.!?]*$", blank[start:])
    if (taken and not alone) or last:
        cut = taken if taken and not alone else last
        end = start + (cut.start() if cut else 0)
    said = re.sub(r"[.?\s]+$", "", text[start:end])
    return (said.strip(" \"'"), (start, end)) if re.search(r"\w", said) else None


def _after_label(blank: str, field: Field, tool: Known) -> int | None:
    wanted = {name for name, clear in labels(field).items() if clear >= 3}
    for word in words(blank):
        if word.stem in wanted and (word.stem not in tool.name_stems or re.match(r"\s*[:=]", blank[word.end :])):
            link = re.match(_SAYING, blank[word.end :])
            start = word.end + (link.end() if link else 0)
            if re.search(r"[^\W\d_]", blank[start:]):
                return start
    if purpose(field) == "text" and (match := re.search(r"\b(?:saying|that says|that reads)\b[\s:]*", blank)):
        return match.end()
    return None
