"""What a server offers: tools, resources, resource templates and prompts, all pages, cached.

A listing is fetched on first use, and again when it is next used after the server announced a change or the time is
over for which the server lets it be kept (`cache.py`). Concurrent callers share one fetch. Only listings that the
server's capabilities announce are requested.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from mcp_magic._text import plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import InvalidResponseError, ProtocolError, RequestTimeoutError
from mcp_magic.flight.backoff import Pacing
from mcp_magic.loops import on_own_loop
from mcp_magic.session.reader import KINDS as KINDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_types import Tool

    from mcp_magic.session.reader import Unusable


MAX_PAGES = 1000  # maximum number of pages of one listing: of an endless one the first are kept

MAX_ITEMS = 100_000  # maximum number of items of one listing, on all its pages

MAX_BYTES = 100_000_000
"""Maximum number of bytes of one listing as JSON, on all its pages: a server must not fill the memory."""

MAX_REASON = 400  # characters of the reason why a page failed

MAX_ROUNDS = 5
"""Maximum number of fetches in a row if a listing changes meanwhile: a server may announce a change at each."""

REMARK_SECONDS = 1.0  # the pause from which on a remark says that a server announces changes all the time

SETTLE_SECONDS = 2.0  # seconds that a caller waits for a listing that is known to have changed


class Listing(NamedTuple):
    """A fetched listing; it may be kept until `until` (None: until a notice says that it has changed).

    `unusable` are the definitions that cannot be used, `ttl_ms` the milliseconds that the server gives it, or None.
    """

    items: list[Any]
    until: float | None = None
    unusable: Sequence[Unusable] = ()
    ttl_ms: int | None = None


async def all_pages(
    fetch: Callable[[str | None], Awaitable[Any]],
    field: str,
    *,
    limit: int = MAX_PAGES,
    remark: Callable[[str], None] = lambda text: None,
) -> list[Any]:
    """Collect the items of every page of a listing. `fetch` gets the cursor of a page; None for the first.

    A listing that goes in a circle, or has more than `limit` pages, `MAX_ITEMS` items or `MAX_BYTES` bytes, or of which
    a page after the first fails, ends there: what came is returned, and `remark` gets a sentence.
    """
    items: list[Any] = []
    size = 0
    cursor: str | None = None
    cursors: set[str] = set()
    names: set[str] = set()
    for number in range(1, limit + 1):
        try:
            page = await fetch(cursor)
        except (ProtocolError, InvalidResponseError, RequestTimeoutError) as error:
            if number == 1:
                raise
            reason = one_line(error.details or str(error).partition("\n")[0], MAX_REASON)
            remark(f"the listing of {field} ends with {plural(len(items), 'items')}: page {number} failed: {reason}")
            return items
        more = getattr(page, field)
        cursor = page.next_cursor
        if not cursor:  # the specification says absent; some servers send ""
            items += more
            return items
        new = [item for item in more if _name(item) not in names]
        why = "the cursor of" if cursor in cursors else "" if new or not more else "all of"
        if why:  # the page may be an earlier one once more
            items += new
            remark(
                f"the listing of {field} goes in a circle: {why} page {number} came before; "
                f"it ends there, with {plural(len(items), 'items')}"
            )
            return items
        items += more
        names.update(map(_name, more))
        cursors.add(cursor)
        size += len(to_json(more, by_alias=True, exclude_none=True))
        if len(items) > MAX_ITEMS or size > MAX_BYTES:
            break
    remark(
        f"the listing of {field} does not end: it was stopped after {plural(number, 'pages')} with "
        f"{plural(len(items), 'items')} and {size / 1e6:,.0f} MB"
    )
    return items[:MAX_ITEMS]


def _name(item: Any) -> str:
    """Return what tells an item of a listing from the others: its URI, else its name."""
    keys = ("uri", "uri_template", "name")
    return str(next((value for key in keys if (value := getattr(item, key, None)) is not None), item))


class _Cache:
    """One kind of listing: what was fetched, and the fetch under way.

    `items` is None before the first fetch. `problem` says why the last fetch failed. `waiting` callers wait for `task`,
    and `timer` starts a later fetch.
    """

    def __init__(self) -> None:
        self.items: tuple[Any, ...] | None = None
        self.until: float | None = None
        self.ttl_ms: int | None = None
        self.unusable: dict[str, str] = {}
        self.problem = ""
        self.is_stale = True
        self.task: asyncio.Task[tuple[Any, ...]] | None = None
        self.waiting = 0
        self.timer: asyncio.TimerHandle | None = None
        self.pacing = Pacing()

    def needs_fetch(self, now: float) -> bool:
        """Whether the listing is stale or being fetched, or its time is over."""
        return self.is_stale or self.task is not None or (self.until is not None and self.until <= now)


class Catalog:
    """The cached listings of one session.

    `fetch` lists one kind; its second argument is whether the fetch counts as a request of the user. `on_load` is
    called after each fetch. `clock` returns seconds.

    Attributes:
        loop: The event loop of the session.
        tools: The tools by name, as they were listed last.
    """

    def __init__(
        self,
        fetch: Callable[[str, bool], Awaitable[Listing]],
        on_load: Callable[[str], None] = lambda kind: None,
        clock: Callable[[], float] = time.time,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.tools: dict[str, Tool] = {}
        self._fetch = fetch
        self._on_load = on_load
        self._clock = clock
        self._remark = remark
        self._caches = {kind: _Cache() for kind in KINDS}
        self._current_tools: dict[str, Tool] = {}  # empty while the listing is known to have changed
        self._tools_until = math.inf

    def tool(self, name: str) -> Tool | None:
        """Return a tool of the listing; None while the listing may have changed."""
        return self._current_tools.get(name) if self._clock() < self._tools_until else None

    def cached(self, kind: str) -> tuple[Any, ...]:
        """Return the cached listing; empty before the first fetch."""
        cache = self._caches.get(kind)
        return () if cache is None else cache.items or ()

    def has(self, kind: str) -> bool:
        """Whether a listing has been fetched at all."""
        return kind in self._caches and self._caches[kind].items is not None

    @property
    def problems(self) -> dict[str, str]:
        """Why the last fetch of a kind failed, by kind."""
        return {kind: cache.problem for kind, cache in self._caches.items() if cache.problem}

    @property
    def unusable(self) -> dict[str, dict[str, str]]:
        """The definitions that cannot be used: kind -> name -> the reason."""
        return {kind: cache.unusable for kind, cache in self._caches.items() if cache.items is not None}

    @property
    def unread(self) -> list[tuple[str, str]]:
        """The definitions that cannot be used, such as `"tool add"`, each with the reason."""
        return [(f"{kind[:-1]} {name}", why) for kind, names in self.unusable.items() for name, why in names.items()]

    @property
    def ttls(self) -> dict[str, int]:
        """The milliseconds for which the server lets each listing be kept, by kind, where it says so."""
        return {kind: cache.ttl_ms for kind, cache in self._caches.items() if cache.ttl_ms is not None}

    def seconds_left(self) -> dict[str, float]:
        """Return the seconds for which the server lets each listing still be kept, by kind; it need not say so."""
        now = self._clock()
        untils = {kind: cache.until for kind, cache in self._caches.items() if not cache.is_stale}
        return {kind: until - now for kind, until in untils.items() if until is not None and until > now}

    def outdate(self) -> None:
        """Let the listings that are kept for a time be fetched again when they are next used."""
        for cache in self._caches.values():
            cache.until = None if cache.until is None else 0.0
        self._note_tools()

    @on_own_loop
    async def get(self, kind: str, *, refresh: bool = False) -> tuple[Any, ...]:
        """Return one listing, from the cache unless it may have changed."""
        cache = self._caches[kind]
        if refresh:
            cache.is_stale = True
            self._note_tools()
        if cache.needs_fetch(self._clock()):
            await self._join(kind)
        assert cache.items is not None
        return cache.items

    @on_own_loop
    async def settle(self, kind: str, seconds: float = SETTLE_SECONDS) -> None:
        """Wait up to `seconds` for a listing that is known to have changed. If the fetch fails, the old one stays."""
        cache = self._caches[kind]
        if cache.items is not None and cache.needs_fetch(self._clock()):
            await self._wait([cache.task or self._start(kind)], seconds)

    @on_own_loop
    async def look_again(self, kind: str, seconds: float = SETTLE_SECONDS) -> None:
        """Fetch a listing again although no change was announced; wait up to `seconds`. If it fails, the old stays."""
        await self._wait([self._caches[kind].task or self._start(kind, is_search=True)], seconds)

    @on_own_loop
    async def prefetch(self, seconds: float) -> None:
        """Fetch all listings in parallel and wait up to `seconds`. A failed one raises at the next `get`."""
        now = self._clock()
        stale = [(kind, cache) for kind, cache in self._caches.items() if cache.needs_fetch(now)]
        try:
            await self._wait([cache.task or self._start(kind, is_counted=False) for kind, cache in stale], seconds)
        except asyncio.CancelledError:
            self._stop_unwanted()
            raise

    async def _wait(self, fetches: list[asyncio.Task[tuple[Any, ...]]], seconds: float) -> None:
        for fetch in fetches:
            fetch.add_done_callback(_retrieve)
        if fetches:
            await asyncio.wait(fetches, timeout=seconds)

    def mark_changed(self, kind: str) -> None:
        """Fetch a listing again in the background: the server announced a change.

        A server may announce one after each fetch, so the pauses grow; who uses the listing does not wait for them.
        """
        cache = self._caches[kind]
        cache.is_stale = True
        self._note_tools()
        if cache.task is not None or cache.timer is not None or cache.items is None:
            return
        pause = cache.pacing.pause()
        if pause >= REMARK_SECONDS:
            self._remark(f"it announces changes of its {kind} all the time; they are listed again with growing pauses")
        if pause:
            cache.timer = asyncio.get_running_loop().call_later(pause, self._fetch_again, kind)
        else:
            self._fetch_again(kind)

    def _fetch_again(self, kind: str) -> None:
        cache = self._caches[kind]
        cache.timer = None
        if cache.is_stale and cache.task is None:
            self._start(kind, is_counted=False, rounds=1).add_done_callback(_retrieve)

    async def close(self) -> None:
        """Cancel all fetches, those that are to come too."""
        for cache in self._caches.values():
            if cache.timer is not None:
                cache.timer.cancel()
                cache.timer = None
        tasks = [cache.task for cache in self._caches.values() if cache.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abandon(self) -> None:
        """Forget all fetches, and that the listings are current: their loop was closed."""
        for cache in self._caches.values():
            cache.timer = cache.task = None
            cache.waiting, cache.is_stale = 0, True
        self._note_tools()

    def _note_tools(self) -> None:
        cache = self._caches["tools"]
        self._current_tools = {} if cache.is_stale or cache.task is not None else self.tools
        self._tools_until = math.inf if cache.until is None else cache.until

    def _start(
        self, kind: str, *, is_search: bool = False, is_counted: bool = True, rounds: int = MAX_ROUNDS
    ) -> asyncio.Task[tuple[Any, ...]]:
        task = asyncio.ensure_future(self._load(kind, is_search=is_search, is_counted=is_counted, rounds=rounds))
        self._caches[kind].task = task
        self._note_tools()
        return task

    async def _join(self, kind: str) -> None:
        cache = self._caches[kind]
        task = cache.task or self._start(kind)
        cache.waiting += 1
        interrupted = False
        try:
            await asyncio.shield(task)
            return
        except asyncio.CancelledError:
            current = asyncio.current_task()
            interrupted = not task.cancelled() or current is None or current.cancelling() > 0
            if interrupted:
                raise
        finally:
            cache.waiting -= 1
            if interrupted:
                self._stop_unwanted()
        await self._join(kind)  # the session has ended meanwhile: another fetch says why

    def _stop_unwanted(self) -> None:
        """Cancel fetches without a waiting caller: they may be waiting for the user to log in."""
        for cache in self._caches.values():
            if cache.task is not None and not cache.waiting:
                task, cache.task = cache.task, None  # the next caller starts a new fetch
                task.cancel()
        self._note_tools()

    async def _load(self, kind: str, *, is_search: bool, is_counted: bool, rounds: int) -> tuple[Any, ...]:
        """Fetch a listing, and again while the server announces changes meanwhile."""
        cache = self._caches[kind]
        stays_good = is_search and cache.items is not None and not cache.is_stale
        try:
            for _ in range(rounds):
                cache.is_stale = False  # a change announced from here on marks it again
                listing = await self._fetch(kind, is_counted)
                cache.unusable = dict(listing.unusable)
                items = cache.items = tuple(listing.items)
                cache.until, cache.ttl_ms = listing.until, listing.ttl_ms
                if kind == "tools":
                    self.tools = {tool.name: tool for tool in items}
                cache.problem = ""
                self._on_load(kind)
                if not cache.is_stale:
                    break
        except BaseException as error:
            if not stays_good:
                cache.is_stale = True
                if isinstance(error, Exception):
                    cache.problem = str(error).partition("\n")[0]
            raise
        finally:
            if cache.task is asyncio.current_task():
                cache.task = None
            self._note_tools()
        if rounds == 1 and cache.is_stale:  # a change was announced meanwhile
            self.mark_changed(kind)
        return items


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a background fetch's error so that asyncio does not report it. The next `get` fetches again."""
    if not task.cancelled():
        task.exception()
