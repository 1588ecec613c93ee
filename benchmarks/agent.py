"""One step of the agent: against the model and the tool alone, and against LangChain's own agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from benchmarks import servers
from benchmarks.timing import Pairs, Result, added, async_pairs, compared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.notebook import NotebookHost
    from mcp_magic.session.connection import Connection

__all__ = ["run"]

STEPS = 20
"""Steps of a sample: each a turn of the model with one call."""

RUNS = 40
GOAL_MS = 5.0
GOAL_RATIO = 1.0


def run(*, quick: bool = False) -> list[Result]:
    """Measure a step of the graph."""
    return asyncio.run(_measured(3 if quick else RUNS))


async def _measured(count: int) -> list[Result]:
    from mcp_magic.notebook import NotebookHost

    host = NotebookHost()
    host.consent.policy = "auto"
    connection = await host.connect_spec(servers.in_process(), "math")
    try:
        alone = await async_pairs(_graph(host), _alone(connection), count)
        theirs = await async_pairs(_graph(host), _create_agent(host), count)
    finally:
        await host.close()
    return [
        added("agent step", _each(alone), goal=GOAL_MS, unit="ms", note="theirs: model and tool alone"),
        compared("agent step, LangChain", _each(theirs), goal=GOAL_RATIO, note="theirs: create_agent"),
    ]


def _each(taken: Pairs) -> Pairs:
    """Return the seconds of one step."""
    return Pairs([each / STEPS for each in taken.ours], [each / STEPS for each in taken.theirs])


def _request() -> dict[str, Any]:
    from langchain_core.messages import HumanMessage

    return {"messages": [HumanMessage("go")]}


def _script() -> Any:
    from mcp_magic.agent.scripted import ScriptedModel

    return ScriptedModel([*([[(f"math:{servers.TOOL}", dict(servers.ADD))]] * STEPS), "done"])


def _graph(host: NotebookHost) -> Callable[[], Awaitable[Any]]:
    from mcp_magic.agent.graph import build_graph

    return lambda: build_graph(_script(), host).ainvoke(_request())


def _create_agent(host: NotebookHost) -> Callable[[], Awaitable[Any]]:
    from langchain.agents import create_agent

    tools = host.langchain_tools()
    limit: Any = {"recursion_limit": 10 * STEPS}
    return lambda: create_agent(_script(), tools).ainvoke(_request(), limit)


def _alone(connection: Connection) -> Callable[[], Awaitable[Any]]:
    from langchain_core.messages import ToolMessage

    async def work() -> None:
        model, messages = _script(), _request()["messages"]
        for _ in range(STEPS + 1):
            messages.append(answer := await model.ainvoke(messages))
            for call in answer.tool_calls:
                result = await connection.call_tool(servers.TOOL, call["args"])
                messages.append(ToolMessage(result.text, tool_call_id=call["id"]))

    return work
