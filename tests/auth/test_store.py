"""Tokens: where they are kept, how they are renewed, how they are forgotten, and that they are shown nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import keyring
import pytest
from keyring.backends import fail

from mcp_magic import errors
from mcp_magic._host import Host
from mcp_magic.auth.client import log_out
from mcp_magic.auth.store import FileStore, KeyringStore, MemoryStore, make_store, server_key, tokens_folder
from tests.support.authorization_server import Behaviour
from tests.support.keyrings import FolderKeyring
from tests.support.persons import Person, logging_in
from tests.support.protected_server import USUAL, Protected, logged_in, protected_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Jupyter's data directory, an empty one."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    return tmp_path


@asynccontextmanager
async def kernel(where: str = "file") -> AsyncIterator[tuple[Host, Person]]:
    """A host, as a kernel that is started anew has one."""
    async with Host() as host:
        yield host, logging_in(host, where=where)


async def asks(host: Host, protected: Protected) -> str:
    connection = await host.connect(protected.url, name="notes")
    return str((await connection.call("whoami")).text)


def files(home: Path) -> list[Path]:
    return list((home / "mcp_magic" / "tokens").glob("*.json"))


def kept(home: Path) -> dict[str, Any]:
    """Return what is kept of the only client of the only server."""
    [file] = files(home)
    [record] = json.loads(file.read_text()).values()
    return dict(record)


# The next kernel


async def test_a_new_kernel_uses_and_refreshes_the_kept_token(home):
    async with protected_server() as protected:
        async with kernel() as (host, _):
            assert await asks(host, protected) == USUAL
        folder = home / "mcp_magic" / "tokens"
        assert tokens_folder() == folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        assert not list(folder.glob(".*"))
        async with kernel() as (host, person):
            assert await asks(host, protected) == USUAL
        assert (person.shown, len(protected.authority.asked("token"))) == ([], 1)

        [file] = files(home)
        whole = json.loads(file.read_text())
        before = next(iter(whole.values()))
        before["expires_at"] = time.time() - 1
        file.write_text(json.dumps(whole))
        async with kernel() as (host, person):
            assert await asks(host, protected) == USUAL
    grants = [asked["grant_type"] for asked in protected.authority.asked("token")]
    assert (grants, person.shown) == (["authorization_code", "refresh_token"], [])
    after = kept(home)
    assert after["tokens"]["refresh_token"] in protected.authority.refresh
    assert after["tokens"]["refresh_token"] != before["tokens"]["refresh_token"]
    assert before["tokens"]["access_token"] not in protected.tokens[-3:]
    assert after["expires_at"] > time.time() + 3000


@pytest.mark.parametrize(
    ("forgotten", "shown", "registered"),
    [
        pytest.param(("tokens",), 1, 1, id="access token"),
        pytest.param(("tokens", "refresh"), 2, 1, id="refresh token"),
        pytest.param(("tokens", "refresh", "clients"), 2, 2, id="client"),
    ],
)
async def test_what_the_server_forgot_is_renewed(host, forgotten, shown, registered):
    async with logged_in(host) as (protected, connection, person):
        for name in forgotten:
            getattr(protected.authority, name).clear()
        assert (await connection.call("whoami")).text == USUAL
    assert (len(person.shown), len(protected.authority.asked("register"))) == (shown, registered)


async def test_failed_refresh_keeps_log_in_and_session(host):
    async with logged_in(host) as (protected, connection, person):
        protected.authority.tokens.clear()
        protected.authority.behaves.status = 503
        with pytest.raises(errors.AuthorizationError) as caught:
            await connection.call("whoami")
        protected.authority.behaves.status = 0
        assert (await connection.call("whoami")).text == USUAL
        assert connection.state == "open"
    at = protected.authority.url.partition("//")[2]
    assert str(caught.value) == (
        f"notes: the log-in could not be renewed: {at} failed (HTTP 503); the fault is on its side, try again later."
    )
    assert len(person.shown) == 1


async def test_two_kernels_that_refresh_at_once_do_it_once(home):
    async with protected_server() as protected, kernel() as (one, _), kernel() as (other, person):
        connections = [await host.connect(protected.url, name="notes") for host in (one, other)]
        protected.authority.tokens.clear()
        results = await asyncio.gather(*(connection.call("whoami") for connection in connections))
    assert {result.text for result in results} == {USUAL}
    assert [asked["grant_type"] for asked in protected.authority.asked("token")].count("refresh_token") == 1
    assert not person.shown
    assert kept(home)["tokens"]["refresh_token"] in protected.authority.refresh


async def test_the_registered_way_back_is_used_again_where_it_is_free():
    async with protected_server() as protected:
        for _ in range(2):
            async with kernel() as (host, person):
                await asks(host, protected)
            protected.authority.forget()
    assert person.shown
    assert len(protected.authority.asked("register")) == 1
    assert len({asked["redirect_uri"] for asked in protected.authority.asked("authorize")}) == 1


async def test_the_key_of_a_bound_token_is_kept_with_it():
    async with protected_server(Behaviour(dpop="nonce")) as protected:
        async with kernel() as (host, _):
            await asks(host, protected)
        [before] = {token.key for token in protected.authority.tokens.values()}
        async with kernel() as (host, person):
            await asks(host, protected)
            protected.authority.tokens.clear()
            assert (await host["notes"].call("whoami")).text == USUAL
    assert not person.shown
    assert {token.key for token in protected.authority.tokens.values()} == {before}


# Where they are kept


def test_stores_keep_what_is_saved_under_the_server():
    store = FileStore()
    store.save("host 1", {"a": 1})
    before = store.path("host 1").stat().st_ino
    store.save("host 1", {"a": 2})
    assert store.path("host 1").stat().st_ino != before, "a file is replaced in one step"
    assert store.load("host 1") == {"a": 2}
    store.path("host 1").write_text("{broken")
    assert store.load("host 1") == {}
    store.path("host 1").write_text('{"a": {"tokens": 5, "client": {"client_id": "x"}, "authority": "https://login"}}')
    assert store.load("host 1") == {"a": {"client": {"client_id": "x"}, "authority": "https://login"}}
    store.save("host 1", {})
    assert not store.path("host 1").exists()

    memory = make_store("memory")
    assert isinstance(memory, MemoryStore)
    memory.save("a", {"b": 1})
    assert memory.load("a") == {"b": 1}
    assert make_store("memory").load("a") == {}

    assert server_key("http://h/mcp?a=1") != server_key("http://h/mcp?a=2")
    assert "sesame" not in server_key("http://me:sesame@h/mcp?key=sesame")


@pytest.fixture
def backend(tmp_path):
    """A keyring of the system's."""
    before = keyring.get_keyring()
    made = FolderKeyring()
    made.folder = tmp_path / "keyring"
    made.folder.mkdir()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


async def test_a_keyring_is_used_where_there_is_one(home, backend):
    async with protected_server() as protected:
        async with kernel("auto") as (host, _):
            await asks(host, protected)
        assert len(list(backend.folder.iterdir())) == 1
        assert files(home) == []
        async with kernel("keyring") as (host, person):
            await asks(host, protected)
            assert not person.shown
            await log_out(host["notes"].spec, host.logins)  # type: ignore[arg-type]
    assert not list(backend.folder.iterdir())


def test_what_a_keyring_does_not_keep_goes_into_a_file(backend):
    store = make_store("auto")
    store.save("host 1", {"a": 1})
    backend.room = 20
    long = {"a": "x" * 100}
    store.save("host 1", long)
    assert isinstance(store, KeyringStore)
    assert store.load("host 1") == long
    assert not list(backend.folder.iterdir())
    store.save("host 1", {})
    assert store.load("host 1") == {}

    keyring.set_keyring(fail.Keyring())
    assert isinstance(make_store("auto"), FileStore)
    with pytest.raises(errors.MissingDependencyError, match="there is no keyring here"):
        make_store("keyring")


# Logging out


async def test_logging_out_revokes_and_forgets(home):
    async with kernel() as (host, person):
        async with protected_server() as protected:
            await asks(host, protected)
            spec: Any = host["notes"].spec
            await host.disconnect("notes")
            [done] = await log_out(spec, host.logins)
            assert await log_out(spec, host.logins) == []
            assert protected.authority.tokens == protected.authority.refresh == {}
            await asks(host, protected)
            await host.disconnect("notes")
        [alone] = await log_out(spec, host.logins)
    assert (done.authority, done.outcome) == (protected.authority.url.partition("//")[2], "revoked")
    assert len(protected.authority.asked("register")) == len(person.shown) == 2
    assert alone.outcome == "forgotten here; not revoked there: no answer (ConnectError)"
    assert files(home) == []


# Shown nowhere


async def test_no_secret_of_a_log_in_is_shown_anywhere(caplog):
    said: list[object] = []
    caplog.set_level(logging.DEBUG)
    async with protected_server(Behaviour(methods=["client_secret_basic"])) as protected, kernel() as (host, person):
        await asks(host, protected)
        connection, behaves = host["notes"], protected.authority.behaves
        with pytest.raises(errors.ProtocolError, match=r"bad token \*\*\*") as leaked:
            await connection.call("leak")
        protected.authority.tokens.clear()
        await connection.call("whoami")
        for wrong in ("invalid_grant", "invalid_request"):
            protected.authority.tokens.clear()
            behaves.token_error = {"refresh_token": "invalid_grant", "authorization_code": wrong}
            with pytest.raises(errors.AuthorizationError) as caught:
                await connection.call("whoami")
            said += [caught.value, caught.value.__cause__, caught.value.__context__]
        behaves.token_error, behaves.garbled = {}, True
        with pytest.raises(errors.AuthorizationError) as caught:
            await connection.call("whoami")
        said += [leaked.value, caught.value, connection, connection.spec, host, *person.shown, host.logins]
        said.append(connection.place.wire)
        trace = b" ".join(entry.text for entry in host.trace.entries("notes"))
    # httpcore2 tells of the headers that the test's own browser gets, and the server is its own matter
    ours = [record for record in caplog.records if not record.name.startswith(("httpcore", "mcp.server"))]
    logged = [record.getMessage() + str(record.exc_info) + str(record.exc_text) for record in ours]
    shown = f"{trace!r} {said!r} {[str(each) for each in said]} {logged}"
    assert len(protected.authority.secrets) > 8
    assert not [secret for secret in protected.authority.secrets if secret in shown]
    assert b"bad token ***" in trace
