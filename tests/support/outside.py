"""Serves a kernel server over HTTP from a thread of its own, as `%mcp serve --kernel` does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.loopback import HOST, LoopbackServer, listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.outside.gateway import KernelServer


@asynccontextmanager
async def served(kernel: KernelServer, **options: Any) -> AsyncIterator[str]:
    """Serve it until the context exits, with options of the application; yield the URL."""
    app = kernel.streamable_http_app(host=HOST, **options)
    loopback = LoopbackServer(app, lambda scope: None, "outside", own_thread=True)
    listening = listen()
    await loopback.start(listening)
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}/mcp"
    finally:
        await loopback.stop()
