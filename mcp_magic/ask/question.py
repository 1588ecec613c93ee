"""A question to the user and the reply, independent of where it is asked: in a panel, line by line, or nowhere."""

from __future__ import annotations

import re
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mcp_magic._text import duration
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.document import Markup, Part, joined, note, page, tag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    Pairs = list[tuple[str, Any]]


EDIT = "edit"  # the name of the choice that opens the form

MAX_OUTCOMES = 20  # lines shown about earlier questions of a panel; those before them are only counted

NOT_ANSWERED = "not answered"  # the reason of a reply that did not come in time

INTERRUPTED = "interrupted"  # the reason of a reply whose question was cancelled


@dataclass(frozen=True)
class Reply:
    """The user's reply."""

    choice: str = ""
    values: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    by: str = PERSON

    @property
    def why_not(self) -> str:
        """The reason of a denial: why no choice was made, or what the user wrote."""
        return self.reason or str(self.extra.get("reason", "")).strip()

    @property
    def sign(self) -> str:
        """The sign and the word of an approval, a denial or a question without an answer."""
        signs = {"approve": "✓ approved", "deny": "⊘ denied"}
        return signs.get(self.choice, f"… {self.reason or NOT_ANSWERED}")


class Outcome(NamedTuple):
    """The line that stays in the notebook after a question."""

    sign: str
    rest: tuple[str | tuple[str, str], ...]

    @property
    def plain(self) -> str:
        """The line as text."""
        return self.sign + "".join(part if isinstance(part, str) else part[1] for part in self.rest)

    @property
    def html(self) -> Markup:
        """The line as markup."""
        parts = (part if isinstance(part, str) else tag(*part) for part in (("b", self.sign), *self.rest))
        return tag("p", joined(parts))


@dataclass(frozen=True)
class Choice:
    """One way to answer."""

    name: str  # in the reply
    label: str = ""  # of the button; "" if the choice has none
    icon: str = ""  # on the button
    tooltip: str = ""  # what the button does
    typed: str = ""  # in a line of choices, with its letter in brackets; "" if it is not offered there
    sends: bool = False  # whether it sends the values of the form, which must be valid then
    for_all: str = ""  # the tooltip of a button that makes this choice for all questions of a panel; "" for none
    extra: Mapping[str, Any] = field(default_factory=dict)  # values of extra fields that the typed choice sets
    asks: str = ""  # the extra field that is asked for after it was typed, or ""


@dataclass(frozen=True)
class Extra:
    """A field beside the buttons: a check box for a truth value, a drop-down for options, else a line of text.

    A line of text stands before the button of its choice, because it is written before that is pressed.
    """

    name: str  # in the reply
    value: Any = ""  # at first
    label: str = ""  # the text beside the box, or in the empty line
    tooltip: str = ""  # what the field is for
    options: tuple[tuple[str, str], ...] = ()  # labels and values to choose from
    # the prompt that asks for a text, or for one of the options; each value has its first letter in brackets there
    typed: str = ""
    beside: str = ""  # the choice that it belongs to; Enter in a line of text makes it
    is_secret: bool = False  # whether the text must not stay visible

    @property
    def is_text(self) -> bool:
        """Whether it is a line of text."""
        return not (self.options or isinstance(self.value, bool))


WHY = Extra("reason", label="why not; Enter denies", typed="Why not? Enter gives no reason: ", beside="deny")
"""The field for the reason of a denial."""


@dataclass(frozen=True)
class Form:
    """Values that the user can change before sending them: an object, a list of texts, or the rows of a table."""

    values: Any  # at first; of a table the arguments of each row, or None for a row that is not ticked
    schema: Mapping[str, Any] | None = None  # of an object; None if it is edited as JSON
    labels: tuple[str, ...] = ()  # of a list of texts
    rows: tuple[Row, ...] = ()  # of a table
    must_open: bool = False  # whether the form is part of the question, instead of opening with the choice "edit"
    at_once: bool = False  # whether the values are asked for first, line by line, and then sent
    # takes the values and an indent; returns JSON for editing. None if they are asked for one by one
    write: Callable[[Any, int | None], str] | None = None
    # takes edited JSON and the values before; returns the new values, or raises ArgumentsError
    read: Callable[[str, Any], Any] | None = None
    check: Callable[[Any], object] = lambda values: None  # raises ArgumentsError if the values cannot be sent


class Cell(NamedTuple):
    """A value that a line of text shows exactly."""

    name: str
    text: str
    read: Callable[[str], Any]  # returns the value of another text; raises ArgumentsError


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    number: int
    head: Part  # what it is about
    facts: Callable[[Any, Collection[str]], Part]  # its present values, without some
    cells: Callable[[Any], list[Cell]] = lambda values: []  # its present values that fit into cells
    form: Form | None = None  # all its values; None if it cannot be ticked


class Reveal(NamedTuple):
    """The values that the question cuts or masks, with their names; each function takes the values of the form."""

    cut: Callable[[Any], Pairs]
    hidden: Callable[[Any], Pairs]
    unseen: Callable[[Any, set[str]], Pairs]  # those to be opened; takes the names of opened ones


@dataclass(frozen=True, eq=False)
class Question:
    """A question to the user."""

    about: Callable[[Any], Part]  # who wants what, from the present values of the form
    choices: tuple[Choice, ...]  # the ways to answer, the main one first
    # the line that stays, from the reply and the seconds that it took; None for no line
    outcome: Callable[[Reply, float], Outcome | None]
    refused: str = ""  # why the question is refused where the user cannot be asked
    late: str = "Cancelled"  # what happens if no reply comes in time: "Denied", "Cancelled"
    waits_for: str = "answer"  # what the panel waits for: "approval", "answer"
    prompt: str = ""  # the text before the typed choices
    help: str = ""  # explains the typed choices
    form: Form | None = None  # the values that the user can change
    extra: tuple[Extra, ...] = ()  # the fields beside the buttons
    reveal: Reveal | None = None  # the values that `about` cuts or masks
    take: Callable[[Reply], str] = lambda reply: ""  # acts on a reply; returns why it cannot be taken, or ""
    # waits for an answer from elsewhere; with it, no reply but only that answer ends the question
    elsewhere: Callable[[], Awaitable[None]] | None = None
    saved: str = ""  # the text that a notebook saves, where it must not be the whole question

    @property
    def values(self) -> Any:
        """The values of the form at first; None without a form."""
        return self.form.values if self.form is not None else None

    def full_part(self, values: Any) -> Part:
        """Return who wants what, with the rows of a table, which a panel shows as widgets."""
        head = self.about(values)
        if self.form is None or not self.form.rows:
            return head
        rows = [Part.stack(row.head, row.facts(value, ())) for row, value in zip(self.form.rows, values, strict=True)]
        part = Part.stack(head, *rows)
        return Part(part.plain, Markup(page([part.html])))


class NearAsker(Protocol):
    """Asks beside what the question is about, such as the view of an app, and not below a cell."""

    def can_ask(self, question: Question) -> bool:
        """Whether it can ask this question now."""

    async def ask(self, question: Question) -> Reply:
        """Ask, until it is answered or cancelled."""


near_asker: ContextVar[NearAsker | None] = ContextVar("near_asker", default=None)
"""What asks in the current context; None for the notebook."""


def choice_of(choices: Iterable[Choice], word: str) -> Choice | None:
    """Return the choice that a typed word makes: its letter, or the whole word around it."""
    for choice in choices:
        match = re.search(r"\[(\w)\](\w*)", choice.typed)
        if match is not None and word.lower() in (match[1], match[1] + match[2]):
            return choice
    return None


def numbers_in(text: str) -> list[int]:
    """Return the numbers in a typed list; none if it is no list of numbers.

    >>> numbers_in("1, 3-5"), numbers_in("all"), numbers_in("1 2")
    ([1, 3, 4, 5], [], [1, 2])
    """
    numbers: list[int] = []
    for part in re.split(r"[\s,]+", text.strip()):
        spans = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if spans is None:
            return []
        numbers += range(int(spans[1]), int(spans[2] or spans[1]) + 1)
    return numbers


def confirmation_question(text: str) -> Question:
    """Return a question to answer with yes or no. The first line of its text stays in the notebook."""
    first = text.partition("\n")[0]
    part = Part(text, Markup(page([tag("pre", text, style="white-space:pre-wrap")])))

    def outcome(reply: Reply, seconds: float) -> Outcome:
        sign = {"yes": "✓ yes", "no": "✗ no"}.get(reply.choice, "… not answered")
        return Outcome(sign, (f": {first} {duration(seconds)}",))

    return Question(
        about=lambda values: part,
        choices=(Choice("yes", "Yes", "check", "do it", "[y]es"), Choice("no", "No", "ban", "do nothing", "[n]o")),
        outcome=outcome,
        late="Refused",
    )


def outcome_bundle(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return a mimebundle of the latest outcomes, one line each; it needs no kernel."""
    before, latest = outcomes[:-MAX_OUTCOMES], outcomes[-MAX_OUTCOMES:]
    counts = Counter(outcome.sign.partition(" ")[2] for outcome in before)
    summary = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    earlier = [f"… {len(before):,} calls before these: {summary}; `%mcp audit` lists them"] if before else []
    return {
        "text/plain": "\n".join([*earlier, *(outcome.plain for outcome in latest)]),
        "text/html": page([joined([*map(note, earlier), *(outcome.html for outcome in latest)])]),
    }
