"""Secrets in the system's keyring, by service and name, and the list of the names that were stored from here.

A keyring cannot list its entries, so a file in the data folder has the names, and never a value. The keyring may show a
window that asks for its password, or be gone: it is used in a thread that nothing waits for in the end.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.config.parsing import replace_text
from mcp_magic.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

KEYRING_SECONDS = 60.0
"""Seconds that a keyring has to answer: it may ask for its password in a window."""

MAX_NAMES = 10_000  # names that are read from the list

MISSING = (
    "there is no keyring here. pip install 'mcp-magic[keyring]' and a service behind it (Secret Service, KWallet, "
    "macOS, Windows)."
)


class KeyringFailedError(Exception):
    """The keyring has refused, or did not answer; the message says why, without a value."""


async def in_daemon(work: Callable[[], T], seconds: float) -> T:
    """Return what a function returns, which runs in a thread that does not keep the process alive.

    Raises TimeoutError after some seconds; the thread goes on then.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, problem = None, None
        try:
            value = work()
        except BaseException as error:
            problem = error
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, value, problem)

    threading.Thread(target=run, name="mcp_magic secret", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await outcome


async def read_secret(service: str, name: str) -> str | None:
    """Return a secret, or None if there is no such entry. Raises KeyringFailedError."""
    value: str | None = await _use(lambda backend: backend.get_password(service, name))
    return value


async def store_secret(service: str, name: str, value: str) -> None:
    """Store a secret, and its name in the list. Raises KeyringFailedError."""
    await _use(lambda backend: backend.set_password(service, name, value))
    _write_names({*stored_names(), (service, name)})


async def forget_secret(service: str, name: str) -> bool:
    """Delete a secret, and its name from the list; return whether there was one. Raises KeyringFailedError."""

    def delete(backend: Any) -> bool:
        if backend.get_password(service, name) is None:
            return False
        backend.delete_password(service, name)
        return True

    was_there = await _use(delete)
    _write_names({*stored_names()} - {(service, name)})
    return was_there


async def _use(work: Callable[[Any], T]) -> T:
    def run() -> T:
        return work(_backend())

    try:
        return await in_daemon(run, KEYRING_SECONDS)
    except TimeoutError:
        problem = f"the keyring did not answer within {KEYRING_SECONDS:g} s; does a window ask for its password?"
    except MissingDependencyError as error:
        problem = str(error)
    except Exception as error:  # any backend raises what it likes, and its text may quote what it was given
        kind = type(error).__name__
        is_locked = "lock" in kind.lower() or "lock" in str(error).lower()
        todo = "it is locked: unlock it, and try again" if is_locked else "is its service running?"
        problem = f"the keyring has failed ({kind}); {todo}"
    raise KeyringFailedError(problem)


def _backend() -> Any:
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError:
        raise MissingDependencyError(MISSING) from None
    backend = keyring.get_keyring()
    if isinstance(backend, fail.Keyring | null.Keyring):
        raise MissingDependencyError(MISSING)
    return backend


# The list of names.


def names_file() -> Path:
    """Return the path of the list, in Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "secret_names.json"


def stored_names() -> list[tuple[str, str]]:
    """Return the service and the name of each secret that was stored from here, sorted; what is damaged is left out."""
    try:
        rows = json.loads(names_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    pairs = [row for row in rows[:MAX_NAMES] if _is_pair(row)] if isinstance(rows, list) else []
    return sorted({(service, name) for service, name in pairs})


def _is_pair(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(part, str) for part in row)


def _write_names(pairs: set[tuple[str, str]]) -> None:
    path = names_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_text(path, json.dumps(sorted(pairs)), 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None
