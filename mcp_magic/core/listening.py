"""The stream on which a server of 2026-07-28 says that its lists have changed; opened again whenever it ends."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.foreign import has_ended, is_transport_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client

__all__ = ["follow_changes"]

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""How long to wait before a stream that ended is opened again; twice as long each time."""

LASTED_SECONDS = 60.0
"""Seconds after which a stream that ends has been a good one: the pauses begin anew."""

_REFUSED = (-32601, -32602, -32600)
"""Error codes of a server that has no such stream, whatever its capabilities say."""


async def follow_changes(
    client: Client, note: Callable[[Any], None], missed: Callable[[], None], doubted: Callable[[BaseException], None]
) -> None:
    """Follow the change events of a 2026-07-28 session, where the server announces any, until it is cancelled.

    Args:
        client: The session.
        note: Called with each event.
        missed: Called when the stream is there again: what changed meanwhile was not announced.
        doubted: Told that the connection to the server was lost.
    """
    wanted = _announced(client)
    if client.session.discover_result is None or not any(wanted.values()):
        return
    pause, again = FIRST_PAUSE_SECONDS, False
    while True:
        started = time.monotonic()
        try:
            async with client.listen(**wanted) as events:
                if again:
                    missed()
                async for event in events:
                    note(event)
        except Exception as error:
            why = error.__cause__ or error
            if getattr(why, "code", None) in _REFUSED:
                return
            if has_ended(why) or is_transport_error(why):
                doubted(why)
        again = True
        if time.monotonic() - started > LASTED_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _announced(client: Client) -> dict[str, Any]:
    capabilities = client.server_capabilities
    return {
        f"{kind}_list_changed": bool((found := getattr(capabilities, kind)) is not None and found.list_changed)
        for kind in ("tools", "prompts", "resources")
    }
