"""A mock server: answers other programs from a cassette, over streamable HTTP or stdio.

Requests are answered by `ReplayTransport`, so what matches and what comes between a request and its answer is that of
replays. The mock translates between it and the SDK's server, which speaks both protocol eras: each client session gets
the recording from its beginning, and may be of another era than the recording. A session begins with the handshake or
with `server/discover`; the protocol has no other sign of it since 2026-07-28.

A question of the recorded server goes to the client in its own era: as a request of the server, or as the result
`input_required`, whose next round goes on where the recorded server waits.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.connection import allowed_log_levels
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, SERVER_INFO_META_KEY, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from mcp_magic.cassette.cassette import Cassette, CassetteOptions
from mcp_magic.cassette.match import LISTEN, with_subscription
from mcp_magic.cassette.replay import ReplayTransport, message_of
from mcp_magic.cassette.requests import opening_of, pick_server
from mcp_magic.config.specs import HttpSpec
from mcp_magic.errors import CassetteError
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.loopback import HOST, LoopbackServer, listen
from mcp_magic.protocol import UNCACHED
from mcp_magic.schema.commandline import as_word
from mcp_magic.schema.resolve import object_of
from mcp_magic.session.streams import members
from mcp_magic.session.wire import Wire
from mcp_magic.trace.trace import Recorder, Trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_magic.cassette import match

MOST_SESSIONS = 256  # client sessions, and questions of 2026-07-28, that are kept; one more drops the oldest
MOST_ROUNDS = 100  # rounds of questions for one request

_CACHED = ("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list")
_ROUNDS = ("tools/call", "resources/read", "prompts/get")  # methods that may be answered with `input_required`
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
_OLD = "old "  # begins the keys of sessions that no new request gets into
_QUESTION = "question"  # the name of the one question in a round that the mock makes


def mock_server(path: Path, name: str | None = None, *, pauses: bool = False) -> Server[Any]:
    """Return a server of the SDK that answers as a recorded one; `pauses` keeps the recorded pauses.

    Raises:
        CassetteError: The file cannot be read, or does not say which server is meant.
    """
    cassette = Cassette(path, "replay", CassetteOptions(pauses=pauses, asks=lambda: True))
    servers = cassette.content.servers
    if not servers:
        raise CassetteError(f"{path} has no server to answer as; `%mcp record FILE` records one.")
    todo = f"name one, as in `%mcp serve SERVER --cassette {as_word(str(path)) or 'FILE'}`"
    recorded = pick_server(path, servers, name, todo)
    if all(session.failure is not None for session in recorded.sessions[: recorded.opened]):
        raise CassetteError(f"{recorded.name} could not be opened when {path} was recorded, so there are no answers.")
    mock = _Mock(cassette, recorded)
    server: Server[Any] = Server(recorded.name, lifespan=lambda _: mock.running())
    server.middleware.append(mock.answer)
    return server


async def serve_stdio(path: Path, name: str | None = None, *, pauses: bool = False) -> None:
    """Answer over stdin and stdout until one of them ends; see `mock_server`."""
    import anyio
    from mcp.server.stdio import stdio_server

    server = mock_server(path, name, pauses=pauses)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError):  # nobody reads stdout any more
        pass


class MockThread:
    """Serves mock servers from a thread of its own, as tests need it; a context manager."""

    def __enter__(self) -> MockThread:
        self._loop = asyncio.new_event_loop()
        self._servers: list[LoopbackServer] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp_magic mocks", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        for server in self._servers:
            await server.stop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}  # the libraries leave some
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def serve(self, path: Path, name: str | None = None, *, pauses: bool = False) -> str:
        """Serve a mock server (see `mock_server`), and return its URL, which has the token in its path."""
        server, secret = mock_server(path, name, pauses=pauses), f"/{secrets.token_urlsafe(32)}/mcp"

        def refusal(scope: Any) -> Any:
            return None if hmac.compare_digest(scope["path"].encode(), secret.encode()) else _not_found

        app = server.streamable_http_app(host=HOST, streamable_http_path=secret)
        loopback, listening = LoopbackServer(app, refusal, f"mcp_magic mock {server.name}"), listen()
        asyncio.run_coroutine_threadsafe(loopback.start(listening), self._loop).result()
        self._servers.append(loopback)
        return f"http://{HOST}:{listening.getsockname()[1]}{secret}"


async def _not_found(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b""})


class _Mock:
    """Answers all clients of a mock server."""

    def __init__(self, cassette: Cassette, recorded: match.Server) -> None:
        self._cassette = cassette
        self._recorded = recorded
        self._opening = opening_of(scene for session in recorded.sessions for scene in session.scenes)
        self._sessions: dict[str, _Session] = {}
        self._waiting: dict[str, tuple[_Session, _Exchange, Any]] = {}  # questions of 2026-07-28, by `requestState`

    @asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, Any]]:
        """Close all sessions at the end."""
        try:
            yield {}
        finally:
            for session in self._sessions.values():
                await session.close()

    async def answer(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request, or take a notification: a middleware of the SDK's server."""
        method, params = ctx.method, dict(ctx.params or {})
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.request_id is None:
            await call_next(ctx)
            if not modern and method != "notifications/cancelled":
                await (await self._session(ctx)).notified(ctx, method, params)
            return None
        if method == "initialize":
            result: Any = await call_next(ctx)
            return {**result, **self._introduction(), "serverInfo": self._identity()}
        if method == "server/discover":
            await self._session(ctx, again=True)
            meta = {"_meta": {SERVER_INFO_META_KEY: self._identity()}}
            versions = {"supportedVersions": list(MODERN_PROTOCOL_VERSIONS), "resultType": "complete"}
            return {**UNCACHED, **meta, **self._introduction(), **versions}
        return await self._in_era(ctx, params) if modern else await self._in_session(ctx, params)

    async def _session(self, context: ServerRequestContext[Any, Any], *, again: bool = False) -> _Session:
        """Return the session of a request, a new one at its first request or if it begins `again`."""
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        headers = getattr(context.request, "headers", {})
        key = "" if modern else headers.get("mcp-session-id", "handshake")
        over: list[_Session] = []
        if again and key in self._sessions:  # those who listen stay in the old one
            self._sessions[f"{_OLD}{secrets.token_hex()}"] = self._sessions.pop(key)
            idle = [name for name, session in self._sessions.items() if name.startswith(_OLD) and not session.is_busy]
            over += map(self._sessions.pop, idle)
        if key not in self._sessions:
            while len(self._sessions) >= MOST_SESSIONS:
                idle = [name for name, session in self._sessions.items() if not session.is_busy]
                over.append(self._sessions.pop((idle or list(self._sessions))[0]))
            self._sessions[key] = _Session(self._cassette, self._recorded.rewound())
        session = self._sessions[key] = self._sessions.pop(key)  # the latest is the last
        for old in over:
            await old.close()
        return session

    def _introduction(self) -> dict[str, Any]:
        kinds = (("capabilities", dict), ("instructions", str))
        return {"capabilities": {}} | {
            name: self._opening[name] for name, kind in kinds if isinstance(self._opening.get(name), kind)
        }

    def _identity(self) -> dict[str, Any]:
        own = {"name": self._recorded.name, "version": ""}
        return self._opening.get("serverInfo") or own

    async def _in_era(self, context: ServerRequestContext[Any, Any], params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of 2026-07-28."""
        session, exchange, number = self._waiting.pop(str(params.get("requestState")), (None, None, None))
        if session is not None and exchange is not None:
            response = object_of(params.get("inputResponses")).get(_QUESTION)
            await session.reply(number, {"result": object_of(response)})
        else:
            session = await self._session(context)
            if context.method == LISTEN and not session.listens:
                await _acknowledge(context)
            exchange = await session.begin(context.method, params)
        async with exchange:
            while (message := await exchange.next(context)) is not None:
                if "method" not in message:
                    return _modern(context.method, _result(message))
                if context.method in _ROUNDS and _is_asked(context, message):
                    state = secrets.token_urlsafe(16)
                    while len(self._waiting) >= MOST_SESSIONS:
                        oldest_session, oldest, _ = self._waiting.pop(next(iter(self._waiting)))
                        oldest_session.end(oldest)
                    self._waiting[state] = session, exchange.suspended(), message["id"]
                    question = {name: message[name] for name in ("method", "params") if name in message}
                    requests = {"inputRequests": {_QUESTION: question}, "requestState": state}
                    return _modern(context.method, {"resultType": "input_required", **requests})
                await session.reply(message["id"], _refusal(message["method"]))
        raise session.end_error

    async def _in_session(self, context: ServerRequestContext[Any, Any], params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of a session that the handshake has opened."""
        session = await self._session(context)
        for _ in range(MOST_ROUNDS):
            async with await session.begin(context.method, params) as exchange:
                while (message := await exchange.next(context)) is not None and "method" in message:
                    await session.reply(message["id"], await _ask(context, message["method"], message.get("params")))
            if message is None:
                raise session.end_error
            result = _result(message)
            if result.get("resultType") != "input_required":
                return _handshake(result)
            params = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
            params["inputResponses"] = responses = {}
            for name, method, asked in _questions(self._recorded.name, result.get("inputRequests")):
                responses[name] = _result(await _ask(context, method, asked))
        raise MCPError(code=INTERNAL_ERROR, message=f"{self._recorded.name} asks more than {MOST_ROUNDS} times.")


class _Session:
    """The recording as one client session gets it."""

    def __init__(self, cassette: Cassette, recorded: match.Server) -> None:
        self._cassette = cassette
        self._recorded = recorded
        self._exchanges: dict[Attempt, _Exchange] = {}
        self._numbers: dict[str, _Exchange] = {}
        self._number = 0
        self._transport: ReplayTransport | None = None
        self._pump: asyncio.Task[None] | None = None
        self._context: ServerRequestContext[Any, Any] | None = None
        self._others: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def end_error(self) -> MCPError:
        """Why a request gets no answer."""
        why = "the session here when it was recorded"
        if self._is_closed:
            why = f"this session: {MOST_SESSIONS} newer ones are open"
        return MCPError(code=INTERNAL_ERROR, message=f"{self._recorded.name} ended {why}.")

    @property
    def is_busy(self) -> bool:
        """Whether requests wait for their answers."""
        return bool(self._exchanges)

    @property
    def listens(self) -> bool:
        """Whether announcements were recorded."""
        return any(scene.method == LISTEN for session in self._recorded.sessions for scene in session.scenes)

    async def begin(self, method: str, params: dict[str, Any]) -> _Exchange:
        """Begin to replay a request."""
        transport = await self._opened()
        self._number += 1
        attempt = Attempt()
        exchange = _Exchange(self, transport, self._number, attempt)
        self._exchanges[attempt] = self._numbers[str(self._number)] = exchange
        token = current_attempt.set(attempt)
        try:
            await transport.receive(message_of({"id": self._number, "method": method, "params": params}))
        finally:
            current_attempt.reset(token)
        return exchange

    def end(self, exchange: _Exchange) -> None:
        """Forget an exchange that is over."""
        self._exchanges.pop(exchange.attempt, None)
        self._numbers.pop(str(exchange.number), None)

    async def reply(self, number: Any, outcome: dict[str, Any]) -> None:
        """Pass the client's answer to a question on."""
        if self._transport is not None:
            await self._transport.receive(message_of({"id": number, **outcome}))

    async def notified(self, context: ServerRequestContext[Any, Any], method: str, params: dict[str, Any]) -> None:
        """Replay what a notification of the client caused."""
        self._context = context
        await (await self._opened()).receive(message_of({"method": method, "params": params}))

    async def close(self) -> None:
        """End the session."""
        self._is_closed = True
        tasks = [task for task in (self._pump, *self._others) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._transport is not None:
            await self._transport.__aexit__(None, None, None)
        self._leave()

    async def _opened(self) -> ReplayTransport:
        """Return the transport of the recorded session; after its end, that of the next one."""
        if self._is_closed:
            raise self.end_error
        if self._transport is None:
            number = self._recorded.begin(in_process=False)
            while self._recorded.sessions[number].failure is not None:
                number = self._recorded.begin(in_process=False)
            spec = HttpSpec(url="http://127.0.0.1/mcp")
            wire = Wire(Recorder(self._recorded.name, spec, Trace(messages=0)))
            self._transport = ReplayTransport(self._cassette, self._recorded, number, wire)
            read, _ = await self._transport.__aenter__()
            self._pump = asyncio.create_task(self._pumping(read), name=f"mcp_magic mock {self._recorded.name}")
        return self._transport

    async def _pumping(self, read: Any) -> None:
        """Take each message of the recorded server to the request in whose context it comes."""
        try:
            async for item in read:
                if isinstance(item, Exception):
                    item = getattr(item, "instead", None)  # a line that was no message, and the error in its place
                if item is not None:
                    self._came(members(item.message), read.last_context.get(current_attempt))
        finally:
            await read.aclose()
        transport, self._transport = self._transport, None
        self._leave()
        if transport is not None:
            await transport.__aexit__(None, None, None)

    def _leave(self) -> None:
        for exchange in self._exchanges.values():
            exchange.messages.put_nowait(None)

    def _came(self, message: dict[str, Any], attempt: Attempt | None) -> None:
        exchange = self._exchanges.get(attempt) if attempt is not None else None
        if "method" not in message:
            exchange = self._numbers.get(str(message.get("id")))
        if exchange is not None:
            exchange.messages.put_nowait(message)
        elif "method" in message and self._context is not None:
            task = asyncio.create_task(self._unasked(self._context, message))
            self._others.add(task)
            task.add_done_callback(self._others.discard)

    async def _unasked(self, context: ServerRequestContext[Any, Any], message: dict[str, Any]) -> None:
        """Send what belongs to no request."""
        if "id" in message:
            await self.reply(message["id"], await _ask(context, message["method"], message.get("params")))
        else:
            await _notify(context, message)


class _Exchange:
    """A request that is being replayed, and the recorded server's messages because of it, None at its end."""

    def __init__(self, session: _Session, transport: ReplayTransport, number: int, attempt: Attempt) -> None:
        self.number = number
        self.attempt = attempt
        self.messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._session = session
        self._transport = transport
        self._is_suspended = False

    async def __aenter__(self) -> _Exchange:
        self._is_suspended = False
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_suspended:
            return
        self._session.end(self)
        if kind is not None:  # the client has cancelled it
            cancelled = {"method": "notifications/cancelled", "params": {"requestId": self.number}}
            await self._transport.receive(message_of(cancelled))

    def suspended(self) -> _Exchange:
        """Return it, to be gone on with in the next round."""
        self._is_suspended = True
        return self

    async def next(self, context: ServerRequestContext[Any, Any]) -> dict[str, Any] | None:
        """Return its next question or its answer, None if there is none; notifications before it go to the client."""
        while (message := await self.messages.get()) is not None and "method" in message and "id" not in message:
            await _notify(context, message, related=True)
        return message


class _Members(BaseModel):
    """A result as it came."""

    model_config = ConfigDict(extra="allow")


async def _ask(context: ServerRequestContext[Any, Any], method: str, params: Any) -> dict[str, Any]:
    """Ask a client of the handshake era; return the members of its answer."""
    if not _is_asked(context, {"method": method}):
        return _refusal(method)
    try:
        question: Any = methods.parse_server_request(method, context.protocol_version, params)
        related = ServerMessageMetadata(related_request_id=context.request_id)
        answer = await context.session.send_request(question, _Members, metadata=related)
    except MCPError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    except (KeyError, ValueError):  # not of this version, or not understood
        return _refusal(method)
    return {"result": answer.model_dump(mode="json")}


def _questions(server: str, requests: Any) -> list[tuple[str, str, Any]]:
    """Return name, method and parameters of each question of a result; raise MCPError if one is no question."""
    if not isinstance(requests or {}, dict):
        requests = {"inputRequests": requests}
    questions: list[tuple[str, str, Any]] = []
    for name, question in (requests or {}).items():
        if not isinstance(question, dict) or not isinstance(question.get("method"), str):
            raise MCPError(code=INTERNAL_ERROR, message=f"{server}: what was recorded as the question {name} is none.")
        questions.append((name, question["method"], question.get("params")))
    return questions


def _is_asked(context: ServerRequestContext[Any, Any], message: dict[str, Any]) -> bool:
    """Whether the client has said that it answers such a question."""
    capability = _CAPABILITIES.get(message["method"])
    return capability is None or getattr(context.session.client_capabilities, capability, None) is not None


def _refusal(method: str) -> dict[str, Any]:
    return {"error": {"code": METHOD_NOT_FOUND, "message": f"the client does not answer {method}"}}


async def _notify(context: ServerRequestContext[Any, Any], message: dict[str, Any], *, related: bool = False) -> None:
    """Send a recorded notification, unless the client did not ask for it or its version does not have it."""
    method, params = message["method"], message.get("params") or {}
    if method == "notifications/progress":
        token = ((context.params or {}).get("_meta") or {}).get("progressToken")
        if token is None:
            return
        params = {**params, "progressToken": token}
    elif method == "notifications/message":
        if params.get("level") not in allowed_log_levels(context.protocol_version, context.meta):
            return
    elif context.method == LISTEN and related:
        params = with_subscription({"params": params}, context.request_id)["params"]
    elif context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return  # it announces changes only to those who listen
    with suppress(KeyError, ValueError):
        notification: Any = methods.parse_server_notification(method, context.protocol_version, params)
        await context.session.send_notification(notification, context.request_id if related else None)


async def _acknowledge(context: ServerRequestContext[Any, Any]) -> None:
    """Tell a client that listens that nothing will be announced."""
    params: dict[str, Any] = {"notifications": {}}
    await _notify(context, {"method": "notifications/subscriptions/acknowledged", "params": params}, related=True)


def _result(message: dict[str, Any]) -> dict[str, Any]:
    """Return the result of an answer; raise its error."""
    if "error" in message:
        error = message["error"]
        raise MCPError(code=error["code"], message=error["message"], data=error.get("data"))
    result: dict[str, Any] = message.get("result") or {}
    return result


def _modern(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with what 2026-07-28 requires."""
    if "resultType" not in result:
        result = {**(UNCACHED if method in _CACHED else {}), "resultType": "complete", **result}
    return result


def _handshake(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what only 2026-07-28 has."""
    members = {name: value for name, value in result.items() if name not in ("resultType", *UNCACHED)}
    if isinstance(meta := members.get("_meta"), dict) and SERVER_INFO_META_KEY in meta:
        members["_meta"] = {name: value for name, value in meta.items() if name != SERVER_INFO_META_KEY}
    return members
