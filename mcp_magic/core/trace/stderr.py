"""Reads what a server has written to its stderr since the last look, with the time of writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.core.errlog import ErrorLog

__all__ = ["Lines"]

LONGEST_LINE = 1 << 16
"""Bytes after which a line that does not end is taken for one."""


class Lines:
    """The new lines of one log.

    Args:
        errlog: The file that the server writes to.
    """

    def __init__(self, errlog: ErrorLog) -> None:
        self._errlog = errlog
        self._read = 0
        self._rest = b""

    def read(self, *, last: bool = False) -> Iterator[tuple[float, str]]:
        """Yield the lines that were written since the last call, each with the time of the last write.

        Of more than 64 KiB the beginning is passed over, and a line that is longer is more than one.

        Args:
            last: Whether a line that has not ended yet is one too.
        """
        if self._errlog.end == self._read and not (last and self._rest):
            return
        found = self._errlog.since(self._read)
        rest = self._rest if found.start == self._read else b""
        self._read = found.end
        *lines, self._rest = (rest + found.data).split(b"\n")
        if last or len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                yield found.when, line.rstrip().decode("utf-8", "replace")
