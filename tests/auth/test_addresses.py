"""A server of the internet leads the log-in to this machine and its network.

The server is reached under a name of the internet, `notes.example`, by a transport that knows where it really is. All
requests are real ones.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
import pytest

from mcp_magic.auth.client import log_out
from mcp_magic.auth.store import KeptTokens
from mcp_magic.config.specs import HttpSpec
from mcp_magic.doctor.http import HttpProbe
from mcp_magic.errors import AuthorizationError
from tests.support.asgi import answer, serving
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server

if TYPE_CHECKING:
    from mcp_magic._host import Host

PUBLIC = "notes.example"


class Routed(httpx2.AsyncHTTPTransport):
    """Sends what is for the name of the internet to a port of this machine, and everything else where it leads."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host != PUBLIC:
            return await super().handle_async_request(request)
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port)
        extensions = {name: value for name, value in request.extensions.items() if name != "trace"}
        options: Any = {"headers": request.headers, "stream": request.stream, "extensions": extensions}
        reply = await super().handle_async_request(httpx2.Request(request.method, url, **options))
        reply.extensions.pop("network_stream", None)
        return reply


class Leading:
    """An MCP server that wants a log-in, and says where.

    Attributes:
        resource_metadata: The document that its challenge names, or "".
        authority: The authorization server that it names.
        endpoints: What the metadata of the authorization server have in place of its own endpoints.
        posted: What was posted to it besides MCP.
        redirects: Where everything but MCP is redirected to, or "".
    """

    def __init__(self) -> None:
        self.resource_metadata = self.redirects = ""
        self.authority = f"https://{PUBLIC}"
        self.endpoints: dict[str, str] = {}
        self.posted: list[str] = []
        self.port = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path, base = scope["path"], f"https://{PUBLIC}"
        body: dict[str, Any] = {}
        if path == "/mcp":
            named = f' resource_metadata="{self.resource_metadata}"' if self.resource_metadata else ""
            await answer(send, 401, www_authenticate=f"Bearer{named}")
            return
        if self.redirects:
            await answer(send, 302, location=self.redirects)
            return
        if "oauth-protected-resource" in path:
            body = {"resource": f"{base}/mcp", "authorization_servers": [self.authority]}
        elif "oauth-authorization-server" in path:
            body = {"issuer": base, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
            names = {"authorization": "authorize", "token": "token", "registration": "register"}
            body |= {f"{name}_endpoint": f"{base}/{path}" for name, path in names.items()} | self.endpoints
        else:
            self.posted.append(f"{scope['method']} {path}")
            body = {"client_id": "x", "redirect_uris": ["http://127.0.0.1/callback"]}
        await answer(send, 200, json.dumps(body).encode())


@pytest.fixture
async def trap():
    """The port of a service of this machine that nobody must ask."""
    asked: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(f"{scope['method']} {scope['path']}")
        await answer(send, 404)

    async with serving(app, lifespan="off") as url:
        yield urlsplit(url).port or 0
    assert asked == []


@pytest.fixture
async def leading():
    server = Leading()
    async with serving(server) as url:
        server.port = urlsplit(url).port or 0
        yield server


async def attempt(host: Host, leading: Leading, **options: Any) -> str:
    """Connect, and return the error."""

    def factory(**settings: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=Routed(leading.port), **settings)

    with pytest.raises(AuthorizationError) as caught:
        async with asyncio.timeout(60):
            await host.connect(f"https://{PUBLIC}/mcp", name="notes", client_factory=factory, **options)
    return str(caught.value)


async def test_internet_server_leads_to_no_metadata_of_this_machine(host, trap, leading):
    logging_in(host)
    names = ["127.0.0.1", "localhost", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "x.localhost"]
    with suppress(OSError):  # where it has an address
        socket.getaddrinfo(socket.gethostname(), None)
        names.append(socket.gethostname())
    for where in names:
        leading.resource_metadata = f"http://{where}:{trap}/latest/meta-data"
        said = await attempt(host, leading)
        assert said.startswith(f"notes: https://{PUBLIC}/mcp leads its log-in to {where}:{trap}")
        assert "an address of this machine or its network" in said
        assert f"--issuer http://{where}:{trap}" in said
    leading.resource_metadata = ""
    leading.redirects = f"http://127.0.0.1:{trap}/"
    await attempt(host, leading)
    leading.redirects = ""
    leading.authority = f"http://127.0.0.1:{trap}"
    assert "leads its log-in to 127.0.0.1" in await attempt(host, leading)
    assert leading.posted == []


async def test_local_endpoints_are_refused_without_any_question(host, trap, leading):
    person = logging_in(host)
    asked: list[str] = []

    async def confirm(text: str) -> bool:
        asked.append(text)
        return True

    host.logins.confirm = confirm
    local = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[fe80::1]"]
    attempts = [("registration", address) for address in local]
    for endpoint, address in [*attempts, ("token", local[0]), ("authorization", local[0])]:
        leading.endpoints = {f"{endpoint}_endpoint": f"https://{address}:{trap}/x"}
        assert f"leads its log-in to {address}" in await attempt(host, leading)
    assert leading.posted == asked == person.shown == []


async def test_name_that_resolves_elsewhere_later_is_not_contacted(host, trap, leading, monkeypatch):
    looked: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def rebinding(name: Any, port: Any, **options: Any) -> Any:
        if name in ("rebind.example", b"rebind.example"):
            looked.append("rebind")
            return await real("93.184.216.34" if len(looked) == 1 else "127.0.0.1", port, **options)
        return await real(name, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    logging_in(host)
    leading.resource_metadata = f"http://rebind.example:{trap}/x"
    assert "leads its log-in to rebind.example" in await attempt(host, leading)
    assert len(looked) == 2


async def test_a_local_issuer_that_the_person_named_is_asked(host, leading):
    client = {"grant": "client_credentials", "client_id": "nightly", "client_secret": "sesame-4711"}
    async with protected_server() as protected:
        leading.authority = issuer = protected.authority.url
        protected.authority.clients["nightly"] = {"client_secret": "sesame-4711"}
        assert "an address of this machine" in await attempt(host, leading, auth=client)
        assert protected.authority.seen == []
        await attempt(host, leading, auth={**client, "issuer": issuer})
        assert len(protected.authority.asked("token")) == 1
        logging_in(host)
        assert "an address of this machine" not in await attempt(host, leading, auth={"issuer": issuer})
        assert "code" in protected.authority.asked("token")[1]


async def test_the_doctor_refuses_a_metadata_url_on_this_machine(trap):
    patient = HttpProbe(HttpSpec(url=f"https://{PUBLIC}/mcp"), 5.0, None)
    reply = await patient.document(f"http://127.0.0.1:{trap}/x")
    assert "an address of this machine or its network" in reply.failure


async def test_logging_out_does_not_send_the_tokens_there(host, trap):
    spec = HttpSpec(url=f"https://{PUBLIC}/mcp")
    host.logins.where = "memory"
    kept = KeptTokens(host.logins.store(), spec.url, spec.auth, lambda secrets: None)
    revoking = {"issuer": f"https://{PUBLIC}", "revocation_endpoint": f"http://127.0.0.1:{trap}/revoke"}
    await kept.save(tokens={"access_token": "sesame-4711"}, metadata=revoking)
    done = await log_out(spec, host.logins)
    assert "the address for that is on this machine or its network" in done[0].outcome
