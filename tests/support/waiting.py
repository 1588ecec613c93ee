"""Waits for a condition, instead of a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(true: Callable[[], bool], timeout: float = 60.0) -> None:
    """Wait for a condition that something else brings about."""
    async with asyncio.timeout(timeout):
        while not true():
            await asyncio.sleep(0.01)


async def listening(port: int) -> None:
    """Return when somebody listens on a port: some say where they will before they do."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
