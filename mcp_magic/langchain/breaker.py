"""A circuit breaker for each connection: calls to a dead server fail at once, the other servers go on.

Closed, it lets every call through. After some failures of the session in a row it is open: every call is
refused. After a while it is half-open: one call is let through, and its outcome closes or opens it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mcp_magic.errors import ConnectError, ProtocolError, RequestTimeoutError, SessionClosedError, SessionError
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_magic.core.connection import Connection

__all__ = ["Breaker", "breaker_of"]

FAILURES = 3
"""Failures in a row after which nothing is sent for a while."""

REST_SECONDS = 30.0
"""Seconds until one call may try again; somebody who restarts a server needs about that long."""

MAX_REASON = 200
"""Characters of the last failure in the refusal."""


class Breaker:
    """Counts the failures of one server's session.

    A tool's own error, and a request that the server refuses, show that it is alive: they do not count.

    Args:
        name: The server's name, for messages.
        failures: Failures in a row that open it.
        rest: Seconds it stays open.
        clock: Returns seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        failures: int = FAILURES,
        rest: float = REST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._limit = failures
        self._rest = rest
        self._clock = clock
        self._failures = 0
        self._opened: float | None = None
        self._since = 0.0
        self._reason = ""
        self._trying = False
        self._counted: object = None

    @property
    def state(self) -> str:
        """`"closed"`, `"open"` or `"half-open"`."""
        if self._opened is None:
            return "closed"
        return "open" if self._clock() - self._opened < self._rest else "half-open"

    def check(self) -> None:
        """Refuse a call while the server is taken to be dead.

        Raises:
            SessionError: It is, since when, and what to do.
        """
        state = self.state
        if state == "open" or (state == "half-open" and self._trying):
            raise self._refusal()

    @contextmanager
    def attempt(self, session: object = None) -> Iterator[None]:
        """Judge what is done inside of it; raises like `check` before that.

        Args:
            session: What the attempt stands on. Calls that fail together because one session ends count once.
        """
        self.check()
        trial = self.state == "half-open"
        self._trying = self._trying or trial
        try:
            yield
        except (SessionClosedError, RequestTimeoutError, ConnectError) as error:
            self.failed(error, session)
            raise
        except ProtocolError:
            self._succeeded()
            raise
        else:
            self._succeeded()
        finally:
            if trial:
                self._trying = False

    def _succeeded(self) -> None:
        self._failures, self._opened, self._counted = 0, None, None

    def failed(self, error: Exception, session: object = None) -> None:
        """Count a failure."""
        if isinstance(error, SessionClosedError) and session is not None and not error.waited:
            if session == self._counted:
                return
            self._counted = session
        now = self._clock()
        if not self._failures:
            self._since = now
        self._failures += 1
        self._reason = str(error).partition("\n")[0][:MAX_REASON]
        if self._failures >= self._limit:
            self._opened = now

    def _refusal(self) -> SessionError:
        now = self._clock()
        since = f"its session has failed {self._failures} times in a row since {duration(round(now - self._since))} ago"
        left = max(0.0, self._rest - (now - (self._opened or 0.0)))
        then = f"the next call after {duration(round(left))} tries it" if left else "one call is trying it now"
        return SessionError(
            f"{self.name}: not called: {since}; `%mcp reconnect {self.name}` opens it again, else {then}.\n"
            f"  last: {self._reason}"
        )


_breakers: WeakKeyDictionary[Connection, tuple[int, Breaker]] = WeakKeyDictionary()


def breaker_of(connection: Connection) -> Breaker:
    """Return the breaker of a connection. One that the person opened anew has a new one, which is closed."""
    opened, breaker = _breakers.get(connection, (None, None))
    if breaker is None or opened != connection.opened_by_hand:
        breaker = Breaker(connection.name)
        _breakers[connection] = (connection.opened_by_hand, breaker)
    return breaker
