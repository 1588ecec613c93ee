"""A question to the user and the reply, independent of where it is asked: in a panel, line by line, or nowhere."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import duration
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.document import Markup, Part, joined, note, page, tag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    Named = list[tuple[str, Any]]


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


class Outcome(NamedTuple):
    """The line that stays of a question."""

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
    """One way to answer.

    Attributes:
        name: The name in the reply.
        label: The button; "" if the choice has none.
        icon: The icon on the button.
        tooltip: What the button does.
        typed: The text in a line of choices, with its letter in brackets; "" if it is not offered there.
        sends: Whether it sends the values of the form, which must be valid then.
        for_all: The tooltip of a button that makes this choice for all questions of a panel; "" for none.
        extra: The values of extra fields that it stands for where it is typed.
        asks: The extra field that is asked for once it is typed, or "".
    """

    name: str
    label: str = ""
    icon: str = ""
    tooltip: str = ""
    typed: str = ""
    sends: bool = False
    for_all: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    asks: str = ""


@dataclass(frozen=True)
class Extra:
    """A field beside the buttons: a check box for a truth value, a drop-down for options, else a line of text.

    Attributes:
        name: The name in the reply.
        value: The value at first.
        label: The text beside the box, or in the empty line.
        tooltip: What the field is for.
        options: Labels and values to choose from.
        typed: The prompt that asks for one of the options; each value has its first letter in brackets there.
        enter: The choice that Enter in a line of text makes, or "".
        is_first: Whether it stands before the buttons.
        is_secret: Whether the text must not stay visible.
    """

    name: str
    value: Any = ""
    label: str = ""
    tooltip: str = ""
    options: tuple[tuple[str, str], ...] = ()
    typed: str = ""
    enter: str = ""
    is_first: bool = False
    is_secret: bool = False


def _anything(values: Any) -> None:
    """Accept all values."""


@dataclass(frozen=True)
class Form:
    """Values that the user can change before sending them.

    Attributes:
        values: The values at first: an object, or a list of texts.
        schema: The JSON Schema of an object; None if it is edited as JSON.
        labels: The labels of a list of texts.
        must_open: Whether the form is part of the question, instead of opening with the choice "edit".
        write: Takes the values and an indent; returns JSON for editing. None if they are asked for one by one.
        read: Takes edited JSON and the values before; returns the new values, or raises ArgumentsError.
        check: Raises ArgumentsError if the values cannot be sent.
    """

    values: Any
    schema: Mapping[str, Any] | None = None
    labels: tuple[str, ...] = ()
    must_open: bool = False
    write: Callable[[Any, int | None], str] | None = None
    read: Callable[[str, Any], Any] | None = None
    check: Callable[[Any], object] = _anything


class Reveal(NamedTuple):
    """The values that the question cuts or masks; each function takes the present values of the form.

    Attributes:
        cut: Returns the values that are cut, with their names.
        hidden: Returns the values that are masked.
        unseen: Takes the names of opened values as well; returns those that the user has yet to open before sending.
    """

    cut: Callable[[Any], Named]
    hidden: Callable[[Any], Named]
    unseen: Callable[[Any, set[str]], Named]


@dataclass(frozen=True, eq=False)
class Question:
    """A question to the user.

    Attributes:
        about: Returns who wants what, from the present values of the form.
        choices: The ways to answer, the main one first.
        outcome: Returns the line that stays, from the reply and the seconds that it took.
        refused: Why the question is refused where the user cannot be asked.
        late: What happens if no reply comes in time: `"Denied"`, `"Cancelled"`.
        waits_for: What the panel waits for: `"approval"`, `"answer"`.
        prompt: The text before the typed choices.
        help: Explains the typed choices.
        form: The values that the user can change, or None.
        extra: The fields beside the buttons.
        reveal: The values that `about` cuts or masks, or None.
        take: Acts on a reply; returns why it cannot be taken, and the question goes on, or "".
        settled: Waits for an answer from elsewhere; with it, no reply but only that answer ends the question.
        saved: The text that a notebook saves, where it must not be the whole question.
        is_shared: Whether all pending questions of a cell share one panel.
    """

    about: Callable[[Any], Part]
    choices: tuple[Choice, ...]
    outcome: Callable[[Reply, float], Outcome]
    refused: str = ""
    late: str = "Cancelled"
    waits_for: str = "answer"
    prompt: str = ""
    help: str = ""
    form: Form | None = None
    extra: tuple[Extra, ...] = ()
    reveal: Reveal | None = None
    take: Callable[[Reply], str] = lambda reply: ""
    settled: Callable[[], Awaitable[None]] | None = None
    saved: str = ""
    is_shared: bool = False

    @property
    def values(self) -> Any:
        """The values of the form at first; None without a form."""
        return self.form.values if self.form is not None else None


def choice_of(choices: Iterable[Choice], word: str) -> Choice | None:
    """Return the choice that a typed word makes: its letter, or the whole word around it."""
    for choice in choices:
        found = re.search(r"\[(\w)\](\w*)", choice.typed)
        if found is not None and word.lower() in (found[1], found[1] + found[2]):
            return choice
    return None


def confirmation_question(text: str) -> Question:
    """Return a question to answer with yes or no. The first line of its text stays in the notebook."""
    first = text.partition("\n")[0]
    shown = Part(text, Markup(page([tag("pre", text, style="white-space:pre-wrap")])))

    def outcome(reply: Reply, seconds: float) -> Outcome:
        sign = {"yes": "✓ yes", "no": "✗ no"}.get(reply.choice, "… not answered")
        return Outcome(sign, (f": {first} {duration(seconds)}",))

    return Question(
        about=lambda values: shown,
        choices=(Choice("yes", "Yes", "check", "do it", "[y]es"), Choice("no", "No", "ban", "do nothing", "[n]o")),
        outcome=outcome,
        late="Refused",
    )


def outcome_bundle(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return a mimebundle of the latest outcomes, one line each; it needs no kernel."""
    before, shown = outcomes[:-MAX_OUTCOMES], outcomes[-MAX_OUTCOMES:]
    counts = Counter(outcome.sign.partition(" ")[2] for outcome in before)
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    earlier = [f"… {len(before):,} calls before these: {said}; `%mcp audit` lists them"] if before else []
    return {
        "text/plain": "\n".join([*earlier, *(outcome.plain for outcome in shown)]),
        "text/html": page([joined([*map(note, earlier), *(outcome.html for outcome in shown)])]),
    }
