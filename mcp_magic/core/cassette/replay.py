"""A transport that answers from a cassette: no server is started, nothing is sent."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.matching import difference
from mcp_magic.core.cassette.scenes import LISTEN, subscription_of, with_subscription
from mcp_magic.core.cassette.take import masked
from mcp_magic.core.place import NOT_RECORDED
from mcp_magic.core.trace.streams import members
from mcp_magic.core.trace.trace import IN, OUT

if TYPE_CHECKING:
    from types import TracebackType

    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.cassette.matching import Server
    from mcp_magic.core.cassette.scenes import Scene, Step
    from mcp_magic.core.cassette.through import Through
    from mcp_magic.core.transports import Line

__all__ = ["Replay"]

SHORTENED = 0.01
"""Seconds that a pause takes at most, unless the recorded ones are kept; they keep what is streamed in order."""

INTERNAL_ERROR = -32603

_WITHOUT: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "completion/complete": {"completion": {"values": []}},
}
"""What is answered to requests that are made by the way and change nothing, where there is no recorded answer."""

_COMPARED = ("elicitation/create",)
"""Requests of servers whose answers have to be the recorded ones: the server would have gone on differently."""


class Replay:
    """One session that is replayed; it is both ends of the way to the server.

    Args:
        cassette: The cassette.
        server: What was recorded of the server.
        session: Which of its sessions this is.
        line: The connection's line.
        through: Reaches the server for what was not recorded, or None.
    """

    def __init__(
        self, cassette: Cassette, server: Server, session: int, line: Line, through: Through | None = None
    ) -> None:
        self._cassette = cassette
        self._server = server
        self._session = session
        self._line = line
        self._through = through
        if through is not None:
            through.deliver = self.deliver
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._listens: dict[str, Any] = {}
        self._number = 0

    async def __aenter__(self) -> tuple[Any, Any]:
        import anyio

        self._to_client, read = anyio.create_memory_object_stream[Any](math.inf)
        return read, _Write(self)

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
        params = message.get("params") or {}
        if message["method"] == "notifications/cancelled":
            task = self._playing.get(str(params.get("requestId")))
            if task is not None:
                task.cancel()
        elif (scene := self._find(message["method"], params)) is not None:
            task = asyncio.create_task(self._steps(scene, None))
            self._others.add(task)
            task.add_done_callback(self._others.discard)
        if self._through is not None:
            await self._through.send(item, message)

    def _find(self, method: str, params: dict[str, Any], *, responses: bool = True) -> Scene | None:
        known = masked(self._cassette, params, method)
        return self._server.find(self._session, method, known, responses=responses)

    async def _play(self, item: Any, message: dict[str, Any]) -> None:
        """Answer a request."""
        method, params = message["method"], message.get("params") or {}
        scene = self._find(method, params)
        try:
            if scene is not None:
                self._cassette.played += 1
                await self._steps(scene, message["id"])
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

    async def _steps(self, scene: Scene, number: Any) -> None:
        if scene.method == LISTEN:
            self._listens[str(scene.id)] = number
        for step in scene.steps:
            await asyncio.sleep(step.pause if self._cassette.pauses else min(step.pause, SHORTENED))
            if step.kind == "stderr":
                self._wrote(step.message["text"])
            elif step.kind == "answer" and (round_ := self._next_round(scene, step)) is not None:
                await self._steps(round_, number)
            elif step.kind == "answer":
                self._put({**step.message, "id": number})
            elif step.kind == "told":
                self._put(self._told(step.message, number))
            elif (problem := await self._ask(step)) and number is not None:
                self._refuse(number, problem)
                return
        if number is not None and not scene.answered and not scene.cancelled and scene.method != LISTEN:
            self._refuse(number, "its recording ends before it was answered")
        elif number is not None and not scene.answered:
            await asyncio.Event().wait()  # as it was: until whoever waits gives it up

    def _next_round(self, scene: Scene, step: Step) -> Scene | None:
        """Return what was recorded after a question of the server (`input_required`), where nobody is asked it."""
        result = step.message.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required" or self._cassette.asks():
            return None
        params = {name: value for name, value in scene.params.items() if name not in ("inputResponses", "requestState")}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return self._find(scene.method, {**params, **state, "inputResponses": {}}, responses=False)

    def _wrote(self, text: str) -> None:
        """Write what the server wrote to its stderr where it would be."""
        if self._line.errlog is not None:
            self._line.errlog.write(text)

    def _told(self, message: dict[str, Any], number: Any) -> dict[str, Any]:
        """Return a notification with the ids of this session."""
        params = message.get("params") or {}
        if message["method"] == "notifications/progress" and number is not None:
            return {**message, "params": {**params, "progressToken": number}}
        listen = subscription_of(message)
        if listen is not None:
            mine = self._listens.get(str(listen), listen)
            return with_subscription(message, str(mine) if isinstance(listen, str) else mine)
        return message

    async def _ask(self, step: Step) -> str:
        """Ask the client what the server asked; return why it cannot go on after the answer, or ""."""
        recorded = step.reply or {}
        if not self._cassette.asks():
            self._line.recorder.message(IN, {"jsonrpc": "2.0", **step.message})
            if recorded:
                self._line.recorder.message(OUT, {"jsonrpc": "2.0", **recorded})
            return ""
        self._number += 1
        number = f"replayed-{self._number}"
        self._asked[number] = waiting = asyncio.get_running_loop().create_future()
        self._put({**step.message, "id": number})
        answer = await waiting
        method = step.message["method"]
        if method not in _COMPARED or "result" not in recorded:
            return ""
        mine, its = masked(self._cassette, answer.get("result"), method), recorded["result"]
        mine, its = _answer(mine), _answer(its)
        return "" if mine == its else f"{method} was answered otherwise when it was recorded: {difference(mine, its)}"

    def _refuse(self, number: Any, why: str) -> None:
        name = f"{self._server.name}: {why}"
        text = f"{name}.\n  (cassette {self._cassette.path}; {self._cassette.adds} adds what is missing)"
        self._put({"id": number, "error": {"code": INTERNAL_ERROR, "message": text, "data": {NOT_RECORDED: True}}})

    def _put(self, message: dict[str, Any]) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        made = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message}, by_name=False)
        self.deliver(SessionMessage(made))

    def deliver(self, item: Any) -> None:
        """Give something to the client."""
        import anyio

        try:
            self._to_client.send_nowait(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # it has left


def _answer(result: Any) -> Any:
    """Return what counts of an answer."""
    kept = result if isinstance(result, dict) else {}
    return {name: value for name, value in kept.items() if name in ("action", "content") and value is not None}


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
