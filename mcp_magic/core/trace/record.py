"""Writes the messages of one connection into its host's trace: masked, paired, timed."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mcp_magic.core.telemetry.spans import WireSpans
from mcp_magic.core.trace.mask import Masker
from mcp_magic.core.trace.stderr import Lines
from mcp_magic.core.trace.trace import IN, OUT, STDERR, Entry, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette.take import Take
    from mcp_magic.core.errlog import ErrorLog
    from mcp_magic.core.telemetry.metrics import Metrics

__all__ = ["Recorder", "being_sent"]

WAITING = 10_000
"""Requests without an answer that are remembered; a server that never answers must not fill the memory."""

_SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas."""

_HEADERS = ("content-type", "retry-after", "location")
"""Headers of an HTTP answer that say something and hold no secret."""

being_sent: ContextVar[Entry | None] = ContextVar("mcp_magic_being_sent", default=None)
"""The message that is being sent. The HTTP transports post it in the context of whoever sent it."""


class Recorder:
    """What one connection adds to the trace.

    Args:
        server: The connection's name.
        spec: Where the server is; its secrets are masked.
        trace: The host's trace, or None for one of its own.

    Attributes:
        trace: Where the messages go.
        metrics: Where messages, bytes and calls are counted, or None.
        spans: Completes the spans of requests.
        take: What of it is recorded on a cassette, or None.
    """

    def __init__(self, server: str, spec: Spec, trace: Trace | None = None) -> None:
        self.server = server
        self.trace = Trace() if trace is None else trace
        self.metrics: Metrics | None = None
        self.spans = WireSpans(server, spec)
        self._masker = Masker(spec.secrets)
        self._waiting: dict[tuple[str, str], tuple[Entry, float]] = {}
        self._lines: Lines | None = None
        self.take: Take | None = None

    @property
    def entries(self) -> list[Entry]:
        """The messages of this connection's name, oldest first."""
        return self.trace.entries(self.server)

    def __repr__(self) -> str:
        return f"<Recorder of {self.server!r}: {len(self.entries)} messages>"

    def message(self, direction: str, message: dict[str, Any]) -> Entry | None:
        """Record a JSON-RPC message.

        Args:
            direction: `OUT` or `IN`.
            message: Its members.

        Returns:
            The entry, or None where nothing is kept.
        """
        if self._lines is not None:
            self.stderr()
        if self.take is not None:
            self.take.message(direction, message)
        if not self.trace.messages:
            return None
        entry = Entry(0, time.time(), self.server, direction, "", message.get("method", ""), message.get("id"), 0, b"")
        asked = None
        if entry.method:
            entry.kind = "notification" if entry.id is None else "request"
        else:
            asked = self._answered(entry, message)
        schemas = direction == IN and entry.method in _SCHEMAS
        entry.text, entry.size, entry.whole = self._masker.keep(message, schemas=schemas)
        self.trace.add(entry)
        if self.metrics is not None:
            self.metrics.moved(self.server, direction, entry.size)
        if asked is not None:
            asked.pair = entry.number
        elif entry.kind == "request":
            self._wait(entry)
        return entry

    def _wait(self, entry: Entry) -> None:
        self._waiting[entry.direction, str(entry.id)] = (entry, time.perf_counter())
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _answered(self, entry: Entry, message: dict[str, Any]) -> Entry | None:
        """Note of an answer which request it is for, and how long that took."""
        result = message.get("result")
        failed = "error" in message or (isinstance(result, dict) and result.get("isError") is True)
        entry.kind = "error" if failed else "answer"
        asked, sent = self._waiting.pop((OUT if entry.direction == IN else IN, str(entry.id)), (None, 0.0))
        if asked is not None:
            entry.method, entry.pair, entry.status = asked.method, asked.number, asked.status
            entry.seconds = asked.seconds = time.perf_counter() - sent
        return asked

    def garbage(self, text: str) -> None:
        """Record what a server wrote that is no message."""
        if self.trace.messages:
            self._text(IN, "garbage", text, time.time())

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these wherever they turn up: tokens."""
        self._masker.know(secrets)
        if self.take is not None:
            self.take.know(secrets)

    @property
    def secrets(self) -> frozenset[str]:
        """What is known to be secret, tokens too."""
        return self._masker._known

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        return self._masker.hide(text)

    def http(self, method: str, status: int, headers: Any) -> None:
        """Record the HTTP status of the message that is being sent in this context."""
        entry = being_sent.get()
        if entry is None or entry.status is not None or method != "POST":
            return
        entry.status = status
        entry.headers = {name: str(headers[name])[:200] for name in _HEADERS if name in headers} or None

    # Standard error

    def follow(self, errlog: ErrorLog | None) -> None:
        """Read a server's stderr from now on; None ends that, after a last look."""
        self.stderr(last=errlog is None)
        self._lines = Lines(errlog) if errlog is not None else None
        if errlog is not None:
            self.trace.flush[id(self)] = self.stderr
        else:
            self.trace.flush.pop(id(self), None)

    def stderr(self, *, last: bool = False) -> None:
        """Record the lines that were written to stderr since the last look."""
        if self._lines is None or not (self.trace.messages or self.take):
            return
        for written, line in self._lines.read(last=last):
            if self.trace.messages:
                self._text(STDERR, "line", line, written)
            if self.take is not None:
                self.take.stderr(line)

    def _text(self, direction: str, kind: str, text: str, when: float) -> None:
        size = len(text.encode("utf-8", "replace"))
        kept = self._masker.text(text[:4000])
        self.trace.add(
            Entry(0, when, self.server, direction, kind, "", None, size, kept.encode("utf-8", "replace"), kept == text)
        )
