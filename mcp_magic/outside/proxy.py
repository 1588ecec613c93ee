"""`python -m mcp_magic proxy`: an MCP server over stdio that is the running kernel of a folder.

It finds the kernels of this user that serve, takes the nearest one, and passes messages on as they are, both ways and
in both protocol eras: stdio here, streamable HTTP there. While no kernel serves, or several could be meant, it answers
itself, with one tool that says what to do.

It outlives kernels. When another one serves, it initialises there as the client did here, and tells the client that the
lists have changed. A request in flight gets an error: whether it ran is not known, so it is not sent again.

The ids of questions of a kernel (such as elicitation) are the proxy's own towards the client, so that a late answer to
one kernel never answers a question of the next.

Clients start it with their own start, so it needs neither the SDK nor anything else of this package that is heavy.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
import signal
import sys
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import httpx2

from mcp_magic import __version__
from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.loopback import CLIENT_HEADER, PROOF_PATH, proof_of
from mcp_magic.outside.runtime import KERNEL, RunningKernel, is_current, running_kernels, state_of_folder, token_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

PROGRAM = "python -m mcp_magic proxy"

USAGE = f"""\
{PROGRAM} [--folder FOLDER] [--kernel NOTEBOOK]

An MCP server over stdio that is the running kernel of this folder: one in which `%mcp serve --kernel` was typed.

--folder FOLDER    the folder whose kernel is meant (default: where the client runs, then its roots)
--kernel NOTEBOOK  the notebook (analysis.ipynb), or the id of the kernel
"""

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = ("2026-07-28",)
"""Protocol versions, as in `mcp_types.version`, which takes too long to import."""

LOOK_SECONDS = 1.0  # seconds after which it looks again which kernels serve

CONNECT_SECONDS = 5.0  # seconds for a kernel to accept a connection, and for a proof

TAKE_SECONDS = 30.0  # seconds for a kernel to take a message that it does not answer

END_SECONDS = 1.0  # seconds for what is in flight once the client has gone, and for the kernel to hear of that

ROOTS_SECONDS = 5.0  # seconds for the client to name its roots

LOOK_ANEW = 10  # looks after which it looks closely, even if no file has come or gone

MAX_LASTING = 1000  # requests that the next kernel gets, too

MAX_ROOTS = 20  # roots of the client that count

MAX_BYTES = 64 * 1024 * 1024  # of a message of the kernel

FIND_KERNELS = "find_kernels"

HOW_TO_SERVE = "The person types `%mcp serve --kernel` in the notebook; its tools appear here then."
NONE_SERVES = f"no kernel serves. {HOW_TO_SERVE}"

_BUSY = "it runs what leaves no time for others. Try again later, or ask the person to interrupt it."

_META = "io.modelcontextprotocol/"
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what `Mcp-Name` repeats
_LISTS = ("tools", "resources", "prompts")
_EMPTY = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CLOSED, _METHOD_NOT_FOUND, _PARSE_ERROR = -32000, -32601, -32700

Message = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Which kernel is meant.

    Attributes:
        folders: The folders of the client, the first of which that has a kernel counts.
        kernel: A notebook, an id or a port; "" for the nearest.
        is_typed: Whether a folder was typed; then no other counts.
    """

    folders: tuple[Path, ...]
    kernel: str = ""
    is_typed: bool = False


class Choice(NamedTuple):
    """The kernel that is meant, or why there is none."""

    kernel: RunningKernel | None
    why_none: str = ""


def choose(kernels: Sequence[RunningKernel], target: Target, last: RunningKernel | None = None) -> Choice:
    """Return the kernel that is meant: the one that is named, or the nearest by folder; `last` was chosen before."""
    how = f"call `{FIND_KERNELS}` with `use`, or start the proxy with --kernel NOTEBOOK"
    if not kernels:
        return Choice(None, NONE_SERVES)
    if target.kernel:
        matches = [kernel for kernel in kernels if kernel.matches(target.kernel)]
        if not matches:
            return Choice(None, f"no kernel {target.kernel!r} serves. {_titles(kernels)} {HOW_TO_SERVE}")
        kernels = matches
    near: Sequence[RunningKernel] = ()
    for folder in target.folders:
        distances = {kernel.port: _distance(folder, Path(kernel.folder)) for kernel in kernels}
        there = [distance for distance in distances.values() if distance is not None]
        near = [kernel for kernel in kernels if there and distances[kernel.port] == min(there)]
        if near:
            break
    if not near and target.kernel and not target.is_typed:
        near = kernels
    if not near:
        where = " or ".join(map(str, target.folders))
        return Choice(None, f"no kernel serves in {where}. {_titles(kernels)} To use one, {how}.")
    if len(near) > 1 and last is not None:
        near = [kernel for kernel in near if (kernel.folder, kernel.notebook) == (last.folder, last.notebook)] or near
    if len(near) > 1:
        return Choice(None, f"several kernels could be meant. {_titles(near)} To use one, {how}.")
    return Choice(near[0])


def _titles(kernels: Sequence[RunningKernel]) -> str:
    return f"These serve: {'; '.join(f'{kernel.title} (since {kernel.started[:16]})' for kernel in kernels[:20])}."


def _distance(folder: Path, place: Path) -> int | None:
    """Return how many steps lie between two folders, None if neither is in the other."""
    if place.is_relative_to(folder) or folder.is_relative_to(place):
        return abs(len(place.parts) - len(folder.parts))
    return None


class _LostError(Exception):
    """The kernel does not answer any more."""

    def __init__(self, why: str = NONE_SERVES, *, is_sent: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent


# Towards a kernel


class _Session:
    """What the proxy is to one kernel: a client over streamable HTTP."""

    def __init__(self, kernel: RunningKernel, token: str, client: str) -> None:
        self.kernel = kernel
        self.version = ""
        self.id = ""
        self.questions: dict[str, Any] = {}  # the ids of its questions, by those that the client gets
        self.streams: set[asyncio.Task[None]] = set()
        self._requests = 0  # in flight
        self._is_over = False
        self._url = f"http://127.0.0.1:{kernel.port}"
        self._token = token
        self._parameters: dict[str, dict[tuple[str, ...], str]] = {}  # of tools, what `Mcp-Param-` headers repeat
        self._client = httpx2.AsyncClient(
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                CLIENT_HEADER: client,  # tells clients apart, as since 2026-07-28 there are no sessions
            },
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=8),
            trust_env=False,  # a proxy of the environment would get the token
        )

    async def prove(self) -> None:
        """Make sure that the server at the port has the token, which is not sent for that.

        Raises:
            _LostError: It has not, or does not answer.
        """
        nonce = secrets.token_hex(16)
        try:
            async with httpx2.AsyncClient(trust_env=False, timeout=CONNECT_SECONDS) as client:
                response = await client.get(f"{self._url}{PROOF_PATH}?nonce={nonce}")
        except httpx2.TimeoutException:
            raise _LostError(f"{self.kernel.title} does not answer now: {_BUSY}", is_sent=False) from None
        except httpx2.HTTPError:
            raise _LostError(is_sent=False) from None
        proof = proof_of(self._token, self.kernel.port, nonce)
        if not secrets.compare_digest(response.text[:200].strip().encode(), proof.encode()):
            raise _LostError(is_sent=False)  # another program has its port now

    async def close(self) -> None:
        """End the session once no request is in flight. Idempotent."""
        self._is_over = True
        for task in {*self.streams} - {asyncio.current_task()}:
            task.cancel()
        if not self._requests:
            await self._client.aclose()

    async def leave(self) -> None:
        """Tell the kernel that the client has gone; since 2026-07-28 there is no session that ends."""
        if is_current(self.kernel):
            with suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._client.delete(f"{self._url}/mcp", headers=self._headers({}))

    async def exchange(self, message: Message) -> AsyncIterator[Message]:
        """Send a message and yield what comes for it; the answer is the last.

        Raises:
            _LostError: The kernel does not answer (any more).
        """
        async with self._request("POST", message) as response:
            if message.get("method") == "initialize":
                self.id = response.headers.get("mcp-session-id", "")
            async for received in self._messages(response, message):
                if message.get("method") == "initialize" and "result" in received:
                    self.version = str(received["result"].get("protocolVersion", ""))
                yield received

    async def listen(self) -> AsyncIterator[Message]:
        """Yield what the kernel sends of its own accord; _LostError when it ends."""
        async with self._request("GET", None) as response:
            async for received in self._messages(response, {}):
                yield received

    @asynccontextmanager
    async def _request(self, method: str, message: Message | None) -> AsyncIterator[httpx2.Response]:
        if not is_current(self.kernel):
            raise _LostError(is_sent=False)
        content = None if message is None else json.dumps(message).encode()
        headers = self._headers(message or {}) | ({} if content is None else {"Content-Type": "application/json"})
        waits = message is None or ("id" in message and "method" in message)
        timeout = httpx2.Timeout(None if waits else TAKE_SECONDS, connect=CONNECT_SECONDS)
        self._requests += 1
        try:
            async with self._client.stream(
                method, f"{self._url}/mcp", content=content, headers=headers, timeout=timeout
            ) as response:
                if response.status_code == 401 or (response.status_code == 404 and self.id and not is_modern(message)):
                    raise _LostError(is_sent=False)
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise _LostError(is_sent=False) from None
        except (httpx2.TransportError, httpx2.StreamError):
            raise _LostError from None
        finally:
            self._requests -= 1
            if self._is_over and not self._requests:
                await self._client.aclose()

    async def _messages(self, response: httpx2.Response, message: Message) -> AsyncIterator[Message]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        is_request = "id" in message and "method" in message
        if kind == "text/event-stream":
            async for event in httpx2.EventSource(response, max_event_size=MAX_BYTES):
                for received in _parsed(event.data):
                    self._note(message, received)
                    yield received
                    if is_request and is_answer(received):
                        return
            if not is_request or not is_current(self.kernel):
                raise _LostError
            yield failure(message, "the kernel has ended the request without an answer; whether it ran is not known.")
            return
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > MAX_BYTES:
                raise _LostError
        answers = [received for received in _parsed(data.decode("utf-8", "replace")) if is_answer(received)]
        if is_request and not answers:
            text = f"the kernel answers with HTTP {response.status_code}: {data[:200].decode('utf-8', 'replace')}"
            answers = [failure(message, text)]
        for received in answers if is_request else ():
            self._note(message, received)
            yield {**received, "id": message["id"]}

    def _headers(self, message: Message) -> dict[str, str]:
        """Return the headers of a message, as its protocol version wants them."""
        method, params = message.get("method", ""), params_of(message)
        if version := version_of(message):
            headers = {"mcp-protocol-version": version, "mcp-method": method}
            if isinstance(name := params.get(_NAMES.get(method, "")), str):
                headers["mcp-name"] = _header_value(name)
            if method == "tools/call" and (places := self._parameters.get(str(params.get("name")))):
                from mcp.shared.inbound import mcp_param_headers  # it takes most of a second, and few tools need it

                arguments = params.get("arguments")
                headers |= mcp_param_headers(places, arguments if isinstance(arguments, dict) else {})
            return headers
        headers = {"mcp-session-id": self.id} if self.id and method != "initialize" else {}
        return headers | ({"mcp-protocol-version": self.version} if self.version and method != "initialize" else {})

    def _note(self, message: Message, received: Message) -> None:
        """Note which arguments of listed tools are repeated in headers."""
        if message.get("method") != "tools/list" or "x-mcp-header" not in json.dumps(received):
            return
        from mcp.shared.inbound import x_mcp_header_map

        result = received.get("result")
        for tool in result.get("tools", []) if isinstance(result, dict) else []:
            with suppress(Exception):  # a definition that is none
                self._parameters[tool["name"]] = x_mcp_header_map(tool["inputSchema"])


def _parsed(text: str) -> list[Message]:
    """Return the messages in a text; none if it has none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, dict)]


def _header_value(text: str) -> str:
    """Return a text as the value of a header: base64 where a header cannot have it."""
    if re.fullmatch(r"[\x20-\x7E]*", text) and text == text.strip() and not re.fullmatch(r"=\?base64\?.*\?=", text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def params_of(message: Message) -> dict[str, Any]:
    """Return the parameters of a message."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def version_of(message: Message | None) -> str:
    """Return the protocol version that a message itself names, as those since 2026-07-28 do; "" if it names none."""
    meta = params_of(message or {}).get("_meta")
    version = meta.get(f"{_META}protocolVersion") if isinstance(meta, dict) else None
    return version if isinstance(version, str) and re.fullmatch(r"[\x21-\x7E]{1,40}", version) else ""


def is_modern(message: Message | None) -> bool:
    """Whether a message stands by itself, as those since 2026-07-28 do."""
    return bool(version_of(message))


def is_answer(message: Message) -> bool:
    """Whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def answer(request: Message, result: Message) -> Message:
    """Return the answer to a request; since 2026-07-28 it says that it is complete, and not to be kept."""
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if is_modern(request) else {}
    return {"jsonrpc": "2.0", "id": request["id"], "result": {**more, **result}}


def _capabilities(request: Message) -> dict[str, Any]:
    """Return what a kernel can, for a client that begins without one: it learns that once."""
    lists = {kind: {"listChanged": True} for kind in _LISTS}
    return {
        **lists,
        "resources": {"listChanged": True, "subscribe": False},
        "completions": {},
        "logging": {},
    }


def failure(request: Message, text: str, code: int = _CLOSED) -> Message:
    """Return an error for a request; that of a call is a result that a model reads."""
    if request.get("method") == "tools/call":
        return answer(request, {"content": [{"type": "text", "text": text}], "isError": True})
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}}


# Towards the client


@dataclass
class _Client:
    """What the client has said, for the next kernel."""

    initialize: Message | None = None  # None before it, and since 2026-07-28
    is_initialized: bool = False
    lasting: dict[tuple[str, str], Message] = field(default_factory=dict)  # requests that also the next kernel gets
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
        self._session: _Session | None = None
        self._last: RunningKernel | None = None
        self._why_none = NONE_SERVES
        self._changes = 0  # how often another kernel, or none, has come
        self._changed = asyncio.Event()
        self._requests: dict[Any, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client = _Client()

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Serve until there are no more lines."""
        watching = asyncio.create_task(self._watch())
        try:
            async for line in lines:
                messages = _parsed(line.decode("utf-8", "replace"))
                if not messages and line.strip():
                    error = {"code": _PARSE_ERROR, "message": "a line is one JSON-RPC message"}
                    await self._send({"jsonrpc": "2.0", "id": None, "error": error})
                for message in messages:
                    await self._receive(message)
            if self._requests:  # as of a client that only sends a file of requests
                await asyncio.wait({*self._requests.values()}, timeout=END_SECONDS)
        finally:
            watching.cancel()
            session, self._session = self._session, None
            if session is not None:
                await session.leave()
                await session.close()

    async def _send(self, message: Message) -> None:
        line = json.dumps(message).encode() + b"\n"
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
        """Take a message of the client."""
        method = message.get("method")
        if isinstance(method, str) and isinstance(message.get("id"), str | int):
            task = self._requests[message["id"]] = self._start(self._answer(message))
            task.add_done_callback(lambda task: self._finished(message["id"], task))
            if method == "initialize":
                await asyncio.wait({task})  # what follows needs it
        elif isinstance(method, str):
            await self._notified(message)
        elif is_answer(message):
            await self._replied(message)

    def _finished(self, number: Any, task: asyncio.Task[None]) -> None:
        if self._requests.get(number) is task:
            del self._requests[number]

    async def _notified(self, message: Message) -> None:
        method = message["method"]
        if method == "notifications/cancelled":
            number = params_of(message).get("requestId")
            task = self._requests.get(number) if isinstance(number, str | int) else None
            if self._session is not None and self._client.initialize is not None:
                await self._pass_on(self._session, message)
            if task is not None:
                task.cancel()  # that ends its stream, which is how 2026-07-28 cancels over HTTP
            return
        if method == "notifications/initialized":
            self._client.is_initialized = True
            if self._session is None:
                self._start(self._ask_for_roots())
        if self._session is None or self._client.initialize is None:
            return
        if method == "notifications/initialized":
            await self._initialized(self._session)
        else:
            await self._pass_on(self._session, message)

    async def _replied(self, message: Message) -> None:
        """Take the client's answer to a question: of the kernel, if it is one of the present kernel's, or of ours."""
        number = message.get("id")
        if number == "roots" and self._client.roots is not None and not self._client.roots.done():
            self._client.roots.set_result(message)
        elif self._session is not None and isinstance(number, str) and number in self._session.questions:
            await self._pass_on(self._session, {**message, "id": self._session.questions.pop(number)})

    async def _pass_on(self, session: _Session, message: Message) -> None:
        """Pass a message on that gets no answer."""
        with suppress(_LostError):
            async for _ in session.exchange(message):
                pass

    async def _deliver(self, session: _Session, message: Message) -> None:
        """Give the client a message of a kernel; the ids of its questions become ours."""
        params = params_of(message)
        if "method" in message and "id" in message:
            number = f"kernel-{self._changes}-{secrets.token_hex(4)}"
            session.questions[number] = message["id"]
            message = {**message, "id": number}
        elif message.get("method") == "notifications/cancelled":
            numbers = [own for own, number in session.questions.items() if number == params.get("requestId")]
            if not numbers:
                return
            session.questions.pop(numbers[0])
            message = {**message, "params": {**params, "requestId": numbers[0]}}
        await self._send(message)

    # Requests

    async def _answer(self, request: Message) -> None:
        """Answer a request of the client."""
        method = request["method"]
        if method == "initialize":
            self._client.initialize, self._client.is_initialized = request, False
            self._client.lasting.clear()
            await self._drop()
        if method == _LISTEN and is_modern(request):
            await self._answer_listening(request)
        elif method == "tools/call" and params_of(request).get("name") == FIND_KERNELS:
            await self._send(answer(request, {"content": [{"type": "text", "text": await self._find(request)}]}))
        else:
            if not is_modern(request):
                self._keep(request)
            await self._answer_by_kernel(request)

    async def _answer_by_kernel(self, request: Message) -> None:
        """Let the kernel answer; where nothing was sent to one that has ended, the next one."""
        for attempt in range(2):
            session = await self._opened(greets=request["method"] != "initialize")
            if session is None:
                await self._send(self._own_answer(request))
                return
            try:
                async for message in session.exchange(request):
                    await self._deliver(session, message)
            except _LostError as error:
                await self._drop(session)
                if error.is_sent or attempt:
                    unknown = "whether it ran is not known" if error.is_sent else "it was not sent"
                    text = f"the kernel was restarted or serves no longer; {unknown}. Look before you send it again."
                    await self._send(failure(request, text))
                    return
            else:
                return

    def _keep(self, request: Message) -> None:
        """Keep a request that also the next kernel gets."""
        method, uri = request["method"], str(params_of(request).get("uri", ""))
        if method in ("logging/setLevel", "resources/subscribe") and len(self._client.lasting) < MAX_LASTING:
            self._client.lasting[method, uri] = request
        elif method == "resources/unsubscribe":
            self._client.lasting.pop(("resources/subscribe", uri), None)

    def _own_answer(self, request: Message) -> Message:
        """Answer a request while there is no kernel."""
        method, params = request["method"], params_of(request)
        about = {"name": KERNEL[0], "title": KERNEL[1], "version": __version__}
        if method == "initialize":
            version = params.get("protocolVersion")
            version = version if version in HANDSHAKES else HANDSHAKES[-1]
            own = {"protocolVersion": version, "serverInfo": about, "instructions": self._why_none}
            return answer(request, {**own, "capabilities": _capabilities(request)})
        if method == "server/discover":
            own = {"supportedVersions": [*MODERN], "_meta": {f"{_META}serverInfo": about}}
            return answer(request, {**own, "capabilities": _capabilities(request), "instructions": self._why_none})
        if method == "tools/list":
            return answer(request, {"tools": [_TOOL]})
        if method in _EMPTY:
            return answer(request, {_EMPTY[method]: []})
        if method == "completion/complete":
            return answer(request, {"completion": {"values": []}})
        if method in ("ping", "logging/setLevel"):
            return answer(request, {})
        return failure(request, self._why_none)

    async def _find(self, request: Message) -> str:
        """Answer the tool `find_kernels`: use the kernel that it names, or say which there are."""
        arguments = params_of(request).get("arguments")
        use = arguments.get("use") if isinstance(arguments, dict) else None
        if isinstance(use, str) and use:
            target = replace(self._target, kernel=use)
            choice = choose(await asyncio.to_thread(running_kernels), target)
            if choice.kernel is None:
                return choice.why_none
            self._target = target
            if self._session is not None and self._session.kernel != choice.kernel:
                await self._drop()
        session = await self._opened()
        if session is None:
            return self._why_none
        return f"This is {session.kernel.title}. Its tools are listed now: `list_values` says what the person shares."

    async def _answer_listening(self, request: Message) -> None:
        """Answer a request to hear of changes: it lasts from one kernel to the next."""
        meta = {f"{_META}subscriptionId": request["id"]}
        kinds = params_of(request).get("notifications")
        kinds = kinds if isinstance(kinds, dict) else {}
        is_acknowledged, changes = False, self._changes
        self._client.listeners += 1
        try:
            while True:
                session = await self._opened()
                if is_acknowledged and changes != self._changes:
                    for kind in _LISTS:
                        if kinds.get(f"{kind}ListChanged"):
                            await self._notify(f"notifications/{kind}/list_changed", {"_meta": meta})
                changes, event = self._changes, self._changed
                if session is None and not is_acknowledged:
                    await self._notify(_ACKNOWLEDGED, {"notifications": kinds, "_meta": meta})
                if session is None:
                    await event.wait()
                elif not await self._relay_changes(session, request, is_acknowledged=is_acknowledged):
                    return
                is_acknowledged = True
        finally:
            self._client.listeners -= 1

    async def _relay_changes(self, session: _Session, request: Message, *, is_acknowledged: bool) -> bool:
        """Deliver changes until the kernel ends that; return False if it refuses the request."""
        try:
            async for message in session.exchange(request):
                if is_answer(message) and "error" in message and is_current(session.kernel):
                    await self._send(message)
                    return False
                if not is_answer(message) and not (is_acknowledged and message.get("method") == _ACKNOWLEDGED):
                    await self._deliver(session, message)
        except _LostError:
            await self._drop(session)
        else:
            await asyncio.sleep(LOOK_SECONDS)
        return True

    # Kernels

    async def _opened(self, *, greets: bool = True) -> _Session | None:
        """Return the session with the kernel that is meant; None if there is none. `greets`: initialise there."""
        async with self._opening:
            if self._session is not None and is_current(self._session.kernel):
                return self._session
            await self._drop()
            choice = choose(await asyncio.to_thread(running_kernels), self._target, self._last)
            token = None if choice.kernel is None else token_of(choice.kernel)
            self._why_none = choice.why_none or NONE_SERVES
            if choice.kernel is None or token is None:
                return None
            session = _Session(choice.kernel, token, self._id)
            try:
                await session.prove()
                if greets and self._client.initialize is not None:
                    await self._greet(session)
            except _LostError as error:
                self._why_none = str(error)
                self._start(session.close())
                return None
            self._session, self._last = session, choice.kernel
        await self._tell_of_change()
        return session

    async def _greet(self, session: _Session) -> None:
        """Initialise a session as the client has initialised its own."""
        async for message in session.exchange({**(self._client.initialize or {}), "id": "proxy"}):
            if "error" in message:
                raise _LostError(f"{session.kernel.title} takes no session now; try again later.")
        if self._client.is_initialized:
            await self._initialized(session)
        for request in [*self._client.lasting.values()]:
            async for _ in session.exchange({**request, "id": "proxy"}):
                pass

    async def _initialized(self, session: _Session) -> None:
        await self._pass_on(session, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        session.streams.add(self._start(self._listen(session)))

    async def _listen(self, session: _Session) -> None:
        """Deliver what a kernel sends of its own accord, until it ends."""
        while session is self._session or self._session is None:
            try:
                async for message in session.listen():
                    await self._deliver(session, message)
            except _LostError:
                if not is_current(session.kernel):
                    break
            await asyncio.sleep(LOOK_SECONDS)
        self._start(self._drop(session))

    async def _drop(self, session: _Session | None = None) -> None:
        """End the session with a kernel, unless another has taken its place; requests in flight end by themselves."""
        present = self._session
        if present is None or (session is not None and session is not present):
            return
        self._session = None
        for number in present.questions:
            await self._notify("notifications/cancelled", {"requestId": number, "reason": "the kernel has ended"})
        self._start(present.close())
        await self._tell_of_change()

    async def _tell_of_change(self) -> None:
        """Tell the client that the lists are those of another kernel."""
        self._changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
        if self._client.is_initialized:
            for kind in _LISTS:
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


_TOOL = {
    "name": FIND_KERNELS,
    "title": "Find kernels",
    "description": "Says which Jupyter kernels of the person can be used, and uses one. No kernel is in use now.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "use": {"type": "string", "description": "the notebook or the id of the kernel to use from now on"}
        },
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


# The program


async def serve(target: Target) -> None:
    """Serve over stdin and stdout until stdin ends. What anything else prints goes to stderr."""
    if sys.stdin.isatty():
        sys.stderr.write("An agent starts this by the entry that `%mcp serve --kernel` shows; Ctrl-D ends it.\n")
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        with suppress(OSError, ValueError, RuntimeError):
            for line in sys.stdin.buffer:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, None)

    async def following() -> AsyncIterator[bytes]:
        while (line := await lines.get()) is not None:
            yield line

    def write(line: bytes) -> None:
        while line:
            line = line[os.write(own, line) :]

    threading.Thread(target=read, name="mcp_magic stdin", daemon=True).start()
    with suppress(NotImplementedError):  # on Windows
        loop.add_signal_handler(signal.SIGTERM, lines.put_nowait, None)
    with suppress(BrokenPipeError):
        await Proxy(target, write).run(following())


def read_options(words: Sequence[str]) -> Target:
    """Return which kernel a command line means.

    Raises:
        CommandError: A word is none of its options.
    """
    values: dict[str, str] = {}
    rest = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    while rest:
        option = rest.pop(0)
        if option not in ("--folder", "--kernel"):
            raise CommandError(
                f"python -m mcp_magic proxy takes --folder FOLDER and --kernel NOTEBOOK, not {option!r}."
            )
        if not rest:
            raise CommandError(f"{PROGRAM}: {option} takes a value.")
        values[option] = rest.pop(0)
    folder = Path(values.get("--folder") or os.getcwd()).expanduser().resolve()  # noqa: PTH109
    return Target((folder,), values.get("--kernel", ""), "--folder" in values)


def main(words: Sequence[str]) -> int:
    """Run the proxy, and return its exit status."""
    if {"-h", "--help"} & {*words}:
        sys.stdout.write(USAGE)
        return 0
    try:
        target = read_options(words)
    except MCPMagicError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(target))
    sys.stderr.flush()
    os._exit(0)  # a thread waits for stdin
