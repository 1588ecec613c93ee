"""Whole lines from a server's standard output, in time that grows with their length and not with its square.

The SDK's reader puts what it has read of a line together anew with every 64 kB that come: 100 MB in one line, which a
result with an image or a table may have, would take it minutes, during which the kernel does nothing else.
"""

from __future__ import annotations

from typing import Any

__all__ = ["read_whole_lines"]

MAX_LINE = 2**30
"""Bytes of one line; a server that writes on without an end would fill the memory."""


def read_whole_lines() -> None:
    """Let the SDK's stdio client read by whole lines."""
    from mcp.client import stdio

    module: Any = stdio
    if not isinstance(module.TextReceiveStream, _Reader):
        module.TextReceiveStream = _Reader(module.TextReceiveStream)


class _Reader:
    """Stands where the SDK's stdio client looks for anyio's `TextReceiveStream`."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __call__(self, stream: Any, encoding: str = "utf-8", errors: str = "strict") -> Any:
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            return self._usual(stream, encoding=encoding, errors=errors)
        return _WholeLines(stream, errors)


class _WholeLines:
    """Iterates over texts that end at the end of a line."""

    def __init__(self, stream: Any, errors: str) -> None:
        self._stream = stream
        self._errors = errors
        self._parts: list[bytes] = []
        self._size = 0

    def __aiter__(self) -> _WholeLines:
        return self

    async def __anext__(self) -> str:
        from anyio import BrokenResourceError, EndOfStream

        while True:
            try:
                chunk: bytes = await self._stream.receive()
            except EndOfStream:
                raise StopAsyncIteration from None
            whole, newline, rest = chunk.rpartition(b"\n")
            self._size += len(chunk)
            if not newline:
                self._parts.append(chunk)
                if self._size > MAX_LINE:
                    raise BrokenResourceError
                continue
            text = b"".join([*self._parts, whole, newline])
            self._parts, self._size = [rest], len(rest)
            return text.decode("utf-8", self._errors)
