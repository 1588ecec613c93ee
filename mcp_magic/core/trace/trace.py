"""The trace: every message between this host and its servers, as they went over the wire.

A ring: what is oldest goes when there are too many messages or bytes. What is kept is masked JSON text;
it is parsed and laid out only when somebody looks at it, so that tracing costs a call next to nothing.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_magic.config.masking import MASK
from mcp_magic.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["IN", "OUT", "STDERR", "Entry", "Trace"]

OUT, IN, STDERR = "→", "←", "stderr"

MAX_MESSAGES = 10_000
MAX_BYTES = 64_000_000

ENTRY_BYTES = 600
"""Bytes that an entry takes besides its text; small messages would fill the memory uncounted."""


@dataclass(slots=True, repr=False)
class Entry:
    """One message.

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


class Trace:
    """The messages of one host, a bounded ring.

    Attributes:
        messages: How many are kept at most; 0: nothing is kept.
        bytes: Bytes they may take.
        size: Bytes they take.
        dropped: How many went to make room.
    """

    def __init__(self, messages: int = MAX_MESSAGES, bytes: int = MAX_BYTES) -> None:
        self.messages = messages
        self.bytes = bytes
        self.size = 0
        self.dropped = 0
        self.flush: dict[int, Callable[[], None]] = {}
        self._entries: deque[Entry] = deque()
        self._number = 0

    def add(self, entry: Entry) -> None:
        """Keep an entry, give it its number and drop the oldest for it where that is needed."""
        self._number += 1
        entry.number = self._number
        self._entries.append(entry)
        self.size += len(entry.text) + ENTRY_BYTES
        if len(self._entries) > self.messages or self.size > self.bytes:
            self._shrink()

    def limit(self, messages: int, bytes: int) -> None:
        """Set how much is kept."""
        self.messages, self.bytes = messages, bytes
        self._shrink()

    def clear(self) -> None:
        """Forget all messages; the numbers go on."""
        self._entries.clear()
        self.size = 0

    def _shrink(self) -> None:
        while self._entries and (len(self._entries) > self.messages or self.size > self.bytes):
            self.size -= len(self._entries.popleft().text) + ENTRY_BYTES
            self.dropped += 1

    def entries(self, server: str | None = None) -> list[Entry]:
        """Return what is kept, oldest first, of one server or of all; stderr that was not looked at yet too."""
        for read in list(self.flush.values()):
            read()
        return [entry for entry in self._entries if server is None or entry.server == server]

    def find(self, number: int) -> Entry:
        """Return the entry with a number.

        Raises:
            NotFoundError: It is not kept.
        """
        for entry in self._entries:
            if entry.number == number:
                return entry
        kept = f"it has {self._entries[0].number} to {self._number}" if self._entries else "it is empty"
        raise NotFoundError(f"the trace has no message {number}; {kept}, `%mcp trace` lists them")

    def __len__(self) -> int:
        return len(self._entries)

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
