"""What a stdio server writes to its standard error.

The SDK would hand the server `sys.stderr`: in a kernel that is the terminal that nobody sees, and
under nbval or on Windows it has no `fileno()` at all and every connect fails. So each server gets
an unnamed temporary file of ours, opened for appending. A file and not a pipe, because a server
that writes much must never block while the kernel computes.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ErrorLog"]

TAIL_BYTES = 64 * 1024
"""Bytes read back at most; `%mcp logs` shows the end of what was written."""

MAX_BYTES = 16 * 1024 * 1024
"""Bytes the file may hold before it is cut back to its tail: a chatty server must not fill the disk."""


class ErrorLog:
    """A real file for a server's stderr, and its tail.

    Read after `close` it still has the last lines, so that an error can name them.
    """

    def __init__(self) -> None:
        # "ab" opens with O_APPEND: the server goes on at the end after the file was cut.
        handle, path = tempfile.mkstemp(prefix="mcp_magic-", suffix=".stderr")
        os.close(handle)
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115, PTH123 (closed by close())
        self._last = b""
        try:
            os.unlink(path)  # noqa: PTH108
            self._path = ""
        except OSError:  # Windows: in use, unlinked by close()
            self._path = path

    @property
    def file(self) -> TextIO:
        """What to hand a subprocess as its stderr."""
        return cast("TextIO", self._file)

    def tail(self) -> str:
        """Return the end of what was written, at most 64 KiB of it."""
        if self._file.closed:
            return self._last.decode("utf-8", "replace")
        size = os.fstat(self._file.fileno()).st_size
        self._file.seek(max(0, size - TAIL_BYTES))
        data = self._file.read()
        if size > TAIL_BYTES:
            data = data.partition(b"\n")[2] or data
        if size > MAX_BYTES:
            self._file.truncate(0)
            self._file.write(data)
        return data.decode("utf-8", "replace")

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
        if self._file.closed:
            return
        self._last = self.tail().encode()
        self._file.close()
        if self._path:
            os.unlink(self._path)  # noqa: PTH108

    def __enter__(self) -> ErrorLog:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
