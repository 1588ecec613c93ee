"""A server of the internet leads the log-in to this machine and its network, and to a registration unasked.

The server is reached under a name of the internet, `notes.example`, by a transport that knows where it really is. All
requests are real ones.
"""

from __future__ import annotations

import asyncio
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
from tests.support.asgi import serving
from tests.support.authorization_server import Behaviour
from tests.support.persons import Person, logging_in
from tests.support.protected_server import protected_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.auth.login import LogIn

PUBLIC = "notes.example"


class Routed(httpx2.AsyncHTTPTransport):
    """Sends what is for a name of the internet to a port of this machine, and everything else where it leads."""

    def __init__(self, **ports: int) -> None:
        super().__init__()
        self.ports = {name.replace("_", "."): port for name, port in ports.items()}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if (port := self.ports.get(request.url.host)) is None:
            return await super().handle_async_request(request)
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)
        extensions = {name: value for name, value in request.extensions.items() if name != "trace"}
        sent = httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=extensions
        )
        answer = await super().handle_async_request(sent)
        answer.extensions.pop("network_stream", None)
        return answer


def through(**ports: int) -> Any:
    def factory(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=Routed(**ports), **options)

    return factory


class Trap:
    """A service of this machine; it says which paths it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.asked.append(f"{scope['method']} {scope['path']}")
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Leading:
    """An MCP server that wants a log-in, and says where.

    Attributes:
        resource_metadata: The document that its challenge names, or "".
        authority: The authorization server that it names.
        endpoints: What the metadata of the authorization server have in place of its own endpoints.
        posted: What was posted to it besides MCP.
    """

    def __init__(self) -> None:
        self.resource_metadata = ""
        self.authority = f"https://{PUBLIC}"
        self.endpoints: dict[str, str] = {}
        self.posted: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path, headers, body = scope["path"], [(b"content-type", b"application/json")], b"{}"
        status = 200
        if path == "/mcp":
            status = 401
            named = f' resource_metadata="{self.resource_metadata}"' if self.resource_metadata else ""
            headers.append((b"www-authenticate", f"Bearer{named}".encode()))
        elif "oauth-protected-resource" in path:
            found = f'{{"resource": "https://{PUBLIC}/mcp", "authorization_servers": ["{self.authority}"]}}'
            body = found.encode()
        elif "oauth-authorization-server" in path:
            base = f"https://{PUBLIC}"
            metadata = {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **self.endpoints,
            }
            body = httpx2.Response(200, json=metadata).content
        else:
            self.posted.append(f"{scope['method']} {path}")
            body = b'{"client_id": "x", "redirect_uris": ["http://127.0.0.1/callback"]}'
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def trap() -> AsyncIterator[tuple[Trap, int]]:
    trap = Trap()
    async with serving(trap) as url:
        yield trap, urlsplit(url).port or 0


@pytest.fixture
async def leading(trap: tuple[Trap, int]) -> AsyncIterator[tuple[Leading, int]]:
    trap[0].asked.clear()
    server = Leading()
    async with serving(server) as url:
        yield server, urlsplit(url).port or 0


def spellings_of_this_machine() -> list[str]:
    found = ["127.0.0.1", "localhost", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "x.localhost"]
    with suppress(OSError):  # where it has an address
        socket.getaddrinfo(socket.gethostname(), None)
        found.append(socket.gethostname())
    return found


async def attempt(host: Host, port: int, **options: Any) -> str:
    """Connect, and return the error."""
    made = through(**{PUBLIC.replace(".", "_"): port})
    with pytest.raises(AuthorizationError) as caught:
        async with asyncio.timeout(60):
            await host.connect(f"https://{PUBLIC}/mcp", name="notes", client_factory=made, **options)
    return str(caught.value)


async def test_internet_server_metadata_is_not_read_from_this_machine(
    host: Host, trap: tuple[Trap, int], leading: tuple[Leading, int]
) -> None:
    logging_in(host)
    for where in spellings_of_this_machine():
        leading[0].resource_metadata = f"http://{where}:{trap[1]}/latest/meta-data"
        said = await attempt(host, leading[1])
        assert trap[0].asked == []
        assert said.startswith(f"notes: https://{PUBLIC}/mcp leads its log-in to {where}:{trap[1]}")
        assert "an address of this machine or its network" in said
        assert f"--issuer http://{where}:{trap[1]}" in said


async def test_internet_server_cannot_use_a_local_authorization_server(
    host: Host, trap: tuple[Trap, int], leading: tuple[Leading, int]
) -> None:
    logging_in(host)
    leading[0].authority = f"http://127.0.0.1:{trap[1]}"
    assert "leads its log-in to 127.0.0.1" in await attempt(host, leading[1])
    assert trap[0].asked == leading[0].posted == []


async def test_local_endpoints_are_refused_without_any_question(
    host: Host, trap: tuple[Trap, int], leading: tuple[Leading, int]
) -> None:
    person = logging_in(host)
    asked: list[str] = []

    async def confirm(text: str) -> bool:
        asked.append(text)
        return True

    host.logins.confirm = confirm
    addresses = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[fe80::1]"]
    for endpoint in ("registration_endpoint", "token_endpoint", "authorization_endpoint"):
        for address in addresses:
            leading[0].endpoints = {endpoint: f"https://{address}:{trap[1]}/x"}
            assert f"leads its log-in to {address}" in await attempt(host, leading[1])
    assert trap[0].asked == leading[0].posted == asked == person.shown == []


async def test_name_that_resolves_elsewhere_later_is_not_contacted(
    host: Host, trap: tuple[Trap, int], leading: tuple[Leading, int], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    leading[0].resource_metadata = f"http://rebind.example:{trap[1]}/x"
    assert "leads its log-in to rebind.example" in await attempt(host, leading[1])
    assert len(looked) == 2
    assert trap[0].asked == []


async def test_a_redirect_leads_nowhere_else_either(host: Host, trap: tuple[Trap, int]) -> None:
    async def redirecting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status = 401 if scope["path"] == "/mcp" else 302
        headers = [(b"www-authenticate", b"Bearer"), (b"location", f"http://127.0.0.1:{trap[1]}/".encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    trap[0].asked.clear()
    logging_in(host)
    async with serving(redirecting) as url:
        await attempt(host, urlsplit(url).port or 0)
    assert trap[0].asked == []


async def test_a_host_that_the_person_named_is_asked(host: Host, leading: tuple[Leading, int]) -> None:
    async with protected_server() as protected:
        logging_in(host)
        leading[0].authority = protected.authority.url
        said = await attempt(host, leading[1], auth={"issuer": protected.authority.url})
    assert "an address of this machine" not in said
    assert protected.authority.asked("token")


async def test_log_in_without_a_person_accepts_the_named_issuer(host: Host, leading: tuple[Leading, int]) -> None:
    client = {"grant": "client_credentials", "client_id": "nightly", "client_secret": "sesame-4711"}
    async with protected_server() as protected:
        protected.authority.clients["nightly"] = {"client_secret": "sesame-4711"}
        leading[0].authority = protected.authority.url
        assert "an address of this machine" in await attempt(host, leading[1], auth=client)
        assert protected.authority.seen == []
        await attempt(host, leading[1], auth={**client, "issuer": protected.authority.url})
        assert protected.authority.asked("token")


async def test_the_doctor_does_not_follow_it_either(trap: tuple[Trap, int]) -> None:
    patient = HttpProbe(HttpSpec(url=f"https://{PUBLIC}/mcp"), 5.0, None)
    reply = await patient.document(f"http://127.0.0.1:{trap[1]}/x")
    assert "an address of this machine or its network" in reply.failure
    assert trap[0].asked == []


async def test_logging_out_does_not_send_the_tokens_there(host: Host, trap: tuple[Trap, int]) -> None:
    spec = HttpSpec(url=f"https://{PUBLIC}/mcp")
    host.logins.where = "memory"
    kept = KeptTokens(host.logins.store(), spec.url, spec.auth, lambda secrets: None)
    revoking = {"issuer": f"https://{PUBLIC}", "revocation_endpoint": f"http://127.0.0.1:{trap[1]}/revoke"}
    await kept.save(tokens={"access_token": "sesame-4711"}, metadata=revoking)
    done = await log_out(spec, host.logins)
    assert "the address for that is on this machine or its network" in done[0].done
    assert trap[0].asked == []


# The person first


async def test_oauth_registration_asks_the_person_first(host: Host) -> None:
    asked: list[tuple[str, int]] = []

    async def confirm(text: str) -> bool:
        asked.append((text, len(protected.authority.asked("register"))))
        return True

    person = logging_in(host)
    host.logins.confirm = confirm
    async with protected_server() as protected:
        await host.connect(protected.url, name="notes")
        protected.authority.tokens.clear()
        protected.authority.refresh.clear()
        await host["notes"].call("whoami")
        await host.close()

    at = protected.authority.url.partition("//")[2]
    assert [before for _, before in asked] == [0], "once, before anything was registered"
    assert asked[0][0] == (
        f"Log in to notes ({protected.url}) at {at}?\n"
        f"This program is not known there yet. It would register at {at}, show you the link to a log-in page of {at}, "
        f"and get its tokens from {at}."
    )
    assert len(person.shown) == 2


@pytest.mark.parametrize(
    ("answer", "said"), [(False, "was not begun: you declined"), (None, "you cannot be asked here")]
)
async def test_without_a_yes_nothing_is_registered(host: Host, answer: bool | None, said: str) -> None:
    async def confirm(text: str) -> bool | None:
        return answer

    person = logging_in(host)
    host.logins.confirm = confirm
    async with protected_server() as protected:
        with pytest.raises(AuthorizationError, match=said):
            await host.connect(protected.url, name="notes")
    assert protected.authority.asked("register") == person.shown == []


async def test_a_client_that_is_known_already_is_not_asked_about(host: Host) -> None:
    async def confirm(text: str) -> bool:
        raise AssertionError(text)

    shown: list[LogIn] = []

    class Noting(Person):
        async def __call__(self, login: LogIn) -> None:
            shown.append(login)
            await super().__call__(login)

    logging_in(host, Noting())
    host.logins.confirm = confirm
    url = "https://me.example/client.json"
    async with protected_server(Behaviour(cimd=True)) as protected:
        await host.connect(protected.url, name="notes", auth={"client_metadata_url": url})
        await host.close()
    assert len(shown) == 1
    assert protected.authority.asked("register") == []
