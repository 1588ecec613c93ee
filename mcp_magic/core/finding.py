"""What a server offers, found by name and listed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.catalog import KINDS, all_pages
from mcp_magic.core.repeating import METHOD_NOT_FOUND
from mcp_magic.core.sending import Sending
from mcp_magic.errors import RequestTimeoutError, UnknownPromptError, UnknownToolError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mcp import Client
    from mcp_types import Prompt, Tool

    from mcp_magic.core.catalog import Catalog

__all__ = ["Finding"]

AGAIN_SECONDS = 2.0
"""Seconds between two fetches of a listing because something was not found in it: a loop with a typo costs one."""


class Finding(Sending):
    """The part of a `Connection` that knows what its server offers."""

    catalog: Catalog

    def __init__(self) -> None:
        super().__init__()
        self._tool_index: tuple[Any, dict[str, Tool]] = ((), {})
        self._looked_again: dict[str, float] = {}

    async def find_tool(self, name: str) -> Tool:
        """Return a tool's definition, from the cache if it is there.

        Raises:
            UnknownToolError: The server has no such tool, also if it is asked once more.
        """
        if self.catalog.settles("tools"):
            await self.catalog.settle("tools")
        tool = self._index().get(name)
        if tool is None:
            await self.catalog.get("tools")
            tool = self._index().get(name)
        if tool is None and await self.look_again("tools"):
            tool = self._index().get(name)
        if tool is None:
            names = list(self._index())
            near = did_you_mean(name, names)
            raise UnknownToolError(f"{self.name} has no tool {name!r}.{near} It has: {listed(names)}")
        return tool

    async def find_prompt(self, name: str) -> Prompt:
        """Return a prompt's definition.

        Raises:
            UnknownPromptError: The server has no such prompt.
        """
        prompts: dict[str, Prompt] = {prompt.name: prompt for prompt in await self.catalog.get("prompts")}
        if name not in prompts and await self.look_again("prompts"):
            prompts = {prompt.name: prompt for prompt in self.catalog.cached("prompts")}
        if name in prompts:
            return prompts[name]
        names = list(prompts)
        near = did_you_mean(name, names)
        raise UnknownPromptError(f"{self.name} has no prompt {name!r}.{near} It has: {listed(names)}")

    async def look_again(self, kind: str) -> bool:
        """Fetch a listing once more because something is not in it: not every server announces what it adds.

        Returns:
            Whether it was fetched: not if that was done a moment ago, or if there is no session.
        """
        now = time.monotonic()
        if self._client is None or now - self._looked_again.get(kind, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        self._looked_again[kind] = now
        await self.catalog.look_again(kind)
        return True

    async def listing(self, kind: str, *, refresh: bool = False, timeout: float | None = None) -> tuple[Any, ...]:
        """Return all pages of `"tools"`, `"resources"`, `"templates"` or `"prompts"`; empty if the server has none.

        Args:
            kind: Which.
            refresh: Whether to ask the server also where it has not said that something changed.
            timeout: Seconds that all pages may take together, or None for as long as they take.

        Raises:
            RequestTimeoutError: They took longer.
            SessionError: The session failed.
        """
        if self._client is None and self._comes_back and self.catalog.known(kind) and not refresh:
            return self.catalog.cached(kind)  # it is fetched again when the session is back
        what = f"{self.name}: {kind}"
        await self._open_client(what, timeout)
        late = asyncio.timeout(timeout)
        try:
            async with late:
                return await self.catalog.get(kind, refresh=refresh)
        except TimeoutError:
            if not late.expired():
                raise
        raise RequestTimeoutError(f"{what}: not listed within {timeout:g} s; --timeout S waits longer.")

    def _index(self) -> dict[str, Tool]:
        items = self.catalog.cached("tools")
        if self._tool_index[0] is not items:
            self._tool_index = (items, {tool.name: tool for tool in items})
        return self._tool_index[1]

    async def _list(self, kind: str, counted: bool) -> list[Any]:
        """Fetch one kind from the server; the catalog calls this."""
        asked = KINDS[kind]
        client = await self._open_client()
        if getattr(client.server_capabilities, asked.capability) is None:
            return []

        def fetch(cursor: str | None) -> Awaitable[Any]:
            def page(c: Client) -> Awaitable[Any]:
                return getattr(c, asked.method)(cursor=cursor, cache_mode="refresh")  # type: ignore[no-any-return]

            return self._send(f"{self.name}: {kind}", page, harmless=True, counted=counted)

        try:
            return await all_pages(fetch, asked.field)
        except Exception as error:
            if getattr(error, "code", None) != METHOD_NOT_FOUND:
                raise
        return []  # it said it has them and does not know the method: it has none
