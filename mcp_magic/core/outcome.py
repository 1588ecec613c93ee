"""What became of one request below the session: whether it was written, and how HTTP answered it.

The HTTP transports post a request in the context of whoever sends it, so its hooks find the right one even where
many are under way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import suppress
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

    from mcp_magic.core.errlog import Position

__all__ = ["Awaited", "Outcome", "current", "keep_alive", "retry_after"]

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence after which the other end is asked, seconds between two questions, and questions without an
answer after which the connection is dead: in all about a minute."""


class Awaited:
    """A request that waits for its answer.

    Attributes:
        number: Its JSON-RPC id.
        result: What it was answered, as it came, or None.
    """

    __slots__ = ("_others", "_stray", "number", "result")

    def __init__(self, number: int | str) -> None:
        self.number = number
        self.result: Any = None
        self._stray = ""
        self._others = 0

    def stray(self, said: str) -> None:
        """Take note of an answer that came meanwhile and is nobody's."""
        self._others += bool(self._stray)
        self._stray = self._stray or said

    @property
    def in_vain(self) -> str:
        """What was answered instead, in a sentence; "" if nothing was."""
        if not self._stray:
            return ""
        more = f" (and {self._others} more)" if self._others else ""
        never = f"the answer to {json.dumps(self.number)} never came"
        return f"The server answered {self._stray}{more}; {never} (fault: the server)."


class Outcome:
    """One attempt of one request.

    Attributes:
        status: The HTTP status that answered it, or None.
        content_type: What kind of answer that was, or "".
        retry_after: Seconds that the server asks to wait, or None.
        refused: Whether a connection for it failed before anything could be sent.
        written: Whether something of it was written, as far as this can be known: over HTTP.
        over: Whether nobody waits for it any more.
        error: What went wrong below HTTP, or None.
        awaited: The last request that was sent for it, or None.
        begun: What the server's stderr had when it was made, or None.
    """

    __slots__ = (
        *("_cancelled", "_task", "awaited", "begun", "content_type", "error", "over", "refused", "retry_after"),
        *("status", "written"),
    )

    def __init__(self, begun: Position | None = None) -> None:
        self.begun = begun
        self.status: int | None = None
        self.content_type = ""
        self.error: Exception | None = None
        self.awaited: Awaited | None = None
        self.retry_after: float | None = None
        self.refused = self.written = self.over = False
        self._task = asyncio.current_task()
        self._cancelled = self._task.cancelling() if self._task is not None else 0

    @property
    def result(self) -> Any:
        """What it was answered, as it came, or None."""
        return self.awaited.result if self.awaited is not None else None

    @property
    def given_up(self) -> bool:
        """Whether nobody is to wait for it: the SDK tells the server so first, and cannot during a log-in."""
        return self.over or (self._task is not None and self._task.cancelling() > self._cancelled)

    def sends(self, awaited: Awaited) -> None:
        """Note that a request is sent; what answered one before it is of no interest any more."""
        self.awaited = awaited
        self.status = self.retry_after = self.error = None
        self.content_type = ""

    def answered(self, response: httpx2.Response) -> None:
        """Note how HTTP answered."""
        if response.request.method == "POST":
            self.status = response.status_code
            self.content_type = response.headers.get("content-type", "")
            self.retry_after = retry_after(response.headers.get("retry-after"))

    def happened(self, event: str) -> None:
        """Note an event of the HTTP client (its "trace" extension)."""
        if event.endswith(("connect_tcp.failed", "start_tls.failed")):
            self.refused = True
        elif event.endswith("send_request_headers.started"):
            self.written = True


current: ContextVar[Outcome | None] = ContextVar("mcp_magic_outcome", default=None)
"""The attempt that is being made in this context."""


def keep_alive(event: str, info: dict[str, Any]) -> None:
    """Let the system ask the other end of a new connection now and then whether it is there (an event of httpx2).

    An event stream may be silent for hours; without that nothing says that the machine slept or the network changed.
    """
    if not event.endswith("connect_tcp.complete"):
        return
    found = info["return_value"].get_extra_info("socket") if "return_value" in info else None
    if found is None:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):  # the system knows better
                found.setsockopt(socket.IPPROTO_TCP, option, value)


def retry_after(value: Any) -> float | None:
    """Read a `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date; None where it is neither.

    >>> retry_after("120"), retry_after("soon"), retry_after(None)
    (120.0, None, None)
    >>> retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), retry_after("9" * 10)
    (0.0, None)
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value) if len(value) < 10 else None  # more than 30 years
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
