"""The texts and markup of an approval question and of its outcome.

Pure functions of a request. Names, descriptions and arguments come from servers and models: markup is escaped and
invisible characters are made visible. Secrets are masked and long values cut to beginning and end; the panel can reveal
both.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic._text import counted, duration, listed
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.arguments import (
    MAX_VALUE,
    argument_cell,
    argument_rows,
    call_line,
    changes,
    hidden_note,
    hidden_parts,
    long_arguments,
    sized,
    written,
)
from mcp_magic.display.diff import diff_html, diff_text
from mcp_magic.display.document import Bold, Code, Part, bundle, facts, joined, note, page, tag, tool_badges
from mcp_magic.display.text import one_line, shorten
from mcp_magic.display.visible import LEGEND, in_line
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mcp_magic.consent.consent import Decision, Request
    from mcp_magic.display.arguments import Hidden
    from mcp_magic.display.document import Badge

__all__ = [
    "Outcome",
    "approval_html",
    "approval_text",
    "call_text",
    "changes",
    "hidden_of",
    "long_of",
    "named",
    "outcomes_bundle",
    "unseen_of",
]

MAX_DESCRIPTION = 600

MAX_RULE = 500

MAX_NAME = 200
"""Characters shown of a tool's name."""

MAX_OUTCOMES = 20
"""Lines shown about decided calls; earlier calls are only counted."""

SIGNS = {"approved": "✓", "denied": "✗", "not answered": "…", "interrupted": "…"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request.

    Attributes:
        request: The request.
        verdict: `"approved"`, `"denied"`, `"not answered"` or `"interrupted"`.
        seconds: How long the request waited.
        decision: The decision, or None.
    """

    request: Request
    verdict: str
    seconds: float
    decision: Decision | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that the call was sent with, or would have been."""
        changed = self.decision.arguments if self.decision else None
        return self.request.arguments if changed is None else changed

    def part(self) -> Part:
        """Return the outcome on one line."""
        call = Code(call_text(self.request, self.arguments))
        return Part.line(Bold(f"{SIGNS[self.verdict]} {self.verdict}"), " ", call, self._rest())

    def _rest(self) -> str:
        said = []
        if self.decision is not None:
            said.append(f"by {one_line(self.decision.by, 40)}")
            if self.decision.reason:
                said.append(f"because: {one_line(self.decision.reason, 200)}")
            if names := ", ".join(self._changed()):
                said.append(f"changed {names}")
            if self.decision.approved and self.decision.always:
                said.append(ALWAYS[self.decision.always])
        said.append(duration(self.seconds))
        asker = f" ({_asker(self.request)} asked)" if self.request.asker != PERSON else ""
        return f" {', '.join(said)}{asker}"

    def _changed(self) -> list[str]:
        return [one_line(name, 40) for name in changes(self.request.arguments, self.arguments)]


ALWAYS = {"tool": "always for this tool", "arguments": "always for these arguments", "run": "for this run"}
"""How far an approval reaches beyond the one call."""


def call_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return a call on one line, secrets masked and long values cut."""
    return f"{in_line(request.name, MAX_NAME)}({call_line(arguments, request.definition)})"


def _asker(request: Request) -> str:
    return "you" if request.asker == PERSON else one_line(request.asker, 60)


def _wants(request: Request) -> str:
    return "You are about to call" if request.asker == PERSON else f"{_asker(request)} wants to call"


def _badges(request: Request) -> list[Badge]:
    marks = [request.change.badge] if request.change is not None else []
    return [*marks, *tool_badges(request.definition, trusted=request.trusted)]


def _changed(request: Request) -> str:
    """Say that the tool has changed, and which rule no longer covers it."""
    if request.replaced:
        return f"{request.replaced[0].upper()}{one_line(request.replaced[1:], 600)}."
    what = "This tool has changed"
    if request.change is not None:
        when = time.strftime("%H:%M:%S", time.localtime(request.change.time))
        what = f"The {request.change.parts} of this tool changed after it was first seen (noticed at {when})"
    return (
        f"{what}. Rule `{in_line(request.outdated, MAX_RULE)}` was about what it was before."
        if request.outdated
        else f"{what}."
    )


def _description(request: Request) -> str:
    text = (request.definition.description if request.definition else None) or ""
    return shorten(text.strip(), MAX_DESCRIPTION)


def _rows(request: Request, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    if request.asker == PERSON:
        return argument_rows(request.arguments, arguments, request.definition)
    return argument_rows(request.arguments, arguments, request.definition, mask=partial(sized, MASK))


def hidden_of(request: Request, arguments: Mapping[str, Any]) -> list[Hidden]:
    """Return the hidden parts of a call; none of the user's own call, because the user typed them."""
    return [] if request.asker == PERSON else hidden_parts(arguments, request.definition)


def long_of(request: Request, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments that the question shows only in part."""
    return list(long_arguments(arguments, request.definition).items())


def unseen_of(request: Request, arguments: Mapping[str, Any], seen: Collection[str]) -> list[tuple[str, Any]]:
    """Return the long values, hidden ones included, that the user must open before approving the call.

    None for the user's own call, because the user typed them.

    Args:
        request: The request.
        arguments: The present arguments.
        seen: The names of the values already opened.
    """
    if request.asker == PERSON:
        return []
    hidden = [(part.path, part.value) for part in hidden_of(request, arguments) if len(written(part.value)) > MAX_VALUE]
    return [(name, value) for name, value in [*long_of(request, arguments), *hidden] if name not in seen]


def named(values: Iterable[tuple[str, Any]]) -> str:
    """Return the names of values and their lengths.

    >>> named([("note", "x" * 2000), ("rows", [1, 2])])
    'note (2,000 characters), rows (6 characters)'
    """
    shown = [f"{in_line(name, 40)} ({counted(len(written(value)), 'characters')})" for name, value in values]
    return listed(shown, 3)


def _legend(rows: Iterable[tuple[str, str, str]]) -> str:
    return LEGEND if any("⟨" in f"{name}{value}{mark}" for name, value, mark in rows) else ""


def approval_html(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return the question as a page of its own: who requests which call, with which arguments."""
    parts: list[object] = [_wants(request), " ", tag("b", in_line(request.name, MAX_NAME)), " "]
    shown = [tag("p", joined([*parts, joined((badge.html() for badge in _badges(request)), " ")]))]
    if request.change is not None or request.outdated:
        lines = diff_html(request.change.lines) if request.change is not None else ""
        shown.append(tag("div", joined([tag("p", tag("b", _changed(request))), lines])))
    if description := _description(request):
        shown.append(tag("div", description, style="white-space:pre-wrap"))
    rows = list(_rows(request, arguments))
    cells = [(name, argument_cell(value, mark)) for name, value, mark in rows]
    shown.append(facts(cells) if rows else note("without arguments"))
    shown.append(note(_legend(rows)))
    shown.append(note(hidden_note(hidden_of(request, arguments))))
    return page([joined(shown)])


def approval_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return the same question for a terminal."""
    lines = [f"{_wants(request)} {in_line(request.name, MAX_NAME)} {' '.join(map(str, _badges(request)))}"]
    if request.change is not None or request.outdated:
        lines.append(f"  {_changed(request)}")
        if request.change is not None:
            lines.append(diff_text(request.change.lines, "    "))
    lines += [f"  {line}" for line in _description(request).splitlines()]
    rows = list(_rows(request, arguments))
    for name, value, mark in rows:
        text = value.replace("\n", "\n      ")
        lines.append(f"  {name} = {text}{f'   ✎ {mark}' if mark else ''}")
    notes = (_legend(rows), hidden_note(hidden_of(request, arguments)))
    lines += [f"  {said}" for said in notes if said]
    return "\n".join(lines)


def outcomes_bundle(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return a mimebundle of the latest outcomes, one line each; it needs no kernel."""
    found = list(outcomes)
    before, shown = found[:-MAX_OUTCOMES], found[-MAX_OUTCOMES:]
    counts = Counter(outcome.verdict for outcome in before)
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    earlier = f"… {len(before):,} calls before these: {said}; `%mcp audit` lists them" if before else ""
    return bundle([Part.stack(Part.note(earlier), *(outcome.part() for outcome in shown))])
