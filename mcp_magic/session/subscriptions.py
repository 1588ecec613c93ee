"""Subscriptions to resources, and their updates."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.display.text import one_line
from mcp_magic.errors import NotOfferedError
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from mcp import Client

__all__ = ["Subscription", "Subscriptions", "Ticks", "Update", "check_announces"]


# The changes of one resource, as whoever watches it gets them.


class Update(NamedTuple):
    """That a resource changed.

    Attributes:
        changes: Announcements since the last `Update`; 0 if only something may have been missed.
        missed: Whether the subscription was interrupted: what changed meanwhile was not announced.
        time: When the last of them came (`time.time()`).
    """

    changes: int
    missed: bool
    time: float


class Subscription:
    """The changes of one resource, as an asynchronous iterator of `Update`; also a context manager.

    Announcements that come faster than they are asked for are counted in one `Update`.

    Attributes:
        uri: Which resource.
        ended: Whether no more will come.
    """

    def __init__(self, uri: str, on_close: Callable[[Subscription], Any]) -> None:
        self.uri = uri
        self.ended = False
        self._on_close = on_close
        self._count, self._missed, self._time = 0, False, 0.0
        self._news = asyncio.Event()

    def tell(self, *, missed: bool = False) -> None:
        """Note an announcement, or that some may have been missed."""
        self._count += not missed
        self._missed |= missed
        self._time = time.time()
        self._news.set()

    def move(self, on_close: Callable[[Subscription], Any]) -> None:
        """Belong to another session of the server from now on, which is told when this is closed."""
        self._on_close = on_close

    def end(self) -> None:
        """No more will come: the server was disconnected."""
        self.ended = True
        self._news.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Update:
        await self._news.wait()
        if self.ended:
            raise StopAsyncIteration
        self._news.clear()
        update = Update(self._count, self._missed, self._time)
        self._count, self._missed = 0, False
        return update

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Watch no more; the server is told when nobody does. Closing twice is fine."""
        if not self.ended:
            self.end()
            self._on_close(self)


class Ticks:
    """The passing of time in place of announcements, for servers that make none.

    Args:
        seconds: Between two.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended = asyncio.Event()

    def __aiter__(self) -> Ticks:
        return self

    async def __anext__(self) -> Update:
        try:
            async with asyncio.timeout(self._seconds):
                await self._ended.wait()
        except TimeoutError:
            return Update(0, False, time.time())
        raise StopAsyncIteration

    def close(self) -> None:
        """No more will come."""
        self._ended.set()


# Resources whose changes a server is asked to announce.
#
# A session of the handshake era subscribes with `resources/subscribe`; one of 2026-07-28 opens a
# `subscriptions/listen` stream for each URI. Whoever watches the same URI shares one subscription. It is taken up
# again whenever a session is opened again, and whoever watches is told that something may have been missed meanwhile.

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 8.0
"""How long to wait before a subscription that ended is taken up again; twice as long each time."""

LASTED_SECONDS = 60.0
"""Seconds after which a subscription that ends has been a good one: the pauses begin anew."""


GOODBYE_SECONDS = 5.0
"""How long a server has to hear that nobody watches any more."""


class _Shared:
    """One URI, and who watches it.

    Attributes:
        confirmed: Set when the server has agreed; it has the error if it has not.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.watching: dict[int, Subscription] = {}
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.confirmed.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen, if nobody waits
        self._task: asyncio.Task[None] | None = None

    def tell(self, *, missed: bool = False) -> None:
        for subscription in list(self.watching.values()):
            subscription.tell(missed=missed)

    def start(self, client: Client, log: Callable[[str, str], None]) -> None:
        """Subscribe on a session, until `stop`."""
        self.stop()
        self._task = asyncio.create_task(self._follow(client, log), name=f"mcp_magic subscription {self.uri}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()  # not awaited: the session may be on its way out
            self._task = None

    async def _follow(self, client: Client, log: Callable[[str, str], None]) -> None:
        pause, said = FIRST_PAUSE_SECONDS, False
        again = self.confirmed.done()
        while True:
            started, problem = time.monotonic(), "the server has ended it"
            try:
                await (_listen if client.session.discover_result is not None else _subscribe)(client, self, again)
            except Exception as error:
                if not self.confirmed.done():
                    self.confirmed.set_exception(error)
                    return
                problem = str(error) or type(error).__name__
            if time.monotonic() - started > LASTED_SECONDS:
                pause, said = FIRST_PAUSE_SECONDS, False
            if not said:
                log("warning", f"the subscription to {self.uri} was interrupted ({problem}); it is tried again")
            again = said = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def agreed(self, again: bool) -> None:
        """The server will announce changes from now on."""
        if not self.confirmed.done():
            self.confirmed.set_result(None)
        if again:
            self.tell(missed=True)


class Subscriptions:
    """What is watched of one server, over all its sessions.

    Args:
        log: Keeps a level and a message for `%mcp logs`.
    """

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._shared: dict[str, _Shared] = {}
        self._client: Client | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """What is watched."""
        return tuple(self._shared)

    async def add(self, client: Client, uri: str) -> Subscription:
        """Watch a resource; returns when the server has agreed.

        Raises:
            NotOfferedError: The server does not announce changes of this resource.
        """
        shared = self._shared.get(uri)
        if shared is None:
            shared = self._shared[uri] = _Shared(uri)
            shared.start(client, self._log)
        subscription = Subscription(uri, self._remove)
        shared.watching[id(subscription)] = subscription
        try:
            await asyncio.shield(shared.confirmed)
        except BaseException:
            subscription.close()
            raise
        return subscription

    @contextmanager
    def session(self, client: Client) -> Iterator[None]:
        """Keep what is watched subscribed on this session, as long as it lasts."""
        self._client = client
        for shared in self._shared.values():
            shared.start(client, self._log)
        try:
            yield
        finally:
            if self._client is client:
                self._client = None
            for shared in self._shared.values():
                shared.stop()

    def updated(self, uri: str) -> None:
        """The server says that a resource, or one below it, has changed (`notifications/resources/updated`)."""
        if self._client is not None and self._client.session.discover_result is not None:
            return  # it came by a stream, which tells its own
        for watched, shared in self._shared.items():
            if _within(uri, watched):
                shared.tell()

    def take(self, other: Subscriptions) -> None:
        """Go on with what another session of the same server had, under this one."""
        for shared in other.give():
            for subscription in shared.watching.values():
                subscription.move(self._remove)
            self._shared[shared.uri] = shared
            if self._client is not None:
                shared.start(self._client, self._log)

    def give(self) -> list[_Shared]:
        """Let go of what is watched, and return it, unsubscribed."""
        given = list(self._shared.values())
        self._shared = {}
        for shared in given:
            shared.stop()
        return given

    def end(self) -> None:
        """The server was disconnected: tell all who watch, and forget them."""
        for shared in self._shared.values():
            shared.stop()
            for subscription in shared.watching.values():
                subscription.end()
        self._shared.clear()

    def _remove(self, subscription: Subscription) -> None:
        shared = self._shared.get(subscription.uri)
        if shared is None:
            return
        shared.watching.pop(id(subscription), None)
        if not shared.watching:
            del self._shared[subscription.uri]
            shared.stop()


def check_announces(client: Client, server: str, uri: str) -> None:
    """Complain about a server that announces no changes of resources.

    Raises:
        NotOfferedError: It says so itself.
    """
    resources = client.server_capabilities.resources
    if resources is None or not resources.subscribe:
        raise NotOfferedError(
            f"{server} announces no changes of resources, so {one_line(uri, 200)} cannot be subscribed to; "
            f"`%mcp watch {as_word(uri) or 'URI'} --every 5` reads it every five seconds instead"
        )


async def _listen(client: Client, shared: _Shared, again: bool) -> None:
    """Follow one stream of a 2026-07-28 session to its end."""
    async with client.listen(resource_subscriptions=[shared.uri]) as events:
        if shared.uri not in (events.honored.resource_subscriptions or ()):
            raise NotOfferedError(f"the server does not announce changes of {shared.uri}")
        shared.agreed(again)
        async for _ in events:
            shared.tell()


async def _subscribe(client: Client, shared: _Shared, again: bool) -> None:
    """Subscribe on a session of the handshake era; its notifications come by `Subscriptions.updated`."""
    from mcp_types import (
        EmptyResult,
        SubscribeRequest,
        SubscribeRequestParams,
        UnsubscribeRequest,
        UnsubscribeRequestParams,
    )

    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=shared.uri)), EmptyResult)
    shared.agreed(again)
    try:
        await asyncio.Event().wait()
    finally:
        if not shared.watching:  # and not because the session ends
            goodbye = UnsubscribeRequest(params=UnsubscribeRequestParams(uri=shared.uri))
            with suppress(Exception):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await client.session.send_request(goodbye, EmptyResult)


def _within(uri: str, watched: str) -> bool:
    """Whether a URI is the one that is watched, or below it (specification 2025-11-25, "Subscriptions").

    >>> _within("file:///a/b", "file:///a"), _within("file:///ab", "file:///a"), _within("x://a", "x://a")
    (True, False, True)
    """
    if not uri.startswith(watched):
        return False
    return uri == watched or watched.endswith("/") or uri[len(watched)] in "/?#"
