"""Where tokens are kept: the system's keyring, a file that its owner alone can read, or this process's memory.

What is kept is one JSON object a server, found by the hash of its URL: the URL itself may hold a secret.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from mcp_magic.errors import MissingDependencyError

__all__ = ["FileStore", "KeyringStore", "MemoryStore", "Store", "make_store", "server_key", "tokens_folder"]

SERVICE = "mcp_magic"
"""What a keyring lists our entries under."""

RECOMMENDED = 1
"""The priority from which on a keyring backend is one to rely on (keyring, "Recommended backends")."""

Record = dict[str, Any]


class Store(Protocol):
    """Keeps a record for each key."""

    def load(self, key: str) -> Record:
        """Return the record, {} if there is none."""

    def save(self, key: str, record: Record) -> None:
        """Keep a record; an empty one is deleted."""


def server_key(url: str) -> str:
    """Return what a server's tokens are found by: its host and path, and a hash of the whole URL.

    >>> server_key("https://Me:pw@Example.com/mcp?key=1#x") == server_key("https://example.com/mcp?key=1")
    True
    >>> server_key("https://example.com/mcp?key=1").rpartition(" ")[0]
    'example.com/mcp'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    whole = urlunsplit((parts.scheme.lower(), host, parts.path, parts.query, ""))
    return f"{host}{parts.path} {sha256(whole.encode()).hexdigest()[:32]}"


def tokens_folder() -> Path:
    """Return the folder of the files, below Jupyter's data directory; nothing is made yet."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "tokens"


class MemoryStore:
    """Keeps them as long as the process lives."""

    def __init__(self) -> None:
        self._records: dict[str, str] = {}

    def load(self, key: str) -> Record:
        """Return the record, {} if there is none."""
        return _read(self._records.get(key))

    def save(self, key: str, record: Record) -> None:
        """Keep a record; an empty one is deleted."""
        self._records.pop(key, None)
        if record:
            self._records[key] = json.dumps(record)


class FileStore:
    """Keeps each record in a file of its own (mode 0600, in a folder of mode 0700), written in one step.

    Args:
        folder: The folder; by default below Jupyter's data directory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else tokens_folder()

    def path(self, key: str) -> Path:
        """Return the file of a key."""
        return self.folder / f"{key.rpartition(' ')[2]}.json"

    def load(self, key: str) -> Record:
        """Return the record, {} if there is none, or none that can be read."""
        try:
            return _read(self.path(key).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return {}

    def save(self, key: str, record: Record) -> None:
        """Keep a record; an empty one is deleted.

        Raises:
            OSError: The folder cannot be written to.
        """
        path = self.path(key)
        if not record:
            path.unlink(missing_ok=True)
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # the folder may have been there, with a mode of its own
            self.folder.chmod(0o700)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(record, file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


class KeyringStore:
    """Keeps them in the system's keyring; what it does not take goes into a file.

    Args:
        backend: A `keyring` backend.
        otherwise: Takes what the keyring refuses: Windows' has room for 2,560 bytes, and one may be locked.
    """

    def __init__(self, backend: Any, otherwise: Store) -> None:
        self._backend = backend
        self._otherwise = otherwise

    def load(self, key: str) -> Record:
        """Return the record, {} if there is none."""
        found: Record = {}
        with suppress(Exception):  # a keyring that is locked, or whose service is gone
            found = _read(self._backend.get_password(SERVICE, key))
        return found or self._otherwise.load(key)

    def save(self, key: str, record: Record) -> None:
        """Keep a record; an empty one is deleted."""
        try:
            if record:
                self._backend.set_password(SERVICE, key, json.dumps(record))
            elif self._backend.get_password(SERVICE, key) is not None:
                self._backend.delete_password(SERVICE, key)
        except Exception:
            with suppress(Exception):  # what is there is older
                self._backend.delete_password(SERVICE, key)
            self._otherwise.save(key, record)
        else:
            self._otherwise.save(key, {})


def make_store(where: str = "auto", folder: Path | None = None) -> Store:
    """Return the store that a setting means.

    Args:
        where: `"auto"` is the keyring where there is one to rely on, else a file.
        folder: The folder of files.

    Raises:
        MissingDependencyError: `"keyring"`, and there is none.
    """
    if where == "memory":
        return MemoryStore()
    files = FileStore(folder)
    if where == "file":
        return files
    backend = _keyring(RECOMMENDED if where == "auto" else 0)
    if backend is not None:
        return KeyringStore(backend, files)
    if where == "auto":
        return files
    raise MissingDependencyError(
        "MCPMagics.tokens = 'keyring': no keyring is to be had here. pip install 'mcp_magic[keyring]' and a service "
        "behind it (Secret Service, KWallet, macOS, Windows), or set it to 'file'."
    )


def _keyring(priority: float) -> Any:
    """Return the keyring backend in use, if it keeps anything."""
    try:
        import keyring
        from keyring.backends import fail, null

        backend = keyring.get_keyring()
        if isinstance(backend, fail.Keyring | null.Keyring) or backend.priority < priority:
            return None
    except Exception:  # none installed, or one that cannot start
        return None
    return backend


def _read(text: str | None) -> Record:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
