"""Elicitation: a server asks the user for values in a form, or to visit a page."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic import schema
from mcp_magic._text import clause, duration
from mcp_magic.ask.question import EDIT, Choice, Form, Outcome, Question, Reveal
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.arguments import call_line
from mcp_magic.display.document import Markup, Part, joined, page, tag
from mcp_magic.display.text import MAX_URL, host_of, one_line, why_not_open
from mcp_magic.display.visible import is_long, outline
from mcp_magic.errors import ArgumentsError
from mcp_magic.flight.deadline import Unanswered, in_time
from mcp_magic.flight.questions import NotAskedError, answered

if TYPE_CHECKING:
    from mcp_types import ElicitResult, ErrorData

    from mcp_magic.ask.question import Reply
    from mcp_magic.flight.questions import Question as AskedQuestion
    from mcp_magic.flight.questions import QuestionQueue


# Answering an elicitation in the middle of a call (specification, "Elicitation").
#
# In a session of the handshake era the server sends a request of its own. In one of 2026-07-28 it answers the call with
# `input_required`, and the SDK repeats the call with the values. Both end in the callback here. It finds the call that
# caused the elicitation, stops that call's clock, and lets an elicitor ask the user; without an elicitor it declines.

ELICIT_SECONDS = 600.0
"""Seconds the user has to fill in a form or come back from a page; after that the user counts as absent."""

MAX_ANSWERS = 3  # how often a question is asked if the answers do not fit

MAX_QUESTIONS = 20  # default number of questions that a server may ask during one call

NOT_ASKED = -1
"""The error code of a question that the user is not asked; the protocol defines one for refused sampling only."""

UNASKED = "you cannot be asked: host.elicitor is None"

_ASKS_FOR_SECRET = re.compile(
    r"passw(?!ordless)|pass[ _-]?(?:phrase|code|key)|secret(?!ar)|credential|(?:seed|recovery)[ _-]phrase"
    r"|(?:api|private|access|account|auth|encryption|license)[ _-]?keys?\b|(?<![a-z])token(?![a-z])"
    r"|(?:credit|debit)[ _-]?card|card[ _-]?number|(?<![a-z])(?:jwt|cvv|cvc|otp|pwd|iban|ssn|pin[ _-]?code)(?![a-z])"
    r"|security[ _-]?code|social[ _-]security|one[- ]time[ _-](?:code|pass)|^pin$|(?-i:\bPIN\b)",
    re.IGNORECASE,
)
"""Words that ask for secrets, which MCP forbids in a form. A server can ask in other words."""

MAX_WORDS = 4000  # characters of a server's text that are searched for such words

_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Elicitation:
    """A server's question.

    Attributes:
        server: The server's name.
        message: Why the server asks, in its own words, unchecked.
        mode: `"form"` (values that fit `schema`) or `"url"` (a page to visit).
        schema: The JSON Schema of the values; {} in URL mode.
        url: The page's address; "" in form mode.
        problem: Why the values of the previous answer could not be sent; "" at first.
    """

    server: str
    message: str
    mode: Literal["form", "url"] = "form"
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    problem: str = ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values in the schema."""
        children = schema.root_field(self.schema).children if self.schema else ()
        return {child.name: child.default for child in children if child.default is not schema.MISSING}

    @property
    def secrets(self) -> list[str]:
        """The names of the fields whose values must not be shown or recorded."""
        children = schema.root_field(self.schema).children if self.schema else ()
        return [child.name for child in children if schema.is_secret(child.name, child)]


@dataclass(frozen=True)
class Answer:
    """The answer to an elicitation.

    Attributes:
        action: `"accept"`, `"decline"` (the user refused) or `"cancel"` (the user did not answer).
        content: The values of the form, or None.
        reason: Why not, for `%mcp logs`; the protocol does not transmit it.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None
    reason: str = ""

    @classmethod
    def accept(cls, content: Mapping[str, Any] | None = None) -> Answer:
        """Send the values, or confirm that the page was visited."""
        return cls("accept", content)

    @classmethod
    def decline(cls, reason: str = "") -> Answer:
        """Refuse."""
        return cls("decline", None, reason)

    @classmethod
    def cancel(cls, reason: str = "") -> Answer:
        """Leave the question unanswered."""
        return cls("cancel", None, reason)


Elicitor = Callable[[Elicitation], Awaitable[Answer]]  # asks the user: any `async def (elicitation) -> Answer`


@dataclass
class ElicitationSettings:
    """The host's settings for elicitations. A session announces them if there is an elicitor when it opens."""

    elicitor: Elicitor | None = None
    timeout: float = ELICIT_SECONDS
    max_questions: int = MAX_QUESTIONS  # of a server during one call, sampling included


class Questions:
    """The elicitation callback of one session."""

    def __init__(
        self,
        server: str,
        elicitors: ElicitationSettings,
        queue: QuestionQueue,
        log: Callable[[str, str], None],
        conceal: Callable[[Mapping[str, Any]], None] = lambda values: None,
    ) -> None:
        self._server = server
        self._elicitors = elicitors
        self._queue = queue
        self._log = log
        self._conceal = conceal

    @property
    def announced(self) -> bool:
        """Whether a session that opens now announces the elicitation capability."""
        return self._elicitors.elicitor is not None

    async def __call__(self, context: Any, params: Any) -> ElicitResult | ErrorData:
        """Answer a request of the server (`ElicitRequestParams`); returns an error if the user is not asked."""
        from mcp_types import ElicitResult, ErrorData

        if params.mode == "url":
            elicitation = Elicitation(self._server, params.message, "url", url=params.url)
        else:
            form = secrets_marked(params.requested_schema, params.message)
            elicitation = Elicitation(self._server, params.message, "form", form)
        started = time.perf_counter()
        async with self._queue.asking() as question:
            answer = await self._answer(elicitation, question)
            question.is_answered = isinstance(answer, Answer) and answer.action == "accept"
        if isinstance(answer, NotAskedError):
            if answer.is_first:
                self._log("warning", f"elicitation {one_line(elicitation.message, 200)!r} and all after it: {answer}")
            return ErrorData(code=NOT_ASKED, message=str(answer))
        because = f": {clause(answer.reason)}" if answer.reason else ""
        self._log(
            "info" if answer.action == "accept" else "warning",
            f"elicitation {one_line(elicitation.message, 200)!r}: {answer.action}{because} "
            f"({duration(time.perf_counter() - started)})",
        )
        content = dict(answer.content) if answer.action == "accept" and answer.content is not None else None
        if content is not None:
            self._conceal({name: content[name] for name in elicitation.secrets if name in content})
        return ElicitResult(action=answer.action, content=content)

    async def visited(self, required: Any) -> bool:
        """Ask the user to visit the pages in the data of error -32042, one after the other, until one is refused.

        Returns:
            Whether there were pages and the user has visited all of them.
        """
        from mcp_types import ElicitationRequiredErrorData
        from pydantic import ValidationError

        try:
            pages = ElicitationRequiredErrorData.model_validate(required).elicitations
        except ValidationError:
            return False
        for place in pages:
            if getattr(await self(None, place), "action", "") != "accept":
                return False
        return bool(pages)

    async def _answer(self, elicitation: Elicitation, question: AskedQuestion) -> Answer | NotAskedError:
        if elicitation.mode == "url" and (why := why_not_open(elicitation.url)):
            return Answer.decline(f"it asks to open a page whose address {why}")
        if question.answerers.elicitor is None and self._elicitors.elicitor is None:
            return Answer.decline(UNASKED)
        for _ in range(MAX_ANSWERS):
            reply = await answered(question.call, self._ask(elicitation, question))
            if isinstance(reply, Unanswered):
                break
            try:
                return _fitting(reply, elicitation)
            except ArgumentsError as error:
                elicitation = replace(elicitation, problem=str(error))
                self._log("warning", f"elicitation {one_line(elicitation.message, 200)!r} is asked again: {error}")
        else:
            return Answer.decline(f"your values do not fit: {elicitation.problem}")
        if isinstance(reply.error, NotAskedError):
            return reply.error
        if reply.error is not None:
            return Answer.decline(f"the elicitor failed: {type(reply.error).__name__}: {reply.error}")
        late = f"you did not answer within {self._elicitors.timeout:g} s"
        return Answer.cancel(late if reply.why == "late" else "the call has ended")

    async def _ask(self, elicitation: Elicitation, question: AskedQuestion) -> Answer | Unanswered:
        """Ask the client whose call it is, if it takes the question, or else the person, in turn."""
        own, elicitor, seconds = question.answerers.elicitor, self._elicitors.elicitor, self._elicitors.timeout
        self._queue.count(question.call)
        if own is not None and question.answerers.party:  # it may never answer: nobody else waits for that
            reply: Answer | Unanswered | None = await in_time(own(elicitation), seconds)
            if reply is not None:
                return reply
        else:
            elicitor = own or elicitor
        if elicitor is None:
            return Answer.decline(UNASKED)
        async with self._queue.turn():
            return await in_time(elicitor(elicitation), seconds)


def secrets_marked(form_schema: Mapping[str, Any], message: str) -> Mapping[str, Any]:
    """Return the schema with `writeOnly` on fields that seem to ask for a secret, so that they are always masked."""
    properties = form_schema.get("properties")
    if not isinstance(properties, dict):
        return form_schema
    texts = {name: field_schema for name, field_schema in properties.items() if isinstance(field_schema, dict)}
    secret = [
        name
        for name, field_schema in texts.items()
        if schema.is_secret(name)
        or any(map(_asks_for_secret, (name, field_schema.get("title"), field_schema.get("description"))))
    ]
    if not secret and _asks_for_secret(message):
        secret = [
            name
            for name, field_schema in texts.items()
            if field_schema.get("type") == "string" and "enum" not in field_schema
        ]
    return {
        **form_schema,
        "properties": {**properties, **{name: {**texts[name], "writeOnly": True} for name in secret}},
    }


def _asks_for_secret(text: Any) -> bool:
    return isinstance(text, str) and _ASKS_FOR_SECRET.search(text[:MAX_WORDS]) is not None


def _fitting(answer: Any, elicitation: Elicitation) -> Answer:
    """Return an elicitor's answer as it is sent. Raises ArgumentsError if its values do not fit."""
    if not isinstance(answer, Answer):
        return Answer.decline(f"the elicitor failed: TypeError: it returned {type(answer).__name__}, not an Answer")
    if answer.action != "accept" or elicitation.mode == "url":
        return Answer(answer.action, None, answer.reason)
    content = dict(answer.content or {})
    check_content(content, elicitation.schema)
    return Answer.accept(content)


def check_content(content: Mapping[str, Any], form_schema: Mapping[str, Any]) -> None:
    """Raise ArgumentsError if values cannot be sent: they do not fit the schema, or are none of the protocol's."""
    schema.check_arguments(content, form_schema)
    for name, value in content.items():
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not texts and not isinstance(value, _SCALARS):
            takes = "the protocol takes text, a number, true or false, null or a list of texts here"
            raise ArgumentsError(f"{name}: {takes}")
    schema.check_text(content, "the answer")


# The texts and markup of an elicitation and of its outcome: pure functions.
#
# Message, schema and address come from the server: markup is escaped, invisible characters are made visible, and
# secrets are masked.

MAX_MESSAGE = 20_000
"""Characters shown of a message. A longer one is cut to its beginning and end, and opened before it is answered."""

_MESSAGE = "white-space:pre-wrap;overflow-wrap:anywhere;max-width:60em;max-height:28em;overflow:auto"

MAX_NAMES = 10

REFUSED = "you cannot be asked here, where no input is allowed; `%mcp call --answers FILE` answers"

SIGNS = {"accept": "✓ sent", "decline": "✗ declined", "cancel": "… cancelled", "": "… not answered"}

SECRET = (
    "This seems to ask for a secret: {}. MCP forbids servers to ask for passwords, keys and card numbers in a form. "
    "What you enter is sent to the server. Decline, unless you know why it asks."
)


def link_to(url: str) -> Markup:
    """Return a link that opens in a new tab and looks like a link among widgets; empty for an address of no host."""
    if len(url) > MAX_URL or not host_of(url):
        return Markup()
    look = "text-decoration:underline;color:var(--jp-content-link-color,#1976d2)"
    return tag(
        "a", f"open {host_of(url)} in a new tab", href=url, target="_blank", rel="noopener noreferrer", style=look
    )


def question_part(elicitation: Elicitation) -> Part:
    """Return the question as a page of its own, and as text for a terminal."""
    server, message = one_line(elicitation.server, 100), outline(elicitation.message.strip(), MAX_MESSAGE)
    wants = "asks you for:" if elicitation.mode == "form" else "asks you to open a page at"
    host = host_of(elicitation.url) if elicitation.mode == "url" else ""
    plain = [f"Server {server} {wants} {host}".rstrip(), *(f"  {line}" for line in message.split("\n"))]
    parts = ["Server ", tag("b", server), f" {wants} ", tag("b", host, style="font-size:1.15em") if host else ""]
    html = [tag("p", joined(parts)), tag("div", message, style=_MESSAGE)]
    if elicitation.problem:
        again = f"Your last values could not be sent: {one_line(elicitation.problem, 400)}"
        plain.append(again)
        html.append(tag("p", tag("b", again), style="max-width:60em"))
    if elicitation.secrets:
        warning = SECRET.format(", ".join(one_line(name, 60) for name in elicitation.secrets[:MAX_NAMES]))
        plain.append(warning)
        html.append(tag("p", tag("b", warning), style="max-width:60em"))
    if elicitation.mode == "url":
        url = outline(elicitation.url, MAX_URL)
        plain.append(f"  {url}")
        html += [tag("p", tag("code", url, style="word-break:break-all")), tag("p", link_to(elicitation.url))]
    return Part("\n".join(plain), Markup(page([joined(html)])))


def elicitation_question(elicitation: Elicitation) -> Question:
    """Return the question to the user; `answer_of` reads the reply."""
    part, text = question_part(elicitation), elicitation.message.strip()
    message: list[tuple[str, Any]] = [("the message", text)] if is_long(text, MAX_MESSAGE) else []
    if elicitation.mode == "form":
        accept = Choice("accept", "Submit", "check", "send these values to the server", "[s]end", sends=True)
    else:
        tooltip = "I have opened the page myself; go on"
        accept = Choice("accept", "Done", "check", tooltip, "[o]pened it, go on", sends=True)
    form = Form(
        elicitation.defaults,
        elicitation.schema,
        must_open=True,
        check=lambda values: check_content(values, elicitation.schema),
    )
    return Question(
        about=lambda values: part,
        choices=(
            accept,
            *([Choice(EDIT, typed="[f]ill in")] if elicitation.mode == "form" else []),
            Choice("decline", "Decline", "ban", "say no to the server", "[d]ecline"),
            Choice("cancel", "Cancel", "times", "do not answer the question", "[c]ancel"),
        ),
        form=form if elicitation.mode == "form" else None,
        reveal=Reveal(lambda values: message, lambda values: [], lambda values, opened: [] if opened else message),
        outcome=lambda reply, seconds: outcome_of(elicitation, reply, seconds),
        refused=REFUSED,
    )


def answer_of(elicitation: Elicitation, reply: Reply) -> Answer:
    """Return the answer in a reply."""
    match reply.choice:
        case "accept":
            return Answer.accept(reply.values if elicitation.mode == "form" else None)
        case "decline":
            return Answer.decline()
    return Answer.cancel(reply.reason) if reply.by == PERSON else Answer.decline(reply.reason)


def outcome_of(elicitation: Elicitation, reply: Reply, seconds: float) -> Outcome:
    """Return the line that stays: how the question was answered, the values with secrets masked, and the question."""
    from mcp_types import Tool

    server, about = ("b", one_line(elicitation.server, 100)), one_line(elicitation.message, 100)
    sign = SIGNS[reply.choice]
    if elicitation.mode == "url":
        sign = "✓ done" if reply.choice == "accept" else sign
        about = f"page at {host_of(elicitation.url)}: {about}"
    end = f" ({about}), {duration(seconds)}"
    if reply.choice != "accept" or elicitation.mode == "url":
        return Outcome(sign, (": ", server, end))
    values = call_line(reply.values, Tool(name="elicitation", input_schema=dict(elicitation.schema))) or "nothing"
    return Outcome(sign, (" ", ("code", values), " to ", server, end))
