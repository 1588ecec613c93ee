"""Asks a server how an argument may go on, not at every keystroke but when the person pauses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.connection import Connection

    Offer = Callable[[list[str]], None]

__all__ = ["Completer"]

PAUSE_SECONDS = 0.2
"""How long a person must have stopped typing; a keystroke takes about 0.15."""


class Completer:
    """Completes the arguments of one prompt or resource template.

    Args:
        connection: The session.
        reference: The prompt or template, as `completion/complete` names it.
        given: Returns the other arguments, which the server may take into account.
        loop: The connection's event loop.
    """

    def __init__(
        self,
        connection: Connection,
        reference: Any,
        given: Callable[[], dict[str, Any]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._reference = reference
        self._given = given
        self._loop = loop
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, name: str, text: str, offer: Offer) -> None:
        """Ask soon, unless the person types on; from any thread."""
        self._loop.call_soon_threadsafe(self._ask, name, text, offer)

    def close(self) -> None:
        """Ask no more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        for task in self._asking.values():
            task.cancel()

    def _ask(self, name: str, text: str, offer: Offer) -> None:
        if name in self._asking:
            self._asking[name].cancel()
        task = self._asking[name] = self._loop.create_task(self._complete(name, text, offer))
        task.add_done_callback(lambda done: self._forget(name, done))

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._asking.get(name) is task:
            del self._asking[name]

    async def _complete(self, name: str, text: str, offer: Offer) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        given = {other: value for other, value in self._given().items() if other != name and isinstance(value, str)}
        try:
            values = await self._connection.complete(self._reference, name, text, given)
        except MCPMagicError:  # suggestions are a help; that there are none is no error
            values = []
        offer(values)
