"""Writes the messages of one connection into its host's trace: masked, paired, timed."""

from __future__ import annotations

from contextvars import ContextVar
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.trace.mask import Masker
from mcp_magic.core.trace.stderr import Lines
from mcp_magic.core.trace.trace import (
    DIRECTION,
    HEADERS,
    ID,
    IN,
    KIND,
    METHOD,
    NUMBER,
    OUT,
    PAIR,
    SECONDS,
    SIZE,
    STATUS,
    STDERR,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.errlog import ErrorLog
    from mcp_magic.core.trace.trace import Entry, Row

__all__ = ["Recorder", "Tap", "being_sent"]

WAITING = 10_000
"""Requests without an answer that are remembered; a server that never answers must not fill the memory."""

MAX_NAME = 200
"""Characters kept of a method and of an id beside the text; a server may send longer ones."""

_SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas."""

_HEADERS = ("content-type", "retry-after", "location")
"""Headers of an HTTP answer that say something and hold no secret."""

being_sent: ContextVar[Row | None] = ContextVar("mcp_magic_being_sent", default=None)
"""The message that is being sent. The HTTP transports post it in the context of whoever sent it."""


def _kind(answer: dict[str, Any]) -> str:
    result = answer.get("result")
    failed = "error" in answer or (isinstance(result, dict) and result.get("isError") is True)
    return "error" if failed else "answer"


class Tap:
    """Sees what goes over a wire while it goes, nothing masked. A subclass says what it does with which part of it.

    Attributes:
        reads_stderr: Whether it wants the lines that a server writes to its stderr, which have to be fetched for it.
    """

    reads_stderr = False

    def opened(self) -> None:
        """A session is open."""

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """A JSON-RPC message goes over the wire: `OUT`, just before it is sent, or `IN`."""

    def answered(self, number: Any, status: int) -> None:
        """HTTP has answered the request with this id."""

    def garbage(self, text: str, instead: dict[str, Any] | None) -> None:
        """The server wrote what is no message; `instead` is the error that a request got in its place, if one did."""

    def stderr(self, line: str) -> None:
        """The server wrote a line to its stderr."""

    def ended(self) -> None:
        """The server has ended the session."""

    def know(self, secrets: Iterable[str]) -> None:
        """These must not be kept: tokens."""

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """A person entered these values for the server; neither they nor other values of these names are kept."""


class Recorder:
    """What one connection adds to the trace.

    Args:
        server: The connection's name.
        spec: Where the server is; its secrets are masked.
        trace: The host's trace, or None for one of its own.
        taps: Who else sees what goes over the wire.

    Attributes:
        trace: Where the messages go.
    """

    def __init__(self, server: str, spec: Spec, trace: Trace | None = None, taps: Iterable[Tap] = ()) -> None:
        self.server = server
        self.trace = Trace() if trace is None else trace
        self._set(tuple(taps))
        self._masker = Masker(spec.secrets)
        self._asked: dict[str, dict[str, tuple[Row, float]]] = {OUT: {}, IN: {}}
        self._lines: Lines | None = None

    def add(self, tap: Tap) -> None:
        """Let a tap see what goes over the wire from now on."""
        self._set((*self._taps, tap))

    def remove(self, tap: Tap) -> None:
        """Let a tap see no more."""
        self._set(tuple(one for one in self._taps if one is not tap))

    def _set(self, taps: tuple[Tap, ...]) -> None:
        self._taps = taps
        self._readers = tuple(tap for tap in taps if tap.reads_stderr)

    @property
    def entries(self) -> list[Entry]:
        """The messages of this connection's name, oldest first."""
        return self.trace.entries(self.server)

    def __repr__(self) -> str:
        return f"<Recorder of {self.server!r}: {len(self.entries)} messages>"

    def message(self, direction: str, message: dict[str, Any]) -> Row | None:
        """Record a JSON-RPC message.

        This is done twice for every call, between things that have nothing to do with it: what it costs is what it
        has to fetch into the processor's caches. So it makes few objects and calls few functions.

        Args:
            direction: `OUT` or `IN`.
            message: Its members.

        Returns:
            What is kept of it, or None where nothing is.
        """
        if self._lines is not None:
            self.stderr()
        for tap in self._taps:
            tap.message(direction, message)
        if not self.trace.messages:
            return None
        method, number = message.get("method", ""), message.get("id")
        if len(method) > MAX_NAME:
            method = method[:MAX_NAME]
        if isinstance(number, str) and len(number) > MAX_NAME:
            number = number[:MAX_NAME]
        kind = ("notification" if number is None else "request") if method else _kind(message)
        text = self._masker.harmless(message)
        size, whole = len(text), True
        if not text:
            text, size, whole = self._masker.keep(
                message, schemas=direction == IN and self._has_schemas(method, number)
            )
        row: Row = [0, time(), self.server, direction, kind, method, number, size, text, whole, None, None, None, None]
        row[SECONDS] = perf_counter()
        self.trace.add(row, self)
        return row

    def _has_schemas(self, method: str, number: Any) -> bool:
        """Whether a message that came holds JSON Schemas; of an answer its request says so."""
        if not method:
            self.trace.settle()
            asked = self._asked[OUT].get(str(number))
            method = asked[0][METHOD] if asked else ""
        return method in _SCHEMAS

    def settled(self, row: Row) -> None:
        """Note of an answer which request it is for, and how long that took; count the message."""
        direction, kind, moment = row[DIRECTION], row[KIND], row[SECONDS]
        row[SECONDS] = None
        if kind in ("line", "garbage"):
            return
        self.trace.moved(self.server, direction, row[SIZE])
        asked = self._asked[direction]
        if kind == "request":
            asked[str(row[ID])] = (row, moment)
            if len(asked) > WAITING:
                del asked[next(iter(asked))]
        elif kind != "notification":
            request, sent = self._asked[OUT if direction == IN else IN].pop(str(row[ID]), (None, 0.0))
            if request is not None:
                row[METHOD], row[PAIR], row[STATUS] = request[METHOD], request[NUMBER], request[STATUS]
                request[PAIR] = row[NUMBER]
                row[SECONDS] = request[SECONDS] = moment - sent

    def garbage(self, text: str, instead: dict[str, Any] | None = None) -> None:
        """Record what a server wrote that is no message; `instead` is what a request was told in its place."""
        for tap in self._taps:
            tap.garbage(text, instead)
        if self.trace.messages:
            self._text(IN, "garbage", text, time())

    def opened(self) -> None:
        """Note that a session is open."""
        for tap in self._taps:
            tap.opened()

    def ended(self) -> None:
        """Note that the server has ended the session."""
        self.stderr()
        for tap in self._taps:
            tap.ended()

    def know(self, secrets: Iterable[str]) -> None:
        """Mask these wherever they turn up: tokens."""
        known = frozenset(secrets)
        self._masker.know(known)
        for tap in self._taps:
            tap.know(known)

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Keep values that a person entered for a server out of what is recorded, and all that have their names."""
        self._masker.conceal(answered)
        for tap in self._taps:
            tap.conceal(answered)

    @property
    def secrets(self) -> frozenset[str]:
        """What is known to be secret, tokens too."""
        return self._masker.known

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        return self._masker.hide(text)

    def http(self, method: str, status: int, headers: Any) -> None:
        """Record the HTTP status of the message that is being sent in this context."""
        row = being_sent.get()
        if row is None or row[STATUS] is not None or method != "POST":
            return
        row[STATUS] = status
        for tap in self._taps:
            tap.answered(row[ID], status)
        row[HEADERS] = {name: str(headers[name])[:200] for name in _HEADERS if name in headers} or None

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
        if self._lines is None or not (self.trace.messages or self._readers):
            return
        for written, line in self._lines.read(last=last):
            if self.trace.messages:
                self._text(STDERR, "line", line, written)
            for tap in self._readers:
                tap.stderr(line)

    def _text(self, direction: str, kind: str, text: str, when: float) -> None:
        size = len(text.encode("utf-8", "replace"))
        kept = self._masker.text(text[:4000])
        shown = kept.encode("utf-8", "replace")
        self.trace.add([0, when, self.server, direction, kind, "", None, size, shown, kept == text, *(None,) * 4], self)
