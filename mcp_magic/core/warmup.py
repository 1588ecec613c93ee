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


_NOISE = {"mcp.client": logging.CRITICAL, "client": logging.CRITICAL, "httpx2": logging.WARNING}
"""Logger -> the level from which it may speak in a notebook. What the client's records say is in our errors,
and httpx2 tells of every request."""


def quiet_sdk_logging() -> None:
    """Keep the SDK's log records off the notebook, unless somebody has set a level for them.

    Without a handler Python prints them to stderr, below whatever cell runs; with one they are printed
    as well: an `MCPServer` that is made in a cell configures the root logger.
    """
    for name, level in _NOISE.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
