"""The rules for reconnecting lost sessions, and the check whether a server is there."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING

from mcp_magic.config.specs import Spec, UrlSpec
from mcp_magic.errors import (
    AuthorizationError,
    CommandNotFoundError,
    HTTPStatusError,
    MissingDependencyError,
    SecretError,
    TargetError,
)
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.backoff import Backoff, Pacing
from mcp_magic.flight.retry import is_forgotten
from mcp_magic.protocol import AWAY, METHOD_NOT_FOUND, REFUSED, is_closed, ping, waited_in_vain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client


@dataclass
class Reconnection:
    """How a host reconnects lost sessions. All times are in seconds.

    Attributes:
        mode: Which sessions: those of `"remote"` servers (HTTP, SSE, WebSocket), `"all"` (stdio servers are restarted
            too, and lose what they held in memory) or none (`"off"`). A spec's own `reconnect` takes precedence.
        first: The pause after the first attempt, which is made at once. Each further pause is twice as long.
        longest: The longest pause.
        jitter: The random part of a pause, so that many clients do not come back at the same moment.
        total: Time after which the session is given up: a longer outage is more than a restart.
        wait: How long a call waits at most for a session that is reconnecting, unless its own deadline is shorter.
        lasting: A session that lasted this long starts with the first pause again when it is lost.
        ping: Deadline for a server to answer a ping.
    """

    mode: str = "remote"
    first: float = 0.5
    longest: float = 30.0
    jitter: float = 0.25
    total: float = 300.0
    wait: float = 15.0
    lasting: float = 10.0
    ping: float = 5.0

    def covers(self, spec: Spec) -> bool:
        """Whether a lost session with this server reconnects by itself."""
        if spec.reconnect is not None:
            return spec.reconnect
        return self.mode == "all" or (self.mode == "remote" and isinstance(spec, UrlSpec))

    def backoff(self) -> Backoff:
        """Return the pauses between the attempts to reconnect a session that was just lost."""
        return Backoff(self.first, self.longest, jitter=self.jitter, total=self.total)


def is_hopeless(error: BaseException | None) -> bool:
    """Whether a further attempt would fail with the same error."""
    if isinstance(error, HTTPStatusError):
        return error.status in REFUSED
    kinds = AuthorizationError | CommandNotFoundError | TargetError | MissingDependencyError | SecretError
    return isinstance(error, kinds)


# What the owner task of a session does next.

MAX_FORGOTTEN = 4  # sessions in a row that a server may forget before it answers anything


class NextStep(IntEnum):
    """What the owner task does next, in order of precedence: a later one replaces an earlier one."""

    STAY = auto()
    REOPEN = auto()
    """The stream has ended: open another transport, if the rules for reconnecting cover the server."""
    RENEW = auto()
    """The server has forgotten the session: open the next one over the same transport."""
    GIVE_UP = auto()
    REPLACE = auto()
    """Close; the user opens it again at once, and calls that wait for a session keep waiting."""
    CLOSE = auto()


class ReconnectPolicy:
    """Decides for one owner task what it does next, when it tries to reconnect, and how often.

    Attributes:
        next_step: What comes after the present session.
        leave: Set when the present session should end.
        backoff: The pauses between attempts; None before the session is lost.
        sessions: How many sessions were opened.
        is_forgotten: Whether the server has forgotten the session without having been away.
        attempt_error: Why the last attempt to reconnect failed; None if there was none.
    """

    def __init__(self, spec: Spec, rules: Reconnection) -> None:
        self.next_step = NextStep.STAY
        self.leave = asyncio.Event()
        self.backoff: Backoff | None = None
        self.sessions = 0
        self.is_forgotten = False
        self.attempt_error: BaseException | None = None
        self._spec = spec
        self._rules = rules
        self._pacing = Pacing(rules.first, rules.longest)
        self._unanswered = 0  # sessions in a row that were forgotten before anything was answered
        self._up_since = self._up_seconds = 0.0

    @property
    def is_closing(self) -> bool:
        """Whether the session is being closed on purpose."""
        return self.next_step >= NextStep.REPLACE

    @property
    def goes_on(self) -> bool:
        """Whether another session follows when the present one is lost."""
        if self.next_step >= NextStep.GIVE_UP:
            return False
        return self.next_step is NextStep.RENEW or self.covers

    @property
    def covers(self) -> bool:
        """Whether the rules reconnect this server by itself."""
        return self._rules.covers(self._spec)

    @property
    def lasted(self) -> bool:
        """Whether the last session was open long enough to reconnect without a pause."""
        return self._up_seconds >= self._rules.lasting

    def leave_for(self, step: NextStep) -> None:
        """End the present session; `step` comes next, unless another takes precedence."""
        self.next_step = max(self.next_step, step)
        self.leave.set()

    def note_open(self) -> None:
        """Note that there is a session."""
        self.attempt_error = None
        self._up_since = time.monotonic()

    def note_down(self) -> None:
        """Note that there is no session now."""
        self._up_seconds = time.monotonic() - self._up_since
        if self.lasted:
            self.backoff = None

    def note_lost(self) -> None:
        """Note that the session is lost, or that an attempt to reconnect has failed."""
        if self.backoff is None:
            self.backoff = self._rules.backoff()

    async def rest(self, on_pause: Callable[[], None]) -> bool:
        """Pause before the next attempt; return False to give up or to leave the session."""
        assert self.backoff is not None
        if self.backoff.seconds_left <= 0:
            self.leave_for(NextStep.GIVE_UP)
            return False
        pause = self.backoff.pause()
        on_pause()
        await self._pause(pause)
        self.backoff.next = None
        return not self.leave.is_set()

    async def pace(self, remark: Callable[[str], None]) -> bool:
        """Pause before a forgotten session is renewed, if that happens often; return False to leave the session."""
        pause = self._pacing.pause()
        if not pause:
            return True
        remark("it forgets its sessions all the time; they are renewed with growing pauses")
        self.leave.clear()
        await self._pause(pause)
        return not self.is_closing

    def count_forgotten(self, *, answered: bool) -> Exception | None:
        """Count a session that has ended; return an error if the server has forgotten too many in a row.

        `answered` is whether the session has answered a request.
        """
        in_vain = self.is_forgotten and not (answered or self.lasted)
        self._unanswered = self._unanswered + 1 if in_vain else 0
        if self._unanswered < MAX_FORGOTTEN:
            return None
        self.leave_for(NextStep.GIVE_UP)
        return ConnectionError(f"it forgot {self._unanswered} sessions in a row, each before it answered anything")

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.leave.wait()


# Whether a server that may be gone is still there.


class Answer(Enum):
    """What the answer of a server that may be gone means."""

    HERE = auto()
    AWAY = auto()
    FORGOTTEN = auto()
    """The server is there but does not know the session."""
    REFUSED = auto()
    """The server wants other credentials."""


async def look(client: Client, seconds: float, attempt: Attempt) -> tuple[Answer, BaseException | None]:
    """Ping a server that may be gone; return what its answer means, and its error, if any.

    `attempt` records how HTTP answers.
    """
    token = current_attempt.set(attempt)
    failure: BaseException
    try:
        async with asyncio.timeout(seconds):
            await ping(client)
    except Exception as error:
        failure = error
    else:
        return Answer.HERE, None
    finally:
        attempt.over = True
        current_attempt.reset(token)
    return _meaning(client, failure, attempt), attempt.error or failure


def _meaning(client: Client, failure: BaseException, attempt: Attempt) -> Answer:
    unknown = getattr(failure, "code", None) == METHOD_NOT_FOUND
    if is_forgotten(failure, attempt) or (unknown and client.session.discover_result is not None):
        return Answer.FORGOTTEN  # a server that no longer knows `server/discover` is another server
    if attempt.status in REFUSED:
        return Answer.REFUSED
    if waited_in_vain(failure) or is_closed(failure) or attempt.status in AWAY:
        return Answer.AWAY
    return Answer.HERE
