"""The doctor and servers that want a log-in: kept tokens, `--login`, and what it says where neither helps."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.doctor import examine
from tests.support.authorization_server import Behaviour
from tests.support.doctors import fails, told
from tests.support.persons import logging_in
from tests.support.protected_server import logged_in, protected_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.doctor import DoctorReport

MACHINE = {"grant": "client_credentials", "client_id": "robot", "client_secret": "pass%word:1"}


def unharmed(report: DoctorReport, protected: Any) -> None:
    assert report.ok, str(report)
    assert [step.name for step in report.steps if step.status == "not reached"] == []
    secrets = {*protected.authority.tokens, *protected.authority.refresh}
    assert not [secret for secret in secrets if secret in str(report) + str(report._repr_mimebundle_())]


@asynccontextmanager
async def logged_in_before(host: Host) -> AsyncIterator[tuple[Any, Any]]:
    """A server to which a person has logged in, whose token is kept and whose session has ended."""
    async with logged_in(host) as (protected, _, person):
        await host.disconnect("notes")
        yield person, protected


@pytest.mark.parametrize("kind", ["modern", "handshake"])
async def test_with_login_the_person_logs_in_once_and_the_steps_go_on(host, kind):
    person = logging_in(host)
    async with protected_server(kind=kind) as protected:
        report = await examine(host, protected.url, name="notes", login=True)
        unharmed(report, protected)
        assert [(login.server, login.outcome) for login in person.shown] == [("notes", "done")]
        assert "it wants an OAuth token of" in told(report, "HTTP")
        assert "you logged in; the token is stored" in told(report, "HTTP")
        assert "tools" in told(report, "lists")

        connection = await host.connect(protected.url, name="notes")
        assert (await connection.call("whoami")).text == "client-1: read offline_access"
        assert len(person.shown) == 1, "the token was kept for what comes next"
        await host.close()


async def test_a_kept_token_is_used_and_renewed_without_a_word(host):
    async with logged_in_before(host) as (person, protected):
        report = await examine(host, protected.url)
        unharmed(report, protected)
        assert "the stored token is used" in told(report, "HTTP")
        protected.authority.tokens.clear()
        unharmed(await examine(host, protected.url), protected)
        assert len(person.shown) == 1


async def test_doctor_reports_worthless_token_without_asking(host):
    async with logged_in_before(host) as (person, protected):
        protected.authority.forget()
        report = await examine(host, protected.url)
        fails(report, "HTTP", "HTTP 401: the stored token is refused -> `--login` logs in again and goes on")
        assert len(person.shown) == 1
        unharmed(await examine(host, protected.url, login=True), protected)
        assert len(person.shown) == 2


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_without_login_nobody_is_asked_and_nothing_is_registered(host, transport):
    person = logging_in(host)
    async with protected_server(kind="sse" if transport == "sse" else "modern") as protected:
        report = await examine(host, protected.url, transport=transport)
        assert not report.ok
        if transport == "http":
            fails(report, "HTTP", "HTTP 401: you have to log in first -> `--login` logs in and goes on")
        assert person.shown == protected.authority.asked("register") == protected.authority.asked("authorize") == []


async def test_a_program_that_has_access_by_itself_needs_no_login(host):
    person = logging_in(host)
    async with protected_server() as protected:
        protected.authority.clients["robot"] = {"client_secret": MACHINE["client_secret"]}
        report = await examine(host, protected.url, auth={**MACHINE, "issuer": protected.authority.url})
        unharmed(report, protected)
        assert "the program has logged in" in told(report, "HTTP")
        assert MACHINE["client_secret"] not in str(report)
        assert person.shown == []


async def test_a_log_in_that_fails_is_what_the_step_says(host):
    async with protected_server() as protected:
        report = await examine(host, protected.url, name="notes", login=True)
    assert report.failed_at == "HTTP"
    assert "HTTP 401: you have to log in first" in told(report, "HTTP"), "you cannot be asked at all"
    logging_in(host)
    async with protected_server(Behaviour(error="access_denied")) as protected:
        fails(await examine(host, protected.url, name="notes", login=True), "HTTP", "did not give access")
