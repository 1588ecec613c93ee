"""Sampling: a server asks for a model's reply, and the user reviews request and reply.

Consent to tools is no consent to sampling. Rules name it `SERVER:sampling`, and only those that ask or deny apply to
it: `allow writer:*` is about tools, and a server could name a tool "sampling".
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mcp_magic import schema
from mcp_magic._text import duration, plural, repeated_names
from mcp_magic.ask.question import EDIT, WHY, Choice, Extra, Form, Outcome, Question, Reveal
from mcp_magic.consent.consent import PERSON, Consent, Decision, Request, map_texts, record_of
from mcp_magic.display.arguments import value_text
from mcp_magic.display.document import (
    Budget,
    Markup,
    Part,
    app_only,
    details,
    facts,
    joined,
    note,
    page,
    size_text,
    tag,
)
from mcp_magic.display.json import brief
from mcp_magic.display.text import cut, is_base64, one_line
from mcp_magic.display.visible import is_long, outline
from mcp_magic.errors import ArgumentsError, DeniedError, MCPMagicError, ModelError
from mcp_magic.flight.deadline import Unanswered, in_time
from mcp_magic.flight.questions import NotAskedError, answered
from mcp_magic.results.content import part_of
from mcp_magic.schema.convert import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        CreateMessageResultWithTools,
        ModelPreferences,
        SamplingMessage,
        SamplingMessageContentBlock,
        Tool,
    )

    from mcp_magic.ask.question import Reply
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.rules import Rule
    from mcp_magic.flight.questions import Question as AskedQuestion
    from mcp_magic.flight.questions import QuestionQueue
    from mcp_magic.flight.request import InFlightRequest


# The values of a sampling request (specification, "Sampling"). Messages, tools and preferences are the SDK's own types.

SAMPLE_SECONDS = 600.0
"""Deadline in seconds of each step: the user's review of the request, the model's reply, the review of the reply."""


SECONDS = 60.0


class RateLimiter:
    """A rate limit per minute.

    >>> limiter = RateLimiter()
    >>> [limiter.allows(2) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def allows(self, most: int) -> bool:
        """Whether one more event is within `most` per minute; if so, count it."""
        now = time.monotonic()
        while self._times and now - self._times[0] > SECONDS:
            self._times.popleft()
        if len(self._times) >= most:
            return False
        self._times.append(now)
        return True


@dataclass(frozen=True)
class SamplingRequest:
    """A server's request for a model's reply.

    Attributes:
        server: The server's name.
        messages: The conversation, at least one message.
        max_tokens: The most tokens that the reply may have.
        system_prompt: The system prompt, or "".
        temperature: The sampling temperature; None for the model's default.
        stop_sequences: The reply ends before any of these texts.
        preferences: Which model the server prefers.
        tools: Tools that the model may ask the server to call; None if the request has neither tools nor a tool choice.
        tool_choice: `"auto"`, `"required"` or `"none"`.
        include_context: Which servers' context the server wants added: `"none"`, `"thisServer"`, `"allServers"`.
        metadata: Passed to the model's provider.
        unasked: Whether it is answered without asking the user.
    """

    server: str
    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system_prompt: str = ""
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    preferences: ModelPreferences | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: str = "auto"
    include_context: str = "none"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    unasked: bool = False

    @property
    def usable_tools(self) -> tuple[Tool, ...]:
        """The tools that the model may call now."""
        return () if self.tool_choice == "none" else self.tools or ()


@dataclass(frozen=True)
class Sampled:
    """A model's reply.

    Attributes:
        content: The blocks: text, images, audio, and tool calls if the server sent tools.
        model: The name of the model.
        stop_reason: `"endTurn"`, `"maxTokens"`, `"stopSequence"`, `"toolUse"`, or the provider's own reason.
        notes: Which parts of the request were not followed.
    """

    content: tuple[SamplingMessageContentBlock, ...]
    model: str
    stop_reason: str = "endTurn"
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, model: str) -> Sampled:
        """Return a reply with a single text."""
        from mcp_types import TextContent

        return cls((TextContent(text=text),), model)

    @property
    def text(self) -> str:
        """The texts of the reply, separated by an empty line."""
        return "\n\n".join(block.text for block in self.content if block.type == "text")


@dataclass(frozen=True)
class Expected:
    """A forecast of the reply, made before the model is asked.

    Attributes:
        model: The name of the model that would answer; "" if unknown.
        notes: Which parts of the request would not be followed.
    """

    model: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Review:
    """The user's decision about a request, or about the reply to it.

    Attributes:
        approved: Whether to continue.
        request: The request as the user changed it; None if unchanged.
        reply: The reply as the user changed it; None if unchanged. For a request: the reply to send without asking a
            model.
        show_reply: Whether the user wants to see the reply before it is sent.
        reason: Why not, for `%mcp logs`; the server learns only that the request was rejected.
        by: Who decided.
    """

    approved: bool
    request: SamplingRequest | None = None
    reply: Sampled | None = None
    show_reply: bool = False
    reason: str = ""
    by: str = PERSON

    @classmethod
    def approve(
        cls, request: SamplingRequest | None = None, *, reply: Sampled | None = None, show_reply: bool = False
    ) -> Review:
        """Continue, with the given changes."""
        return cls(True, request, reply, show_reply)

    @classmethod
    def deny(cls, reason: str = "", *, by: str = PERSON) -> Review:
        """Refuse."""
        return cls(False, reason=reason, by=by)


Sampler = Callable[[SamplingRequest], Awaitable[Sampled]]
"""Calls a model: any `async def (request) -> Sampled`.

It may have a method `expected(request) -> Expected`, which forecasts the model and the deviations from the request, and
an attribute `takes_tools`, true by default.
"""


class Reviewer(Protocol):
    """Asks the user to review requests and replies."""

    async def request(self, request: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer the request."""

    async def reply(self, request: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether the reply may be sent."""


@dataclass
class SamplingSettings:
    """The host's settings for sampling. A session announces the capability if there is a sampler when it opens."""

    sampler: Sampler | None = None
    reviewer: Reviewer | None = None
    timeout: float = SAMPLE_SECONDS  # the deadline of each
    per_minute: int = 60  # requests of one server that are answered without asking

    @property
    def takes_tools(self) -> bool:
        """Whether the sampler understands tools."""
        return self.sampler is not None and bool(getattr(self.sampler, "takes_tools", True))


# Reading `sampling/createMessage`, checking it, and writing the reply for the protocol and the audit.


def read_request(server: str, params: CreateMessageRequestParams) -> SamplingRequest:
    """Return the server's request; tools offered to apps only are left out."""
    choice = params.tool_choice.mode if params.tool_choice is not None else None
    has_tools = params.tools is not None or params.tool_choice is not None
    return SamplingRequest(
        server=server,
        messages=tuple(params.messages),
        max_tokens=params.max_tokens,
        system_prompt=params.system_prompt or "",
        temperature=params.temperature,
        stop_sequences=tuple(params.stop_sequences or ()),
        preferences=params.model_preferences,
        tools=tuple(tool for tool in params.tools or () if not app_only(tool)) if has_tools else None,
        tool_choice=choice or "auto",
        include_context=params.include_context or "none",
        metadata=dict(params.metadata or {}),
    )


def why_invalid(request: SamplingRequest, *, takes_tools: bool) -> str:
    """Return why a request is invalid; "" if it is valid.

    Source: specification 2025-11-25, "Sampling", error codes and message constraints.
    """
    if request.tools is not None and not takes_tools:
        return "tools in a sampling request, but the capability sampling.tools was not announced"
    if not request.messages:
        return "a sampling request without messages"
    if request.max_tokens < 1:
        return f"maxTokens must be at least 1, not {request.max_tokens}"
    if request.temperature is not None and not (math.isfinite(request.temperature) and request.temperature >= 0):
        return f"temperature must be a number from 0 on, not {request.temperature}"
    if not all(request.stop_sequences):
        return "a stop sequence must not be empty"
    names = [tool.name for tool in request.tools or ()]
    if twice := repeated_names(names):
        return f"two tools are called {one_line(twice[0], 100)!r}"
    if request.tool_choice == "required" and not names:
        return "toolChoice is 'required', but there are no tools"
    return _invalid_message(request)


def _invalid_message(request: SamplingRequest) -> str:
    """Return what is wrong with the media, or with the pairing of tool calls and results."""
    open_: set[str] = set()
    for number, message in enumerate(request.messages, 1):
        for block in message.content_as_list:
            if block.type in ("image", "audio") and not is_base64(block.data):
                return f"the {block.type} in message {number} is not base64"
        results = [block.tool_use_id for block in message.content_as_list if block.type == "tool_result"]
        uses = [block.id for block in message.content_as_list if block.type == "tool_use"]
        if results and (message.role != "user" or len(results) < len(message.content_as_list)):
            return f"tool results mixed with other content in message {number}"
        if uses and message.role != "assistant":
            return f"a tool use in message {number}, which is not from the assistant"
        if set(results) != open_ or len(results) != len(open_):
            return f"tool result missing in request: message {number} does not answer each tool use before it once"
        if len(set(uses)) < len(uses):
            return f"two tool uses of the same id in message {number}"
        open_ = set(uses)
    return "tool result missing in request: the last message asks for tools" if open_ else ""


def wire_result(request: SamplingRequest, reply: Sampled) -> CreateMessageResult | CreateMessageResultWithTools:
    """Return a reply for the protocol: a list of blocks if the request has tools or a tool choice, else one block."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools, TextContent

    facts: Any = {"role": "assistant", "model": reply.model, "stop_reason": reply.stop_reason}
    if request.tools is not None:
        return CreateMessageResultWithTools(content=list(reply.content), **facts)
    media = [block for block in reply.content if block.type in ("image", "audio")]
    return CreateMessageResult(content=media[0] if media and not reply.text else TextContent(text=reply.text), **facts)


def recorded(request: SamplingRequest, model: str, mask: Callable[[str], str]) -> dict[str, Any]:
    """Return a request for the audit; images and audio appear as their size."""
    entry: dict[str, Any] = {"model": model} if model else {}
    if request.system_prompt:
        entry["systemPrompt"] = request.system_prompt
    entry["messages"] = [
        {"role": message.role, "content": _blocks(message.content_as_list)} for message in request.messages
    ]
    entry["maxTokens"] = request.max_tokens
    if request.tools:
        entry["tools"] = [tool.name for tool in request.tools]
    masked: dict[str, Any] = map_texts(entry, mask)
    return masked


def _blocks(blocks: Sequence[Any]) -> list[Any]:
    dumps: list[Any] = []
    for block in blocks:
        dumped = block.model_dump(mode="json", by_alias=True, exclude_none=True)
        if block.type in ("image", "audio"):
            dumped["data"] = size_text(len(block.data) * 3 // 4)
        if block.type == "tool_result":
            dumped["content"] = _blocks(block.content)
        dumps.append(dumped)
    return dumps


# The outcome of a sampling request: the user learns the reason for a failure, the server does not.


@dataclass(frozen=True)
class Problem:
    """The error sent instead of a reply.

    Attributes:
        text: What the server is told.
        why: The reason, for the user and the log. It may begin with the text.
    """

    code: int
    text: str
    why: str
    is_logged: bool = True


class NotByYouError(DeniedError):
    """Not the user denied a request, but a rule, the policy, a file of answers, or a time-out."""


def request_summary(request: SamplingRequest) -> str:
    """Describe the request, without its texts."""
    count = plural(len(request.messages), "messages")
    tools = f", {plural(len(request.tools), 'tools')}" if request.tools else ""
    return f"sampling ({count}{tools}, at most {request.max_tokens:,} tokens)"


def reply_summary(request: SamplingRequest, reply: Sampled) -> str:
    """Describe the reply, without its text."""
    unasked = ", not asked about" if request.unasked else ""
    notes = "".join(f"; {one_line(note, 200)}" for note in reply.notes)
    return f"answered by {one_line(reply.model, 80)}, {one_line(reply.stop_reason, 40)}{unasked}{notes}"


# The callback of one session for `sampling/createMessage`.
#
# In a session of the handshake era the server sends a request of its own; in one of 2026-07-28 it answers the call with
# `input_required`. Both end here: rules and the user decide, a model answers, and the user may review the reply. A
# refusal is sent as the protocol's error; no failure here ends the session.

SAMPLING = "sampling"  # the name after the server's in rules and in the audit: `deny trips:sampling`

REJECTED, REJECTED_TEXT = -1, "User rejected sampling request"
"""The protocol's error for a refusal (specification, "Sampling", "Error Handling")."""

FAILED_TEXT = "Sampling failed: no model could answer"

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603

UNASKED = "you cannot be asked: host.sampling.reviewer is None"


class SamplingQuestions:
    """Answers the sampling requests of one session's server."""

    def __init__(
        self,
        server: str,
        spec: Spec,
        samplers: SamplingSettings,
        consent: Consent | None,
        queue: QuestionQueue,
        log: Callable[[str, str], None],
    ) -> None:
        self._server = server
        self._spec = spec
        self._samplers = samplers
        self._consent = consent or Consent()
        self._queue = queue
        self._log = log
        self._takes_tools = False
        self._limiter = RateLimiter()

    @property
    def options(self) -> dict[str, Any]:
        """The sampling options of a client that is made now; {} if the server must not ask."""
        if self._spec.sampling == "off" or self._samplers.sampler is None:
            return {}
        from mcp_types import SamplingCapability, SamplingToolsCapability

        self._takes_tools = self._samplers.takes_tools
        tools = SamplingToolsCapability() if self._takes_tools else None
        return {"sampling_callback": self, "sampling_capabilities": SamplingCapability(tools=tools)}

    async def __call__(self, context: Any, params: Any) -> Any:
        """Answer a request of the server (`CreateMessageRequestParams`) with a result or the protocol's error."""
        from mcp_types import ErrorData

        started = time.perf_counter()
        request = read_request(self._server, params)
        request = replace(request, unasked=self._spec.sampling == "auto" and self._rule() is None)
        outcome = await self._outcome(request)
        seconds = time.perf_counter() - started
        if isinstance(outcome, Problem):
            if outcome.is_logged:
                self._log("warning", f"{request_summary(request)}: {outcome.why} ({duration(seconds)})")
            # in an `input_required` round the error ends the call here, and the server never sees it
            is_local = getattr(getattr(context, "session", None), "discover_result", None) is not None
            text = outcome.why if outcome.why.startswith(outcome.text) else f"{outcome.text}: {outcome.why}"
            return ErrorData(code=outcome.code, message=text if is_local else outcome.text)
        self._log("info", f"{request_summary(request)}: {reply_summary(request, outcome)} ({duration(seconds)})")
        return wire_result(request, outcome)

    async def _outcome(self, request: SamplingRequest) -> Sampled | Problem:
        async with self._queue.asking() as question:
            problem = why_invalid(request, takes_tools=self._takes_tools)
            if problem:
                return Problem(INVALID_PARAMS, problem, problem)
            outcome = await answered(question.call, self._answer(request, question))
            question.is_answered = isinstance(outcome, Sampled)
        if isinstance(outcome, Sampled):
            return outcome
        if outcome.error is None:
            return Problem(REJECTED, REJECTED_TEXT, "the call has ended")
        if isinstance(outcome.error, NotAskedError):
            return Problem(REJECTED, str(outcome.error), str(outcome.error), is_logged=outcome.error.is_first)
        if isinstance(outcome.error, DeniedError):
            why = f"{outcome.error}: {outcome.error.reason}" if outcome.error.reason else str(outcome.error)
            return Problem(
                REJECTED, str(outcome.error) if isinstance(outcome.error, NotByYouError) else REJECTED_TEXT, why
            )
        why = str(outcome.error)
        if not isinstance(outcome.error, MCPMagicError):
            why = f"the sampler failed: {type(outcome.error).__name__}: {one_line(why, 300)}"
        return Problem(INTERNAL_ERROR, FAILED_TEXT, self._spec.masked(why))

    async def _answer(self, request: SamplingRequest, question: AskedQuestion) -> Sampled:
        """Return the reply of the model, of the user, or the prepared one.

        Raises:
            DeniedError: A rule or the user refuses.
            MCPMagicError: No model can answer, a text of the reply cannot be sent, or the audit cannot be written.
        """
        review = await self._reviewed(request, question)
        if not review.approved:
            if review.by == PERSON:
                raise DeniedError("denied by you", review.reason)
            raise NotByYouError(f"sampling request denied by {review.by}", review.reason)
        reply: Any = review.reply
        if reply is None:
            request = review.request or request
            assert self._samplers.sampler is not None
            reply = await in_time(self._samplers.sampler(request), self._samplers.timeout)
            if isinstance(reply, Unanswered):
                raise ModelError(f"the model did not answer within {self._samplers.timeout:g} s")
            if not isinstance(reply, Sampled):
                raise TypeError(f"it returned {type(reply).__name__}, not a Sampled")
            if review.show_reply:
                reply = await self._reviewed_reply(request, reply)
        schema.check_text([block.model_dump() for block in reply.content], "the reply")
        sendable: Sampled = reply
        return sendable

    async def _reviewed(self, request: SamplingRequest, question: AskedQuestion) -> Review:
        """Decide about a request, and record the decision."""
        started = time.perf_counter()
        review, expected = self._forbidden(), Expected()
        if review is None and question.answerers.sampler is not None:
            review = await question.answerers.sampler(request)
            expected = Expected(review.reply.model) if review is not None and review.reply is not None else expected
        if review is None:
            forecast = getattr(self._samplers.sampler, "expected", None)
            expected = forecast(request) if forecast is not None else expected
            review = await self._decided(request, expected, question.call)
        before = recorded(request, expected.model, self._spec.masked)
        after = recorded(review.request, expected.model, self._spec.masked) if review.request is not None else None
        consent_request = Request(self._server, SAMPLING, before, asker=f"server {self._server}")
        decision = Decision(review.approved, after, review.reason, review.by)
        self._consent.audit.add(record_of(consent_request, decision, time.perf_counter() - started))
        return review

    def _forbidden(self) -> Review | None:
        """Return the denial by a rule or the policy that applies to every request, or None."""
        rule = self._rule()
        if rule is not None:
            return Review.deny(rule.reason, by=f"rule `{rule}`") if rule.action == "deny" else None
        forbidden = self._consent.policy == "deny" and self._spec.sampling != "auto"
        return Review.deny(by="approval = 'deny'") if forbidden else None

    async def _decided(self, request: SamplingRequest, expected: Expected, call: InFlightRequest) -> Review:
        """Let the user decide, unless the mode is `"auto"`."""
        if request.unasked:
            most = self._samplers.per_minute
            if self._limiter.allows(most):
                return Review(True, by="sampling = 'auto'")
            return Review.deny(f"more than {most} requests within a minute", by="sampling = 'auto'")
        reviewer = self._samplers.reviewer
        if reviewer is None:
            return Review.deny(UNASKED, by="default")
        self._queue.count(call)
        async with self._queue.turn():
            review = await in_time(reviewer.request(request, expected), self._samplers.timeout)
        if isinstance(review, Unanswered):
            return Review.deny(f"you did not answer within {self._samplers.timeout:g} s", by="time-out")
        problem = why_invalid(review.request, takes_tools=self._takes_tools) if review.request is not None else ""
        return Review.deny(f"after your changes: {problem}", by="check") if problem else review

    async def _reviewed_reply(self, request: SamplingRequest, reply: Sampled) -> Sampled:
        """Return the reply as the user approves it.

        Raises:
            DeniedError: The user refuses, or does not answer in time.
        """
        assert self._samplers.reviewer is not None
        async with self._queue.turn():
            review = await in_time(self._samplers.reviewer.reply(request, reply), self._samplers.timeout)
        if isinstance(review, Unanswered):
            raise DeniedError("the reply was not sent", f"you did not answer within {self._samplers.timeout:g} s")
        if not review.approved:
            raise DeniedError("the reply was not sent", review.reason)
        return review.reply or reply

    def _rule(self) -> Rule | None:
        """Return the first rule about sampling that asks or denies; a rule that allows tools never allows sampling."""
        name = f"{self._server}:{SAMPLING}"
        rules = (rule for rule in self._consent.rules if rule.action != "allow" and rule.run is None)
        return next((rule for rule in rules if not rule.arguments and rule.matches(name, {})), None)


# Editing the texts of a sampling request and of its reply. Images and audio stay as they are. An emptied text is
# dropped, and so is a message with nothing left.


class Text(NamedTuple):
    """One text with its label, and whether the question shows it cut."""

    label: str
    text: str
    is_cut: bool = False


def request_texts(request: SamplingRequest) -> list[Text]:
    """Return the system prompt ("" if there is none) and the texts of the messages."""
    texts = [Text("system prompt", request.system_prompt)]
    for number, message in enumerate(request.messages, 1):
        blocks = [block for block in message.content_as_list if block.type == "text"]
        texts += [Text(f"message {number}, {message.role}", block.text) for block in blocks]
    return texts


def with_request_texts(request: SamplingRequest, texts: Sequence[str]) -> SamplingRequest:
    """Return a request with other texts; the same object if none has changed.

    Raises:
        ArgumentsError: No message is left.
    """
    if [text.text for text in request_texts(request)] == list(texts):
        return request
    system, rest = texts[0], iter(texts[1:])
    messages = []
    for message in request.messages:
        blocks = list(_replaced(message.content_as_list, rest))
        if blocks:
            messages.append(message.model_copy(update={"content": blocks if len(blocks) > 1 else blocks[0]}))
    if not messages:
        raise ArgumentsError("no message is left: nothing would be asked")
    return replace(request, system_prompt=system, messages=tuple(messages))


def _replaced(blocks: Iterable[Any], texts: Iterator[str]) -> Iterator[Any]:
    for block in blocks:
        if block.type != "text":
            yield block
        elif text := next(texts):
            yield block if text == block.text else block.model_copy(update={"text": text})


def reply_texts(reply: Sampled) -> list[Text]:
    """Return the texts of a reply, and the arguments of its tool calls as JSON."""
    texts = []
    for block in reply.content:
        if block.type == "text":
            texts.append(Text("reply", block.text))
        elif block.type == "tool_use":
            arguments = json.dumps(block.input, ensure_ascii=False, indent=2, default=str)
            texts.append(Text(f"arguments of {block.name}, JSON", arguments))
    return texts


def with_reply_texts(reply: Sampled, texts: Sequence[str], tools: Iterable[Tool]) -> Sampled:
    """Return a reply with other texts; the same object if none has changed.

    Raises:
        ArgumentsError: Arguments are no JSON object, or do not fit the tool's schema.
    """
    if [text.text for text in reply_texts(reply)] == list(texts):
        return reply
    by_name, rest = {tool.name: tool for tool in tools}, iter(texts)
    content: list[Any] = []
    for block in reply.content:
        text = next(rest) if block.type in ("text", "tool_use") else ""
        if block.type == "text":
            content += [block.model_copy(update={"text": text})] if text else []
        elif block.type != "tool_use":
            content.append(block)
        elif text.strip():
            arguments = _arguments(block.name, text, by_name.get(block.name))
            content.append(block.model_copy(update={"input": arguments}))
    if not content:
        raise ArgumentsError("nothing is left of the reply; deny it instead")
    calls = any(block.type == "tool_use" for block in content)
    reason = "endTurn" if reply.stop_reason == "toolUse" and not calls else reply.stop_reason
    return replace(reply, content=tuple(content), stop_reason=reason)


def _arguments(name: str, text: str, tool: Tool | None) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise ArgumentsError(f"the arguments of {name} are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"the arguments of {name} must be a JSON object, not {type(value).__name__}")
    if tool is not None:
        schema.check_arguments(value, tool.input_schema)
    return value


# The questions: may a model answer the request, and may its reply be sent?

REFUSED = (
    "you cannot be asked here, where no input is allowed; `%mcp connect --sampling auto` answers without asking, "
    "`%mcp call --answers FILE` replies"
)


MAX_READ = 2_000_000  # characters of a request or a reply about which the user is asked. A longer one is refused.


def too_long_to_read(texts: Iterable[Text]) -> str:
    """Return why the user is not asked about texts (`whole_request`, `whole_reply`); "" if they are short enough."""
    size = sum(len(text.label) + len(text.text) for text in texts)
    return f"it has {size:,} characters, and you are asked about at most {MAX_READ:,}" if size > MAX_READ else ""


def _reveal(all_texts: Callable[[Any], list[Text]]) -> Reveal:
    """Return what makes the question wait until the user has opened each text that is shown cut."""

    def unseen(texts: Any, opened: Collection[str] = ()) -> list[tuple[str, Any]]:
        return [(text.label, text.text) for text in all_texts(texts) if text.is_cut and text.label not in opened]

    return Reveal(unseen, lambda texts: [], unseen)


def _form(texts: Sequence[Text], check: Callable[[Sequence[str]], object]) -> Form:
    return Form([text.text for text in texts], labels=tuple(text.label for text in texts), check=check)


WHERE_KEPT = "why; it is kept in %mcp logs and %mcp audit, and the server is not told"

EDIT_TEXTS = Choice(EDIT, "Edit", "pencil", "change the texts first", "[e]dit")


def request_question(request: SamplingRequest, expected: Expected, *, show_reply: bool = False) -> Question:
    """Return the question whether a model may answer; `request_review` reads the reply."""

    def outcome(reply: Reply, seconds: float) -> Outcome:
        by = f" to {one_line(expected.model, 80)}" if expected.model else ""
        edited = ", edited" if request_review(request, reply).request is not None else ""
        about = f": {plural(len(request.messages), 'messages')}{by} for "
        rest = f"{edited}{_because(reply)}, {duration(seconds)}"
        return Outcome(reply.sign, (about, ("b", one_line(request.server, 100)), rest))

    return Question(
        about=lambda texts: request_part(with_request_texts(request, texts), expected),
        choices=(
            Choice("approve", "Approve", "check", "let the model answer", "[a]pprove", sends=True),
            Choice("approve", typed="approve and show me the [r]eply first", sends=True, extra={"show_reply": True}),
            EDIT_TEXTS,
            Choice("deny", "Deny", "ban", "tell the server that it was rejected", "[d]eny", asks="reason"),
        ),
        form=_form(request_texts(request), lambda texts: with_request_texts(request, texts)),
        reveal=_reveal(lambda texts: whole_request(with_request_texts(request, texts))),
        extra=(
            replace(WHY, tooltip=WHERE_KEPT),
            Extra("show_reply", show_reply, "show me the reply before it is sent", beside="approve"),
        ),
        outcome=outcome,
        refused=REFUSED,
        late="Denied",
        waits_for="approval",
    )


def _because(reply: Reply) -> str:
    return f", because: {one_line(reply.why_not, 200)}" if reply.choice and reply.why_not else ""


def request_review(request: SamplingRequest, reply: Reply) -> Review:
    """Return the review in a reply to `request_question`."""
    if reply.choice != "approve":
        return Review.deny(reply.why_not, by=reply.by)
    edited = with_request_texts(request, reply.values)
    return Review.approve(None if edited is request else edited, show_reply=reply.extra.get("show_reply", False))


def reply_question(request: SamplingRequest, sampled: Sampled) -> Question:
    """Return the question whether the model's reply may be sent; `reply_review` reads the user's reply."""

    def outcome(reply: Reply, seconds: float) -> Outcome:
        sign = {"send": "✓ sent", "refuse": "✗ not sent"}.get(reply.choice, reply.sign)
        edited = ", edited" if reply_review(request, sampled, reply).reply is not None else ""
        about = f": reply of {one_line(sampled.model, 80)} to "
        rest = f"{edited}{_because(reply)}, {duration(seconds)}"
        return Outcome(sign, (about, ("b", one_line(request.server, 100)), rest))

    return Question(
        about=lambda texts: reply_part(request, with_reply_texts(sampled, texts, request.usable_tools)),
        choices=(
            Choice("send", "Send", "check", "send the reply to the server", "[s]end", sends=True),
            EDIT_TEXTS,
            Choice("refuse", "Refuse", "ban", "send nothing of it", "[r]efuse", asks="reason"),
        ),
        extra=(replace(WHY, label="why not; Enter refuses", tooltip=WHERE_KEPT, beside="refuse"),),
        form=_form(reply_texts(sampled), lambda texts: with_reply_texts(sampled, texts, request.usable_tools)),
        reveal=_reveal(lambda texts: whole_reply(with_reply_texts(sampled, texts, request.usable_tools))),
        outcome=outcome,
        refused=REFUSED,
        late="Refused",
    )


def reply_review(request: SamplingRequest, sampled: Sampled, reply: Reply) -> Review:
    """Return the review in a reply to `reply_question`."""
    if reply.choice != "send":
        return Review.deny(reply.why_not, by=reply.by)
    edited = with_reply_texts(sampled, reply.values, request.usable_tools)
    return Review.approve(reply=None if edited is sampled else edited)


# The texts and markup of a sampling request, its reply and their outcomes: pure functions.
#
# All of it comes from servers and models: markup is escaped and invisible characters are made visible. Lines that stay
# in the notebook have none of the texts.

MAX_SHOWN_TEXT = 100_000
"""Characters shown of one text. A longer one says how many are left out, and is opened before it is sent."""

MAX_SCHEMA = 20_000  # characters shown of a tool's schema

MAX_DESCRIPTION = 2_000  # characters shown of a tool's description

MAX_STOPS, MAX_STOP = 10, 60  # stop sequences shown, and characters of each

MAX_METADATA = 500  # characters shown of the metadata

_SCROLL = "max-height:28em;overflow:auto"


def whole_request(request: SamplingRequest) -> list[Text]:
    """Return all texts of a request, those of tools and their results included."""
    texts = [_text("system prompt", request.system_prompt)]
    for number, message in enumerate(request.messages, 1):
        for block in message.content_as_list:
            texts += _texts(block, f"message {number}, {message.role}")
    for tool in request.tools or ():
        described, schema_text = tool.description or "", _schema(tool)
        is_cut = len(described) > MAX_DESCRIPTION or is_long(schema_text, MAX_SCHEMA)
        texts.append(Text(f"tool {tool.name}", f"{described}\n{schema_text}", is_cut))
    if stops := request.stop_sequences:
        is_cut = len(stops) > MAX_STOPS or any(len(stop) > MAX_STOP for stop in stops)
        texts.append(Text("stop sequences", value_text(list(stops)), is_cut))
    if request.metadata:
        is_cut = brief(dict(request.metadata), MAX_METADATA).endswith("…")
        texts.append(Text("metadata", value_text(dict(request.metadata)), is_cut))
    return texts


def whole_reply(reply: Sampled) -> list[Text]:
    """Return all texts of a reply."""
    return [text for block in reply.content for text in _texts(block, "reply")]


def _text(label: str, text: str) -> Text:
    return Text(label, text, is_long(text, MAX_SHOWN_TEXT))


def _texts(block: Any, label: str) -> Iterator[Text]:
    """Yield the texts of a block that `_block` shows."""
    if block.type == "text":
        yield _text(label, block.text)
    elif block.type == "tool_use":
        yield _text(f"{label}, arguments of {block.name}", value_text(block.input))
    elif block.type == "tool_result":
        for inner in block.content:
            yield from _texts(inner, f"{label}, result")
        if not block.content and block.structured_content is not None:
            yield _text(f"{label}, result", value_text(block.structured_content))
    elif block.type == "resource" and isinstance(getattr(block.resource, "text", None), str):
        yield _text(f"{label} {block.resource.uri}", block.resource.text)


def _schema(tool: Tool) -> str:
    return value_text(tool.input_schema, indent=2)


def request_part(request: SamplingRequest, expected: Expected) -> Part:
    """Return the full request as a page of its own, and as text for a terminal."""
    server, budget = one_line(request.server, 100), Budget.full()
    blocks = (block for message in request.messages for block in message.content_as_list)
    names = {block.id: one_line(block.name, 100) for block in blocks if block.type == "tool_use"}  # by ids of calls
    turns = [_turn("system", [_long(request.system_prompt)])] if request.system_prompt else []
    for message in request.messages:
        turns.append(_turn(message.role, [_block(block, budget, names) for block in message.content_as_list]))
    rows, notes = _facts(request, expected), [one_line(text, 300) for text in expected.notes]
    lines = [f"Server {server} asks a model to answer:", *(turn.plain for turn in turns)]
    lines += [f"  {name}: {value}" for name, value in rows]
    lines += [
        f"  tool {one_line(tool.name, 100)}: {one_line(tool.description or '', MAX_DESCRIPTION)}"
        for tool in request.tools or ()
    ]
    lines += [f"  not as asked: {text}" for text in notes]
    html = [
        tag("p", joined(["Server ", tag("b", server), " asks a model to answer:"])),
        tag("div", joined(turn.html for turn in turns), style=_SCROLL),
        facts([*rows, *([("not as asked", joined(tag("div", text) for text in notes))] if notes else [])]),
    ]
    if request.tools:
        html.append(_tools(request))
    return Part("\n".join(lines), Markup(page([joined(html)])))


def reply_part(request: SamplingRequest, reply: Sampled) -> Part:
    """Return the model's reply as a page of its own, and as text for a terminal."""
    server, model, reason = one_line(request.server, 100), one_line(reply.model, 100), one_line(reply.stop_reason, 60)
    budget = Budget.full()
    parts = [_block(block, budget, {}) for block in reply.content]
    lines = [f"Reply of {model} to server {server} ({reason}):", *(_indented(part.plain) for part in parts)]
    html = [
        tag("p", joined(["Reply of ", tag("b", model), " to server ", tag("b", server), f" ({reason}):"])),
        tag("div", joined(part.html for part in parts), style=_SCROLL, class_="mcp-turn"),
        *(note(one_line(text, 300)) for text in reply.notes),
    ]
    return Part("\n".join(lines), Markup(page([joined(html)])))


def _facts(request: SamplingRequest, expected: Expected) -> list[tuple[str, str]]:
    rows = [("answered by", one_line(expected.model, 100))] if expected.model else []
    rows.append(("at most", f"{request.max_tokens:,} tokens"))
    if request.temperature is not None:
        rows.append(("temperature", f"{request.temperature:g}"))
    stops = ", ".join(repr(one_line(stop, MAX_STOP)) for stop in request.stop_sequences[:MAX_STOPS])
    if stops:
        rows.append(("ends before", stops))
    preferences = _preferences(request)
    if preferences:
        rows.append(("prefers", preferences))
    if request.tools:
        rows.append(("tools", f"{len(request.tools)} ({request.tool_choice})"))
    if request.include_context != "none":
        rows.append(("context", request.include_context))
    return rows + ([("metadata", brief(dict(request.metadata), MAX_METADATA))] if request.metadata else [])


def _preferences(request: SamplingRequest) -> str:
    preferences = request.preferences
    hints = [one_line(hint.name, 60) for hint in (preferences.hints if preferences else None) or () if hint.name]
    weights = [(name, getattr(preferences, f"{name}_priority", None)) for name in ("cost", "speed", "intelligence")]
    parts = [f"a model like {' or '.join(hints[:5])}"] if hints else []
    return ", ".join([*parts, *(f"{name} {value:g}" for name, value in weights if value is not None)])


def _tools(request: SamplingRequest) -> Markup:
    html = []
    for tool in request.tools or ():
        described = cut((tool.description or "").strip(), MAX_DESCRIPTION)
        html.append(tag("p", joined([tag("b", one_line(tool.name, 100)), f" {one_line(tool.title or '', 100)}"])))
        html.append(tag("div", described, style="white-space:pre-wrap"))
        html.append(details("arguments", Part.pre(outline(_schema(tool), MAX_SCHEMA)).html))
    return details("the tools that the model may ask the server to call", joined(html))


def _turn(role: str, parts: Iterable[Part]) -> Part:
    blocks = list(parts)
    html = joined([tag("div", tag("b", role)), tag("div", joined(part.html for part in blocks), class_="mcp-turn")])
    return Part("\n".join([f"  {role}:", *(_indented(part.plain) for part in blocks)]), html)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))


def _long(text: str) -> Part:
    return Part.pre(outline(text, MAX_SHOWN_TEXT))


def _block(block: Any, budget: Budget, names: Mapping[str, str]) -> Part:
    """Return a block of a message in full: its text, the image itself, or a call with its arguments."""
    if block.type == "text":
        return _long(block.text)
    if block.type == "tool_use":
        line = f"calls {one_line(block.name, 100)} with {outline(value_text(block.input), MAX_SHOWN_TEXT)}"
        return Part.line(line)
    if block.type == "resource" and (texts := list(_texts(block, "resource"))):
        return Part.stack(Part.line(one_line(texts[0].label, 300)), _long(texts[0].text))
    if block.type != "tool_result":
        return part_of(block, budget)
    inner = [_block(child, budget, names) for child in block.content]
    structured = [] if inner or block.structured_content is None else [_long(value_text(block.structured_content))]
    name = names.get(block.tool_use_id, one_line(block.tool_use_id, 60))
    line = f"{name} {'failed' if block.is_error else 'gave'}:"
    return Part.stack(Part.line(line), *inner, *structured)
