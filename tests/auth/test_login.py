"""The page to which the browser returns, and how a log-in ends that comes to nothing."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from mcp_magic import errors
from tests.support.authorization_server import Behaviour
from tests.support.persons import Person, callbacks, logging_in
from tests.support.protected_server import logged_in, protected_server

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn


async def test_the_callback_is_gone_after_the_log_in(host):
    async with logged_in(host) as (_, _, person):
        port = int(person.shown[0].redirect_uri.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
    assert not callbacks()


async def test_a_pasted_address_does_as_well(host):
    async with logged_in(host, person=Person(elsewhere=True)) as (_, connection, _):
        assert (await connection.call("whoami")).text == "client-1: read offline_access"


async def test_only_the_answer_to_this_log_in_is_believed(host):
    seen: list[Any] = []

    async def wary(login: LogIn) -> None:
        async with httpx2.AsyncClient(timeout=60) as browser:
            stale = await browser.get(f"{login.redirect_uri}?code=evil&state=other")
            nowhere = await browser.get(login.redirect_uri.replace("/callback", "/other") + "?code=evil")
            foreign = await browser.get(login.redirect_uri, headers={"host": "evil.example"})
            seen.extend(answer.status_code for answer in (stale, nowhere, foreign))
            seen.append(login.pasted("https://example.com/?code=1"))
            seen.append(login.pasted(f"{login.redirect_uri}?code=evil&state=other"))
            assert not login.outcome
            await browser.get(login.url, follow_redirects=True)
        await login.answered()

    host.logins.where, host.logins.authorizer = "memory", wary
    async with protected_server() as protected:
        await host.connect(protected.url)
        await host.close()
    assert seen[:3] == [400, 404, 404]
    assert seen[3].startswith("this is not the address that the browser was sent to; it begins with http://127.0.0.1:")
    assert seen[4] == "this address belongs to another log-in; open the link that is shown here"


@pytest.mark.parametrize(
    "behaves",
    [
        pytest.param(Behaviour(state="forged"), id="state"),
        pytest.param(Behaviour(error="access_denied", issuer_sent="https://evil.example"), id="issuer"),
        pytest.param(
            Behaviour(
                error="access_denied",
                issuer_sent=None,
                endpoints={"authorization_response_iss_parameter_supported": True},
            ),
            id="no promised issuer",
        ),
    ],
)
async def test_answers_from_elsewhere_end_no_log_in_and_stay_hidden(host, behaves):
    person = logging_in(host)
    host.logins.seconds = 1.0
    async with protected_server(behaves) as protected:
        with pytest.raises(errors.AuthorizationError, match="1 answers to other log-ins were rejected") as caught:
            await host.connect(protected.url, name="notes")
    assert person.pages[0][0] == 400
    assert "An older log-in" in person.pages[0][1]
    assert "the person said" not in str(caught.value) + person.pages[0][1]


async def test_cancel_or_time_ends_a_log_in(host):
    async def waiting(login: LogIn) -> None:
        await login.answered()

    async def cancelling(login: LogIn) -> None:
        login.cancel()
        await login.answered()

    host.logins.where, host.logins.authorizer = "memory", cancelling
    async with protected_server() as protected:
        with pytest.raises(errors.AuthorizationError, match=r"x: the log-in at 127.0.0.1:[0-9]+ was cancelled"):
            await host.connect(protected.url, name="x")
        host.logins.authorizer, host.logins.seconds = waiting, 0.2
        with pytest.raises(errors.AuthorizationError, match=r"you did not log in at 127\.0\.0\.1:") as caught:
            await host.connect(protected.url, name="x")
    assert "within 0.2 s. Try again; MCPMagics.login_timeout gives more time." in str(caught.value)


async def test_interrupt_leaves_nothing_behind(host):
    shown = asyncio.Event()

    async def announcing(login: LogIn) -> None:
        shown.set()
        await login.answered()

    host.logins.where, host.logins.authorizer = "memory", announcing
    async with protected_server() as protected:
        connecting = asyncio.ensure_future(host.connect(protected.url))
        await shown.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await host.close()
    assert not callbacks()


async def test_a_port_that_is_taken_is_said_so(host):
    logging_in(host)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with protected_server() as protected:
            said = f"port {port}, to which the browser returns after the log-in, is taken"
            with pytest.raises(errors.AuthorizationError, match=said):
                await host.connect(protected.url, name="notes", auth={"redirect_port": port})
