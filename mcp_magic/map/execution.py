"""One run of a map: sends the calls of its plan, at the pace of their servers.

A refused call comes back at once (`Limits.waits_if_busy`) instead of waiting inside its request, so that `Retry-After`
stops all rows of that server. Consent decides once about all calls; the decision goes with each call, so it ends with
the run and with a change of the tool.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import plural
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import PERSON, Consent, Decision
from mcp_magic.consent.definitions import digest
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, DeniedError, MCPMagicError, ProtocolError, SessionClosedError
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.flight.retry import MAY_HAVE_RUN, ROWS, Failure, failure_of, is_repeatable
from mcp_magic.loops import soon_on
from mcp_magic.map.journal import Journal, call_key
from mcp_magic.map.pace import Pace
from mcp_magic.map.plan import HEAD_ROWS, MapItem, Origin, Plan, Step
from mcp_magic.map.rows import PerRow
from mcp_magic.map.tally import DENIED, DONE, FAILED, INVALID, UNKNOWN, WAITING, RowMeter
from mcp_magic.results.reasons import reason
from mcp_magic.results.results import ToolResult
from mcp_magic.session.connection import Connection
from mcp_magic.session.supervisor import State as SessionState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mcp_magic.consent.consent import Request
    from mcp_magic.map.plan import MapOptions
    from mcp_magic.session.services import Services

MAX_ERROR = 2_000  # characters of a tool's error in the column `error`

LARGE_ANSWER = 1_000_000  # characters of an answer in the journal that is read on a thread

CANCELLED = "it was cancelled while it was under way, and may have run"  # the error of a call when the user cancels

Outcome = tuple[str, str, str, int, float]
"""The outcome of a row on a worker: its state, its answer as JSON or "", its error, attempts and seconds."""


class Workers(Protocol):
    """The workers of a cluster; see `mcp_magic.map.cluster`."""

    waiting: int
    """The number of chunks that are sent before the first comes back."""

    def size(self, rows: int) -> int:
        """Return how many of so many rows are in a chunk."""

    async def prepare(self, step: Step, options: MapOptions, *, may_repeat: bool) -> None:
        """Tell the workers what they call."""

    async def run(self, calls: Sequence[Mapping[str, Any]]) -> list[Outcome] | None:
        """Return the outcomes of a chunk; None if its worker was lost in the middle."""


class RowQueue:
    """Rows with an outcome on their way to a loop, which the run waits for if it falls behind."""

    def __init__(self, size: int) -> None:
        self._rows: asyncio.Queue[MapItem | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(size)

    async def put(self, item: MapItem) -> None:
        """Add a row as soon as there is room."""
        await self._room.acquire()
        self._rows.put_nowait(item)

    def end(self) -> None:
        """Let `get` return None after the rows that are waiting."""
        self._rows.put_nowait(None)

    async def get(self) -> MapItem | None:
        """Return the next row, or None at the end."""
        item = await self._rows.get()
        self._room.release()
        return item


class _StageConsent:
    """What decides about the calls of a step."""

    def __init__(self, step: Step, origin: Origin, timeout: float | None) -> None:
        consent = step.connection.consent
        # None: your own calls need no decision while there are no rules
        self.consent: Consent | None = consent if origin.asker != PERSON or (consent and consent.rules) else None
        self._step = step
        self._origin = origin
        self._timeout = timeout
        self._asking = asyncio.Lock()
        self._all: Decision | None = None  # about all calls of this step
        self._answer: Decision | None = None  # about those that a rule asks about, where they come one by one

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """Return the call of the step with these arguments."""
        step, limits = self._step, Limits(self._timeout, waits_if_busy=False)
        call = Call(step.connection, step.tool.name, arguments, step.tool, limits=limits, is_shown=False)
        return replace(call, asker=self._origin.asker, run=self._origin.run)

    async def denial(self, request: Request) -> str:
        """Return the refusal of a call that a rule denies, or ""."""
        if self.consent is None or not self.consent.denies(request):
            return ""
        [decision] = await self._step.connection.caller.decide([request])
        return str(self.consent.refusal(request, decision))

    async def decide_all(self, requests: Sequence[Request]) -> None:
        """Ask once about all calls, bound to exactly their arguments. Raises DeniedError if they are refused."""
        assert self.consent is not None
        origin, caller = self._origin, self._step.connection.caller
        self._all = await caller.decide_set(requests, policy=origin.policy, approver=origin.approver)
        if not self._all.approved:
            raise self.consent.refusal(requests[0], self._all)

    async def decide(self, arguments: Mapping[str, Any]) -> Decision | None:
        """Return the decision about a call. Calls whose arguments come one by one share one question.

        Raises:
            DeniedError: It is refused.
        """
        if self._all is not None or self.consent is None:
            return self._all
        caller, request = self._step.connection.caller, self.call(arguments).request
        if self.consent.verdict(request) == "ask":
            async with self._asking:
                if self._answer is None:
                    template = {name: _template(value) for name, value in self._step.arguments.items()}
                    summary = replace(request, arguments=template, calls=0)
                    self._answer = await caller.decide_set([request], summary=summary)
            decision = self._answer
        else:
            [decision] = await caller.decide([request])
        if not decision.approved:
            raise self.consent.refusal(request, decision)
        return decision


class _Stage:
    """A step while the map runs: its sessions, pace, consent and journal; steps on one server share the first two."""

    def __init__(self, step: Step, sessions: list[Connection], pace: Pace, consent: _StageConsent) -> None:
        self.step = step
        self.pace = pace
        self.consent = consent
        self.repeatable = is_repeatable(step.connection.spec, step.tool)
        self.shared: dict[bytes, asyncio.Future[MapItem]] = {}  # equal calls of a read-only tool wait for the first
        self._sessions = sessions  # the most recently used last
        self._journal: Journal | None = None
        self._tool = 0  # its number in the journal

    @property
    def has_journal(self) -> bool:
        """Whether answers are kept in a file."""
        return self._journal is not None

    async def keep_in(self, journal: Journal) -> str:
        """Keep answers in a journal from now on; return a remark, or ""."""
        session = self.step.connection
        identity = session.consent.definitions.identity(session.name) if session.consent else ""
        server = identity or session.spec.where
        tool, note = await asyncio.to_thread(journal.tool, server, self.step.tool.name, digest(self.step.tool))
        self._journal, self._tool = journal, tool
        return note

    async def find(self, item: MapItem, key: bytes, label: object) -> tuple[bool, ToolResult | None]:
        """Return whether the journal has a row's call, and its answer.

        Raises:
            ConfigError: The answer cannot be read.
        """
        if self._journal is None:
            return False, None
        try:
            is_there, text = self._journal.find(self._tool, key, item.nth)
            if text is None:
                return is_there, None
            if len(text) > LARGE_ANSWER:
                return True, await asyncio.to_thread(_read_answer, text, self.step)
            return True, _read_answer(text, self.step)
        except ConfigError as error:
            problem = str(error)
        except (ValueError, TypeError, RecursionError):
            problem = f"the journal {self._journal.path}: an answer is not one of a tool"
        raise ConfigError(f"{problem} (row {label}); choose another file with --journal")

    def note_start(self, item: MapItem, key: bytes) -> None:
        """Note a call that goes out and must not go out twice."""
        if self._journal is not None and not self.repeatable:
            self._journal.write(self._tool, key, item.nth, None)

    def note_answer(self, item: MapItem, key: bytes, answer: Callable[[], str]) -> None:
        """Keep an answer."""
        if self._journal is not None:
            self._journal.write(self._tool, key, item.nth, answer())

    def forget(self, item: MapItem, key: bytes) -> None:
        """Drop a call that has not run, or that failed."""
        if self._journal is not None and not self.repeatable:  # of what may be repeated only answers are kept
            self._journal.forget(self._tool, key, item.nth)

    def session(self) -> Connection:
        """Return the open session with the fewest requests in flight; the step's own session if none is open.

        If several sessions have the fewest, return the one that this method returned longest ago.
        """
        opened = [session for session in self._sessions if session.state is SessionState.OPEN]
        if not opened:
            return self.step.connection
        session = min(opened, key=lambda session: session.in_flight)
        self._sessions.remove(session)
        self._sessions.append(session)
        return session


class Execution:
    """One run of a plan, or of what an earlier run left over.

    Args:
        plan: The rows and their calls.
        services: Those of the host.
        origin: Who maps.
        advice: Returns what to type about unknown rows at the end, or "".
        pace: The pace of the server, if it is shared with other maps.
        queue: Gets the rows with their outcomes, or None.
        earlier: Seconds that earlier runs took.

    Attributes:
        problem: Why it stopped before the end, or None.
    """

    def __init__(
        self,
        plan: Plan,
        services: Services,
        origin: Origin,
        advice: Callable[[], str],
        pace: Pace | None = None,
        queue: RowQueue | None = None,
        earlier: float = 0.0,
    ) -> None:
        self.problem: MCPMagicError | None = None
        self._plan = plan
        self._tally = plan.tally
        self._services = services
        self._origin = origin
        self._pace = pace
        self._queue = queue
        self._earlier = earlier
        self._error_of_cancelled = CANCELLED
        self._stages: list[_Stage] = []
        self._workers: list[asyncio.Task[None]] = []
        self._progress: InFlightRequest | None = None
        self._meter = RowMeter(self._tally, self._rest, lambda: self.seconds, advice)
        self._all_work = asyncio.Event()  # further sessions are open, or there are no rows for them

    @property
    def seconds(self) -> float:
        """How long this and earlier runs took: what the line below the cell shows."""
        return self._earlier if self._progress is None else self._progress.report.seconds

    @property
    def is_running(self) -> bool:
        """Whether calls are made."""
        return any(not worker.done() for worker in self._workers)

    def cancel(self) -> None:
        """Cancel the calls in flight, and send no others."""
        if self._progress is not None:
            soon_on(self._stages[0].step.connection.loop, self._progress.cancel)

    async def run(self, items: Sequence[MapItem], unread: int | None) -> None:
        """Make the calls of some rows and of those that are not read yet, at most `unread` of these.

        Raises:
            MCPMagicError: Why the rest cannot be called; the answers so far are kept.
        """
        for item in items:
            if item.state == INVALID:
                await self._finish(item)
        options = self._plan.options
        async with AsyncExitStack() as stack:
            journal = None if options.journal is None else await _open_journal(options.journal)
            if journal is not None:
                stack.callback(journal.close)
            self._stages = await self._open_stages(journal, stack)
            await self._consent(self._stages[0], items)
            first = self._plan.steps[0].connection
            self._progress = InFlightRequest(
                f"map {self._plan.title}",
                first.name,
                self._services.reports,
                on_progress=self._origin.on_progress,
                look=Look(first.place.masked, meter=self._meter),
            )
            self._progress.report.go_on(self._earlier)
            try:
                with self._progress:
                    waiting = [item for item in items if item.state == WAITING]
                    source = chain(waiting, islice(self._keep(self._plan.read()), unread))
                    await self._work_off(source, len(waiting))
                    self._progress.conclude(self._tally.outcome)
            finally:
                if not options.keep:
                    self._plan.items[:] = [item for item in self._plan.items if item.state != DONE]

    async def _open_stages(self, journal: Journal | None, stack: AsyncExitStack) -> list[_Stage]:
        """Begin to open further sessions for the time of the map, and find the tools in the journal."""
        options = self._plan.options
        servers: dict[str, tuple[list[Connection], Pace]] = {}
        further: list[Connection] = []
        stages: list[_Stage] = []
        for step in self._plan.steps:
            first = step.connection
            if first.name not in servers:
                extra = [Connection(first.name, first.spec, self._services) for _ in range(options.sessions - 1)]
                further += extra
                servers[first.name] = ([first, *extra], self._pace or Pace.of(first.spec, options.rate))
            stage = _Stage(step, *servers[first.name], _StageConsent(step, self._origin, options.timeout))
            if journal is not None:
                self._plan.add_note(await stage.keep_in(journal))
            stages.append(stage)
        for connection in further:
            stack.push_async_callback(connection.close)
        stack.callback(asyncio.create_task(self._open(further)).cancel)
        return stages

    async def _open(self, sessions: Sequence[Connection]) -> None:
        """Open further sessions while the first works. What cannot be opened is left out, with a note."""
        results = await asyncio.gather(*(session.open() for session in sessions), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            why = str(errors[0]).partition("\n")[0]
            self._plan.add_note(f"{plural(len(errors), 'further sessions')} did not open: {why}")
        self._all_work.set()

    async def _consent(self, stage: _Stage, items: Sequence[MapItem]) -> None:
        """Decide once about all calls of the first step; a rule may deny some."""
        if stage.consent.consent is None:
            return
        requests, error = [], ""
        for item in items:
            if item.step or item.arguments is None:
                continue
            request = stage.consent.call(item.arguments).request
            if denial := await stage.consent.denial(request):
                error = denial
                item.end(DENIED, denial)
                await self._finish(item)
            else:
                requests.append(request)
        if requests:
            await stage.consent.decide_all(requests)
        elif error:
            raise DeniedError(error)

    async def _work_off(self, source: Iterator[MapItem], count: int) -> None:
        """Make the calls of rows, with as many workers as calls may be in flight; `count` rows are read already."""
        options, is_sized = self._plan.options, self._plan.table.size is not None
        if options.on is not None:
            work = await self._cluster_work(options.on, source, count if is_sized else sys.maxsize)
        else:
            most = options.concurrency
            share = max(most // options.sessions, 1)  # of the first session, until the others are open
            work = [
                self._work(source, at_once=number < share) for number in range(min(most, count) if is_sized else most)
            ]
        await self._report_progress()
        self._workers = [asyncio.create_task(coroutine) for coroutine in work]
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self.problem is not None:
            raise self.problem
        for worker in self._workers:
            if not worker.cancelled() and (error := worker.exception()) is not None:
                raise error
        if not is_sized and self._tally.is_invalid:
            problems = [f"  {text}" for text in self._tally.lines(HEAD_ROWS)]
            raise ArgumentsError("\n".join([f"No row fits {self._plan.title}; nothing was sent.", *problems]))

    def _stop(self, error: MCPMagicError) -> None:
        if self.problem is None:
            self.problem, self._error_of_cancelled = error, error.whole
            for worker in self._workers:
                worker.cancel()

    def _keep(self, items: Iterable[MapItem]) -> Iterator[MapItem]:
        """Keep rows as they are read. If a row cannot be read, calls in flight go on."""
        try:
            for item in items:
                if self._keeps:
                    self._plan.items.append(item)
                yield item
        except ArgumentsError as error:
            self.problem = self.problem or error

    @property
    def _keeps(self) -> bool:
        """Whether answers stay in memory."""
        return self._plan.options.keep and self._queue is None

    async def _work(self, source: Iterator[MapItem], *, at_once: bool) -> None:
        """Call for row after row, until there are none; `at_once` does not wait for further sessions."""
        try:
            if not at_once:
                await self._all_work.wait()
            while not (self.problem or self._plan.is_hopeless) and (item := next(source, None)) is not None:
                await self._call_row(item)
                await self._report_progress()
                if not item.attempts:  # rows without a call must not block the loop
                    await asyncio.sleep(0)
        except MCPMagicError as error:  # the journal cannot be written
            self._stop(error)
        finally:
            self._all_work.set()

    async def _call_row(self, item: MapItem) -> None:
        """Make the calls of a row."""
        try:
            while item.state == WAITING and item.step < len(self._stages):
                await self._advance(item, self._stages[item.step])
        except DeniedError as error:
            item.end(DENIED, str(error))
        except ConfigError as error:
            item.end(FAILED, str(error))
            self._count(item)
            raise
        if item.state == WAITING:
            item.end(DONE)
        await self._finish(item)

    async def _advance(self, item: MapItem, stage: _Stage) -> None:
        """Take a row's present step: from an equal call of a read-only tool if there is one, otherwise by a call."""
        if item.arguments is None and not self._plan.prepare(item):
            return None
        arguments: dict[str, Any] = item.arguments or {}
        shares = stage.step.read_only and self._keeps
        key = call_key(arguments) if stage.has_journal or shares else b""
        if not shares:
            return await self._call(item, stage, arguments, key)
        while (shared := stage.shared.get(key)) is not None:
            first = await asyncio.shield(shared)
            if (result := first.results.get(stage.step.name)) is not None:
                return item.advance(stage.step, result)
            if first.state == FAILED:
                return item.end(FAILED, first.error)
        stage.shared[key] = future = asyncio.get_running_loop().create_future()
        try:
            while item.state == WAITING and stage.step.name not in item.results:
                await self._call(item, stage, arguments, key)
        finally:
            if item.state != FAILED and stage.step.name not in item.results:
                del stage.shared[key]
            future.set_result(item)

    async def _call(self, item: MapItem, stage: _Stage, arguments: dict[str, Any], key: bytes) -> None:
        """Make the call of a row's present step. If it has to be made again, the row stays as it is."""
        if await self._look_up(item, stage, key):
            return
        decision = await stage.consent.decide(arguments)
        sent_at = await stage.pace.turn()
        stage.note_start(item, key)
        item.attempts += 1
        try:
            result = await self._send(stage, arguments, decision)
        except asyncio.CancelledError:
            self._cancel_row(item, stage)
            raise
        except MCPMagicError as error:
            again, may_have_run = self._judge(item, stage, error, sent_at)
            if not may_have_run:
                stage.forget(item, key)
            if not again:
                item.end(UNKNOWN if may_have_run and not stage.repeatable else FAILED, error.whole)
            return
        stage.pace.accepted(sent_at)
        item.seconds += result.seconds
        self._tally.answer(result.seconds, self.seconds)
        if result.is_error:
            stage.forget(item, key)
            item.end(FAILED, one_line(f"{result.tool} failed{reason(result)}", MAX_ERROR))
            return
        try:
            stage.note_answer(item, key, lambda: _answer_text(result))
        finally:  # it stays in memory even if it cannot be written
            item.advance(stage.step, result)

    async def _send(self, stage: _Stage, arguments: dict[str, Any], decision: Decision | None) -> ToolResult:
        self._tally.send(stage.step.connection.name)
        self._tally.enter(1)
        try:
            caller = stage.step.connection.caller
            call = replace(stage.consent.call(arguments), connection=stage.session(), decision=decision)
            return await caller.send(await caller.authorize(call))
        finally:
            self._tally.enter(-1)

    def _judge(self, item: MapItem, stage: _Stage, error: MCPMagicError, sent_at: float) -> tuple[bool, bool]:
        """Return whether a call with an error is made again, and whether it may have run."""
        failure = failure_of(error)
        again = ROWS.allows(failure, item.attempts - 1, is_harmless=stage.repeatable)
        if isinstance(error, ProtocolError) and failure is Failure.BUSY:
            self._tally.refusals.append(self.seconds)
            stage.pace.refused(sent_at, error.retry_after)
            if stage.pace.is_stuck:
                self._stop(error)
        elif failure is Failure.LATE:
            stage.pace.refused(sent_at)
        elif isinstance(error, SessionClosedError) and stage.step.connection.state not in (
            SessionState.OPEN,
            SessionState.RECONNECTING,
        ):
            self._stop(error)
            again = False
        return again, failure in MAY_HAVE_RUN

    def _cancel_row(self, item: MapItem, stage: _Stage) -> None:
        """Set the outcome of a row that was cancelled under way."""
        if not stage.repeatable:
            item.end(UNKNOWN, self._error_of_cancelled)
            self._count(item)

    async def _look_up(self, item: MapItem, stage: _Stage, key: bytes) -> bool:
        """Take a row's answer from the journal. Returns False if its call has to be made."""
        if not stage.has_journal:
            return False
        if item.nth < 0:
            start, counts = int.from_bytes(key[:8]), self._plan.occurrences[item.step]
            item.nth = 0 if stage.step.read_only else counts[start]  # equal calls of other tools are told apart
            counts[start] += 1
        is_there, answer = await stage.find(item, key, self._plan.label(item))
        if answer is not None:
            self._tally.resumed += 1
            item.advance(stage.step, answer)
        elif is_there and not (stage.repeatable or self._plan.options.repeat_unknown or item.attempts):
            text = "it was under way when an earlier map ended, and may have run; --repeat-unknown calls it again"
            item.end(UNKNOWN, text)
            return True
        return answer is not None

    # Rows on the workers of a cluster

    async def _cluster_work(
        self, cluster: Workers, source: Iterator[MapItem], rows: int
    ) -> list[Coroutine[Any, Any, None]]:
        """Return the work of sending chunks of rows to the workers of a cluster."""
        if len(self._stages) > 1:
            raise ArgumentsError("--on takes one tool; a pipeline runs in this kernel")
        [stage] = self._stages
        await cluster.prepare(stage.step, self._plan.options, may_repeat=stage.repeatable)
        size = cluster.size(rows)

        async def send() -> None:
            try:
                while not self.problem and (chunk := list(islice(source, size))):
                    await self._send_chunk(cluster, chunk, stage)
                    await self._report_progress()
            except MCPMagicError as error:
                self.problem = self.problem or error  # chunks under way come back

        return [send() for _ in range(cluster.waiting)]

    async def _send_chunk(self, cluster: Workers, chunk: Sequence[MapItem], stage: _Stage) -> None:
        """Let a worker make the calls of some rows. The journal is here: it has them before they are sent."""
        calls = await self._start_chunk(chunk, stage)
        if not calls:
            return
        self._tally.enter(len(calls))
        try:
            outcomes = await cluster.run([item.arguments or {} for item, _ in calls])
        except asyncio.CancelledError:
            for item, _ in calls:
                self._cancel_row(item, stage)
            raise
        except MCPMagicError:  # no session: nothing was called
            for item, key in calls:
                stage.forget(item, key)
            raise
        finally:
            self._tally.enter(-len(calls))
        for number, (item, key) in enumerate(calls):
            if outcomes is None:
                text = "its worker was lost while it was under way, and may have run"
                item.end(FAILED if stage.repeatable else UNKNOWN, text)
            else:
                self._take_outcome(item, stage, key, outcomes[number])
            await self._finish(item)

    async def _start_chunk(self, chunk: Sequence[MapItem], stage: _Stage) -> list[tuple[MapItem, bytes]]:
        """Return the rows that have to be called, with their keys, and note in the journal that they are under way."""
        calls = []
        for item in chunk:
            key = call_key(item.arguments or {})
            if item.state == WAITING and not await self._look_up(item, stage, key):
                calls.append((item, key))
                stage.note_start(item, key)
                continue
            if item.state == WAITING:
                item.end(DONE)
            await self._finish(item)
        return calls

    def _take_outcome(self, item: MapItem, stage: _Stage, key: bytes, outcome: Outcome) -> None:
        """Take the outcome of a row on a worker."""
        state, answer, error, item.attempts, item.seconds = outcome
        self._tally.send(stage.step.connection.name, item.attempts)
        if state == DONE:
            stage.note_answer(item, key, lambda: answer)
            self._tally.answer(item.seconds, self.seconds)
            item.advance(stage.step, _read_answer(answer, stage.step))
        elif state != UNKNOWN:
            stage.forget(item, key)
        item.end(state, error)

    # Outcomes and progress

    async def _finish(self, item: MapItem) -> None:
        self._count(item)
        if self._queue is not None:
            await self._queue.put(item)

    def _count(self, item: MapItem) -> None:
        """Count the outcome of a row; without `keep`, keep only rows that have no answer."""
        self._tally.add(item.state, item.error)
        if self._plan.options.keep or self._queue is not None:
            return
        if item.state == DONE:
            item.results.clear()
        elif self._plan.table.size is None and not item.is_listed:  # a retry comes here again
            item.is_listed = True
            self._plan.items.append(item)

    async def _report_progress(self) -> None:
        if self._progress is None or (note := self._progress.on_progress) is None:
            return
        remark = None if self._origin.on_progress is None else self._meter.remark("running")
        await note(self._tally.finished, self._plan.table.size, remark)

    def _rest(self) -> float:
        return max((stage.pace.rest for stage in self._stages), default=0.0)


def outcome_of(item: MapItem, problem: str) -> Outcome:
    """Return the outcome of a row for the client of a worker; `problem` is why the worker's map stopped."""
    if item.state == WAITING:
        return FAILED, "", problem, 0, 0.0
    answer = _answer_text(item.result) if item.result is not None else ""
    return item.state, answer, item.error, item.attempts, item.seconds


def _template(value: Any) -> Any:
    if isinstance(value, PerRow):
        return f"{{{value.text}}}"
    if isinstance(value, dict):
        return {name: _template(inner) for name, inner in value.items()}
    return [_template(inner) for inner in value] if isinstance(value, list) else value


async def _open_journal(path: Path) -> Journal:
    """Open a journal on a thread, because the whole file is read. It is closed if the map is cancelled meanwhile."""
    opening = asyncio.get_running_loop().run_in_executor(None, Journal, path)

    def close(future: asyncio.Future[Journal]) -> None:
        if not future.cancelled() and future.exception() is None:
            future.result().close()

    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(close)
        raise


def _answer_text(result: ToolResult) -> str:
    return f"[{result.seconds!r}, {result.raw.model_dump_json(by_alias=True, exclude_none=True)}]"


def _read_answer(text: str, step: Step) -> ToolResult:
    from mcp_types import CallToolResult

    seconds, raw = json.loads(text)
    if not isinstance(seconds, int | float):
        raise TypeError
    return ToolResult(
        CallToolResult.model_validate(raw),
        server=step.connection.name,
        tool=step.tool.name,
        seconds=seconds,
        output_schema=step.tool.output_schema,
    )
