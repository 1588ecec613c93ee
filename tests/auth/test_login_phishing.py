"""Log-ins at addresses that deceive, and strangers at the address that the browser comes back to."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import httpx2
import pytest

from mcp_magic.auth.login import CallbackServer, login_html, login_text
from mcp_magic.errors import AuthorizationError
from tests.support.authorization_server import Behaviour
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("https://github.com@evil.example/authorize", "has a user name, which looks like the host: 'github.com@'"),
        ("http://127.0.0.1.evil.example/authorize", "has no https"),
        ("https://evil.example/" + "a" * 20_000, "has more than 8,000 characters"),
    ],
    ids=["user name", "http", "long"],
)
async def test_log_in_at_an_address_that_deceives_is_not_begun(host, endpoint, why):
    person = logging_in(host)
    async with protected_server(Behaviour(endpoints={"authorization_endpoint": endpoint})) as protected:
        with pytest.raises(AuthorizationError, match="it was not opened") as caught:
            await host.connect(protected.url, name="notes")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 400
    assert person.shown == []


async def test_log_in_names_its_host_in_ascii(host):
    shown: list[str] = []

    async def authorizer(login: LogIn) -> None:
        shown.extend([login_html(login), login_text(login)])
        login.cancel()
        await login.answered()

    logging_in(host)
    host.logins.authorizer = authorizer
    endpoints = {"authorization_endpoint": "https://\u0430pple.com/authorize"}
    async with protected_server(Behaviour(endpoints=endpoints)) as protected:
        with pytest.raises(AuthorizationError, match=r"the log-in at xn--pple-43d\.com was cancelled"):
            await host.connect(protected.url, name="notes")
    assert '<b style="font-size:1.15em">xn--pple-43d.com</b>' in shown[0]
    assert "log in at xn--pple-43d.com." in shown[1]


def test_idle_connections_do_not_block_the_callback():
    callback = CallbackServer()
    callback.expect(lambda url: "done" if url.endswith("?code=1") else "stale")
    here = f"http://127.0.0.1:{callback.server_port}"
    idle = []
    try:
        for _ in range(100):
            idle.append(socket.create_connection(("127.0.0.1", callback.server_port), timeout=9))
        assert "Logged in" in httpx2.get(f"{callback.redirect_uri}?code=1", timeout=9).text
        assert threading.active_count() < 90
        for method, path in (("POST", "/callback?code=1"), ("GET", "/callback?code=2"), ("GET", "/" + "a" * 60_000)):
            assert httpx2.request(method, f"{here}{path}", timeout=9).status_code >= 400
        rebound = httpx2.get(f"{callback.redirect_uri}?code=1", headers={"Host": "evil.example"}, timeout=9)
        assert rebound.status_code == 404
    finally:
        callback.close()
        for connection in idle:
            connection.close()
