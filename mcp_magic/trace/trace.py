"""Keeps the messages of sessions, and pairs requests with their answers."""

from __future__ import annotations

import json
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from mcp_magic._text import json_text
from mcp_magic.config.masking import Masker
from mcp_magic.errors import NotFoundError
from mcp_magic.protocol import SERVER, asked_in_vain, of_code, of_status, who
from mcp_magic.schema.secrets import MASK
from mcp_magic.stderr import ErrorLog, Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_magic.config.specs import Spec


# The trace is a ring of all messages between this host and its servers: the oldest are dropped beyond a number of
# messages or bytes. It keeps a message as a plain list with its masked JSON text, because a call pays for all work done
# while it runs. Numbering, pairing, counting and parsing wait until the trace is read or some hundred messages are new.

OUT, IN, STDERR = "→", "←", "stderr"

MAX_MESSAGES = 10_000
MAX_BYTES = 64_000_000

ENTRY_BYTES = 600  # bytes that an entry counts besides its text; otherwise small messages could fill the memory

FRESH = 256  # number of new messages that are settled at once

Row = list[Any]
"""A kept message: the fields of `Entry`, in their order. Until it is settled, it has no number, and its seconds hold
the moment of its arrival (`time.perf_counter()`)."""

NUMBER, _, SERVER_NAME, DIRECTION, KIND, METHOD, ID, SIZE, TEXT, _, SECONDS, PAIR, STATUS, HEADERS = range(14)
"""The positions of the fields in a row."""


@dataclass(slots=True, repr=False)
class Entry:
    """One message, as it was when the trace was read.

    Attributes:
        number: Its number in the host's trace, from 1; `%mcp replay` takes it.
        time: When it was sent or received (`time.time()`).
        server: The name of the connection.
        direction: `OUT`, `IN` or `STDERR`.
        kind: `"request"`, `"answer"`, `"error"` (a JSON-RPC error, or a result with `isError`), `"notification"`,
            `"line"` (of stderr) or `"garbage"` (output that is not a message).
        method: The method; for an answer that of its request, "" without a request.
        id: The JSON-RPC id, or None.
        size: Bytes of the message as JSON, before masking and cutting.
        text: The message as JSON, masked and cut; the text itself for stderr and garbage.
        whole: Whether nothing was masked or cut.
        seconds: The time from request to answer, for both; else None.
        pair: The number of a request's answer or of an answer's request, or None.
        status: The HTTP status of the answer to the request.
        headers: Other useful headers of the HTTP answer: content type, when to retry, location.
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
        """The message as JSON data; the text for stderr and garbage."""
        text = self.text.decode("utf-8", "replace")
        if self.kind in ("line", "garbage"):
            return text
        return json.loads(text)

    @property
    def failed(self) -> bool:
        """Whether it is a failure: a JSON-RPC error, a tool's error, an HTTP status from 400, or garbage."""
        return self.kind in ("error", "garbage") or (self.status or 0) >= 400

    @property
    def label(self) -> str:
        """The method, or which request it answers."""
        if self.kind in ("answer", "error"):
            return f"answer to {self.pair} {self.method}" if self.pair else "answer to nothing"
        return self.method or self.kind

    def as_json(self) -> str:
        """Return one line of an export: `as_dict` as JSON."""
        return json_text(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of an export."""
        time = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="microseconds")
        names = ("number", "server", "direction", "kind", "method", "id", "size", "whole", "seconds", "pair")
        given = {name: getattr(self, name) for name in names}
        return {"time": time, **given, "status": self.status, "headers": self.headers, "message": self.message}

    def __repr__(self) -> str:
        return f"<Entry {self.number}: {self.server} {self.direction} {self.label}, {self.size} bytes>"


class Trace:
    """The messages of one host, a bounded ring.

    Attributes:
        messages: Most messages that are kept; 0 keeps none.
        bytes: Most bytes that they may take.
        flush: Called before the trace is read, by the id of the recorder that follows a server's stderr.
    """

    def __init__(self, messages: int = MAX_MESSAGES, bytes: int = MAX_BYTES) -> None:
        self.messages = messages
        self.bytes = bytes
        self.flush: dict[int, Callable[[], None]] = {}
        self._fresh: list[tuple[Row, Callable[[Row], None]]] = []
        self._rows: deque[Row] = deque()
        self._number = self._size = self._dropped = 0

    def add(self, row: Row, settled: Callable[[Row], None]) -> None:
        """Keep a message; `settled` is called when it gets its number."""
        self._fresh.append((row, settled))
        self._size += len(row[TEXT]) + ENTRY_BYTES
        if len(self._fresh) >= FRESH or self._size > self.bytes:
            self.settle()

    def settle(self) -> None:
        """Number the new messages, and drop the oldest beyond the limits."""
        fresh, self._fresh = self._fresh, []
        for row, settled in fresh:
            self._number = row[NUMBER] = self._number + 1
            settled(row)
            self._rows.append(row)
        while self._rows and (len(self._rows) > self.messages or self._size > self.bytes):
            self._size -= len(self._rows.popleft()[TEXT]) + ENTRY_BYTES
            self._dropped += 1

    def limit(self, messages: int, bytes: int) -> None:
        """Set how much is kept."""
        self.messages, self.bytes = messages, bytes
        self.settle()

    def clear(self) -> None:
        """Delete all messages; the numbers continue."""
        self.settle()
        self._rows.clear()
        self._size = self._dropped = 0

    @property
    def size(self) -> int:
        """The bytes that the messages take."""
        self.settle()
        return self._size

    @property
    def dropped(self) -> int:
        """How many messages were dropped since the trace was cleared."""
        self.settle()
        return self._dropped

    def entries(self, server: str | None = None) -> list[Entry]:
        """Return the messages of one server or of all, oldest first. Reads new stderr lines first."""
        for read in list(self.flush.values()):
            read()
        self.settle()
        return [Entry(*row) for row in self._rows if server is None or row[SERVER_NAME] == server]

    def find(self, number: int) -> Entry:
        """Return the entry with a number. Raises NotFoundError if the trace has no such entry."""
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
    """Whether a value of a kept message is a mask or contains one.

    >>> is_masked({"login": {"password": "***"}}), is_masked(["a", 1])
    (True, False)
    """
    if isinstance(value, dict):
        return any(is_masked(inner) for inner in value.values())
    if isinstance(value, list):
        return any(is_masked(inner) for inner in value)
    return isinstance(value, str) and MASK in value


# The recording of one connection's messages in its host's trace: masked, paired, timed.

WAITING = 10_000
"""Most requests without an answer that are remembered: a server that never answers must not fill the memory."""

MAX_NAME = 200  # most characters kept of a method and of an id besides the text; a server may send longer ones

_SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas."""

_HEADERS = ("content-type", "retry-after", "location")  # HTTP headers of an answer that are useful and hold no secret

being_sent: ContextVar[Row | None] = ContextVar("mcp_magic_being_sent", default=None)
"""The message that is being sent. HTTP transports post it in the sender's context."""


def _kind(answer: dict[str, Any]) -> str:
    result = answer.get("result")
    failed = "error" in answer or (isinstance(result, dict) and result.get("isError") is True)
    return "error" if failed else "answer"


class Tap:
    """Sees the messages of a connection as they are sent and received, unmasked. Subclasses override its callbacks.

    Attributes:
        reads_stderr: Whether it needs the lines of a server's stderr, which are read only on demand.
    """

    reads_stderr = False

    def opened(self) -> None:
        """A session is open."""

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """A JSON-RPC message is about to be sent (`OUT`) or has arrived (`IN`)."""

    def kept(self, direction: str, size: int) -> None:
        """The trace has kept a message of `size` bytes."""

    def answered(self, number: Any, status: int) -> None:
        """HTTP has answered the request with this id."""

    def garbage(self, text: str, instead: dict[str, Any] | None) -> None:
        """The server wrote text that is no message; `instead` is the error that a request got in its place, or None."""

    def stderr(self, line: str) -> None:
        """The server wrote a line to its stderr."""

    def ended(self) -> None:
        """The server has ended the session."""

    def know(self, secrets: Iterable[str]) -> None:
        """These secrets, which are tokens, must not be kept."""

    def set_cookie(self, value: str) -> None:
        """A server has set a cookie over HTTP, which must not be kept."""

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """The user entered these values for the server; neither they nor other values of these names may be kept."""


class Recorder:
    """Records the messages of one connection in a trace, with the secrets of its spec masked.

    Attributes:
        trace: The trace that gets the messages.
    """

    def __init__(self, server: str, spec: Spec, trace: Trace | None = None, taps: Iterable[Tap] = ()) -> None:
        self.server = server
        self.trace = Trace() if trace is None else trace
        self._set(tuple(taps))
        self._masker = Masker(spec.secrets)
        self._asked: dict[str, dict[str, tuple[Row, float]]] = {OUT: {}, IN: {}}
        self._lines: Lines | None = None
        self._begins = False

    def add(self, tap: Tap) -> None:
        """Add a tap."""
        self._set((*self._taps, tap))

    def remove(self, tap: Tap) -> None:
        """Remove a tap."""
        self._set(tuple(known for known in self._taps if known is not tap))

    def _set(self, taps: tuple[Tap, ...]) -> None:
        self._taps = taps
        self._readers = tuple(tap for tap in taps if tap.reads_stderr)
        self._listeners = tuple(tap for tap in taps if type(tap).message is not Tap.message)

    @property
    def entries(self) -> list[Entry]:
        """The messages under this connection's name, oldest first."""
        return self.trace.entries(self.server)

    def __repr__(self) -> str:
        return f"<Recorder of {self.server!r}: {len(self.entries)} messages>"

    def message(self, direction: str, message: dict[str, Any]) -> Row:
        """Record a JSON-RPC message.

        Runs twice per call, between unrelated work, so most of its cost is filling the processor's caches. It therefore
        creates few objects and calls few functions.

        Returns:
            The row, which `http` completes; the trace keeps it unless it is off.
        """
        if (direction == IN or self._begins) and self._lines is not None and self._lines.is_behind:
            self.stderr()
        self._begins = False
        for tap in self._listeners:
            tap.message(direction, message)
        method, number = message.get("method", ""), message.get("id")
        if not self.trace.messages:
            return [0, 0.0, self.server, direction, "", method, number, 0, b"", False, None, None, None, None]
        if len(method) > MAX_NAME:
            method = method[:MAX_NAME]
        if isinstance(number, str) and len(number) > MAX_NAME:
            number = number[:MAX_NAME]
        kind = ("notification" if number is None else "request") if method else _kind(message)
        text, size, whole = self._masker.keep(message, lambda: direction == IN and self._has_schemas(method, number))
        row: Row = [0, time(), self.server, direction, kind, method, number, size, text, whole, None, None, None, None]
        row[SECONDS] = perf_counter()
        self.trace.add(row, self._settled)
        return row

    def _has_schemas(self, method: str, number: Any) -> bool:
        """Whether a received message holds JSON Schemas; for an answer its request decides."""
        if not method:
            self.trace.settle()
            asked = self._asked[OUT].get(str(number))
            method = asked[0][METHOD] if asked else ""
        return method in _SCHEMAS

    def _settled(self, row: Row) -> None:
        """Pair an answer with its request, set their duration, and count the message."""
        direction, kind, moment = row[DIRECTION], row[KIND], row[SECONDS]
        row[SECONDS] = None
        if kind in ("line", "garbage"):
            return
        for tap in self._taps:
            tap.kept(direction, row[SIZE])
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
        """Record output that is not a message; `instead` is the error that a request got in its place."""
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
        """Mask these secrets, which are tokens, wherever they appear."""
        known = frozenset(secrets)
        self._masker.know(known)
        for tap in self._taps:
            tap.know(known)

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Mask the values that the user entered for a server, and all values of the same names, in the recording."""
        self._masker.conceal(answered)
        for tap in self._taps:
            tap.conceal(answered)

    @property
    def secrets(self) -> frozenset[str]:
        """The known secrets, tokens included."""
        return self._masker.known

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        return self._masker.hide(text)

    def http(self, method: str, status: int, headers: Any) -> None:
        """Record the HTTP status of the message that is being sent in this context; learn the cookies that are set."""
        for cookie in headers.get_list("set-cookie") if "set-cookie" in headers else ():
            self._masker.learn_cookies("set-cookie", cookie)
            for tap in self._taps:
                tap.set_cookie(cookie)
        row = being_sent.get()
        if row is None or row[STATUS] is not None or method != "POST":
            return
        row[STATUS] = status
        for tap in self._taps:
            tap.answered(row[ID], status)
        row[HEADERS] = {name: str(headers[name])[:200] for name in _HEADERS if name in headers} or None

    # Stderr

    def follow(self, errlog: ErrorLog | None) -> None:
        """Read a server's stderr from now on; None reads it a last time and stops."""
        self.stderr(last=errlog is None)
        self._lines = Lines(errlog) if errlog is not None else None
        self._begins = True  # what a server wrote before the first message is recorded before it
        if errlog is not None:
            self.trace.flush[id(self)] = self.stderr
        else:
            self.trace.flush.pop(id(self), None)

    def stderr(self, *, last: bool = False) -> None:
        """Record the lines written to stderr since the last read."""
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
        self.trace.add(
            [0, when, self.server, direction, kind, "", None, size, shown, kept == text, *(None,) * 4], self._settled
        )


def fault(entry: Entry) -> str | None:
    """Return whose fault a failed message is, by the table in `mcp_magic.protocol`; None for other messages.

    A tool's own error has no fault here: only its text can say whether the arguments or the tool are to blame.
    """
    if entry.kind in ("answer", "error") and entry.pair is None and entry.direction == IN:
        return SERVER  # an answer without a request
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
    # an incoming answer belongs to our request, an outgoing one to the server's
    return who(of_code(error.get("code")), asked_by_us=entry.direction != OUT)
