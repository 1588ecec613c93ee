"""The agent's graph: think -> approve -> act -> think; if no call needs an answer of the user, think -> act.

It is a plain LangGraph `StateGraph` over messages. Approval is a node of its own before the act node, so that a graph
that waits there with LangGraph's `interrupt` runs no tool again when it is resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langgraph.graph import END, START, StateGraph

from mcp_magic.agent.nodes import Acting, Approving, Thinking
from mcp_magic.agent.state import AgentState, RunContext, calls_of, steps_taken
from mcp_magic.agent.tools import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.language_models import BaseChatModel
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore

    from mcp_magic._host import Host

__all__ = ["MAX_STEPS", "build_graph"]

MAX_STEPS = 25
"""The most turns of the model for one request, by default."""


def build_graph(
    model: BaseChatModel,
    host: Host,
    *,
    servers: Iterable[str] = (),
    tools: Iterable[str] = (),
    system: str = "",
    approve: str | None = None,
    ask: Literal["host", "interrupt"] = "host",
    max_steps: int = MAX_STEPS,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    result_limit: int = 20_000,
    timeout: float | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the compiled graph of an agent over a host's servers.

    The graph works with `ainvoke`, `astream` and `astream_events`, also outside a notebook. Its state is
    `{"messages": [...]}`. Each turn reads the list of tools again.

    Args:
        model: Any chat model that can bind tools.
        host: The host of the sessions; the graph must run on their event loop.
        servers: Names of the servers whose tools the agent may use; empty: all open sessions.
        tools: Patterns for `server:tool`; empty: all.
        system: The system message; "" for the default. The thread does not store it.
        approve: The policy where no consent rule matches: `"ask"`, `"auto"`, `"readonly"`, `"deny"`; None: the host's
            policy.
        ask: Who answers: `"host"`: the host's approver; `"interrupt"`: the caller that resumes the graph with
            `Command(resume={call id: {"decision": "approve" | "edit" | "deny", "arguments": {...}, "reason": "..."}})`,
            or one decision for all.
        max_steps: The most turns for one request; then the graph ends with the results so far.
        checkpointer: Stores threads; `"interrupt"` needs one.
        store: LangGraph's store, passed through.
        result_limit: Characters of one result that the model gets.
        timeout: Seconds for a call, or None for no limit.
    """
    registry = Registry(host, servers=servers, tools=tools)
    approving = Approving(registry, policy=approve, ask=ask)
    acting = Acting(registry, approving, model=model, limit=result_limit, timeout=timeout, max_steps=max_steps)
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(AgentState, context_schema=RunContext)
    graph.add_node("think", Thinking(model, registry, system=system, max_steps=max_steps).think)
    graph.add_node("approve", approving.approve)
    graph.add_node("act", acting.act)
    graph.add_node("stop", acting.stop)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", _after_thinking(approving, max_steps), ["approve", "act", "stop", END])
    graph.add_edge("approve", "act")
    graph.add_edge("act", "think")
    graph.add_edge("stop", END)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name="mcp_agent")
    return compiled.with_config(recursion_limit=3 * max_steps + 5)


def _after_thinking(approving: Approving, max_steps: int) -> Any:
    def route(state: AgentState) -> str:
        messages = state["messages"]
        if not calls_of(messages[-1]):
            return END
        if steps_taken(messages) >= max_steps:
            return "stop"
        return "approve" if approving.asks(state) else "act"

    return route
