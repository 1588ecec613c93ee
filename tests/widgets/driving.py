"""Waits for what a click brings about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["until"]


async def until(condition: Callable[[], Any], timeout: float = 60.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.005)
