"""One call of a tool for a model: consent, the session, retries, and the answer as a model reads it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from mcp_magic import schema
from mcp_magic.core.consent.decisions import Decision, Request
from mcp_magic.core.repeating import is_repeatable
from mcp_magic.errors import CassetteError, MCPMagicError, SessionClosedError
from mcp_magic.langchain.breaker import breaker_of
from mcp_magic.langchain.content import LIMIT, Content, artifact_of, storable, to_content
from mcp_magic.langchain.retrying import retrying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.langchain.breaker import Breaker
    from mcp_magic.results import ToolResult

__all__ = ["MCPToolException", "call"]

MIN_SECONDS = 0.01
"""Seconds that an attempt gets at least; a call with less left is not tried again."""


class MCPToolException(ToolException):
    """A call that came to nothing: the tool's own error, a refusal, or a session that failed.

    Attributes:
        content: What the model reads of it.
        artifact: What is kept of it, as for a call that succeeded.
    """

    def __init__(self, content: Content, artifact: dict[str, Any]) -> None:
        items = [content] if isinstance(content, str) else content
        super().__init__("\n".join(item for item in items if isinstance(item, str)))
        self.content = content
        self.artifact = artifact

    def message(self, name: str, call_id: str) -> ToolMessage:
        """Return it as the answer to a model's call of the tool that it knows by this name."""
        return ToolMessage(self.content, artifact=self.artifact, tool_call_id=call_id, name=name, status="error")


async def call(
    connection: Connection,
    tool_name: str,
    arguments: Mapping[str, Any],
    *,
    asker: str = "agent",
    run: str | None = None,
    decision: Decision | None = None,
    on_progress: ProgressFnT | None = None,
    timeout: float | None = None,
    images: bool = False,
    limit: int = LIMIT,
    breaker: Breaker | None = None,
) -> tuple[Content, dict[str, Any]]:
    """Call a tool for a model.

    The open session is used; one that the server ended is opened again. A call is repeated only if it certainly
    did not reach the tool, or if a trusted server declares the tool read-only or idempotent.

    Args:
        connection: Whose tool it is.
        tool_name: Its name on that server.
        arguments: Its arguments, Python objects that JSON can hold.
        asker: Who wants the call, for consent.
        run: The agent run that wants it.
        decision: What consent has decided already; without one it is asked, once.
        on_progress: Awaited with (progress, total, message) for each progress notification.
        timeout: Seconds for the answer, all attempts together, without the time that a decision takes.
        images: Whether the model takes images.
        limit: Characters that it reads.
        breaker: The circuit breaker, instead of the connection's own.

    Returns:
        What the model reads, and the artifact (see `to_content`) with `arguments` and, where there was a decision,
        `approval`.

    Raises:
        MCPToolException: The tool reported an error, the call was refused, or the session failed.
    """
    made = _Call(tool_name, arguments, asker, run, decision, on_progress, timeout)
    failure = result = None
    try:
        result = await retrying(
            connection, made.send, breaker=lambda c: breaker or breaker_of(c), repeatable=made.repeatable
        )
    except CassetteError:  # nothing that a model could do about
        raise
    except MCPMagicError as error:
        failure = str(error)
    if result is None:
        artifact = artifact_of(connection.name, tool_name, seconds=made.seconds)
        raise MCPToolException(failure or "", artifact | made.facts)
    content, artifact = to_content(result, images=images, limit=limit)
    if result.is_error:
        raise MCPToolException(content, artifact | made.facts)
    return content, artifact | made.facts


@dataclass
class _Call:
    """A call on its way, over all its attempts."""

    tool: str
    arguments: Mapping[str, Any]
    asker: str
    run: str | None
    decision: Decision | None
    on_progress: ProgressFnT | None
    timeout: float | None
    seconds: float = 0.0
    declared_safe: bool = False

    async def send(self, connection: Connection) -> ToolResult:
        """Make one attempt."""
        definition = await self._definition(connection)
        if self.decision is None or self.decision.arguments is None:
            self.arguments, _ = schema.prepare_arguments(self.arguments, definition.input_schema)
        else:
            schema.check_arguments(self.decision.arguments, definition.input_schema)
        if self.decision is None and connection.consent is not None:
            trusted = connection.spec.trust
            request = Request(connection.name, self.tool, self.arguments, self.asker, definition, trusted, self.run)
            self.decision = await connection.consent.review(request)
        self.declared_safe = is_repeatable(connection.spec, definition)
        started = time.perf_counter()
        try:
            return await connection.call_tool(
                self.tool,
                self.arguments,
                timeout=self._left(),
                on_progress=self.on_progress,
                validate=False,
                asker=self.asker,
                run=self.run,
                decision=self.decision,
                repeat=False,
            )
        finally:
            self.seconds += time.perf_counter() - started

    async def _definition(self, connection: Connection) -> Tool:
        try:
            return await connection.find_tool(self.tool)
        except SessionClosedError as error:
            error.sent = False  # the listing was asked for, not the tool
            raise

    def _left(self) -> float | None:
        """Return the seconds that are left for the answer."""
        return None if self.timeout is None else max(self.timeout - self.seconds, MIN_SECONDS)

    def repeatable(self) -> bool:
        """Whether it may be sent again, and there is time for it."""
        return self.declared_safe and (self.timeout is None or self.seconds < self.timeout - MIN_SECONDS)

    @property
    def facts(self) -> dict[str, Any]:
        """What the artifact says of the call itself."""
        decision = self.decision
        if decision is None:
            return {"arguments": storable(dict(self.arguments))}
        edited = decision.arguments is not None and decision.arguments != self.arguments
        verdict = ("edit" if edited else "approve") if decision.approved else "deny"
        sent = self.arguments if decision.arguments is None else decision.arguments
        approval = {"decision": verdict, "by": decision.by, "reason": decision.reason}
        return {"arguments": storable(dict(sent)), "approval": approval}
