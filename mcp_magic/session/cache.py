"""How long answers are kept (SEP-2549, since protocol 2026-07-28).

A server says for each listing and each read how long the answer may be used (`ttlMs`). The `Catalog` keeps listings,
all pages together. Reads are kept by the SDK's response cache, in a store for each session: so nothing is shared
between sessions and log-ins, whatever its `cacheScope`.

The SDK's cache would keep only the first page of a listing, so listings pass it by. A new session begins with an empty
store, because notices of changes may have been missed. A kept read is found before a request is made, so it counts as
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.caching import CacheConfig, CacheEntry, CacheKey
    from mcp_types import ReadResourceResult

SHORTEST_SECONDS = 2.0
"""Shortest time that a listing is kept: with a shorter one, each call and each name would list everything again."""

MAX_READS = 256  # most reads kept of one session; the one that was used least recently is dropped

MAX_BYTES = 32_000_000
"""Approximate maximum of the bytes of the kept reads of one session. A larger answer is not kept."""

_READ = "resources/read"


class Kept(NamedTuple):
    """The kept answer to a read; the times are those of the clock, in seconds."""

    result: ReadResourceResult
    since: float
    until: float


def fresh_until(page: Any, now: float) -> float | None:
    """Return until when a page of a listing may be kept, a day at most; None if its server says nothing about it."""
    from mcp.client.caching import MAX_TTL_MS

    ttl_ms: int = page.ttl_ms
    return now + max(min(ttl_ms, MAX_TTL_MS) / 1000, SHORTEST_SECONDS) if ttl_ms > 0 else None


class ReadStore:
    """The kept reads of one session: a `ResponseCacheStore` of the SDK, bounded in number and bytes.

    The SDK decides what may be kept and for how long, and deletes what a notice has made stale. The listings that it
    would keep too are left to the `Catalog`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[CacheEntry, float, int]] = {}
        self._size = 0

    def config(self) -> CacheConfig:
        """Return the configuration of the SDK's cache with this store."""
        from mcp.client.caching import CacheConfig

        return CacheConfig(store=self, partition="session", target_id="session", clock=self._clock)

    def find(self, uri: str) -> Kept | None:
        """Return a copy of the answer that is kept for a URI, or None."""
        entry, since, _ = self._entries.get(uri, (None, 0.0, 0))
        if entry is None or entry.expires_at is None or entry.expires_at <= self._clock():
            return None
        self._entries[uri] = self._entries.pop(uri)  # the last in order is the one used last
        # A deep copy takes several times as long, seconds where there are many contents.
        contents = [content.model_copy() for content in entry.value.contents]
        return Kept(entry.value.model_copy(update={"contents": contents}), since, entry.expires_at)

    def drop(self, uri: str) -> None:
        """Forget the answer for a URI."""
        _, _, size = self._entries.pop(uri, (None, 0.0, 0))
        self._size -= size

    def forget(self) -> None:
        """Forget all answers."""
        self._entries.clear()
        self._size = 0

    def __len__(self) -> int:
        now = self._clock()
        return sum(entry.expires_at is not None and entry.expires_at > now for entry, _, _ in self._entries.values())

    # What the SDK calls

    async def get(self, key: CacheKey) -> CacheEntry | None:
        """Return the entry of a read."""
        return self._entries[key.params_key][0] if key.method == _READ and key.params_key in self._entries else None

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Keep the entry of a read, unless it is too large."""
        if key.method != _READ:
            return
        self.drop(key.params_key)
        size = len(entry.value.model_dump_json())
        if size > MAX_BYTES:
            return
        self._entries[key.params_key] = (entry, self._clock(), size)
        self._size += size
        while len(self._entries) > MAX_READS or self._size > MAX_BYTES:
            self.drop(next(iter(self._entries)))

    async def delete(self, key: CacheKey) -> None:
        """Forget the entry of a read."""
        if key.method == _READ:
            self.drop(key.params_key)

    async def clear(self) -> None:
        """Forget all reads."""
        self.forget()
