"""When a session reconnects, and how a session's health is seen."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from mcp_magic.config.specs import UrlSpec
from mcp_magic.errors import (
    AuthorizationError,
    CommandNotFoundError,
    HTTPStatusError,
    MissingDependencyError,
    TargetError,
)
from mcp_magic.inflight import METHOD_NOT_FOUND, current, is_forgotten
from mcp_magic.protocol import is_closed, ping, waited_in_vain

if TYPE_CHECKING:
    from mcp import Client

    from mcp_magic.config.specs import Spec
    from mcp_magic.inflight import Outcome

__all__ = ["Answer", "Backoff", "Reconnection", "is_hopeless", "look"]


# When a session that was lost is opened again by itself, how often, and how long whoever calls waits for it.

_REFUSED = (401, 403, 407)
"""HTTP statuses that the next attempt would get as well: somebody has to give other credentials first."""


@dataclass
class Reconnection:
    """What a host does about sessions that are lost. All times are seconds.

    Attributes:
        mode: Which are opened again: those of `"remote"` servers (HTTP, SSE, WebSocket), `"all"` (stdio servers are
            started again, too: what they held in memory is gone) or none (`"off"`). A spec's own `reconnect` wins.
        first: The pause after the first attempt, which is made at once; each pause is twice as long as the last.
        longest: No pause is longer than this.
        jitter: The part of a pause that is random, so that many clients do not come back at the same moment.
        total: After this the session is given up; a server that is away for longer is more than restarted.
        wait: What a call waits at most for a session that is being opened again, if its own time-out is not shorter.
        lasting: A session that lasts this long begins with the first pause again when it is lost.
        ping: What a server has to answer whether it is there.
        idle: A remote session that was silent for so long is asked whether it is still there before a call goes out:
            after the sleep of a machine nothing says that a connection is dead.
    """

    mode: str = "remote"
    first: float = 0.5
    longest: float = 30.0
    jitter: float = 0.25
    total: float = 300.0
    wait: float = 15.0
    lasting: float = 10.0
    ping: float = 5.0
    idle: float = 60.0

    def covers(self, spec: Spec) -> bool:
        """Whether a lost session with this server is opened again by itself."""
        if spec.reconnect is not None:
            return spec.reconnect
        return self.mode == "all" or (self.mode == "remote" and isinstance(spec, UrlSpec))


class Backoff:
    """The pauses between the attempts to open one session again.

    Attributes:
        attempts: How many have failed.
        next: When the next attempt will be made (`time.monotonic()`); None while one is under way.
    """

    def __init__(self, reconnection: Reconnection) -> None:
        self.attempts = 0
        self.next: float | None = None
        self._started = time.monotonic()
        self._reconnection = reconnection

    @property
    def away(self) -> float:
        """Seconds since the session was lost."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        """Seconds until the session is given up."""
        return max(0.0, self._reconnection.total - self.away)

    def pause(self) -> float | None:
        """Return the seconds until the next attempt, after one that failed; None where it is time to give up."""
        plan = self._reconnection
        if self.left <= 0:
            return None
        pause: float = min(plan.first * 2.0 ** min(self.attempts, 60), plan.longest)
        self.attempts += 1
        pause *= 1 + random.uniform(-plan.jitter, plan.jitter)  # no secret depends on it
        self.next = time.monotonic() + pause
        return pause


def is_hopeless(error: BaseException | None) -> bool:
    """Whether an attempt that failed so would fail again."""
    if isinstance(error, HTTPStatusError):
        return error.status in _REFUSED
    return isinstance(error, AuthorizationError | CommandNotFoundError | TargetError | MissingDependencyError)


# Whether a server that may be gone is there: what it answers, and what that means.

_AWAY = (429, 502, 503, 504)


class Answer(Enum):
    """What a server that may be gone has answered."""

    HERE = auto()
    AWAY = auto()
    FORGOTTEN = auto()
    """It is there, and does not have the session."""
    REFUSED = auto()
    """It wants other credentials."""


async def look(client: Client, seconds: float, made: Outcome) -> tuple[Answer, BaseException | None]:
    """Ask a server that may be gone, and say what its answer means.

    Args:
        client: The session.
        seconds: How long it has to answer.
        made: Notes how HTTP answers.

    Returns:
        The answer, and the error that says so.
    """
    token = current.set(made)
    failure: BaseException
    try:
        async with asyncio.timeout(seconds):
            await ping(client)
    except Exception as error:
        failure = error
    else:
        return Answer.HERE, None
    finally:
        made.over = True
        current.reset(token)
    return _meaning(client, failure, made), made.error or failure


def _meaning(client: Client, failure: BaseException, made: Outcome) -> Answer:
    unknown = getattr(failure, "code", None) == METHOD_NOT_FOUND
    if is_forgotten(failure, made) or (unknown and client.session.discover_result is not None):
        return Answer.FORGOTTEN  # a server that discovered itself before, and now does not, is another one
    if made.status in _REFUSED:
        return Answer.REFUSED
    if waited_in_vain(failure) or is_closed(failure) or made.status in _AWAY:
        return Answer.AWAY
    return Answer.HERE
