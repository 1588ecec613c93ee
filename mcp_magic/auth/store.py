"""The token store: the system's keyring, a file that only its owner can read, or this process's memory.

It keeps one JSON object per server. The key holds a hash of the server's URL, because the URL may hold a secret.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from mcp_magic.config.parsing import replace_text
from mcp_magic.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from mcp.shared.auth import OAuthToken

    from mcp_magic.config.specs import AuthOptions

SERVICE = "mcp_magic"  # the service name of our entries in a keyring

LOCK_SECONDS = 15.0
"""Seconds to wait while another kernel refreshes a token. After that it counts as hung, and this kernel refreshes."""

POLL_SECONDS = 0.03

FAR = 2**30

RECOMMENDED = 1  # the lowest priority of a reliable keyring backend (keyring, "Recommended backends")

Record = dict[str, Any]


class Store(Protocol):
    """Keeps a record for each key."""

    def load(self, key: str) -> Record:
        """Return the record, or {} if there is none."""

    def save(self, key: str, record: Record) -> None:
        """Save a record; delete an empty one."""


def server_key(url: str) -> str:
    """Return the key of a server's tokens: its host and path, and a hash of the whole URL.

    >>> server_key("https://Me:pw@Example.com/mcp?key=1#x") == server_key("https://example.com/mcp?key=1")
    True
    >>> server_key("https://example.com/mcp?key=1").rpartition(" ")[0]
    'example.com/mcp'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    address = urlunsplit((parts.scheme.lower(), host, parts.path, parts.query, ""))
    return f"{host}{parts.path} {sha256(address.encode()).hexdigest()[:32]}"


def tokens_folder() -> Path:
    """Return the folder of the token files, below Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "tokens"


class MemoryStore:
    """Keeps records as long as the process lives."""

    def __init__(self) -> None:
        self._records: dict[str, str] = {}

    def load(self, key: str) -> Record:
        """Return the record, or {} if there is none."""
        return _read(self._records.get(key))

    def save(self, key: str, record: Record) -> None:
        """Save a record; delete an empty one."""
        self._records.pop(key, None)
        if record:
            self._records[key] = json.dumps(record)


class FileStore:
    """Keeps each record in its own file (mode 0600, in a folder of mode 0700), which is replaced atomically."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else tokens_folder()

    def path(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / f"{key.rpartition(' ')[2]}.json"

    def load(self, key: str) -> Record:
        """Return the record, or {} if there is none or it cannot be read."""
        try:
            return _read(self.path(key).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return {}

    def save(self, key: str, record: Record) -> None:
        """Save a record; delete an empty one. Raises OSError if the folder cannot be written to."""
        path = self.path(key)
        if not record:
            path.unlink(missing_ok=True)
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # the folder may exist with another mode
            self.folder.chmod(0o700)
        replace_text(path, json.dumps(record), 0o600)


class KeyringStore:
    """Keeps records in the system's keyring, or in another store if it is locked or a record is too large for it."""

    def __init__(self, backend: Any, otherwise: Store) -> None:
        self._backend = backend
        self._otherwise = otherwise

    def load(self, key: str) -> Record:
        """Return the record, or {} if there is none."""
        record: Record = {}
        with suppress(Exception):  # the keyring is locked, or its service is gone
            record = _read(self._backend.get_password(SERVICE, key))
        return record or self._otherwise.load(key)

    def save(self, key: str, record: Record) -> None:
        """Save a record; delete an empty one."""
        try:
            if record:
                self._backend.set_password(SERVICE, key, json.dumps(record))
            elif self._backend.get_password(SERVICE, key) is not None:
                self._backend.delete_password(SERVICE, key)
        except Exception:
            with suppress(Exception):  # the keyring has an older record
                self._backend.delete_password(SERVICE, key)
            self._otherwise.save(key, record)
        else:
            self._otherwise.save(key, {})


def make_store(where: str = "auto") -> Store:
    """Return the store for the setting `MCPMagics.tokens`; MissingDependencyError if it names a missing keyring."""
    if where == "memory":
        return MemoryStore()
    files = FileStore()
    if where == "file":
        return files
    backend = _keyring(RECOMMENDED if where == "auto" else 0)
    if backend is not None:
        return KeyringStore(backend, files)
    if where == "auto":
        return files
    raise MissingDependencyError(
        "MCPMagics.tokens = 'keyring': there is no keyring here. pip install 'mcp-magic[keyring]' and a service "
        "behind it (Secret Service, KWallet, macOS, Windows), or set it to 'file'."
    )


def _keyring(priority: float) -> Any:
    try:
        import keyring
        from keyring.backends import fail, null

        backend = keyring.get_keyring()
        if isinstance(backend, fail.Keyring | null.Keyring) or backend.priority < priority:
            return None
    except Exception:  # not installed, or cannot start
        return None
    return backend


_OBJECTS = ("tokens", "client", "metadata", "resource")  # members of a client's record that are JSON objects


def _read(text: str | None) -> Record:
    """Return the records of a server's clients, without what is damaged in them."""
    try:
        record = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    for fields in record.values() if isinstance(record, dict) else ():
        for name in _OBJECTS if isinstance(fields, dict) else ():
            if not isinstance(fields.get(name, {}), dict):
                del fields[name]
    return record if isinstance(record, dict) else {}


if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process; return False if another process holds the lock.

        The lock is the operating system's: it ends with the process that holds it.
        """
        try:
            os.lseek(descriptor, FAR, os.SEEK_SET)  # on Windows others cannot read the locked bytes
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock a file for this process; return False if another process holds the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock of a file. Goes on without it if the file cannot be created or the lock is held for too long."""
    descriptor = None
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        while descriptor is not None and not try_lock(descriptor):
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


class KeptTokens:
    """The tokens of one client at one server, and the other state that outlives a kernel.

    It calls `learn` with all secrets that are read or written, so that they are never shown.
    """

    def __init__(self, store: Store, url: str, options: AuthOptions, learn: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._server = server_key(url)
        names = (options.grant, options.client_id, options.client_metadata_url, options.issuer)
        client = [*names, *sorted(options.scopes)]
        self._client = sha256(json.dumps(client).encode()).hexdigest()[:16]  # the client's key in a record; no secrets
        self._learn = learn
        self._writing = asyncio.Lock()

    @property
    def lock_file(self) -> Path | None:
        """The file that a kernel locks to refresh the token, or None if no other kernel sees these tokens.

        Without the lock two kernels could use the same refresh token, which is worthless after its first use.
        """
        if isinstance(self._store, FileStore):
            return self._store.path(self._server).with_suffix(".lock")
        if isinstance(self._store, KeyringStore):
            return FileStore(tokens_folder()).path(self._server).with_suffix(".lock")
        return None

    async def load(self) -> dict[str, Any]:
        """Return the record: `tokens`, `expires_at` (`time.time()`), `client`, `metadata`, `resource`, `dpop_key`."""
        records = await asyncio.to_thread(self._store.load, self._server)
        record = records.get(self._client)
        record = record if isinstance(record, dict) else {}
        self._learn(_secrets_of(record))
        return record

    async def save(self, **changes: Any) -> None:
        """Change members of the record; None deletes one."""
        self._learn(_secrets_of(changes))
        # The record holds the other clients of this server too. A refresh already holds the lock file when it saves.
        lock_file = self.lock_file
        alone = nullcontext() if lock_file is None else locked(lock_file.with_suffix(".saving"))
        async with self._writing, alone:
            await asyncio.to_thread(self._change, changes)

    def _change(self, changes: dict[str, Any]) -> None:
        records = self._store.load(self._server)
        before = records.get(self._client)
        record = {**(before if isinstance(before, dict) else {}), **changes}
        records[self._client] = {name: value for name, value in record.items() if value is not None}
        self._store.save(self._server, {client: fields for client, fields in records.items() if fields})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Save tokens and the time when they expire."""
        expires = None if tokens.expires_in is None else time.time() + int(tokens.expires_in)
        await self.save(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=expires)


def read_model(kind: Any, value: Any) -> Any:
    """Return a model of the SDK from its JSON, or None if it is missing or not valid."""
    try:
        return kind.model_validate(value) if value else None
    except ValueError:
        return None


def _secrets_of(record: dict[str, Any]) -> list[str]:
    tokens, client = record.get("tokens") or {}, record.get("client") or {}
    texts = (tokens.get("access_token"), tokens.get("refresh_token"), client.get("client_secret"))
    return [text for text in (*texts, record.get("dpop_key")) if text]
