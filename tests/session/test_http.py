"""Sessions over streamable HTTP: ids, sessions that are forgotten, and redirects."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mcp_magic.doctor import examine
from mcp_magic.errors import NotAnMCPServerError, ProtocolError, SessionClosedError
from tests.support.asgi import serving
from tests.support.odd_http import EVENTS, JSON, Formed, body, formed, outcome
from tests.support.odd_server import remarks
from tests.support.processes import free_port
from tests.support.rogue_http import rogue_http
from tests.support.waiting import until

SESSIONS = {
    "space": (b"a b", "a b"),
    "utf_8": ("sitzung-ü".encode(), r"sitzung-\xc3\xbc"),
    "latin_1": (b"sitzung-\xfc", r"sitzung-\xfc"),
    "control": (b"a\x01b\x7f", r"a\x01b\x7f"),
}


@pytest.mark.parametrize(("session", "shown"), SESSIONS.values(), ids=SESSIONS)
async def test_an_odd_session_id_is_sent_as_it_came(host, session, shown):
    async with rogue_http(session=session) as rogue:
        connection = await host.connect(rogue.url, name="odd", protocol="handshake")
        assert await outcome(connection, "right") == "right"
        assert rogue.calls["initialize"] == 1
        sent = {headers.get("mcp-session-id", "") for _, headers in rogue.requests[1:]}
        assert sent == {session.decode("latin-1")}
        told = f"its Mcp-Session-Id has other characters than visible ASCII: '{shown}'"
        assert told in remarks(connection)
        assert told in "\n".join((await examine(host, rogue.url, call="right")).problems)
        await host.close()


@pytest.mark.parametrize("session", [b"a\x00b", b"a\x0bb"], ids=["null", "tab"])
async def test_a_session_id_that_http_refuses_is_named(host, session):
    async with rogue_http(session=session) as rogue:
        with pytest.raises(NotAnMCPServerError) as caught:
            await host.connect(rogue.url, name="odd")
        shown = session.decode().encode("unicode_escape").decode()
        assert f"a header that HTTP does not allow: Mcp-Session-Id: {shown} (fault: the server)" in str(caught.value)
        assert rogue.calls["initialize"] <= 2
        report = await examine(host, rogue.url)
        assert "it does not answer initialize: illegal header line: " in "\n".join(report.problems)


# Sessions that a server forgets

GONE = {"code": -32001, "message": "Session not found"}
FORGOTTEN: dict[str, Any] = {
    "no_id": lambda m: (404, JSON, body({"jsonrpc": "2.0", "id": None, "error": GONE})),
    "server_id": lambda m: (404, JSON, body({"jsonrpc": "2.0", "id": "server-error", "error": GONE})),
    "own_id": lambda m: (404, JSON, body({"jsonrpc": "2.0", "id": m["id"], "error": GONE})),
    "text": lambda m: (400, "text/plain", b"Invalid or missing session ID"),
    "json": lambda m: (400, JSON, b'{"error": "Invalid or missing session ID"}'),
    "gone": lambda m: (410, "text/plain", b"session expired"),
    "unfit": lambda m: (422, JSON, b'{"detail": "Session not found or expired"}'),
}


@pytest.mark.parametrize("sessions", [True, False], ids=["with_id", "without_id"])
@pytest.mark.parametrize("form", FORGOTTEN.values(), ids=FORGOTTEN)
async def test_a_session_lost_in_any_words_is_renewed(host, form, sessions):
    server = Formed(lambda m: form(m) if server.counts["tools/call"] == 1 else (200, JSON, body(m)))
    server.sessions = sessions
    async with formed(host, server, protocol="handshake") as connection:
        said = await outcome(connection)
        assert said == "right" if sessions else said.startswith("ProtocolError: odd:good: ")
        assert server.counts["initialize"] == 1 + sessions


async def test_sessions_forgotten_at_once_are_given_up(host):
    def form(message: Any) -> tuple[int, str, bytes]:
        if "protocolVersion" in message["result"]:
            return 200, JSON, body(message)
        return 404, JSON, body({"jsonrpc": "2.0", "id": None, "error": GONE})

    server = Formed(form, everything=True)
    async with formed(host, server, protocol="handshake") as connection:
        with pytest.raises(ProtocolError, match="tried in two sessions; the server forgot each at once"):
            await connection.call("good")
        while connection.state != "lost":
            with pytest.raises((ProtocolError, SessionClosedError)):
                await connection.call("good")
        with pytest.raises(SessionClosedError, match="it forgot 4 sessions in a row, each before it answered anything"):
            await connection.call("good")
        assert server.counts["initialize"] == 4


class Restarted(Formed):
    """A server that knows only its own sessions, and opens a stream of notifications that ends soon."""

    def __init__(self, name: str) -> None:
        super().__init__(lambda m: (200, JSON, self._bare(m)), everything=True)
        self._name = name.encode()

    @staticmethod
    def _bare(message: Any) -> bytes:
        """Return an answer that offers nothing, so that nothing is listed."""
        return body({**message, "result": {**message["result"], "capabilities": {}}})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        session = dict(scope.get("headers", ())).get(b"mcp-session-id", self._name)
        if scope["type"] == "http" and session != self._name:
            await self.send(send, 404, "", b"")
        elif scope["type"] == "http" and scope["method"] == "GET":
            await self.send(send, 200, EVENTS, b"retry: 50\n\n")
        else:
            await super().__call__(scope, receive, send)

    async def send(self, send: Any, status: int, kind: str, content: bytes, *, method: str = "") -> None:
        headers = [(b"mcp-session-id", self._name), *([(b"content-type", kind.encode())] if kind else [])]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


async def test_a_server_that_restarts_often_is_not_given_up(host):
    """Its sessions are forgotten, too, and nothing is asked in them."""
    host.reconnection.first, host.reconnection.longest = 0.05, 0.2
    port = free_port()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(Restarted("0"), port=port, lifespan="off"))
        connection = await host.connect(f"http://127.0.0.1:{port}/mcp", name="odd", protocol="handshake")
        for number in range(1, 6):
            await stack.aclose()
            await until(lambda: connection.state == "reconnecting")
            await stack.enter_async_context(serving(Restarted(str(number)), port=port, lifespan="off"))
            await until(lambda: connection.state == "open")
        assert connection.reconnects == 5
        await host.close()


# Redirects


def redirecting(server: Any, is_away: Any, where: Any, status: int = 307, *, length: bool = False) -> Any:
    """Return an app that answers some requests by a redirect, others as a server does."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        event = await receive() if scope["type"] == "http" else {}
        if scope["type"] != "http" or not is_away(scope["path"], event.get("body", b"")):
            await server(scope, lambda: asyncio.sleep(0, event), send)
            return
        headers = [(b"location", where(scope["path"]).encode()), *([(b"content-length", b"2")] if length else [])]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"to"})

    return app


@pytest.mark.parametrize("length", [True, False], ids=["length", "chunks"])
@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_on_the_same_origin_is_followed(host, status, length):
    server = Formed(lambda m: (200, JSON, body(m)))
    app = redirecting(server, lambda path, _: path == "/mcp", lambda _: "/mcp/", status, length=length)
    async with formed(host, app) as connection:
        assert await outcome(connection) == "right"
        assert "/mcp redirects to /mcp/ with each request; connect to that" in remarks(connection)
        assert not connection.notices.messages


@pytest.mark.parametrize("paths", [["/mcp"], ["/mcp", "/mcp/"]], ids=["itself", "slash"])
async def test_redirects_in_a_circle_are_noticed(host, paths):
    asked: list[str] = []

    def where(path: str) -> str:
        asked.append(path)
        return paths[len(asked) % len(paths)]

    server = Formed(lambda m: (200, JSON, body(m)))
    async with formed(host, redirecting(server, lambda _, sent: b'"tools/call"' in sent, where)) as connection:
        circle = ", ".join([*paths[1:], *paths, *paths][: len(paths) + 1])
        assert f"Redirects in a circle: {circle}" in await outcome(connection)
        assert asked == [*paths, "/mcp"]
