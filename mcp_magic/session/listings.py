"""Listings of a server: fetched page by page for the catalog, and searched for definitions by name."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import did_you_mean, join_names
from mcp_magic.errors import ArgumentsError, RequestTimeoutError, UnknownPromptError, UnknownToolError
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.protocol import METHOD_NOT_FOUND, without_context
from mcp_magic.session.cache import fresh_until
from mcp_magic.session.catalog import KINDS, Listing, all_pages
from mcp_magic.session.requests import RequestSender, Sending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import Client
    from mcp_types import Prompt, Tool

    from mcp_magic.flight.attempt import Attempt
    from mcp_magic.session.catalog import Catalog
    from mcp_magic.session.notifications import Notices
    from mcp_magic.session.reader import Unusable
    from mcp_magic.session.supervisor import Supervisor

AGAIN_SECONDS = 2.0
"""Minimum seconds between two fetches of a listing for an unknown name, so that a loop with a typo fetches once."""

MAX_REMARKED_TOOLS = 500  # tools of a listing whose schemas are read for remarks; to read all of 10,000 takes 0.2 s


class Listings:
    """What one server offers: `catalog` caches it.

    `outdated` returns which programs of the server have changed since it was started, or "". `clock` returns seconds,
    by which listings are kept.
    """

    def __init__(
        self,
        name: str,
        supervisor: Supervisor,
        sender: RequestSender,
        catalog: Catalog,
        notices: Notices,
        clock: Callable[[], float],
        outdated: Callable[[], str],
    ) -> None:
        self._name = name
        self._supervisor = supervisor
        self._sender = sender
        self._catalog = catalog
        self._notices = notices
        self._clock = clock
        self._outdated = outdated
        self._searched_at: dict[str, float] = {}

    async def get(self, kind: str, *, refresh: bool = False, timeout: float | None = None) -> tuple[Any, ...]:
        """Do what `Connection.listing` says."""
        self._supervisor.check_process()
        is_away = self._supervisor.client is None and self._supervisor.comes_back
        if is_away and self._catalog.has(kind) and not refresh:
            return self._catalog.cached(kind)  # fetched again once the session is back
        if kind not in KINDS:
            raise ArgumentsError(f"{kind!r} is not a kind of listing. There are: {join_names(KINDS)}")
        title = f"{self._name}: {kind}"
        await self._sender.open_client(title, timeout)
        late = asyncio.timeout(timeout)
        with without_context:
            try:
                async with late:
                    return await self._catalog.get(kind, refresh=refresh)
            except TimeoutError:
                if not late.expired():
                    raise
                text = f"{title}: not listed within {timeout:g} s; --timeout S waits longer."
                raise RequestTimeoutError(text) from None

    async def tool(self, name: str) -> Tool:
        """Do what `Connection.find_tool` says."""
        self._supervisor.check_process()
        catalog = self._catalog
        if (tool := catalog.tool(name)) is not None:
            return tool
        await catalog.settle("tools")
        if name not in catalog.tools:
            await catalog.get("tools")
        if name not in catalog.tools and name not in catalog.unusable.get("tools", {}):
            await self.search("tools")
        tool = catalog.tools.get(name)
        if tool is None:
            raise UnknownToolError(self.why_unknown("tools", name))
        return tool

    async def prompt(self, name: str) -> Prompt:
        """Do what `Connection.find_prompt` says."""
        self._supervisor.check_process()
        prompts: dict[str, Prompt] = {prompt.name: prompt for prompt in await self._catalog.get("prompts")}
        if name not in prompts and await self.search("prompts"):
            prompts = {prompt.name: prompt for prompt in self._catalog.cached("prompts")}
        if name in prompts:
            return prompts[name]
        raise UnknownPromptError(self.why_unknown("prompts", name))

    async def define(self, tool: str, timeout: float | None, *, must_be_there: bool) -> Tool | None:
        """Return the definition of a tool for a call, within its time-out; None if it may be missing, and is.

        Raises:
            RequestTimeoutError: The tools were not listed in time; the call was not sent.
            UnknownToolError: The server has no such tool, or its definition cannot be used.
        """
        if self._supervisor.is_of_other_process:
            self._supervisor.check_process()
        if (definition := self._catalog.tool(tool)) is not None:
            return definition
        title = f"{self._name}:{tool}"
        check_seconds(title, timeout=timeout)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                if must_be_there:
                    return await self.tool(tool)
                await self._catalog.settle("tools")
        except TimeoutError:
            if not limit.expired():
                raise
            problem = f"{title}: timed out: no answer to tools/list within {timeout:g} s. The call was not sent."
            raise RequestTimeoutError(problem) from None
        if tool not in self._catalog.tools and tool in self._catalog.unusable.get("tools", {}):
            raise UnknownToolError(self.why_unknown("tools", tool))
        return self._catalog.tools.get(tool)

    def why_unknown(self, kind: str, name: str) -> str:
        """Say that a listing of `"tools"` or `"prompts"` has no such name, or that its definition cannot be used."""
        word, names = kind[:-1], [item.name for item in self._catalog.cached(kind)]
        if (reason := self._catalog.unusable.get(kind, {}).get(name)) is not None:
            return f"the {word} {name!r} of {self._name} cannot be used: {reason} (fault: the server)"
        missing = f"{self._name} has no {word} {name!r}.{did_you_mean(name, names)} It has: {join_names(names)}"
        return "\n  ".join(filter(None, (missing, self._outdated())))

    async def search(self, kind: str) -> bool:
        """Fetch a listing again because a name is missing in it: not every server announces what it adds.

        Returns whether it was fetched; False if that happened a moment ago, or without a session.
        """
        now = time.monotonic()
        if self._supervisor.client is None or now - self._searched_at.get(kind, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        self._searched_at[kind] = now
        await self._catalog.look_again(kind)
        return True

    def remark_schemas(self) -> None:
        """Remark what is read otherwise than it is written in the schemas of the first tools."""
        for tool in self._catalog.cached("tools")[:MAX_REMARKED_TOOLS]:
            for name, of in (("inputSchema", tool.input_schema), ("outputSchema", tool.output_schema)):
                if of is not None and (text := schema.repairs_text(of)):
                    self._notices.remarks.add(f"the {name} of the tool `{tool.name}`: {text}")

    async def fetch(self, kind: str, is_counted: bool) -> Listing:
        """Fetch one kind of listing from the server, for the catalog."""
        how_to_list = KINDS[kind]
        client = await self._sender.open_client()
        if getattr(client.server_capabilities, how_to_list.capability) is None:
            return Listing([])
        times: list[float] = []
        ttls: list[int] = []
        unusable: list[Unusable] = []

        async def fetch(cursor: str | None) -> Any:
            nonlocal client

            def list_page(c: Client) -> Awaitable[Any]:
                nonlocal client
                client = c  # it may be a new one
                return getattr(c, how_to_list.method)(cursor=cursor, cache_mode="bypass")  # type: ignore[no-any-return]

            def check(page: Any, attempt: Attempt) -> None:
                unusable.extend(attempt.unusable)
                if kind == "tools":
                    unusable.extend(self._notices.reader.dropped_tools(attempt.result, page))

            how = Sending(is_harmless=True, is_counted=is_counted)
            page = await self._sender.send(f"{self._name}: {kind}", list_page, how, check)
            if client.session.discover_result is not None:  # older versions have no `ttlMs`
                until = fresh_until(page, self._clock())
                if until is not None:
                    times.append(until)
                    ttls.append(page.ttl_ms)
            return page

        try:
            items = await all_pages(fetch, how_to_list.field, remark=self._notices.remarks.add)
        except Exception as error:
            if getattr(error, "code", None) != METHOD_NOT_FOUND:
                raise
            return Listing([])  # the server announced the capability but does not know the method
        return Listing(items, min(times, default=None), unusable, min(ttls, default=None))
