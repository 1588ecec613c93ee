"""Keeps the messages of sessions, and pairs requests with their answers."""

from __future__ import annotations

import json
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.errors import NotFoundError
from mcp_magic.protocol import SERVER, asked_in_vain, of_code, of_status, who
from mcp_magic.schema.secrets import MASK
from mcp_magic.stderr import Lines
from mcp_magic.trace.mask import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.stderr import ErrorLog

__all__ = ["IN", "OUT", "STDERR", "Entry", "Recorder", "Row", "Tap", "Trace", "being_sent", "fault", "meaning"]


# The trace: every message between this host and its servers, as they went over the wire.
#
# A ring: what is oldest goes when there are too many messages or bytes. What is kept of a message is a plain list,
# with its masked JSON text. All the rest is done when somebody looks, or for some hundred messages at once: numbering
# them, finding which answer is whose, counting, parsing; a call pays for what is done while it runs.

OUT, IN, STDERR = "→", "←", "stderr"

MAX_MESSAGES = 10_000
MAX_BYTES = 64_000_000

ENTRY_BYTES = 600
"""Bytes that an entry takes besides its text; small messages would fill the memory uncounted."""

FRESH = 256
"""Messages that are settled at once."""

Row = list[Any]
"""What is kept of a message: the fields of `Entry`, in their order. Until it is settled it has no number, and in place
of its seconds the moment it came (`time.perf_counter()`)."""

NUMBER, _, SERVER_NAME, DIRECTION, KIND, METHOD, ID, SIZE, TEXT, _, SECONDS, PAIR, STATUS, HEADERS = range(14)
"""Where they are."""


@dataclass(slots=True, repr=False)
class Entry:
    """One message, as it was when somebody looked.

    Attributes:
        number: Its number in the host's trace, from 1; `%mcp replay` takes it.
        time: When it was sent or came (`time.time()`).
        server: The connection's name.
        direction: `OUT`, `IN` or `STDERR`.
        kind: `"request"`, `"answer"`, `"error"` (a JSON-RPC error, or a result with `isError`),
            `"notification"`, `"line"` (of stderr) or `"garbage"` (what is no message).
        method: The method; of an answer that of its request, "" if nobody asked.
        id: The JSON-RPC id, or None.
        size: Bytes of the message as JSON, before anything was masked or cut.
        text: The message as JSON, secrets masked, long texts cut; of stderr and garbage the text itself.
        whole: Whether nothing was masked and nothing cut.
        seconds: Of an answer the time since its request, of an answered request the same.
        pair: The number of the request's answer, of the answer's request; None if there is none.
        status: The HTTP status that the request was answered with.
        headers: What else of the HTTP answer says something: its type, when to try again.
    """

    number: int
    time: float
    server: str
    direction: str
    kind: str
    method: str
    id: int | str | None
    size: int
    text: bytes
    whole: bool = True
    seconds: float | None = None
    pair: int | None = None
    status: int | None = None
    headers: dict[str, str] | None = None

    @property
    def message(self) -> Any:
        """The message as JSON data; of stderr and garbage the text."""
        text = self.text.decode("utf-8", "replace")
        if self.kind in ("line", "garbage"):
            return text
        return json.loads(text)

    @property
    def failed(self) -> bool:
        """Whether it tells of a failure: a JSON-RPC error, a tool's error, an HTTP status from 400, no message."""
        return self.kind in ("error", "garbage") or (self.status or 0) >= 400

    @property
    def label(self) -> str:
        """The method, or what it answers."""
        if self.kind in ("answer", "error"):
            return f"answer to {self.pair} {self.method}" if self.pair else "answer to nothing"
        return self.method or self.kind

    def as_dict(self) -> dict[str, Any]:
        """Return what an export has."""
        time = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="microseconds")
        names = ("number", "server", "direction", "kind", "method", "id", "size", "whole", "seconds", "pair")
        given = {name: getattr(self, name) for name in names}
        return {"time": time, **given, "status": self.status, "headers": self.headers, "message": self.message}

    def __repr__(self) -> str:
        return f"<Entry {self.number}: {self.server} {self.direction} {self.label}, {self.size} bytes>"


class Settles(Protocol):
    """Whose messages these are."""

    def settled(self, row: Row) -> None:
        """Note of a message, which has a number now, what it is an answer to."""


class Trace:
    """The messages of one host, a bounded ring.

    Attributes:
        messages: How many are kept at most; 0: nothing is kept.
        bytes: Bytes they may take.
        moved: Called for each message with its server, its direction and its size.
    """

    def __init__(
        self,
        messages: int = MAX_MESSAGES,
        bytes: int = MAX_BYTES,
        moved: Callable[[str, str, int], None] = lambda server, direction, size: None,
    ) -> None:
        self.messages = messages
        self.bytes = bytes
        self.moved = moved
        self.flush: dict[int, Callable[[], None]] = {}
        self._fresh: list[tuple[Row, Settles]] = []
        self._rows: deque[Row] = deque()
        self._number = self._size = self._dropped = 0

    def add(self, row: Row, settles: Settles) -> None:
        """Keep a message; `settles` is told when it gets its number."""
        self._fresh.append((row, settles))
        self._size += len(row[TEXT]) + ENTRY_BYTES
        if len(self._fresh) >= FRESH or self._size > self.bytes:
            self.settle()

    def settle(self) -> None:
        """Give what is new its numbers, and drop the oldest for it where that is needed."""
        fresh, self._fresh = self._fresh, []
        for row, settles in fresh:
            self._number = row[NUMBER] = self._number + 1
            settles.settled(row)
            self._rows.append(row)
        while self._rows and (len(self._rows) > self.messages or self._size > self.bytes):
            self._size -= len(self._rows.popleft()[TEXT]) + ENTRY_BYTES
            self._dropped += 1

    def limit(self, messages: int, bytes: int) -> None:
        """Set how much is kept."""
        self.messages, self.bytes = messages, bytes
        self.settle()

    def clear(self) -> None:
        """Forget all messages; the numbers go on."""
        self.settle()
        self._rows.clear()
        self._size = self._dropped = 0

    @property
    def size(self) -> int:
        """Bytes that the messages take."""
        self.settle()
        return self._size

    @property
    def dropped(self) -> int:
        """How many messages went to make room since the trace was cleared."""
        self.settle()
        return self._dropped

    def entries(self, server: str | None = None) -> list[Entry]:
        """Return what is kept, oldest first, of one server or of all; stderr that was not looked at yet too."""
        for read in list(self.flush.values()):
            read()
        self.settle()
        return [Entry(*row) for row in self._rows if server is None or row[SERVER_NAME] == server]

    def find(self, number: int) -> Entry:
        """Return the entry with a number.

        Raises:
            NotFoundError: It is not kept.
        """
        self.settle()
        for row in self._rows:
            if row[NUMBER] == number:
                return Entry(*row)
        kept = f"it has {self._rows[0][NUMBER]} to {self._number}" if self._rows else "it is empty"
        raise NotFoundError(f"the trace has no message {number}; {kept}, `%mcp trace` lists them")

    def __len__(self) -> int:
        self.settle()
        return len(self._rows)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries())

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} messages, {self.size:,} bytes>"


def is_masked(value: Any) -> bool:
    """Whether a value of a kept message is a mask, or has one inside.

    >>> is_masked({"login": {"password": "***"}}), is_masked(["a", 1])
    (True, False)
    """
    if isinstance(value, dict):
        return any(is_masked(inner) for inner in value.values())
    if isinstance(value, list):
        return any(is_masked(inner) for inner in value)
    return isinstance(value, str) and MASK in value


# Writes the messages of one connection into its host's trace: masked, paired, timed.

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


# What a failed message says, and whose fault that is.


def meaning(code: object) -> str:
    """Return an error code in words.

    >>> meaning(-32602)
    'invalid params'
    """
    return of_code(code).meaning


def fault(entry: Entry) -> str | None:
    """Return whose fault a failed message is, by the table of `core.faults`; None of others.

    A tool's own error has no such: whether the arguments or the tool are to blame its text has to say.
    """
    if entry.kind in ("answer", "error") and entry.pair is None and entry.direction == IN:
        return SERVER  # nobody asked
    if not entry.failed or entry.kind == "line":
        return None
    if entry.kind == "garbage":
        return SERVER
    if entry.status is not None and entry.status >= 400:
        return who(of_status(entry.status))
    error = entry.message.get("error")
    if not isinstance(error, dict):
        return None
    if asked_in_vain(error.get("message")):
        return SERVER
    # the answer to what this host asked comes in; what goes out answers the server
    return who(of_code(error.get("code")), asked_by_us=entry.direction != OUT)
