"""A pending request: its deadline, progress, attempts, and the server's questions that it waits for.

The time-out of a call is a clock of our own, around all its rounds: the SDK's runs on while a server waits for the
user's answer.

A request has values to show (`Report`), and a reporter displays them. It is shown when it has progress or a log
message, or after a second; one timer of the host looks at all requests, so a quick call pays nothing. A notification
only notes figures here, so a hundred thousand of them cost what they cost the SDK.

`ClientSession.send_request` is replaced (`attend`), because the SDK's client takes no progress callback for reads and
prompts, and fixes the log level when it is made. What is known of one request (refused, written, status) is in its own
context and not in the connection, since many are pending at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cache, partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import duration, plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    ArgumentsError,
    CallCancelledError,
    MCPMagicError,
    RequestTimeoutError,
    SessionError,
    on_one_line,
)
from mcp_magic.protocol import LogMessage, at_least, log_text, ping, without_context

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

    from mcp_magic.stderr import Position


logger = logging.getLogger(__name__)


def check_seconds(where: str, **seconds: Any) -> None:
    """Raise ArgumentsError for a time-out that is not a number above 0; None is no limit.

    >>> check_seconds("math:add", timeout=2.5, max_total_timeout=None)
    >>> check_seconds("math:add", timeout="x")
    Traceback (most recent call last):
    mcp_magic.errors.ArgumentsError: math:add: timeout='x': expected seconds above 0 (timeout=2.5), or None for no limit
    """
    for name, value in seconds.items():
        if value is not None and (isinstance(value, bool) or not (isinstance(value, Real) and float(value) > 0)):
            got = f"{name}={one_line(repr(value), 60)}"
            raise ArgumentsError(f"{where}: {got}: expected seconds above 0 ({name}=2.5), or None for no limit")


# The deadline of a call: it stops while the user is asked, and restarts when the server reports progress.

T = TypeVar("T")

RESTART_SECONDS = 0.05  # minimum seconds between two restarts: a server may report a hundred thousand times


class Deadline:
    """Ends a wait at its deadline. Can be reused after the wait.

    `seconds` limit the answer or the next progress report, `most` all of it; without pauses. None is no limit.
    """

    def __init__(self, what: str, seconds: float | None, most: float | None) -> None:
        self._what = what
        self._seconds = math.inf if seconds is None else seconds
        self._most = math.inf if most is None else most
        self._limit: asyncio.Timeout | None = None
        self._latest = 0.0
        self._restarted = -math.inf
        self._last = False
        self._pauses = 0
        self._left = self._left_in_all = 0.0

    async def wait(self, sending: Awaitable[T]) -> T:
        """Await `sending` until the deadline.

        Raises TimeoutError without a progress report, RequestTimeoutError after one, or if the maximum has passed.
        """
        now = asyncio.get_running_loop().time()
        self._restarted, self._last = -math.inf, self._most < self._seconds
        self._latest = now + self._most
        limit = asyncio.timeout_at(min(now + self._seconds, self._latest))
        try:
            async with limit as self._limit:
                return await sending
        except TimeoutError:
            if not limit.expired() or not (self._last or self._restarted > 0):
                raise
            if self._last:
                problem = f"no answer within {self._most:g} s in total (--max-total-timeout S waits longer)"
            else:
                problem = f"no progress for {self._seconds:g} s"
            raise RequestTimeoutError(f"{self._what}: timed out: {problem}. The call was cancelled.") from None
        finally:
            self._limit = None

    def restart(self) -> None:
        """Restart the deadline: the server has reported progress."""
        if self._limit is None:
            return
        if self._pauses:
            self._left = min(self._seconds, self._left_in_all)
            return
        now = asyncio.get_running_loop().time()
        if now - self._restarted >= min(RESTART_SECONDS, self._seconds / 10):
            self._restarted, self._last = now, now + self._seconds >= self._latest
            self._set_limit(min(now + self._seconds, self._latest))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Can be nested: it goes on when the last context exits."""
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
            with suppress(RuntimeError):  # the deadline has passed already
                self._limit.reschedule(when)


# Progress reports of a server, as numbers (specification, "Progress").

RATE_SECONDS = 0.2  # minimum seconds of observation before a rate is meaningful


MAX_MESSAGE = 2000
"""Maximum number of characters kept of a message: more than are shown, so that a secret is masked before it is cut."""


class ProgressMeter:
    """The progress of a call.

    A server sends any numbers: NaN and infinity change nothing, a total that is not positive is unknown, a value above
    it counts as all of it. A value that goes back restarts the rate.
    """

    __slots__ = ("_from", "_last", "_since", "count", "done", "message", "total")
    ends_without_error = False  # a call raises its failure

    def __init__(self) -> None:
        self.done = 0.0
        self.total: float | None = None
        self.message = ""
        self.count = 0
        self._from = 0.0
        self._since = self._last = -1.0

    def note(self, progress: float, total: float | None, message: str | None, now: float) -> None:
        """Take a progress notification; `now` is in seconds of a monotonic clock."""
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
        """The share that is done, 0 to 1; None if the total is unknown."""
        return None if self.total is None else min(max(self.done / self.total, 0.0), 1.0)

    @property
    def rate(self) -> float | None:
        """The progress per second, or None if unknown."""
        seconds = self._last - self._since
        return (self.done - self._from) / seconds if self._since >= 0 and seconds >= RATE_SECONDS else None

    @property
    def left(self) -> float | None:
        """Seconds until the end at the current rate, or None."""
        rate = self.rate
        if self.total is None or not rate or self.done >= self.total:
            return None
        return (self.total - self.done) / rate

    def remark(self, state: State) -> str:
        """Return the server's last message, unless all is done."""
        return "" if state == "done" else self.message

    def figures(self, *, running: bool = True) -> list[str]:
        """Return the amount done, the rate, and while running the remaining time.

        >>> meter = ProgressMeter()
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
    """Return an amount and its total as text.

    >>> amount_text(3, 10), amount_text(1234567, None), amount_text(12, 10), amount_text(0.5, 2)
    ('3 of 10 (30 %)', '1,234,567', '12 of 10 (100 %)', '0.5 of 2 (25 %)')
    """
    if not total or not math.isfinite(total) or total < 0:
        return figure(done)
    return f"{figure(done)} of {figure(total)} ({math.floor(min(max(done / total, 0), 1) * 100)} %)"


def figure(value: float) -> str:
    """Return a number as readable text.

    >>> figure(3.0), figure(2.4567), figure(1234.5), figure(0.00012), figure(1e21)
    ('3', '2.46', '1,234', '0.00012', '1e+21')
    """
    if not math.isfinite(value) or abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


# Reports: what something that waits shows. Data only; a reporter displays it (specification, "Progress", "Logging").

State = Literal["running", "done", "partly failed", "failed", "timed out", "cancelled", "interrupted"]

SIGNS: dict[State, str] = {
    "running": "…",
    "done": "✓",
    "partly failed": "!",
    "failed": "✗",
    "timed out": "✗",
    "cancelled": "✗",
    "interrupted": "✗",
}

WAIT_SECONDS = 1.0  # seconds after which something that waits is shown although it reports nothing, and again each time

LOOK_SECONDS = 0.1  # seconds between two looks at what waits

KEPT_MESSAGES = 50
"""Maximum number of log messages of one call to keep for display; the others are counted, and `%mcp logs` has them."""

KEPT_CHARACTERS = 2000  # maximum number of characters of a log message to keep for display

MESSAGE_CHARACTERS = 200  # maximum number of characters of a progress message to display

TIMES = 10  # without a set maximum, a call that keeps reporting may take this many times its deadline in all


class Meter(Protocol):
    """The progress of something that waits, in figures."""

    @property
    def count(self) -> int:
        """How often progress was noted."""

    @property
    def share(self) -> float | None:
        """The share that is done, 0 to 1; None if the total is unknown."""

    @property
    def ends_without_error(self) -> bool:
        """Whether a failure raises no error, so that only the outcome tells it."""

    def note(self, progress: float, total: float | None, message: str | None, now: float) -> None:
        """Take a progress notification; `now` is in seconds of a monotonic clock."""

    def figures(self, *, running: bool = True) -> list[str]:
        """Return the figures, while running with the remaining time."""

    def remark(self, state: State) -> str:
        """Return what is to be said beside the figures."""


class Report:
    """The progress and the log messages of one call, or of something else that waits.

    Args:
        title: The request, `"math:slow"`, or what else waits: `"starting npx ..."`.
        started: When it began (`time.perf_counter()`); now if left out.
        detail: Returns what it waits for at the moment, such as the last line of a server's stderr; "" if unknown.
        meter: Its progress; a server's by default.
        button: The word on the button that cancels it.
    """

    def __init__(
        self,
        server: str,
        title: str,
        *,
        cancel: Callable[[], None] = lambda: None,
        started: float | None = None,
        masked: Callable[[str], str] = str,
        detail: Callable[[], str] = str,
        meter: Meter | None = None,
        button: str = "Cancel",
    ) -> None:
        self.server = server
        self.title = title
        self.meter: Meter = meter or ProgressMeter()
        self.state: State = "running"
        self.messages: deque[LogMessage] = deque(maxlen=KEPT_MESSAGES)
        self.levels: Counter[str] = Counter()
        self.cancel = cancel
        self.button = button
        self._started = time.perf_counter() if started is None else started
        self._stopped: float | None = None
        self._last_words: str | None = None  # what a meter counts may go on: a map is retried
        self._questions = 0
        self._masked = masked
        self._detail = detail

    @property
    def seconds(self) -> float:
        """How long it has taken so far, or in all, without the time in which the user was asked."""
        return (time.perf_counter() if self._stopped is None else self._stopped) - self._started

    def go_on(self, seconds: float) -> None:
        """Count the seconds of earlier work that this goes on with."""
        self._started -= seconds

    @property
    def asks(self) -> bool:
        """Whether the user is asked, so that its clock stands still."""
        return self._questions > 0

    @property
    def waits(self) -> bool:
        """Whether it is running, reports no progress, and has taken so long that it is shown all the same."""
        silent = self.state == "running" and not self.meter.count and not self._questions
        return silent and self.seconds >= WAIT_SECONDS

    @property
    def logged(self) -> int:
        """The number of log messages so far, including dropped ones."""
        return self.levels.total()

    def log(self, message: LogMessage) -> None:
        """Take a log message."""
        self.messages.append(message)
        self.levels[message.level] += 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop its clock while the user is asked: the panel with the question says what it waits for. Can be nested."""
        self._questions += 1
        if self._stopped is None:
            self._stopped = time.perf_counter()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions and self.state == "running":
                self._started += time.perf_counter() - self._stopped
                self._stopped = None

    def end(self, state: State) -> None:
        """Note how it ended."""
        self.state = state
        if self._stopped is None:
            self._stopped = time.perf_counter()
        self._last_words = None
        self._last_words = self.words()

    def words(self) -> str:
        """Return the progress on one line, without the title; if it is done, without the last message.

        >>> report = Report("math", "math:slow")
        >>> report.meter.note(3, 10, "loading", 0.0)
        >>> report.end("cancelled")
        >>> report.words()  # doctest: +ELLIPSIS
        'cancelled · 3 of 10 (30 %) · ... · loading'
        """
        if self._last_words is not None:
            return self._last_words
        parts: list[str] = [] if self.state in ("running", "done", "partly failed") else [self.state]
        parts += self.meter.figures(running=self.state == "running")
        parts.append(duration(self.seconds))
        if self._questions and self.state == "running":
            parts.append("waiting for your answer")
        else:
            message = self.meter.remark(self.state) or (self._detail() if self.state == "running" else "")
        parts.append(one_line(self._masked(message), MESSAGE_CHARACTERS))
        return " · ".join(filter(None, parts))


shown_reports: ContextVar[tuple[Report, ...]] = ContextVar("mcp_magic_reports", default=())
"""The reports on the screen that are about the work of this context: a form's request, the connecting, a program and
its call. Their clocks stop while the user is asked."""


@contextmanager
def shown_as(report: Report) -> Iterator[None]:
    """Show the work of this context by one more report."""
    token = shown_reports.set((*shown_reports.get(), report))
    try:
        yield
    finally:
        shown_reports.reset(token)


@contextmanager
def shown_paused(context: Context | None = None) -> Iterator[None]:
    """Stop the clocks of the reports that are about the work of a context, by default of this one."""
    with ExitStack() as clocks:
        for report in shown_reports.get() if context is None else context.get(shown_reports, ()):
            clocks.enter_context(report.paused())
        yield


Reporter = Callable[[Report], Callable[[], None] | None]
"""Displays a report: called once, in the context of the call, when there is something to show. Returns a callback for
each change of the report (up to thousands per second), for each second without one, and for the end; None if nothing
can be shown."""


@dataclass
class Reports:
    """How the reports of calls, and of everything else that waits, are shown.

    Attributes:
        reporter: Displays them; None where there is no display.
        level: The least severe level of log messages to show; `"off"` for none.
        max_total_timeout: Maximum seconds for a call, however often progress restarts its deadline; None for ten
            times the deadline.
    """

    reporter: Reporter | None = None
    progress: bool = True
    level: str = "warning"
    max_total_timeout: float | None = None
    _pending: dict[InFlightRequest, float] = field(default_factory=dict, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def most(self, timeout: float | None, wanted: float | None = None) -> float | None:
        """Return the most seconds that a call may take in all; None for no limit.

        `wanted` is the maximum that was given for this call. The default maximum is never shorter than the `timeout`.

        >>> Reports().most(2), Reports(max_total_timeout=5).most(2), Reports(max_total_timeout=5).most(9)
        (20, 5, 9)
        >>> Reports().most(2, 7), Reports().most(2, 1), Reports(max_total_timeout=5).most(None)
        (7, 1, None)
        """
        if wanted is not None or timeout is None:
            return wanted
        return max(timeout, self.max_total_timeout if self.max_total_timeout is not None else TIMES * timeout)

    def begin(self, request: InFlightRequest) -> None:
        """Show a request each second from now on, until `end`. One timer looks at all: most are over sooner."""
        self._pending[request] = time.perf_counter() + WAIT_SECONDS
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def end(self, request: InFlightRequest) -> None:
        """Note that a request is over."""
        self._pending.pop(request, None)

    def _look(self) -> None:
        now = time.perf_counter()
        for request, due in list(self._pending.items()):
            if due <= now:
                self._pending[request] = now + WAIT_SECONDS
                request.show()
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if self._pending else None


# A pending request: its clock, its cell, and the server's questions and reports.

current_request: ContextVar[InFlightRequest | None] = ContextVar("mcp_magic_call", default=None)
"""The pending request that runs in this context."""

Answerer = Callable[[Any], Awaitable[Any]]
"""Answers a server's questions during one call: an `Elicitor`, or `Prepared` for sampling."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take, and when it may be sent again.

    Attributes:
        timeout: Seconds to wait for the answer; None waits without limit. The clock stops while the server asks the
            user something, and restarts with each progress notification.
        max_total: Seconds that the call may take in all; None for `reports.max_total_timeout`.
        may_repeat: Whether a call that may have run may be sent again, if `is_repeatable` allows it.
        waits_if_busy: Whether to wait and send again when the server answers HTTP 429 or 503 with `Retry-After`. If
            not, the `ProtocolError` is raised at once; its `status` and `retry_after` say how long to leave the server
            alone.
    """

    timeout: float | None = None
    max_total: float | None = None
    may_repeat: bool = True
    waits_if_busy: bool = True


@dataclass(frozen=True, slots=True)
class Answerers:
    """Who answers the server's questions during a call, before the host does.

    Attributes:
        elicitor: Answers elicitations (an `Elicitor`).
        sampler: Decides about sampling requests, and may answer them (a `Prepared`).
        visit: Sends the user to the pages that a server wants visited first.
    """

    elicitor: Answerer | None = None
    sampler: Answerer | None = None
    visit: Callable[[Any], Awaitable[bool]] | None = None


NOBODY = Answerers()  # the host answers


@dataclass(frozen=True, slots=True)
class Look:
    """How a pending request is shown.

    Attributes:
        masked: Returns a text of the server with secrets masked.
        detail: Returns what it waits for now, or "".
        meter: Has the progress, in place of one that takes the server's notifications.
        button: The label of the button that ends it.
    """

    masked: Callable[[str], str] = str
    detail: Callable[[], str] = str
    meter: Meter | None = None
    button: str = "Cancel"


class InFlightRequest:
    """A pending request, or something else that waits for a server, which may ask questions and report meanwhile.

    As a context manager it is shown: after a second, or when there is progress or a log message. You can cancel it.
    `refusals` is how many of its questions were refused at once, one after the other, and `pauses` the pauses after
    them.
    """

    ended = False
    questions_asked = 0
    refusals = 0.0
    pauses: Callable[[], float] | None = None
    on_progress: ProgressFnT | None = None
    _deadline: Deadline | None = None
    _report: Report | None = None
    _changed: Callable[[], None] | None = None
    _task: asyncio.Task[Any] | None = None
    _cancelling = 0
    _cancelled = False
    _ending: asyncio.Timeout | None = None
    _given_up: MCPMagicError | None = None
    _outcome: State = "done"
    _questions: tuple[asyncio.Task[Any], ...] = ()

    def __init__(
        self,
        title: str = "",
        server: str = "",
        reports: Reports | None = None,
        *,
        limits: Limits = Limits(),
        answerers: Answerers = NOBODY,
        on_progress: ProgressFnT | None = None,
        look: Look = Look(),
    ) -> None:
        self.title = title
        self.answerers = answerers
        self._server = server
        self._reports = reports = reports or Reports()
        self._look = look
        if limits.timeout is not None or limits.max_total is not None:
            self._deadline = Deadline(title, limits.timeout, reports.most(limits.timeout, limits.max_total))
        self._listener = on_progress
        self._shows_progress = on_progress is None and reports.progress and reports.reporter is not None
        if on_progress is not None or self._deadline is not None or self._shows_progress:
            self.on_progress = self._progressed
        self._started = time.perf_counter()
        self._context = copy_context()

    async def wait(self, sending: Awaitable[T], calls: list[InFlightRequest]) -> T:
        """Wait for the answer, as one of `calls` meanwhile; then cancel open questions. Raises as `Deadline.wait`."""
        token = current_request.set(self)
        calls.append(self)
        self.ended = False
        try:
            async with asyncio.timeout(None) as self._ending:
                answer = await (sending if self._deadline is None else self._deadline.wait(sending))
            self.conclude("failed" if getattr(answer, "is_error", None) else "done")
            return answer
        except TimeoutError:
            if self._given_up is None:
                raise
            raise self._given_up from None
        finally:
            self._ending = None
            self.ended = True
            calls.remove(self)
            current_request.reset(token)
            for question in self._questions:
                question.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, also on the screen. Can be nested: it goes on when the last context exits."""
        deadline = nullcontext() if self._deadline is None else self._deadline.paused()
        try:
            with deadline, self.report.paused(), shown_paused(self._context):
                self._redraw()
                yield
        finally:
            self._redraw()

    def _redraw(self) -> None:
        if self._changed is not None and self._task is not None:
            self.show()

    # Reports

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task()
        self._cancelling = task.cancelling() if task is not None else 0
        if self._reports.reporter is not None and self._reports.progress:
            self._reports.begin(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Show how it ended. Raises CallCancelledError if the user cancelled it."""
        task, self._task = self._task, None
        self._reports.end(self)
        state: State = "failed" if error is not None else self._outcome
        if isinstance(error, asyncio.CancelledError):
            # An interrupt may have cancelled the task as well; that must propagate.
            cancelled = self._cancelled and task is not None and task.uncancel() <= self._cancelling
            state = "cancelled" if cancelled else "interrupted"
            if not error.args or "_render_traceback_" in vars(
                error
            ):  # else anyio's scopes know their own by the message
                on_one_line(error, f"{self.title}: interrupted")
        elif isinstance(error, TimeoutError):
            state = "timed out"
        if self._report is not None:
            self._report.end(state)
            if self._changed is not None:
                self.show()
        if state == "cancelled":
            with without_context:
                raise CallCancelledError(f"{self.title}: cancelled.")

    def give_up(self, error: MCPMagicError) -> None:
        """End the wait with an error; the server is told that the call is cancelled."""
        if self._ending is not None and self._given_up is None:
            self._given_up = error
            self._ending.reschedule(0)

    def conclude(self, state: State) -> None:
        """Set how it ends if no exception tells otherwise."""
        self._outcome = state

    def cancel(self) -> None:
        """Cancel it: the server is told, and the context raises `CallCancelledError`."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def show(self) -> None:
        """Show it, or what has changed."""
        try:
            if self._changed is None:
                assert self._reports.reporter is not None
                changed = self._context.copy().run(self._reports.reporter, self.report)
                self._changed = changed or (lambda: None)
            self._changed()
        except Exception:  # a display error must not fail the call
            logger.exception("what %s reports cannot be shown", self.title)
            self._changed = lambda: None

    @property
    def report(self) -> Report:
        """What is shown of it."""
        if self._report is None:
            look = self._look
            shown: Any = {"masked": look.masked, "detail": look.detail, "meter": look.meter, "button": look.button}
            self._report = Report(self._server, self.title, started=self._started, cancel=self.cancel, **shown)
        return self._report

    async def _progressed(self, progress: float, total: float | None, message: str | None) -> None:
        if self.ended:
            return
        if self._deadline is not None:
            self._deadline.restart()
        if self._listener is not None:
            await self._listener(progress, total, message)
        elif self._shows_progress:
            self.report.meter.note(progress, total, message, asyncio.get_running_loop().time())
            self.show()

    def logged(self, message: LogMessage, others: int = 0) -> None:
        """Take a log message that this call, or one of `others` other calls of the session, has caused."""
        if self.ended or self._reports.reporter is None or not at_least(message.level, self._reports.level):
            return
        whose = f"{message.logger or 'log'} (of one of {others + 1} calls)" if others else message.logger
        text = log_text(message.data, self._look.masked, KEPT_CHARACTERS)
        self.report.log(replace(message, logger=whose, data=text))
        self.show()

    # Questions

    def count_question(self) -> int:
        """Note that the server asks a question; return how many it has asked during this call."""
        self.questions_asked += 1
        return self.questions_asked

    def ask(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a question to the user in the context of the call, so that it appears below the calling cell."""
        task = asyncio.get_running_loop().create_task(question, context=self._context.copy())
        self._questions = (*(asked for asked in self._questions if not asked.done()), task)
        return task


@contextmanager
def person_asked() -> Iterator[None]:
    """Stop the clocks of the current call and of what is shown, if any, during a question to the user."""
    call = current_call()
    with call.paused() if call is not None else nullcontext(), shown_paused():
        yield


def current_call() -> InFlightRequest | None:
    """Return the pending call of the current context, or None."""
    call = current_request.get()
    return None if call is None or call.ended else call


def caused_by(calls: list[InFlightRequest]) -> list[InFlightRequest]:
    """Return the call that caused a question or a log message of the server; all candidates if that is unknown.

    An `input_required` round runs in the task of its call, and over HTTP each request has its own stream. Otherwise a
    message does not tell its call; then all pending calls are returned, the latest last.
    """
    current = current_request.get()
    return [current] if current is not None and current in calls else [*calls]


# Requests as they go out, with what the SDK has no options for; and calls of tools without its models.
#
# The SDK builds three models of a `tools/call`, reads each once, and lets five functions pass its answer on. Here a
# call is one object. Only an unusual first answer goes that way: the server asks for input, makes a task of the call,
# or wants its tools to be listed again.

CALL = "tools/call"

_REPORTING = frozenset((CALL, "resources/read", "prompts/get"))  # requests that ask for progress notifications

PAGES_FIRST = -32042  # JSON-RPC error code: the user must visit pages first

HEADER_MISMATCH = -32020  # JSON-RPC error code: the tools must be listed before the call

_first_answer: ContextVar[Any] = ContextVar("mcp_magic_first_answer", default=None)
"""The answer to a call, or its error, with which the SDK's client is to go on."""


class HasLevel(Protocol):
    """Has the least severe level of log messages that the user wants; None for the default."""

    level: str | None


class AnyResult:
    """The type of a result that is returned as it came, a dict."""

    @staticmethod
    def model_validate(raw: dict[str, Any], *, by_name: bool) -> dict[str, Any]:
        """Return the result."""
        return raw


class ReadsResults(Protocol):
    """Reads what the SDK's models refuse, and tidies what they take."""

    def result(self, request: Any, raw: dict[str, Any], problem: Exception, unusable: list[Any]) -> Any:
        """Return the result of a request that the models refused with `problem`, or raise why not."""

    def tidied(self, result: Any) -> Any:
        """Return a result whose media are tidied."""


def attend(client: Client, calls: list[InFlightRequest], logs: HasLevel, reader: ReadsResults) -> None:
    """Let each request of a client's session ask for logs, and each call for progress.

    A result that the SDK's models refuse is read by `reader`. A request that a server refuses because pages must be
    visited first is sent again after the visit (specification 2025-11-25, "URL Elicitation Required Error").
    """
    session: Any = client.session
    usual = session.send_request

    async def send_request(request: Any, result_type: Any, *arguments: Any, **options: Any) -> Any:
        is_call = type(request) is ToolCall
        if not is_call and (first := _first_answer.get()) is not None:
            return _answer_again(first, result_type, partial(reader.result, request))
        call = current_request.get()
        if call is not None and (call.ended or call not in calls):
            call = None
        if logs.level is not None and session.discover_result is not None:
            _name_level(request, logs.level)
        if call is not None and request.method in _REPORTING and options.get("progress_callback") is None:
            options["progress_callback"] = call.on_progress
        send = usual if is_call else partial(_read, usual, reader)  # what a call gets is read below
        try:
            answer = await send(request, result_type, *arguments, **options)
        except Exception as error:
            if is_call and (isinstance(error, ValueError) or getattr(error, "code", None) == HEADER_MISMATCH):
                answer = _read_again(reader, request, error)
            elif await _has_visited(call, error):
                answer = await send(request, result_type, *arguments, **options)
            else:
                raise
        if not is_call:
            return answer
        return await _go_on(client, request, answer) if isinstance(answer, dict | Exception) else reader.tidied(answer)

    session.send_request = send_request


_MEDIA = frozenset((CALL, "resources/read", "prompts/get"))  # requests whose results may have images


async def _read(
    usual: Callable[..., Awaitable[Any]],
    reader: ReadsResults,
    request: Any,
    result_type: Any,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Send a request by the SDK's session; let the reader read a result that the SDK's models refuse."""
    attempt = current_attempt.get()
    token = None
    if attempt is None:
        attempt = Attempt()
        token = current_attempt.set(attempt)
    try:
        answer = await usual(request, result_type, *arguments, **options)
    except ValueError as error:  # pydantic's
        if not isinstance(attempt.result, dict):
            raise
        if result_type is AnyResult:
            return attempt.result
        return reader.result(request, attempt.result, error, attempt.unusable)
    finally:
        if token is not None:
            current_attempt.reset(token)
    if request.method in _MEDIA and not isinstance(answer, dict):
        return reader.tidied(answer)
    return answer


def _read_again(reader: ReadsResults, request: Any, error: Exception) -> Any:
    """Read the result of a call that the SDK's models refuse, or raise their error; return another error."""
    if not isinstance(error, ValueError):
        return error
    attempt = current_attempt.get()
    if attempt is None or not isinstance(attempt.result, dict):
        raise error
    return reader.result(request, attempt.result, error, attempt.unusable)


async def _has_visited(call: InFlightRequest | None, error: Exception) -> bool:
    """Whether the user has visited the pages that a server wants visited before a call."""
    if call is None or call.answerers.visit is None or getattr(error, "code", None) != PAGES_FIRST:
        return False
    return await call.answerers.visit(getattr(error, "data", None))


def _answer_again(first: dict[str, Any] | Exception, result_type: Any, read: Callable[..., Any]) -> Any:
    _first_answer.set(None)
    if isinstance(first, Exception):
        raise first
    try:
        return result_type.validate_python(first, by_name=False)
    except ValueError as problem:
        return read(first, problem, [])


async def _go_on(client: Client, call: ToolCall, first: dict[str, Any] | Exception) -> CallToolResult:
    """Let the SDK's client go on after the first answer to a call: it asks the user, or lists the tools again."""
    token = _first_answer.set(first)
    try:
        return await client.call_tool(call.name, {**call.arguments})
    finally:
        _first_answer.reset(token)


def _name_level(request: Any, level: str) -> None:
    """Add the log level to a request of a 2026-07-28 session, unless it names one itself."""
    from mcp_types import LOG_LEVEL_META_KEY

    params: Any = getattr(request, "params", None)
    if hasattr(params, "meta"):
        params.meta = {LOG_LEVEL_META_KEY: level, **(params.meta or {})}


@dataclass(slots=True)
class ToolCall:
    """A `tools/call` request as a session of the SDK takes it; it is its own `params`. Its arguments are JSON."""

    name: str
    arguments: Mapping[str, Any]
    meta: dict[str, Any] | None = None
    method: ClassVar = CALL
    name_param: ClassVar = None

    @property
    def params(self) -> ToolCall:
        """What a log level is added to."""
        return self

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the message, with a copy of the arguments: a server in this process may change them."""
        copied, _ = _sdk()
        params = {"name": self.name, "arguments": copied(self.arguments)}
        if self.meta is not None:
            params["_meta"] = {**self.meta}
        return {"method": CALL, "params": params}


@cache
def _sdk() -> tuple[Callable[[Any], Any], Any]:
    """Return what copies JSON, and the type of the answer to a `ToolCall`: a tool's result, or it as it came."""
    from mcp_types import CallToolResult
    from pydantic_core import to_jsonable_python

    class Answer:
        @staticmethod
        def model_validate(raw: dict[str, Any], *, by_name: bool) -> Any:
            if raw.get("resultType", "complete") == "complete":
                return CallToolResult.model_validate(raw, by_name=by_name)
            return raw

    return to_jsonable_python, Answer


def call_tool(client: Client, tool: str, arguments: Mapping[str, Any]) -> Awaitable[CallToolResult]:
    """Call a tool as `client.call_tool` does."""
    session: Any = client.session
    _, answer = _sdk()
    return session.send_request(ToolCall(tool, arguments), answer)  # type: ignore[no-any-return]


# Attempts: whether a request was written, and how HTTP answered it.
#
# The HTTP transports post a request in the context of its sender, so their hooks find the right attempt even if many
# requests are pending.

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first TCP keepalive probe, seconds between probes, and unanswered probes after which
the connection is dead: in all about a minute."""


class PendingReply:
    """A pending request, its result as the server sent it, or None, and the first stray answer that came meanwhile.

    `attempt` is the one that sent it, if any, and `notified` how many notifications were sent before it.
    """

    __slots__ = ("_stray", "attempt", "method", "notified", "number", "result")

    def __init__(self, number: int | str, method: str = "") -> None:
        self.number = number
        self.method = method
        self.result: Any = None
        self.attempt: Attempt | None = None
        self.notified = 0
        self._stray = ""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.attempt is not None and self.attempt.over

    def note_stray(self, text: str) -> None:
        """Note a stray answer."""
        self._stray = self._stray or text

    @property
    def in_vain(self) -> str:
        """A sentence about the stray answer that came instead; "" if there was none."""
        never = f"the answer to {json.dumps(self.number)} never came"
        return f"The server answered {self._stray}; {never} (fault: the server)." if self._stray else ""


class Attempt:
    """One attempt of a request, as far as the transport knows it: how HTTP answered, and what was sent.

    `awaited` is the last JSON-RPC request, `body` the beginning of the body of an HTTP error, and `begun` the end of
    the server's stderr when it was sent. `had_session` is whether it named its session. `task` is the task that a
    server has made of a call, or None. `unusable` are the definitions of a list that cannot be used.
    """

    __slots__ = (
        *("_cancelled", "_task", "awaited", "begun", "body", "content_type", "error", "over", "refused", "retry_after"),
        *("had_session", "status", "task", "unusable", "written"),
    )

    def __init__(self, begun: Position | None = None) -> None:
        self.begun = begun
        self.status: int | None = None
        self.content_type = self.body = ""
        self.error: Exception | None = None
        self.awaited: PendingReply | None = None
        self.retry_after: float | None = None
        self.task: Any = None
        self.unusable: list[Any] = []
        self.refused = self.written = self.over = self.had_session = False
        self._task = asyncio.current_task()
        self._cancelled = self._task.cancelling() if self._task is not None else 0

    @property
    def result(self) -> Any:
        """The result as the server sent it, or None."""
        return self.awaited.result if self.awaited is not None else None

    @property
    def given_up(self) -> bool:
        """Whether it is over or being cancelled: the SDK tells the server first, which a log-in would block."""
        return self.over or (self._task is not None and self._task.cancelling() > self._cancelled)

    def sends(self, awaited: PendingReply) -> None:
        """Note that a JSON-RPC request is sent, and forget the answer to an earlier one."""
        self.awaited = awaited
        self.status = self.retry_after = self.error = None
        self.content_type = self.body = ""

    def answered(self, status: int, headers: Mapping[str, str], *, had_session: bool = False) -> None:
        """Note how HTTP answered a request, and whether that named its session."""
        self.status = status
        self.had_session = had_session
        self.content_type = headers.get("content-type", "")
        self.retry_after = retry_after(headers.get("retry-after"))

    def happened(self, event: str) -> None:
        """Note an event of the HTTP client (its "trace" extension)."""
        if event.endswith(("connect_tcp.failed", "start_tls.failed")):
            self.refused = True
        elif event.endswith("send_request_headers.started"):
            self.written = True


current_attempt: ContextVar[Attempt | None] = ContextVar("mcp_magic_attempt", default=None)
"""The attempt that runs in this context."""


def keep_alive(event: str, info: dict[str, Any]) -> None:
    """Turn on TCP keepalive for a new connection (an event of httpx2).

    An event stream may be silent for hours; without keepalive nothing tells that the machine slept or the network
    changed.
    """
    if not event.endswith("connect_tcp.complete"):
        return
    found = info["return_value"].get_extra_info("socket") if "return_value" in info else None
    if found is None:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):  # the system does not allow it
                found.setsockopt(socket.IPPROTO_TCP, option, value)


def retry_after(value: Any) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3): a number or a date; None if invalid.

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


# The questions of a server during a call, one after the other.

EARLY_SECONDS = 0.5  # seconds by which the time-out of an elicitor may come before that of `in_time`

SETTLE_SECONDS = 60.0
"""Seconds that a server has to answer the ping which shows that an ended call has no more questions."""

SETTLED_SECONDS = 2.0  # seconds that the next call waits for that ping

AT_ONCE_SECONDS = 1.0  # a refusal that took less time was made by no person

LONGEST_REST, LONGEST_REST_OUTSIDE = 2.0, 30.0
"""Longest pause in seconds between the refusals of a call's questions, which is to end soon, and of others."""


@dataclass(frozen=True)
class Unanswered:
    """Why a question has no answer: it came too late, its call has ended, or asking failed with `error`."""

    why: Literal["late", "ended", "failed"]
    error: Exception | None = None


class NotAskedError(Exception):
    """A question is not put to the user; the text says why, also to the server.

    `is_first` says whether it is the first such question, which deserves a log message.
    """

    def __init__(self, why: str, *, is_first: bool) -> None:
        super().__init__(why)
        self.is_first = is_first


@dataclass
class Asked:
    """A question that is under way: the call that it belongs to, and whether it was answered, and not refused."""

    call: InFlightRequest
    is_answered: bool = False


class QuestionQueue:
    """The questions of one server: asked one at a time, and limited per call; `settling` while an old one may come.

    A server may ask again after each refusal. If nobody makes these, `pauses` begins growing pauses between them, and
    after twice as many as a call may ask questions the call ends. Questions that came together count once.
    """

    def __init__(
        self, calls: list[InFlightRequest], limit: Callable[[], int], pauses: Callable[[float], Callable[[], float]]
    ) -> None:
        self.calls = calls
        self.settling: asyncio.Task[None] | None = None
        self._limit = limit
        self._pauses = pauses
        self._open = 0
        self._resting = False
        self._nobodys = InFlightRequest()  # has the refusals of questions without a call
        self._lock = asyncio.Lock()
        self._outside = 0

    async def settled(self) -> None:
        """Wait a moment until an interrupted call has no more questions."""
        if self.settling is not None:
            await asyncio.wait({self.settling}, timeout=SETTLED_SECONDS)

    def interrupted(self, call: InFlightRequest, client: Client) -> None:
        """Note that a call has failed.

        In a handshake session a question does not name its call. So when a call that asked is interrupted, the server
        gets a ping; questions before its answer belong to the old call, and are refused.
        """
        if call.questions_asked and self.settling is None and client.session.discover_result is None:
            self.settling = asyncio.create_task(self._settle(client), name="mcp_magic questions")

    async def _settle(self, client: Client) -> None:
        current_attempt.set(None)  # the ping is no part of the interrupted request
        with suppress(Exception):
            async with asyncio.timeout(SETTLE_SECONDS):
                await ping(client)
        self.settling = None

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Asked]:
        """Stop the clocks of all calls that may have caused the question; yield the latest of them."""
        causes = self._causes()
        follows = not (self._open or self._resting or self.settling)  # it comes after the others were answered
        if follows:
            with self._rests():
                await self._rest(causes)
        asked = Asked((causes or [InFlightRequest()])[-1])
        started = time.perf_counter()
        self._open += 1
        try:
            with ExitStack() as clocks:
                for call in causes or [asked.call]:
                    clocks.enter_context(call.paused())
                yield asked
        finally:
            self._open -= 1
            at_once = follows and time.perf_counter() - started < AT_ONCE_SECONDS
            for call in causes or [self._nobodys]:  # each is as likely as the others
                call.refusals = 0.0 if asked.is_answered else call.refusals + at_once / len(causes or [1])

    def _causes(self) -> list[InFlightRequest]:
        return caused_by(self.calls) if self.settling is None else []

    @contextmanager
    def _rests(self) -> Iterator[None]:
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    async def _rest(self, causes: list[InFlightRequest]) -> None:
        """Pause before a question that follows refusals; end the calls that were refused too often."""
        most = max(2 * self._limit(), 2)  # those that it may ask, and as many that are over the limit
        for call in causes:
            if call.refusals >= most:
                times = plural(most, "times")
                call.give_up(SessionError(f"{call.title}: asked {times} and was refused; given up. It was cancelled."))
        refused = (causes or [self._nobodys])[-1]
        if refused.refusals >= 1:
            refused.pauses = refused.pauses or self._pauses(LONGEST_REST if causes else LONGEST_REST_OUTSIDE)
            await asyncio.sleep(refused.pauses())

    @asynccontextmanager
    async def turn(self, call: InFlightRequest, *, is_new: bool = True) -> AsyncIterator[None]:
        """Wait until earlier questions are over; `is_new` is False for the second part of a question.

        Questions without a pending call share one limit, which a question of a call resets.

        Raises:
            NotAskedError: The call has asked too many questions, or is over.
        """
        if self.settling is not None:
            raise NotAskedError("the call is over", is_first=False)
        if is_new:
            self._count(call)
        async with self._lock:
            yield

    def _count(self, call: InFlightRequest) -> None:
        if call in self.calls:
            count, self._outside = call.count_question(), 0
        else:
            self._outside = count = self._outside + 1
        limit = self._limit()
        if count > limit:
            raise NotAskedError(
                f"the user is asked {plural(limit, 'questions')} in a call at most (max_questions)",
                is_first=count == limit + 1,
            )


async def answered(call: InFlightRequest, question: Coroutine[Any, Any, T]) -> T | Unanswered:
    """Ask a question in the context of its call, whose end cancels it, and wait for the answer."""
    try:
        return await call.ask(question)
    except Exception as error:
        return Unanswered("failed", error)
    except asyncio.CancelledError:
        if not call.ended:
            raise
        return Unanswered("ended")


_limit: ContextVar[asyncio.Timeout | None] = ContextVar("limit", default=None)


async def in_time(waiting: Awaitable[T], seconds: float) -> T | Unanswered:
    """Wait for the user or the model, at most `seconds`. Raises TimeoutError if something else timed out, earlier."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(seconds) as limit:
            before = _limit.set(limit)
            try:
                return await waiting
            finally:
                _limit.reset(before)
    except TimeoutError:
        if time.perf_counter() - started < seconds - EARLY_SECONDS:
            raise
    return Unanswered("late")


def is_out_of_time() -> bool:
    """Whether the time of the `in_time` around this wait is up, and not an Interrupt ended the wait."""
    limit = _limit.get()
    return limit is not None and limit.expired()


async def together(works: Iterable[Awaitable[T]]) -> list[T]:
    """Run works concurrently and return what they return; if one fails or is cancelled, cancel and await the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


# Limits: events per minute, and concurrent calls.

SECONDS = 60.0

MOST_AT_ONCE = 400
"""Maximum number of concurrent calls of one session over HTTP, where each holds a connection and so a file descriptor.
On Windows a kernel's event loop watches at most 512 sockets, and most systems let a process open 1,024 files."""


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


def most_at_once() -> int:
    """Return the most concurrent calls of a session: at most half of the files that the process may open."""
    if IN_BROWSER:  # no file descriptors to run out of
        return MOST_AT_ONCE
    try:
        import resource
    except ImportError:  # Windows
        return MOST_AT_ONCE
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_AT_ONCE if files == resource.RLIM_INFINITY else max(1, min(MOST_AT_ONCE, files // 2))
