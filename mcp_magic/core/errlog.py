"""What a stdio server writes to its standard error.

The SDK would hand the server `sys.stderr`: in a kernel that is the terminal that nobody sees, and
under nbval or on Windows it has no `fileno()` at all and every connect fails. So each server gets
an unnamed temporary file of ours, opened for appending. A file and not a pipe, because a server
that writes much must never block while the kernel computes. For the same reason a thread keeps the file small:
the loop may stand still for hours, in a busy kernel and in a terminal at its prompt.

A file is cut by giving its beginning back to the disk, which Linux does on most of its file systems. To read it,
truncate it and write its end again would lose what a server writes meanwhile. Elsewhere the server gets a pipe, which a
thread empties into memory: while Python code computes that thread has its turn, and the server waits only while
something else holds the interpreter for long.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO, cast

if TYPE_CHECKING:
    import re
    from types import TracebackType
    from typing import IO

__all__ = ["ErrorLog", "Position", "Written"]

TAIL_BYTES = 64 * 1024
"""Bytes read back at most; `%mcp logs` shows the end of what was written."""

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of the disk that the file may take before its beginning is given back: a chatty server must not fill it."""

_PUNCH_HOLE = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of `<linux/falloc.h>`."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the file's size; what a server writes in that time it may hold besides."""

SETTLE_SECONDS = 1.0
"""Seconds that what is in a pipe may take to be read."""


class Written(NamedTuple):
    """A piece of what a server wrote.

    Attributes:
        start: Where it begins, in bytes from the first that was ever written.
        end: Where it ends.
        data: It, without NULs: one who does not append leaves a hole where the file was cut.
        when: The time of the last write.
    """

    start: int
    end: int
    data: bytes
    when: float


class _Sink(Protocol):
    """Where a server's stderr goes.

    Attributes:
        file: What the server writes to.
    """

    file: IO[bytes]

    @property
    def end(self) -> int:
        """How many bytes were ever written."""

    def since(self, position: int) -> Written:
        """Return what was written from a position on: the last 64 KiB of it."""

    def cut(self) -> None:
        """Give back to the disk all but the tail, if it takes too much."""

    def close(self) -> None:
        """Let nothing more be read."""


class ErrorLog:
    """A real file for a server's stderr, and its tail.

    Read after `close` it still has the last lines, so that an error can name them.
    """

    def __init__(self) -> None:
        self._sink: _Sink = _AppendedFile() if _frees_beginnings(tempfile.gettempdir()) else _EmptiedPipe()
        self._last = Written(0, 0, b"", 0.0)
        self._hidden: list[tuple[int, int]] = []
        self._lock = threading.RLock()
        self._closed = threading.Event()

    @property
    def file(self) -> TextIO:
        """What to hand a subprocess as its stderr."""
        return cast("TextIO", self._sink.file)

    @property
    def end(self) -> int:
        """How many bytes were ever written."""
        with self._lock:
            return self._last.end if self._closed.is_set() else self._sink.end

    def since(self, position: int) -> Written:
        """Return what was written from a position on: the last 64 KiB of it; after `close` nothing."""
        with self._lock:
            return Written(position, position, b"", 0.0) if self._closed.is_set() else self._sink.since(position)

    def tail(self, position: int = 0) -> str:
        """Return the end of what was written, from a position on, at most 64 KiB of it; after `close` too."""
        found = self._kept()
        begin, shown = found.end - len(found.data), b""
        position = max(position, begin)
        for start, end in [*self._hidden, (found.end, found.end)]:
            shown += found.data[position - begin : max(start, position) - begin]
            position = max(position, end)
        return shown.decode("utf-8", "replace")

    def hide(self, pattern: re.Pattern[bytes] | None = None) -> None:
        """Keep what was written until now out of `tail`; the trace has it.

        Args:
            pattern: Where it begins; None for all of it. Nothing is hidden where it is not found.
        """
        found = self._kept()
        begin = found.end - len(found.data)
        match = pattern.search(found.data) if pattern is not None else None
        if pattern is None or match is not None:
            self._hidden.append((begin + match.start() if match is not None else 0, found.end))

    def _kept(self) -> Written:
        with self._lock:
            return self._last if self._closed.is_set() else self._tail()

    def _tail(self) -> Written:
        found = self._sink.since(0)
        return found._replace(data=found.data.partition(b"\n")[2] or found.data) if found.start else found

    def cut(self) -> None:
        """Cut it back to its tail if it takes too much of the disk."""
        with self._lock:
            if not self._closed.is_set():
                self._sink.cut()

    def keep_small(self) -> None:
        """Cut it again and again, until it is closed, whatever the loop does."""
        threading.Thread(target=self._keep_small, name="mcp_magic stderr", daemon=True).start()

    def _keep_small(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with suppress(OSError):  # the disk is full, of something else
                self.cut()

    def write(self, line: str) -> None:
        """Write a line, as a server would."""
        if not self._closed.is_set():
            self._sink.file.write(f"{line}\n".encode())

    def last_lines(self, count: int = 5) -> list[str]:
        """Return the last lines that are not blank."""
        lines = [line.rstrip() for line in self.tail().splitlines() if line.strip()]
        return lines[-count:]

    def close(self) -> None:
        """Close it; the tail stays readable. Closing twice is fine."""
        with self._lock:
            if not self._closed.is_set():
                self._last = self._tail()
                self._closed.set()
                self._sink.close()

    def __enter__(self) -> ErrorLog:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _AppendedFile:
    """A file without a name, whose beginning can be given back to the disk while somebody writes to its end."""

    def __init__(self) -> None:
        # "ab" opens with O_APPEND: wherever this process reads, the server writes at the end.
        handle, path = tempfile.mkstemp(prefix="mcp_magic-", suffix=".stderr")
        os.close(handle)
        self.file: IO[bytes] = open(path, "a+b", buffering=0)  # noqa: SIM115, PTH123 (closed by close())
        os.unlink(path)  # noqa: PTH108

    @property
    def end(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def since(self, position: int) -> Written:
        status = os.fstat(self.file.fileno())
        end = status.st_size
        start = min(max(position, end - TAIL_BYTES), end)
        self.file.seek(start)
        return Written(start, end, self.file.read(end - start).replace(b"\0", b""), status.st_mtime)

    def cut(self) -> None:
        status = os.fstat(self.file.fileno())
        # one with holes is larger than what it takes; some network drives say that it takes nothing
        if min(status.st_size, status.st_blocks * 512 or status.st_size) > MAX_BYTES:
            _free(self.file.fileno(), status.st_size - TAIL_BYTES)

    def close(self) -> None:
        self.file.close()


class _EmptiedPipe:
    """A pipe that a thread empties into memory, where the tail is kept."""

    def __init__(self) -> None:
        self._source, sink = os.pipe()
        self.file: IO[bytes] = open(sink, "wb", buffering=0)  # noqa: SIM115, PTH123 (closed by close())
        self._kept = bytearray()
        self._dropped, self._when = 0, 0.0
        self._mark = os.urandom(16)
        self._marked, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._empty, name="mcp_magic stderr pipe", daemon=True)
        self._closing = False
        self._thread.start()

    @property
    def end(self) -> int:
        self._settle()  # what was written is in the pipe until the thread has read it
        with self._lock:
            return self._dropped + len(self._kept)

    def since(self, position: int) -> Written:
        self._settle()
        with self._lock:
            end = self._dropped + len(self._kept)
            start = min(max(position, self._dropped, end - TAIL_BYTES), end)
            return Written(start, end, bytes(self._kept[start - self._dropped :]).replace(b"\0", b""), self._when)

    def cut(self) -> None:
        """Do nothing: it takes nothing of the disk."""

    def close(self) -> None:
        self._closing = True
        self._settle()
        self._thread.join(SETTLE_SECONDS)
        self.file.close()

    def _settle(self) -> None:
        """Wait until all that was written before has been read: a mark comes after it."""
        self._marked.clear()
        self.file.write(self._mark)
        self._marked.wait(SETTLE_SECONDS)

    def _empty(self) -> None:
        while True:
            piece = os.read(self._source, TAIL_BYTES)
            with self._lock:
                self._kept += piece
                found = self._kept.rfind(self._mark)
                if found >= 0:
                    del self._kept[found : found + len(self._mark)]
                    self._marked.set()
                if len(piece) > len(self._mark) or found < 0:
                    self._when = time.time()
                if (more := len(self._kept) - 2 * TAIL_BYTES) > 0:
                    del self._kept[:more]
                    self._dropped += more
            if found >= 0 and self._closing:
                os.close(self._source)
                return


@cache
def _frees_beginnings(folder: str) -> bool:
    """Whether the disk that a folder is on takes back the beginning of a file."""
    if sys.platform != "linux":
        return False
    with tempfile.TemporaryFile(dir=folder) as file:
        return _free(file.fileno(), 4096)


def _free(number: int, length: int) -> bool:
    """Give back to the disk what a file holds at its beginning; its size, and what is written meanwhile, stay.

    Returns:
        Whether that was done: by Linux, on most of its file systems.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(fallocate(number, _PUNCH_HOLE, 0, length) == 0)


class Position(NamedTuple):
    """How much a server had written to its stderr at some time."""

    errlog: ErrorLog
    end: int
