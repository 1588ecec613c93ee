"""Verification: the recorded requests of a cassette, sent to the live servers, and their answers compared.

An answer is compared in steps: its status (answer, tool error, protocol error), the output schema that the live tool
declares, the shape (types and members), the values. Listings are compared as `%mcp diff` does; what breaks no caller is
no difference. Both answers are taken from the wire and masked alike, as a recording has them.

Only calls of tools that are read-only, by the recorded and by the live hints, are sent; of others those that consent
allows. So they have an asker of their own, `verify`: the user's own calls would be made without a question.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean, did_you_mean, join_names, plural
from mcp_magic.ask.elicitation import Answer, Elicitation
from mcp_magic.ask.sampling import Review, Sampled, SamplingRequest
from mcp_magic.calls.call import Call
from mcp_magic.cassette.cassette import LIKE_KEYS, SCHEMAS
from mcp_magic.cassette.file import LARGEST
from mcp_magic.cassette.masks import SHAPE, Comparison, Mask, infer_masks
from mcp_magic.cassette.requests import LISTS, TASK, Recording, answer_of, by_key, pick_server, task_end
from mcp_magic.config.masking import Masker, long_enough, named_secrets, to_json
from mcp_magic.display.document import Badge
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    ArgumentsError,
    CallCancelledError,
    CassetteError,
    DeniedError,
    InvalidResponseError,
    MCPMagicError,
    UnknownServerError,
)
from mcp_magic.flight.request import Answerers, InFlightRequest, Limits, Look
from mcp_magic.junit import Case, Suite, junit_xml
from mcp_magic.results.results import CheckFailedError, repeats
from mcp_magic.schema.commandline import as_word
from mcp_magic.schema.resolve import object_of
from mcp_magic.schema.secrets import MASK
from mcp_magic.server.snapshot import interface_changes
from mcp_magic.session.catalog import KINDS
from mcp_magic.trace.trace import OUT, Tap, is_masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.cassette.requests import Question, Recorded
    from mcp_magic.display.document import Part
    from mcp_magic.flight.progress import Reports
    from mcp_magic.session.connection import Connection

ASKER = "verify"  # who makes the calls that need consent

SECONDS = 60.0  # seconds that each request may take, unless an option says otherwise

SAME, IGNORED, VALUE_CHANGED, SHAPE_CHANGED = "same", "ignored", "changed value", "changed shape"
SCHEMA_CHANGED, SCHEMA_BROKEN, STATUS_CHANGED = "changed schema", "broken schema", "other status"
SKIPPED, DENIED, NOT_SENT = "skipped", "denied", "not sent"

STATUSES: dict[str, str] = {
    SAME: "the answer is the recorded one",
    IGNORED: "it differs only where it may",
    VALUE_CHANGED: "a value differs",
    SHAPE_CHANGED: "a type differs, or a member is missing or new",
    SCHEMA_CHANGED: "a listing changed so that working calls can fail",
    SCHEMA_BROKEN: "the answer does not fit the output schema that the server declares",
    STATUS_CHANGED: "another one of: answer, tool error, protocol error, no answer",
    SKIPPED: "it was not sent",
    DENIED: "you, or a rule, did not allow the call",
    NOT_SENT: "the verification ended before",
}
"""Status of a request -> what it means."""

GOOD = (SAME, IGNORED, SKIPPED)

SHOWN = 3  # differences of an answer that a row has
LONGEST = 300  # characters of a difference
TOLD = 5  # requests that an error names
NOTED = 10  # lines of a kind in the note below the table

ANSWER, TOOL_ERROR, PROTOCOL_ERROR, NO_ANSWER = "answer", "tool error", "protocol error", "no answer"

_WIRE = ("_meta", "resultType", "ttlMs", "cacheScope")  # members of a result that belong to the protocol
_BLOCKS = ("content", "contents", "messages")


# The verification as a value.


class Verification(Listing):
    """The outcome of each recorded request: a table with what differs, the worst first.

    `.df` has them in the recorded order: request, tool, status, difference. `.ok` is whether none differs, `.check()`
    raises an AssertionError if one does, `.junit()` is the outcome for CI.
    """

    @property
    def ok(self) -> bool:
        """Whether each request that was to be sent was answered as recorded, apart from what may differ."""
        return all(row["status"] in GOOD for row in self)

    @property
    def counts(self) -> dict[str, int]:
        """The number of requests by status."""
        counter = Counter(str(row["status"]) for row in self)
        return {status: counter[status] for status in STATUSES if counter[status]}

    def check(self) -> Verification:
        """Return itself if it is `ok`.

        Raises:
            CheckFailedError: An answer differs, an AssertionError; its `result` is the verification.
        """
        bad = [row for row in self if row["status"] not in GOOD]
        if not bad:
            return self
        lines = [f"{row['request']}: {row['status']}: {row['difference']}" for row in bad]
        text = f"{len(bad)} of {plural(len(self), 'requests')} of {self.title}: {_counted(bad)}"
        raise CheckFailedError("\n  ".join([text, *_cut(lines, TOLD)]), self)

    def junit(self) -> str:
        """Return the outcomes as JUnit XML, a case for each request."""
        cases = []
        for row in self:
            good, text = row["status"] in GOOD, f"{row['status']}: {row['difference']}"
            left_out = row["difference"] if row["status"] == SKIPPED else ""
            name, failure = row["request"], "" if good else text
            cases.append(Case(name, row["tool"], row["seconds"], failure=failure, skipped=left_out))
        return junit_xml([Suite(f"verify {self.title}", cases)])

    def parts(self) -> list[Part]:
        """Return the parts to display: the table, what differs first."""
        rows = [{**row, "status": _badge(row["status"])} for row in sorted(self, key=lambda row: row["status"] in GOOD)]
        title = f"{self.title}: {', '.join(f'{count} {status}' for status, count in self.counts.items())}"
        return Listing(
            rows, title=title, columns=self.columns, empty=self.empty, note=self.note, kind=self.kind
        ).parts()


def _badge(status: str) -> Badge:
    if status == SAME:
        return Badge(status, "safe", STATUSES[status])
    return Badge(status, "neutral" if status in GOOD else "danger", STATUSES[status])


def _counted(rows: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(row["status"] for row in rows).items())


# Comparing answers.


def status_of(answer: Mapping[str, Any]) -> str:
    """Return the status of an answer."""
    if "error" in answer:
        return PROTOCOL_ERROR
    if "result" not in answer:
        return NO_ANSWER
    return TOOL_ERROR if object_of(answer["result"]).get("isError") is True else ANSWER


def comparable(answer: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Return what of an answer is compared: without what belongs to the protocol, texts that are JSON as JSON.

    Texts that only repeat the structured content are left out, unless it is to be `whole`.
    """
    result = answer.get("result")
    if not isinstance(result, dict):
        return dict(answer)
    members = {name: value for name, value in result.items() if name not in _WIRE}
    if members.get("isError") is False:
        del members["isError"]
    if not whole and repeats_itself(answer):
        del members["content"]
    for name in _BLOCKS:
        if isinstance(members.get(name), list):
            members[name] = [_block(block) for block in members[name]]
    return {"result": members}


def repeats_itself(answer: Mapping[str, Any]) -> bool:
    """Whether the texts of an answer only repeat its structured content."""
    result = object_of(answer.get("result"))
    structured, blocks = result.get("structuredContent"), result.get("content")
    if structured is None or not isinstance(blocks, list):
        return False
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    if len(texts) < len(blocks):
        return False
    return repeats(texts, structured)


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    members = {name: value for name, value in block.items() if name != "_meta"}
    if isinstance(members.get("content"), dict):  # of a message of a prompt
        members["content"] = _block(members["content"])
    if isinstance(text := members.get("text"), str):
        value = loads(text)
        members["text"] = value if value is not NOT_JSON and isinstance(value, dict | list) else text
    return members


def comparable_pair(recorded: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what of two answers is compared; both with all texts if those of one do not repeat the rest."""
    whole = not (repeats_itself(recorded) and repeats_itself(live))
    return comparable(recorded, whole=whole), comparable(live, whole=whole)


# Sending.


@dataclass(frozen=True)
class VerifyOptions:
    """How a cassette is verified.

    Attributes:
        every: Whether calls of tools that are not read-only are sent, too, if consent allows them.
        ignore: Patterns of paths that may differ: `result.content[0].text`, `rows[*].id`.
        secrets: Values of arguments, by name, that take the place of masked ones.
        timeout: Seconds that each request may take.
        largest: The most bytes that the cassette may have.

    Raises:
        ArgumentsError: A pattern is none.
    """

    every: bool = False
    ignore: Sequence[str] = ()
    secrets: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = SECONDS
    largest: int = LARGEST

    @property
    def masks(self) -> list[Mask]:
        """The masks that the patterns are."""
        return [Mask(path, why="--ignore") for path in self.ignore]


_exchange: ContextVar[object] = ContextVar("mcp_magic_verification", default=None)
"""The tap of the request that runs in this context."""


class _AnswerTap(Tap):
    """Keeps the answers to the requests that are sent in its context, as they come."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, dict[str, Any]]] = []
        self._methods: dict[str, str] = {}

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """Note a request, or its answer."""
        number = str(message.get("id"))
        if direction == OUT:
            if "method" in message and "id" in message and _exchange.get() is self:
                self._methods[number] = message["method"]
        elif "method" not in message and (method := self._methods.pop(number, None)) is not None:
            self.answers.append((method, json.loads(to_json(answer_of(message)) or b"{}")))

    def last(self, method: str) -> dict[str, Any]:
        """Return the last answer to a method, or that of the task which it became; {} if there is none."""
        answer: dict[str, Any] = {}
        for answered, message in self.answers:
            if answered == method:
                answer = message
            elif answered == TASK and (ended := task_end(message)):
                answer = ended
        return answer

    def results(self, method: str, member: str) -> list[list[Any]]:
        """Return the lists in a member of all answers to a method."""
        pages = [object_of(message.get("result")).get(member) for name, message in self.answers if name == method]
        return [items for items in pages if isinstance(items, list)]


class _RecordedAnswers:
    """Answers the questions of a call as recorded."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = [replace(question) for question in questions]
        self.unknown = ""

    def _take(self, method: str, message: str) -> dict[str, Any] | None:
        waiting = [question for question in self._questions if question.method == method and not question.is_asked]
        question = next((q for q in waiting if q.message == message), waiting[0] if waiting else None)
        if question is None:
            self.unknown = self.unknown or f"it asks {one_line(message, 80)!r}, which was not recorded"
            return None
        question.is_asked = True
        return question.result

    async def elicit(self, elicitation: Elicitation) -> Answer:
        """Answer a form, or whether a page was visited."""
        result = self._take("elicitation/create", elicitation.message) or {}
        action, content = result.get("action"), result.get("content")
        if action not in ("accept", "cancel"):
            return Answer.decline("not recorded" if action is None else "")
        return Answer(action, content if isinstance(content, dict) else None)

    async def sample(self, request: SamplingRequest) -> Review:
        """Reply in place of a model."""
        from mcp_types import CreateMessageResultWithTools

        result = self._take("sampling/createMessage", "")
        try:
            reply = CreateMessageResultWithTools.model_validate(result)
        except ValueError:
            return Review.deny("the recording has no reply", by=ASKER)
        blocks = reply.content if isinstance(reply.content, list) else [reply.content]
        sampled = Sampled(tuple(blocks), reply.model, reply.stop_reason or "endTurn")
        return replace(Review.approve(reply=sampled), by=ASKER)


@dataclass
class Outcome:
    """What a live server did with a request."""

    answer: dict[str, Any] = field(default_factory=dict)
    unfit: str = ""
    problem: str = ""  # why there is no answer
    surprise: str = ""  # what it asked that was not recorded
    is_denied: bool = False


class _Server:
    """A live server, and its requests in the cassette."""

    def __init__(self, recording: Recording, name: str, connection: Connection, options: VerifyOptions) -> None:
        self.connection = connection
        self.requests = recording.requests(name)
        self._recording = recording
        self._name = name
        self._options = options
        environment = {value for value in named_secrets(dict(os.environ)) if len(value) >= LIKE_KEYS}
        typed = long_enough(value for value in options.secrets.values() if isinstance(value, str))
        self._masker = Masker({*environment, *typed, *connection.spec.secrets, *connection.trace.secrets})
        self._recorded_tools = recording.definitions(name, "tools/list")
        self._live_tools: dict[str, Any] = {}
        self._calls: dict[int, Call] = {}

    async def prepare(self) -> None:
        """List the tools, and ask about the calls that need consent."""
        listed = await self.connection.listing("tools", refresh=True, timeout=self._options.timeout)
        self._live_tools = {tool.name: tool for tool in listed}
        for request in self.requests:
            request.params = _filled(request.params, self._options.secrets)
            if not request.problem and is_masked(request.params):
                request.problem = f"the cassette has {MASK} in place of a secret; --set NAME=$VALUE gives it"
        unsafe = []
        for request in self.requests:
            if request.method != "tools/call" or request.problem:
                continue
            request.problem = self._why_unasked(request)
            if request.problem:
                continue
            request.problem = self._why_unsafe(request.name)
            if not request.problem:
                self._calls[id(request)] = self._call(request)
            elif self._options.every:
                request.problem = ""
                unsafe.append(request)
        if unsafe:
            calls = [replace(self._call(request), asker=ASKER) for request in unsafe]
            decisions = await self.connection.caller.decide([call.request for call in calls], is_plan=True)
            for request, call, decision in zip(unsafe, calls, decisions, strict=True):
                self._calls[id(request)] = replace(call, decision=decision)

    def _call(self, request: Recorded) -> Call:
        values, limits = object_of(request.params.get("arguments")), Limits(self._options.timeout, may_repeat=False)
        tool = self._live_tools.get(request.name)
        return Call(self.connection, request.name, values, tool, limits=limits, is_shown=False)

    def _why_unasked(self, request: Recorded) -> str:
        """Return why the server cannot ask its questions in this session; "" if it can."""
        client = self.connection.client
        answers = {
            "elicitation/create": ("host.elicitor", client.elicitation_callback),
            "sampling/createMessage": ("host.sampler", client.sampling_callback),
        }
        for question in request.questions:
            name, callback = answers.get(question.method, ("", True))
            if callback is None:
                return f"it asks a question, and there was no {name} when the session opened"
        return ""

    def _why_unsafe(self, tool: str) -> str:
        """Return why a call of a tool is left out; "" if its hints say twice that it is read-only."""
        recorded = self._recorded_tools.get(tool)
        hints = recorded.get("annotations") if recorded is not None else None
        was = isinstance(hints, dict) and hints.get("readOnlyHint") is True
        live = self._live_tools.get(tool)
        if live is None:
            return (
                "" if tool in self._recorded_tools else f"{tool} is in no list of tools; --all sends it, if you approve"
            )
        now = live.annotations is not None and live.annotations.read_only_hint is True
        if was and now:
            return ""
        state = "is no longer" if was else "was not" if now else "is not"
        return f"{tool} {state} read-only; --all sends it, if you approve"

    def masks_of(self, request: Recorded) -> list[Mask]:
        """Return the masks for the answer to a request."""
        inferred = self._recording.masks.get((self._name, request.method, request.name), [])
        return [*self._options.masks, *inferred]

    async def send(self, request: Recorded) -> Outcome:
        """Send a request, and return what came back."""
        tap, outcome = _AnswerTap(), Outcome()
        answers = _RecordedAnswers(request.questions)
        recorder = self.connection.trace
        recorder.add(tap)
        token = _exchange.set(tap)
        try:
            if (kind := LISTS.get(request.method)) is not None:
                await self.connection.listing(kind, refresh=True, timeout=self._options.timeout)
            elif request.method == "tools/call":
                outcome.unfit = await self._send_call(request, answers)
            else:
                await self.connection.request(request.method, request.params, self._options.timeout, is_shown=False)
        except DeniedError as error:
            return Outcome(problem=str(error), is_denied=True)
        except MCPMagicError as error:
            outcome.problem = str(error)
        finally:
            _exchange.reset(token)
            recorder.remove(tap)
        if kind is not None:
            pages = tap.results(request.method, KINDS[kind].member)
            outcome.answer = {"result": {kind: by_key(request.method, pages)}}
        else:
            outcome.answer = tap.last(request.method)
        outcome.surprise = answers.unknown
        outcome.problem, outcome.unfit = map(self._masker.text, (outcome.problem, outcome.unfit))
        outcome.answer = self._masker.mask_value(outcome.answer, schemas=request.method in SCHEMAS)
        return outcome

    async def _send_call(self, request: Recorded, answers: _RecordedAnswers) -> str:
        """Send a call, and return why the answer does not fit the output schema, or ""."""
        caller, call = self.connection.caller, self._calls[id(request)]
        call = replace(call, answerers=Answerers(answers.elicit, answers.sample))
        call = await caller.authorize(await caller.prepare(call, validate=False))
        try:
            return (await caller.send(call)).unfit
        except InvalidResponseError as error:
            if error.result is None:
                raise
            return str(error.result.unfit)

    def judge(self, request: Recorded, outcome: Outcome) -> tuple[str, str, dict[Mask, str]]:
        """Return the status of a request, what differs, and the masks that were needed."""
        if outcome.is_denied:
            return DENIED, outcome.problem, {}
        if request.method in LISTS:
            return self._judge_listing(request, outcome)
        if outcome.surprise:
            return STATUS_CHANGED, outcome.surprise, {}
        verdicts = [self._compared(request, recorded, outcome) for recorded in request.answers]
        return min(verdicts, key=lambda verdict: [*STATUSES].index(verdict[0]))

    def is_gone(self, request: Recorded) -> bool:
        """Whether a request calls a tool that was listed, and is not any more."""
        is_call = request.method == "tools/call"
        return is_call and request.name in self._recorded_tools and request.name not in self._live_tools

    def _judge_listing(self, request: Recorded, outcome: Outcome) -> tuple[str, str, dict[Mask, str]]:
        if outcome.problem:
            return STATUS_CHANGED, f"{ANSWER} -> {one_line(outcome.problem, 200)}", {}
        kind = LISTS[request.method]
        empty: dict[str, dict[str, Any]] = {name: {} for name in KINDS}
        before = {**empty, kind: self._recording.definitions(self._name, request.method)}
        changes = interface_changes(before, {**empty, kind: outcome.answer["result"][kind]})
        breaking = [change for change in changes if change.breaking]
        text = _first([str(change).removeprefix("breaking: ") for change in breaking or changes])
        return SCHEMA_CHANGED if breaking else IGNORED if changes else SAME, text, {}

    def _compared(
        self, request: Recorded, recorded: dict[str, Any], outcome: Outcome
    ) -> tuple[str, str, dict[Mask, str]]:
        before, now = status_of(recorded), status_of(outcome.answer)
        if before != now:
            why = _said(outcome.answer) or outcome.problem
            return STATUS_CHANGED, f"{before} -> {now}{f': {one_line(why, 200)}' if why else ''}", {}
        if outcome.unfit:
            return SCHEMA_BROKEN, one_line(outcome.unfit, 300), {}
        comparison = Comparison(self.masks_of(request)).compare(*comparable_pair(recorded, outcome.answer))
        if comparison.kind:
            differences = sorted(comparison.differences, key=lambda difference: difference.kind != SHAPE)
            status = SHAPE_CHANGED if comparison.kind == SHAPE else VALUE_CHANGED
            return status, _first(list(map(str, differences))), comparison.ignored
        return IGNORED if comparison.ignored else SAME, _first([*comparison.ignored.values()]), comparison.ignored


def _said(answer: Mapping[str, Any]) -> str:
    """Return what an error says."""
    if isinstance(error := answer.get("error"), dict):
        return str(error.get("message", ""))
    content = object_of(answer.get("result")).get("content")
    blocks = content if isinstance(content, list) else []
    return " ".join(str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block)


def _cut(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts, and how many others there are."""
    return [*texts[:most], *([f"and {len(texts) - most:,} more"] if len(texts) > most else [])]


def _first(texts: Sequence[str]) -> str:
    return "; ".join(_cut([one_line(text, LONGEST) for text in texts], SHOWN))


def _filled(value: Any, secrets: Mapping[str, Any]) -> Any:
    """Return parameters with values in place of masked ones."""
    if isinstance(value, dict):
        return {
            name: secrets[name] if name in secrets and is_masked(inner) else _filled(inner, secrets)
            for name, inner in value.items()
        }
    return [_filled(inner, secrets) for inner in value] if isinstance(value, list) else value


def _masked_names(value: Any) -> set[str]:
    """Return the names whose values are masked in parameters."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    names = {name for name, inner in value.items() if is_masked(inner)} if isinstance(value, dict) else set()
    return names.union(*map(_masked_names, inside))


def _check_names(path: Path, secrets: Iterable[str], params: Sequence[Any]) -> None:
    masked = _masked_names([[*object_of(request).values()] for request in params])
    for name in secrets:
        if name not in masked:
            others = f"{did_you_mean(name, masked)} It has {join_names(sorted(masked))}." if masked else ""
            raise ArgumentsError(f"{path} has no masked argument {one_line(name, 60)!r}.{others}")


class Verifier:
    """Sends the requests of a cassette to live servers, one at a time; `verification` has what there is at any time.

    Args:
        recording: The cassette.
        connections: The name of a server in the cassette -> the live one.
        options: How.
        reports: How it is shown that it runs.
    """

    def __init__(
        self,
        recording: Recording,
        connections: Mapping[str, Connection],
        options: VerifyOptions,
        reports: Reports | None = None,
    ) -> None:
        self._recording = recording
        self._reports = reports
        self._servers = [_Server(recording, name, live, options) for name, live in connections.items()]
        self._requests = [(server, request) for server in self._servers for request in server.requests]
        _check_names(recording.path, options.secrets, [request.params for _, request in self._requests])
        self._rows = [_row(server, request, NOT_SENT) for server, request in self._requests]
        self._ignored: dict[str, None] = {}
        self._idle_paths = dict.fromkeys(options.ignore)
        self._answers: list[tuple[Recorded, dict[str, Any]]] = []
        self._ended = ""

    @property
    def has_ended(self) -> bool:
        """Whether it has come to its end, and was not interrupted or cancelled."""
        return not self._ended

    @property
    def verification(self) -> Verification:
        """The outcomes so far."""
        columns = ("request", "tool", "status", "difference")
        names = [server.connection.name for server in self._servers if server.connection.place.replayed]
        replayed = [f"{name} is replayed: its answers are recorded ones" for name in names]
        odd, ignored = _cut(self._recording.odd, NOTED), _cut([*self._ignored, *self._idle()], NOTED)
        notes = [self._ended, *replayed, *odd, *ignored]
        empty = f"{self._recording.path.name} has no request to send"
        title = self._recording.path.name
        return Verification(
            self._rows, title=title, columns=columns, empty=empty, note="\n".join(filter(None, notes)), kind="requests"
        )

    def _idle(self) -> list[str]:
        """Return a line for each path that is to be ignored and at which no answer differs, once all were sent."""
        if any(row["status"] == NOT_SENT for row in self._rows):
            return []
        return [f"--ignore {one_line(path, 100)}: no answer differs there" for path in self._idle_paths]

    async def run(self, title: str = "verify") -> None:
        """Send all requests. When the user cancels it, the outcomes so far stay.

        Raises:
            SessionError: A session failed before the first request.
        """
        connection = self._servers[0].connection
        look = Look(connection.place.masked, detail=self._detail)
        try:
            for server in self._servers:
                await server.prepare()
            with InFlightRequest(f"{title} {self._recording.path.name}", connection.name, self._reports, look=look):
                for at, (server, request) in enumerate(self._requests):
                    self._rows[at] = await self._verify(server, request)
        except CallCancelledError:
            self._ended = "cancelled: the other requests were not sent"
        except asyncio.CancelledError:
            self._ended = "interrupted: the other requests were not sent"
            raise

    def _detail(self) -> str:
        done = sum(row["status"] != NOT_SENT for row in self._rows)
        return f"{done} of {plural(len(self._rows), 'requests')}"

    async def _verify(self, server: _Server, request: Recorded) -> dict[str, Any]:
        if request.problem:
            return _row(server, request, SKIPPED, request.problem)
        if server.is_gone(request):
            return _row(server, request, STATUS_CHANGED, f"the tool {request.name} is gone")
        started = time.perf_counter()
        outcome = await server.send(request)
        seconds = time.perf_counter() - started
        status, difference, masks = server.judge(request, outcome)
        for mask, path in masks.items():
            self._idle_paths.pop(mask.path, None)
            tool = f"{server.connection.name}:{request.name}" if request.name else server.connection.name
            self._ignored[f"ignored in {tool}: {path if mask.why == '--ignore' else mask.path} ({mask.why})"] = None
        self._answers.append((request, outcome.answer))
        return _row(server, request, status, difference, round(seconds, 4))

    def keep_answers(self) -> Listing:
        """Add the answers to the cassette, and masks for what differs from the recorded ones; return the new masks.

        Raises:
            CassetteError: The file cannot be written, or would become too large to be read.
        """
        pairs: dict[tuple[str, str, str], list[tuple[Any, Any]]] = {}
        count = 0
        try:
            for request, answer in self._answers:
                if request.method in LISTS or not answer:
                    continue
                line = {"again": request.server, "method": request.method, "params": request.recorded}
                self._append({**line, **answer})
                count += 1
                if status_of(answer) == status_of(request.answers[0]):
                    key = (request.server, request.method, request.name)
                    pairs.setdefault(key, []).append(comparable_pair(request.answers[0], answer))
            rows = self._keep_masks(pairs)
        finally:
            self._recording.file.close()
        skipped = sum(row["status"] in (SKIPPED, DENIED) for row in self._rows)
        notes = [f"{plural(count, 'answers')} added"]
        notes += [f"{plural(skipped, 'requests')} left out: `%mcp verify` says why"] if skipped else []
        notes += [self._ended] if self._ended else []
        return Listing(
            rows,
            title=f"What varies in {self._recording.path.name}",
            columns=("tool", "path", "types", "why"),
            empty="nothing else varies" if self._recording.masks else "nothing varies",
            note="; ".join(notes),
            kind="masks",
        )

    def _keep_masks(self, pairs: Mapping[tuple[str, str, str], list[tuple[Any, Any]]]) -> list[dict[str, str]]:
        rows = []
        for (server, method, name), answers in pairs.items():
            present = self._recording.masks.get((server, method, name), [])
            for mask in infer_masks(answers):
                if any(mask.path == other.path and other.joined(mask) == other for other in present):
                    continue
                line = {"mask": server, "method": method, "name": name, "path": mask.path, "types": [*mask.types]}
                self._append({**line, **({"order": True} if mask.is_order else {}), "why": mask.why})
                types = " or ".join(mask.types)
                rows.append({"tool": f"{server}:{name}", "path": mask.path, "types": types, "why": mask.why})
        return rows

    def _append(self, line: dict[str, Any]) -> None:
        file = self._recording.file
        if not file.append(line):
            raise CassetteError(f"{file.path} is full: a cassette has at most {file.largest:,} bytes.")


def _row(server: _Server, request: Recorded, status: str, difference: str = "", seconds: float = 0.0) -> dict[str, Any]:
    live = server.connection.name
    tool = f"{live}:{request.name}" if request.method == "tools/call" else live
    texts = {"request": clean(request.text), "tool": clean(tool), "status": status, "difference": clean(difference)}
    return {**texts, "seconds": seconds}


def verifier(
    path: Path | str,
    servers: Sequence[str],
    connections: Mapping[str, Connection],
    reports: Reports | None,
    **options: Any,
) -> Verifier:
    """Return what verifies a cassette.

    Args:
        path: The cassette.
        servers: Names of its servers, `"shop=shop_next"` for a live one with another name; without any, all of them.
            The name of a live server alone will do if the cassette has only one.
        connections: The live servers.
        reports: How it is shown that it runs.
        **options: Those of `VerifyOptions`.

    Raises:
        CassetteError: The file cannot be read, or has no such server.
        UnknownServerError: A server is not connected.
        ArgumentsError: A pattern is none.
    """
    how = VerifyOptions(**options)
    path = Path(path).expanduser()
    recording = Recording(path, how.largest)
    names = live_names(recording, servers)
    for recorded, live in names.items():
        if live not in connections:
            raise UnknownServerError(_not_connected(path, recorded, live, connections))
    return Verifier(recording, {recorded: connections[live] for recorded, live in names.items()}, how, reports)


def live_names(recording: Recording, servers: Sequence[str]) -> dict[str, str]:
    """Return the name of each recorded server that is meant -> that of the live one; see `verifier`.

    Raises:
        CassetteError: The cassette has no such server.
    """
    names = {} if servers else {name: name for name in recording.servers}
    for word in servers:
        recorded, _, live = word.partition("=")
        if not live and recorded not in recording.servers and len(recording.servers) == 1:
            recorded, live = next(iter(recording.servers)), recorded
        server = pick_server(recording.path, recording.servers, recorded)
        names[server.name] = live or server.name
    return names


def _not_connected(path: Path, recorded: str, live: str, connections: Iterable[str]) -> str:
    names = [*connections]
    line = f"`%mcp verify {as_word(path.name) or 'FILE'} {recorded}=NAME`"
    others = f"{line} takes another session: {join_names(names)}." if names else "No server is connected."
    return f"{live} is not connected; `%mcp connect TARGET --name {live}` opens a session. {others}"
