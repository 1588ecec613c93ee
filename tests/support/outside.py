"""Serves a kernel server over HTTP from a thread of its own, as `%mcp serve --kernel` does."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_magic.loopback import HOST, LoopbackServer, listen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.outside.gateway import KernelServer


@contextmanager
def served(kernel: KernelServer) -> Iterator[str]:
    """Serve it until the context exits; yield the URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="outside", daemon=True)
    thread.start()
    loopback = LoopbackServer(kernel.streamable_http_app(host=HOST), lambda scope: None, "outside")
    listening = listen()
    asyncio.run_coroutine_threadsafe(loopback.start(listening), loop).result(30)
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}/mcp"
    finally:
        asyncio.run_coroutine_threadsafe(_stop(loopback), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _stop(loopback: LoopbackServer) -> None:
    await loopback.stop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
