"""Log-ins that fail: in words, whose fault it is, and what to do; and nothing is left over."""

from __future__ import annotations

import re

import pytest

from mcp_magic import errors
from tests.support.authorization_server import Behaviour
from tests.support.persons import logging_in
from tests.support.processes import free_port
from tests.support.protected_server import logged_in, protected_server

AT = r"127\.0\.0\.1:\d+"

WRONG: dict[str, tuple[Behaviour, str]] = {
    "registration refused": (
        Behaviour(registers=False),
        rf"{AT} does not let new clients register \(HTTP 403\): ask <b>the</b> administrator\. Register one there by "
        r"hand and give --client-id ID \(redirect URI http://127\.0\.0\.1:PORT/callback, --redirect-port PORT\)\.",
    ),
    "registration fails": (
        Behaviour(registration=(500, "")),
        rf"{AT} failed to register this client \(HTTP 500; fault: the server\)\. Try again later, or register one .*",
    ),
    "registration of this client refused": (
        Behaviour(registration=(400, "invalid_redirect_uri")),
        rf"{AT} does not accept the metadata of this client \(HTTP 400, invalid_redirect_uri\)\. Register one .*",
    ),
    "too many registrations": (
        Behaviour(registration=(429, "")),
        rf"{AT} got too many registrations \(HTTP 429\)\. Try again later, or register one there by hand .*",
    ),
    "no registration": (
        Behaviour(registration=(404, "")),
        rf"{AT} has no registration for new clients \(HTTP 404\)\. Register one there by hand .*",
    ),
    "access denied": (
        Behaviour(error="access_denied"),
        rf"{AT} did not give access: you, or its rules, refused it \(access_denied\)\. It says: the person said <no>\.",
    ),
    "unknown scope": (
        Behaviour(error="invalid_scope"),
        rf"{AT} refused: it does not give these scopes; --scope names others \(invalid_scope\)\. It says: .*",
    ),
    "failure": (
        Behaviour(error="server_error"),
        rf"{AT} failed \(server_error\); the fault is on its side, try again later\. It says: .*",
    ),
    "wrong issuer": (
        Behaviour(issuer_sent="https://evil.example"),
        rf"the answer came from https://evil\.example and not from http://{AT}, where you were sent \(wrong issuer\): "
        r"it was not used\.",
    ),
    "wrong metadata": (
        Behaviour(metadata_issuer="https://evil.example"),
        rf"the metadata of http://{AT} is that of https://evil\.example \(wrong issuer\): nothing was sent there\. "
        r"Its operator must fix it\.",
    ),
    "code refused": (
        Behaviour(token_error={"authorization_code": "invalid_grant"}),
        rf"{AT} refused: the log-in is too old, was used already, or belongs to another client; log in again "
        r"\(invalid_grant\)\. It says: not with \*\*\*\.",
    ),
    "token endpoint fails": (
        Behaviour(status=500),
        rf"{AT} failed \(HTTP 500\); the fault is on its side, try again later\.",
    ),
    "no token": (
        Behaviour(garbled=True),
        rf"{AT} answered with something that is not a token; the fault is on its side\.",
    ),
    "plain http": (
        Behaviour(endpoints={"registration_endpoint": "http://auth.example.com/register"}),
        r"auth\.example\.com wants secrets over plain http, where others on the network can read them; nothing was "
        r"sent\. An authorization server must use https\.",
    ),
    "no PKCE": (
        Behaviour(endpoints={"code_challenge_methods_supported": ["plain"]}),
        rf"{AT} does not say that it supports PKCE \(S256\), so the code of a log-in could be stolen; "
        r"it was not begun\. Its operator must fix that \(code_challenge_methods_supported\)\.",
    ),
    "plain http for the person": (
        Behaviour(endpoints={"authorization_endpoint": "http://auth.example.com/authorize"}),
        r"the address of the log-in page at auth\.example\.com has no https, so others on the network could read what "
        r"you type there; it was not opened\. Its operator must fix that\.",
    ),
    "gone": (
        Behaviour(endpoints={"token_endpoint": f"http://127.0.0.1:{free_port()}/token"}),
        rf"{AT}, which the log-in needs, cannot be reached \(ConnectError\); try again when it runs\.",
    ),
    "token refused at once": (
        Behaviour(expires_in=-5),
        rf"http://{AT}/mcp does not take the token that {AT} has just given \(HTTP 401\); one of the two is set "
        r"up wrong, and their operators must fix that\.",
    ),
    "lifetime beyond the clock": (Behaviour(expires_in=10**400), r".*its answers do not fit OAuth 2\.1.*"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_went_wrong_is_said_and_whose_fault_it_is(host, name):
    behaves, says = WRONG[name]
    person = logging_in(host)
    async with protected_server(behaves) as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.fullmatch(f"notes: {says}", str(caught.value)), str(caught.value)
    assert caught.value.__context__ is None
    assert len(person.shown) <= 1
    assert not len(host)


async def test_a_server_that_claims_to_be_another_gets_no_token(host):
    person = logging_in(host)
    async with protected_server(resource="https://bank.example/mcp") as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.match(r"notes: .* says that it is https://bank\.example/mcp \(wrong resource\)", str(caught.value))
    assert not person.shown


async def test_server_without_metadata_fails_with_401_and_no_log_in(host):
    person = logging_in(host)
    async with protected_server(Behaviour(has_metadata=False)) as protected:
        protected.status = 401
        with pytest.raises(errors.HTTPStatusError) as caught:
            await host.connect(protected.url, name="notes")
    assert (caught.value.status, person.shown) == (401, [])


async def test_renewed_token_lifetime_beyond_the_clock_is_refused(host):
    async with logged_in(host) as (protected, connection, _):
        protected.authority.tokens.clear()
        protected.authority.behaves.expires_in = 10**400
        with pytest.raises(errors.AuthorizationError, match=r"its answers do not fit OAuth 2\.1"):
            await connection.call("whoami")
        protected.authority.behaves.expires_in = 3600
        assert (await connection.call("whoami")).text.startswith("client-1")


async def test_refused_log_in_explains_only_its_own_call(host):
    async with logged_in(host) as (protected, connection, _):
        protected.authority.behaves.error = "access_denied"
        with pytest.raises(errors.AuthorizationError, match="did not give access"):
            await connection.call("erase", name="a")
        protected.status = 403
        with pytest.raises(errors.ProtocolError, match=r"notes:whoami: HTTP 403 \(forbidden; fault: you\)"):
            await connection.call("whoami")
        protected.status = 0
