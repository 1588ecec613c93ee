"""What flows through the graph, and what a run knows beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langgraph.graph import MessagesState
from langgraph.runtime import get_runtime

from mcp_magic.agent.transcript.reading import is_turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain_core.messages import BaseMessage, ToolMessage

__all__ = ["AgentState", "RunContext", "calls_of", "context", "steps_taken", "unanswered"]


class AgentState(MessagesState):
    """The messages of a thread, and what was decided about the calls that wait for the act node.

    Attributes:
        approvals: By tool call id: `decision` ("approve", "edit", "deny"), `arguments` (those that go out),
            `by`, `reason`; or `problem`, why the call cannot go out at all; and `of`, which call that is about.
    """

    approvals: dict[str, dict[str, Any]]


@dataclass
class RunContext:
    """What one run of the graph knows, beside the thread.

    Attributes:
        run: Its name, for consent that holds for one run; None outside of a run.
        asker: Who calls, as consent and its record show it.
        done: The answers of calls that ended, by tool call id: an interrupted act node keeps them.
        before_asking: Awaited before somebody is asked: what is asked about has been shown then.
    """

    run: str | None = None
    asker: str = "agent"
    done: dict[str, ToolMessage] = field(default_factory=dict)
    before_asking: Callable[[set[str]], Awaitable[None]] | None = None


def context() -> RunContext:
    """Return the context of the run in which a node runs; a new one where whoever invoked the graph gave none."""
    runtime = get_runtime(RunContext)  # None while a state is written from outside
    return (runtime.context if runtime is not None else None) or RunContext()


def steps_taken(messages: Sequence[BaseMessage]) -> int:
    """Return how many turns the model has had since the last request.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> steps_taken([AIMessage("a"), HumanMessage("b"), AIMessage("c")])
    1
    """
    steps = 0
    for message in reversed(messages):
        if message.type == "human":
            break
        steps += is_turn(message)
    return steps


def unanswered(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the calls of the last turn that no tool message answers; a provider refuses a thread that has any.

    >>> from langchain_core.messages import AIMessage, ToolMessage
    >>> turn = AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}, {"name": "b", "args": {}, "id": "2"}])
    >>> [call["name"] for call in unanswered([turn, ToolMessage("x", tool_call_id="1")])]
    ['b']
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if message.type == "tool":
            answered.add(message.tool_call_id)  # type: ignore[attr-defined]
        elif message.type == "ai":
            return [call for call in calls_of(message) if call["id"] not in answered]
        else:
            break
    return []


def calls_of(message: Any) -> list[dict[str, Any]]:
    """Return the calls of a turn, those whose arguments are no JSON too (with `error`)."""
    return [*message.tool_calls, *message.invalid_tool_calls]
