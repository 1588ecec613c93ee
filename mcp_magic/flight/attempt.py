"""One attempt of a request: whether it was written, and how HTTP answered it.

It is in the context of the request and not in the connection, since many requests are pending at a time. The HTTP
transports post a request in the context of its sender, so their hooks find the right attempt.
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
    from collections.abc import Mapping

    from mcp_magic.stderr import Position


KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first TCP keepalive probe, seconds between probes, and unanswered probes after which
the connection is dead: in all about a minute."""


class PendingReply:
    """A pending request, its result as the server sent it, or None, and the first stray answer that came meanwhile.

    `attempt` is the one that sent it, if any, and `notified` how many notifications were sent before it.
    """

    __slots__ = ("_stray", "attempt", "method", "notified", "number", "result")

    def __init__(self, number: int | str, method: str = "") -> None:
        self.number = number
        self.method = method
        self.result: Any = None
        self.attempt: Attempt | None = None
        self.notified = 0
        self._stray = ""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.attempt is not None and self.attempt.over

    def note_stray(self, text: str) -> None:
        """Note a stray answer."""
        self._stray = self._stray or text

    @property
    def in_vain(self) -> str:
        """A sentence about the stray answer that came instead; "" if there was none."""
        never = f"the answer to {json.dumps(self.number)} never came"
        return f"The server answered {self._stray}; {never} (fault: the server)." if self._stray else ""


class Attempt:
    """One attempt of a request, as far as the transport knows it: how HTTP answered, and what was sent.

    `awaited` is the last JSON-RPC request, `body` the beginning of the body of an HTTP error, and `stderr_offset` the
    end of the server's stderr when it was sent. `had_session` is whether it named its session. `task` is the task that
    a server has made of a call, or None. `unusable` are the definitions of a list that cannot be used.
    """

    __slots__ = (
        *("_cancelled", "_task", "awaited", "body", "content_type", "error", "over", "refused", "retry_after"),
        *("had_session", "status", "stderr_offset", "task", "unusable", "written"),
    )

    def __init__(self) -> None:
        self.stderr_offset: Position | None = None
        self.status: int | None = None
        self.content_type = self.body = ""
        self.error: Exception | None = None
        self.awaited: PendingReply | None = None
        self.retry_after: float | None = None
        self.task: Any = None
        self.unusable: list[Any] = []
        self.refused = self.written = self.over = self.had_session = False
        self._task = asyncio.current_task()
        self._cancelled = self._task.cancelling() if self._task is not None else 0

    @property
    def result(self) -> Any:
        """The result as the server sent it, or None."""
        return self.awaited.result if self.awaited is not None else None

    @property
    def given_up(self) -> bool:
        """Whether it is over or being cancelled: the SDK tells the server first, which a log-in would block."""
        return self.over or (self._task is not None and self._task.cancelling() > self._cancelled)

    def sends(self, awaited: PendingReply) -> None:
        """Note that a JSON-RPC request is sent, and forget the answer to an earlier one."""
        self.awaited = awaited
        self.status = self.retry_after = self.error = None
        self.content_type = self.body = ""

    def answered(self, status: int, headers: Mapping[str, str], *, had_session: bool = False) -> None:
        """Note how HTTP answered a request, and whether that named its session."""
        self.status = status
        self.had_session = had_session
        self.content_type = headers.get("content-type", "")
        self.retry_after = retry_after(headers.get("retry-after"))

    def happened(self, event: str) -> None:
        """Note an event of the HTTP client (its "trace" extension)."""
        if event.endswith(("connect_tcp.failed", "start_tls.failed")):
            self.refused = True
        elif event.endswith("send_request_headers.started"):
            self.written = True


current_attempt: ContextVar[Attempt | None] = ContextVar("mcp_magic_attempt", default=None)
"""The attempt that runs in this context."""


def keep_alive(event: str, info: dict[str, Any]) -> None:
    """Turn on TCP keepalive for a new connection (an event of httpx2).

    An event stream may be silent for hours; without keepalive nothing tells that the machine slept or the network
    changed.
    """
    if not event.endswith("connect_tcp.complete"):
        return
    connection = info["return_value"].get_extra_info("socket") if "return_value" in info else None
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):  # the system does not allow it
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


def retry_after(value: Any) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3): a number or a date; None if invalid.

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
