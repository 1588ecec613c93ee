"""A pending request: its clock, its cell, and the server's questions and reports."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mcp_magic.errors import CallCancelledError, MCPMagicError, on_one_line
from mcp_magic.flight.deadline import Deadline
from mcp_magic.flight.progress import KEPT_CHARACTERS, Meter, Report, Reports, State, is_summed_up, shown_paused
from mcp_magic.protocol import LogMessage, at_least, log_text, without_context

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT


logger = logging.getLogger(__name__)

T = TypeVar("T")


current_request: ContextVar[InFlightRequest | None] = ContextVar("mcp_magic_call", default=None)
"""The pending request that runs in this context."""


Answerer = Callable[[Any], Awaitable[Any]]
"""Answers a server's questions during one call, such as an `Elicitor`."""


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
        elicitor: Answers elicitations (an `Elicitor`); where it returns None, the host does.
        sampler: Reviews sampling requests instead of the user, or replies instead of a model; None asks the user.
        party: Whose call it is: the key of an outside client, whose questions nobody else waits for; "" is the person.
    """

    elicitor: Answerer | None = None
    sampler: Answerer | None = None
    party: str = ""


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


class Display:
    """What is shown of a request, once there is something to show."""

    def __init__(self, title: str, server: str, reports: Reports, look: Look, cancel: Callable[[], None]) -> None:
        self.reports = reports
        self.look = look
        self.context = copy_context()
        self._title = title
        self._server = server
        self._cancel = cancel
        self._started = time.perf_counter()
        self._report: Report | None = None
        self._update: Callable[[], None] | None = None

    @property
    def is_shown(self) -> bool:
        """Whether something is shown already."""
        return self._update is not None

    @property
    def report(self) -> Report:
        """The report."""
        if self._report is None:
            self._report = Report(
                self._server,
                self._title,
                cancel=self._cancel,
                started=self._started,
                masked=self.look.masked,
                detail=self.look.detail,
                meter=self.look.meter,
                button=self.look.button,
            )
        return self._report

    def show(self) -> None:
        """Show it, or what has changed."""
        if self.context.get(is_summed_up):
            return
        try:
            if self._update is None:
                assert self.reports.reporter is not None
                update = self.context.copy().run(self.reports.reporter, self.report)
                self._update = update or (lambda: None)
            self._update()
        except Exception:  # a display error must not fail the call
            logger.exception("what %s reports cannot be shown", self._title)
            self._update = lambda: None

    def end(self, state: State) -> None:
        """Show how it ends, if anything is shown."""
        if self._report is not None:
            self._report.end(state)
            if self._update is not None:
                self.show()


class InFlightRequest:
    """A pending request, or something else that waits for a server, which may ask questions and report meanwhile.

    As a context manager it is shown: after a second, or when there is progress or a log message. You can cancel it.
    """

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
        reports = reports or Reports()
        self.title = title
        self.answerers = answerers
        self.is_over = False
        longest = limits.max_total
        if limits.timeout is not None and longest is None:
            longest = reports.longest(limits.timeout)
        self._deadline = Deadline(title, limits.timeout, longest)
        self._listener = on_progress
        self._shows_progress = on_progress is None and reports.progress and reports.reporter is not None
        wants_progress = on_progress is not None or self._deadline.is_limited or self._shows_progress
        self.on_progress: ProgressFnT | None = self._take_progress if wants_progress else None
        self._display = Display(title, server, reports, look, self.cancel)
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._is_cancelled = False
        self._outcome: State = "done"
        self._questions: tuple[asyncio.Task[Any], ...] = ()

    async def wait(self, sending: Awaitable[T], calls: list[InFlightRequest]) -> T:
        """Wait for the answer, as one of `calls` meanwhile; then cancel open questions. Raises as `Deadline.wait`."""
        token = current_request.set(self)
        calls.append(self)
        self.is_over = False
        try:
            answer = await self._deadline.wait(sending)
            self.conclude("failed" if getattr(answer, "is_error", None) else "done")
            return answer
        finally:
            self.is_over = True
            calls.remove(self)
            current_request.reset(token)
            for question in self._questions:
                question.cancel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, also on the screen. Can be nested: it goes on when the last context exits."""
        try:
            with self._deadline.paused(), self.report.paused(), shown_paused(self._display.context):
                self._redraw()
                yield
        finally:
            self._redraw()

    def _redraw(self) -> None:
        if self._display.is_shown and self._task is not None:
            self._display.show()

    # Reports

    def __enter__(self) -> Self:
        self._task = task = asyncio.current_task()
        self._cancelling = task.cancelling() if task is not None else 0
        reports = self._display.reports
        if reports.reporter is not None and reports.progress:
            reports.begin(self._display)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Show how it ended. Raises CallCancelledError if the user cancelled it."""
        task, self._task = self._task, None
        self._display.reports.end(self._display)
        state: State = "failed" if error is not None else self._outcome
        if isinstance(error, asyncio.CancelledError):
            # An interrupt may have cancelled the task as well; that must propagate.
            is_cancelled = self._is_cancelled and task is not None and task.uncancel() <= self._cancelling
            state = "cancelled" if is_cancelled else "interrupted"
            if not error.args or "_render_traceback_" in vars(
                error
            ):  # else anyio's scopes recognise their own cancellation by its message
                on_one_line(error, f"{self.title}: interrupted")
        elif isinstance(error, TimeoutError):
            state = "timed out"
        self._display.end(state)
        if state == "cancelled":
            with without_context:
                raise CallCancelledError(f"{self.title}: cancelled.")

    def give_up(self, error: MCPMagicError) -> None:
        """End the wait with an error; the server is told that the call is cancelled."""
        self._deadline.expire(error)

    def conclude(self, state: State) -> None:
        """Set how it ends if no exception tells otherwise."""
        self._outcome = state

    def cancel(self) -> None:
        """Cancel it: the server is told, and the context raises `CallCancelledError`."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    def show(self) -> None:
        """Show it, or what has changed."""
        self._display.show()

    @property
    def report(self) -> Report:
        """What is shown of it."""
        return self._display.report

    async def _take_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self.is_over:
            return
        self._deadline.restart()
        if self._listener is not None:
            await self._listener(progress, total, message)
        elif self._shows_progress:
            self.report.meter.note(progress, total, message, asyncio.get_running_loop().time())
            self.show()

    def log(self, message: LogMessage, others: int = 0) -> None:
        """Take a log message that this call, or one of `others` other calls of the session, has caused."""
        reports = self._display.reports
        if self.is_over or reports.reporter is None or not at_least(message.level, reports.level):
            return
        logger = f"{message.logger or 'log'} (of one of {others + 1} calls)" if others else message.logger
        text = log_text(message.data, self._display.look.masked, KEPT_CHARACTERS)
        self.report.log(replace(message, logger=logger, data=text))
        self.show()

    def ask(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a question to the user in the context of the call, so that it appears below the calling cell."""
        task = asyncio.get_running_loop().create_task(question, context=self._display.context.copy())
        self._questions = (*(question for question in self._questions if not question.done()), task)
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
    return None if call is None or call.is_over else call


def caused_by(calls: list[InFlightRequest]) -> list[InFlightRequest]:
    """Return the call that caused a question or a log message of the server; all candidates if that is unknown.

    An `input_required` round runs in the task of its call, and over HTTP each request has its own stream. Otherwise a
    message does not tell its call; then all pending calls are returned, the latest last.
    """
    current = current_request.get()
    return [current] if current is not None and current in calls else [*calls]
