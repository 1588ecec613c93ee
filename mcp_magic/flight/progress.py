"""Progress reports and log messages of a call, and of what else waits (specification, "Progress", "Logging").

A request has values to show (`Report`), and a reporter displays them. It is shown when it has progress or a log
message, or after a second; one timer of the host looks at all requests, so a quick call pays nothing. A notification
only notes figures here, so a hundred thousand of them cost what they cost the SDK.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from mcp_magic._text import duration
from mcp_magic.display.text import one_line

if TYPE_CHECKING:
    from mcp_magic.protocol import LogMessage

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
    def seconds_left(self) -> float | None:
        """Seconds until the end at the current rate, or None."""
        rate = self.rate
        if self.total is None or not rate or self.done >= self.total:
            return None
        return (self.total - self.done) / rate

    @property
    def time_left(self) -> list[str]:
        """The time until the end as text; none if it is unknown, or less than a second."""
        seconds = self.seconds_left or 0.0
        return [f"{duration(round(seconds))} left"] if seconds >= 1 else []

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
        parts = [amount_text(self.done, self.total)]
        if rate := self.rate:
            parts.append(f"{figure(float(f'{rate:.2g}'))}/s")
        return [*parts, *(self.time_left if running else [])]


def amount_text(amount: float, total: float | None) -> str:
    """Return an amount and its total as text.

    >>> amount_text(3, 10), amount_text(1234567, None), amount_text(12, 10), amount_text(0.5, 2)
    ('3 of 10 (30 %)', '1,234,567', '12 of 10 (100 %)', '0.5 of 2 (25 %)')
    """
    if not total or not math.isfinite(total) or total < 0:
        return figure(amount)
    return f"{figure(amount)} of {figure(total)} ({math.floor(min(max(amount / total, 0), 1) * 100)} %)"


def figure(value: float) -> str:
    """Return a number as readable text.

    >>> figure(3.0), figure(2.4567), figure(1234.5), figure(0.00012), figure(1e21)
    ('3', '2.46', '1,234', '0.00012', '1e+21')
    """
    if not math.isfinite(value) or abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


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


REDRAW_CHECK_SECONDS = 0.1  # seconds between two checks for requests that are due to be shown


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


class Stopwatch:
    """Measures how long something takes, also where somebody sets the clock of the machine.

    Attributes:
        began: When it began (`time.time()`).
    """

    def __init__(self, began: float | None = None) -> None:
        self.began = time.time() if began is None else began
        self._started = time.monotonic()
        self._seconds: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has taken so far, or in all."""
        return time.monotonic() - self._started if self._seconds is None else self._seconds

    def stop(self) -> None:
        """Stop. Idempotent."""
        self._seconds = self.seconds

    def go_on(self) -> None:
        """Go on, as if it had not stopped."""
        self._seconds = None


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


is_summed_up: ContextVar[bool] = ContextVar("mcp_magic_is_summed_up", default=False)
"""Whether nothing is shown of the work in this context, because one report stands for it and for other work."""


@contextmanager
def summed_up_in(report: Report) -> Iterator[None]:
    """Let one report stand for the work of this context, of which nothing else is shown."""
    token = is_summed_up.set(True)
    try:
        with shown_as(report):
            yield
    finally:
        is_summed_up.reset(token)


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


class Displayed(Protocol):
    """What is displayed while it waits."""

    def show(self) -> None:
        """Display it, or what has changed."""


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
    _pending: dict[Displayed, float] = field(default_factory=dict, init=False)
    _watch: asyncio.AbstractEventLoop | None = field(default=None, init=False)  # the loop whose timer looks at them

    def longest(self, timeout: float) -> float:
        """Return the maximum seconds of a call with a time-out, which is never shorter than the time-out.

        >>> Reports().longest(2), Reports(max_total_timeout=5).longest(2), Reports(max_total_timeout=5).longest(9)
        (20, 5, 9)
        """
        return max(timeout, self.max_total_timeout if self.max_total_timeout is not None else TIMES * timeout)

    def begin(self, request: Displayed) -> None:
        """Show a request each second from now on, until `end`. One timer looks at all: most are over sooner."""
        self._pending[request] = time.perf_counter() + WAIT_SECONDS
        if self._watch is None or self._watch.is_closed():
            self._look_later()

    def end(self, request: Displayed) -> None:
        """Note that a request is over."""
        self._pending.pop(request, None)

    def _look(self) -> None:
        now = time.perf_counter()
        for request, due in list(self._pending.items()):
            if due <= now:
                self._pending[request] = now + WAIT_SECONDS
                request.show()
        if self._pending:
            self._look_later()
        else:
            self._watch = None

    def _look_later(self) -> None:
        self._watch = asyncio.get_running_loop()
        self._watch.call_later(REDRAW_CHECK_SECONDS, self._look)
