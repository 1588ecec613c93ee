"""What a URL answers to plain HTTP requests: statuses, types, redirects, where else the server may be."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from mcp_magic.auth.addresses import Reach
from mcp_magic.config.specs import tls_context
from mcp_magic.core.doctor.wire import Reply, discover, initialize, is_message
from mcp_magic.core.transports import CONNECT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx2

    from mcp_magic.config.specs import HttpSpec, SseSpec
    from mcp_magic.core.doctor.entrance import Entrance

__all__ = ["HttpPatient"]

BODY_BYTES = 4 * 1024 * 1024
"""Bytes of an answer that are read."""

MAX_REDIRECTS = 5

_ACCEPT = "application/json, text/event-stream"


class HttpPatient:
    """A URL that is asked by hand.

    Args:
        spec: Where it is.
        seconds: The time that an answer may take.
        entrance: How it logs in where that is wanted; None for never.

    Attributes:
        entrance: The same.
        redirects: Where redirects led, in order.
        session: The session id of a handshake, or "".
    """

    def __init__(self, spec: HttpSpec | SseSpec, seconds: float, entrance: Entrance | None = None) -> None:
        self._spec = spec
        self.entrance = entrance
        self._seconds = seconds
        self._url = spec.url
        self.redirects: list[str] = []
        self.session = ""

    def _client(self, *, headers: Mapping[str, str] | None = None) -> httpx2.AsyncClient:
        import httpx2

        given = dict(self._spec.headers if headers is None else headers)
        timeout = httpx2.Timeout(min(CONNECT_SECONDS, self._seconds), read=self._seconds)
        factory = self._spec.client_factory
        if factory is not None and headers is None:
            made: httpx2.AsyncClient = factory(headers=given, timeout=timeout, auth=None)
            return made
        plain = self._spec.verify is True and self._spec.cert is None
        return httpx2.AsyncClient(
            headers=given, timeout=timeout, verify=True if plain else tls_context(self._spec), follow_redirects=False
        )

    async def discover(self, **headers: str) -> Reply:
        """Ask for `server/discover`."""
        from mcp_types.version import LATEST_MODERN_VERSION

        told = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": "server/discover", **headers}
        return await self._post(discover(), told)

    async def initialize(self) -> Reply:
        """Ask for `initialize`, and end at once the session that this opens."""
        reply = await self._post(initialize(), {})
        self.session = reply.headers.get("mcp-session-id", "")
        if self.session:
            await self._send("DELETE", self._url, {"mcp-session-id": self.session}, None, 0)
        return reply

    async def post_at(self, path: str) -> Reply:
        """Ask for `server/discover` at another path of the same server."""
        return await self._send("POST", urljoin(self._url, path), {}, discover(), 1)

    async def get_at(self, path: str = "") -> Reply:
        """Get the URL, or another path of the same server, as a client of the old HTTP+SSE transport does.

        Only the beginning of a stream is read.
        """
        return await self._send("GET", urljoin(self._url, path), {"accept": "text/event-stream"}, None, 0)

    async def document(self, url: str) -> Reply:
        """Get a JSON document of another server: none of this server's credentials go there.

        Not from this machine or its network, if the server is outside.
        """
        issuer = getattr(getattr(self._spec, "auth", None), "issuer", None)
        if address := await Reach(self._url, [issuer]).refused(url):
            reply = Reply()
            reply.failure = f"{url} leads to {address}, an address of this machine or its network"
            return reply
        return await self._send("GET", url, {"accept": "application/json"}, None, 0, foreign=True)

    async def _post(self, message: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send a request; redirects that keep it a POST are followed within the origin, as a session does."""
        while True:
            reply = await self._send("POST", self._url, headers, message, message["id"])
            location = reply.headers.get("location", "")
            if reply.status not in (301, 302, 303, 307, 308) or not location:
                return reply
            target = urljoin(self._url, location)
            self.redirects.append(target)
            same = urlsplit(target)[:2] == urlsplit(self._url)[:2]
            if not same or reply.status not in (307, 308) or len(self.redirects) > MAX_REDIRECTS:
                return reply
            self._url = target

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], message: Any, number: int, *, foreign: bool = False
    ) -> Reply:
        import httpx2

        started = time.perf_counter()
        reply = Reply()
        asked = {"accept": _ACCEPT, **headers}
        try:
            async with self._client(headers={} if foreign else None) as client:
                if self.entrance is not None and not foreign:
                    self.entrance.put_on(client)
                content = {"json": message} if message is not None else {}
                async with client.stream(method, url, headers=asked, **content) as response:
                    reply.status = response.status_code
                    reply.headers = {name.lower(): value for name, value in response.headers.items()}
                    await _read(response, reply, number)
        except httpx2.TimeoutException:
            reply.failure = f"no answer in {self._seconds:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            reply.failure = self._spec.masked(str(error) or type(error).__name__)[:200]
        reply.seconds = time.perf_counter() - started
        return reply


async def _read(response: httpx2.Response, reply: Reply, number: int) -> None:
    """Read an answer: a document to its end, of an event stream until the answer is there."""
    stream = "event-stream" in reply.headers.get("content-type", "")
    data = b""
    async for chunk in _chunks(response):
        data += chunk
        if stream and ((found := _event(data, number)) or not number):
            reply.message = found
            break
    reply.body = data[:20_000].decode("utf-8", "replace")
    if not stream:
        reply.message = is_message(data, number) if number else None


async def _chunks(response: httpx2.Response) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        yield chunk
        if size > BODY_BYTES:
            return


def _event(data: bytes, number: int) -> dict[str, Any] | None:
    """Return the answer in what has come of an event stream."""
    for line in data.replace(b"\r\n", b"\n").split(b"\n")[:-1]:
        if line.startswith(b"data:") and (found := is_message(line[5:].strip(), number)):
            return found
    return None
