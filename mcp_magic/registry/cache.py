"""The answers of a registry on disk, so that a search is quick when it is repeated, and works without a network."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.auth.store import FileStore, MemoryStore, Store
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES = 500  # answers that are kept of one registry; the oldest go first
MAX_SIZE = 200_000_000  # bytes of them


def registries_folder() -> Path:
    """Return the folder of the cached answers, below Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "registries"


@dataclass(frozen=True)
class StoredAnswer:
    """An answer of a registry.

    Attributes:
        value: Its JSON.
        time: When it came (`time.time()`).
        etag: Its `ETag`, or "".
        is_list: Whether it is a page of a list of servers.
    """

    value: Any
    time: float
    etag: str = ""
    is_list: bool = True

    @property
    def age(self) -> float:
        """Seconds since it came."""
        return max(0.0, time.time() - self.time)

    def is_younger(self, seconds: float) -> bool:
        """Whether it came within so many seconds; not where somebody has set the clock back since."""
        return -1 < time.time() - self.time < seconds


class AnswerCache:
    """The answers of the registry at one address, a file for each, which only their owner can read.

    Names of folders and files are hashes: an address may hold a secret.
    """

    def __init__(self, address: str) -> None:
        self.folder: Path | None = None
        self._store: Store = MemoryStore()  # a browser has no data directory
        with suppress(ImportError):
            self.folder = registries_folder() / sha256(address.encode("utf-8", "replace")).hexdigest()[:32]
            self._store = FileStore(self.folder)

    def load(self, request: str) -> StoredAnswer | None:
        """Return the answer to a request, or None if there is none or it cannot be read."""
        return _answer(self._store.load(_key(request)))

    def save(self, request: str, answer: StoredAnswer) -> None:
        """Keep an answer. Raises OSError if the folder cannot be written to."""
        # one text is written in a tenth of the time of its parts
        text = json.dumps(answer.value)
        fields = {"time": answer.time, "etag": answer.etag, "list": answer.is_list, "text": text}
        self._store.save(_key(request), fields)
        size = 0
        for number, path in enumerate(self._files()):
            with suppress(OSError):  # another kernel has just deleted it
                size += path.stat().st_size
                if number >= MAX_FILES or (number and size > MAX_SIZE):
                    path.unlink()

    def pages(self, limit: int = MAX_FILES) -> Iterator[StoredAnswer]:
        """Return the pages of lists that are kept, the newest first."""
        for path in self._files()[:limit]:
            answer = _answer(self._store.load(path.stem))
            if answer is not None and answer.is_list:
                yield answer

    def _files(self) -> list[Path]:
        """Return the files of answers, the newest first."""
        times = []
        for path in () if self.folder is None else self.folder.glob("*.json"):
            with suppress(OSError):  # another kernel has just deleted it
                times.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(times, reverse=True)]


def _key(request: str) -> str:
    return sha256(request.encode()).hexdigest()[:40]


def _answer(fields: dict[str, Any]) -> StoredAnswer | None:
    moment, etag, text = fields.get("time"), fields.get("etag"), fields.get("text")
    if not isinstance(moment, int | float) or not isinstance(etag, str) or not isinstance(text, str):
        return None
    value = loads(text, nan=True)
    return None if value is NOT_JSON else StoredAnswer(value, float(moment), etag, fields.get("list") is True)


def names_in(value: Any) -> list[str]:
    """Return the names of the servers on a page of a list, without a look at anything else.

    >>> names_in({"servers": [{"server": {"name": "org.example/clock"}}, {"name": "org.example/old"}, 7]})
    ['org.example/clock', 'org.example/old']
    """
    servers = object_of(value).get("servers")
    names = []
    for item in servers if isinstance(servers, list) else ():
        fields = object_of(item)
        name = object_of(fields.get("server", fields)).get("name")
        if isinstance(name, str):
            names.append(name)
    return names
