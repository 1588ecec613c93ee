"""What can be asked of an open session."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.clues import clue
from mcp_magic.core.consent.consent import PERSON, Decision, Request
from mcp_magic.core.finding import Finding
from mcp_magic.core.linted import Linted
from mcp_magic.core.outputs import check_output
from mcp_magic.core.repeating import is_repeatable
from mcp_magic.core.roots import tell_changed
from mcp_magic.core.subscriptions import check_announces
from mcp_magic.core.telemetry.measuring import Measured
from mcp_magic.results import PromptResult, ResourceResult, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

    from mcp_magic.core.consent.consent import Consent
    from mcp_magic.core.elicitation import Elicitor
    from mcp_magic.core.sampling.sampling import Prepared
    from mcp_magic.core.telemetry.measuring import CallCounter
    from mcp_magic.core.updates import Subscription

__all__ = ["Requests"]


class Requests(Finding, Linted):
    """The requests of a `Connection`, which adds the session."""

    consent: Consent | None
    metrics: CallCounter | None

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool.

        Args:
            tool: Its name on this server.
            arguments: Its arguments, Python objects that JSON can hold (DataFrames, dates, ...; see
                `schema.to_json_value`); those named as keywords are added.
            **named: Arguments by name.

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
        max_total_timeout: float | None = None,
        on_progress: ProgressFnT | None = None,
        validate: bool = True,
        asker: str = PERSON,
        run: str | None = None,
        decision: Decision | None = None,
        elicitor: Elicitor | None = None,
        prepared: Prepared | None = None,
        repeat: bool = True,
        wait_if_busy: bool = True,
    ) -> ToolResult:
        """Call a tool and return what it answers, an error it reports too.

        Args:
            tool: Its name on this server.
            arguments: Its arguments, as of `call`.
            timeout: Seconds to wait for the answer, or None for as long as it takes. While the server asks the
                person something the time stands still; with each progress notification it begins anew.
            max_total_timeout: Seconds that the call may take all the same; None for `reports.max_total_timeout`.
            on_progress: Awaited with (progress, total, message) for each progress notification, which then is not
                shown below the cell.
            validate: Whether to hold the arguments against the tool's schema first, with its defaults for those that it
                requires and that were left out.
            asker: Who wants the call, for consent: the person, `"agent"`, `"server NAME"`, `"app NAME"`.
            run: The agent run that wants it, or None.
            decision: What consent has decided about this call already; it is not asked again.
            elicitor: Answers what the server asks for in its course, instead of the host's.
            prepared: Decides first about what the server asks models for in its course, with a reply if it likes.
            repeat: Whether a call that may have run is sent again where `core.repeating` allows it.
            wait_if_busy: Whether to wait when the server answers HTTP 429 or 503 with `Retry-After`, and send the call
                again. With False the `ProtocolError` comes at once: its `status` and `retry_after` say for how long the
                server is not to be asked.

        Raises:
            ArgumentsError: The arguments cannot be sent; nothing was.
            DeniedError: Consent refused the call; nothing was sent.
            ProtocolError: The server refused it.
            SessionError: The session failed.
        """
        if self.catalog.settles("tools"):
            await self.catalog.settle("tools")
        known = self._index().get(tool)
        filled: dict[str, Any] = {}
        if validate:
            known = known or await self.find_tool(tool)
            given, filled = schema.prepare_arguments(arguments, known.input_schema)
        else:
            given = schema.json_arguments(arguments)
        if self.consent is not None and (decision is not None or asker != PERSON or self.consent.rules):
            request = Request(self.name, tool, given, asker, known, self.spec.trust, run)
            allowed = await self._allowed(request, self.consent, decision)
            if allowed is not given:
                given, filled = schema.json_arguments(allowed), {}
        begun = self._place.position()

        async def send(client: Client) -> CallToolResult:
            measured.sent(client.protocol_version)
            raw = await client.call_tool(tool, dict(given))
            listed = known or self._index().get(tool)
            if listed is not None and (remark := check_output(raw, listed)):
                self.notices.logs.log("warning", remark, shown=True, once=True)
            return raw

        with Measured(self.name, tool, self.spec, self.metrics) as measured:
            raw = await self._send_call(
                f"{self.name}:{tool}",
                send,
                timeout,
                elicitor,
                prepared=prepared,
                on_progress=on_progress,
                max_total=max_total_timeout,
                harmless=repeat and is_repeatable(self.spec, known),
                wait_if_busy=wait_if_busy,
            )
            measured.answered(failed=raw.is_error is True)
        return ToolResult(
            raw,
            server=self.name,
            tool=tool,
            seconds=measured.seconds,
            output_schema=known.output_schema if known is not None else None,
            clue=clue(self._place, tool, begun) if raw.is_error else "",
            filled=filled,
        )

    async def _allowed(self, request: Request, consent: Consent, decision: Decision | None) -> Mapping[str, Any]:
        """Return the arguments with which a call may go out."""
        if decision is None:
            return await consent.check(request)
        if decision.definition and decision.definition != consent.definitions.seal(request.name):
            decision = Decision.deny("the tool, or its server, has changed since it was approved", by="check")
        if not decision.approved:
            raise consent.refusal(request, decision)
        return request.arguments if decision.arguments is None else decision.arguments

    async def read(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        wait_if_busy: bool = True,
    ) -> ResourceResult:
        """Read a resource.

        Args:
            uri: Its URI.
            timeout: Seconds to wait for the answer, or None for as long as it takes; as of `call_tool`.
            max_total_timeout: Seconds that it may take all the same.
            wait_if_busy: Whether to wait for a server that is busy; as of `call_tool`.

        Raises:
            ProtocolError: The server has no such resource, or refused.
            RequestTimeoutError: It did not answer in time.
        """
        started = time.perf_counter()
        schema.check_text(str(uri), "the URI")
        raw = await self._send_call(
            f"{self.name}: {uri}",
            lambda client: client.read_resource(str(uri)),
            timeout,
            max_total=max_total_timeout,
            harmless=True,
            wait_if_busy=wait_if_busy,
        )
        return ResourceResult(raw, server=self.name, uri=str(uri), seconds=time.perf_counter() - started)

    async def subscribe(self, uri: str) -> Subscription:
        """Watch a resource: `async for update in await connection.subscribe(uri)`.

        It goes on over sessions that are opened again under this name, until it is closed or the server is
        disconnected.

        Raises:
            NotOfferedError: The server announces no changes of it.
            SessionError: The session failed, or the server refused.
        """
        schema.check_text(str(uri), "the URI")
        what, adding = f"{self.name}: subscription to {uri}", self.notices.subscriptions.add
        check_announces(await self._open_client(), self.name, uri)
        return await self._send_call(what, lambda client: adding(client, str(uri)), self.spec.timeout)

    async def prompt(
        self,
        prompt: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        **named: str,
    ) -> PromptResult:
        """Get a prompt's messages.

        Args:
            prompt: Its name on this server.
            arguments: Its arguments, as text; those named as keywords are added.
            timeout: Seconds to wait for the answer, or None for as long as it takes; as of `call_tool`. An argument of
                the prompt that has this name is given in `arguments`.
            max_total_timeout: Seconds that it may take all the same.
            **named: Arguments by name.

        Raises:
            RequestTimeoutError: The server did not answer in time.
        """
        given = {**(arguments or {}), **named}
        found = await self.find_prompt(prompt)
        schema.check_prompt_arguments(given, found.arguments or ())
        schema.check_text(given, prompt)
        started = time.perf_counter()
        what = f"{self.name}:{prompt}"
        raw = await self._send_call(
            what,
            lambda client: client.get_prompt(prompt, given),
            timeout,
            max_total=max_total_timeout,
            harmless=True,
        )
        return PromptResult(
            raw, server=self.name, prompt=prompt, arguments=given, seconds=time.perf_counter() - started
        )

    async def complete(
        self,
        ref: Any,
        argument: str,
        value: str,
        context: dict[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> list[str]:
        """Ask the server how an argument may go on; an empty list if it does not complete.

        Args:
            ref: A `PromptReference` or a `ResourceTemplateReference`.
            argument: The argument's name.
            value: What there is of it.
            context: The other arguments.
            timeout: Seconds to wait for the answer, or None for as long as it takes.

        Raises:
            RequestTimeoutError: The server did not answer in time.
        """
        schema.check_text([argument, value, context or {}], "completion")
        what = f"{self.name}: completion"
        client = await self._open_client(what, timeout)
        if client.server_capabilities.completions is None:
            return []
        asked = {"name": argument, "value": value}

        async def send(client: Client) -> Any:
            async with asyncio.timeout(timeout):
                return await client.complete(ref, asked, context or None)

        answer = await self._send(what, send, timeout, harmless=True)
        return list(answer.completion.values)

    async def _roots_changed(self) -> None:
        if self._client is not None or self._comes_back:  # otherwise the next session asks anew
            await self._send(f"{self.name}: roots", tell_changed)
