"""Where Python runs: in a browser there are no threads and no sockets."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IN_BROWSER", "call_without_threads"]


# Python in a browser: Pyodide, as in JupyterLite. There it can start no program, no thread, and open no socket.

IN_BROWSER: bool = sys.platform == "emscripten"
"""Whether this is such a Python."""


# Servers in a Python without threads, in a browser.
#
# The SDK calls each function of a server that is no coroutine on a thread, by way of anyio, which has no other way
# there.


def call_without_threads() -> None:
    """Let anyio call functions on the loop, where there is no thread to call them on."""
    if IN_BROWSER:
        from anyio import to_thread

        to_thread.run_sync = _run_sync  # type: ignore[assignment]


async def _run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    # what asyncio calls a thread is the loop itself there
    return await asyncio.to_thread(function, *arguments)
