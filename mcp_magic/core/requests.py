"""What can be asked of an open session, and what is done about the answers.

Every request goes through `Requests._send`: one place that times it, repeats it once when a
streamable-HTTP server has forgotten the session, and turns failures into errors that say what to do.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic import schema
from mcp_magic.core.border import request_error
from mcp_magic.core.catalog import KINDS, all_pages
from mcp_magic.errors import UnknownPromptError, UnknownToolError, did_you_mean, listed
from mcp_magic.results import PromptResult, ResourceResult, ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Prompt, Tool

    from mcp_magic.core.border import Place
    from mcp_magic.core.catalog import Catalog

__all__ = ["Requests"]

T = TypeVar("T")
_METHOD_NOT_FOUND = -32601


class Requests:
    """The requests of a `Connection`, which adds the session.

    Attributes:
        calls: Requests sent.
        failures: Requests that failed (a tool's own error is no failure of the session).
        latency: Seconds of the last round trip, or None.
        last_seen: When the server last answered (`time.time()`), or None.
    """

    name: str
    catalog: Catalog
    _place: Place
    _client: Client | None

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.latency: float | None = None
        self.last_seen: float | None = None
        self._under_way = 0
        self._tool_index: tuple[Any, dict[str, Tool]] = ((), {})

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool.

        Args:
            tool: Its name on this server.
            arguments: Its arguments; those named as keywords are added.
            **named: Arguments by name, Python objects that JSON can hold.

        Returns:
            The answer, as a value that displays itself.

        Raises:
            ArgumentsError: They do not fit the tool's schema; nothing was sent.
            ToolError: The tool reported an error.
            SessionError: The session failed.
        """
        result = await self.call_tool(tool, {**arguments, **named} if arguments else named)
        return result.raise_for_error() if result.is_error else result

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: ProgressFnT | None = None,
        validate: bool = True,
    ) -> ToolResult:
        """Call a tool and return what it answers, an error it reports too.

        Args:
            tool: Its name on this server.
            arguments: Its arguments.
            timeout: Seconds to wait for the answer, or None for as long as it takes.
            on_progress: Awaited with (progress, total, message) for each progress notification.
            validate: Whether to hold the arguments against the tool's schema first.
        """
        known = await self.find_tool(tool) if validate else self._index().get(tool)
        if validate and known is not None:
            schema.check_arguments(arguments, known.input_schema)
        started = time.perf_counter()
        raw = await self._send(
            f"{self.name}:{tool}",
            lambda client: client.call_tool(tool, dict(arguments), timeout, on_progress),
            timeout,
        )
        return ToolResult(
            raw,
            server=self.name,
            tool=tool,
            seconds=time.perf_counter() - started,
            output_schema=known.output_schema if known is not None else None,
        )

    async def read(self, uri: str, *, timeout: float | None = None) -> ResourceResult:
        """Read a resource.

        Raises:
            ProtocolError: The server has no such resource.
        """
        started = time.perf_counter()
        raw = await self._send(f"{self.name}: {uri}", lambda client: client.read_resource(str(uri)), timeout)
        return ResourceResult(raw, server=self.name, uri=str(uri), seconds=time.perf_counter() - started)

    async def prompt(self, prompt: str, arguments: Mapping[str, str] | None = None, /, **named: str) -> PromptResult:
        """Get a prompt's messages.

        Args:
            prompt: Its name on this server.
            arguments: Its arguments, as text; those named as keywords are added.
            **named: Arguments by name.
        """
        given = {**(arguments or {}), **named}
        found = await self.find_prompt(prompt)
        schema.check_prompt_arguments(given, found.arguments or ())
        started = time.perf_counter()
        raw = await self._send(f"{self.name}:{prompt}", lambda client: client.get_prompt(prompt, given))
        return PromptResult(
            raw, server=self.name, prompt=prompt, arguments=given, seconds=time.perf_counter() - started
        )

    async def complete(self, ref: Any, argument: str, value: str, context: dict[str, str] | None = None) -> list[str]:
        """Ask the server how an argument may go on; an empty list if it does not complete."""
        client = await self._open_client()
        if client.server_capabilities.completions is None:
            return []
        asked = {"name": argument, "value": value}
        answer = await self._send(f"{self.name}: completion", lambda c: c.complete(ref, asked, context or None))
        return list(answer.completion.values)

    async def find_tool(self, name: str) -> Tool:
        """Return a tool's definition, from the cache if it is there.

        Raises:
            UnknownToolError: The server has no such tool.
        """
        tool = self._index().get(name)
        if tool is None:
            await self.catalog.get("tools")
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
        prompts = await self.catalog.get("prompts")
        for prompt in prompts:
            if prompt.name == name:
                return prompt  # type: ignore[no-any-return]
        names = [prompt.name for prompt in prompts]
        near = did_you_mean(name, names)
        raise UnknownPromptError(f"{self.name} has no prompt {name!r}.{near} It has: {listed(names)}")

    async def listing(self, kind: str, *, refresh: bool = False) -> tuple[Any, ...]:
        """Return all pages of `"tools"`, `"resources"`, `"templates"` or `"prompts"`; empty if the server has none."""
        await self._open_client()
        return await self.catalog.get(kind, refresh=refresh)

    def _index(self) -> dict[str, Tool]:
        items = self.catalog.cached("tools")
        if self._tool_index[0] is not items:
            self._tool_index = (items, {tool.name: tool for tool in items})
        return self._tool_index[1]

    async def _list(self, kind: str) -> list[Any]:
        """Fetch one kind from the server; the catalog calls this."""
        asked = KINDS[kind]
        client = await self._open_client()
        if getattr(client.server_capabilities, asked.capability) is None:
            return []

        def fetch(cursor: str | None) -> Awaitable[Any]:
            return self._send(
                f"{self.name}: {kind}", lambda c: getattr(c, asked.method)(cursor=cursor, cache_mode="refresh")
            )

        try:
            return await all_pages(fetch, asked.field)
        except Exception as error:
            if getattr(error, "code", None) != _METHOD_NOT_FOUND:
                raise
        return []  # it said it has them and does not know the method: it has none

    async def _send(self, what: str, send: Callable[[Client], Awaitable[T]], timeout: float | None = None) -> T:
        client = self._client or await self._open_client()
        self.calls += 1
        answer, failure = await self._attempt(client, send)
        if failure is not None and self._forgotten(failure):
            # HTTP 404 to a session id: the request never reached the server's tools.
            await self.renew(client)
            answer, failure = await self._attempt(await self._open_client(), send)
        if failure is None:
            return answer  # type: ignore[return-value]
        self.failures += 1
        await self._after_failure(failure)
        raise request_error(failure, self._place, what, timeout)

    async def _attempt(
        self, client: Client, send: Callable[[Client], Awaitable[T]]
    ) -> tuple[T | None, Exception | None]:
        """Send once. Failures are returned, so that what is raised later has no foreign error in its context."""
        started = time.perf_counter()
        self._under_way += 1
        try:
            answer = await send(client)
        except Exception as error:
            return None, error
        finally:
            self._under_way -= 1
        self.latency = time.perf_counter() - started
        self.last_seen = time.time()
        return answer, None

    def _forgotten(self, failure: Exception) -> bool:
        """Whether HTTP 404 answered a request that named a session: then it never reached a tool."""
        line = self._place.line
        code = getattr(failure, "code", None)
        if line is None or line.status != 404 or code is None:
            return False
        # "Method not found" is a 404 too since 2026-07-28; "Connection closed" may have run.
        return code != _METHOD_NOT_FOUND and str(failure) != "Connection closed"

    async def _idle(self, timeout: float) -> None:
        """Wait until no request is under way, `timeout` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._under_way:
                    await asyncio.sleep(0.01)

    # What the connection adds

    async def _open_client(self) -> Client:
        raise NotImplementedError

    async def renew(self, client: Client) -> None:
        """Replace a session that the server has forgotten."""
        raise NotImplementedError

    async def _after_failure(self, failure: Exception) -> None:
        raise NotImplementedError
