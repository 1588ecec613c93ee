"""An MCP server that wants a token of the authorization server beside it: both on real HTTP on loopback."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from tests.support.asgi import Forgetful, answer, read
from tests.support.authorization_server import AuthorizationServer, Behaviour, read_proof
from tests.support.persons import Person, logging_in
from tests.support.processes import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection


USUAL = "client-1: read offline_access"
"""What `whoami` answers after a log-in."""


@dataclass
class Protected:
    """The two servers."""

    url: str  # the MCP server's
    authority: AuthorizationServer
    tokens: list[str] = field(default_factory=list)  # those that were sent to the MCP server
    methods: list[str] = field(default_factory=list)  # the JSON-RPC methods that came with a valid token
    needs: dict[str, str] = field(default_factory=lambda: {"erase": "admin"})  # scope of a tool beside "read"
    status: int = 0  # what every request is answered, 0 for what is right
    refused: int = 0  # requests without a token that is valid
    challenges: bool = True  # whether a refusal says where to log in
    resource: str = ""  # what the resource metadata claim to be; "" for the truth

    @property
    def metadata_url(self) -> str:
        """Where the resource metadata are."""
        base, _, path = self.url.rpartition("/")
        return f"{base}/.well-known/oauth-protected-resource/{path}"

    async def verify_token(self, token: str) -> AccessToken | None:
        """Say what a token is worth (the SDK's `TokenVerifier`)."""
        self.tokens.append(token)
        entry = self.authority.tokens.get(token)
        if entry is None or entry.expires < time.time():
            return None
        resource = entry.resource or None
        return AccessToken(token=token, client_id=entry.client, scopes=entry.scopes, resource=resource)


def notes(protected: Protected) -> MCPServer:
    """Return the server's tools."""
    server = MCPServer(
        "notes",
        log_level="ERROR",
        token_verifier=protected,
        auth=AuthSettings.model_validate(  # as texts: an `AnyHttpUrl` would put a slash behind the issuer
            {"issuer_url": protected.authority.url, "resource_server_url": protected.url}
            | {"required_scopes": ["read"], "validate_token_resource": True}
        ),
        cache_hints={"resources/read": CacheHint(60_000, "public"), "tools/list": CacheHint(60_000, "public")},
    )

    @server.tool()
    def whoami() -> str:
        """Say which client asks."""
        token = get_access_token()
        return f"{token.client_id}: {' '.join(token.scopes)}" if token else "nobody"

    @server.resource("notes://reader")
    def reader() -> str:
        """Say which client reads, and what it may do."""
        return whoami()

    @server.tool()
    def erase(name: str) -> str:
        """Erase a note."""
        return f"{name} is gone"

    @server.tool()
    def leak() -> str:
        """Say what must not be said."""
        token = get_access_token()
        raise MCPError(-32602, f"bad token {token.token if token else ''}")

    return server


class Guard:
    """What the SDK's resource server does not do: a scope for each tool, DPoP, refusals on demand."""

    def __init__(self, app: Any, protected: Protected) -> None:
        self._app = app
        self._protected = protected

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        protected = self._protected
        if scope["type"] == "http" and protected.resource and scope["path"].startswith("/.well-known/"):
            claims = {"resource": protected.resource, "authorization_servers": [protected.authority.url]}
            await answer(send, 200, json.dumps(claims).encode())
            return
        if scope["type"] != "http" or not scope["path"].startswith("/mcp"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if protected.status:
            await answer(send, protected.status, b"no")
            return
        if "authorization" not in headers and not protected.challenges:
            await answer(send, 401, b"no")
            return
        if protected.authority.behaves.dpop and not await self._is_proven(scope, headers, send):
            return
        body, again = await read(receive) if scope["method"] == "POST" else (b"", receive)
        message = json.loads(body) if body else {}
        needed = protected.needs.get((message.get("params") or {}).get("name", ""))
        token = protected.authority.tokens.get(headers.get("authorization", "").partition(" ")[2])
        protected.refused += token is None
        if token is not None:
            protected.methods.append(message.get("method", scope["method"]))
        if needed and token is not None and needed not in token.scopes:
            said = f'Bearer error="insufficient_scope", scope="{needed}", resource_metadata="{protected.metadata_url}"'
            await answer(send, 403, www_authenticate=said)
            return
        await self._app(scope, again, send)

    async def _is_proven(self, scope: Any, headers: dict[str, str], send: Any) -> bool:
        """Check a proof (RFC 9449, section 7) and hand the token on as the SDK's server knows it."""
        protected = self._protected
        metadata = f'resource_metadata="{protected.metadata_url}"'
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind != "DPoP":
            await answer(send, 401, www_authenticate=f"DPoP {metadata}")
            return False
        key, claims = read_proof(headers["dpop"])
        assert claims["htu"] == protected.url
        assert claims["htm"] == scope["method"]
        assert claims["ath"] == base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if protected.authority.behaves.dpop == "nonce" and claims.get("nonce") != "nonce-of-the-server":
            said = f'DPoP error="use_dpop_nonce", {metadata}'
            await answer(send, 401, www_authenticate=said, dpop_nonce="nonce-of-the-server")
            return False
        entry = protected.authority.tokens.get(token)
        if entry is not None and entry.key != key:
            await answer(send, 401, www_authenticate=f'DPoP error="invalid_token", {metadata}')
            return False
        others = [header for header in scope["headers"] if header[0] != b"authorization"]
        scope["headers"] = [*others, (b"authorization", f"Bearer {token}".encode())]
        return True


@asynccontextmanager
async def protected_server(
    behaves: Behaviour | None = None, *, resource: str = "", kind: str = "modern"
) -> AsyncIterator[Protected]:
    """Run both servers on the running loop.

    Args:
        behaves: What the authorization server does.
        resource: What the resource metadata claim to be.
        kind: `"modern"`, `"handshake"` (a server of that era) or `"sse"` (the old transport).
    """
    ports = free_port(), free_port()
    authority = AuthorizationServer(f"http://127.0.0.1:{ports[0]}", behaves)
    path = "sse" if kind == "sse" else "mcp"
    protected = Protected(f"http://127.0.0.1:{ports[1]}/{path}", authority, resource=resource)
    server = notes(protected)
    app: Any = server.sse_app() if kind == "sse" else server.streamable_http_app()
    app = Guard(Forgetful(app) if kind == "handshake" else app, protected)
    async with _serving_both(authority.app(), app, ports):
        yield protected


@asynccontextmanager
async def logged_in(
    host: Host, behaves: Behaviour | None = None, *, person: Person | None = None, kind: str = "modern", **options: Any
) -> AsyncIterator[tuple[Protected, Connection, Person]]:
    """Connect a host to such a server as `notes`, let a person log in, and close the host at the end."""
    person = logging_in(host, person)
    async with protected_server(behaves, kind=kind) as protected:
        transport = "sse" if kind == "sse" else "http"
        yield protected, await host.connect(protected.url, name="notes", transport=transport, **options), person
        await host.close()


@asynccontextmanager
async def _serving_both(authority: Any, app: Any, ports: tuple[int, int]) -> AsyncIterator[None]:
    """Serve both by one uvicorn, which takes a third of a second to end."""

    async def either(scope: Any, receive: Any, send: Any) -> None:
        asked = scope["type"] == "http" and scope["server"][1] == ports[0]
        await (authority if asked else app)(scope, receive, send)

    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    server = uvicorn.Server(uvicorn.Config(either, log_level="critical", timeout_graceful_shutdown=1))
    server.capture_signals = nullcontext  # type: ignore[method-assign] # it puts those of a former loop back
    task = asyncio.create_task(server.serve(sockets=listeners))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task
        for listener in listeners:
            listener.close()


@contextmanager
def protected_server_on_a_thread(behaves: Behaviour | None = None) -> Iterator[Protected]:
    """Run both servers on a loop of their own, for tests that drive another process."""
    made: list[Protected] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    leave = asyncio.Event()

    async def run() -> None:
        async with protected_server(behaves) as protected:
            made.append(protected)
            ready.set()
            await leave.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(20)
    try:
        yield made[0]
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def protected() -> Iterator[Protected]:
    with protected_server_on_a_thread() as running:
        yield running
