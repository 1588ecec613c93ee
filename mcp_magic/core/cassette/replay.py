"""A transport that answers from a cassette: no server is started, nothing is sent."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.player import Player
from mcp_magic.core.cassette.scenes import LISTEN
from mcp_magic.core.cassette.take import masked
from mcp_magic.core.outcome import current
from mcp_magic.core.trace.streams import members

if TYPE_CHECKING:
    from types import TracebackType

    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.cassette.matching import Server
    from mcp_magic.core.cassette.through import Through
    from mcp_magic.core.wire import Wire

__all__ = ["Replay"]

ACCEPTED = 202
"""The HTTP status of what has no answer."""

_WITHOUT: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "completion/complete": {"completion": {"values": []}},
}
"""What is answered to requests that are made by the way and change nothing, where there is no recorded answer."""


class Replay(Player):
    """One session that is replayed; it is both ends of the way to the server.

    Args:
        cassette: The cassette.
        server: What was recorded of the server.
        session: Which of its sessions this is.
        wire: The connection's wire.
        through: Reaches the server for what was not recorded, or None.
    """

    def __init__(
        self, cassette: Cassette, server: Server, session: int, wire: Wire, through: Through | None = None
    ) -> None:
        super().__init__(cassette, server, session, wire)
        self._through = through
        if through is not None:
            through.deliver = self.deliver
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> tuple[Any, Any]:
        import anyio

        self._to_client, read = anyio.create_memory_object_stream[Any](math.inf)
        for step in self._server.sessions[self._session].early:
            self._does(step, None)
        if not self._posts:
            return read, _Write(self)
        from mcp.shared._context_streams import ContextReceiveStream

        return ContextReceiveStream(read), _Write(self)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [*self._playing.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        if self._through is not None:
            await self._through.close()
        self._to_client.close()

    async def sent(self, item: Any) -> None:
        """Do what was recorded for something that the client sent."""
        message = members(item.message)
        number = str(message.get("id"))
        if self._through is not None:
            self._through.remember(item, message)
        if "method" not in message:
            waiting = self._asked.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            elif self._through is not None:
                await self._through.send(item, message)
        elif "id" in message:
            task = asyncio.create_task(self._play(item, message))
            self._playing[number] = task
            task.add_done_callback(lambda _: self._playing.pop(number, None))
        else:
            await self._notified(item, message)

    async def _notified(self, item: Any, message: dict[str, Any]) -> None:
        params, given_up = message.get("params") or {}, message["method"] == "notifications/cancelled"
        # since 2026-07-28 the stream of the request is closed instead
        if self._server.sessions[self._session].http and not (given_up and self._wire.modern):
            self._wire.recorder.http("POST", ACCEPTED, {})
        if given_up:
            task = self._playing.get(str(params.get("requestId")))
            if task is not None:
                task.cancel()
        elif (scene := self._find(message["method"], params)) is not None:
            task = asyncio.create_task(self._steps(scene, None))
            self._others.add(task)
            task.add_done_callback(self._others.discard)
        if self._through is not None:
            await self._through.send(item, message)

    async def _play(self, item: Any, message: dict[str, Any]) -> None:
        """Answer a request."""
        method, params = message["method"], message.get("params") or {}
        scene = self._find(method, params)
        try:
            if scene is not None:
                self._cassette.played += 1
                await self._steps(scene, message["id"])
            elif self._ending is not None:
                if (outcome := current.get()) is not None:
                    outcome.refused = True  # it was not sent at all
                self._ending.set()  # nothing was asked any more: it had ended by then
            elif method == LISTEN:
                return  # nothing was announced
            elif method in _WITHOUT:
                self._put({"id": message["id"], "result": {"resultType": "complete", **_WITHOUT[method]}})
            elif self._through is not None:
                await self._through.ask(item, message)
            else:
                known = masked(self._cassette, params, method)
                self._refuse(message["id"], self._server.explain(method, known))
        except Exception as error:  # whoever waits must hear of it
            self._refuse(message["id"], f"it could not be replayed: {type(error).__name__}: {error}")


class _Write:
    """The client's way to the server."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    async def send(self, item: Any) -> None:
        await self._replay.sent(item)

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> _Write:
        return self

    async def __aexit__(self, *_: object) -> None:
        return
