"""A request in flight: its deadline, progress, attempts, and the questions that it waits for."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import counted, duration
from mcp_magic.display.text import one_line
from mcp_magic.errors import CallCancelledError, RequestTimeoutError
from mcp_magic.protocol import at_least, log_text, ping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
    from contextlib import AbstractContextManager

    import httpx2
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.config.specs import Spec
    from mcp_magic.protocol import LogMessage
    from mcp_magic.stderr import Position

__all__ = [
    "BUSY",
    "BUSY_ATTEMPTS",
    "KEPT_CHARACTERS",
    "LOST_ATTEMPTS",
    "METHOD_NOT_FOUND",
    "Awaited",
    "CallUnderWay",
    "Clock",
    "Meter",
    "NotAskedError",
    "Outcome",
    "Pace",
    "QuestionQueue",
    "Repeats",
    "Report",
    "Reporter",
    "Reports",
    "State",
    "Turns",
    "Unanswered",
    "amount_text",
    "answered",
    "cannot_have_run",
    "caused_by",
    "current",
    "current_call",
    "figure",
    "in_time",
    "is_forgotten",
    "is_repeatable",
    "keep_alive",
    "most_at_once",
    "person_asked",
    "retry_after",
    "says_no_session",
]


# The time-out of a call: it stands still while a person is asked, and begins anew when the server reports progress.

T = TypeVar("T")

RESTART_SECONDS = 0.05
"""Seconds between two restarts at least: a server may report a hundred thousand times."""


class Clock:
    """Ends a wait. It can be used again when the wait is over.

    Args:
        what: What is waited for, for messages.
        seconds: How long the answer, or the next sign of life, may take; None for as long as it takes.
        most: Seconds that it may take in all, or None; without the time in which the clock stands still, as the others.

    Attributes:
        limited: Whether there is a limit at all.
    """

    def __init__(self, what: str, seconds: float | None, most: float | None) -> None:
        self.limited = seconds is not None or most is not None
        self._what = what
        self._seconds = math.inf if seconds is None else seconds
        self._most = math.inf if most is None else most
        self._limit: asyncio.Timeout | None = None
        self._latest = 0.0
        self._restarted: float | None = None
        self._last = False
        self._pauses = 0
        self._left = self._left_in_all = 0.0

    async def wait(self, sending: Awaitable[T]) -> T:
        """Wait until the time is up.

        Raises:
            TimeoutError: It is, and there was no sign of life.
            RequestTimeoutError: It is, since the last sign of life or in all.
        """
        limit = asyncio.timeout_at(self._begin())
        try:
            async with limit as self._limit:
                return await sending
        except TimeoutError:
            if not limit.expired() or not (self._last or self._restarted is not None):
                raise
        finally:
            self._limit = None
        raise self._too_late()

    def _begin(self) -> float:
        """Return the time of the loop at which the time will be up."""
        now = asyncio.get_running_loop().time()
        self._restarted, self._last = None, self._most < self._seconds
        self._latest = now + self._most
        return min(now + self._seconds, self._latest)

    def _too_late(self) -> RequestTimeoutError:
        if self._last:
            problem = f"still no answer after {self._most:g} s (--max-total-timeout S waits longer)"
        else:
            problem = f"no answer within {self._seconds:g} s of its last report of progress"
        return RequestTimeoutError(f"{self._what}: {problem}; the server has been told that nobody waits.")

    def restart(self) -> None:
        """Give the server its time anew: it has said that it is at work."""
        if self._limit is None:
            return
        if self._pauses:
            self._left = min(self._seconds, self._left_in_all)
            return
        now = asyncio.get_running_loop().time()
        if self._restarted is None or now - self._restarted >= min(RESTART_SECONDS, self._seconds / 10):
            self._restarted, self._last = now, now + self._seconds >= self._latest
            self._set_limit(min(now + self._seconds, self._latest))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Several may ask at the same time: it goes on when the last of them is done."""
        loop = asyncio.get_running_loop()
        when = self._limit.when() if self._limit is not None else None
        if self._pauses == 0 and when is not None:
            self._left = max(when - loop.time(), 0.0)
            self._left_in_all = max(self._latest - loop.time(), 0.0)
            self._set_limit(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0 and self._limit is not None:
                self._latest = loop.time() + self._left_in_all
                self._set_limit(loop.time() + self._left)

    def _set_limit(self, when: float | None) -> None:
        if self._limit is not None:
            with suppress(RuntimeError):  # the time is up already
                self._limit.reschedule(when)


# What a server says of how far it is, as figures (specification, "Progress").

RATE_SECONDS = 0.2
"""Seconds that must be looked back on before a rate says anything."""


MAX_MESSAGE = 2000
"""Characters kept of a message: more than are shown, so that a secret is masked before it is cut."""


class Meter:
    """What was done of what there is to do.

    The numbers are a server's, so anything may come: what is no number changes nothing, a total that is not above zero
    is unknown, a value beyond the total is all of it. A value that goes back begins anew: its rate is measured
    from there.

    Attributes:
        done: What was done, in the server's own unit.
        total: What there is to do, or None where nobody knows.
        message: The beginning of the server's words about it.
        count: Notifications until now.
    """

    __slots__ = ("_from", "_last", "_since", "count", "done", "message", "total")

    def __init__(self) -> None:
        self.done = 0.0
        self.total: float | None = None
        self.message = ""
        self.count = 0
        self._from = 0.0
        self._since = self._last = -1.0

    def note(self, progress: float, total: float | None, message: str | None, now: float) -> None:
        """Take what a notification says.

        Args:
            progress: What was done.
            total: Of what, or None.
            message: Words about it, or None.
            now: Seconds on a clock that only goes forward.
        """
        self.count += 1
        if message is not None:
            self.message = message[:MAX_MESSAGE]
        if total is not None:
            self.total = total if 0 < total < math.inf else None
        if not math.isfinite(progress):
            return
        if self._since < 0 or progress < self.done:
            self._from, self._since = progress, now
        self.done, self._last = progress, now

    @property
    def share(self) -> float | None:
        """The part that is done, 0 to 1; None where the total is not known."""
        return None if self.total is None else min(max(self.done / self.total, 0.0), 1.0)

    @property
    def rate(self) -> float | None:
        """What is done in a second, or None while that cannot be said."""
        seconds = self._last - self._since
        return (self.done - self._from) / seconds if self._since >= 0 and seconds >= RATE_SECONDS else None

    @property
    def left(self) -> float | None:
        """Seconds until all is done if it goes on like this, or None."""
        rate = self.rate
        if self.total is None or not rate or self.done >= self.total:
            return None
        return (self.total - self.done) / rate

    def figures(self, *, running: bool = True) -> list[str]:
        """Return how much is done, how fast, and while it is running how long the rest takes.

        >>> meter = Meter()
        >>> meter.note(0, 10, None, 1.0), meter.note(3, None, "loading", 3.0)
        (None, None)
        >>> meter.figures()
        ['3 of 10 (30 %)', '1.5/s', '5 s left']
        """
        if not self.count:
            return []
        said = [amount_text(self.done, self.total)]
        if rate := self.rate:
            said.append(f"{figure(float(f'{rate:.2g}'))}/s")
        if running and (left := self.left) is not None and left >= 1:
            said.append(f"{duration(round(left))} left")
        return said


def amount_text(done: float, total: float | None) -> str:
    """Return what is done of what.

    >>> amount_text(3, 10), amount_text(1234567, None), amount_text(12, 10), amount_text(0.5, 2)
    ('3 of 10 (30 %)', '1,234,567', '12 of 10 (100 %)', '0.5 of 2 (25 %)')
    """
    if not total or not math.isfinite(total) or total < 0:
        return figure(done)
    return f"{figure(done)} of {figure(total)} ({math.floor(min(max(done / total, 0), 1) * 100)} %)"


def figure(value: float) -> str:
    """Return a number as it is read.

    >>> figure(3.0), figure(2.4567), figure(1234.5), figure(0.00012), figure(1e21)
    ('3', '2.46', '1,234', '0.00012', '1e+21')
    """
    if not math.isfinite(value) or abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


# How far a call is and what its server logs meanwhile (specification, "Progress", "Logging").
#
# Values only: what is seen of them is up to a reporter.

State = Literal["running", "done", "failed", "timed out", "cancelled", "interrupted"]

KEPT_MESSAGES = 50
"""Log messages of one call that are kept to be shown; the rest is counted, and `%mcp logs` has them."""

KEPT_CHARACTERS = 2000
"""Characters of a log message that are kept to be shown."""

MESSAGE_CHARACTERS = 200
"""Characters of a server's words about its progress."""

TIMES = 10
"""How many time-outs a call that goes on reporting has, where no maximum is set."""


class Report:
    """What is said in the course of one call.

    Args:
        server: The server's name.
        title: What was asked.
        cancel: Cancels the call; the server is told.
        started: When the call was made (`time.perf_counter()`); now if left out.
        masked: Takes secrets out of what the server says of its progress.

    Attributes:
        server: The server's name.
        title: What was asked: `"math:slow"`.
        meter: How far it is; its `count` is 0 for a call that only logs.
        state: Whether it runs, and what came of it.
        messages: The last log messages, secrets masked.
        levels: How many messages there were of each level.
        cancel: Cancels the call; the server is told.
    """

    def __init__(
        self,
        server: str,
        title: str,
        *,
        cancel: Callable[[], None] = lambda: None,
        started: float | None = None,
        masked: Callable[[str], str] = str,
    ) -> None:
        self.server = server
        self.title = title
        self.meter = Meter()
        self.state: State = "running"
        self.messages: deque[LogMessage] = deque(maxlen=KEPT_MESSAGES)
        self.levels: Counter[str] = Counter()
        self.cancel = cancel
        self._started = time.perf_counter() if started is None else started
        self._seconds: float | None = None
        self._masked = masked

    @property
    def seconds(self) -> float:
        """How long the call has taken so far, or took."""
        return time.perf_counter() - self._started if self._seconds is None else self._seconds

    @property
    def logged(self) -> int:
        """Log messages until now, also those that are not kept."""
        return self.levels.total()

    def log(self, message: LogMessage) -> None:
        """Take a log message."""
        self.messages.append(message)
        self.levels[message.level] += 1

    def end(self, state: State) -> None:
        """Say what came of it."""
        self.state, self._seconds = state, time.perf_counter() - self._started

    def words(self) -> str:
        """Return how far the call is, on one line without its title; without the last message if all is done.

        >>> report = Report("math", "math:slow")
        >>> report.meter.note(3, 10, "loading", 0.0)
        >>> report.end("cancelled")
        >>> report.words()  # doctest: +ELLIPSIS
        'cancelled · 3 of 10 (30 %) · ... · loading'
        """
        state = [] if self.state in ("running", "done") else [self.state]
        figures = self.meter.figures(running=self.state == "running")
        message = one_line(self._masked(self.meter.message), MESSAGE_CHARACTERS) if self.state != "done" else ""
        return " · ".join([*state, *figures, duration(self.seconds), *([message] if message else [])])


Reporter = Callable[[Report], Callable[[], None] | None]
"""Shows a report: called once, in the context of whoever made the call, when there is something to show for the first
time. What it returns is called whenever the report has changed, thousands of times a second where a server says so
much, and when the call has ended; None where nothing can be shown."""


@dataclass
class Reports:
    """What is done with what calls report.

    Attributes:
        reporter: Shows it; None where nobody looks on.
        progress: Whether progress is shown.
        level: The least severe level of log messages that are shown; `"off"` for none.
        max_total_timeout: Seconds a call may take at most, however often progress starts its time-out anew; None for
            ten times the time-out.
    """

    reporter: Reporter | None = None
    progress: bool = True
    level: str = "warning"
    max_total_timeout: float | None = None

    def most(self, timeout: float | None, wanted: float | None = None) -> float | None:
        """Return the seconds that a call may take at most; None for as long as it takes.

        Args:
            timeout: Its time-out, which what is usual never cuts short.
            wanted: What was said for this call.

        >>> Reports().most(2), Reports(max_total_timeout=5).most(2), Reports(max_total_timeout=5).most(9)
        (20, 5, 9)
        >>> Reports().most(2, 7), Reports().most(2, 1), Reports(max_total_timeout=5).most(None)
        (7, 1, None)
        """
        if wanted is not None or timeout is None:
            return wanted
        return max(timeout, self.max_total_timeout if self.max_total_timeout is not None else TIMES * timeout)


# A call that waits for its answer: its clock, the cell that made it, what its server asks and reports meanwhile.

logger = logging.getLogger(__name__)


_current: ContextVar[CallUnderWay | None] = ContextVar("mcp_magic_call", default=None)


class Answerer(Protocol):
    """Answers what the server of one call asks for in its course: an `Elicitor`, or what is `Prepared` for sampling."""

    def __call__(self, asked: Any, /) -> Awaitable[Any]:
        """Answer."""


class CallUnderWay:
    """A request in the course of which the server may ask and report something.

    Args:
        seconds: How long the answer, or the next report of progress, may take, without the time in which a person is
            asked; None for as long as it takes.
        elicitor: Who answers what the server asks for during this call, instead of the host's.
        what: What is asked, for messages: `"math:slow"`.
        server: The server's name.
        reports: What is done with what the server reports.
        on_progress: Awaited with (progress, total, message) for each progress notification, which then is not shown.
        max_total: Seconds that it may take at most, instead of what `reports` says.
        masked: Takes secrets out of a text.
        prepared: Decides first about what the server asks models for during this call.

    Attributes:
        ended: Whether it has its answer, or nobody waits for one any more.
        report: What was reported and is to be shown; None as long as that is nothing.
        unclaimed: The same of log messages that may be another call's.
    """

    def __init__(
        self,
        seconds: float | None = None,
        elicitor: Answerer | None = None,
        *,
        what: str = "",
        server: str = "",
        reports: Reports | None = None,
        on_progress: ProgressFnT | None = None,
        max_total: float | None = None,
        masked: Callable[[str], str] = str,
        prepared: Answerer | None = None,
    ) -> None:
        self.elicitor = elicitor
        self.prepared = prepared
        self.ended = False
        self.report: Report | None = None
        self.unclaimed: Report | None = None
        self._what = what
        self._server = server
        self._reports = reports if reports is not None else Reports()
        self._told = on_progress
        self._masked = masked
        self._clock = Clock(what, seconds, self._reports.most(seconds, max_total))
        self._started = time.perf_counter()
        self._context = copy_context()
        self._shows: dict[Report, Callable[[], None]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._questions: set[asyncio.Task[Any]] = set()

    async def wait(self, sending: Awaitable[T], calls: list[CallUnderWay]) -> T:
        """Wait for the answer, as one of `calls` meanwhile; then what is still asked is asked no more.

        Raises:
            TimeoutError: The time is up, and nothing was reported.
            RequestTimeoutError: The time is up since the last report, or in all.
            CallCancelledError: The person cancelled it.
        """
        token = _current.set(self)
        calls.append(self)
        self.ended = False
        state: State = "failed"
        try:
            answer = await self._unless_cancelled(sending)
            state = "failed" if getattr(answer, "is_error", None) else "done"
            return answer
        except BaseException as error:
            state = _state(error)
            raise
        finally:
            self.ended, self._task = True, None
            calls.remove(self)
            _current.reset(token)
            for question in self._questions:
                question.cancel()
            self._end(state)

    async def _unless_cancelled(self, sending: Awaitable[T]) -> T:
        self._task = task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            return await (self._clock.wait(sending) if self._clock.limited else sending)
        except asyncio.CancelledError:
            # Interrupt may have cancelled it as well, and goes further
            if not self._cancelled or task is None or task.uncancel() > before:
                raise
        raise CallCancelledError(f"{self._what}: cancelled; the server has been told.")

    def cancel(self) -> None:
        """Cancel the request: the server is told, and whoever waits gets a `CallCancelledError`."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def paused(self) -> AbstractContextManager[None]:
        """Stop the clock. Several may ask at the same time: it goes on when the last of them is done."""
        return self._clock.paused()

    # What is reported

    @property
    def on_progress(self) -> ProgressFnT | None:
        """What is to be called at each progress notification; None where nobody has a use for them."""
        wanted = self._told is not None or self._clock.limited or self._shows_progress
        return self._progressed if wanted else None

    @property
    def _shows_progress(self) -> bool:
        return self._told is None and self._reports.progress and self._reports.reporter is not None

    async def _progressed(self, progress: float, total: float | None, message: str | None) -> None:
        if self.ended:
            return
        self._clock.restart()
        if self._told is not None:
            await self._told(progress, total, message)
        elif self._shows_progress:
            report = self.report = self.report or self._made(self._what)
            report.meter.note(progress, total, message, asyncio.get_running_loop().time())
            self._changed(report)

    def logged(self, message: LogMessage, others: int = 0) -> None:
        """Take a log message that this call has caused, or one of so many other calls of the session."""
        if self.ended or self._reports.reporter is None or not at_least(message.level, self._reports.level):
            return
        if others:
            report = self.unclaimed = self.unclaimed or self._made(self._server)
            message = message._replace(logger=f"{message.logger or 'log'} (of one of {others + 1} calls)")
        else:
            report = self.report = self.report or self._made(self._what)
        report.log(message._replace(data=log_text(message.data, self._masked, KEPT_CHARACTERS)))
        self._changed(report)

    def _made(self, title: str) -> Report:
        return Report(self._server, title, cancel=self.cancel, started=self._started, masked=self._masked)

    def _changed(self, report: Report) -> None:
        try:
            if report not in self._shows:
                assert self._reports.reporter is not None
                self._shows[report] = self._context.copy().run(self._reports.reporter, report) or _unseen
            self._shows[report]()
        except Exception:  # what is shown of a call is no reason for it to fail
            logger.exception("what %s reports cannot be shown", self._what)
            self._shows[report] = _unseen

    def _end(self, state: State) -> None:
        for report in (self.report, self.unclaimed):
            if report is not None:
                report.end(state)
                self._changed(report)

    # What is asked

    def ask(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start what asks the person, in the context of whoever made the call: it appears below their cell."""
        task = asyncio.get_running_loop().create_task(question, context=self._context.copy())
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)
        return task


def _unseen() -> None:
    """Show nothing."""


def _state(error: BaseException) -> State:
    """Return what became of a call that ended with an error."""
    if isinstance(error, CallCancelledError):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timed out"
    return "interrupted" if isinstance(error, asyncio.CancelledError) else "failed"


@contextmanager
def person_asked() -> Iterator[None]:
    """Stop the clock of the call in whose context this runs, if there is one: for a log-in in the course of a call."""
    call = current_call()
    if call is None:
        yield
        return
    with call.paused():
        yield


def current_call() -> CallUnderWay | None:
    """Return the call in whose context this runs, or None."""
    call = _current.get()
    return None if call is None or call.ended else call


def caused_by(calls: list[CallUnderWay]) -> list[CallUnderWay]:
    """Return the call that made a server ask, or log; all that it may be, where nothing says which.

    An `input_required` round runs in the task of its call, and over HTTP what a request leads to comes on a stream of
    its own. Else a message does not say what it belongs to: the call that was sent last is the last.
    """
    current = _current.get()
    return [current] if current is not None and current in calls else [*calls]


# What became of one request below the session: whether it was written, and how HTTP answered it.
#
# The HTTP transports post a request in the context of whoever sends it, so its hooks find the right one even where
# many are under way.

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence after which the other end is asked, seconds between two questions, and questions without an
answer after which the connection is dead: in all about a minute."""


class Awaited:
    """A request that waits for its answer.

    Attributes:
        number: Its JSON-RPC id.
        result: What it was answered, as it came, or None.
    """

    __slots__ = ("_others", "_stray", "number", "result")

    def __init__(self, number: int | str) -> None:
        self.number = number
        self.result: Any = None
        self._stray = ""
        self._others = 0

    def stray(self, said: str) -> None:
        """Take note of an answer that came meanwhile and is nobody's."""
        self._others += bool(self._stray)
        self._stray = self._stray or said

    @property
    def in_vain(self) -> str:
        """What was answered instead, in a sentence; "" if nothing was."""
        if not self._stray:
            return ""
        more = f" (and {self._others} more)" if self._others else ""
        never = f"the answer to {json.dumps(self.number)} never came"
        return f"The server answered {self._stray}{more}; {never} (fault: the server)."


class Outcome:
    """One attempt of one request.

    Attributes:
        status: The HTTP status that answered it, or None.
        content_type: What kind of answer that was, or "".
        retry_after: Seconds that the server asks to wait, or None.
        refused: Whether a connection for it failed before anything could be sent.
        written: Whether something of it was written, as far as this can be known: over HTTP.
        over: Whether nobody waits for it any more.
        error: What went wrong below HTTP, or None.
        awaited: The last request that was sent for it, or None.
        begun: What the server's stderr had when it was made, or None.
    """

    __slots__ = (
        *("_cancelled", "_task", "awaited", "begun", "content_type", "error", "over", "refused", "retry_after"),
        *("status", "written"),
    )

    def __init__(self, begun: Position | None = None) -> None:
        self.begun = begun
        self.status: int | None = None
        self.content_type = ""
        self.error: Exception | None = None
        self.awaited: Awaited | None = None
        self.retry_after: float | None = None
        self.refused = self.written = self.over = False
        self._task = asyncio.current_task()
        self._cancelled = self._task.cancelling() if self._task is not None else 0

    @property
    def result(self) -> Any:
        """What it was answered, as it came, or None."""
        return self.awaited.result if self.awaited is not None else None

    @property
    def given_up(self) -> bool:
        """Whether nobody is to wait for it: the SDK tells the server so first, and cannot during a log-in."""
        return self.over or (self._task is not None and self._task.cancelling() > self._cancelled)

    def sends(self, awaited: Awaited) -> None:
        """Note that a request is sent; what answered one before it is of no interest any more."""
        self.awaited = awaited
        self.status = self.retry_after = self.error = None
        self.content_type = ""

    def answered(self, response: httpx2.Response) -> None:
        """Note how HTTP answered."""
        if response.request.method == "POST":
            self.status = response.status_code
            self.content_type = response.headers.get("content-type", "")
            self.retry_after = retry_after(response.headers.get("retry-after"))

    def happened(self, event: str) -> None:
        """Note an event of the HTTP client (its "trace" extension)."""
        if event.endswith(("connect_tcp.failed", "start_tls.failed")):
            self.refused = True
        elif event.endswith("send_request_headers.started"):
            self.written = True


current: ContextVar[Outcome | None] = ContextVar("mcp_magic_outcome", default=None)
"""The attempt that is being made in this context."""


def keep_alive(event: str, info: dict[str, Any]) -> None:
    """Let the system ask the other end of a new connection now and then whether it is there (an event of httpx2).

    An event stream may be silent for hours; without that nothing says that the machine slept or the network changed.
    """
    if not event.endswith("connect_tcp.complete"):
        return
    found = info["return_value"].get_extra_info("socket") if "return_value" in info else None
    if found is None:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):  # the system knows better
                found.setsockopt(socket.IPPROTO_TCP, option, value)


def retry_after(value: Any) -> float | None:
    """Read a `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date; None where it is neither.

    >>> retry_after("120"), retry_after("soon"), retry_after(None)
    (120.0, None, None)
    >>> retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), retry_after("9" * 10)
    (0.0, None)
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value) if len(value) < 10 else None  # more than 30 years
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


# Waiting for whoever answers what a server asks in the course of a call: one question after the other.

EARLY_SECONDS = 0.5
"""Seconds by which whoever asks the person may say before us that the time is up."""

SETTLE_SECONDS = 60.0
"""Seconds that a server has to show that it has no more questions of a call that is over."""

WAIT_SECONDS = 2.0
"""Seconds of them that the next call waits."""


@dataclass(frozen=True)
class Unanswered:
    """Why there is no answer.

    Attributes:
        why: `"late"` (nobody answered in time), `"ended"` (the call has) or `"failed"`.
        error: What failed.
    """

    why: Literal["late", "ended", "failed"]
    error: Exception | None = None


class NotAskedError(Exception):
    """A question is not put to the person; the text says why, for the server too.

    Attributes:
        is_first: Whether it is the first of its kind, which is worth a log message.
    """

    def __init__(self, why: str, *, is_first: bool) -> None:
        super().__init__(why)
        self.is_first = is_first


class QuestionQueue:
    """The questions of one server: they are asked one at a time, and a call may ask a limited number of them.

    Args:
        calls: The calls under way on the session, the latest last.
        limit: Returns how many questions a call may ask.
    """

    def __init__(self, calls: list[CallUnderWay], limit: Callable[[], int]) -> None:
        self._calls = calls
        self._limit = limit
        self._lock = asyncio.Lock()
        self._counts: WeakKeyDictionary[CallUnderWay, int] = WeakKeyDictionary()
        self._outside = 0
        self._settling: asyncio.Task[None] | None = None

    async def wait(self, call: CallUnderWay, client: Client, send: Callable[[], Awaitable[T]]) -> T:
        """Send a call and wait for its answer.

        A server of the handshake era does not say for which call it asks. So after a call that asked and was broken
        off, the server has to answer a ping first: what it asks until then is of the old call, and is not asked.
        """
        if self._settling is not None:
            await asyncio.wait({self._settling}, timeout=WAIT_SECONDS)
        try:
            return await call.wait(send(), self._calls)
        except BaseException:
            if call in self._counts and self._settling is None and client.session.discover_result is None:
                self._settling = asyncio.create_task(self._settle(client), name="mcp_magic questions")
            raise

    async def _settle(self, client: Client) -> None:
        current.set(None)  # it is no part of the request that was broken off
        with suppress(Exception):
            async with asyncio.timeout(SETTLE_SECONDS):
                await ping(client)
        self._settling = None

    @contextmanager
    def asking(self) -> Iterator[CallUnderWay]:
        """Stop the clocks of all calls that may have made the server ask; return the latest of them."""
        found = caused_by(self._calls) if self._settling is None else []
        found = found or [CallUnderWay()]
        with ExitStack() as clocks:
            for call in found:
                clocks.enter_context(call.paused())
            yield found[-1]

    @asynccontextmanager
    async def turn(self, call: CallUnderWay, *, is_new: bool = True) -> AsyncIterator[None]:
        """Wait until the questions before this one are over.

        Questions that belong to no call under way have one limit together, until a call asks.

        Args:
            call: Made the server ask.
            is_new: Whether it counts; False for the second part of a question.

        Raises:
            NotAskedError: The call has asked too much, or it is over.
        """
        if self._settling is not None:
            raise NotAskedError("the call is over", is_first=False)
        if is_new:
            self._count(call)
        async with self._lock:
            yield

    def _count(self, call: CallUnderWay) -> None:
        if call in self._calls:
            self._counts[call] = count = self._counts.get(call, 0) + 1
            self._outside = 0
        else:
            self._outside = count = self._outside + 1
        limit = self._limit()
        if count > limit:
            raise NotAskedError(
                f"the user is asked {counted(limit, 'questions')} in a call at most (max_questions)",
                is_first=count == limit + 1,
            )


async def answered(call: CallUnderWay, question: Coroutine[Any, Any, T]) -> T | Unanswered:
    """Wait for an answer, which is asked for in the context of whoever made the call.

    Args:
        call: Made the server ask; when it ends the question does.
        question: Asks.
    """
    try:
        return await call.ask(question)
    except Exception as error:
        return Unanswered("failed", error)
    except asyncio.CancelledError:
        if not call.ended:
            raise
        return Unanswered("ended")


async def in_time(waiting: Awaitable[T], seconds: float) -> T | Unanswered:
    """Wait for the person or the model, `seconds` at most.

    Raises:
        TimeoutError: It was something else that took too long.
    """
    started = time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        if time.perf_counter() - started < seconds - EARLY_SECONDS:
            raise
    return Unanswered("late")


# How often something may happen within a minute, and how many of it at once.

SECONDS = 60.0

MOST_AT_ONCE = 400
"""Calls of one session that are made at once over HTTP, where each holds a connection, and so a file descriptor, until
it is answered. On Windows a kernel's loop watches 512 sockets at most, and most systems let a process open 1,024 files.
"""

TELL_SECONDS = 1.0
"""Seconds that a call waits for its turn before the person is told."""


class Pace:
    """Counts what happens.

    >>> pace = Pace()
    >>> [pace.allows(2) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def allows(self, most: int) -> bool:
        """Whether it may happen once more, when it may happen `most` times within a minute; if so it counts."""
        now = time.monotonic()
        while self._times and now - self._times[0] > SECONDS:
            self._times.popleft()
        if len(self._times) >= most:
            return False
        self._times.append(now)
        return True


class Turns:
    """Lets so many go on at once; the others wait, and go on in the order in which they came.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._waiting = 0
        self._told = False

    @asynccontextmanager
    async def taken(self, tell: Callable[[int, int], None]) -> AsyncIterator[None]:
        """Wait for a turn and have it.

        Args:
            tell: Called with how many have a turn and how many wait, if this waits for a second; only once as long as
                there are some that wait.
        """
        if self._free.locked():
            await self._wait(tell)
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, tell: Callable[[int, int], None]) -> None:
        self._waiting += 1
        telling = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell, tell)
        try:
            await self._free.acquire()
        finally:
            telling.cancel()
            self._waiting -= 1
            self._told = self._told and self._waiting > 0

    def _tell(self, tell: Callable[[int, int], None]) -> None:
        if not self._told:
            self._told = True
            tell(self._most, self._waiting)


def most_at_once() -> int:
    """Return how many calls a session makes at once; the other half of the files that may be open are for all else."""
    if IN_BROWSER:  # there are no files to run out of
        return MOST_AT_ONCE
    try:
        import resource
    except ImportError:  # Windows
        return MOST_AT_ONCE
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(MOST_AT_ONCE, files // 2))


# What may be sent twice: the one place that says so.
#
# A request that certainly did not run: nobody listened, a session that the server had forgotten, a server that
# refused to begin (429, 503). And what is harmless to repeat: listings and the like, and tools that a trusted server
# declares read-only or idempotent. Nothing else is ever sent twice.

BUSY = (429, 503)
"""HTTP statuses of a server that did not begin with a request (RFC 6585, section 4; RFC 9110, section 15.6.4)."""

BUSY_ATTEMPTS = 2
"""Times that `Retry-After` is honoured for one request."""

LOST_ATTEMPTS = 3
"""Times that a request which found nobody is sent again, when its server is back."""

METHOD_NOT_FOUND = -32601
"""The JSON-RPC error code."""

_NO_SESSION = re.compile(
    r"\b(no|no valid|invalid|unknown|expired|missing|terminated|closed)\b.{0,10}\bsession\b"
    r"|\bsession\b.{0,30}\b(not found|unknown|expired|invalid|terminated|closed|does not exist|not exist)\b"
    r"|\bserver not initialized\b",
    re.IGNORECASE,
)
"""What servers say with HTTP 400 about a session that they do not have. The specification wants 404, but the
TypeScript SDK's examples, and the many servers that were made from them, answer 400 "No valid session ID provided";
its transport answers 400 "Server not initialized"."""


class Repeats:
    """How often one request was sent again, and why.

    Attributes:
        harmless: Whether it may be sent again although it may have run.
        patient: Whether it waits for a server that is busy.
        renewed: Whether it has been, after the session was renewed.
        busy: How often, because the server asked to wait.
        lost: How often, because the session was lost.
        waited: Seconds that it waited for a busy server.
    """

    def __init__(self, harmless: bool, *, patient: bool = True) -> None:
        self.harmless = harmless
        self.patient = patient
        self.renewed = False
        self.busy = self.lost = 0
        self.waited = 0.0


def is_repeatable(spec: Spec, tool: Any) -> bool:
    """Whether a call may be sent twice: the hints say so, and the person trusts the server that gives them.

    Args:
        spec: Where the tool's server is, and whether it is trusted.
        tool: Its definition, or None where it is not known.
    """
    hints = tool.annotations if tool is not None else None
    if hints is None or not spec.trust:
        return False
    return hints.read_only_hint is True or hints.idempotent_hint is True


def is_forgotten(failure: BaseException, outcome: Outcome) -> bool:
    """Whether HTTP answered that the server does not have the session: then the request never reached a tool.

    Args:
        failure: What the SDK raised.
        outcome: How HTTP answered.
    """
    code = getattr(failure, "code", None)
    if outcome.status == 404:
        # "Method not found" is a 404 too since 2026-07-28; "Connection closed" may have run.
        return code is not None and code != METHOD_NOT_FOUND and str(failure) != "Connection closed"
    return outcome.status == 400 and code is not None and says_no_session(str(failure))


def says_no_session(text: str) -> bool:
    """Whether a server that answers HTTP 400 means that it does not have the session.

    >>> says_no_session("Bad Request: No valid session ID provided"), says_no_session("Session not found")
    (True, True)
    >>> says_no_session("Bad Request: Server not initialized"), says_no_session("the session is full")
    (True, False)
    """
    return _NO_SESSION.search(text) is not None


def cannot_have_run(failure: BaseException, outcome: Outcome) -> bool:
    """Whether a request that failed certainly did not run."""
    if outcome.refused and not outcome.written:
        return True
    return outcome.status in BUSY or is_forgotten(failure, outcome)
