"""Connections that are cancelled in the middle of the TLS handshake.

The HTTP client closes its socket when the handshake fails but not when whoever waits for it is cancelled (an interrupt,
the end of a probe): the socket would stay open as long as the kernel.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["ClosesHalfOpen"]


class ClosesHalfOpen:
    """The "trace" extension of one request: closes a connection whose TLS handshake does not end well.

    Args:
        then: Is told of each event before that.
    """

    def __init__(self, then: Callable[[str, dict[str, Any]], Awaitable[None]]) -> None:
        self._then = then
        self._stream: Any = None

    async def __call__(self, event: str, info: dict[str, Any]) -> None:
        """Take an event of the HTTP client."""
        await self._then(event, info)
        if event.endswith("connect_tcp.complete"):
            self._stream = info.get("return_value")
        elif event.endswith("start_tls.complete"):
            self._stream = None
        elif event.endswith("start_tls.failed") and self._stream is not None:
            stream, self._stream = self._stream, None
            with suppress(Exception):
                await stream.aclose()
