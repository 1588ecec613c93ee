"""What a stdio server writes to its standard error.

The SDK would hand the server `sys.stderr`: in a kernel that is the terminal that nobody sees, and
under nbval or on Windows it has no `fileno()` at all and every connect fails. So each server gets
an unnamed temporary file of ours, opened for appending. A file and not a pipe, because a server
that writes much must never block while the kernel computes. For the same reason a thread keeps the file small:
the loop may stand still for hours, in a busy kernel and in a terminal at its prompt.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

if TYPE_CHECKING:
    import re
    from types import TracebackType

__all__ = ["ErrorLog", "Written"]

TAIL_BYTES = 64 * 1024
"""Bytes read back at most; `%mcp logs` shows the end of what was written."""

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of the disk that the file may take before its beginning is given back: a chatty server must not fill it."""

_PUNCH_HOLE = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of `<linux/falloc.h>`."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the file's size; what a server writes in that time it may hold besides."""


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


class ErrorLog:
    """A real file for a server's stderr, and its tail.

    Read after `close` it still has the last lines, so that an error can name them.
    """

    def __init__(self) -> None:
        # "ab" opens with O_APPEND: the server goes on at the end after the file was cut.
        handle, path = tempfile.mkstemp(prefix="mcp_magic-", suffix=".stderr")
        os.close(handle)
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115, PTH123 (closed by close())
        self._last = Written(0, 0, b"", 0.0)
        self._cut = 0  # bytes that were cut off the beginning
        self._hidden: list[tuple[int, int]] = []
        self._lock = threading.RLock()
        self._closed = threading.Event()
        try:
            os.unlink(path)  # noqa: PTH108
            self._path = ""
        except OSError:  # Windows: in use, unlinked by close()
            self._path = path

    @property
    def file(self) -> TextIO:
        """What to hand a subprocess as its stderr."""
        return cast("TextIO", self._file)

    @property
    def end(self) -> int:
        """How many bytes were ever written; after `close` those that were not cut off do not count."""
        with self._lock:
            return self._cut + (0 if self._file.closed else os.fstat(self._file.fileno()).st_size)

    def since(self, position: int) -> Written:
        """Return what was written from a position on: the last 64 KiB of it, as far as the file still has them."""
        with self._lock:
            if self._file.closed:
                return Written(position, position, b"", 0.0)
            status = os.fstat(self._file.fileno())
            end = self._cut + status.st_size
            start = min(max(position, self._cut, end - TAIL_BYTES), end)
            self._file.seek(start - self._cut)
            return Written(start, end, self._file.read(end - start).replace(b"\0", b""), status.st_mtime)

    def tail(self, position: int = 0) -> str:
        """Return the end of what was written, from a position on, at most 64 KiB of it; after `close` too."""
        found = self._last if self._file.closed else self._tail()
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
        found = self._last if self._file.closed else self._tail()
        begin = found.end - len(found.data)
        match = pattern.search(found.data) if pattern is not None else None
        if pattern is None or match is not None:
            self._hidden.append((begin + match.start() if match is not None else 0, found.end))

    def _tail(self) -> Written:
        found = self.since(0)
        return found._replace(data=found.data.partition(b"\n")[2] or found.data) if found.start > self._cut else found

    def cut(self) -> None:
        """Cut the file back to its tail if it holds too much."""
        with self._lock:
            if self._file.closed or _on_disk(status := os.fstat(self._file.fileno())) <= MAX_BYTES:
                return
            if _freed(self._file.fileno(), status.st_size - TAIL_BYTES):
                return
            found = self._tail()
            end, kept = found.end, found.data
            while more := self._file.read():  # what was written while this was read; what comes now is lost
                end, kept = end + len(more), kept + more
            self._file.truncate(0)
            self._cut = end - len(kept)
            self._file.write(kept)

    def keep_small(self) -> None:
        """Cut the file again and again, until it is closed, whatever the loop does."""
        threading.Thread(target=self._keep_small, name="mcp_magic stderr", daemon=True).start()

    def _keep_small(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with suppress(OSError):  # the disk is full, of something else
                self.cut()

    def write(self, line: str) -> None:
        """Write a line, as a server would."""
        if not self._file.closed:
            self._file.write(f"{line}\n".encode())

    def last_lines(self, count: int = 5) -> list[str]:
        """Return the last lines that are not blank."""
        lines = [line.rstrip() for line in self.tail().splitlines() if line.strip()]
        return lines[-count:]

    def close(self) -> None:
        """Close the file; the tail stays readable. Closing twice is fine."""
        with self._lock:
            if self._file.closed:
                return
            self._last = self._tail()
            self._file.close()
        self._closed.set()
        if self._path:
            os.unlink(self._path)  # noqa: PTH108

    def __enter__(self) -> ErrorLog:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _freed(number: int, length: int) -> bool:
    """Give back to the disk what a file holds at its beginning; its size, and what is written meanwhile, stay.

    Returns:
        Whether that was done: by Linux, on most of its file systems.
    """
    if sys.platform != "linux" or length <= 0:
        return False
    import ctypes

    libc = ctypes.CDLL(None)
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(fallocate(number, _PUNCH_HOLE, 0, length) == 0)


def _on_disk(status: os.stat_result) -> int:
    """Return the bytes that a file takes: one with holes is larger than that."""
    blocks = getattr(status, "st_blocks", 0)  # Windows does not say; some network drives say 0
    return min(status.st_size, blocks * 512) if blocks else status.st_size
