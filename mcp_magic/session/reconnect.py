"""The rules for reconnecting lost sessions, and the check whether a server is there."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from mcp_magic.config.specs import Spec, UrlSpec
from mcp_magic.errors import (
    AuthorizationError,
    CommandNotFoundError,
    HTTPStatusError,
    MissingDependencyError,
    TargetError,
)
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.retry import METHOD_NOT_FOUND, Backoff, is_forgotten
from mcp_magic.protocol import AWAY, REFUSED, is_closed, ping, waited_in_vain

if TYPE_CHECKING:
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


QUIET_SECONDS = 10.0  # after so many seconds without a repetition, the next one is immediate again


class Pacing:
    """The pauses between what a server's messages make this host repeat: none at first, then growing ones.

    A server that causes the next repetition by each answer is so asked ever more rarely, and never at full speed.
    """

    def __init__(self, first: float = 0.1, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._due = -math.inf
        self._backoff = Backoff(first, longest)

    def pause(self) -> float:
        """Note a repetition; return the seconds until it may begin."""
        now = time.monotonic()
        if now - self._due > QUIET_SECONDS:
            self._backoff, self._due = Backoff(self._first, self._longest), now
            return 0.0
        pause = self._backoff.pause()
        self._due = now + pause
        return pause


def is_hopeless(error: BaseException | None) -> bool:
    """Whether a further attempt would fail with the same error."""
    if isinstance(error, HTTPStatusError):
        return error.status in REFUSED
    return isinstance(error, AuthorizationError | CommandNotFoundError | TargetError | MissingDependencyError)


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
