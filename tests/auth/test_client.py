"""Log-ins, against a real authorization server and a real protected MCP server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from mcp_magic import errors
from tests.support.authorization_server import Behaviour
from tests.support.clocks import jump
from tests.support.persons import Person, callbacks, logging_in
from tests.support.processes import free_port
from tests.support.protected_server import USUAL, logged_in, protected_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn
    from mcp_magic.flight.progress import Report


@pytest.mark.lowest
@pytest.mark.parametrize("kind", ["modern", "handshake", "sse"])
async def test_a_server_that_wants_a_log_in_gets_one(host, kind):
    async with logged_in(host, kind=kind) as (protected, connection, person):
        assert (await connection.call("whoami")).text == USUAL
    login, authority = person.shown[0], protected.authority
    assert (login.server, login.where, login.outcome) == ("notes", protected.url, "done")
    assert (login.host, login.scopes) == (authority.url.partition("//")[2], ("read", "offline_access"))
    assert "You can close this window" in person.pages[0][1]
    assert len(authority.asked("authorize")) == len(authority.asked("token")) == 1
    assert set(protected.tokens) <= set(authority.tokens)
    requests = [entry for entry in host.trace.entries("notes") if entry.kind == "request" and entry.method != "ping"]
    assert 401 not in {entry.status for entry in requests}, "what was refused first has its answer"


async def test_empty_members_of_metadata_count_as_absent(host):
    odd = {"service_documentation": "", "op_policy_uri": "", "scopes_supported": "read offline_access"}
    async with logged_in(host, Behaviour(endpoints=odd)) as (_, connection, _):
        assert (await connection.call("whoami")).text == USUAL
        path = "/.well-known/oauth-authorization-server"
        assert set(connection.info().remarks) >= {
            f"{path}: service_documentation is empty; it is ignored",
            f"{path}: op_policy_uri is empty; it is ignored",
            f"{path}: scopes_supported is a text, not a list; it is read as a list of its words",
        }


def _page_with_query(protected: Any) -> None:
    protected.authority.behaves.endpoints["authorization_endpoint"] = f"{protected.authority.url}/authorize?tenant=7"


def _issuer_with_slash(protected: Any) -> None:
    behaves = protected.authority.behaves
    behaves.metadata_issuer = behaves.issuer_sent = f"{protected.authority.url}/"


def _no_challenge(protected: Any) -> None:
    protected.challenges = False


@pytest.mark.parametrize("prepare", [_page_with_query, _issuer_with_slash, _no_challenge])
async def test_a_log_in_copes_with_an_unusual_server(host, prepare):
    person = logging_in(host)
    async with protected_server() as protected:
        prepare(protected)
        connection = await host.connect(protected.url, name="notes")
        assert (await connection.call("whoami")).text == USUAL
        await host.close()
    assert len(person.shown) == 1
    assert protected.authority.asked("authorize")[0].get("tenant") == ("7" if prepare is _page_with_query else None)


async def test_issuer_with_a_path_keeps_its_slash(host):
    logging_in(host)
    async with protected_server() as protected:
        protected.authority.behaves.metadata_issuer = f"{protected.authority.url}/tenant"
        with pytest.raises(errors.AuthorizationError, match="wrong issuer"):
            await host.connect(protected.url, name="notes")


async def test_log_in_pauses_time_outs_of_handshake_and_call(host):
    shown: list[Report] = []
    host.reports.reporter = shown.append  # type: ignore[assignment]

    class Slow(Person):
        async def __call__(self, login: LogIn) -> None:
            jump(8)
            await asyncio.sleep(0.01)
            assert not any(report.waits for report in shown), "the log-in says what is waited for"
            await super().__call__(login)

    async with logged_in(host, person=Slow(), timeout=6) as (protected, connection, _):
        protected.authority.forget()
        assert (await connection.call_tool("whoami", {}, timeout=6)).text == USUAL


# More scopes


async def test_scopes_are_those_that_the_person_and_the_tool_name(host):
    async with logged_in(host, auth={"scopes": ["read", "write"]}) as (_, connection, person):
        assert (await connection.call("erase", name="diary")).text == "diary is gone"
        assert (await connection.call("whoami")).text == "client-1: read write offline_access admin"
    first, second = (login.scopes for login in person.shown)
    assert first == ("read", "write", "offline_access")
    assert set(second) == {*first, "admin"}


async def test_scopes_not_given_are_an_error_and_asked_for_once(host):
    async with logged_in(host, Behaviour(gives=["read"])) as (protected, connection, person):
        at = protected.authority.url.partition("//")[2]
        for _ in range(3):
            with pytest.raises(errors.AuthorizationError) as caught:
                await connection.call("erase", name="diary")
            assert str(caught.value) == (
                f"notes: {protected.url} wants the scopes 'admin', and {at} gave 'read' (insufficient_scope). "
                "Ask its operator for more."
            )
        assert (await connection.call("whoami")).text == "client-1: read"
        assert connection.state == "open"
    assert len(person.shown) == 2


# Other kinds of clients


async def test_a_client_that_was_registered_by_hand(host):
    logging_in(host)
    port = free_port()
    async with protected_server(Behaviour(registers=False, methods=["client_secret_post"])) as protected:
        uri = f"http://127.0.0.1:{port}/callback"
        client = {"client_id": "mine", "client_secret": "sesame-1234"}
        protected.authority.clients["mine"] = {**client, "redirect_uris": [uri]}
        connection = await host.connect(protected.url, auth={**client, "redirect_port": port})
        assert (await connection.call("whoami")).text.startswith("mine: ")
        await host.close()
    assert protected.authority.asked("authorize")[0]["redirect_uri"] == uri
    assert protected.authority.asked("token")[0]["client_secret"] == "sesame-1234"


async def test_a_client_that_a_document_describes_is_not_asked_about(host):
    async def confirm(text: str) -> bool:
        raise AssertionError(text)

    host.logins.confirm = confirm
    document = "https://me.example/client.json"
    behaves = Behaviour(registers=False, cimd=True)
    async with logged_in(host, behaves, auth={"client_metadata_url": document}) as (protected, connection, person):
        assert (await connection.call("whoami")).text == f"{document}: read offline_access"
    assert len(person.shown) == 1
    assert protected.authority.asked("register") == []


ROBOT = {"grant": "client_credentials", "client_id": "robot"}


async def test_client_credentials_take_no_person_and_go_to_the_issuer(host):
    host.logins.where = "memory"
    secret = {"client_secret": "pass%word:1"}
    for method in ("client_secret_basic", "client_secret_post"):
        async with protected_server(Behaviour(methods=[method])) as protected:
            protected.authority.clients["robot"] = secret
            auth = {**ROBOT, **secret, "issuer": protected.authority.url}
            assert (await (await host.connect(protected.url, auth=auth)).call("whoami")).text.endswith(": read")
            asked = protected.authority.asked("token")[0]
            await host.close()
        assert (asked["grant_type"], asked["resource"]) == ("client_credentials", protected.url)
        assert ("client_secret" in asked) == (method == "client_secret_post")

    async with protected_server() as protected:
        with pytest.raises(errors.AuthorizationError, match=r"https://auth\.example\.com"):
            await host.connect(protected.url, auth={**ROBOT, **secret, "issuer": "https://auth.example.com"})
        assert not protected.authority.asked("token")
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        protected.authority.keys["robot"] = public.decode()
        auth = {**ROBOT, "grant": "client-credentials", "private_key": pem, "issuer": protected.authority.url}
        assert (await (await host.connect(protected.url, auth=auth)).call("whoami")).text.endswith(": read")
        await host.close()
    assert "client_secret" not in protected.authority.asked("token")[0], "a key signs in its place"


@pytest.mark.parametrize("nonce", ["yes", "nonce"])
async def test_tokens_can_be_bound_to_a_key(host, nonce):
    async with logged_in(host, Behaviour(dpop=nonce)) as (protected, connection, _):
        assert [(await connection.call("whoami")).text for _ in range(2)] == [USUAL] * 2
    assert all(token.key for token in protected.authority.tokens.values())


# Where there is nothing to log in to, or nobody to do it


async def test_log_in_without_person_registers_nothing_and_says_where(host):
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

        person, answer = logging_in(host), False
        protected.authority.seen.clear()
        not_wanted: list[dict[str, Any]] = [{"auth": "none"}, {"headers": {"Authorization": "Bearer mine"}}]
        for options in not_wanted:
            with pytest.raises(errors.HTTPStatusError) as refused:
                await host.connect(protected.url, **options)
            assert (refused.value.status, protected.authority.seen) == (401, [])

        async def confirm(text: str) -> bool | None:
            return answer

        host.logins.confirm = confirm
        with pytest.raises(errors.AuthorizationError, match="was not begun: you declined"):
            await host.connect(protected.url, name="notes")
        answer = None
        with pytest.raises(errors.AuthorizationError, match="you cannot be asked here"):
            await host.connect(protected.url, name="notes")
        assert protected.authority.asked("register") == person.shown == []


async def test_oauth_registration_asks_the_person_first(host):
    asked: list[tuple[str, int]] = []

    async def confirm(text: str) -> bool:
        asked.append((text, len(protected.authority.asked("register"))))
        return True

    person = logging_in(host)
    host.logins.confirm = confirm
    async with protected_server() as protected:
        await host.connect(protected.url, name="notes")
        protected.authority.forget()
        await host["notes"].call("whoami")
        await host.close()
    at = protected.authority.url.partition("//")[2]
    assert asked == [
        (
            f"Log in to notes ({protected.url}) at {at}?\n"
            f"This program is not known there yet. It would register at {at}, show you the link to a log-in page of "
            f"{at}, and get its tokens from {at}.",
            0,
        )
    ], "once, before anything was registered"
    assert len(person.shown) == 2


# Calls that wait for a log-in


async def test_one_log_in_or_refusal_serves_all_calls_that_wait_for_it(host):
    asked = []

    async def refusing(login: LogIn) -> None:
        asked.append(login)
        await until(lambda: protected.refused >= before + 4)
        login.cancel()
        await login.answered()

    async with logged_in(host) as (protected, connection, person):
        protected.authority.forget()
        results = await asyncio.gather(*(connection.call("whoami") for _ in range(5)))
        assert {result.text for result in results} == {USUAL}
        assert len(person.shown) == 2
        protected.authority.forget()
        host.logins.authorizer, before = refusing, protected.refused
        failures = await asyncio.gather(*(connection.call("whoami") for _ in range(4)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [errors.AuthorizationError] * 4
    assert len(asked) == 1


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


@pytest.mark.parametrize("kind", ["modern", "handshake", "sse"])
async def test_the_end_of_a_request_is_the_end_of_its_log_in(host, kind):
    async with logged_in(host, kind=kind) as (protected, connection, person):
        calls, lists = lambda: connection.call("whoami"), lambda: connection.listing("tools", refresh=True)
        for asks in (lists,) if kind == "sse" else (calls, lists):
            host.logins.authorizer = waiting = Waiting()
            protected.authority.forget()
            await connection.catalog.prefetch(0)
            connection.catalog.mark_changed("resources")  # of which the server has told, and nobody waits for it
            asking = asyncio.ensure_future(asks())
            await waiting.shown.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(waiting.ended.wait(), 60)
            host.logins.authorizer = person
            assert (await connection.call("whoami")).text == USUAL
            assert "whoami" in [tool.name for tool in await connection.listing("tools")]
    assert not callbacks()
