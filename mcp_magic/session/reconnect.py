"""The rules for reconnecting lost sessions, and the check whether a server is there."""

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


_REFUSED = (401, 403, 407)
"""HTTP statuses that every further attempt would get too: the user must give other credentials first."""


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
        idle: A remote session that was silent for this long is pinged before a call is sent: after a machine has slept,
            nothing tells that a connection is dead.
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
        """Whether a lost session with this server reconnects by itself."""
        if spec.reconnect is not None:
            return spec.reconnect
        return self.mode == "all" or (self.mode == "remote" and isinstance(spec, UrlSpec))


class Backoff:
    """The pauses between attempts to reconnect one session.

    Attributes:
        attempts: How many attempts have failed.
        next: When the next attempt is due (`time.monotonic()`); None while one is running.
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
        """Note a failed attempt and return the seconds until the next; None to give up."""
        plan = self._reconnection
        if self.left <= 0:
            return None
        pause: float = min(plan.first * 2.0 ** min(self.attempts, 60), plan.longest)
        self.attempts += 1
        pause *= 1 + random.uniform(-plan.jitter, plan.jitter)  # needs no cryptographic randomness
        self.next = time.monotonic() + pause
        return pause


def is_hopeless(error: BaseException | None) -> bool:
    """Whether a further attempt would fail with the same error."""
    if isinstance(error, HTTPStatusError):
        return error.status in _REFUSED
    return isinstance(error, AuthorizationError | CommandNotFoundError | TargetError | MissingDependencyError)


# Whether a server that may be gone is still there.

_AWAY = (429, 502, 503, 504)


class Answer(Enum):
    """What the answer of a server that may be gone means."""

    HERE = auto()
    AWAY = auto()
    FORGOTTEN = auto()
    """The server is there but does not know the session."""
    REFUSED = auto()
    """The server wants other credentials."""


async def look(client: Client, seconds: float, made: Outcome) -> tuple[Answer, BaseException | None]:
    """Ping a server that may be gone.

    Args:
        client: The session.
        seconds: Deadline for the answer.
        made: Records how HTTP answers.

    Returns:
        The meaning of the answer, and its error, if any.
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
        return Answer.FORGOTTEN  # a server that no longer knows `server/discover` is another server
    if made.status in _REFUSED:
        return Answer.REFUSED
    if waited_in_vain(failure) or is_closed(failure) or made.status in _AWAY:
        return Answer.AWAY
    return Answer.HERE
