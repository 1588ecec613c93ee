"""Calls a tool for each row of a table, at the pace of its server, and keeps what came back.

A refused call comes back at once (`Limits.waits_if_busy`) instead of waiting inside its request, so that `Retry-After`
stops all rows of that server. Consent decides once about all calls; the decision goes with each call, so it ends with
the map and with a change of the tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from numbers import Integral
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic import schema
from mcp_magic._text import clause, duration, join_names, plural
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import PERSON, Consent, Decision
from mcp_magic.consent.definitions import digest
from mcp_magic.display.arguments import hidden_arguments, short_value
from mcp_magic.display.document import Part, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    ArgumentsError,
    CallCancelledError,
    ConfigError,
    DeniedError,
    MCPMagicError,
    MissingDependencyError,
    ProtocolError,
    SessionClosedError,
)
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.flight.progress import SIGNS, State
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.flight.retry import MAY_HAVE_RUN, ROWS, Failure, failure_of, is_repeatable
from mcp_magic.loops import on_own_loop, soon_on
from mcp_magic.map.journal import Journal, call_key
from mcp_magic.map.pace import Pace, read_rate
from mcp_magic.map.rows import PerRow, Row, Table, fill, matching, read_table, records
from mcp_magic.map.tally import (
    DENIED,
    DONE,
    FAILED,
    INVALID,
    UNKNOWN,
    WAITING,
    RowMeter,
    Tally,
    commonest,
    kind_of,
)
from mcp_magic.results.reasons import reason
from mcp_magic.results.results import ToolResult
from mcp_magic.session.connection import Connection
from mcp_magic.session.supervisor import State as SessionState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.consent.consent import Approver
    from mcp_magic.session.services import Services


MAX_ERROR = 2_000  # characters of a tool's error in the column `error`

CONCURRENCY = 64  # default maximum number of calls in flight

LARGE_ANSWER = 1_000_000  # characters of an answer in the journal that is read on a thread

SHOWN = 10  # rows of the tables that are displayed, and problems in an error

PLOTTED = 100  # bars of a plot

CUT_OFF = "it was cancelled while it was under way, and may have run"  # the error of a call when the user stops the map

HOPELESS = 1_000  # rows of an unknown number after which the map stops if none of them fits the schema

Outcome = tuple[str, str, str, int, float]
"""How a row ended on a worker: its state, its answer as JSON or "", its error, attempts and seconds."""


class Workers(Protocol):
    """The workers of a cluster; see `mcp_magic.map.cluster`."""

    waiting: int
    """The number of chunks that are sent before one is done."""

    def size(self, rows: int) -> int:
        """Return how many of so many rows are in a chunk."""

    async def prepare(self, step: Step, options: MapOptions, *, may_repeat: bool) -> None:
        """Say what the workers call."""

    async def run(self, calls: Sequence[Mapping[str, Any]]) -> list[Outcome] | None:
        """Return the outcomes of a chunk; None if its worker was lost in the middle."""


@dataclass(frozen=True)
class MapOptions:
    """How a map runs.

    Attributes:
        concurrency: Most calls in flight.
        rate: Most calls a second.
        sessions: Sessions to each server, opened for the time of the map.
        timeout: Seconds that a call may take; None for no limit.
        journal: The file that keeps each answer, or None.
        repeat_unknown: Whether to call again what was under way when an earlier kernel died.
        skip_invalid: Whether rows that do not fit the schema are left out; otherwise nothing is sent.
        keep: Whether the answers stay in memory; without it they are in the journal only.
        explode: Whether an answer of several rows becomes several rows of `.df`.
        on: The workers of a cluster that make the calls, or None.
        asker: Who maps, for consent.
        run: The agent run that maps, or None.
        policy: Decides where no consent rule does, unless you map yourself; None for the host's.
        approver: Is asked instead of the host's approver, or None.
        on_progress: Awaited with the rows that have ended and their number, instead of showing them below the cell.
    """

    concurrency: int = CONCURRENCY
    rate: float = math.inf
    sessions: int = 1
    timeout: float | None = None
    journal: Path | None = None
    repeat_unknown: bool = False
    skip_invalid: bool = False
    keep: bool = True
    explode: bool = False
    on: Workers | None = None
    asker: str = PERSON
    run: str | None = None
    policy: str | None = None
    approver: Approver | None = None
    on_progress: ProgressFnT | None = None


@dataclass
class Step:
    """One tool of a map.

    Attributes:
        name: Its name in a pipeline; "" if it is the only step.
        connection: The session.
        tool: The tool.
        arguments: Its arguments, with `PerRow` values.
    """

    name: str
    connection: Connection
    tool: Tool
    arguments: Any

    @property
    def title(self) -> str:
        """`"server:tool"`."""
        return f"{self.connection.name}:{self.tool.name}"

    @property
    def read_only(self) -> bool:
        """Whether the server marks the tool as read-only."""
        hints = self.tool.annotations
        return hints is not None and hints.read_only_hint is True


@dataclass(slots=True)
class MapItem:
    """One row of a map.

    Attributes:
        number: Its position in the table.
        row: The row.
        state: `"waiting"`, `"done"`, `"failed"`, `"denied"`, `"invalid"` or `"unknown"`.
        arguments: The checked arguments of the present step, or None.
        results: Step -> result.
        error: Why it failed, or "".
        attempts: How often its calls were sent.
        seconds: How long the last call of each step took together.
        step: The number of the present step.
        nth: Which of several equal calls of the step it is, for the journal; -1 while unknown.
        is_listed: Whether `MapRun.items` has it. It has the rows of a generator from when they have ended.
    """

    number: int
    row: Row
    state: str = WAITING
    arguments: dict[str, Any] | None = None
    results: dict[str, ToolResult] = field(default_factory=dict)
    error: str = ""
    attempts: int = 0
    seconds: float = 0.0
    step: int = 0
    nth: int = -1
    is_listed: bool = False

    @property
    def result(self) -> ToolResult | None:
        """The result of the last step that has one."""
        return next(reversed(self.results.values()), None)

    def __repr__(self) -> str:
        return f"<MapItem {self.number}: {self.state}{f', {self.error}' if self.error else ''}>"

    def end(self, state: str, error: str = "") -> None:
        """Note how the row ended."""
        self.state, self.error, self.arguments = state, error, None


class _Stage:
    """The sessions, the pace and the grants of a step while a map runs; steps on one server share sessions and pace."""

    def __init__(self, step: Step, sessions: list[Connection], pace: Pace, seen: Counter[int]) -> None:
        self.step = step
        self.pace = pace
        self.repeatable = is_repeatable(step.connection.spec, step.tool)
        self.journal = 0  # the number of the tool in the journal
        self.seen = seen  # how often a call was made, by the start of its key
        self.shared: dict[bytes, asyncio.Future[MapItem]] = {}  # equal calls of a read-only tool wait for the first
        self.asking = asyncio.Lock()
        self.granted: Decision | None = None  # about all calls of this step
        self.answer: Decision | None = None  # about those of them that a rule asks about, where they come one by one
        self._sessions = sessions  # the most recently used last

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


class MapRun:
    """A tool called for each row of a table.

    Attributes:
        steps: The tools.
        items: The rows, in order; with `keep=False` only those that did not succeed.
        options: How it runs.
        problem: Why it stopped before the end, or "".
        note: A remark about the journal or the columns, or "".
        answers: When each answer came, in seconds of running.
        refusals: When the server refused a call, in seconds of running.
        name: Returns the name of the variable that holds it, for the lines that the display proposes.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        table: Table,
        options: MapOptions,
        services: Services,
        note: str = "",
        pace: Pace | None = None,
    ) -> None:
        self.steps = list(steps)
        self.options = options
        self.items: list[MapItem] = []
        self.problem = ""
        self.note = note
        self.answers = array("d")
        self.refusals = array("d")
        self.name: Callable[[], str] = lambda: "out"
        self._table = table
        self._services = services
        self._pace = pace
        self._tally = Tally(table.size, options.rate)
        self._outcome: State = "running"
        self._is_running = False
        self._latencies = array("d")
        self._progress: InFlightRequest | None = None
        self._meter = RowMeter(self._tally, self._rest, lambda: self._seconds, self._repeating)
        self._paces: list[Pace] = []
        self._workers: list[asyncio.Task[None]] = []
        self._stopped: MCPMagicError | None = None
        self._cut_off = CUT_OFF
        self._journal: Journal | None = None
        self._seen: list[Counter[int]] = [Counter() for _ in steps]  # of each step; `retry` goes on with it
        self._handed: asyncio.Queue[MapItem | None] | None = None
        self._room = asyncio.Semaphore(options.concurrency)
        self._all_work = asyncio.Event()  # further sessions are open, or there are no rows left for them

    # Preparation

    def check(self) -> list[MapItem]:
        """Read a table of known size and check the arguments of the first step; return the rows that do not fit.

        Nothing is sent. Rows of unknown number are checked as they come.
        """
        if self._table.size is not None and not self.items:
            self.items += self._read()
        return [item for item in self.items if item.state == INVALID]

    def _read(self) -> Iterator[MapItem]:
        """Read the rows that are left, and prepare their calls.

        Raises:
            ArgumentsError: The next row cannot be read.
        """
        for row in self._table.rows:
            item = MapItem(self._tally.read, row)
            self._tally.read += 1
            self._prepare(item)
            yield item
        self._tally.size = self._tally.read

    def _prepare(self, item: MapItem) -> bool:
        """Compute and check the arguments of a row's present step."""
        step = self.steps[item.step]
        try:
            filled = fill(step.arguments, item.row, item.results)
            item.arguments, _ = schema.prepare_arguments(filled, step.tool.input_schema)
        except ArgumentsError as error:
            item.end(INVALID, str(error))
        return item.state != INVALID

    def _label(self, item: MapItem) -> Any:
        frame = self._table.frame
        return item.number if frame is None else frame.index[item.number]

    @property
    def title(self) -> str:
        """The tools: `"weather:forecast"`."""
        return " → ".join(step.title for step in self.steps)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions."""
        return self.steps[0].connection.loop

    def plan(self) -> Listing:
        """Return what would be called: the first rows with their arguments or their problem. Nothing is sent."""
        invalid = self.check()
        items = self.items or list(islice(self._read(), SHOWN))
        first = {item.number: item for item in [*items[:SHOWN], *invalid[:SHOWN]]}
        rows = []
        for item in first.values():
            arguments = hidden_arguments(item.arguments or {}, self.steps[0].tool)
            problem = {"problem": item.error} if item.error else {}
            rows.append({"row": self._label(item), **_shown(arguments), **problem})
        total = "as many calls as there are rows"
        if self._table.size is not None:
            total = plural(len(items) - len(invalid), "calls")
        more = f"; {_do_not_fit(len(invalid))}" if invalid else ""
        return Listing(rows, title=f"{self.title}: {total}{more}", note=self.note, kind="calls")

    # Running

    async def run(self) -> MapRun:
        """Make the calls, and return this object.

        Raises:
            ArgumentsError: Rows do not fit the schema, with `skip_invalid` all of them; nothing was sent.
            ConfigError: The journal cannot be used; nothing was sent.
            DeniedError: All calls were denied; nothing was sent.
        """
        invalid = self.check()
        if invalid and not (self.options.skip_invalid and len(invalid) < len(self.items)):
            raise ArgumentsError(self._misfits(invalid))
        for item in invalid:
            await self._finish(item)
        await self._run([item for item in self.items if item.state == WAITING])
        return self

    def _misfits(self, invalid: Sequence[MapItem]) -> str:
        """Say which rows do not fit, those with the same problem together."""
        rows: dict[str, list[str]] = {}
        for item in invalid:
            rows.setdefault(item.error.replace("\n", "; "), []).append(str(self._label(item)))
        lines = [
            f"  row{'s' if len(labels) > 1 else ''} {join_names(labels, 4)}: {problem}"
            for problem, labels in rows.items()
        ]
        more = [f"  … and {plural(len(lines) - SHOWN, 'more problems')}"] if len(lines) > SHOWN else []
        head = f"{_do_not_fit(len(invalid), len(self.items))} {self.title}; nothing was sent."
        if len(invalid) < len(self.items):
            head += " --skip-invalid leaves them out."
        return "\n".join([head, *lines[:SHOWN], *more])

    async def stream(self) -> AsyncGenerator[MapItem, None]:
        """Make the calls as `run` does, and yield each row when it has ended. Leaving the loop cancels the rest.

        Rows that were yielded are not kept. Raises what `run` raises, and the error that stops it before the end.
        """
        handed: asyncio.Queue[MapItem | None] = asyncio.Queue()
        self._handed = handed
        running = asyncio.create_task(self.run())
        running.add_done_callback(lambda _: handed.put_nowait(None))
        try:
            while (item := await handed.get()) is not None:
                self._room.release()
                yield item
            await running
            if self._stopped is not None:
                raise self._stopped
        finally:
            self._handed = None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @on_own_loop
    async def retry(
        self,
        *,
        repeat_unknown: bool = False,
        explode: bool = False,
        limit: int | None = None,
        rate: str | float | None = None,
        concurrency: int | None = None,
        sessions: int | None = None,
        timeout: float | None = None,
    ) -> MapRun:
        """Call again for the rows that failed or were not called, and return this object.

        A row that may have run stays `"unknown"`, unless `repeat_unknown` says that it may run twice. `explode` makes
        each item of an answer a row of `.df`. Only the first `limit` of the rows are called. The other options are
        those of `host.map`. All but `limit` hold from now on, and None leaves an option as it was.

        Raises:
            ArgumentsError: The map still runs, or an option makes no sense.
        """
        if self._is_running:
            raise ArgumentsError(f"the map {self.title} still runs: await its end, or `.cancel()` it")
        changes: dict[str, Any] = {
            "rate": None if rate is None else read_rate(rate),
            "concurrency": concurrency,
            "sessions": sessions,
            "timeout": timeout,
            "explode": explode or None,
            "repeat_unknown": repeat_unknown or None,
        }
        options = replace(self.options, **{name: value for name, value in changes.items() if value is not None})
        _check(options, limit)
        self.options, self._tally.most = options, options.rate
        settled = (DONE, INVALID) if self.options.repeat_unknown else (DONE, INVALID, UNKNOWN)
        waiting = [item for item in self.items if item.state not in settled][:limit]
        for item in waiting:
            if item.state != WAITING:
                self._tally.remove(item.state, item.error)
            item.state, item.error, item.attempts = WAITING, "", 0
        again = [item for item in waiting if item.arguments is not None or self._prepare(item)]
        for item in waiting:
            if item.state == INVALID:
                await self._finish(item)
        await self._run(again, None if limit is None else limit - len(waiting))
        return self

    def cancel(self) -> None:
        """Stop: calls in flight are cancelled, and the rest is not sent. `retry()` goes on."""
        if self._progress is not None:
            soon_on(self.loop, self._progress.cancel)

    async def _run(self, items: Sequence[MapItem], unread: int | None = None) -> None:
        """Make the calls of some rows and of those that are not read yet, at most `unread` of these."""
        self._stopped, self.problem, self._outcome, self._is_running = None, "", "running", True
        self._cut_off = CUT_OFF
        try:
            await self._make_calls(items, unread)
            self._outcome = self._tally.outcome
        except asyncio.CancelledError:
            self.problem = self._outcome = "interrupted"
            raise
        except CallCancelledError as error:
            self._stopped, self.problem, self._outcome = error, "cancelled", "cancelled"
        except MCPMagicError as error:
            self.problem, self._outcome = str(error), "failed"
            if error is not self._stopped:
                raise
        finally:
            self._is_running = False

    async def _make_calls(self, items: Sequence[MapItem], unread: int | None) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if self.options.journal is not None:
                self._journal = await _opened(self.options.journal)
                stack.callback(self._journal.close)
            stages = await self._stages(stack)
            await self._consent(stages[0], items)
            first, earlier = self.steps[0].connection, self._seconds
            self._meter = RowMeter(self._tally, self._rest, lambda: self._seconds, self._repeating)
            self._progress = InFlightRequest(
                f"map {self.title}",
                first.name,
                self._services.reports,
                on_progress=self.options.on_progress,
                look=Look(first.place.masked, meter=self._meter),
            )
            self._progress.report.go_on(earlier)
            try:
                with self._progress:
                    waiting = [item for item in items if item.state == WAITING]
                    await self._work_off(chain(waiting, islice(self._kept(self._read()), unread)), len(waiting), stages)
                    self._progress.conclude(self._tally.outcome)
            finally:
                self._journal = None
                if not self.options.keep:
                    self.items = [item for item in self.items if item.state != DONE]

    async def _stages(self, stack: contextlib.AsyncExitStack) -> list[_Stage]:
        """Begin to open further sessions for the time of the map, and find the tools in the journal."""
        servers: dict[str, tuple[list[Connection], Pace]] = {}
        further: list[Connection] = []
        stages: list[_Stage] = []
        for step in self.steps:
            first = step.connection
            if first.name not in servers:
                extra = [Connection(first.name, first.spec, self._services) for _ in range(self.options.sessions - 1)]
                further += extra
                pace = self._pace or Pace.of(first.spec, self.options.rate)
                servers[first.name] = ([first, *extra], pace)
            stage = _Stage(step, *servers[first.name], self._seen[len(stages)])
            if self._journal is not None:
                known = first.consent.definitions.identity(first.name) if first.consent else ""
                about = known or first.spec.where, step.tool.name, digest(step.tool)
                stage.journal, note = await asyncio.to_thread(self._journal.tool, *about)
                self.note = "; ".join(dict.fromkeys(filter(None, (self.note, note))))
            stages.append(stage)
        self._paces = [stage.pace for stage in stages]
        self._all_work.clear()
        for connection in further:
            stack.push_async_callback(connection.close)
        stack.callback(asyncio.create_task(self._open(further)).cancel)
        return stages

    async def _open(self, sessions: Sequence[Connection]) -> None:
        """Open further sessions while the first one works. What cannot be opened is left out, with a note."""
        opened = await asyncio.gather(*(session.open() for session in sessions), return_exceptions=True)
        failed = [error for error in opened if isinstance(error, BaseException)]
        if failed:
            why = str(failed[0]).partition("\n")[0]
            text = f"{plural(len(failed), 'further sessions')} did not open: {why}"
            self.note = "; ".join(filter(None, (self.note, text)))
        self._all_work.set()

    async def _work_off(self, source: Iterator[MapItem], count: int, stages: Sequence[_Stage]) -> None:
        """Make the calls of rows, with as many workers as calls may be in flight; `count` rows are read already.

        Raises:
            MCPMagicError: Why the rest cannot be called; the answers so far are kept.
        """
        is_known = self._table.size is not None
        if self.options.on is not None:
            work = await self._cluster_work(self.options.on, source, stages, count if is_known else sys.maxsize)
        else:
            most = self.options.concurrency
            share = max(most // self.options.sessions, 1)  # of the first session, until the others are open
            work = [
                self._work(source, stages, at_once=number < share)
                for number in range(min(most, count) if is_known else most)
            ]
        await self._progressed()
        self._workers = [asyncio.create_task(each) for each in work]
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._stopped is not None:
            raise self._stopped
        for worker in self._workers:
            if not worker.cancelled() and (error := worker.exception()) is not None:
                raise error
        if not is_known and self._tally.is_invalid:
            problems = [f"  {text}" for text in self._tally.lines(SHOWN)]
            raise ArgumentsError("\n".join([f"No row fits {self.title}; nothing was sent.", *problems]))

    @property
    def _is_hopeless(self) -> bool:
        """Whether the first thousand of rows of unknown number do not fit the schema."""
        return self._table.size is None and self._tally.read >= HOPELESS and self._tally.is_invalid

    def _stop(self, error: MCPMagicError) -> None:
        if self._stopped is None:
            self._stopped, self._cut_off = error, error.whole
            for worker in self._workers:
                worker.cancel()

    def _kept(self, items: Iterable[MapItem]) -> Iterator[MapItem]:
        """Keep rows as they are read. If one cannot be read, calls in flight go on."""
        try:
            for item in items:
                if self._keeps:
                    self.items.append(item)
                yield item
        except ArgumentsError as error:
            self._stopped = self._stopped or error

    @property
    def _keeps(self) -> bool:
        """Whether answers stay in memory."""
        return self.options.keep and self._handed is None

    async def _work(self, source: Iterator[MapItem], stages: Sequence[_Stage], *, at_once: bool) -> None:
        """Take one row after the other, until there are none; `at_once` does not wait for further sessions."""
        try:
            if not at_once:
                await self._all_work.wait()
            while not self._stopped and not self._is_hopeless and (item := next(source, None)) is not None:
                await self._take_through(item, stages)
                await self._progressed()
                if not item.attempts:  # rows without a call must not block the loop
                    await asyncio.sleep(0)
        except MCPMagicError as error:  # the journal cannot be written
            self._stop(error)
        finally:
            self._all_work.set()

    async def _take_through(self, item: MapItem, stages: Sequence[_Stage]) -> None:
        """Make the calls of a row."""
        try:
            while item.state == WAITING and item.step < len(stages):
                await self._advance(item, stages[item.step])
        except DeniedError as error:
            item.end(DENIED, str(error))
        except ConfigError as error:
            item.end(FAILED, str(error))
            self._settle(item)
            raise
        if item.state == WAITING:
            item.end(DONE)
        await self._finish(item)

    async def _cluster_work(
        self, cluster: Workers, source: Iterator[MapItem], stages: Sequence[_Stage], rows: int
    ) -> list[Coroutine[Any, Any, None]]:
        """Return the work of sending chunks of rows to the workers of a cluster."""
        if len(stages) > 1:
            raise ArgumentsError("--on takes one tool; a pipeline runs in this kernel")
        await cluster.prepare(stages[0].step, self.options, may_repeat=stages[0].repeatable)
        size = cluster.size(rows)

        async def send() -> None:
            try:
                while not self._stopped and (chunk := list(islice(source, size))):
                    await self._send_chunk(cluster, chunk, stages[0])
                    await self._progressed()
            except MCPMagicError as error:
                self._stopped = self._stopped or error  # chunks under way come back

        return [send() for _ in range(cluster.waiting)]

    async def _send_chunk(self, cluster: Workers, chunk: Sequence[MapItem], stage: _Stage) -> None:
        """Let a worker make the calls of some rows. The journal is here: it has them before they are sent."""
        keyed = await self._begun(chunk, stage)
        if not keyed:
            return
        self._tally.enter(len(keyed))
        try:
            outcomes = await cluster.run([item.arguments or {} for item, _ in keyed])
        except asyncio.CancelledError:
            for item, _ in keyed:
                self._cancelled(item, stage)
            raise
        except MCPMagicError:  # no session: nothing was called
            for item, key in keyed:
                self._forget(item, stage, key)
            raise
        finally:
            self._tally.enter(-len(keyed))
        for number, (item, key) in enumerate(keyed):
            if outcomes is None:
                text = "its worker was lost while it was under way, and may have run"
                item.end(FAILED if stage.repeatable else UNKNOWN, text)
            else:
                self._take_outcome(item, stage, key, outcomes[number])
            await self._finish(item)

    async def _begun(self, chunk: Sequence[MapItem], stage: _Stage) -> list[tuple[MapItem, bytes]]:
        """Return the rows that have to be called, with their keys, and note in the journal that they are under way."""
        keyed = []
        for item in chunk:
            key = call_key(item.arguments or {})
            if item.state == WAITING and not (self._journal and await self._found(self._journal, item, stage, key)):
                keyed.append((item, key))
                if self._journal is not None and not stage.repeatable:
                    self._journal.write(stage.journal, key, item.nth, None)
                continue
            if item.state == WAITING:
                item.end(DONE)
            await self._finish(item)
        return keyed

    def _forget(self, item: MapItem, stage: _Stage, key: bytes) -> None:
        """Drop a call that has not run, or that failed, from the journal."""
        if self._journal is not None and not stage.repeatable:  # of what may be repeated only answers are kept
            self._journal.forget(stage.journal, key, item.nth)

    def _take_outcome(self, item: MapItem, stage: _Stage, key: bytes, outcome: Outcome) -> None:
        """Note how a row ended on a worker."""
        state, answer, error, item.attempts, item.seconds = outcome
        self._tally.send(stage.step.connection.name, item.attempts)
        if state == DONE:
            if self._journal is not None:
                self._journal.write(stage.journal, key, item.nth, answer)
            self._note_answer(item.seconds)
            self._take(item, stage, _read_answer(answer, stage.step))
        elif state != UNKNOWN:
            self._forget(item, stage, key)
        item.end(state, error)

    async def _advance(self, item: MapItem, stage: _Stage) -> None:
        """Take a row's present step: from an equal call of a read-only tool if there is one, otherwise by a call."""
        if item.arguments is None and not self._prepare(item):
            return None
        arguments: dict[str, Any] = item.arguments or {}
        shares = stage.step.read_only and self._keeps
        key = call_key(arguments) if self._journal is not None or shares else b""
        if not shares:
            return await self._call(item, stage, arguments, key)
        while (shared := stage.shared.get(key)) is not None:
            first = await asyncio.shield(shared)
            if (result := first.results.get(stage.step.name)) is not None:
                return self._take(item, stage, result)
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
        if self._journal is not None and await self._found(self._journal, item, stage, key):
            return
        decision = await self._decision(stage, arguments)
        sent = await stage.pace.turn()
        if self._journal is not None and not stage.repeatable:
            self._journal.write(stage.journal, key, item.nth, None)
        item.attempts += 1
        try:
            result = await self._send(stage, arguments, decision)
        except asyncio.CancelledError:
            self._cancelled(item, stage)
            raise
        except MCPMagicError as error:
            again, may_have_run = self._failed(item, stage, error, sent)
            if not may_have_run:
                self._forget(item, stage, key)
            if not again:
                item.end(UNKNOWN if may_have_run and not stage.repeatable else FAILED, error.whole)
            return
        stage.pace.accepted(sent)
        self._answered(item, stage, key, result)

    def _cancelled(self, item: MapItem, stage: _Stage) -> None:
        """Note that a row was cancelled under way."""
        if not stage.repeatable:
            item.end(UNKNOWN, self._cut_off)
            self._settle(item)

    def _answered(self, item: MapItem, stage: _Stage, key: bytes, result: ToolResult) -> None:
        """Take the answer to a call; the journal has it before it counts."""
        item.seconds += result.seconds
        self._note_answer(result.seconds)
        if result.is_error:
            self._forget(item, stage, key)
            item.end(FAILED, one_line(f"{result.tool} failed{reason(result)}", MAX_ERROR))
            return
        try:
            if self._journal is not None:
                self._journal.write(stage.journal, key, item.nth, _written_answer(result))
        finally:  # it is kept in memory even if it cannot be written
            self._take(item, stage, result)

    def _note_answer(self, seconds: float) -> None:
        self._latencies.append(seconds)
        self.answers.append(self._seconds)

    @property
    def _seconds(self) -> float:
        """How long it has taken, in all runs together: what the line below the cell shows."""
        return 0.0 if self._progress is None else self._progress.report.seconds

    async def _found(self, journal: Journal, item: MapItem, stage: _Stage, key: bytes) -> bool:
        """Take a row's answer from the journal. Returns False if its call has to be made."""
        if item.nth < 0:
            start = int.from_bytes(key[:8])
            item.nth = 0 if stage.step.read_only else stage.seen[start]  # equal calls of other tools are told apart
            stage.seen[start] += 1
        known, answer = await self._journaled(journal, item, stage, key)
        if answer is not None:
            self._tally.resumed += 1
            self._take(item, stage, answer)
        elif known and not (stage.repeatable or self.options.repeat_unknown or item.attempts):
            text = "it was under way when an earlier map ended, and may have run; --repeat-unknown calls it again"
            item.end(UNKNOWN, text)
            return True
        return answer is not None

    async def _journaled(
        self, journal: Journal, item: MapItem, stage: _Stage, key: bytes
    ) -> tuple[bool, ToolResult | None]:
        """Return whether the journal has a row's call, and its answer. Raises ConfigError if that cannot be read."""
        try:
            is_there, text = journal.find(stage.journal, key, item.nth)
            if text is None:
                return is_there, None
            if len(text) > LARGE_ANSWER:
                return True, await asyncio.to_thread(_read_answer, text, stage.step)
            return True, _read_answer(text, stage.step)
        except ConfigError as error:
            problem = str(error)
        except (ValueError, TypeError, RecursionError):
            problem = f"the journal {journal.path}: an answer is not one of a tool"
        raise ConfigError(f"{problem} (row {self._label(item)}); choose another file with --journal")

    def _failed(self, item: MapItem, stage: _Stage, error: MCPMagicError, sent: float) -> tuple[bool, bool]:
        """Return whether a failed call is made again, and whether it may have run."""
        failure = failure_of(error)
        again = ROWS.allows(failure, item.attempts - 1, is_harmless=stage.repeatable)
        if isinstance(error, ProtocolError) and failure is Failure.BUSY:
            self.refusals.append(self._seconds)
            stage.pace.refused(sent, error.retry_after)
            if stage.pace.is_stuck:
                self._stop(error)
        elif failure is Failure.LATE:
            stage.pace.refused(sent)
        elif isinstance(error, SessionClosedError) and stage.step.connection.state not in (
            SessionState.OPEN,
            SessionState.RECONNECTING,
        ):
            self._stop(error)
            again = False
        return again, failure in MAY_HAVE_RUN

    async def _send(self, stage: _Stage, arguments: dict[str, Any], decision: Decision | None) -> ToolResult:
        self._tally.send(stage.step.connection.name)
        self._tally.enter(1)
        try:
            caller = stage.step.connection.caller
            call = replace(self._call_of(stage, arguments), connection=stage.session(), decision=decision)
            return await caller.send(await caller.authorize(call))
        finally:
            self._tally.enter(-1)

    def _take(self, item: MapItem, stage: _Stage, result: ToolResult) -> None:
        item.results[stage.step.name] = result
        item.step += 1
        item.arguments, item.nth = None, -1

    async def _finish(self, item: MapItem) -> None:
        self._settle(item)
        if self._handed is not None:
            await self._room.acquire()
            self._handed.put_nowait(item)

    def _settle(self, item: MapItem) -> None:
        """Count a row that has ended."""
        self._tally.add(item.state, item.error)
        if self.options.keep or self._handed is not None:
            return
        if item.state == DONE:
            item.results.clear()
        elif self._table.size is None and not item.is_listed:  # a retry comes here again
            item.is_listed = True
            self.items.append(item)

    # Consent

    async def _consent(self, stage: _Stage, items: Sequence[MapItem]) -> None:
        """Decide once about all calls of the first step, bound to exactly their arguments; a rule may deny some."""
        consent = self._consent_of(stage)
        if consent is None:
            return
        caller, allowed, error = stage.step.connection.caller, [], ""
        for item in items:
            if item.step or item.arguments is None:
                continue
            request = self._call_of(stage, item.arguments).request
            if consent.denies(request):
                error = str(consent.refusal(request, (await caller.decide([request]))[0]))
                item.end(DENIED, error)
                await self._finish(item)
            else:
                allowed.append(request)
        if allowed:
            options = self.options
            stage.granted = await caller.decide_set(allowed, policy=options.policy, approver=options.approver)
            if not stage.granted.approved:
                raise consent.refusal(allowed[0], stage.granted)
        elif error:
            raise DeniedError(error)

    def _consent_of(self, stage: _Stage) -> Consent | None:
        """Return what decides about the calls of a step, or None if they need no decision."""
        consent = stage.step.connection.consent
        return None if consent is None or (self.options.asker == PERSON and not consent.rules) else consent

    def _call_of(self, stage: _Stage, arguments: Mapping[str, Any]) -> Call:
        step, options = stage.step, self.options
        limits = Limits(options.timeout, waits_if_busy=False)
        call = Call(step.connection, step.tool.name, arguments, step.tool, limits=limits, is_shown=False)
        return replace(call, asker=options.asker, run=options.run)

    async def _decision(self, stage: _Stage, arguments: Mapping[str, Any]) -> Decision | None:
        """Return the decision about a call; if its arguments are known only now, there is one question for all."""
        consent = self._consent_of(stage)
        if stage.granted is not None or consent is None:
            return stage.granted
        caller, request = stage.step.connection.caller, self._call_of(stage, arguments).request
        if consent.verdict(request) == "ask":
            async with stage.asking:
                if stage.answer is None:
                    written = {name: _written(value) for name, value in stage.step.arguments.items()}
                    summary = replace(request, arguments=written, calls=0)
                    stage.answer = await caller.decide_set([request], summary=summary)
            decision = stage.answer
        else:
            [decision] = await caller.decide([request])
        if not decision.approved:
            raise consent.refusal(request, decision)
        return decision

    # Progress

    async def _progressed(self) -> None:
        if self._progress is None or (note := self._progress.on_progress) is None:
            return
        remark = None if self.options.on_progress is None else self._meter.remark("running")
        await note(self._tally.ended, self._table.size, remark)

    def _rest(self) -> float:
        return max((pace.rest for pace in self._paces), default=0.0)

    # The values

    @property
    def results(self) -> list[ToolResult | None]:
        """The results in the order of the rows (of a pipeline, those of the last step); None for rows without one."""
        last = self.steps[-1].name
        return [item.results.get(last) for item in self.items]

    @property
    def failed(self) -> pd.DataFrame:
        """The rows that have no answer: the input's index and columns, `state` and `error`."""
        return self._frame([item for item in self.items if item.state != DONE], answers=False)

    @property
    def df(self) -> pd.DataFrame:
        """The input's index and columns, the columns of the answers, then `error`, `attempts` and `seconds`."""
        return self._frame(self.items, answers=True)

    def _frame(self, items: Sequence[MapItem], *, answers: bool) -> pd.DataFrame:
        import pandas as pd

        from mcp_magic.display.frames import escaped
        from mcp_magic.display.tables import Records, typed

        inputs = list(dict.fromkeys([*self._table.columns, *(name for item in items for name in item.row)]))
        names = self._answer_columns(items, inputs) if answers else {}
        last = ("error", "attempts", "seconds") if answers else ("state", "error")
        taken = {*inputs, *names.values()}
        ends = {name: f"{self._prefix}.{name}" if name in taken else name for name in last}
        numbers: list[int] = []
        rows: list[dict[str, Any]] = []
        for item in items:
            end = {column: getattr(item, name) for name, column in ends.items()}
            end[ends["error"]] = item.error or None
            for answer in self._answers(item) if answers else [{}]:
                numbers.append(item.number)
                rows.append({**{names[key]: value for key, value in answer.items()}, **end})
        after = pd.DataFrame(rows, columns=[*dict.fromkeys(names.values()), *ends.values()])
        after = typed(
            after, Records(values=rows), {name: "integer" for name in names.values() if _has_gaps(rows, name)}
        )
        if (frame := self._table.frame) is None:
            before = pd.DataFrame(
                [dict(item.row) for item in items], columns=inputs, index=[item.number for item in items]
            )
            before = before.loc[numbers]
        else:
            before = frame.iloc[numbers].set_axis(inputs, axis="columns")
        return escaped(pd.concat([before, after.set_index(before.index)], axis="columns"))

    @property
    def _prefix(self) -> str:
        return self.steps[-1].name or self.steps[-1].tool.name

    def _answers(self, item: MapItem) -> list[dict[tuple[str, str], Any]]:
        """Return the answer of a row as columns by (step, name); several with `explode`."""
        found: list[dict[tuple[str, str], Any]] = [{}]
        for step in self.steps:
            result = item.results.get(step.name)
            if result is None:
                continue
            rows = _rows_of(result, explode=self.options.explode)
            found = [
                {**before, **{(step.name, name): value for name, value in row.items()}}
                for before in found
                for row in rows
            ]
        return found

    def _answer_columns(self, items: Sequence[MapItem], inputs: Collection[str]) -> dict[tuple[str, str], str]:
        """Return the names of the answers' columns: with the step or the tool in front where they would collide."""
        keys = dict.fromkeys(key for item in items for answer in self._answers(item) for key in answer)
        names = {}
        for step, name in keys:
            prefix = step or self._prefix
            names[step, name] = f"{prefix}.{name}" if step or name in inputs else name
        return names

    @property
    def stats(self) -> dict[str, Any]:
        """Rows by state, calls, refusals, seconds, calls a second, and latencies in seconds (50th, 95th percentile).

        The states together are all rows. The rate is the calls over the seconds, at most the rate that was asked for.
        """
        ordered, tally = sorted(self._latencies), self._tally
        states = tally.states()
        return {
            "rows": sum(states.values()),
            **states,
            "resumed": tally.resumed,
            "calls": tally.calls,
            "refused": len(self.refusals),
            "seconds": round(self._seconds, 3),
            "rate": tally.rate(self._seconds, 3),
            "most_in_flight": tally.most_in_flight,
            "p50": percentile(ordered, 0.5),
            "p95": percentile(ordered, 0.95),
        }

    @property
    def failure_summary(self) -> str:
        """The rows by state and the most common error; "" if every row has an answer."""
        return self._tally.failure_summary

    @property
    def state(self) -> str:
        """`"running"`, `"done"`, or why it stopped."""
        if any(not worker.done() for worker in self._workers):
            return "running"
        return self.problem or "done"

    def plot(self) -> Any:
        """Return a figure of the answers and refused calls a second over time.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        figure = new_figure()
        axes = figure.subplots()
        width = max(self._seconds / PLOTTED, 0.25)
        edges = [width * number for number in range(math.ceil(self._seconds / width) + 1)]
        for label, times in (("answers", self.answers), ("refused", self.refusals)):
            if times:
                axes.hist(times, edges, weights=[1 / width] * len(times), histtype="stepfilled", alpha=0.7, label=label)
        axes.set(xlabel="seconds", ylabel="calls/s", title=self.title)
        axes.legend()
        return figure

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        parts = [f"{self.title}: {self.summary}", self._repeating(in_python=True)]
        return f"<MapRun {'; '.join(filter(None, parts))}>"

    @property
    def summary(self) -> str:
        """The figures and the most common error in a line: `"20 of 20 rows done, 1.1 s, 17 calls/s"`."""
        return "; ".join([self._figures, *self._tally.lines()])

    @property
    def _figures(self) -> str:
        tally = self._tally
        resumed = [f"{tally.resumed:,} from the journal"] if tally.resumed else []
        return ", ".join([*tally.rows(), *resumed, duration(self._seconds), *tally.rate_text(self._seconds)])

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: the figures, the errors by message, and the first rows."""
        parts = [Part.note(f"{SIGNS[self._outcome]} {self.title}: {self._figures}")]
        if self.problem:
            goes_on = self.options.keep and self._has_rest
            rest = f"; `await {self.name()}.retry()` goes on with the rest" if goes_on else ""
            why, _, stderr = self.problem.partition("\n")
            parts.append(Part.note(f"It stopped: {clause(why)}{rest}"))
            if stderr:
                parts.append(Part.prose(dedent(stderr)))
        if repeating := self._repeating(in_python=True):
            parts.append(Part.note(repeating))
        if self.note:
            parts.append(Part.note(self.note))
        parts += self._errors()
        if any(item.state == DONE for item in self.items):
            head = self._frame(self.items[:SHOWN], answers=True).iloc[:, :-2]  # without attempts and seconds
            answers = records(head.astype(object).where(head.notna(), ""))
            more = len(self.items) - len(head)
            shown = (_shown(hidden_arguments(answer, None)) for answer in answers)
            rows = [{"row": label, **answer} for label, answer in zip(head.index, shown, strict=True)]
            parts += Listing(rows, note=f"… {plural(more, 'more rows')}: .df has all" if more > 0 else "").parts()
        if not self.options.explode and self._has_lists:
            line = f"`%mcp map --resume ${self.name()} --explode`"
            parts.append(Part.note(f"Answers are lists: {line} makes each item a row of .df."))
        return parts

    @property
    def _has_rest(self) -> bool:
        """Whether there are rows that `retry()` calls."""
        states = self._tally.states()
        return self._tally.size is None or any(states[state] for state in (FAILED, DENIED, WAITING))

    def _repeating(self, *, in_python: bool = False) -> str:
        """Say how the unknown rows are called again; "" if there are none, or if nobody gets this object."""
        unknown = self._tally.states()[UNKNOWN]
        if not unknown or self._handed is not None or self.options.asker != PERSON:
            return ""
        name = self.name()
        if in_python:
            line = f"`%mcp map --resume ${name} --repeat-unknown` or `await {name}.retry(repeat_unknown=True)`"
            return f"{line} repeats the {plural(unknown, 'calls')} that may have run"
        return f"`%mcp map --resume ${'RUN' if name == '_' else name} --repeat-unknown` repeats unknown rows"

    def _errors(self) -> list[Part]:
        """Return the errors by kind, without the reason of the stop, which has a line of its own."""
        kinds = dict(self._tally.kinds)
        if self._stopped is not None:
            kinds.pop(kind_of(self._stopped.whole), None)
        rows = [
            {"rows": kind.rows, "values": "differ" if kind.is_varied else "", "error": kind.text}
            for kind in commonest(kinds.values(), SHOWN)
        ]
        more = len(kinds) - SHOWN
        note = f"… {plural(more, 'more kinds')}: .failed has all" if more > 0 else ""
        return Listing(rows, kind="errors", note=note).parts() if rows else []

    @property
    def _has_lists(self) -> bool:
        """Whether an answer in the rows that are displayed is a list."""
        return any(isinstance(result.data, list) for item in self.items[:SHOWN] for result in item.results.values())


def outcome_of(item: MapItem, problem: str) -> Outcome:
    """Return how a row ended, as a worker tells it; `problem` is why it stopped."""
    if item.state == WAITING:
        return FAILED, "", problem, 0, 0.0
    answer = _written_answer(item.result) if item.result is not None else ""
    return item.state, answer, item.error, item.attempts, item.seconds


def _do_not_fit(invalid: int, rows: int | None = None) -> str:
    """Return how many rows do not fit.

    >>> _do_not_fit(1, 19), _do_not_fit(2)
    ('1 row of 19 does not fit', '2 rows do not fit')
    """
    of = "" if rows is None else f" of {rows:,}"
    return f"{plural(invalid, 'rows')}{of} {'does' if invalid == 1 else 'do'} not fit"


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row as they are displayed: floats rounded, lists and objects as JSON on a line."""
    return {name: _short(value) for name, value in row.items()}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    try:
        return short_value(value) if isinstance(value, list | dict) else value
    except (TypeError, ValueError, RecursionError):  # a column may hold what is no JSON
        return value


def _written(value: Any) -> Any:
    if isinstance(value, PerRow):
        return f"{{{value.text}}}"
    if isinstance(value, dict):
        return {name: _written(inner) for name, inner in value.items()}
    return [_written(inner) for inner in value] if isinstance(value, list) else value


async def _opened(path: Path) -> Journal:
    """Open a journal on a thread, because its file is read whole; one that nobody waits for any more is closed."""
    opening = asyncio.get_running_loop().run_in_executor(None, Journal, path)

    def close(done: asyncio.Future[Journal]) -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().close()

    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(close)
        raise


def _written_answer(result: ToolResult) -> str:
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


def _rows_of(result: ToolResult, *, explode: bool) -> list[dict[str, Any]]:
    """Return an answer as rows: an object's members are columns, any other value is the column `result`."""
    data = result.data if result.data is not None else result.text
    if explode and isinstance(data, list):
        return [item if isinstance(item, dict) else {"result": item} for item in data] or [{}]
    return [data if isinstance(data, dict) else {"result": data}]


def _has_gaps(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a column has only integers, and not in each row: pandas would make floats of them."""
    values = [row.get(name) for row in rows]
    return None in values and {type(value) for value in values if value is not None} == {int}


def new_figure() -> Any:
    """Return an empty figure of Matplotlib, which IPython shows; pyplot is not involved.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("a plot needs Matplotlib: pip install matplotlib") from None
    return Figure(figsize=(8, 3), layout="constrained")


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of ascending values lies; None without values."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 4) if ordered else None


def _check(options: MapOptions, limit: int | None) -> None:
    counts: Any = (("concurrency", options.concurrency, 1), ("sessions", options.sessions, 1), ("limit", limit or 0, 0))
    for name, value, least in counts:
        if not isinstance(value, Integral) or value < least:
            raise ArgumentsError(f"{name}={value!r}: expected a whole number, at least {least}")
    check_seconds("map", timeout=options.timeout)


def map_steps(
    steps: Sequence[Step],
    rows: Any,
    services: Services,
    *,
    limit: int | None = None,
    rate: str | float = math.inf,
    journal: str | Path | None = None,
    pace: Pace | None = None,
    **options: Any,
) -> MapRun:
    """Return a map that has not begun.

    A first step without arguments gets the columns that are named like parameters. `services` are the host's, and
    `options` those of `MapOptions`.

    Raises:
        ArgumentsError: These are no rows, or an option makes no sense.
    """
    chosen = MapOptions(rate=read_rate(rate), journal=None if journal is None else Path(journal), **options)
    _check(chosen, limit)
    if not chosen.keep and chosen.journal is None:
        raise ArgumentsError("--no-keep needs --journal FILE, which has the answers")
    table = read_table(rows).first(limit)
    note = ""
    first = steps[0]
    if first.arguments == {} and (table.columns or table.size):
        first.arguments = matching(table.columns, first.tool.input_schema)
        note = f"passed by name: {', '.join(name for name in table.columns if name in first.arguments)}"
    return MapRun(steps, table, chosen, services, note, pace)
