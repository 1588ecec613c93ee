"""Parts of this agent as middleware for `create_agent` of LangChain.

They take its asynchronous calls: `await agent.ainvoke(...)`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_types import Tool

from mcp_magic import schema
from mcp_magic.agent.builtin import BuiltinCall, BuiltinTool, ToolSearch, result_reader
from mcp_magic.agent.calls import calls_of
from mcp_magic.agent.conversation import for_provider
from mcp_magic.agent.cost import Bounds, closing
from mcp_magic.agent.skills import AgentSkills
from mcp_magic.calls.call import Call
from mcp_magic.errors import MCPMagicError, MissingDependencyError
from mcp_magic.langchain.calls import decided
from mcp_magic.langchain.content import LIMIT, bounded, result_of, to_content
from mcp_magic.langchain.large_results import Spill
from mcp_magic.langchain.names import Names
from mcp_magic.lint import CHARACTERS_A_TOKEN
from mcp_magic.schema.resolve import json_equal

try:
    from langchain.agents.middleware import AgentMiddleware, hook_config
except ImportError:
    raise MissingDependencyError("middleware is LangChain's: `pip install 'mcp-magic[models]'`") from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain.agents.middleware import ModelRequest
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Decision, Request


class _WithBuiltinTool(AgentMiddleware[Any, Any, Any]):
    """Middleware that brings a tool of the agent itself, answers its calls, and binds it only where it is of use."""

    def __init__(self, builtin: BuiltinTool) -> None:
        super().__init__()
        self._builtin = builtin
        function = builtin.function
        self.tools = [
            StructuredTool(
                name=builtin.name,
                description=function["description"],
                args_schema=function["parameters"],
                func=_answered_by_middleware,
            )
        ]

    def _restrict(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if self._builtin.when(request.messages):
            return request
        return request.override(tools=[tool for tool in request.tools if _name(tool) != self._builtin.name])

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Run a turn of the model."""
        return await handler(self._restrict(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run a call."""
        call, messages = request.tool_call, request.state["messages"]
        if call["name"] != self._builtin.name:
            return await handler(request)
        caller = BuiltinCall("agent", None, _no_progress, _handle(call["id"], messages))
        about: Any = {"tool_call_id": call["id"], "name": call["name"]}
        try:
            content, artifact = await self._builtin.answer(call["args"], messages, caller)
        except MCPMagicError as error:
            return ToolMessage(bounded(error.whole), status="error", **about)
        return ToolMessage(content, artifact=artifact, **about)


def _answered_by_middleware(**_: Any) -> str:
    raise MCPMagicError("this tool is answered by its middleware, in `await agent.ainvoke(...)`")


async def _no_progress(progress: float, total: float | None, message: str | None) -> None:
    pass


def _name(tool: Any) -> str:
    return str(tool.get("name") or tool.get("function", {}).get("name")) if isinstance(tool, dict) else str(tool.name)


def _handle(call_id: str, messages: Sequence[BaseMessage]) -> str:
    """Return the handle for the result of a call: results are numbered in their thread."""
    turn = next((message for message in reversed(messages) if calls_of(message)), None)
    calls = [call["id"] for call in calls_of(turn)]
    before = messages[: list(messages).index(turn)] if turn is not None else messages
    return f"result_{sum(message.type == 'tool' for message in before) + calls.index(call_id) + 1}"


class LargeResultsMiddleware(_WithBuiltinTool):
    """Gives a model the head of a large result, and the tool `read_result` for the rest.

    Args:
        tokens: Tokens of a result above which it is large.
        limit: Characters of what the model reads at once.
    """

    def __init__(self, tokens: int = 4000, *, limit: int = LIMIT) -> None:
        self._tokens = tokens
        super().__init__(result_reader(min(tokens * CHARACTERS_A_TOKEN, limit)))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Run a call."""
        message = await super().awrap_tool_call(request, handler)
        if not isinstance(message, ToolMessage) or message.name == self._builtin.name or message.status == "error":
            return message
        artifact = message.artifact if isinstance(message.artifact, dict) else {}
        if message.artifact is not None and "tool" not in artifact:  # another package's
            return message
        spill = Spill.above(self._tokens, _handle(message.tool_call_id, request.state["messages"]))
        images = any(isinstance(item, dict) and item.get("type") == "image" for item in message.content)
        content, spilled = to_content(result_of(message), images=images, limit=LIMIT, spill=spill)
        if "handle" not in spilled:
            return message
        return message.model_copy(update={"content": content, "artifact": artifact | spilled})


@dataclass(frozen=True)
class _LangChainTool:
    """A LangChain tool that can be searched."""

    person_name: str
    shown: Tool
    openai_tool: dict[str, Any]
    original: Any


class ToolSearchMiddleware(_WithBuiltinTool):
    """Gives a model of many tools those that fit, and the tool `search_tools` to find others.

    Args:
        above: Tools above which any is left out.
        pinned: Patterns for tools that are always bound, as `server:tool` or a name.
    """

    def __init__(self, above: int = 50, *, pinned: Iterable[str] = ()) -> None:
        self._offers: Mapping[str, _LangChainTool] = {}
        self._tools: list[Any] = []
        self._search = ToolSearch(lambda: self._offers, above=above, pinned=pinned)
        super().__init__(self._search.tool())

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Run a turn of the model."""
        others = [tool for tool in request.tools if _name(tool) != self._builtin.name]
        if [*map(id, others)] != [*map(id, self._tools)]:
            self._tools = others
            self._offers = {_name(tool): _searchable(tool) for tool in others}
        tools = [offer.original for offer in self._search.select(request.messages)]
        own = [tool for tool in request.tools if _name(tool) == self._builtin.name]
        return await handler(self._restrict(request.override(tools=[*tools, *own])))


def _searchable(tool: Any) -> _LangChainTool:
    openai_tool = convert_to_openai_tool(tool)
    function, metadata = openai_tool["function"], getattr(tool, "metadata", None) or {}
    server, name = metadata.get("server"), metadata.get("tool")
    definition = Tool(
        name=str(name or function["name"]),
        description=function.get("description"),
        input_schema=function.get("parameters") or {"type": "object"},
    )
    return _LangChainTool(
        f"{server}:{name}" if server and name else f":{definition.name}", definition, openai_tool, tool
    )


class SkillsMiddleware(_WithBuiltinTool):
    """Tells a model of skills of servers, and gives it the tool `load_skill` to read them.

    Args:
        host: The host of the sessions.
        skills: Patterns for `server:skill`.
        limit: Characters of a file that the model reads.
    """

    def __init__(self, host: Host, skills: Iterable[str] = ("*",), *, limit: int = LIMIT) -> None:
        self._skills = AgentSkills(host, skills, limit=limit)
        super().__init__(self._skills.tool())

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Run a turn of the model."""
        about = await self._skills.prompt()
        before = request.system_message.text if request.system_message is not None else ""
        text = "\n\n".join(filter(None, (before, about)))
        if text:
            request = request.override(system_message=SystemMessage(text))
        return await handler(self._restrict(request))


class ConversationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Sends a model the conversation as its provider takes it, as `%%mcp_agent` does; the agent's state stays as it is.

    Images of tools (`host.langchain_tools(images=True)`) stand where the provider reads them, with the type that their
    bytes have, or become a line of text. Calls whose arguments are not JSON have none.
    """

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Run a turn of the model."""
        messages: list[Any] = for_provider(request.model, request.messages)
        return await handler(request.override(messages=messages))


class BudgetMiddleware(AgentMiddleware[Any, Any, Any]):
    """Ends a run before the turn that would exceed a bound of tokens or dollars, with the results so far.

    Args:
        max_tokens: Tokens that the turns for one request may read and write.
        max_cost: What they may cost in US dollars, where the prices of the model are known.
        model: The model's name where its turns do not have it, as `openai:gpt-5`.
    """

    def __init__(self, *, max_tokens: int | None = None, max_cost: float | None = None, model: str = "") -> None:
        super().__init__()
        self._bounds = Bounds(max_tokens, max_cost, model)
        if model:
            self._bounds.check()

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Refuse the calls of a turn that ends the run."""
        messages = state["messages"]
        limit, spent = self._bounds.reached(messages)
        if not limit or not calls_of(messages[-1]):
            return None
        refused, message = closing(messages, limit, spent, Names(()).person)
        return {"messages": [*refused, message], "jump_to": "end"}


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
        metadata = {tool.name: tool.metadata or {} for tool in tools}
        self._names = {name: (facts["server"], facts["tool"]) for name, facts in metadata.items() if "server" in facts}
        self._decisions: dict[str, tuple[Mapping[str, Any], Decision]] = {}

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        """Ask about the calls of the last turn."""
        calls = {call["id"]: call for call in getattr(state["messages"][-1], "tool_calls", ())}
        requests = {name: request for name, call in calls.items() if (request := await self._request(call))}
        decisions = await self._host.caller.decide([*requests.values()], is_plan=True)
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
        return Call(connection, name, copy.deepcopy(arguments), tool, asker="agent").request  # as it is approved
