"""Subscriptions to resources, and their updates."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.display.text import one_line
from mcp_magic.errors import NotOfferedError
from mcp_magic.flight.backoff import Backoff
from mcp_magic.loops import News, running_loop, soon_on
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from mcp import Client


class Update(NamedTuple):
    """Announced `changes` of a resource since the last `Update`, and the `time` of the latest (`time.time()`).

    With `missed` the subscription was interrupted, so that changes may not have been announced.
    """

    changes: int
    missed: bool
    time: float


class Subscription:
    """The changes of one resource, as an asynchronous iterator of `Update`; also a context manager.

    Announcements that come faster than they are read are counted in one `Update`. `uri` is the resource, and `ended`
    whether the iterator has ended. `loop` is the one on which they happen.
    """

    def __init__(self, uri: str, on_close: Callable[[Subscription], Any]) -> None:
        self.uri = uri
        self.ended = False
        self._on_close = on_close
        self._count, self._missed, self._time = 0, False, 0.0
        self._counting = threading.Lock()  # updates are taken on any thread
        self.loop = running_loop()
        self._news = News(self.loop)

    def tell(self, *, missed: bool = False) -> None:
        """Note an announcement, or that some may have been missed."""
        with self._counting:
            self._count += not missed
            self._missed |= missed
            self._time = time.time()
        self._news.tell()

    def end(self) -> None:
        """End the iterator."""
        self.ended = True
        self._news.tell()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Update:
        while not self.ended:
            with self._counting:
                update = Update(self._count, self._missed, self._time)
                self._count, self._missed = 0, False
            if update.changes or update.missed:
                return update
            await self._news.wait(lambda: self.ended or self._missed or self._count > 0)
        raise StopAsyncIteration

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription. The server is told once its last subscriber leaves. Idempotent."""
        soon_on(self.loop, self._close)

    def _close(self) -> None:
        if not self.ended:
            self.end()
            self._on_close(self)


# All subscriptions of a connection.
#
# A handshake session subscribes with `resources/subscribe`; a 2026-07-28 session opens a `subscriptions/listen` stream
# for each URI. Subscribers to the same URI share one subscription. It is renewed in each new session, and the
# subscribers are told that they may have missed changes meanwhile.

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 8.0
"""First and longest pause before an ended subscription is renewed; doubles each time."""

GOODBYE_SECONDS = 5.0  # deadline in seconds for unsubscribing


class _Shared:
    """One URI and its subscribers. `confirmed` is done when the server has agreed, or failed with its error."""

    def __init__(self, uri: str, on_change: Callable[[str, bool], None]) -> None:
        self.uri = uri
        self._changed = on_change
        self.watching: dict[int, Subscription] = {}
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieved, so that asyncio does not report an error that has no waiting subscriber.
        self.confirmed.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._task: asyncio.Task[None] | None = None

    def tell(self, *, missed: bool = False) -> None:
        self._changed(self.uri, missed)
        for subscription in list(self.watching.values()):
            subscription.tell(missed=missed)

    def start(self, client: Client, log: Callable[[str, str], None]) -> None:
        """Subscribe on a session, until `stop`."""
        self.stop()
        self._task = asyncio.create_task(self._follow(client, log), name=f"mcp_magic subscription {self.uri}")

    def stop(self) -> None:
        if self._task is not None:
            soon_on(self._task.get_loop(), self._task.cancel)  # not awaited: the session may be closing
            self._task = None

    async def _follow(self, client: Client, log: Callable[[str, str], None]) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
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
            pause = backoff.pause(time.monotonic() - started)
            if backoff.attempts == 1:
                log("warning", f"the subscription to {self.uri} was interrupted ({problem}); it is tried again")
            again = True
            await asyncio.sleep(pause)

    def agreed(self, again: bool) -> None:
        """Note that the server has agreed to announce changes."""
        if not self.confirmed.done():
            self.confirmed.set_result(None)
        if again:
            self.tell(missed=True)


class Subscriptions:
    """The subscriptions of one server, over all its sessions.

    `on_change` gets the URI of a subscription, and whether a change may have been missed, before its subscribers do.
    """

    def __init__(self, log: Callable[[str, str], None], on_change: Callable[[str, bool], None]) -> None:
        self._log = log
        self._changed = on_change
        self._shared: dict[str, _Shared] = {}
        self._client: Client | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """The subscribed URIs."""
        return tuple(self._shared)

    async def add(self, client: Client, uri: str) -> Subscription:
        """Subscribe to a resource; return when the server has agreed, or raise NotOfferedError."""
        shared = self._shared.get(uri)
        if shared is None:
            shared = self._shared[uri] = _Shared(uri, self._changed)
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
        """Keep all subscriptions active on this session while it is open."""
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
        """Handle `notifications/resources/updated` for a resource or one below it."""
        if self._client is not None and self._client.session.discover_result is not None:
            return  # it came on a stream, whose task tells its own subscribers
        for watched, shared in self._shared.items():
            if _within(uri, watched):
                shared.tell()

    def end(self) -> None:
        """End all subscriptions: the server was disconnected."""
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
    """Raise NotOfferedError if a server's capabilities say that it announces no changes of resources."""
    resources = client.server_capabilities.resources
    if resources is None or not resources.subscribe:
        raise NotOfferedError(
            f"{server} announces no changes of resources, so {one_line(uri, 200)} cannot be subscribed to; "
            f"`%mcp watch {as_word(uri) or 'URI'} --every 5` reads it every five seconds instead"
        )


async def _listen(client: Client, shared: _Shared, again: bool) -> None:
    """Follow the stream of one URI in a 2026-07-28 session to its end."""
    async with client.listen(resource_subscriptions=[shared.uri]) as events:
        if shared.uri not in (events.honored.resource_subscriptions or ()):
            raise NotOfferedError(f"the server does not announce changes of {shared.uri}")
        shared.agreed(again)
        async for _ in events:
            shared.tell()


async def _subscribe(client: Client, shared: _Shared, again: bool) -> None:
    """Subscribe in a handshake session until cancelled; its notifications arrive in `Subscriptions.updated`."""
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
        if not shared.watching:  # the last subscriber left; otherwise the session ends
            goodbye = UnsubscribeRequest(params=UnsubscribeRequestParams(uri=shared.uri))
            with suppress(Exception):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await client.session.send_request(goodbye, EmptyResult)


def _within(uri: str, watched: str) -> bool:
    """Whether a URI equals a subscribed URI or is below it (specification 2025-11-25, "Subscriptions").

    >>> _within("file:///a/b", "file:///a"), _within("file:///ab", "file:///a"), _within("x://a", "x://a")
    (True, False, True)
    """
    if not uri.startswith(watched):
        return False
    return uri == watched or watched.endswith("/") or uri[len(watched)] in "/?#"
