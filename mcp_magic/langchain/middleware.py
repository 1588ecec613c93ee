"""LangChain middleware: one question about all calls of a model's turn, for agents of `create_agent`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.consent.consent import Request
from mcp_magic.errors import MCPMagicError, MissingDependencyError
from mcp_magic.langchain.calls import decided
from mcp_magic.schema.resolve import json_equal

try:
    from langchain.agents.middleware import AgentMiddleware
except ImportError:
    raise MissingDependencyError("LangChain's agents need langchain: pip install 'mcp-magic[models]'") from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from langchain_core.tools import BaseTool

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Decision


class PlanMiddleware(AgentMiddleware[Any, Any, Any]):
    """Asks about the calls of a turn at once, as `--approve plan` does, where rules and policy ask about them.

    A decision is about one call with exactly these arguments, and ends with the turn. Calls that it knows nothing about
    are decided call by call. The agent has to be awaited (`ainvoke`, `astream`).

    Args:
        host: The host of the sessions; its consent decides.
        tools: The agent's tools: those of `host.langchain_tools()`; others are left alone.
    """

    def __init__(self, host: Host, tools: Iterable[BaseTool]) -> None:
        super().__init__()
        self._host = host
        named = {tool.name: tool.metadata or {} for tool in tools}
        self._names = {name: (facts["server"], facts["tool"]) for name, facts in named.items() if "server" in facts}
        self._decisions: dict[str, tuple[Mapping[str, Any], Decision]] = {}

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        """Ask about the calls of the last turn."""
        calls = {call["id"]: call for call in getattr(state["messages"][-1], "tool_calls", ())}
        requests = {name: request for name, call in calls.items() if (request := await self._request(call))}
        decisions = await self._host.consent.review_plan([*requests.values()])
        for (name, request), decision in zip(requests.items(), decisions, strict=True):
            exactly = decision if decision.arguments is not None else replace(decision, arguments=request.arguments)
            self._decisions[name] = (calls[name]["args"], exactly)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a call with the decision about it."""
        arguments, decision = self._decisions.pop(request.tool_call["id"], (None, None))
        token = decided.set(decision if json_equal(arguments, request.tool_call["args"]) else None)
        try:
            return await handler(request)
        finally:
            decided.reset(token)

    async def _request(self, call: Mapping[str, Any]) -> Request | None:
        """Return what consent decides about; None for other tools, and for arguments that do not fit."""
        if call["name"] not in self._names:
            return None
        server, name = self._names[call["name"]]
        try:
            connection = self._host[server]
            tool = await connection.find_tool(name)
            arguments, _ = schema.prepare_arguments(call["args"], tool.input_schema)
        except (MCPMagicError, KeyError):
            return None  # the call says what is wrong
        return Request(server, name, arguments, "agent", tool, connection.spec.trust)
