"""Servers in a Python without threads, in a browser.

The SDK calls each function of a server that is no coroutine on a thread, by way of anyio, which has no other way there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic.browser import IN_BROWSER

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["call_without_threads"]


def call_without_threads() -> None:
    """Let anyio call functions on the loop, where there is no thread to call them on."""
    if IN_BROWSER:
        from anyio import to_thread

        to_thread.run_sync = _run_sync  # type: ignore[assignment]


async def _run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    # what asyncio calls a thread is the loop itself there
    return await asyncio.to_thread(function, *arguments)
