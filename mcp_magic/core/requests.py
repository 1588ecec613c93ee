"""What can be asked of an open session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.catalog import KINDS, all_pages
from mcp_magic.core.consent import PERSON, Request, refusal
from mcp_magic.core.roots import tell_changed
from mcp_magic.core.sending import METHOD_NOT_FOUND, Sending
from mcp_magic.errors import UnknownPromptError, UnknownToolError, did_you_mean, listed
from mcp_magic.results import PromptResult, ResourceResult, ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Prompt, Tool

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.catalog import Catalog
    from mcp_magic.core.consent import Consent, Decision
    from mcp_magic.core.elicitation import Elicitor

__all__ = ["Requests"]


class Requests(Sending):
    """The requests of a `Connection`, which adds the session."""

    name: str
    spec: Spec
    catalog: Catalog
    consent: Consent | None

    def __init__(self) -> None:
        super().__init__()
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
        asker: str = PERSON,
        run: str | None = None,
        decision: Decision | None = None,
        elicitor: Elicitor | None = None,
    ) -> ToolResult:
        """Call a tool and return what it answers, an error it reports too.

        Args:
            tool: Its name on this server.
            arguments: Its arguments.
            timeout: Seconds to wait for the answer, or None for as long as it takes. While the server asks the
                person something the time stands still.
            on_progress: Awaited with (progress, total, message) for each progress notification.
            validate: Whether to hold the arguments against the tool's schema first.
            asker: Who wants the call, for consent: the person, `"agent"`, `"server NAME"`, `"app NAME"`.
            run: The agent run that wants it, or None.
            decision: What consent has decided about this call already; it is not asked again.
            elicitor: Answers what the server asks for in its course, instead of the host's.

        Raises:
            DeniedError: Consent refused the call; nothing was sent.
        """
        known = await self.find_tool(tool) if validate else self._index().get(tool)
        if validate and known is not None:
            schema.check_arguments(arguments, known.input_schema)
        if self.consent is not None and (decision is not None or asker != PERSON or self.consent.rules):
            request = Request(self.name, tool, arguments, asker, known, self.spec.trust, run)
            arguments = await self._allowed(request, self.consent, decision)
        started = time.perf_counter()
        raw = await self._send_call(
            f"{self.name}:{tool}",
            lambda client: client.call_tool(tool, dict(arguments), None, on_progress),
            timeout,
            elicitor,
        )
        return ToolResult(
            raw,
            server=self.name,
            tool=tool,
            seconds=time.perf_counter() - started,
            output_schema=known.output_schema if known is not None else None,
        )

    async def _allowed(self, request: Request, consent: Consent, decision: Decision | None) -> Mapping[str, Any]:
        """Return the arguments with which a call may go out."""
        if decision is None:
            return await consent.check(request)
        if not decision.approved:
            raise refusal(request, decision)
        return request.arguments if decision.arguments is None else decision.arguments

    async def read(self, uri: str, *, timeout: float | None = None) -> ResourceResult:
        """Read a resource.

        Raises:
            ProtocolError: The server has no such resource.
        """
        started = time.perf_counter()
        raw = await self._send_call(f"{self.name}: {uri}", lambda client: client.read_resource(str(uri)), timeout)
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
        raw = await self._send_call(f"{self.name}:{prompt}", lambda client: client.get_prompt(prompt, given))
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

    async def _roots_changed(self) -> None:
        if self._client is not None:  # otherwise the next session asks anew
            await self._send(f"{self.name}: roots", tell_changed)

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
            if getattr(error, "code", None) != METHOD_NOT_FOUND:
                raise
        return []  # it said it has them and does not know the method: it has none
