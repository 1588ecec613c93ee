"""A call that waits for its answer: its clock, the cell that made it, what its server asks and reports meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcp_magic.core.clock import Clock
from mcp_magic.core.loglevels import at_least, log_text
from mcp_magic.core.progress import KEPT_CHARACTERS, Report, Reports
from mcp_magic.errors import CallCancelledError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from contextlib import AbstractContextManager

    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.core.loglevels import LogMessage
    from mcp_magic.core.progress import State

__all__ = ["CallUnderWay", "caused_by", "current_call", "person_asked"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
