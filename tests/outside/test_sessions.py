"""Sessions of the handshake era: as many as there may be, and clients that come back after theirs has ended."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from mcp_magic.outside.gateway import KernelServer
from mcp_magic.outside.sessions import BoundedSessions
from tests.support.hosts import host as host
from tests.support.outside import served
from tests.support.waiting import until

HEADERS = {"Accept": "application/json, text/event-stream"}
CLIENT = {"name": "old", "version": "1"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


class Old:
    """A client of the handshake era, without an SDK."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self.headers = HEADERS

    async def post(self, method: str, params: dict | None = None, **members) -> httpx2.Response:
        """Send a message, and return the response."""
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **members}
        return await self._http.post(self._url, json=message, headers=self.headers)

    async def begin(self) -> int:
        """Open a session; return the status of the response."""
        self.headers = HEADERS
        response = await self.post("initialize", INITIALIZE, id=0)
        if response.status_code == 200:
            self.headers = {**HEADERS, "Mcp-Session-Id": response.headers["mcp-session-id"]}
            assert (await self.post("notifications/initialized")).status_code == 202
        return response.status_code

    async def is_there(self) -> bool:
        """Whether the session is open still."""
        status = (await self.post("ping", id=1)).status_code
        assert status in (200, 404)
        return status == 200

    def listen(self):
        """Open the stream for announcements."""
        return self._http.stream("GET", self._url, headers=self.headers)


@pytest.fixture
async def http():
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        yield client


async def test_sessions_are_bounded_and_a_client_comes_back(host, http):
    kernel = KernelServer(host)
    async with served(kernel, max_sessions=3) as url:
        clients = [Old(http, url) for _ in range(8)]
        for client in clients:
            assert await client.begin() == 200
        assert [await client.is_there() for client in clients] == [False] * 5 + [True] * 3
        await until(lambda: len(kernel.clients) == 3)  # what was kept of the others is gone
        assert await clients[0].begin() == 200
        assert [await client.is_there() for client in (clients[0], *clients[5:])] == [True, False, True, True]
        listed = await clients[0].post("tools/list", id=2)
        assert "list_values" in listed.text


async def test_session_that_was_unused_the_longest_ends_first(host, http):
    async with served(KernelServer(host), max_sessions=2) as url:
        first, second, third = clients = [Old(http, url) for _ in range(3)]
        await first.begin()
        await second.begin()
        assert await first.is_there()
        await third.begin()
        assert [await client.is_there() for client in clients] == [True, False, True]


async def test_session_with_an_open_stream_ends_after_those_without(host, http):
    async with served(KernelServer(host), max_sessions=2) as url:
        first, second, third, fourth = clients = [Old(http, url) for _ in range(4)]
        await first.begin()
        async with first.listen():
            await second.begin()
            await third.begin()
            assert [await client.is_there() for client in (first, second, third)] == [True, False, True]
            async with third.listen():
                await fourth.begin()
                assert [await client.is_there() for client in clients] == [False, False, True, True]


async def test_unfinished_requests_keep_no_session(host, http):
    async with served(KernelServer(host), max_sessions=2) as url:
        place = httpx2.URL(url)
        opened = []
        for _ in range(8):
            client = Old(http, url)
            assert await client.begin() == 200
            headers = {**client.headers, "Host": place.netloc.decode(), "Content-Length": "100"}
            lines = [f"POST {place.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", "{"]
            _, writer = await asyncio.open_connection(place.host, place.port)
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            opened.append(writer)
        for writer in opened:
            writer.close()


class Application:
    """An endpoint that opens a session for a request without one, and ends one when it is told to."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.opened = 0
        self.release = asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        headers = dict(scope["headers"])
        key = headers.get(b"mcp-session-id", b"").decode()
        if scope["method"] == "DELETE":
            self.ended.append(key)
        elif not key:
            self.opened += 1
            key = str(self.opened)
        status = 404 if key in self.ended and scope["method"] != "DELETE" else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"mcp-session-id", key.encode())]})
        if headers.get(b"x-wait"):
            await self.release.wait()
        await send({"type": "http.response.body", "body": b""})


async def ask(app, key: str = "", method: str = "POST", **headers: str) -> int:
    """Send a request to an application; return the status of its response."""
    status = []

    async def send(message) -> None:
        status.append(message.get("status"))

    named = {"host": "localhost", **headers, **({"mcp-session-id": key} if key else {})}
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    await app({"type": "http", "method": method, "headers": encoded}, None, send)
    return status[0]


async def test_session_with_a_request_in_flight_never_ends():
    application = Application()
    sessions = BoundedSessions(application, most=2)
    for _ in range(2):
        await ask(sessions)
    requests = [asyncio.create_task(ask(sessions, key, x_wait="1")) for key in ("1", "2")]
    await asyncio.sleep(0)
    await ask(sessions)
    assert application.ended == []
    await ask(sessions)
    assert application.ended == ["3"]
    application.release.set()
    assert await asyncio.gather(*requests) == [200, 200]
    await ask(sessions)
    assert application.ended == ["3", "4", "1"]
    assert len(sessions) == 2


async def test_session_that_its_client_has_ended_counts_no_more():
    application = Application()
    sessions = BoundedSessions(application, most=2)
    for _ in range(2):
        await ask(sessions)
    await ask(sessions, "1", "DELETE")
    assert len(sessions) == 1
    await ask(sessions)
    assert application.ended == ["1"]
    assert [await ask(sessions, key) for key in ("1", "2", "3", "unknown")] == [404, 200, 200, 200]
    assert len(sessions) == 2
