"""What is said of a call that waits for an answer, and of what came of it.

Pure functions from a request to text and markup. Names, descriptions and arguments come from servers and models:
they are cleaned and escaped, and the values of secret-looking arguments never appear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.core.consent import PERSON
from mcp_magic.results.badges import annotation_badges
from mcp_magic.results.html import Markup, facts, joined, note, page, preformatted, tag
from mcp_magic.results.jsontree import brief
from mcp_magic.results.safe import one_line, shorten
from mcp_magic.widgets.hiding import hidden_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.core.consent import Decision, Request
    from mcp_magic.results.badges import Badge

__all__ = ["Outcome", "call_text", "changes", "outcomes_bundle", "question_html", "question_text"]

MAX_VALUE = 1000
"""Characters shown of one argument; "Edit" shows all of it."""

MAX_IN_LINE = 60
"""Characters of one argument in the line that stays."""

MAX_LINE = 200
"""Characters of all arguments in that line."""

MAX_DESCRIPTION = 600

_PLAIN = re.compile(r"[\w.:/@+*-]+")

SIGNS = {"approved": "✓", "denied": "✗", "not answered": "…", "interrupted": "…"}


@dataclass(frozen=True)
class Outcome:
    """What came of a request.

    Attributes:
        request: What was asked for.
        verdict: `"approved"`, `"denied"`, `"not answered"` or `"interrupted"`.
        seconds: How long it waited.
        decision: The decision; None if there was none.
    """

    request: Request
    verdict: str
    seconds: float
    decision: Decision | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the call went out with, or would have."""
        changed = self.decision.arguments if self.decision else None
        return self.request.arguments if changed is None else changed

    def __str__(self) -> str:
        """One line, in a few words."""
        rest = self._rest()
        return f"{SIGNS[self.verdict]} {self.verdict} {call_text(self.request, self.arguments)}{rest}"

    def html(self) -> Markup:
        """The same line as markup."""
        call = tag("code", call_text(self.request, self.arguments))
        return tag("p", joined([tag("b", f"{SIGNS[self.verdict]} {self.verdict}"), " ", call, self._rest()]))

    def _rest(self) -> str:
        said = []
        if self.decision is not None:
            said.append(f"by {one_line(self.decision.by, 40)}")
            said += [f"because: {one_line(self.decision.reason, 200)}"] if self.decision.reason else []
            said += [f"changed {names}"] if (names := ", ".join(self._changed())) else []
            said += [ALWAYS[self.decision.always]] if self.decision.approved and self.decision.always else []
        said.append(f"{self.seconds:.1f} s")
        asker = f" ({_asker(self.request)} asked)" if self.request.asker != PERSON else ""
        return f" {', '.join(said)}{asker}"

    def _changed(self) -> list[str]:
        return [one_line(name, 40) for name in changes(self.request.arguments, self.arguments)]


ALWAYS = {"tool": "always for this tool", "arguments": "always for these arguments", "run": "for this run"}
"""How far an approval reaches, beyond the one call."""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return what was done to which argument.

    >>> changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 4})
    {'b': 'changed', 'c': 'left out', 'd': 'added'}
    """
    # repr tells 1 from True and 1.0, which == does not
    done = {}
    for name in {**before, **after}:
        if name not in after:
            done[name] = "left out"
        elif name not in before:
            done[name] = "added"
        elif repr(before[name]) != repr(after[name]):
            done[name] = "changed"
    return done


def call_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return a call on one line, secrets masked and long values cut."""
    parts: list[str] = []
    room = MAX_LINE
    for name, value in hidden_arguments(arguments, request.definition).items():
        part = f"{one_line(name, 40)}={_short(value)}"
        room -= len(part)
        if room < 0:
            parts.append("…")
            break
        parts.append(part)
    return f"{one_line(request.name, 100)}({', '.join(parts)})"


def _short(value: Any) -> str:
    """Return a value as short as it can be: quotes stand where the text could be taken for something else."""
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return f'"{one_line(value, MAX_IN_LINE)}"'
    return one_line(brief(value, MAX_IN_LINE), MAX_IN_LINE)


def _asker(request: Request) -> str:
    return "you" if request.asker == PERSON else one_line(request.asker, 60)


def _wants(request: Request) -> str:
    return "You are about to call" if request.asker == PERSON else f"{_asker(request)} wants to call"


def _badges(request: Request) -> list[Badge]:
    annotations = request.definition.annotations if request.definition else None
    return annotation_badges(annotations, trusted=request.trusted)


def _description(request: Request) -> str:
    text = (request.definition.description if request.definition else None) or ""
    return shorten(text.strip(), MAX_DESCRIPTION)


def _rows(request: Request, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Yield name, value and what was changed of each argument, also of those that were left out."""
    before = hidden_arguments(request.arguments, request.definition)
    after = hidden_arguments(arguments, request.definition)
    done = changes(request.arguments, arguments)
    for name in {**after, **before}:
        was = f"; was {_short(before[name])}" if done.get(name) == "changed" else ""
        text = _value(after[name] if name in after else before[name])
        yield one_line(name, 80), text, f"{done[name]}{was}" if name in done else ""


def _value(value: Any) -> str:
    text = brief(value, MAX_VALUE)
    length = len(value) if isinstance(value, str) else 0
    return text if length <= MAX_VALUE else f"{text} ({length:,} characters)"


def question_html(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return what a person is asked, as a page of its own: who wants what, and with which arguments."""
    parts: list[object] = [_wants(request), " ", tag("b", one_line(request.name, 100)), " "]
    shown = [tag("p", joined([*parts, joined((badge.html() for badge in _badges(request)), " ")]))]
    if description := _description(request):
        shown.append(tag("div", description, style="white-space:pre-wrap"))
    rows = [(name, _cell(value, mark)) for name, value, mark in _rows(request, arguments)]
    shown.append(facts(rows) if rows else note("without arguments"))
    return page([joined(shown)])


def _cell(value: str, mark: str) -> Markup:
    text = preformatted(value) if "\n" in value else tag("code", value)
    # the mark is a word: colour would not be seen by everybody
    return joined([text, " ", tag("b", f"✎ {mark}")]) if mark else text


def question_text(request: Request, arguments: Mapping[str, Any]) -> str:
    """Return the same for a terminal."""
    lines = [f"{_wants(request)} {one_line(request.name, 100)} {' '.join(map(str, _badges(request)))}"]
    lines += [f"  {line}" for line in _description(request).splitlines()]
    for name, value, mark in _rows(request, arguments):
        text = value.replace("\n", "\n      ")
        lines.append(f"  {name} = {text}{f'   ✎ {mark}' if mark else ''}")
    return "\n".join(lines)


def outcomes_bundle(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the mimebundle of what came of several requests, one line each, which needs no kernel."""
    shown = list(outcomes)
    return {
        "text/plain": "\n".join(map(str, shown)),
        "text/html": page([joined(outcome.html() for outcome in shown)]),
    }
