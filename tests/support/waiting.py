"""Waits for a condition, instead of a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(true: Callable[[], Any], timeout: float = 60.0) -> None:
    """Wait for a condition that something else brings about."""
    async with asyncio.timeout(timeout):
        while not true():
            await asyncio.sleep(0.01)
