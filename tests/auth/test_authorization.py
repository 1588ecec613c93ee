"""Log-ins, against a real authorization server and a real protected MCP server."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcp_magic import errors
from tests.support.authorization_server import Behaviour
from tests.support.persons import Person, logging_in
from tests.support.processes import free_port
from tests.support.protected_server import protected_server

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.auth.login import LogIn
    from mcp_magic.inflight import Report


@pytest.mark.lowest
@pytest.mark.parametrize("kind", ["modern", "handshake", "sse"])
async def test_a_server_that_wants_a_log_in_gets_one(host: Host, kind: str) -> None:
    person = logging_in(host)
    async with protected_server(kind=kind) as protected:
        transport = "sse" if kind == "sse" else "http"
        connection = await host.connect(protected.url, name="notes", transport=transport)
        said = (await connection.call("whoami")).text
        await host.close()

    login = person.shown[0]
    assert said == "client-1: read offline_access"
    assert (login.server, login.where, login.outcome) == ("notes", protected.url, "done")
    assert (login.host, login.scopes) == (protected.authority.url.partition("//")[2], ("read", "offline_access"))
    assert "You can close this window" in person.pages[0][1]
    assert len(protected.authority.asked("authorize")) == len(protected.authority.asked("token")) == 1
    assert set(protected.tokens) <= set(protected.authority.tokens)
    requests = [entry for entry in host.trace.entries("notes") if entry.kind == "request" and entry.method != "ping"]
    assert 401 not in {entry.status for entry in requests}, "what was refused first has its answer"


async def test_empty_members_of_metadata_count_as_absent(host: Host) -> None:
    logging_in(host)
    odd = {"service_documentation": "", "op_policy_uri": "", "scopes_supported": "read offline_access"}
    async with protected_server(Behaviour(endpoints=odd)) as protected:
        connection = await host.connect(protected.url, name="notes")
        assert (await connection.call("whoami")).text == "client-1: read offline_access"
        path = "/.well-known/oauth-authorization-server"
        assert set(connection.info().remarks) >= {
            f"{path}: service_documentation is empty; it is ignored",
            f"{path}: op_policy_uri is empty; it is ignored",
            f"{path}: scopes_supported is a text, not a list; it is read as a list of its words",
        }
        await host.close()


async def test_the_callback_is_gone_after_the_log_in(host: Host) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        await host.connect(protected.url)
        port = int(person.shown[0].redirect_uri.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
        await host.close()
    assert not [thread for thread in threading.enumerate() if "callback" in thread.name]


async def test_a_pasted_address_does_as_well(host: Host) -> None:
    logging_in(host, Person(elsewhere=True))
    async with protected_server() as protected:
        connection = await host.connect(protected.url)
        assert (await connection.call("whoami")).text == "client-1: read offline_access"
        await host.close()


async def test_only_the_answer_to_this_log_in_is_believed(host: Host) -> None:
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


async def test_a_log_in_page_whose_address_has_a_query_keeps_it(host: Host) -> None:
    logging_in(host)
    async with protected_server() as protected:
        page = f"{protected.authority.url}/authorize?tenant=7"
        protected.authority.behaves.endpoints["authorization_endpoint"] = page
        connection = await host.connect(protected.url)
        assert (await connection.call("whoami")).text == "client-1: read offline_access"
        await host.close()
    assert protected.authority.asked("authorize")[0]["tenant"] == "7"


async def test_one_log_in_serves_all_calls_that_wait_for_it(host: Host) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        connection = await host.connect(protected.url)
        protected.authority.forget()
        results = await asyncio.gather(*(connection.call("whoami") for _ in range(5)))
        await host.close()
    assert {result.text for result in results} == {"client-1: read offline_access"}
    assert len(person.shown) == 2


async def test_log_in_pauses_time_outs_of_handshake_and_call(host: Host) -> None:
    loop = asyncio.get_running_loop()
    shown: list[Report] = []
    host.reports.reporter = shown.append  # type: ignore[assignment]

    class Slow(Person):
        async def __call__(self, login: LogIn) -> None:
            late = loop.time() + 3.3
            while loop.time() < late:
                assert not any(report.waits for report in shown), "the log-in says what is waited for"
                await asyncio.sleep(0.05)
            await super().__call__(login)

    logging_in(host, Slow())
    async with protected_server() as protected:
        connection = await host.connect(protected.url, timeout=3)
        protected.authority.forget()
        result = await connection.call_tool("whoami", {}, timeout=3)
        await host.close()
    assert result.text == "client-1: read offline_access"


# More scopes


async def test_a_tool_that_needs_more_makes_the_log_in_ask_for_more(host: Host) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        connection = await host.connect(protected.url)
        assert (await connection.call("erase", name="diary")).text == "diary is gone"
        assert (await connection.call("whoami")).text == "client-1: read offline_access admin"
        await host.close()
    assert [set(login.scopes) for login in person.shown] == [
        {"read", "offline_access"},
        {"read", "offline_access", "admin"},
    ]


async def test_what_is_not_given_is_an_error_and_the_session_goes_on(host: Host) -> None:
    person = logging_in(host)
    async with protected_server(Behaviour(gives=["read"])) as protected:
        connection = await host.connect(protected.url, name="notes")
        with pytest.raises(errors.AuthorizationError) as caught:
            await connection.call("erase", name="diary")
        assert (await connection.call("whoami")).text == "client-1: read"
        assert connection.state == "open"
        await host.close()
    at = protected.authority.url.partition("//")[2]
    assert str(caught.value) == (
        f"notes: {protected.url} wants the scopes 'admin', and {at} gave 'read' (insufficient_scope). "
        "Ask its operator for more."
    )
    assert len(person.shown) == 2


async def test_scopes_that_were_not_given_are_not_asked_for_again(host: Host) -> None:
    person = logging_in(host)
    async with protected_server(Behaviour(gives=["read"])) as protected:
        connection = await host.connect(protected.url, name="notes")
        for _ in range(3):
            with pytest.raises(errors.AuthorizationError, match="insufficient_scope"):
                await connection.call("erase", name="diary")
        await host.close()
    assert len(person.shown) == 2


async def test_log_in_asks_for_scopes_the_person_names(host: Host) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        await host.connect(protected.url, auth={"scopes": ["read", "write"]})
        await host.close()
    assert person.shown[0].scopes == ("read", "write", "offline_access")


# Other kinds of clients


async def test_a_client_that_was_registered_by_hand(host: Host) -> None:
    logging_in(host)
    port = free_port()
    async with protected_server(Behaviour(registers=False, methods=["client_secret_post"])) as protected:
        uri = f"http://127.0.0.1:{port}/callback"
        client = {"client_id": "mine", "client_secret": "sesame-1234", "redirect_uris": [uri]}
        protected.authority.clients["mine"] = client
        options = {"client_id": "mine", "client_secret": "sesame-1234", "redirect_port": port}
        connection = await host.connect(protected.url, auth=options)
        assert (await connection.call("whoami")).text.startswith("mine: ")
        await host.close()
    assert protected.authority.asked("authorize")[0]["redirect_uri"] == uri
    assert protected.authority.asked("token")[0]["client_secret"] == "sesame-1234"


async def test_a_client_that_a_document_describes(host: Host) -> None:
    logging_in(host)
    async with protected_server(Behaviour(registers=False, cimd=True)) as protected:
        document = "https://me.example/client.json"
        connection = await host.connect(protected.url, auth={"client_metadata_url": document})
        assert (await connection.call("whoami")).text == f"{document}: read offline_access"
        await host.close()


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_client_credentials_take_no_person(host: Host, method: str) -> None:
    host.logins.where = "memory"
    async with protected_server(Behaviour(methods=[method])) as protected:
        protected.authority.clients["robot"] = {"client_secret": "pass%word:1"}
        auth = {"grant": "client_credentials", "client_id": "robot", "client_secret": "pass%word:1"}
        connection = await host.connect(protected.url, auth={**auth, "issuer": protected.authority.url})
        assert (await connection.call("whoami")).text.endswith(": read")
        asked = protected.authority.asked("token")[0]
        await host.close()
    assert asked["grant_type"] == "client_credentials"
    assert asked["resource"] == protected.url
    assert ("client_secret" in asked) == (method == "client_secret_post")


async def test_credentials_go_to_nobody_but_their_issuer(host: Host) -> None:
    host.logins.where = "memory"
    async with protected_server() as protected:
        auth = {"grant": "client_credentials", "client_id": "robot", "client_secret": "sesame-1234"}
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes", auth={**auth, "issuer": "https://auth.example.com"})
    assert "https://auth.example.com" in str(caught.value)
    assert not protected.authority.asked("token")


async def test_a_key_signs_in_place_of_a_secret(host: Host) -> None:
    host.logins.where = "memory"
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    async with protected_server() as protected:
        protected.authority.keys["robot"] = public.decode()
        auth = {"grant": "client-credentials", "client_id": "robot", "private_key": pem}
        connection = await host.connect(protected.url, auth={**auth, "issuer": protected.authority.url})
        assert (await connection.call("whoami")).text.endswith(": read")
        await host.close()
    assert "client_secret" not in protected.authority.asked("token")[0]


@pytest.mark.parametrize("nonce", ["yes", "nonce"])
async def test_tokens_can_be_bound_to_a_key(host: Host, nonce: str) -> None:
    logging_in(host)
    async with protected_server(Behaviour(dpop=nonce)) as protected:
        connection = await host.connect(protected.url)
        said = [(await connection.call("whoami")).text for _ in range(2)]
        await host.close()
    assert said == ["client-1: read offline_access"] * 2
    assert all(token.key for token in protected.authority.tokens.values())


# Where there is nothing to log in to, or nobody to do it


async def test_log_in_without_person_registers_nothing_and_says_where(host: Host) -> None:
    host.logins.where = "memory"
    async with protected_server() as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    at = protected.authority.url.partition("//")[2]
    assert str(caught.value) == (
        f"notes: {protected.url} wants a log-in at {at}, and you cannot be asked here. "
        f"Log in once with `%mcp connect {protected.url}` in a notebook or terminal; the token is kept.\n"
        'Without a user: auth = { grant = "client_credentials", ... }, or a header Authorization.'
    )
    assert {name for name, _ in protected.authority.seen} == {"metadata"}


@pytest.mark.parametrize(
    "options", [{"auth": "none"}, {"headers": {"Authorization": "Bearer mine"}}], ids=["none", "header"]
)
async def test_a_log_in_that_is_not_wanted_does_not_begin(host: Host, options: dict[str, Any]) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        with pytest.raises(errors.HTTPStatusError) as caught:
            await host.connect(protected.url, **options)
    assert caught.value.status == 401
    assert not person.shown
    assert not protected.authority.seen


async def test_log_in_tries_usual_places_without_a_challenge(host: Host) -> None:
    person = logging_in(host)
    async with protected_server() as protected:
        protected.challenges = False
        await host.connect(protected.url)
        await host.close()
    assert len(person.shown) == 1


# The end of a log-in that did not come to one


async def waiting(login: LogIn) -> None:
    await login.answered()


async def test_cancel_ends_it(host: Host) -> None:
    async def cancelling(login: LogIn) -> None:
        login.cancel()
        await login.answered()

    host.logins.where, host.logins.authorizer = "memory", cancelling
    async with protected_server() as protected:
        with pytest.raises(errors.AuthorizationError, match=r"x: the log-in at 127.0.0.1:[0-9]+ was cancelled"):
            await host.connect(protected.url, name="x")


async def test_nobody_is_waited_for_for_ever(host: Host) -> None:
    host.logins.where, host.logins.authorizer, host.logins.seconds = "memory", waiting, 0.2
    async with protected_server() as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="x")
    assert "you did not log in at 127.0.0.1:" in str(caught.value)
    assert "within 0.2 s. Try again; MCPMagics.login_timeout gives more time." in str(caught.value)


async def test_interrupt_leaves_nothing_behind(host: Host) -> None:
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
    assert not [thread for thread in threading.enumerate() if "callback" in thread.name]


class Waiting:
    """A person who sees a log-in and does nothing: when it was shown, and when nobody waits for it any more."""

    def __init__(self) -> None:
        self.shown, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, login: LogIn) -> None:
        self.shown.set()
        try:
            await login.answered()
        finally:
            self.ended.set()


@pytest.mark.parametrize("kind", ["modern", "handshake"])
async def test_the_end_of_a_call_is_the_end_of_its_log_in(host: Host, kind: str) -> None:
    waiting = Waiting()
    person = logging_in(host)
    async with protected_server(kind=kind) as protected:
        connection = await host.connect(protected.url)
        protected.authority.forget()
        host.logins.authorizer = waiting
        call = asyncio.ensure_future(connection.call("whoami"))
        await waiting.shown.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(waiting.ended.wait(), 60)
        host.logins.authorizer = person
        assert (await connection.call("whoami")).text == "client-1: read offline_access"
        await host.close()
    assert not [thread for thread in threading.enumerate() if "callback" in thread.name]


@pytest.mark.parametrize("kind", ["modern", "handshake", "sse"])
async def test_the_end_of_a_listing_is_the_end_of_its_log_in(host: Host, kind: str) -> None:
    waiting = Waiting()
    person = logging_in(host)
    async with protected_server(kind=kind) as protected:
        connection = await host.connect(protected.url, transport="sse" if kind == "sse" else "http")
        protected.authority.forget()
        host.logins.authorizer = waiting
        await connection.catalog.prefetch(0)
        connection.catalog.changed("resources")  # of which the server has told, and nobody waits for it
        listing = asyncio.ensure_future(connection.listing("tools", refresh=True))
        await waiting.shown.wait()
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        await asyncio.wait_for(waiting.ended.wait(), 60)
        host.logins.authorizer = person
        assert "whoami" in [tool.name for tool in await connection.listing("tools")]
        await host.close()
    assert not [thread for thread in threading.enumerate() if "callback" in thread.name]


async def test_waiting_calls_do_not_repeat_a_refused_log_in(host: Host) -> None:
    asked = []

    async def refusing(login: LogIn) -> None:
        asked.append(login)
        login.cancel()
        await login.answered()

    logging_in(host)
    async with protected_server() as protected:
        connection = await host.connect(protected.url)
        protected.authority.forget()
        host.logins.authorizer = refusing
        results = await asyncio.gather(*(connection.call("whoami") for _ in range(4)), return_exceptions=True)
        await host.close()
    assert [type(result) for result in results] == [errors.AuthorizationError] * 4
    assert len(asked) == 1


@pytest.mark.parametrize("slash", ["", "/"], ids=["named without a slash", "named with a slash"])
async def test_root_issuer_may_have_its_slash_or_not(host: Host, slash: str) -> None:
    logging_in(host)
    behaviour = Behaviour()
    async with protected_server(behaviour) as protected:
        behaviour.metadata_issuer = behaviour.issuer_sent = f"{protected.authority.url.rstrip('/')}{slash}"
        connection = await host.connect(protected.url, name="notes")
        assert (await connection.listing("tools")) != ()


async def test_issuer_with_a_path_keeps_its_slash(host: Host) -> None:
    logging_in(host)
    behaviour = Behaviour()
    async with protected_server(behaviour) as protected:
        behaviour.metadata_issuer = f"{protected.authority.url.rstrip('/')}/tenant"
        with pytest.raises(errors.AuthorizationError, match="wrong issuer"):
            await host.connect(protected.url, name="notes")
