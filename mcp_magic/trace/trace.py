"""Keeps the messages of sessions, and pairs requests with their answers.

A message is written as JSON at once, because its sender or receiver may change its lists and objects later. Messages
are paired and masked in batches, and before anything reads them: each reader goes through `Trace.settle`. The batches
are worth 3 % of a call in this process; without them a call with its trace takes 1.11 of one without. A long message is
cut before it is written, because 50 MB would block the loop for a fifth of a second.

The trace knows none of its listeners: spans and recordings are taps (`Tap`), which the host adds.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic._text import duration, json_text, plural
from mcp_magic.config.masking import Masker
from mcp_magic.errors import NotFoundError
from mcp_magic.protocol import SERVER, asked_in_vain, of_code, of_status, party_of
from mcp_magic.schema.secrets import MASK
from mcp_magic.stderr import ErrorLog, Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.protocol import Fault


# The trace is a ring of all messages between this host and its servers: the oldest are dropped beyond a number of
# messages or bytes.

OUT, IN, STDERR, KEPT = "→", "←", "stderr", "kept"

MAX_MESSAGES = 10_000
MAX_BYTES = 64_000_000

ENTRY_BYTES = 600  # bytes that an entry counts besides its text; otherwise small messages could fill the memory

BATCH, BATCH_SECONDS = 128, 0.05  # most messages of a batch, and how long its first may wait to be masked


asker: ContextVar[str] = ContextVar("mcp_magic_asker", default="")
"""Who calls the tool in this context, if not the user."""


@dataclass(slots=True, repr=False, init=False, eq=False)
class Entry:
    """One message. Until its batch is settled it has only what `Recorder.message` sets."""

    number: int  # its number in the host's trace, from 1; `%mcp replay` takes it
    time: float  # when it was sent or received (`time.time()`)
    server: str
    direction: str  # `OUT`, `IN`, `STDERR`, or `KEPT` for a request that was not sent because its answer is kept
    kind: str  # "request", "answer", "error" (a tool's too), "notification", "kept", "line" (of stderr), "garbage"
    method: str  # for an answer that of its request, "" without one
    id: int | str | None
    size: int  # bytes as JSON, before masking and cutting
    text: bytes  # the message as JSON, masked and cut; the text itself for stderr and garbage
    whole: bool  # whether nothing was masked or cut
    seconds: float | None  # from request to answer, for both; until nobody waited for it any more
    pair: int | None  # the number of a request's answer or of an answer's request
    status: int | None  # HTTP status of the answer to the request
    headers: dict[str, str] | None  # content type, when to retry, location
    moment: float  # when it was sent or received (`time.perf_counter()`)
    gave_up: Fault | None  # why nobody waits for the answer to a request any more, and whose fault that is
    asker: str  # who called the tool if not the user, such as "agent"

    def __init__(self, server: str, direction: str, id: int | str | None = None) -> None:
        self.server = server
        self.direction = direction
        self.id = id
        self.status = self.headers = self.gave_up = None
        self.asker = asker.get()
        self.moment = perf_counter()

    def write(self, kind: str, method: str, text: bytes, size: int, whole: bool = True) -> None:
        """Set what the message is, its text to keep, its size, and whether the text is all of it."""
        self.kind, self.method = kind, method[:MAX_NAME]
        self.text, self.size, self.whole = text, size, whole

    @property
    def message(self) -> Any:
        """The message as JSON data; the text for stderr and garbage."""
        text = self.text.decode("utf-8", "replace")
        if self.kind in ("line", "garbage"):
            return text
        return json.loads(text)

    @property
    def failed(self) -> bool:
        """Whether it is a failure: an error, a tool's too, an HTTP status from 400, garbage, no answer in time."""
        return self.kind in ("error", "garbage") or (self.status or 0) >= 400 or self.gave_up is not None

    @property
    def unanswered(self) -> str:
        """Why nobody waits for the answer to a request any more, as `no answer in 1.0 s`; "" for other messages."""
        return self.gave_up.meaning.format(duration(self.seconds or 0.0)) if self.gave_up is not None else ""

    @property
    def label(self) -> str:
        """The method, or the number of the request that it answers."""
        if self.kind in ("answer", "error"):
            return f"answer to {self.pair}" if self.pair else "answer to nothing"
        return self.method or self.kind

    def as_json(self) -> str:
        """Return one line of an export: `as_dict` as JSON."""
        return json_text(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of an export."""
        time = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="microseconds")
        names = ("number", "server", "direction", "kind", "method", "id", "size", "whole", "seconds", "pair")
        fields = {name: getattr(self, name) for name in names}
        fields["unanswered"] = self.unanswered or None
        return {"time": time, **fields, "status": self.status, "headers": self.headers, "message": self.message}

    def __repr__(self) -> str:
        return f"<Entry {self.number}: {self.server} {self.direction} {self.label}, {self.size} bytes>"


class Trace:
    """The messages of one host, a bounded ring; `flush` is called before it is read, by the id of a recorder."""

    def __init__(self, messages: int = MAX_MESSAGES, bytes: int = MAX_BYTES) -> None:
        self.messages = messages
        self.bytes = bytes
        self.flush: dict[int, Callable[[], None]] = {}
        self._fresh: list[Entry] = []
        self._batches: dict[Recorder, list[Entry]] = {}  # the fresh entries of each
        self._timer: asyncio.TimerHandle | None = None
        self._entries: deque[Entry] = deque()
        self._number = self._size = self._dropped = 0

    def add(self, recorder: Recorder, entry: Entry) -> None:
        """Keep a message, and number it. Later its recorder masks and pairs it."""
        self._number = entry.number = self._number + 1
        self._fresh.append(entry)
        if (batch := self._batches.get(recorder)) is None:
            batch = self._batches[recorder] = []
        batch.append(entry)
        if len(self._fresh) >= BATCH:
            self.settle()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self.settle)
            except RuntimeError:  # no loop would come back to it
                self.settle()

    def settle(self) -> None:
        """Pair and mask the new messages, and drop the oldest beyond the limits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if fresh := self._fresh:
            batches, self._fresh, self._batches = self._batches, [], {}
            self._size += sum(recorder.settle(batch) for recorder, batch in batches.items()) + ENTRY_BYTES * len(fresh)
            self._entries.extend(fresh)
        while self._entries and (len(self._entries) > self.messages or self._size > self.bytes):
            self._size -= len(self._entries.popleft().text) + ENTRY_BYTES
            self._dropped += 1

    def limit(self, messages: int, bytes: int) -> None:
        """Set how much is kept."""
        self.messages, self.bytes = messages, bytes
        self.settle()

    def clear(self, server: str | None = None) -> None:
        """Delete the messages of one server or of all; the numbers continue."""
        entries = self.entries(server)
        self._entries = deque(entry for entry in self._entries if server is not None and entry.server != server)
        self._size -= sum(len(entry.text) + ENTRY_BYTES for entry in entries)
        self._dropped = self._dropped if server is not None else 0

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
        """Return the messages of one server or of all, oldest first. Reads new stderr lines first.

        A line of stderr may be older than messages with a lower number, because it is read with a later message.
        """
        for read in list(self.flush.values()):
            read()
        self.settle()
        entries = (entry for entry in self._entries if server is None or entry.server == server)
        return sorted(entries, key=attrgetter("moment"))

    def find(self, number: int) -> Entry:
        """Return the entry with a number. Raises NotFoundError if the trace has no such entry."""
        self.settle()
        for entry in self._entries:
            if entry.number == number:
                return entry
        numbers = f"it has {self._entries[0].number} to {self._number}" if self._entries else "it is empty"
        raise NotFoundError(f"the trace has no message {number}; {numbers}, `%mcp trace` lists them")

    def __len__(self) -> int:
        self.settle()
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries())

    def __repr__(self) -> str:
        return f"<Trace of {plural(len(self), 'messages')}, {self.size:,} bytes>"


def is_masked(value: Any) -> bool:
    """Whether a value of a kept message is a mask or contains one."""
    if isinstance(value, dict):
        return any(is_masked(inner) for inner in value.values())
    if isinstance(value, list):
        return any(is_masked(inner) for inner in value)
    return isinstance(value, str) and MASK in value


# The recording of one connection's messages in its host's trace: masked, paired, timed.

WAITING = 10_000
"""Most requests without an answer that are remembered: a server that never answers must not fill the memory."""

MAX_STDERR_LINE = 4000  # most characters that are kept of a line of stderr, or of output that is no message

MAX_NAME = 200  # most characters kept of a method and of an id besides the text; a server may send longer ones

_SCHEMAS = frozenset(("tools/list", "elicitation/create", "sampling/createMessage", "server/discover"))
"""Methods whose messages hold JSON Schemas."""

_HEADERS = ("content-type", "retry-after", "location")  # HTTP headers of an answer that are useful and hold no secret

being_sent: ContextVar[Entry | None] = ContextVar("mcp_magic_being_sent", default=None)
"""The message that is being sent. HTTP transports post it in the sender's context."""


class Tap:
    """Sees the messages of a connection as they are sent and received, unmasked. Subclasses override its callbacks."""

    reads_stderr = False

    def opened(self) -> None:
        """A session is open."""

    def message(self, direction: str, message: dict[str, Any]) -> None:
        """A JSON-RPC message is about to be sent (`OUT`) or has arrived (`IN`)."""

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


def _kind(message: dict[str, Any]) -> str:
    if "method" in message:
        return "notification" if message.get("id") is None else "request"
    result = message.get("result")
    is_error = "error" in message or (isinstance(result, dict) and result.get("isError") is True)
    return "error" if is_error else "answer"


T = TypeVar("T", bound=Tap)


class Recorder:
    """Records the messages of one connection in a trace, with the secrets of its spec masked."""

    def __init__(self, server: str, spec: Spec, trace: Trace | None = None, taps: Iterable[Tap] = ()) -> None:
        self.server = server
        self.trace = Trace() if trace is None else trace
        self._set(tuple(taps))
        self._masker = Masker(spec.secrets)
        self._asked: dict[str, dict[str, Entry]] = {OUT: {}, IN: {}}
        self._lines: Lines | None = None
        self._begins = False
        self._latest = 0.0  # the moment of the latest line of stderr

    def add(self, tap: Tap) -> None:
        """Add a tap."""
        self._set((*self._taps, tap))

    def remove(self, tap: Tap) -> None:
        """Remove a tap."""
        self._set(tuple(member for member in self._taps if member is not tap))

    def find(self, kind: type[T]) -> T | None:
        """Return the tap of a class, or None."""
        return next((tap for tap in self._taps if isinstance(tap, kind)), None)

    def _set(self, taps: tuple[Tap, ...]) -> None:
        self._taps = taps
        self._readers = tuple(tap for tap in taps if tap.reads_stderr)
        self._listeners = tuple(tap for tap in taps if type(tap).message is not Tap.message)

    @property
    def entries(self) -> list[Entry]:
        """The messages under this connection's name, oldest first."""
        return self.trace.entries(self.server)

    def __repr__(self) -> str:
        return f"<Recorder of {self.server!r}: {plural(len(self.entries), 'messages')}>"

    def message(self, direction: str, message: dict[str, Any]) -> Entry:
        """Record a JSON-RPC message; return the entry, which `http` completes and the trace keeps unless it is off."""
        if (direction == IN or self._begins) and self._lines is not None and self._lines.is_behind:
            self.stderr()
        self._begins = False
        for tap in self._listeners:
            tap.message(direction, message)
        number = message.get("id")
        if isinstance(number, str) and len(number) > MAX_NAME:
            number = number[:MAX_NAME]
        entry = Entry(self.server, direction, number)
        if self.trace.messages:
            entry.write(_kind(message), message.get("method", ""), *self._masker.write(message))
            self.trace.add(self, entry)
        return entry

    def settle(self, batch: list[Entry]) -> int:
        """Pair and mask the messages of a batch, and set how long their requests took; return their bytes.

        The messages are searched for secrets together, and one by one only if there may be some.
        """
        self._pair(batch)
        if self._masker.may_hold_secrets(b"\n".join(entry.text for entry in batch)):
            for entry in batch:
                self._mask(entry)
        return sum(len(entry.text) for entry in batch)

    def _pair(self, batch: list[Entry]) -> None:
        """Set the time of each message, and find the request of each answer."""
        ago = time() - perf_counter()
        for entry in batch:
            entry.time = entry.moment + ago
            entry.pair = entry.seconds = None
            kind, number = entry.kind, str(entry.id)
            if kind == "request":
                requests = self._asked[entry.direction]
                requests[number] = entry
                if len(requests) > WAITING:
                    del requests[next(iter(requests))]
            elif kind in ("answer", "error"):
                request = self._asked[OUT if entry.direction == IN else IN].pop(number, None)
                if request is not None:
                    entry.method, entry.pair, entry.status = request.method, request.number, request.status
                    request.pair = entry.number
                    entry.seconds = request.seconds = entry.moment - request.moment

    def _mask(self, entry: Entry) -> None:
        if entry.kind in ("line", "garbage"):
            text = entry.text.decode("utf-8")
            masked = self._masker.text(text).encode("utf-8", "replace")
        else:
            masked = self._masker.mask(entry.text, schemas=entry.direction == IN and entry.method in _SCHEMAS)
        if masked != entry.text:
            entry.text, entry.whole = masked, False

    def give_up(self, number: int | str | None, why: Fault) -> None:
        """Note that nobody waits for the answer to a request any more, or, without a number, to any request."""
        self.trace.settle()  # an answer may have come
        requests = self._asked[OUT]
        for entry in requests.values() if number is None else filter(None, [requests.get(str(number))]):
            if not entry.failed:
                entry.gave_up, entry.seconds = why, perf_counter() - entry.moment

    def kept(self, method: str, params: dict[str, Any], seconds: float) -> None:
        """Record a request that was not sent, because its answer of `seconds` ago is kept."""
        if self.trace.messages:
            entry = Entry(self.server, KEPT)
            text = self._masker.write({"method": method, "age": round(seconds, 3), "params": params})
            entry.write("kept", method, *text)
            self.trace.add(self, entry)

    def garbage(self, text: str, instead: dict[str, Any] | None = None) -> None:
        """Record output that is not a message; `instead` is the error that a request got in its place."""
        for tap in self._taps:
            tap.garbage(text, instead)
        if self.trace.messages:
            self._text(IN, "garbage", text)

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
        tokens = frozenset(secrets)
        self._masker.know(tokens)
        for tap in self._taps:
            tap.know(tokens)

    def conceal(self, answered: Mapping[str, Any]) -> None:
        """Mask the values that the user entered for a server, and all values of the same names, in the recording."""
        self._masker.conceal(answered)
        for tap in self._taps:
            tap.conceal(answered)

    @property
    def secrets(self) -> frozenset[str]:
        """The known secrets, tokens included."""
        return self._masker.secrets

    def masked(self, text: str) -> str:
        """Return text masked as the trace masks it: known secrets, and everything that looks like a secret."""
        self.trace.settle()
        return self._masker.text(text)

    def hide(self, text: str) -> str:
        """Return text with the known secrets masked."""
        self.trace.settle()  # a message may have brought one
        return self._masker.hide(text)

    def http(self, method: str, status: int, headers: Mapping[str, str], cookies: Iterable[str] = ()) -> None:
        """Record the HTTP status of the message that is being sent in this context; learn the cookies that are set."""
        for cookie in cookies:
            self._masker.learn_cookies("set-cookie", cookie)
            for tap in self._taps:
                tap.set_cookie(cookie)
        entry = being_sent.get()
        if entry is None or entry.status is not None or method != "POST":
            return
        entry.status = status
        for tap in self._taps:
            tap.answered(entry.id, status)
        entry.headers = {name: headers[name][:200] for name in _HEADERS if name in headers} or None

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
        ago = time() - perf_counter()
        for moment, line in self._lines.read(last=last):
            if self.trace.messages:
                # between the line before it and now, however the clocks differ
                self._latest = min(max(self._latest, moment - ago), perf_counter())
                self._text(STDERR, "line", line, self._latest)
            for tap in self._readers:
                tap.stderr(line)

    def _text(self, direction: str, kind: str, text: str, moment: float | None = None) -> None:
        entry = Entry(self.server, direction)
        if moment is not None:
            entry.moment = moment
        beginning = text[:MAX_STDERR_LINE].encode("utf-8", "replace")
        entry.write(kind, "", beginning, len(text.encode("utf-8", "replace")), len(text) <= MAX_STDERR_LINE)
        self.trace.add(self, entry)


def fault(entry: Entry) -> str | None:
    """Return whose fault a failed message is (`mcp_magic.protocol`); None for other messages and a tool's errors."""
    if entry.gave_up is not None:
        return entry.gave_up.party
    if entry.kind in ("answer", "error") and entry.pair is None and entry.direction == IN:
        return SERVER  # an answer without a request
    if not entry.failed or entry.kind == "line":
        return None
    if entry.kind == "garbage":
        return SERVER
    if entry.status is not None and entry.status >= 400:
        return party_of(of_status(entry.status))
    error = entry.message.get("error")
    if not isinstance(error, dict):
        return None
    if asked_in_vain(error.get("message")):
        return SERVER
    # an incoming answer belongs to our request, an outgoing one to the server's
    is_theirs = entry.direction != OUT
    return party_of(
        of_code(error.get("code"), entry.method, error.get("message") if is_theirs else ""), asked_by_us=is_theirs
    )
