"""The trace: every message between this host and its servers, as they went over the wire.

A ring: what is oldest goes when there are too many messages or bytes. What is kept of a message is a plain list, with
its masked JSON text. All the rest is done when somebody looks, or for some hundred messages at once: numbering them,
finding which answer is whose, counting, parsing; a call pays for what is done while it runs.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.errors import NotFoundError
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["IN", "OUT", "STDERR", "Entry", "Row", "Trace"]

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

NUMBER, _, SERVER, DIRECTION, KIND, METHOD, ID, SIZE, TEXT, _, SECONDS, PAIR, STATUS, HEADERS = range(14)
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
        return [Entry(*row) for row in self._rows if server is None or row[SERVER] == server]

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
