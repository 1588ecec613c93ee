"""What may be sent twice: the one place that says so.

A request that certainly did not run: nobody listened, a session that the server had forgotten, a server that
refused to begin (429, 503). And what is harmless to repeat: listings and the like, and tools that a trusted server
declares read-only or idempotent. Nothing else is ever sent twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec
    from mcp_magic.core.outcome import Outcome

__all__ = [
    "BUSY",
    "BUSY_ATTEMPTS",
    "LOST_ATTEMPTS",
    "METHOD_NOT_FOUND",
    "Repeats",
    "cannot_have_run",
    "is_forgotten",
    "is_repeatable",
    "says_no_session",
]

BUSY = (429, 503)
"""HTTP statuses of a server that did not begin with a request (RFC 6585, section 4; RFC 9110, section 15.6.4)."""

BUSY_ATTEMPTS = 2
"""Times that `Retry-After` is honoured for one request."""

LOST_ATTEMPTS = 3
"""Times that a request which found nobody is sent again, when its server is back."""

METHOD_NOT_FOUND = -32601
"""The JSON-RPC error code."""

_NO_SESSION = re.compile(
    r"\b(no|no valid|invalid|unknown|expired|missing|terminated|closed)\b.{0,10}\bsession\b"
    r"|\bsession\b.{0,30}\b(not found|unknown|expired|invalid|terminated|closed|does not exist|not exist)\b"
    r"|\bserver not initialized\b",
    re.IGNORECASE,
)
"""What servers say with HTTP 400 about a session that they do not have. The specification wants 404, but the
TypeScript SDK's examples, and the many servers that were made from them, answer 400 "No valid session ID provided";
its transport answers 400 "Server not initialized"."""


class Repeats:
    """How often one request was sent again, and why.

    Attributes:
        harmless: Whether it may be sent again although it may have run.
        patient: Whether it waits for a server that is busy.
        renewed: Whether it has been, after the session was renewed.
        busy: How often, because the server asked to wait.
        lost: How often, because the session was lost.
        waited: Seconds that it waited for a busy server.
    """

    def __init__(self, harmless: bool, *, patient: bool = True) -> None:
        self.harmless = harmless
        self.patient = patient
        self.renewed = False
        self.busy = self.lost = 0
        self.waited = 0.0


def is_repeatable(spec: Spec, tool: Any) -> bool:
    """Whether a call may be sent twice: the hints say so, and the person trusts the server that gives them.

    Args:
        spec: Where the tool's server is, and whether it is trusted.
        tool: Its definition, or None where it is not known.
    """
    hints = tool.annotations if tool is not None else None
    if hints is None or not spec.trust:
        return False
    return hints.read_only_hint is True or hints.idempotent_hint is True


def is_forgotten(failure: BaseException, outcome: Outcome) -> bool:
    """Whether HTTP answered that the server does not have the session: then the request never reached a tool.

    Args:
        failure: What the SDK raised.
        outcome: How HTTP answered.
    """
    code = getattr(failure, "code", None)
    if outcome.status == 404:
        # "Method not found" is a 404 too since 2026-07-28; "Connection closed" may have run.
        return code is not None and code != METHOD_NOT_FOUND and str(failure) != "Connection closed"
    return outcome.status == 400 and code is not None and says_no_session(str(failure))


def says_no_session(text: str) -> bool:
    """Whether a server that answers HTTP 400 means that it does not have the session.

    >>> says_no_session("Bad Request: No valid session ID provided"), says_no_session("Session not found")
    (True, True)
    >>> says_no_session("Bad Request: Server not initialized"), says_no_session("the session is full")
    (True, False)
    """
    return _NO_SESSION.search(text) is not None


def cannot_have_run(failure: BaseException, outcome: Outcome) -> bool:
    """Whether a request that failed certainly did not run."""
    if outcome.refused and not outcome.written:
        return True
    return outcome.status in BUSY or is_forgotten(failure, outcome)
