"""Plays scenes: does in their order, and about when it was, what the server did."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.failures import error_of
from mcp_magic.core.cassette.matching import difference
from mcp_magic.core.cassette.order import Order
from mcp_magic.core.cassette.scenes import LISTEN, subscription_of, with_subscription
from mcp_magic.core.cassette.take import masked
from mcp_magic.core.malformed import Unreadable
from mcp_magic.core.outcome import current
from mcp_magic.core.place import NOT_RECORDED
from mcp_magic.core.trace.trace import IN, OUT

if TYPE_CHECKING:
    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.cassette.matching import Server
    from mcp_magic.core.cassette.scenes import Scene, Step
    from mcp_magic.core.wire import Wire

__all__ = ["Player", "message_of"]

SHORTENED = 0.01
"""Seconds that a pause takes at most, unless the recorded ones are kept; they keep what is streamed in order."""

INTERNAL_ERROR = -32603

_COMPARED = ("elicitation/create",)
"""Requests of servers whose answers have to be the recorded ones: the server would have gone on differently."""


def message_of(members: dict[str, Any]) -> Any:
    """Return the SDK's message that has these members."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    return SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **members}, by_name=False))


class Player:
    """What a session that is replayed does; `Replay` adds what the client says to it.

    Args:
        cassette: The cassette.
        server: What was recorded of the server.
        session: Which of its sessions this is.
        wire: The connection's wire.
    """

    def __init__(self, cassette: Cassette, server: Server, session: int, wire: Wire) -> None:
        self._cassette = cassette
        self._server = server
        self._session = session
        self._wire = wire
        self._order = Order()
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._listens: dict[str, Any] = {}
        self._ids: dict[str, Any] = {}
        self._number = 0
        self._ending: asyncio.Event | None = None
        self._to_client: Any = None
        # over streamable HTTP an answer comes in the context of its request, whatever its id
        self._posts = server.sessions[session].head.get("transport") == "http"

    def _find(self, method: str, params: dict[str, Any], *, responses: bool = True) -> Scene | None:
        """Return the scene of a request; one that is about to end has none but its own."""
        known, own = masked(self._cassette, params, method), self._ending is not None
        return self._server.find(self._session, method, known, responses=responses, own=own)

    async def _steps(self, scene: Scene, number: Any) -> None:
        """Play a scene.

        Args:
            scene: It.
            number: The id of the request it is played for, None for a notification.
        """
        if scene.method == LISTEN:
            self._listens[str(scene.id)] = number
        self._ids[str(scene.id)] = number
        own = scene.used == 1 and any(scene is one for one in self._server.sessions[self._session].scenes)
        try:
            for step in scene.steps:
                if not await self._step(scene, step, number, own=own):
                    return
        finally:
            self._order.leaves(scene)
        if number is None or scene.answered:
            return
        if not scene.settled and scene.method != LISTEN:
            self._refuse(number, "its recording ends before it was answered")
        else:
            await asyncio.Event().wait()  # as it was: until whoever waits gives it up

    async def _step(self, scene: Scene, step: Step, number: Any, *, own: bool) -> bool:
        """Do one thing that the server did, in its turn; return whether the scene goes on."""
        if step.kind == "ended" and not own:
            return True
        if own:
            self._order.awaits(scene, step.order)
        if step.kind == "ended" and (scene.answered or number is None):
            self._order.leaves(scene)
            await self._wait_for_end(step.pause)
        else:
            await asyncio.sleep(step.pause if self._cassette.pauses else min(step.pause, SHORTENED))
        if step.kind == "answer":
            await self._answered(step.http)
        if own:
            await self._order.turn(scene, step.order)
        if step.kind == "answer" and (round_ := self._next_round(scene, step)) is not None:
            self._order.leaves(scene)
            await self._steps(round_, number)
        elif step.kind != "asked":
            self._does(step, number)
        elif (problem := await self._ask(scene, step)) and number is not None:
            self._refuse(number, problem)
            return False
        return True

    def _does(self, step: Step, number: Any) -> None:
        if step.kind == "stderr":
            if self._wire.errlog is not None:
                self._wire.errlog.write(step.message["text"])
        elif step.kind == "garbage":
            error = {"id": number, "error": step.message["error"]} if "error" in step.message else None
            self.deliver(Unreadable(step.message["text"], message_of(error) if error is not None else None))
        elif step.kind == "ended":
            self._to_client.close()
        elif step.kind in ("answer", "stray"):
            said = step.message.get("id")
            mine = number if step.kind == "answer" else self._ids.get(str(said), said)
            self._put({**step.message, "id": str(mine) if isinstance(said, str) else mine})
        else:
            self._put(self._told(step.message, number))

    async def _wait_for_end(self, seconds: float) -> None:
        """Wait as long as the server lived on, idle; whoever asks for what was not asked then brings the end."""
        self._ending = self._ending or asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _answered(self, http: dict[str, Any]) -> None:
        """Let everybody know how HTTP answered who would know it from the answer itself."""
        if not self._server.sessions[self._session].http:
            return
        status = http.get("status", None if "lost" in http else 200)
        if status is not None:
            self._wire.recorder.http("POST", status, {})
        error = error_of(http)
        if (made := current.get()) is not None:
            made.status, made.retry_after = status, http.get("retry_after")
            made.refused, made.error = bool(http.get("refused")), error
        if "lost" in http and error is not None and self._wire.keeper is not None:
            self._wire.keeper.doubted(error)
            await asyncio.sleep(SHORTENED)  # for the question whether the server is there

    def _next_round(self, scene: Scene, step: Step) -> Scene | None:
        """Return what was recorded after a question of the server (`input_required`), where nobody is asked it."""
        result = step.message.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required" or self._cassette.asks():
            return None
        params = {name: value for name, value in scene.params.items() if name not in ("inputResponses", "requestState")}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return self._find(scene.method, {**params, **state, "inputResponses": {}}, responses=False)

    def _told(self, message: dict[str, Any], number: Any) -> dict[str, Any]:
        """Return a notification with the ids of this session."""
        params = message.get("params") or {}
        if message["method"] == "notifications/progress" and "progressToken" in params and number is not None:
            return {**message, "params": {**params, "progressToken": number}}
        listen = subscription_of(message)
        if listen is not None:
            mine = self._listens.get(str(listen), listen)
            return with_subscription(message, str(mine) if isinstance(listen, str) else mine)
        return message

    async def _ask(self, scene: Scene, step: Step) -> str:
        """Ask the client what the server asked; return why it cannot go on after the answer, or ""."""
        recorded = step.reply or {}
        if not self._cassette.asks():
            self._wire.recorder.message(IN, {"jsonrpc": "2.0", **step.message})
            if recorded:
                self._wire.recorder.message(OUT, {"jsonrpc": "2.0", **recorded})
            return ""
        self._number += 1
        number = f"replayed-{self._number}"
        self._asked[number] = waiting = asyncio.get_running_loop().create_future()
        self._put({**step.message, "id": number})
        self._order.leaves(scene)
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

    def _put(self, members: dict[str, Any]) -> None:
        self.deliver(message_of(members))

    def deliver(self, item: Any) -> None:
        """Give something to the client."""
        import anyio

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has left
            self._to_client.send_nowait((copy_context(), item) if self._posts else item)


def _answer(result: Any) -> Any:
    """Return what counts of an answer."""
    kept = result if isinstance(result, dict) else {}
    return {name: value for name, value in kept.items() if name in ("action", "content") and value is not None}
