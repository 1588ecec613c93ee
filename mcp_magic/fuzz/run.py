"""A fuzz: calls of a server's tools, in a session of their own, and what they show.

The session is not the one that you work in: a server that ends takes nothing of yours with it, and is started again.
Calls go out one after the other, so that a fault belongs to one call, at a pace that the server accepts. First come the
values at the limits of each part of a schema, then such as vary many parts at once; the tools take turns.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import statistics
from collections import Counter, deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, duration, join_names, plural
from mcp_magic.calls.call import Call
from mcp_magic.calls.caller import Caller
from mcp_magic.consent.consent import PERSON, Consent
from mcp_magic.errors import (
    ArgumentsError,
    CallCancelledError,
    MCPMagicError,
    MissingDependencyError,
    UnknownToolError,
)
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.fuzz.judge import (
    DIES,
    HANGS,
    REFUSES,
    SECONDS,
    Answers,
    ArgumentsJudge,
    BusyError,
    Fault,
    answers_of,
    judge_call,
)
from mcp_magic.fuzz.report import Failure, FuzzReport, line_to_type
from mcp_magic.fuzz.shrink import smaller_arguments
from mcp_magic.fuzz.values import distinct_key, plain_value, variations
from mcp_magic.map.pace import Pace
from mcp_magic.schema.fields import input_root
from mcp_magic.session.services import NoQuestions
from mcp_magic.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence

    from mcp_types import Tool

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Decision
    from mcp_magic.flight.progress import Reports
    from mcp_magic.session.connection import Connection

DEFAULT_SECONDS = 20.0

ASKER = "fuzz"  # who calls tools that are not read-only, for consent

LEAST_SECONDS, FACTOR = 1.5, 20  # least seconds for a call; how many times the usual time it may take

CONFIRMED = 2  # how many times as long as the first time a call that hangs may take when it is tried again

ATTEMPTS, COSTLY_ATTEMPTS = 80, 10  # calls to make arguments small; where each costs seconds or a restart

COSTLY = (DIES, HANGS)

MAX_SWEEP, MAX_SWEEPS = 2_000, 100_000  # values at limits for one tool, and for all

MAX_OF_A_KIND = 10  # failures of one kind that a tool may have; further ones are not made small or listed

BATCH = 20  # values that are made at a time, in some 30 ms

MAX_REPEATS = 5  # hangs and ends of the server that show a known failure once more, after which a tool is left out

REOPENINGS = 6  # attempts to open the session again

FIRST_PAUSE = 0.1  # seconds before the second of them; each further pause is twice as long


def select_tools(
    server: str, tools: Sequence[Tool], name: str = "", allow: Collection[str] = ()
) -> tuple[list[Tool], list[Tool]]:
    """Return the read-only tools to call, and those that need an answer of the user.

    Args:
        server: The name of the server, for messages.
        tools: Its tools.
        name: The only tool to call, or "" for all.
        allow: The names of tools that may be called although they are not read-only.

    Raises:
        ArgumentsError: No tool may be called.
        UnknownToolError: A name is unknown.
    """
    names = [tool.name for tool in tools]
    for word in (*filter(None, [name]), *allow):
        if word not in names:
            raise UnknownToolError(f"{server} has no tool {word!r}.{did_you_mean(word, names)}")
    chosen = [tool for tool in tools if tool.name == name or not name]
    harmless = [tool for tool in chosen if _is_read_only(tool)]
    others = [tool for tool in chosen if not _is_read_only(tool) and tool.name in allow]
    if not harmless and not others:
        rest = [tool.name for tool in chosen]
        if name:
            raise ArgumentsError(
                f"{server}:{name} is not marked read-only, so it is not called with made-up arguments; "
                f"--allow {name} does so, after a question"
            )
        raise ArgumentsError(
            f"{server} has no tool that is marked read-only; --allow TOOL calls another with made-up arguments, after "
            f"a question. It has: {join_names(rest)}"
        )
    return harmless, others


def _is_read_only(tool: Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


@dataclass
class _Subject:
    """A tool that is fuzzed.

    Attributes:
        tool: Its definition.
        call: A call of it that consent has decided about, without arguments.
        judge: Tells whether its schema allows arguments.
        plain: Arguments that it should take.
        most: How many calls at most, without those that make arguments small.
    """

    tool: Tool
    call: Call
    judge: ArgumentsJudge
    plain: dict[str, Any]
    most: float
    calls: int = 0
    spent: float = 0.0
    usual: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    culprits: list[tuple[str, Any]] = field(default_factory=list)
    repeats: int = 0
    is_out: bool = False

    @property
    def timeout(self) -> float:
        """Seconds that a call may take."""
        usual = statistics.median(self.usual) if self.usual else 0.0
        least = LEAST_SECONDS if len(self.usual) > 2 else SECONDS
        return max(least, min(FACTOR * usual, SECONDS), 3 * usual)

    def resembles(self, arguments: Mapping[str, Any]) -> bool:
        """Whether arguments have what is known to end the server or to make it hang."""
        return any(name in arguments and _contains(arguments[name], value) for name, value in self.culprits)


def _contains(value: Any, culprit: Any) -> bool:
    if isinstance(culprit, str) and isinstance(value, str):
        return culprit in value if 0 < len(culprit) < 20 else len(value) >= len(culprit) > 0 or value == culprit
    is_number = isinstance(culprit, int | float) and isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and abs(culprit) > 100:
        return bool(value / culprit >= 1) if abs(value) < 1e300 else (value > 0) == (culprit > 0)
    return type(value) is type(culprit) and bool(value == culprit)


def _is_same(fault: Fault, other: Fault) -> bool:
    """Whether two faults count as one while arguments get small; the words of a refusal depend on the arguments."""
    return fault.key == other.key or fault.kind == other.kind == REFUSES


class Fuzz:
    """A fuzz of one server. `run` makes the calls; the `report` grows meanwhile.

    Args:
        connection: The session whose server is called, in a session of its own.
        tools: The read-only tools and the others, as from `select_tools`.
        seconds: How long.
        seed: The seed of the values; None for a random one.
        examples: How many calls of each tool at most; None for as many as there is time for.
        reports: Where it is shown while it runs.

    Attributes:
        report: What was found so far.

    Raises:
        MissingDependencyError: Hypothesis is not installed.
    """

    def __init__(
        self,
        host: Host,
        connection: Connection,
        tools: tuple[Sequence[Tool], Sequence[Tool]],
        *,
        seconds: float = DEFAULT_SECONDS,
        seed: int | None = None,
        examples: int | None = None,
        reports: Reports | None = None,
    ) -> None:
        try:
            import hypothesis  # noqa: F401
        except ImportError:
            raise MissingDependencyError("a fuzz needs hypothesis: pip install 'mcp-magic[fuzz]'") from None
        for name, number in (("seconds", seconds), ("examples", examples)):
            if number is not None and not 0 < number < math.inf:
                raise ArgumentsError(f"{name}={number!r}: a number above 0 is expected")
        seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        self.report = FuzzReport(connection.name, [tool.name for kind in tools for tool in kind], seed, connection.spec)
        self._host = host
        self._connection = connection
        self._tools = tools
        self._seconds = seconds
        self._examples = examples
        self._reports = reports
        self._consent = connection.caller.consent or Consent()
        self._caller = Caller(connection.caller.consent)
        self._pace = Pace.of(connection.spec, math.inf)
        self._keys: set[str] = set()
        self._began = 0.0
        self._sweep = min(MAX_SWEEP, MAX_SWEEPS // max(1, len(self.report.tools)) + 20)
        self._counts = Counter[tuple[str, str]]()

    # The run

    async def run(self) -> FuzzReport:
        """Make the calls and return the report. Cancelled, `report` has what was found.

        Raises:
            DeniedError: Consent refused the calls; nothing was sent.
            ConnectError: The server could not be started once more.
        """
        decisions = await self._decide()
        self._began = asyncio.get_running_loop().time()
        title = f"fuzz {self.report.title}"
        try:
            with InFlightRequest(title, self.report.server, self._reports, look=Look(detail=self._detail)):
                async with self._session() as (session, answers):
                    self._began = asyncio.get_running_loop().time()  # a server that starts slowly is tried, too
                    subjects = self._subjects(session, decisions)
                    await self._try_all(session, answers, subjects)
        except asyncio.CancelledError:
            self.report.ended = "interrupted"
            raise
        except CallCancelledError:
            self.report.ended = "cancelled"
        finally:
            self.report.seconds = self._spent
        return self.report

    @property
    def _spent(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _is_over(self) -> bool:
        """Whether the time is up: one call is always made."""
        return (self._spent >= self._seconds and self.report.calls > 0) or self._pace.is_stuck

    def _detail(self) -> str:
        return f"{self.report.calls:,} calls, {plural(len(self.report.failures), 'failures')}"

    async def _decide(self) -> dict[str, Decision]:
        """Ask once about all tools that are not read-only; return the decision about each tool."""
        harmless, others = self._tools
        about = {"values": "made up from its schema, also such as it forbids", "seconds": self._seconds}
        askers = {**{tool.name: PERSON for tool in harmless}, **{tool.name: ASKER for tool in others}}
        calls = [
            Call(self._connection, tool.name, about, tool, asker=askers[tool.name]) for tool in (*harmless, *others)
        ]
        requests = [replace(call.request, calls=0) for call in calls]
        decisions = await self._connection.caller.decide(requests, is_plan=True)
        refusals = [
            self._consent.refusal(request, decision)
            for request, decision in zip(requests, decisions, strict=True)
            if not decision.approved
        ]
        if len(refusals) == len(requests):
            raise refusals[0]
        self.report.remarks += map(str, refusals)
        return {call.tool: decision for call, decision in zip(calls, decisions, strict=True) if decision.approved}

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[Connection, Answers]]:
        """Have a session of its own, which is closed at the end."""
        spec = replace(self._connection.spec, reconnect=False)
        session = self._host.make(
            self._connection.name, spec, trace=Trace(), questions=lambda *about: NoQuestions(), caller=self._caller
        )
        try:
            await session.open()
            with answers_of(session) as answers:
                yield session, answers
        finally:
            self._host.registry.keep_until_closed(session)
            await session.close()

    def _subjects(self, session: Connection, decisions: Mapping[str, Decision]) -> list[_Subject]:
        subjects = []
        for kind, asker in zip(self._tools, (PERSON, ASKER), strict=True):
            for tool in kind:
                if tool.name not in decisions:
                    continue
                call = Call(session, tool.name, {}, tool, asker=asker, is_shown=False, decision=decisions[tool.name])
                judge = ArgumentsJudge(tool.input_schema)
                root = input_root(tool.input_schema)
                plain = plain_value(root)
                plain = plain if isinstance(plain, dict) else {}
                if judge.unsure:
                    self._remark(tool, f"it is not told whether its schema allows arguments: {judge.unsure}")
                elif not judge.allows(plain):
                    self._remark(tool, "no arguments that its schema allows could be made")
                most = math.inf if self._examples is None else self._examples
                subjects.append(_Subject(tool, call, judge, plain, most))
        return subjects

    def _remark(self, tool: Tool, text: str) -> None:
        self.report.remarks.append(f"{tool.name}: {text}")

    async def _try_all(self, session: Connection, answers: Answers, subjects: Sequence[_Subject]) -> None:
        """Call the tools in turn, until the time is up or there is nothing more to try."""
        sources = [(subject, self._arguments(subject)) for subject in subjects]
        while sources and not self._is_over():
            for subject, source in list(sources):
                arguments = next(source, None)
                if arguments is None or subject.is_out or subject.calls >= subject.most:
                    sources.remove((subject, source))
                    continue
                if self._is_over():
                    break
                if self._is_too_slow(subject, len(sources)):
                    sources.remove((subject, source))
                    continue
                subject.calls += 1
                if not await self._try(session, answers, subject, arguments):
                    return
                if subject.calls % BATCH == 0:
                    await asyncio.sleep(0)  # a server in this process answers without a pause
        if self._pace.is_stuck:
            self.report.remarks.append("the server refused every call for minutes (HTTP 429 or 503)")

    def _is_too_slow(self, subject: _Subject, count: int) -> bool:
        """Whether one of several tools has used up its share of the time in few calls, and is left out."""
        if count < 2 or subject.calls >= BATCH or subject.spent <= self._seconds / count:
            return False
        calls = plural(subject.calls, "calls")
        self._remark(subject.tool, f"it was left out, because it is slow: {calls} in {duration(subject.spent)}")
        return True

    def _arguments(self, subject: _Subject) -> Iterator[dict[str, Any]]:
        """Yield arguments: plain ones, those at limits, then batches of random ones until they repeat themselves."""
        seen = {distinct_key(subject.plain)}
        yield subject.plain
        root = input_root(subject.tool.input_schema)
        sweep = [value for value in itertools.islice(variations(root), self._sweep) if isinstance(value, dict)]
        random.Random(self.report.seed).shuffle(sweep)
        for number in itertools.count():
            is_new = False
            for arguments in sweep:
                key = distinct_key(arguments)
                if key not in seen:
                    seen.add(key)
                    is_new = True
                    if not subject.resembles(arguments):
                        yield arguments
            if number and not is_new:
                return
            sweep = self._random_arguments(subject, root, number)

    def _random_arguments(self, subject: _Subject, root: Any, number: int) -> list[dict[str, Any]]:
        from hypothesis.errors import HypothesisException

        from mcp_magic.fuzz.strategies import generate, value_strategy

        try:
            values = generate(value_strategy(root), self.report.seed + number, BATCH)
        except (HypothesisException, RecursionError) as error:
            self._remark(subject.tool, f"no random arguments could be made: {type(error).__name__}")
            return []
        return [value for value in values if isinstance(value, dict)]

    # One call

    async def _try(self, session: Connection, answers: Answers, subject: _Subject, arguments: dict[str, Any]) -> bool:
        """Call a tool and note new faults; return False if the server does not come back."""
        faults = await self._judge(answers, subject, arguments, subject.timeout)
        is_back = await self._recover(session, faults)
        for fault in faults:
            key = f"{subject.tool.name}: {fault.key}"
            if key in self._keys:
                subject.repeats += fault.kind in COSTLY
                if subject.repeats > MAX_REPEATS and not subject.is_out:
                    subject.is_out = True
                    self._remark(subject.tool, "it was left out after known failures that end the server or hang")
                continue
            self._keys.add(key)
            place = (subject.tool.name, fault.kind)
            self._counts[place] += 1
            if self._counts[place] > MAX_OF_A_KIND:
                if self._counts[place] == MAX_OF_A_KIND + 1:
                    self._remark(subject.tool, f"more than {MAX_OF_A_KIND} failures of the kind {fault.kind!r}")
                continue
            if is_back:
                is_back = await self._note(session, answers, subject, arguments, fault)
            else:
                self._add(subject, arguments, fault, repeats=False)
        return is_back

    async def _judge(
        self, answers: Answers, subject: _Subject, arguments: Mapping[str, Any], timeout: float
    ) -> list[Fault]:
        """Send one call at the server's pace, again while it is busy; return the faults."""
        left = self._seconds - self._spent
        call = replace(subject.call, arguments=arguments, limits=Limits(min(timeout, max(left, 0.1))))
        clock = asyncio.get_running_loop().time
        while not self._pace.is_stuck:
            sent_at = await self._pace.turn()
            self.report.calls += 1
            try:
                faults = await judge_call(self._caller, call, subject.judge, answers)
            except BusyError as busy:
                self._pace.refused(sent_at, busy.wait)
                if self._spent + self._pace.rest >= self._seconds:
                    return []
                continue
            self._pace.accepted(sent_at)
            subject.spent += clock() - sent_at
            if not any(fault.kind in COSTLY for fault in faults):
                subject.usual.append(clock() - sent_at)
            if left < timeout:  # the time was up before the tool was late
                faults = [fault for fault in faults if fault.kind != HANGS]
            masked = subject.call.connection.spec.masked
            return [Fault(fault.kind, masked(fault.text), fault.key) for fault in faults]
        return []

    async def _recover(self, session: Connection, faults: Sequence[Fault]) -> bool:
        """Open the session again if a fault ended it or may have; return whether the server answers."""
        kinds = {fault.kind for fault in faults}
        if HANGS in kinds and DIES not in kinds:
            with suppress(MCPMagicError):
                await session.ping(LEAST_SECONDS)
                return True
        elif DIES not in kinds:
            return True
        for attempt in range(REOPENINGS):
            if attempt:
                await asyncio.sleep(FIRST_PAUSE * 2**attempt)
            with suppress(MCPMagicError):
                await session.reopen()
                return True
        self.report.remarks.append("the server did not come back, so the fuzz ended")
        return False

    async def _note(
        self,
        session: Connection,
        answers: Answers,
        subject: _Subject,
        arguments: dict[str, Any],
        fault: Fault,
    ) -> bool:
        """Try a new fault again, make its arguments small, and add it; return whether the server answers."""
        is_costly, is_back = fault.kind in COSTLY, True
        timeout = subject.timeout
        last = fault

        async def fails(smaller: dict[str, Any]) -> bool:
            nonlocal is_back, last
            if not is_back or (self._is_over() and repeats is not None):
                return False
            faults = await self._judge(answers, subject, smaller, timeout)
            is_back = await self._recover(session, faults)
            same = next((other for other in faults if _is_same(other, fault)), None)
            last = same or last
            return same is not None

        repeats: bool | None = None
        if fault.kind == HANGS:
            timeout *= CONFIRMED
        repeats = await fails(arguments)
        if fault.kind == HANGS and not repeats:
            self._keys.discard(f"{subject.tool.name}: {fault.key}")  # it was slow once
            return is_back
        timeout = subject.timeout
        if repeats:
            attempts = COSTLY_ATTEMPTS if is_costly else ATTEMPTS
            arguments = await smaller_arguments(arguments, subject.plain, fails, attempts)
        if is_costly:
            changed = [name for name, value in arguments.items() if subject.plain.get(name, fails) != value]
            subject.culprits += [(name, arguments[name]) for name in changed if len(changed) == 1]
        key = f"{subject.tool.name}: {last.key}"
        if last.key == fault.key or key not in self._keys:
            self._keys.add(key)
            self._add(subject, arguments, last, repeats=repeats)
        return is_back

    def _add(self, subject: _Subject, arguments: dict[str, Any], fault: Fault, *, repeats: bool) -> None:
        tool, server = subject.tool, self.report.server
        line = line_to_type(server, tool.name, arguments, tool.input_schema)
        self.report.failures.append(Failure(fault.kind, server, tool.name, fault.text, arguments, line, repeats))
