"""The arguments that a clause gives for a tool."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline import phrases
from mcp_magic.agent.offline.clauses import refers
from mcp_magic.agent.offline.fitting import fit
from mcp_magic.agent.offline.matching import assign
from mcp_magic.agent.offline.mentions import Mention, masked, mentions
from mcp_magic.agent.offline.pairs import pairs
from mcp_magic.agent.offline.purposes import default_said, purpose, suggested

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_magic.agent.offline.phrases import Span
    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

__all__ = ["Clause", "Filling", "fill"]

_HERE = re.compile(
    r"(?i)\b(?:this|the current|our|here)\b(?:\s+(?:repo|repository|folder|directory|project))?|\bhere\b"
)


@dataclass(frozen=True)
class Clause:
    """One thing that a request asks for.

    Attributes:
        text: The words.
        named: Where the tool's name stands in them, or None.
        references: What stands for an earlier result, with its value.
        carried: Earlier results that may fill a gap, the last one first.
        before: Arguments of the calls before, which hold on: the repository, the place.
        vocabulary: Whether some tool has a stem.
    """

    text: str
    vocabulary: Callable[[str], bool]
    named: Span | None = None
    references: tuple[Mention, ...] = ()
    carried: tuple[Mention, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Filling:
    """What came of filling a tool's arguments from a clause.

    Attributes:
        arguments: By name.
        missing: Required arguments without a value.
        evidence: How clearly the arguments were given.
        left: Mentions that no argument took.
        spans: Where the text was used.
        places: Where the value of an argument stands.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    missing: list[Field] = field(default_factory=list)
    evidence: float = 0.0
    left: list[Mention] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)

    def take(self, name: str, value: Any, evidence: float, *spans: Span) -> None:
        """Note an argument and where it came from."""
        self.arguments[name] = value
        self.evidence += evidence
        self.spans += spans
        if spans:
            self.places[name] = spans[-1]


def fill(clause: Clause, tool: Known) -> Filling:
    """Return the arguments that a clause gives for a tool."""
    found = Filling()
    given = pairs(_blank(clause.text, [clause.named] if clause.named else []), tool.fields)
    found.arguments |= given.arguments
    found.spans += [*given.spans, *([clause.named] if clause.named else [])]
    found.evidence += 4.0 * len(given.spans)
    blank = _blank(clause.text, found.spans)
    seen = sorted([*mentions(_without(blank, clause.references), clause.vocabulary), *clause.references],
                  key=lambda mention: mention.start)  # fmt: skip
    _fill_choices(found, blank, masked(blank, seen), tool, named=clause.named is not None)
    seen = [each for each in seen if not _taken(each, found.spans)]
    runs = [Mention("words", *span, blank[slice(*span)], blank[slice(*span)])
            for span in phrases.runs(_blank(masked(blank, seen), found.spans), tool)]  # fmt: skip
    _assign(found, clause.text, blank, sorted([*seen, *runs], key=lambda each: each.start), tool)
    _fill_texts(found, clause, tool, seen)
    _fill_gaps(found, clause, tool)
    found.arguments = {each.name: found.arguments[each.name] for each in tool.fields if each.name in found.arguments}
    found.left = [each for each in seen if not _taken(each, found.spans)]
    found.missing = [each for each in tool.fields if each.needed and each.name not in found.arguments]
    return found


def _blank(text: str, spans: Sequence[Span]) -> str:
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def _without(text: str, taken: Sequence[Mention]) -> str:
    return _blank(text, [(each.start, each.end) for each in taken])


def _taken(mention: Mention, spans: Sequence[Span]) -> bool:
    return any(mention.start < end and start < mention.end for start, end in spans)


def _open(found: Filling, tool: Known) -> list[Field]:
    return [each for each in tool.fields if each.name not in found.arguments]


def _fill_choices(found: Filling, text: str, blank: str, tool: Known, *, named: bool) -> None:
    """Fill what words of the clause say: truth values, choices, lists of choices."""
    for each in _open(found, tool):
        wanted = purpose(each)
        if wanted == "boolean" and (truth := phrases.truth_said(blank, each, tool, named=named)):
            if truth[0] != each.default:
                found.take(each.name, truth[0], 2.0, truth[1])
        elif wanted == "choice" or suggested(each):
            choice = phrases.choice_said(_blank(text, found.spans), each, tool)
            if choice is not None:
                found.take(each.name, choice[0], 2.5, choice[1])
        elif wanted == "list" and each.item is not None and purpose(each.item) == "choice":
            several = phrases.choices_said(_blank(text, found.spans), each.item, tool)
            if several:
                found.take(each.name, [value for value, _ in several], 2.5, *(span for _, span in several))


def _assign(found: Filling, text: str, blank: str, seen: list[Mention], tool: Known) -> None:
    for assigned in assign(
        text, masked(blank, [each for each in seen if each.kind != "words"]), seen, _open(found, tool), tool
    ):
        spans = [(each.start, each.end) for each in assigned.mentions]
        found.take(assigned.name, assigned.value, min(assigned.score, 4.0), *spans)


def _fill_texts(found: Filling, clause: Clause, tool: Known, seen: list[Mention]) -> None:
    """Fill texts without quotes; one that must be given takes what no other argument has use for."""
    texts = [each for each in _open(found, tool) if purpose(each) == "text"]
    required = [each for each in texts if each.required]
    for each in [*required, *(each for each in texts if not each.required)]:
        blank = _blank(clause.text, found.spans)
        alone = each.required and sum(1 for field in tool.fields if field.required) == 1
        said = phrases.text_said(clause.text, blank, each, tool, alone=alone)
        if said is None and len(required) == 1 and each.required and clause.named is None:
            continue
        if said is not None:
            found.take(each.name, said[0], 1.0, said[1])


def _fill_gaps(found: Filling, clause: Clause, tool: Known) -> None:
    """Fill required arguments that the clause leaves open: from the description, from earlier results, from here."""
    for each in [each for each in _open(found, tool) if each.required]:
        gap = _gap(found, each, clause, tool)
        if gap is not None:
            found.take(each.name, *gap)


def _gap(found: Filling, wanted: Field, clause: Clause, tool: Known) -> tuple[Any, float] | None:
    """Return what fills a required argument that nothing in the clause gives, and how well; None if nothing does."""
    fitting = [fitted for each in clause.carried if (fitted := fit(each, wanted))]
    if fitting and purpose(wanted) not in ("boolean", "choice"):
        return fitting[0][0], 0.5
    lasting = ("path", "place", "zone", "url", *(("code",) if refers(clause.text) else ()))
    if purpose(wanted) in lasting and wanted.name in clause.before:
        return clause.before[wanted.name], 1.0
    if purpose(wanted) == "path" and _HERE.search(clause.text) and "file" not in wanted.name.lower():
        return ".", 1.0
    if (default := default_said(wanted)) is not None:
        return default, 0.0
    if options := suggested(wanted):
        return options[0], 0.0
    both = _other_end(found, wanted, tool)
    return None if both is None else (both, 0.5)


def _other_end(found: Filling, field: Field, tool: Known) -> Any:
    """Return the other day of a span of days of which only one was said: a single day."""
    if purpose(field) != "date":
        return None
    days = [each.name for each in tool.fields if purpose(each) == "date" and each.required]
    return found.arguments.get(days[0]) or found.arguments.get(days[1]) if len(days) == 2 else None
