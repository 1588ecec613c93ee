"""Retries: which failed requests are sent again, how often, and after which pauses.

A request is sent again if it certainly did not run (no connection, a session that the server does not know, HTTP 429 or
503), or if it is harmless to repeat: a listing, or a call of a tool that a trusted server declares read-only or
idempotent. Nothing else is sent twice.

Three places repeat, each with its policy: the sender of requests (`SENDER`), which also waits for a busy server; calls
for a model (`MODEL`); and the rows of a map (`ROWS`), whose pauses are those of `map/pace.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import (
    HTTPStatusError,
    ProtocolError,
    RequestTimeoutError,
    SessionClosedError,
    UnreachableError,
)
from mcp_magic.flight.backoff import Backoff
from mcp_magic.protocol import AWAY, BUSY, METHOD_NOT_FOUND, has_ended, is_closed, is_said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.flight.attempt import Attempt
    from mcp_magic.flight.request import Limits


class Failure(Enum):
    """What the failure of a request means for another attempt."""

    FINAL = auto()
    """Another attempt would fail as well."""
    FORGOTTEN = auto()
    """The server does not know the session."""
    BUSY = auto()
    """The server did not start on the request: HTTP 429 or 503."""
    UNSENT = auto()
    """The request did not reach the server."""
    DROPPED = auto()
    """The connection ended; the request may have run."""
    LATE = auto()
    """No answer came in time; the request may have run."""


MAY_HAVE_RUN = frozenset((Failure.DROPPED, Failure.LATE))


@dataclass(frozen=True)
class RetryPolicy:
    """How often a request is sent again, and the pauses before that.

    Attributes:
        most: How often after each kind of failure; never after those that it lacks.
        first: The first pause in seconds; each further pause is twice as long.
        longest: The longest pause in seconds.
        jitter: The random part of a pause.
    """

    most: Mapping[Failure, int]
    first: float = 0.0
    longest: float = 0.0
    jitter: float = 0.0

    def allows(self, failure: Failure, repeats: int, *, is_harmless: bool) -> bool:
        """Whether a request that was repeated so often is sent again after a failure."""
        return repeats < self.most.get(failure, 0) and (is_harmless or failure not in MAY_HAVE_RUN)

    def backoff(self) -> Backoff:
        """Return the pauses of one request."""
        return Backoff(self.first, self.longest, jitter=self.jitter)


SENDER = RetryPolicy({Failure.FORGOTTEN: 1, Failure.BUSY: 2, Failure.UNSENT: 3, Failure.DROPPED: 1})
"""The sender of requests. It waits for the reconnect, and as long as a busy server says."""

MODEL = RetryPolicy({Failure.UNSENT: 2, Failure.DROPPED: 2, Failure.LATE: 2}, first=0.2, longest=2.0, jitter=0.2)
"""A call for a model. The sender has waited for a busy server already."""

ROWS = RetryPolicy(dict.fromkeys((Failure.BUSY, Failure.UNSENT, Failure.DROPPED, Failure.LATE), 7))
"""A row of a map, whose calls do not wait in the sender for a busy server."""

BUSY_SECONDS = 60.0  # maximum seconds that a request without a deadline waits in all for a busy server


class Retries:
    """The repeats of one request by its sender."""

    def __init__(self, limits: Limits, *, is_harmless: bool) -> None:
        self.is_harmless = is_harmless
        self.repeats: Counter[Failure] = Counter()
        longest = BUSY_SECONDS if limits.timeout is None else min(limits.timeout, BUSY_SECONDS)
        self._seconds = longest if limits.waits_if_busy else -1.0  # that it still waits for a busy server

    def pause(self, failure: Failure, retry_after: float | None) -> float | None:
        """Return the seconds until the request is sent again; None if it is not.

        `retry_after` is what a busy server says; without it nobody knows how long it is busy.
        """
        if not SENDER.allows(failure, self.repeats[failure], is_harmless=self.is_harmless):
            return None
        wait = 0.0
        if failure is Failure.BUSY:
            if retry_after is None or retry_after > self._seconds:
                return None
            wait = retry_after
            self._seconds -= wait
        self.repeats[failure] += 1
        return wait


def failure_of(error: Exception) -> Failure:
    """Return what an error of a request means for another attempt."""
    match error:
        case SessionClosedError():
            return Failure.DROPPED if error.sent else Failure.UNSENT
        case RequestTimeoutError():
            return Failure.LATE
        case ProtocolError() if error.status in BUSY:
            return Failure.BUSY
        case UnreachableError():
            return Failure.UNSENT
        case HTTPStatusError() if error.status in AWAY:
            return Failure.UNSENT
    return Failure.FINAL


def failure_of_attempt(error: Exception, attempt: Attempt) -> Failure:
    """Return what an error of the SDK means for another attempt."""
    if is_forgotten(error, attempt):
        return Failure.FORGOTTEN
    if attempt.status in BUSY:
        return Failure.BUSY
    if not is_closed(error):
        return Failure.FINAL
    return Failure.UNSENT if attempt.refused and not attempt.written else Failure.DROPPED


def is_repeatable(spec: Spec, tool: Any) -> bool:
    """Whether a call may be sent twice: the tool's hints say so, and the user trusts its server."""
    hints = tool.annotations if tool is not None else None
    if hints is None or not spec.trust:
        return False
    return hints.read_only_hint is True or hints.idempotent_hint is True


_NO_SESSION = re.compile(
    r"\b(no|no valid|invalid|unknown|expired|missing|terminated|closed)\b.{0,10}\bsession\b"
    r"|\bsession\b.{0,30}\b(not found|unknown|expired|invalid|terminated|closed|does not exist|not exist)\b"
    r"|\bserver not initialized\b",
    re.IGNORECASE,
)
"""Messages of servers with HTTP 400 about a session that they do not know. The specification requires 404, but the
TypeScript SDK's examples, and many servers made from them, answer 400 "No valid session ID provided"; its transport
answers 400 "Server not initialized"."""

_FORGETTING = (400, 410, 422)  # HTTP statuses, beside 404, with which servers say that they do not know a session

_SHORT = 1_000  # characters of a body that may say so; a longer one is a page about something else


def is_forgotten(failure: BaseException, attempt: Attempt) -> bool:
    """Whether HTTP answered that the server does not know the session, so that the request never reached a tool."""
    code = getattr(failure, "code", None)
    if attempt.status == 404 and not attempt.had_session:  # it does not have what was asked for
        return False
    if attempt.status == 404:
        # Since 2026-07-28 "Method not found" is a 404 too; a request with "Connection closed" may have run.
        if code is None or code == METHOD_NOT_FOUND or has_ended(failure):
            return False
        return not is_said(failure) or says_no_session(str(failure))  # another answer to the request itself
    if attempt.status not in _FORGETTING or code is None:
        return False
    own = attempt.status == 400 and says_no_session(str(failure))
    return own or (attempt.had_session and not is_said(failure) and says_no_session(attempt.body[:_SHORT]))


def says_no_session(text: str) -> bool:
    """Whether the text of an HTTP error means that the server does not know the session.

    >>> says_no_session("Bad Request: No valid session ID provided"), says_no_session("Session not found")
    (True, True)
    >>> says_no_session("Bad Request: Server not initialized"), says_no_session("the session is full")
    (True, False)
    """
    return _NO_SESSION.search(text) is not None
