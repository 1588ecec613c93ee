"""What a server offers: tools, resources, resource templates and prompts, all pages, cached.

A listing is fetched on first use, and again when it is next used after the server announced a change or the time is
over for which the server lets it be kept (`cache.py`). Concurrent callers share one fetch. Only listings that the
server's capabilities announce are requested.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from mcp_magic._text import plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import InvalidResponseError, ProtocolError, RequestTimeoutError
from mcp_magic.loops import on_own_loop
from mcp_magic.session.reconnect import Pacing

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

TOLD_SECONDS = 1.0  # the pause from which on a remark says that a server announces changes all the time

SETTLE_SECONDS = 2.0  # seconds that a caller waits for a listing that is known to have changed


class Kind(NamedTuple):
    """How one kind is listed."""

    capability: str
    method: str
    field: str
    request: str
    member: str
    key: str
    definition: str


KINDS = {
    "tools": Kind("tools", "list_tools", "tools", "tools/list", "tools", "name", "Tool"),
    "resources": Kind("resources", "list_resources", "resources", "resources/list", "resources", "uri", "Resource"),
    "templates": Kind(
        "resources",
        "list_resource_templates",
        "resource_templates",
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        "ResourceTemplate",
    ),
    "prompts": Kind("prompts", "list_prompts", "prompts", "prompts/list", "prompts", "name", "Prompt"),
}


class Listed(NamedTuple):
    """A fetched listing, until when it may be kept (None: until a notice says that it has changed), and what is no use.

    `unusable` are the definitions that cannot be used.
    """

    items: list[Any]
    until: float | None = None
    unusable: Sequence[Unusable] = ()


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


class Catalog:
    """The cached listings of one session, and why the last fetch of a kind failed.

    `fetch` lists one kind; its second argument says whether the user asked for it. `loaded` is called after each fetch.
    `clock` returns seconds. `current_tools` is empty while the listing is known to have changed; it holds until
    `tools_until`. `unusable` are the definitions of each kind that cannot be used, by name, each with the reason.
    """

    def __init__(
        self,
        fetch: Callable[[str, bool], Awaitable[Listed]],
        loaded: Callable[[str], None] = lambda kind: None,
        clock: Callable[[], float] = time.time,
        remark: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None  # of the session
        self._fetch = fetch
        self._loaded = loaded
        self.clock = clock
        self._remark = remark
        self._pacing = {kind: Pacing() for kind in KINDS}
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._items: dict[str, tuple[Any, ...]] = {}
        self._until: dict[str, float] = {}
        self._stale: set[str] = set(KINDS)
        self._running: dict[str, asyncio.Task[tuple[Any, ...]]] = {}
        self._waiting: Counter[str] = Counter()
        self.problems: dict[str, str] = {}
        self.unusable: dict[str, dict[str, str]] = {}
        self.tools: dict[str, Tool] = {}
        self.current_tools: dict[str, Tool] = {}
        self.tools_until = math.inf

    def tool(self, name: str) -> Tool | None:
        """Return a tool of the listing; None while the listing may have changed."""
        return self.current_tools.get(name) if self.clock() < self.tools_until else None

    def cached(self, kind: str) -> tuple[Any, ...]:
        """Return the cached listing; empty before the first fetch."""
        return self._items.get(kind, ())

    def known(self, kind: str) -> bool:
        """Whether a listing has been fetched at all."""
        return kind in self._items

    def kept(self) -> dict[str, float]:
        """Return the seconds for which the server lets each listing still be kept, by kind; it need not say so."""
        now = self.clock()
        return {kind: until - now for kind, until in self._until.items() if until > now and kind not in self._stale}

    def outdate(self) -> None:
        """Fetch the listings that are kept for a time anew when they are next used."""
        self._until = dict.fromkeys(self._until, 0.0)
        self._note_tools()

    @on_own_loop
    async def get(self, kind: str, *, refresh: bool = False) -> tuple[Any, ...]:
        """Return one listing, from the cache unless it may have changed."""
        if refresh:
            self._stale.add(kind)
            self._note_tools()
        if self._changed(kind):
            await self._join(kind)
        return self._items[kind]

    @on_own_loop
    async def settle(self, kind: str, seconds: float = SETTLE_SECONDS) -> None:
        """Wait up to `seconds` for a listing that is known to have changed. If the fetch fails, the old one stays."""
        if kind in self._items and self._changed(kind):
            task = self._running.get(kind) or self._start(kind)
            task.add_done_callback(_retrieve)
            await asyncio.wait({task}, timeout=seconds)

    @on_own_loop
    async def look_again(self, kind: str, seconds: float = SETTLE_SECONDS) -> None:
        """Fetch a listing again although no change was announced; wait up to `seconds`. If it fails, the old stays."""
        task = self._running.get(kind) or self._start(kind, unasked=True)
        task.add_done_callback(_retrieve)
        await asyncio.wait({task}, timeout=seconds)

    @on_own_loop
    async def prefetch(self, seconds: float) -> None:
        """Fetch all listings in parallel and wait up to `seconds`. A failed one raises at the next `get`."""
        fetches = [self._running.get(kind) or self._start(kind, counted=False) for kind in KINDS if self._changed(kind)]
        for fetch in fetches:
            fetch.add_done_callback(_retrieve)
        if not fetches:
            return
        try:
            await asyncio.wait(fetches, timeout=seconds)
        except asyncio.CancelledError:
            self._stop_unwanted()
            raise

    def changed(self, kind: str) -> None:
        """Fetch a listing again in the background: the server announced a change.

        A server may announce one after each fetch, so the pauses grow; who uses the listing does not wait for them.
        """
        self._stale.add(kind)
        self._note_tools()
        if kind in self._running or kind in self._later or kind not in self._items:
            return
        pause = self._pacing[kind].pause()
        if pause >= TOLD_SECONDS:
            self._remark(f"it announces changes of its {kind} all the time; they are listed again with growing pauses")
        if pause:
            self._later[kind] = asyncio.get_running_loop().call_later(pause, self._fetch_again, kind)
        else:
            self._fetch_again(kind)

    def _fetch_again(self, kind: str) -> None:
        self._later.pop(kind, None)
        if kind in self._stale and kind not in self._running:
            self._start(kind, counted=False, rounds=1).add_done_callback(_retrieve)

    async def close(self) -> None:
        """Cancel all fetches, those that are to come too."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abandon(self) -> None:
        """Forget all fetches, and what was fetched: their loop was closed."""
        self._later.clear()
        self._running.clear()
        self._waiting.clear()
        self._stale.update(KINDS)
        self._note_tools()

    def _changed(self, kind: str) -> bool:
        """Whether the cached listing is stale or being fetched, or its time is over."""
        if kind in self._stale or kind in self._running:
            return True
        until = self._until.get(kind)
        return until is not None and until <= self.clock()

    def _note_tools(self) -> None:
        self.current_tools = {} if "tools" in self._stale or "tools" in self._running else self.tools
        self.tools_until = self._until.get("tools", math.inf)

    def _start(
        self, kind: str, *, unasked: bool = False, counted: bool = True, rounds: int = MAX_ROUNDS
    ) -> asyncio.Task[tuple[Any, ...]]:
        task = asyncio.ensure_future(self._load(kind, unasked=unasked, counted=counted, rounds=rounds))
        self._running[kind] = task
        self._note_tools()
        return task

    async def _join(self, kind: str) -> None:
        task = self._running.get(kind) or self._start(kind)
        self._waiting[kind] += 1
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
            self._waiting[kind] -= 1
            if interrupted:
                self._stop_unwanted()
        await self._join(kind)  # the session has ended meanwhile: another fetch says why

    def _stop_unwanted(self) -> None:
        """Cancel fetches without a waiting caller: they may be waiting for the user to log in."""
        for kind, task in list(self._running.items()):
            if not self._waiting[kind]:
                del self._running[kind]  # the next caller starts a new fetch
                task.cancel()
        self._note_tools()

    async def _load(self, kind: str, *, unasked: bool, counted: bool, rounds: int) -> tuple[Any, ...]:
        """Fetch a listing, and again while the server announces changes meanwhile."""
        good = unasked and kind in self._items and kind not in self._stale
        try:
            for _ in range(rounds):
                self._stale.discard(kind)  # a change announced from here on marks it again
                found, until, unusable = await self._fetch(kind, counted)
                self.unusable[kind] = dict(unusable)
                items = self._items[kind] = tuple(found)
                if until is None:
                    self._until.pop(kind, None)
                else:
                    self._until[kind] = until
                if kind == "tools":
                    self.tools = {tool.name: tool for tool in items}
                self.problems.pop(kind, None)
                self._loaded(kind)
                if kind not in self._stale:
                    break
        except BaseException as error:
            if not good:
                self._stale.add(kind)
                if isinstance(error, Exception):
                    self.problems[kind] = str(error).partition("\n")[0]
            raise
        finally:
            if self._running.get(kind) is asyncio.current_task():
                del self._running[kind]
            self._note_tools()
        if rounds == 1 and kind in self._stale:  # a change was announced meanwhile
            self.changed(kind)
        return items


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a background fetch's error so that asyncio does not report it. The next `get` fetches again."""
    if not task.cancelled():
        task.exception()
