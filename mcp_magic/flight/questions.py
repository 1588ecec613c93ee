"""The questions of a server during a call, one after the other."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from mcp_magic._text import plural
from mcp_magic.errors import SessionError
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.flight.backoff import Pacing
from mcp_magic.flight.deadline import Unanswered
from mcp_magic.flight.request import NOBODY, Answerers, InFlightRequest, caused_by, current_request
from mcp_magic.protocol import ping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from mcp import Client

T = TypeVar("T")


SETTLE_SECONDS = 60.0
"""Seconds that a server has to answer the ping which shows that an ended call has no more questions."""


SETTLED_SECONDS = 2.0  # seconds that the next call waits for that ping


AT_ONCE_SECONDS = 1.0  # a refusal that took less time was made by no person


LONGEST_REST, LONGEST_REST_OUTSIDE = 2.0, 30.0
"""Longest pause in seconds between the refusals of a call's questions, which is to end soon, and of others."""


class NotAskedError(Exception):
    """A question is not put to the user; the text says why, also to the server.

    `is_first` says whether it is the first such question, which deserves a log message.
    """

    def __init__(self, why: str, *, is_first: bool) -> None:
        super().__init__(why)
        self.is_first = is_first


@dataclass
class Question:
    """A question that is under way.

    Attributes:
        call: The call that it belongs to.
        answerers: Who answers it before the host does.
        is_answered: Whether it was answered, and not refused.
    """

    call: InFlightRequest
    answerers: Answerers = NOBODY
    is_answered: bool = False


class _History:
    """What a call has asked: how many questions, how many are open, and how many in a row were refused."""

    def __init__(self, longest_rest: float) -> None:
        self.count = 0
        self.open = 0
        self.refusals = 0.0
        self.pacing = Pacing(longest=longest_rest)


class QuestionQueue:
    """The questions of one server: the person is asked one at a time, and each call may ask a limited number.

    `settling` is there while a question of a call that has ended may come.

    A server may ask again after each refusal. If nobody makes these, growing pauses come between them, and after twice
    as many as a call may ask questions the call ends. Questions that came together count once.
    """

    def __init__(self, calls: list[InFlightRequest], limit: Callable[[], int]) -> None:
        self.calls = calls
        self.settling: asyncio.Task[None] | None = None
        self._limit = limit
        self._others = 0  # requests of the user, or of clients, that are no calls
        self._histories: WeakKeyDictionary[InFlightRequest, _History] = WeakKeyDictionary()
        self._outside = _History(LONGEST_REST_OUTSIDE)  # of questions without a call
        self._lock = asyncio.Lock()

    def _history(self, call: InFlightRequest) -> _History:
        if call not in self._histories:
            self._histories[call] = _History(LONGEST_REST)
        return self._histories[call]

    async def wait_until_settled(self) -> None:
        """Wait a moment until an interrupted call has no more questions."""
        if self.settling is not None:
            await asyncio.wait({self.settling}, timeout=SETTLED_SECONDS)

    def interrupted(self, call: InFlightRequest, client: Client) -> None:
        """Note that a call has failed.

        In a handshake session a question does not name its call. So when a call that asked is interrupted, the server
        gets a ping; questions before its answer belong to the old call, and are refused.
        """
        has_asked = call in self._histories and self._histories[call].count > 0
        if has_asked and self.settling is None and client.session.discover_result is None:
            self.settling = asyncio.create_task(self._settle(client), name="mcp_magic questions")

    async def _settle(self, client: Client) -> None:
        current_attempt.set(None)  # the ping is no part of the interrupted request
        with suppress(Exception):
            async with asyncio.timeout(SETTLE_SECONDS):
                await ping(client)
        self.settling = None

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Note a request that is no call, and may cause a question all the same."""
        self._others += 1
        try:
            yield
        finally:
            self._others -= 1

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Question]:
        """Stop the clocks of all calls that may have caused the question; yield it."""
        causes = caused_by(self.calls) if self.settling is None else []
        question = self._question(causes)
        histories = [self._history(call) for call in causes] or [self._outside]
        # it comes after the others were answered; one that stands at a client is of another call
        follows = self.settling is None and not all(history.open for history in histories)
        for history in histories:
            history.open += 1
        started = time.perf_counter()
        try:
            if follows:
                await self._rest(causes)
                started = time.perf_counter()
            with ExitStack() as clocks:
                for call in causes or [question.call]:
                    clocks.enter_context(call.paused())
                yield question
        finally:
            at_once = follows and time.perf_counter() - started < AT_ONCE_SECONDS
            for history in histories:  # each is as likely as the others
                history.open -= 1
                history.refusals = 0.0 if question.is_answered else history.refusals + at_once / len(histories)

    def _question(self, causes: list[InFlightRequest]) -> Question:
        """Return a question that one of some calls has caused.

        It is of the latest. But if it may be of different parties, no client gets it: it may be about what another
        client calls, or the person, to whom it goes.
        """
        if not causes:
            return Question(InFlightRequest())
        latest, parties = causes[-1], {call.answerers.party for call in causes}
        if len(parties) == 1 and (current_request.get() is latest or not self._others or not latest.answerers.party):
            return Question(latest, latest.answerers)
        of_person = [call for call in causes if not call.answerers.party]
        return Question((of_person or causes)[-1])

    async def _rest(self, causes: list[InFlightRequest]) -> None:
        """Pause before a question that follows refusals; end the calls that were refused too often."""
        most = max(2 * self._limit(), 2)  # those that it may ask, and as many that are over the limit
        for call in causes:
            if self._history(call).refusals >= most:
                times = plural(most, "times")
                call.give_up(SessionError(f"{call.title}: asked {times} and was refused; given up. It was cancelled."))
        history = self._history(causes[-1]) if causes else self._outside
        if history.refusals >= 1:
            await asyncio.sleep(history.pacing.pause())

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the person has answered earlier questions.

        Raises:
            NotAskedError: The call is over.
        """
        self._check_settled()
        async with self._lock:
            yield

    def _check_settled(self) -> None:
        if self.settling is not None:
            raise NotAskedError("the call is over", is_first=False)

    def count(self, call: InFlightRequest) -> None:
        """Count a question of a call.

        Questions without a pending call share one limit, which a question of a call resets.

        Raises:
            NotAskedError: The call has asked too many questions, or is over.
        """
        self._check_settled()
        history = self._outside
        if call in self.calls:
            history, self._outside.count = self._history(call), 0
        history.count += 1
        limit = self._limit()
        if history.count > limit:
            raise NotAskedError(
                f"the user is asked {plural(limit, 'questions')} in a call at most (max_questions)",
                is_first=history.count == limit + 1,
            )


async def answered(call: InFlightRequest, question: Coroutine[Any, Any, T]) -> T | Unanswered:
    """Ask a question in the context of its call, whose end cancels it, and wait for the answer."""
    try:
        return await call.ask(question)
    except Exception as error:
        return Unanswered("failed", error)
    except asyncio.CancelledError:
        if not call.is_over:
            raise
        return Unanswered("ended")
