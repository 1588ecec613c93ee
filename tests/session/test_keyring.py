"""The system's keyring and the list of names: what is stored, what fails, and who can read it."""

from __future__ import annotations

import json
import stat
import threading

import keyring
import pytest
from keyring.backends import fail
from keyring.errors import KeyringError, KeyringLocked

from mcp_magic.session import keyring as ours
from mcp_magic.session.keyring import (
    KeyringFailedError,
    forget_secret,
    names_file,
    read_secret,
    store_secret,
    stored_names,
)
from tests.support.keyrings import FolderKeyring, backend  # noqa: F401


async def test_a_secret_is_stored_read_and_forgotten(backend):  # noqa: F811
    assert await read_secret("mcp-magic", "db") is None
    await store_secret("mcp-magic", "db", "sesame")
    await store_secret("acme", "ö/{}:- x", "other")
    assert await read_secret("mcp-magic", "db") == "sesame"
    assert stored_names() == [("acme", "ö/{}:- x"), ("mcp-magic", "db")]
    assert stat.S_IMODE(names_file().stat().st_mode) == 0o600
    assert "sesame" not in names_file().read_text()
    assert await forget_secret("mcp-magic", "db") is True
    assert await forget_secret("mcp-magic", "db") is False
    assert await read_secret("mcp-magic", "db") is None
    assert stored_names() == [("acme", "ö/{}:- x")]


@pytest.mark.parametrize("text", ["", "{", "{}", "[1, [2], [3, 4], null]", "[" * 100_000, '[["a", "b"], ["c"]]'])
def test_a_damaged_list_of_names_is_read_as_far_as_it_goes(backend, text):  # noqa: F811
    names_file().parent.mkdir(parents=True)
    names_file().write_text(text)
    assert stored_names() == ([("a", "b")] if '"a"' in text else [])


class Failing(FolderKeyring):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def get_password(self, service: str, username: str) -> str | None:
        raise self._error


FAILURES = [
    (KeyringLocked("sesame"), "the keyring has failed (KeyringLocked); it is locked: unlock it, and try again"),
    (KeyringError("sesame"), "the keyring has failed (KeyringError); is its service running?"),
    (RuntimeError("sesame"), "the keyring has failed (RuntimeError); is its service running?"),
]


@pytest.mark.parametrize(("error", "message"), FAILURES, ids=["locked", "keyring", "any"])
async def test_a_backend_that_fails_is_told_without_its_words(backend, error, message):  # noqa: F811
    keyring.set_keyring(Failing(error))
    with pytest.raises(KeyringFailedError) as caught:
        await read_secret("a", "b")
    assert str(caught.value) == message


async def test_without_a_keyring_it_says_what_to_install(backend):  # noqa: F811
    keyring.set_keyring(fail.Keyring())
    with pytest.raises(KeyringFailedError, match=r"there is no keyring here\. pip install 'mcp-magic\[keyring\]'"):
        await store_secret("a", "b", "c")
    assert stored_names() == []


async def test_a_keyring_that_does_not_answer_is_left(backend, monkeypatch):  # noqa: F811
    answered = threading.Event()
    monkeypatch.setattr(ours, "KEYRING_SECONDS", 0.05)
    monkeypatch.setattr(FolderKeyring, "get_password", lambda self, service, name: answered.wait(60) and None)
    with pytest.raises(KeyringFailedError, match="did not answer within"):
        await read_secret("a", "b")
    answered.set()


def test_the_list_is_json(backend):  # noqa: F811
    names_file().parent.mkdir(parents=True)
    names_file().write_text(json.dumps([["b", "a"], ["a", "b"], ["a", "b"]]))
    assert stored_names() == [("a", "b"), ("b", "a")]
