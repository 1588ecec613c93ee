"""Announcements to the clients of the kernel that listings have changed, in both protocol eras."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

from mcp_magic.outside.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from mcp_magic._host import Host

GATHER_SECONDS = 0.05  # seconds for which changes are gathered before they are announced

EVENTS: dict[str, tuple[Any, str]] = {
    "tools": (ToolsListChanged, "send_tool_list_changed"),
    "prompts": (PromptsListChanged, "send_prompt_list_changed"),
    "resources": (ResourcesListChanged, "send_resource_list_changed"),
    "templates": (ResourcesListChanged, "send_resource_list_changed"),
}
"""By kind of listing: the event since 2026-07-28, and the method of a connection of the handshake era."""


class Changes:
    """Tells clients that what the sessions of a host offer has changed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._peers: dict[int, Any] = {}
        self._offer = Offer(())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Announce changes within this block, on the loop that runs it."""
        self._loop = asyncio.get_running_loop()
        self._offer = Offer(self._host.connections.values())
        stop = self._host.watch(lambda name: self.note())
        try:
            yield
        finally:
            stop()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def listen(self, context: Any, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen`: changes of resources themselves are not announced, and not promised."""
        kinds = params.notifications.model_copy(update={"resource_subscriptions": None})
        return await self._listening(context, params.model_copy(update={"notifications": kinds}))

    def add(self, peer: Any) -> bool:
        """Announce changes to a connection of the handshake era until it ends; return whether it is new."""
        if id(peer) in self._peers:
            return False
        self._peers[id(peer)] = peer
        peer.exit_stack.callback(self._peers.pop, id(peer), None)
        return True

    def note(self) -> None:
        """Look soon whether the listings have changed, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gather)

    def end(self) -> None:
        """End the streams of clients that listen."""
        self._listening.close()

    def _gather(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._announce(self._task), name="mcp_magic changes")

    async def _announce(self, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None and not earlier.done():
            await asyncio.wait({earlier})
        before, self._offer = self._offer, Offer(self._host.connections.values())
        for event, send in dict.fromkeys(EVENTS[kind] for kind in self._offer.kinds_changed(before)):
            await self._bus.publish(event())
            for peer in [*self._peers.values()]:
                await getattr(peer, send)()
