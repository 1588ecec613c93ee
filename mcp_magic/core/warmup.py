"""Slow imports, paid for while a server starts.

The first call of a tool with an output schema imports jsonschema, which beside JupyterLab takes one
to two seconds (its optional `rfc3987_syntax` builds a grammar at import). It is imported on a
thread while the handshake is under way.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys

__all__ = ["quiet_sdk_logging", "warm_up"]

_SLOW = ("jsonschema", "referencing")


async def warm_up() -> None:
    """Import what the first call needs, off the event loop; at once if it is there already."""
    if all(name in sys.modules for name in _SLOW):
        return
    await asyncio.to_thread(_import)


def _import() -> None:
    for name in _SLOW:
        importlib.import_module(name)


def quiet_sdk_logging() -> None:
    """Keep the SDK's log records off the notebook.

    Without a handler Python prints warnings and tracebacks to stderr, below whatever cell runs. What
    they say is in our errors, and whoever configures logging still gets them.
    """
    for name in ("mcp", "client", "httpx2"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
