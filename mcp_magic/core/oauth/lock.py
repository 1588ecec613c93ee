"""One kernel at a time: whoever refreshes a token gets a new refresh token, and the old one is worth nothing.

The lock is the operating system's, on a file that stays: it ends with the process that holds it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["locked", "try_lock"]

LOCK_SECONDS = 15.0
"""Seconds to wait for another kernel that refreshes; then it hangs, and we refresh ourselves."""

POLL_SECONDS = 0.03

FAR = 2**30


if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process; return False if another one has."""
        try:
            os.lseek(descriptor, FAR, os.SEEK_SET)  # Windows lets nobody else read what is locked
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process; return False if another one has."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock of a file; without one if the file cannot be made, or is held for too long."""
    descriptor = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        pass
    try:
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        while descriptor is not None and not try_lock(descriptor):
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
