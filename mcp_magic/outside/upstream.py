"""The session of the proxy with one kernel: streamable HTTP, in both protocol eras.

The token is sent only to a server that has proved to have it. The runtime file is read again before each request: a
kernel that no longer serves has none.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx2

from mcp_magic.loopback import CLIENT_HEADER, PROOF_PATH, proof_of
from mcp_magic.outside.messages import (
    MAX_BYTES,
    Message,
    failure,
    is_answer,
    is_modern,
    is_request,
    params_of,
    parsed,
    version_of,
)
from mcp_magic.outside.runtime import is_current

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.outside.runtime import RunningKernel

CONNECT_SECONDS = 5.0  # seconds for a kernel to accept a connection, to prove what it is, and to begin a session

TAKE_SECONDS = 30.0  # seconds for a kernel to take a message that it does not answer

LEAVE_SECONDS = 1.0  # seconds for a kernel to hear that the client has gone

MAX_PROOF = 200  # bytes of an answer that may be a proof

MAX_CONNECTIONS = 100  # at a time; more requests wait for one

_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what `Mcp-Name` repeats


class LostError(Exception):
    """The kernel gives no answer; the text may say why.

    Attributes:
        is_sent: Whether the message may have reached it.
    """

    def __init__(self, why: str = "", *, is_sent: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent


class KernelSession:
    """What the proxy is to one kernel: a client.

    Args:
        kernel: The kernel.
        token: Its token.
        client: Tells this client from others, as since 2026-07-28 there are no sessions.

    Attributes:
        questions: The ids of its questions, by those that the client gets.
        stream: What follows it, once the session is initialized.
    """

    def __init__(self, kernel: RunningKernel, token: str, client: str) -> None:
        self.kernel = kernel
        self.questions: dict[str, Any] = {}
        self.stream: asyncio.Task[None] | None = None
        self._version = ""
        self._id = ""
        self._requests = 0  # in flight
        self._is_over = False
        self._url = f"http://127.0.0.1:{kernel.port}"
        self._token = token
        self._parameters: dict[str, dict[tuple[str, ...], str]] = {}  # of tools, what `Mcp-Param-` headers repeat
        self._client = httpx2.AsyncClient(
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                CLIENT_HEADER: client,
            },
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=8),
            trust_env=False,  # a proxy of the environment would get the token
        )

    async def prove(self) -> None:
        """Make sure that the server at the port has the token, which is not sent for that.

        Raises:
            LostError: It has not, or does not answer.
        """
        nonce = secrets.token_hex(16)
        proof = b""
        try:
            async with (
                asyncio.timeout(CONNECT_SECONDS),
                httpx2.AsyncClient(trust_env=False) as client,
                client.stream("GET", f"{self._url}{PROOF_PATH}?nonce={nonce}") as response,
            ):
                async for chunk in response.aiter_raw():
                    proof += chunk[:MAX_PROOF]
                    if len(proof) >= MAX_PROOF:
                        break
        except (httpx2.TimeoutException, TimeoutError):
            raise self._busy_error(is_sent=False) from None
        except httpx2.HTTPError:
            raise LostError(is_sent=False) from None
        if not secrets.compare_digest(proof.strip(), proof_of(self._token, self.kernel.port, nonce).encode()):
            raise LostError(is_sent=False)  # another program has its port now

    def _busy_error(self, *, is_sent: bool) -> LostError:
        why = "it runs what leaves no time for others. Try again later, or ask the person to interrupt it."
        return LostError(f"{self.kernel.title} does not answer now: {why}", is_sent=is_sent)

    async def close(self) -> None:
        """End the session once no request is in flight. Idempotent."""
        self._is_over = True
        if self.stream is not None:
            self.stream.cancel()
        if not self._requests:
            await self._client.aclose()

    async def leave(self) -> None:
        """Tell the kernel that the client has gone; since 2026-07-28 there is no session that ends."""
        if is_current(self.kernel):
            with suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await self._client.delete(f"{self._url}/mcp", headers=self._headers({}))

    async def exchange(self, message: Message) -> AsyncIterator[Message]:
        """Send a message and yield what comes for it; the answer is the last.

        Raises:
            LostError: The kernel does not answer (any more).
        """
        async with self._request("POST", message) as response:
            if message.get("method") == "initialize":
                self._id = response.headers.get("mcp-session-id", "")
            async for received in self._messages(response, message):
                if message.get("method") == "initialize" and is_answer(received):
                    result = received.get("result")
                    self._version = str(result.get("protocolVersion", "")) if isinstance(result, dict) else ""
                yield received

    async def listen(self) -> AsyncIterator[Message]:
        """Yield what the kernel sends of its own accord; it ends at once if there is no stream for that now.

        Raises:
            LostError: The stream has ended.
        """
        async with self._request("GET", {}) as response:
            async for received in self._messages(response, {}):
                yield received

    @asynccontextmanager
    async def _request(self, method: str, message: Message) -> AsyncIterator[httpx2.Response]:
        if not is_current(self.kernel):
            raise LostError(is_sent=False)
        headers = self._headers(message) | ({"Content-Type": "application/json"} if message else {})
        seconds = None if is_request(message) or not message else TAKE_SECONDS
        seconds = CONNECT_SECONDS if message.get("method") == "initialize" else seconds
        self._requests += 1
        try:
            async with self._client.stream(
                method,
                f"{self._url}/mcp",
                content=json.dumps(message).encode() if message else None,
                headers=headers,
                timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            ) as response:
                if response.status_code == 401 or (response.status_code == 404 and self._id and not is_modern(message)):
                    raise LostError(is_sent=False)
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise LostError(is_sent=False) from None
        except httpx2.TimeoutException:
            raise self._busy_error(is_sent=True) from None
        except (httpx2.TransportError, httpx2.StreamError):
            raise LostError from None
        finally:
            self._requests -= 1
            if self._is_over and not self._requests:
                await self._client.aclose()

    async def _messages(self, response: httpx2.Response, message: Message) -> AsyncIterator[Message]:
        if response.headers.get("content-type", "").partition(";")[0].strip() == "text/event-stream":
            async for event in httpx2.EventSource(response, max_event_size=MAX_BYTES):
                for received in parsed(event.data):
                    self._note(message, received)
                    yield received
                    if is_request(message) and is_answer(received):
                        return
            raise LostError
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > MAX_BYTES:
                raise LostError
        if is_request(message):
            answers = [received for received in parsed(bytes(data)) if is_answer(received)]
            received = answers[0] if answers else failure(message, _status_text(response.status_code, bytes(data)))
            self._note(message, received)
            yield {**received, "id": message["id"]}

    def _headers(self, message: Message) -> dict[str, str]:
        """Return the headers of a message, as its protocol version wants them."""
        method, params = message.get("method", ""), params_of(message)
        if version := version_of(message):
            headers = {"mcp-protocol-version": version, "mcp-method": header_value(method)}
            if isinstance(name := params.get(_NAMES.get(method, "")), str):
                headers["mcp-name"] = header_value(name)
            if method == "tools/call" and (places := self._parameters.get(str(params.get("name")))):
                from mcp.shared.inbound import mcp_param_headers  # it takes most of a second, and few tools need it

                arguments = params.get("arguments")
                headers |= mcp_param_headers(places, arguments if isinstance(arguments, dict) else {})
            return headers
        if method == "initialize":
            return {}
        headers = {"mcp-session-id": self._id, "mcp-protocol-version": self._version}
        return {name: value for name, value in headers.items() if value}

    def _note(self, message: Message, received: Message) -> None:
        """Note which arguments of listed tools are repeated in headers."""
        if message.get("method") != "tools/list" or "x-mcp-header" not in json.dumps(received):
            return
        from mcp.shared.inbound import x_mcp_header_map

        result = received.get("result")
        for tool in result.get("tools", []) if isinstance(result, dict) else []:
            with suppress(Exception):  # a definition that is none
                self._parameters[tool["name"]] = x_mcp_header_map(tool["inputSchema"])


def _status_text(status: int, data: bytes) -> str:
    """Return what is said of an answer that is no message."""
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "the message is larger than the kernel takes; nothing was called. Send less, or pass data by reference."
    return f"the kernel answers with HTTP {status}: {data[:200].decode('utf-8', 'replace')}"


def header_value(text: str) -> str:
    """Return a text as the value of a header: base64 where a header cannot have it.

    >>> header_value("tools/call"), header_value("sø")
    ('tools/call', '=?base64?c8O4?=')
    """
    if re.fullmatch(r"[\x20-\x7E]*", text) and text == text.strip() and not re.fullmatch(r"=\?base64\?.*\?=", text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
