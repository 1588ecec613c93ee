"""The proxy: an MCP server over stdio that is the running kernel of a folder.

It finds the kernels of this user that serve, takes the nearest one, and passes messages on as they are, both ways and
in both protocol eras: stdio here, streamable HTTP there (`upstream.py`). While no kernel serves, or several could be
meant, it answers itself (`fallback.py`).

It outlives kernels. When another one serves, it initialises there as the client did here, and tells the client that the
lists have changed. A request in flight gets an error: whether it ran is not known, so it is not sent again.

The ids of questions of a kernel (such as elicitation) are the proxy's own towards the client, so that a late answer to
one kernel never answers a question of the next.

Clients start it with their own start, so it needs neither the SDK nor anything else of this package that is heavy.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mcp_magic.flight.backoff import Backoff
from mcp_magic.outside.choice import FIND_KERNELS, choose, none_serves
from mcp_magic.outside.fallback import LISTS, fallback_answer
from mcp_magic.outside.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    META,
    PARSE_ERROR,
    Message,
    answer,
    failure,
    is_answer,
    is_modern,
    is_notification,
    is_request,
    params_of,
    parsed,
    refusal,
)
from mcp_magic.outside.runtime import is_current, running_kernels, state_of_folder, token_of
from mcp_magic.outside.upstream import CONNECT_SECONDS, KernelSession, LostError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from mcp_magic.outside.choice import Target
    from mcp_magic.outside.runtime import RunningKernel

LOOK_SECONDS = 1.0  # seconds after which it looks again which kernels serve

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""First and longest pause before a stream that has ended is opened again; doubles each time."""

END_SECONDS = 1.0  # seconds for what is in flight once the client has gone

ROOTS_SECONDS = 5.0  # seconds for the client to name its roots

LOOK_ANEW = 10  # looks after which it looks closely, even if no file has come or gone

MAX_ROOTS = 20  # roots of the client that count

_LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_INITIALIZED = "notifications/initialized"
_CANCELLED = "notifications/cancelled"


@dataclass
class _Client:
    """What the client has said, for the next kernel."""

    initialize: Message | None = None  # None before it, and since 2026-07-28
    is_initialized: bool = False
    level: Message | None = None  # the request of a log level, which also the next kernel gets
    roots: asyncio.Future[Message] | None = None
    listeners: int = 0  # requests to hear of changes


class Proxy:
    """The server over stdio.

    Args:
        target: Which kernel is meant.
        write: Writes a line to the client.
    """

    def __init__(self, target: Target, write: Callable[[bytes], None]) -> None:
        self._target = target
        self._write = write
        self._id = secrets.token_hex(8)
        self._writing = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._session: KernelSession | None = None
        self._last: RunningKernel | None = None
        self._why_none = ""
        self._changes = 0  # how often another kernel, or none, has come
        self._changed = asyncio.Event()
        self._requests: dict[Any, asyncio.Task[None]] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client = _Client()

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve until there are no more lines."""
        watching = asyncio.create_task(self._watch())
        try:
            async for line in lines:
                messages = parsed(line)
                if not messages and line.strip():
                    self._send(refusal("a line is one JSON-RPC message", PARSE_ERROR))
                for message in messages:
                    await self._receive(message)
            if last := {*self._requests.values(), *self._writes}:  # as of a client that only sends a file of requests
                await asyncio.wait(last, timeout=END_SECONDS)
        finally:
            watching.cancel()
            session, self._session = self._session, None
            if session is not None:
                await session.leave()
                await session.close()

    def _send(self, message: Message) -> asyncio.Future[None]:
        """Begin to write a message; who waits for that may be cancelled, and the line is written to its end."""
        writing = self._start(self._write_line(json.dumps(message).encode() + b"\n"))
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)
        return asyncio.shield(writing)

    async def _write_line(self, line: bytes) -> None:
        async with self._writing:
            with suppress(BrokenPipeError):  # the end of stdin follows
                await asyncio.to_thread(self._write, line)

    async def _notify(self, method: str, params: Message | None = None) -> None:
        await self._send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _receive(self, message: Message) -> None:
        """Take a message of the client. Nothing here waits without a bound, or the end of stdin would not be seen."""
        number = message.get("id")
        if is_request(message) and number in self._requests:
            text = f"a request with the id {json.dumps(number)[:100]} is in flight; each has an id of its own"
            self._send(refusal(text, INVALID_REQUEST, number))
        elif is_request(message):
            task = self._requests[number] = self._start(self._answer(message))
            task.add_done_callback(lambda task: self._finish(number, task))
            if message["method"] == "initialize":
                await asyncio.wait({task}, timeout=2 * CONNECT_SECONDS)  # what follows needs it
        elif is_notification(message):
            await self._take_notification(message)
        elif is_answer(message):
            await self._take_answer(message)
        else:
            text = "a message has a method, and an id if it is to be answered; an answer has a result or an error"
            number = number if isinstance(number, str | int) else None
            self._send(refusal(text, INVALID_REQUEST, number))

    async def _reply(self, request: Message, reply: Message) -> None:
        """Send the answer to a request. The client may use its id again as soon as it reads that."""
        self._finish(request["id"], asyncio.current_task())
        await self._send(reply)

    def _finish(self, number: Any, task: asyncio.Task[None] | None) -> None:
        if self._requests.get(number) is task:
            del self._requests[number]

    async def _take_notification(self, message: Message) -> None:
        method = message["method"]
        if method == _INITIALIZED:
            self._client.is_initialized = True
            if self._session is None:
                self._start(self._ask_for_roots())
        if method == _CANCELLED:
            number = params_of(message).get("requestId")
            task = self._requests.get(number) if isinstance(number, str | int) else None
            if task is not None:
                task.cancel()  # that ends its stream, which is how 2026-07-28 cancels over HTTP
        session = self._session
        if session is None or self._client.initialize is None:
            return
        await self._pass_on(session, message)
        if method == _INITIALIZED:
            self._follow(session)

    async def _take_answer(self, message: Message) -> None:
        """Take the client's answer to a question: of the kernel, if it is one of the present kernel's, or of ours."""
        number = message.get("id")
        if number == "roots" and self._client.roots is not None and not self._client.roots.done():
            self._client.roots.set_result(message)
        elif self._session is not None and isinstance(number, str) and number in self._session.questions:
            await self._pass_on(self._session, {**message, "id": self._session.questions.pop(number)})

    async def _pass_on(self, session: KernelSession, message: Message) -> None:
        """Pass a message on whose answer the client does not get."""
        with suppress(LostError):
            async for _ in session.exchange(message):
                pass

    async def _deliver(self, session: KernelSession, message: Message) -> None:
        """Give the client a message of a kernel; the ids of its questions become ours."""
        params = params_of(message)
        if "method" in message and "id" in message:
            number = f"kernel-{self._changes}-{secrets.token_hex(4)}"
            session.questions[number] = message["id"]
            message = {**message, "id": number}
        elif message.get("method") == _CANCELLED:
            numbers = [own for own, number in session.questions.items() if number == params.get("requestId")]
            if not numbers:
                return
            session.questions.pop(numbers[0])
            message = {**message, "params": {**params, "requestId": numbers[0]}}
        await self._send(message)

    # Requests

    async def _answer(self, request: Message) -> None:
        """Answer a request of the client, whatever happens: it may wait without a bound."""
        try:
            await self._find_answer(request)
        except Exception as error:
            text = f"the proxy failed, {type(error).__name__}: {error}. Look before you send it again."
            await self._reply(request, failure(request, text, INTERNAL_ERROR))

    async def _find_answer(self, request: Message) -> None:
        method = request["method"]
        if method == "initialize":
            self._client.initialize, self._client.is_initialized = request, False
            self._client.level = None
            await self._drop()
        if method == _LISTEN and is_modern(request):
            await self._relay_changes(request)
        elif method == "tools/call" and params_of(request).get("name") == FIND_KERNELS:
            content = [{"type": "text", "text": await self._find(request)}]
            await self._reply(request, answer(request, {"content": content}))
        else:
            if method == "logging/setLevel":
                self._client.level = request
            await self._relay(request)

    async def _relay(self, request: Message) -> None:
        """Let the kernel answer; where nothing was sent to one that has ended, the next one, or else the proxy."""
        begins = request["method"] == "initialize"
        for _ in range(2):
            session = await self._opened(greets=not begins)
            if session is None:
                break
            try:
                async for message in session.exchange(request):
                    if is_answer(message):
                        await self._reply(request, message)
                    else:
                        await self._deliver(session, message)
            except LostError as error:
                is_over = not error.is_sent or not is_current(session.kernel)
                if is_over or begins:
                    await self._drop(session)
                self._why_none = str(error)
                if error.is_sent and not begins:
                    how = "the kernel was restarted or serves no longer" if is_over else "the kernel ended the request"
                    text = f"{how}; whether it ran is not known. Look before you send it again."
                    await self._reply(request, failure(request, text))
                    return
            else:
                return
        await self._reply(request, fallback_answer(request, self._why_none or none_serves()))

    async def _find(self, request: Message) -> str:
        """Answer the tool `find_kernels`: use the kernel that it names, or say which there are."""
        arguments = params_of(request).get("arguments")
        use = arguments.get("use") if isinstance(arguments, dict) else None
        if isinstance(use, str) and use:
            named = replace(self._target, kernel=use, used=None)
            choice = choose(await asyncio.to_thread(running_kernels), named)
            if choice.kernel is None:
                return choice.why_none
            self._target = replace(self._target, used=choice.kernel)
            if self._session is not None and self._session.kernel != choice.kernel:
                await self._drop()
        session = await self._opened()
        if session is None:
            return self._why_none
        return f"This is {session.kernel.title}. Its tools are listed now: `list_values` says what the person shares."

    # Changes

    async def _relay_changes(self, request: Message) -> None:
        """Answer a request to hear of changes since 2026-07-28: it lasts from one kernel to the next."""
        meta = {f"{META}subscriptionId": request["id"]}
        kinds = params_of(request).get("notifications")
        kinds = kinds if isinstance(kinds, dict) else {}
        pauses, is_acknowledged = _Pauses(), False
        self._client.listeners += 1
        try:
            while True:
                session = await self._opened()
                if is_acknowledged:  # another kernel has come, or the stream was cut and something may be missed
                    for kind in LISTS:
                        if kinds.get(f"{kind}ListChanged"):
                            await self._notify(f"notifications/{kind}/list_changed", {"_meta": meta})
                event = self._changed
                if session is None:
                    if not is_acknowledged:
                        await self._notify(_ACKNOWLEDGED, {"notifications": kinds, "_meta": meta})
                    await event.wait()
                elif not await self._deliver_changes(session, request, is_acknowledged=is_acknowledged):
                    return
                else:
                    await pauses.wait(session)
                is_acknowledged = True
        finally:
            self._client.listeners -= 1

    async def _deliver_changes(self, session: KernelSession, request: Message, *, is_acknowledged: bool) -> bool:
        """Deliver changes until the stream ends; return False if the kernel refuses the request."""
        try:
            async for message in session.exchange(request):
                if is_answer(message) and "error" in message:
                    await self._reply(request, message)
                    return False
                if not is_answer(message) and not (is_acknowledged and message.get("method") == _ACKNOWLEDGED):
                    await self._deliver(session, message)
        except LostError as error:
            if not error.is_sent:
                await self._drop(session)
        return True

    def _follow(self, session: KernelSession) -> None:
        """Begin to deliver what a kernel sends of its own accord before 2026-07-28."""
        if session.stream is None:
            session.stream = self._start(self._deliver_own(session))

    async def _deliver_own(self, session: KernelSession) -> None:
        pauses = _Pauses()
        while session is self._session:
            is_cut = False
            try:
                async for message in session.listen():
                    await self._deliver(session, message)
            except LostError as error:
                is_cut = True
                if not error.is_sent or not is_current(session.kernel):
                    await self._drop(session)
                    return
            await pauses.wait(session)
            if is_cut and session is self._session:
                await self._tell_of_lists()  # something may be missed

    # Kernels

    async def _opened(self, *, greets: bool = True) -> KernelSession | None:
        """Return the session with the kernel that is meant; None if there is none. `greets`: initialise there."""
        async with self._opening:
            if self._session is not None and is_current(self._session.kernel):
                return self._session
            await self._drop()
            choice = choose(await asyncio.to_thread(running_kernels), self._target, self._last)
            token = None if choice.kernel is None else token_of(choice.kernel)
            self._why_none = choice.why_none
            if choice.kernel is None or token is None:
                self._why_none = self._why_none or none_serves()
                return None
            session = KernelSession(choice.kernel, token, self._id)
            greets = greets and self._client.initialize is not None
            try:
                await session.prove()
                if greets:
                    await self._greet(session)
            except LostError as error:
                self._why_none = str(error) or none_serves()
                self._start(session.close())
                return None
            self._session, self._last = session, choice.kernel
            if greets and self._client.is_initialized:
                self._follow(session)
                if self._client.level is not None:
                    self._start(self._pass_on(session, {**self._client.level, "id": "proxy-level"}))
        await self._note_change()
        return session

    async def _greet(self, session: KernelSession) -> None:
        """Initialise a session as the client has initialised its own."""
        async for message in session.exchange({**(self._client.initialize or {}), "id": "proxy"}):
            if "error" in message:
                raise LostError(f"{session.kernel.title} takes no session now; try again later.")
        if self._client.is_initialized:
            await self._pass_on(session, {"jsonrpc": "2.0", "method": _INITIALIZED})

    async def _drop(self, session: KernelSession | None = None) -> None:
        """End the session with a kernel, unless another has taken its place; requests in flight end by themselves."""
        present = self._session
        if present is None or (session is not None and session is not present):
            return
        self._session = None
        self._start(present.close())
        await self._note_change([*present.questions])

    async def _note_change(self, questions: Sequence[str] = ()) -> None:
        """Note that another kernel, or none, is there now; `questions` of the one before end."""
        self._changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
        # the request that has come upon the change may be cancelled
        await asyncio.shield(self._start(self._tell_of_change(questions)))

    async def _tell_of_change(self, questions: Sequence[str]) -> None:
        for number in questions:
            await self._notify(_CANCELLED, {"requestId": number, "reason": "the kernel has ended"})
        await self._tell_of_lists()

    async def _tell_of_lists(self) -> None:
        """Tell a client of the handshake that the lists may be others."""
        if self._client.is_initialized:
            for kind in LISTS:
                await self._notify(f"notifications/{kind}/list_changed")

    async def _watch(self) -> None:
        """Look from time to time which kernels serve."""
        before, ticks = None, 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._session is not None:
                if not is_current(self._session.kernel):
                    await self._drop()
            elif self._client.is_initialized or self._client.listeners:
                state = state_of_folder()
                ticks += 1
                if state != before or ticks >= LOOK_ANEW:
                    before, ticks = state, 0
                    await self._opened()

    async def _ask_for_roots(self) -> None:
        """Look for a kernel in the roots of the client, if there is none where it runs."""
        has_roots = "roots" in (params_of(self._client.initialize or {}).get("capabilities") or {})
        if not has_roots or self._target.is_typed or await self._opened() is not None:
            return
        self._client.roots = asyncio.get_running_loop().create_future()
        await self._send({"jsonrpc": "2.0", "id": "roots", "method": "roots/list"})
        with suppress(TimeoutError):
            async with asyncio.timeout(ROOTS_SECONDS):
                reply = await self._client.roots
            result = reply.get("result")
            roots = result.get("roots") if isinstance(result, dict) else None
            uris = [root.get("uri") for root in roots if isinstance(root, dict)] if isinstance(roots, list) else []
            folders = [Path(unquote(urlsplit(uri).path)) for uri in uris if str(uri).startswith("file:///")]
            self._target = replace(self._target, folders=(*self._target.folders[:1], *folders[:MAX_ROOTS]))
            await self._opened()


class _Pauses:
    """The pauses before a kernel's stream is opened again: none once the kernel has ended, else growing ones."""

    def __init__(self) -> None:
        self._kernel: RunningKernel | None = None
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._began = time.monotonic()

    async def wait(self, session: KernelSession) -> None:
        """Wait after the stream of a session has ended; after one that has lasted, the pauses begin anew."""
        if self._kernel != session.kernel:
            self._kernel, self._backoff = session.kernel, Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        if is_current(session.kernel):
            await asyncio.sleep(self._backoff.pause(time.monotonic() - self._began))
        self._began = time.monotonic()
