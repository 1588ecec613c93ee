"""Support for Python in a browser (Pyodide, as in JupyterLite): it has no threads, sockets or subprocesses.

The same code runs there. It imports nothing that WebAssembly lacks, and a feature that needs a process, a socket or
LangGraph says so before it is tried. See `docs/jupyterlite.md`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


IN_BROWSER: bool = sys.platform == "emscripten"  # whether this Python runs in a browser


def call_without_threads() -> None:
    """In a browser, let anyio call functions on the event loop.

    The SDK calls each synchronous function of a server on a thread through anyio, which has no fallback.
    """
    if IN_BROWSER:
        from anyio import to_thread

        async def run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            # in Pyodide, asyncio.to_thread runs the function on the event loop itself
            return await asyncio.to_thread(function, *arguments)

        to_thread.run_sync = run_sync  # type: ignore[assignment]
