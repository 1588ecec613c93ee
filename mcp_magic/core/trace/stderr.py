"""Reads what a server has written to its stderr since the last look, with the time of writing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.core.errlog import ErrorLog

__all__ = ["Lines"]

MOST_BYTES = 64 * 1024
"""Bytes read at one look; of more the beginning is passed over."""


class Lines:
    """The new lines of one log.

    Args:
        errlog: The file that the server writes to.
    """

    def __init__(self, errlog: ErrorLog) -> None:
        self._file = errlog.file
        self._read = 0
        self._rest = b""

    def read(self, *, last: bool = False) -> Iterator[tuple[float, str]]:
        """Yield the lines that were written since the last call, each with the time of the last write.

        Args:
            last: Whether a line that has not ended yet is one too.
        """
        if self._file.closed:
            return
        status = os.fstat(self._file.fileno())
        if status.st_size == self._read and not (last and self._rest):
            return
        if status.st_size < self._read:  # it was cut back to its tail
            self._read, self._rest = status.st_size, b""
            return
        start = max(self._read, status.st_size - MOST_BYTES)
        rest = self._rest if start == self._read else b""
        self._file.seek(start)
        *lines, self._rest = (rest + self._bytes()).split(b"\n")
        self._read = self._file.tell()
        if last:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                yield status.st_mtime, line.rstrip().decode("utf-8", "replace")

    def _bytes(self) -> bytes:
        found = self._file.read()
        return found.encode() if isinstance(found, str) else found
