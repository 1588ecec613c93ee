"""Conversations that are kept: which there are, what was said, going on from an earlier step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.graph import END, START, StateGraph

from mcp_magic.agent.state import AgentState
from mcp_magic.agent.transcript.reading import is_turn
from mcp_magic.errors import ThreadError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic.agent.keeping import Keeper

__all__ = ["ThreadSummary", "delete_thread", "fork_thread", "list_threads", "messages_of", "until_step"]

MOST = 1000
"""Threads that a listing has at most."""


class ThreadSummary(NamedTuple):
    """A thread in a listing.

    Attributes:
        thread: Its name.
        requests: How many requests it has.
        steps: How many turns of the model.
        last: The last request.
        changed: When it was last written, ISO 8601.
    """

    thread: str
    requests: int
    steps: int
    last: str
    changed: str


async def list_threads(saver: Keeper) -> list[ThreadSummary]:
    """Return the threads, the one that was used last at the front.

    Raises:
        ThreadError: The place cannot be read.
    """
    return [
        ThreadSummary(
            thread, about.get("requests", 0), about.get("steps", 0), about.get("last", ""), about.get("changed", "")
        )
        for thread, about in await saver.newest(MOST)
    ]


async def messages_of(saver: Keeper, thread: str) -> list[BaseMessage]:
    """Return the messages of a thread.

    Raises:
        ThreadError: There is none of that name, or it cannot be read.
    """
    messages = await _messages(saver, thread)
    if not messages:
        await _known(saver, thread)
    return messages


async def _known(saver: Keeper, thread: str) -> None:
    names = [summary.thread for summary in await list_threads(saver)]
    if thread not in names:
        there = f"There are: {listed(names)}" if names else "`%%mcp_agent` begins one."
        raise ThreadError(f"no thread {thread!r}.{did_you_mean(thread, names)} {there}")


async def fork_thread(saver: Keeper, thread: str, step: int | None, name: str) -> int:
    """Copy a thread up to one of its steps, and return how many steps the copy has.

    Args:
        saver: Where it is kept.
        thread: Its name.
        step: The last turn of the model to copy, from 1 on, with what its calls answered; None: all.
        name: The name of the copy.

    Raises:
        ThreadError: There is no such thread or step, or the name is taken.
    """
    messages = until_step(await messages_of(saver, thread), step, thread)
    if await _messages(saver, name):
        raise ThreadError(f"there is a thread {name!r} already; `%mcp agent --delete {name}` deletes it")
    await _writer(saver).aupdate_state({"configurable": {"thread_id": name}}, {"messages": messages}, as_node="keep")
    return sum(map(is_turn, messages))


def until_step(messages: Sequence[BaseMessage], step: int | None, thread: str) -> list[BaseMessage]:
    """Return the messages up to a step: a turn of the model, and the answers to its calls.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> said = [HumanMessage("a"), AIMessage("b"), HumanMessage("c"), AIMessage("d")]
    >>> [message.text for message in until_step(said, 1, "t")]
    ['a', 'b']
    """
    turns = [index for index, message in enumerate(messages) if is_turn(message)]
    if step is None:
        return list(messages)
    if not 1 <= step <= len(turns):
        steps = f"it has the steps 1 to {len(turns)}" if turns else "no model has answered in it yet"
        raise ThreadError(f"the thread {thread!r} has no step {step}; {steps}")
    end = turns[step - 1] + 1
    while end < len(messages) and messages[end].type == "tool":
        end += 1
    return list(messages[:end])


async def delete_thread(saver: Keeper, thread: str) -> None:
    """Delete a thread.

    Raises:
        ThreadError: There is none of that name.
    """
    await _known(saver, thread)
    await saver.adelete_thread(thread)


async def _messages(saver: Keeper, thread: str) -> list[BaseMessage]:
    found = await saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    messages: list[BaseMessage] = found.checkpoint["channel_values"].get("messages", []) if found else []
    return messages


def _writer(saver: Keeper) -> Any:
    """Return a graph that does nothing: LangGraph's own way to write the state of a thread."""
    graph = StateGraph(AgentState)
    graph.add_node("keep", lambda state: {})
    graph.add_edge(START, "keep")
    graph.add_edge("keep", END)
    return graph.compile(checkpointer=saver)
