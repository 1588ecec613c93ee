"""The changes of one resource, as whoever watches it gets them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Subscription", "Ticks", "Update"]


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
