"""Replays recorded sessions in order, and passes requests that are not recorded on to the server."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from mcp_magic._sdk import context_stream, memory_transport
from mcp_magic._text import join_names
from mcp_magic.cassette.cassette import SessionRecorder, http_error, masked, recorded_error
from mcp_magic.cassette.match import LISTEN, MEMBERS, difference, response_of, subscription_of, with_subscription
from mcp_magic.config.specs import InProcessSpec
from mcp_magic.errors import CassetteError
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.protocol import INTERNAL_ERROR, note_said
from mcp_magic.session.failures import Unreadable, connect_error
from mcp_magic.session.reader import read_members
from mcp_magic.session.streams import Watched, members, session_message
from mcp_magic.session.transports import Transport, open_transport
from mcp_magic.session.wire import NOT_RECORDED, ErrorContext, Event
from mcp_magic.stderr import ErrorLog, how_ended
from mcp_magic.trace.trace import IN, OUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack
    from types import TracebackType

    from mcp_magic.cassette.cassette import Cassette
    from mcp_magic.cassette.match import Scene, Server, Session, Step
    from mcp_magic.config.specs import Spec
    from mcp_magic.session.wire import Wire
    from mcp_magic.trace.trace import Recorder


# The order of concurrent scenes: as recorded.


class Order:
    """Keeps concurrent scenes of one session in recorded order."""

    def __init__(self) -> None:
        self._next: dict[object, int] = {}
        self._moved = asyncio.Event()

    def awaits(self, scene: object, number: int) -> None:
        """Set the next step of a scene; scenes with later steps wait for it."""
        self._next[scene] = number
        self._wake()

    def leaves(self, scene: object) -> None:
        """Remove a scene that has no further step or waits for something else; other scenes do not wait for it."""
        if self._next.pop(scene, None) is not None:
            self._wake()

    async def turn(self, scene: object, number: int) -> None:
        """Return when no other scene has an earlier step."""
        self.awaits(scene, number)
        while any(earlier < number for waiting, earlier in self._next.items() if waiting is not scene):
            await self._moved.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


# Replaying: a transport repeats the server's actions, in order and with pauses.

SHORTENED = 0.01
"""Maximum seconds of a pause, unless recorded pauses are kept; short pauses keep streamed messages in order."""

_COMPARED = ("elicitation/create",)
"""Requests of servers whose answers must equal the recorded ones; otherwise the server would have acted differently."""


def message_of(members: dict[str, Any]) -> Any:
    """Return the SDK's message with these members, read as if a server had sent it."""
    return session_message(read_members({"jsonrpc": "2.0", **members}))


ACCEPTED = 202  # the HTTP status of messages without an answer

_WITHOUT: dict[str, dict[str, Any]] = {
    "ping": {},
    "logging/setLevel": {},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "completion/complete": {"completion": {"values": []}},
}
"""Method -> answer without a recording, for incidental requests that change nothing."""


class _Ids:
    """The ids of recorded requests, and those that the client uses in their place."""

    def __init__(self) -> None:
        self._requests: dict[str, Any] = {}
        self._listens: dict[str, Any] = {}  # of `subscriptions/listen`

    def add(self, scene: Scene, number: Any) -> None:
        """Add the id of the client's request for a scene."""
        self._requests[str(scene.id)] = number
        if scene.method == LISTEN:
            self._listens[str(scene.id)] = number

    def translate_answer(self, message: dict[str, Any], number: Any) -> dict[str, Any]:
        """Return an answer with the client's id: `number`, or if that is None the one for its recorded id."""
        recorded = message.get("id")
        own = self._requests.get(str(recorded), recorded) if number is None else number
        return {**message, "id": str(own) if isinstance(recorded, str) else own}

    def translate(self, message: dict[str, Any], number: Any) -> dict[str, Any]:
        """Return a notification with the client's ids; `number` is that of the request which it belongs to."""
        params = message.get("params") or {}
        if message["method"] == "notifications/progress" and "progressToken" in params and number is not None:
            return {**message, "params": {**params, "progressToken": number}}
        listen = subscription_of(message)
        if listen is None:
            return message
        own = self._listens.get(str(listen), listen)
        return with_subscription(message, str(own) if isinstance(listen, str) else own)


class ReplayTransport:
    """A transport for `mcp.Client` that answers from a recorded session; `live` passes other requests on."""

    def __init__(
        self, cassette: Cassette, server: Server, session: int, wire: Wire, live: LiveFallback | None = None
    ) -> None:
        self._cassette = cassette
        self._server = server
        self._session = session
        self._recorded = server.sessions[session]
        self._wire = wire
        self._live = live
        if live is not None:
            live.deliver = self.deliver
        self._order = Order()
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ids = _Ids()
        self._number = 0
        self._ending: asyncio.Event | None = None
        self._to_client: Any = None
        # Over streamable HTTP an answer comes in the context of its request, whatever its id.
        self._posts = self._recorded.head.get("transport") == "http"
        self._playing: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    # The client's side: the transport, and what the client sends.

    async def __aenter__(self) -> tuple[Any, Any]:
        import anyio

        self._to_client, read = anyio.create_memory_object_stream[Any](math.inf)
        for step in self._recorded.early:
            self._does(step, None)
        if not self._posts:
            return read, _Write(self)
        return context_stream(read), _Write(self)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [*self._playing.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        if self._live is not None:
            await self._live.close()
        self._to_client.close()

    async def receive(self, item: Any) -> None:
        """Play the scene of a message from the client."""
        message = members(item.message)
        number = str(message.get("id"))
        if self._live is not None:
            self._live.remember(item, message)
        if "method" not in message:
            waiting = self._asked.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            elif self._live is not None:
                await self._live.send(item, message)
        elif "id" in message:
            task = asyncio.create_task(self._play(item, message))
            self._playing[number] = task
            task.add_done_callback(lambda _: self._playing.pop(number, None))
        else:
            await self._notified(item, message)

    async def _notified(self, item: Any, message: dict[str, Any]) -> None:
        params, given_up = message.get("params") or {}, message["method"] == "notifications/cancelled"
        # Since 2026-07-28 a request is cancelled by closing its stream, without a notification.
        if self._recorded.http and not (given_up and self._wire.modern):
            self._wire.recorder.http("POST", ACCEPTED, {})
        if given_up:
            task = self._playing.get(str(params.get("requestId")))
            if task is not None:
                task.cancel()
        elif (scene := self._find(message["method"], params)) is not None:
            task = asyncio.create_task(self._steps(scene, None))
            self._others.add(task)
            task.add_done_callback(self._others.discard)
        if self._live is not None:
            await self._live.send(item, message)

    async def _play(self, item: Any, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        scene = self._find(method, params)
        try:
            if scene is not None:
                self._cassette.played += 1
                await self._steps(scene, message["id"])
            elif self._ending is not None:
                if (outcome := current_attempt.get()) is not None:
                    outcome.refused = True  # it was not sent
                self._ending.set()  # when recorded, the session had ended by now
            elif method == LISTEN:
                return  # no recorded announcements
            elif method in _WITHOUT:
                self._put({"id": message["id"], "result": {"resultType": "complete", **_WITHOUT[method]}})
            elif self._live is not None:
                await self._live.ask(item, message)
            else:
                masked_params = masked(self._cassette, params, method)
                self._refuse(message["id"], self._server.explain(method, masked_params))
        except Exception as error:  # the request must get an answer
            self._refuse(message["id"], f"it could not be replayed: {type(error).__name__}: {error}")

    # The server's side: plays scenes.

    def _find(self, method: str, params: dict[str, Any], *, responses: bool = True) -> Scene | None:
        masked_params, own = masked(self._cassette, params, method), self._ending is not None
        return self._server.find(self._session, method, masked_params, responses=responses, own=own)

    async def _steps(self, scene: Scene, number: Any) -> None:
        """Play a scene for the request with this id; None for a notification."""
        self._ids.add(scene, number)
        own = scene.used == 1 and any(scene is own_scene for own_scene in self._recorded.scenes)
        try:
            for step in scene.steps:
                if not await self._step(scene, step, number, own=own):
                    return
        finally:
            self._order.leaves(scene)
        if number is None or scene.answered:
            return
        if not scene.is_final and scene.method != LISTEN:
            self._refuse(number, "its recording ends before it was answered")
        else:
            await asyncio.Event().wait()  # as recorded: until the client cancels it

    async def _step(self, scene: Scene, step: Step, number: Any, *, own: bool) -> bool:
        """Repeat one action of the server, in order; return whether the scene goes on."""
        if step.kind == "ended" and not own:
            return True
        if own:
            self._order.awaits(scene, step.order)
        if step.kind == "ended" and (scene.answered or number is None):
            self._order.leaves(scene)
            await self._wait_for_end(step.pause)
        else:
            await asyncio.sleep(step.pause if self._cassette.options.pauses else min(step.pause, SHORTENED))
        if step.kind == "answer":
            await self._answered(step.http)
        if own:
            await self._order.turn(scene, step.order)
        if step.kind == "answer" and (round_ := self._next_round(scene, step)) is not None:
            self._order.leaves(scene)
            await self._steps(round_, number)
        elif step.kind != "request":
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
            item = message_of(self._ids.translate_answer(step.message, number if step.kind == "answer" else None))
            if step.http.get("said"):
                note_said(item.message)
            self.deliver(item)
        else:
            self._put(self._ids.translate(step.message, number))

    async def _wait_for_end(self, seconds: float) -> None:
        """Wait as long as the server stayed idle; a request that is not recorded ends the wait."""
        self._ending = self._ending or asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _answered(self, http: dict[str, Any]) -> None:
        """Report how HTTP answered to the recorder, the attempt and the supervisor, as a real answer would."""
        if not self._recorded.http:
            return
        status = http.get("status", None if "lost" in http else 200)
        if status is not None:
            self._wire.recorder.http("POST", status, {})
        error = http_error(http)
        if (attempt := current_attempt.get()) is not None:
            attempt.status, attempt.retry_after = status, http.get("retry_after")
            attempt.refused, attempt.error = bool(http.get("refused")), error
            attempt.had_session = not self._wire.modern
        if "lost" in http and error is not None and self._wire.session is not None:
            self._wire.report(Event.DOUBTED, self._wire.session, error)
            await asyncio.sleep(SHORTENED)  # lets the supervisor ping the server

    def _next_round(self, scene: Scene, step: Step) -> Scene | None:
        """Return the scene that follows a question of the server (`input_required`), if the user cannot be asked."""
        result = step.message.get("result")
        if (
            not isinstance(result, dict)
            or result.get("resultType") != "input_required"
            or self._cassette.options.asks()
        ):
            return None
        params = {name: value for name, value in scene.params.items() if name not in ("inputResponses", "requestState")}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return self._find(scene.method, {**params, **state, "inputResponses": {}}, responses=False)

    async def _ask(self, scene: Scene, step: Step) -> str:
        """Ask the client the server's question; return why the scene cannot go on after the answer, or ""."""
        recorded = step.reply or {}
        if not self._cassette.options.asks():
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
        mine, its = response_of(masked(self._cassette, answer.get("result"), method)), response_of(recorded["result"])
        return "" if mine == its else f"{method} had another answer when it was recorded: {difference(mine, its)}"

    def _refuse(self, number: Any, why: str) -> None:
        name = f"{self._server.name}: {why}"
        text = f"{name}.\n  (cassette {self._cassette.path}; {self._cassette.adds('what is missing')})"
        self._put({"id": number, "error": {"code": INTERNAL_ERROR, "message": text, "data": {NOT_RECORDED: True}}})

    def _put(self, members: dict[str, Any]) -> None:
        self.deliver(message_of(members))

    def deliver(self, item: Any) -> None:
        """Deliver a message or an error to the client."""
        import anyio

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has left
            self._to_client.send_nowait((copy_context(), item) if self._posts else item)


class _Write:
    """The write stream of the client."""

    def __init__(self, replay: ReplayTransport) -> None:
        self._replay = replay

    async def send(self, item: Any) -> None:
        await self._replay.receive(item)

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> _Write:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


def retell(session: Session, recorder: Recorder, errlog: ErrorLog | None) -> None:
    """Write all messages of a session whose opening failed into the trace and errlog."""
    for entry in session.lines:
        if "stderr" in entry:
            if errlog is not None:
                errlog.write(entry["stderr"])
        elif "garbage" in entry:
            recorder.garbage(entry["garbage"])
        elif "to" in entry:
            members = {name: entry[name] for name in MEMBERS if name in entry}
            recorder.message(OUT if entry["to"] == "server" else IN, {"jsonrpc": "2.0", **members})
    recorder.stderr(last=True)


# Requests that are not recorded: passed on to the server and added to the cassette.
#
# The first such request connects to the server (lazy). The server then gets the client's handshake; its answers to that
# are dropped.

_HANDSHAKE = ("server/discover", "initialize", "notifications/initialized", "logging/setLevel")


class LiveFallback:
    """The session with the real server behind a replayed session, opened by the first request for it."""

    def __init__(self, make: Callable[[], Any], cassette: Cassette, spec: Spec, place: ErrorContext) -> None:
        self._make = make
        self._cassette = cassette
        self._spec = spec
        self._place = place
        self._handshake: list[tuple[Any, dict[str, Any]]] = []
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._quiet: set[str] = set()
        self._owner: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._recorder: SessionRecorder | None = None
        self.deliver: Callable[[Any], None] = lambda item: None

    def remember(self, item: Any, message: dict[str, Any]) -> None:
        """Keep a message of the handshake, to send it to the server later."""
        if self._opening is None and message.get("method") in _HANDSHAKE:
            self._handshake.append((item, message))

    async def send(self, item: Any, message: dict[str, Any]) -> None:
        """Pass on a notification or an answer, if the server is connected."""
        if self._opening is not None and self._opening.done() and self._recorder is not None:
            await self._pass(item, message)

    async def ask(self, item: Any, message: dict[str, Any]) -> None:
        """Pass on a request; return when its answer was delivered to the client."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)
        await self._pass_request(item, message)

    async def close(self) -> None:
        """End the session with the server."""
        tasks = {task for task in (self._opening, self._owner) if task is not None and not task.done()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10.0)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[Any] = loop.create_future()
        self._owner = loop.create_task(self._own(connected), name=f"mcp_magic cassette {self._place.name}")
        try:
            self._write = await connected
            self._recorder = SessionRecorder(self._cassette, self._place.name, self._spec, self._place.wire, added=True)
            for item, message in self._handshake:
                if "id" in message:
                    self._quiet.add(str(message["id"]))
                    await self._pass_request(item, message)
                else:
                    await self._pass(item, message)
        except Exception as error:
            problem = connect_error(error, self._place)
            raise CassetteError(f"it is not in the cassette, and the server cannot be asked: {problem}") from None

    async def _own(self, connected: asyncio.Future[Any]) -> None:
        """Hold the transport in its own task, because the task that enters it must leave it."""
        failure: BaseException = EOFError("the server ended the session")
        try:
            async with self._make() as (read, write):
                connected.set_result(write)
                async for item in read:
                    self._came(item)
        except Exception as error:
            failure = error
        for waiting in (connected, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(failure)

    async def _pass_request(self, item: Any, message: dict[str, Any]) -> None:
        number = str(message["id"])
        self._waiting[number] = answered = asyncio.get_running_loop().create_future()
        try:
            await self._pass(item, message)
            await answered
        finally:
            self._waiting.pop(number, None)

    async def _pass(self, item: Any, message: dict[str, Any]) -> None:
        assert self._recorder is not None
        self._recorder.message(OUT, message)
        await self._write.send(item)

    def _came(self, item: Any) -> None:
        if isinstance(item, Exception) or self._recorder is None:
            return
        message = members(item.message)
        self._recorder.message(IN, message)
        number = str(message.get("id"))
        if "method" in message or number not in self._quiet:
            self.deliver(item)
        waiting = self._waiting.get(number) if "method" not in message else None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


# Connections through the inserted cassette.


async def open_through(cassette: Cassette, spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the transport to a server (see `Opener`): recorded, replayed, or neither, as the mode says."""
    name = wire.recorder.server
    if cassette.replays and isinstance(spec, InProcessSpec) and cassette.options.in_process == "live":
        return await open_transport(spec, wire, stack)
    if cassette.replays and name in cassette.content.servers:
        return await _replayed(cassette, spec, wire, stack)
    if cassette.records:
        recording = _Recording(cassette, spec, wire)
        stack.callback(recording.stop)
        transport = await open_transport(spec, wire, stack)
        stack.push(recording.leave)

        def recorded() -> Any:
            recording.begin()
            return transport.make()

        return Transport(recorded, transport.prepare)
    servers = f"it has {join_names(cassette.servers)}" if cassette.servers else "it has no server"
    raise CassetteError(f"{name} is not in the cassette {cassette.path}; {servers}; {cassette.adds('it')}.")


class _Recording:
    """Records the sessions over a wire, each separately, until `stop`."""

    def __init__(self, cassette: Cassette, spec: Spec, wire: Wire) -> None:
        self._cassette = cassette
        self._spec = spec
        self._wire = wire
        self._session: SessionRecorder | None = None

    def stop(self) -> None:
        """End the record of the session."""
        if self._session is not None:
            self._wire.recorder.remove(self._session)

    def begin(self) -> SessionRecorder:
        """Begin the record of a new session."""
        self.stop()
        recorder = self._wire.recorder
        self._session = SessionRecorder(
            self._cassette, recorder.server, self._spec, self._wire, secrets=recorder.secrets
        )
        recorder.add(self._session)
        return self._session

    def leave(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Write how the server's process ended, or why the session could not be opened."""
        if self._session is not None and self._wire.errlog is not None:
            self._session.exited(how_ended(self._wire.errlog.file))
        if isinstance(error, Exception) and self._cassette.recording:
            session = self._session or self.begin()
            if not session.is_open:
                self._wire.recorder.stderr(last=True)
                session.record_failure(error)


async def _replayed(cassette: Cassette, spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    errlog = stack.enter_context(ErrorLog())
    wire.replays(errlog)
    wire.recorder.follow(errlog)
    stack.callback(wire.recorder.follow, None)
    real = await open_transport(spec, wire, stack) if cassette.records else None

    def replayed() -> Any:
        server = cassette.content.servers[wire.recorder.server]
        session = server.begin(in_process=isinstance(spec, InProcessSpec))
        recorded = server.sessions[session]
        if recorded.failure is not None:
            cassette.played += 1
            retell(recorded, wire.recorder, wire.errlog)
            raise recorded_error(recorded.failure, spec.masked(wire.errlog.tail()) if wire.errlog else "")
        wire.exited = recorded.exited
        live = None
        if real is not None:
            live = LiveFallback(lambda: _real(spec, real), cassette, spec, ErrorContext(server.name, spec, wire))
        return Watched(ReplayTransport(cassette, server, session, wire, live), wire, makes_up=True)

    return Transport(replayed)


def _real(spec: Spec, transport: Transport) -> Any:
    """Return the real server's transport, without what watches it."""
    if not isinstance(spec, InProcessSpec):
        return transport.make().transport
    return memory_transport(spec.server)
