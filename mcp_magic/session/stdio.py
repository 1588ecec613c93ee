"""A reader of lines from a server's standard output, in time linear in their length.

The SDK's reader joins all parts of a line again with every 64 kB. A line of 100 MB, which a result with an image or a
table may have, would take it minutes, during which the kernel does nothing else.
"""

from __future__ import annotations

import json
import re
from functools import wraps
from typing import Any

MAX_MESSAGE = 2**28
"""Maximum number of bytes of one message: over stdio a line, over HTTP an event of a stream or the unpacked body of an
answer. An endless message must not fill the memory."""

_BEGINNING = 1000  # bytes at the beginning of a line in which to look for its id

_ID = re.compile(
    r'^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*,\s*"(?:result|error)"'
)
"""The id of an answer at the beginning of a line, the usual place."""

_ANSWER = re.compile(r'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:')
_END = 200
_LAST_ID = re.compile(r',\s*"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*\}\s*$')
"""The id at the end of a line, where the TypeScript SDK writes it."""


def read_whole_lines() -> None:
    """Let the SDK's stdio client read with this module's reader instead of anyio's `TextReceiveStream`."""
    from mcp.client import stdio

    module: Any = stdio
    usual = module.TextReceiveStream
    if hasattr(usual, "__wrapped__"):
        return

    @wraps(usual, updated=())
    def read(stream: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            return usual(stream, encoding=encoding, errors=errors)
        return _WholeLines(stream, errors)

    module.TextReceiveStream = read


class _WholeLines:
    """Iterates over texts of whole lines; replaces a line that is too long by an error."""

    def __init__(self, stream: Any, errors: str) -> None:
        from anyio import EndOfStream

        self._end_of_stream = EndOfStream
        self._stream = stream
        self._errors = errors
        self._parts: list[bytes] = []
        self._size = 0
        self._skips = False
        self._tail = b""
        self._answers = False

    def __aiter__(self) -> _WholeLines:
        return self

    async def __anext__(self) -> str:
        while True:
            try:
                chunk: bytes = await self._stream.receive()
            except self._end_of_stream:
                raise StopAsyncIteration from None
            said = ""
            if self._skips:
                skipped, newline, chunk = chunk.partition(b"\n")
                self._skips = not newline
                self._tail = (self._tail + skipped)[-_END:]
                if newline and self._answers and (number := _LAST_ID.search(self._tail.decode("utf-8", "replace"))):
                    said = _too_long(number[1])
            whole, newline, rest = chunk.rpartition(b"\n")
            self._size += len(chunk)
            if newline:
                text = b"".join([*self._parts, whole, newline])
                self._parts, self._size = [rest], len(rest)
                return said + text.decode("utf-8", self._errors)
            self._parts.append(chunk)
            if said:
                return said
            if self._size > MAX_MESSAGE:
                return self._too_long()

    def _too_long(self) -> str:
        """Drop the current line and the rest of it still to come; return an error for the request that it answers."""
        last = b"".join(self._parts[-2:])[-_END:]
        begun = b"".join(self._parts[:2])[:_BEGINNING].decode("utf-8", "replace")
        self._parts, self._size, self._skips = [], 0, True
        found = _ID.search(begun)
        self._tail, self._answers = last, found is None and _ANSWER.match(begun) is not None
        return _too_long(found[1]) if found is not None else begun[:200] + "\n"


def _too_long(number: str) -> str:
    message = f"the answer has more than {MAX_MESSAGE:,} bytes in its line, and was not read to its end"
    error = {"code": -32000, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(number), "error": error}) + "\n"
