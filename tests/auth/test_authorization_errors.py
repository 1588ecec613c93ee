"""Log-ins that fail: in words, whose fault it is, and what to do; and nothing is left over."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from mcp_magic import errors
from tests.support.authorization_server import Behaviour
from tests.support.persons import Person, logging_in
from tests.support.protected_server import protected_server

if TYPE_CHECKING:
    from mcp_magic._host import Host

AT = r"127\.0\.0\.1:\d+"

WRONG = {
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
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_went_wrong_is_said_and_whose_fault_it_is(host: Host, name: str) -> None:
    behaves, says = WRONG[name]
    logging_in(host)
    async with protected_server(behaves) as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.fullmatch(f"notes: {says}", str(caught.value)), str(caught.value)
    assert caught.value.__context__ is None
    assert not len(host)


async def test_a_server_that_claims_to_be_another_gets_no_token(host: Host) -> None:
    person = logging_in(host)
    async with protected_server(resource="https://bank.example/mcp") as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.match(r"notes: .* says that it is https://bank\.example/mcp \(wrong resource\)", str(caught.value))
    assert not person.shown


async def test_server_without_metadata_fails_with_401_and_no_log_in(host: Host) -> None:
    person = logging_in(host)
    async with protected_server(Behaviour(has_metadata=False)) as protected:
        protected.status = 401
        with pytest.raises(errors.HTTPStatusError) as caught:
            await host.connect(protected.url, name="notes")
    assert caught.value.status == 401
    assert not person.shown


async def test_an_authorization_server_that_is_gone(host: Host) -> None:
    logging_in(host)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}/token"
    async with protected_server(Behaviour(endpoints={"token_endpoint": gone})) as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.fullmatch(
        rf"notes: {AT}, which the log-in needs, cannot be reached \(ConnectError\); try again when it runs\.",
        str(caught.value),
    )


async def test_a_port_that_is_taken(host: Host) -> None:
    logging_in(host)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with protected_server() as protected:
            taken_port = f"port {port}, to which the browser returns after the log-in, is taken"
            with pytest.raises(errors.AuthorizationError, match=taken_port):
                await host.connect(protected.url, name="notes", auth={"redirect_port": port})


async def test_the_answer_of_another_log_in_does_not_end_this_one(host: Host) -> None:
    person = logging_in(host, Person())
    host.logins.seconds = 2.0
    async with protected_server(Behaviour(state="forged")) as protected:
        with pytest.raises(errors.AuthorizationError, match="1 answers to other log-ins were rejected"):
            await host.connect(protected.url, name="notes")
    assert person.pages[0][0] == 400
    assert "An older log-in" in person.pages[0][1]


@pytest.mark.parametrize(
    "issuer", ["https://evil.example", None], ids=["another issuer", "no issuer, and one promised"]
)
async def test_log_in_hides_error_text_from_elsewhere(host: Host, issuer: str | None) -> None:
    person = logging_in(host, Person())
    host.logins.seconds = 2.0
    promised = {"authorization_response_iss_parameter_supported": True}
    async with protected_server(Behaviour(error="access_denied", issuer_sent=issuer, endpoints=promised)) as protected:
        with pytest.raises(errors.AuthorizationError, match="1 answers to other log-ins were rejected") as caught:
            await host.connect(protected.url, name="notes")
    assert "the person said" not in str(caught.value) + person.pages[0][1]


async def test_a_server_that_does_not_take_the_token_that_it_asked_for(host: Host) -> None:
    person = logging_in(host)
    async with protected_server(Behaviour(expires_in=-5)) as protected:
        with pytest.raises(errors.AuthorizationError) as caught:
            await host.connect(protected.url, name="notes")
    assert re.fullmatch(
        rf"notes: {protected.url} does not take the token that {AT} has just given \(HTTP 401\); one of the two is set "
        r"up wrong, and their operators must fix that\.",
        str(caught.value),
    )
    assert len(person.shown) == 1
