"""A turn of the agent: against model and tool alone, LangChain's own agent, with a thread on disk, and live."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import servers
from benchmarks.timing import Pairs, Result, added, async_pairs, at_most, compared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.notebook import NotebookHost
    from mcp_magic.session.connection import Connection

__all__ = ["run"]

TURNS = 20
"""Turns of a sample, each with one call."""

RUNS = 40
MANY = (10, 1000)
"""How many tools the model is given in turns with many."""

GOAL_MS = 5.0
GOAL_RATIO = 1.0
GOAL_TOOL_MS, GOAL_DISK_MS, GOAL_LIVE_MS, GOAL_TOKEN_MS = 0.3, 5.0, 8.0, 20.0

BEFORE = 200
"""Turns that a thread on disk has already."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure a turn of the graph."""
    return asyncio.run(_measured(3 if quick else RUNS))


async def _measured(count: int) -> list[Result]:
    from mcp_magic.notebook import NotebookHost

    host = NotebookHost()
    host.consent.policy = "auto"
    connection = await host.connect_spec(servers.in_process(), "math")
    try:
        alone = await async_pairs(_graph(host), _alone(connection), count)
        theirs = await async_pairs(_graph(host), _create_agent(host), count)
        tool = await async_pairs(_langchain_tool(connection), _call(connection), 10 * count)
        disk = await _on_disk(host, max(count // 8, 1))
        live, token = await _live(host, max(count // 8, 1))
    finally:
        await host.close()
    return [
        *[result for tools in MANY for result in await _with_tools(tools, max(count // 4, 1))],
        added("agent turn", _each(alone), goal=GOAL_MS, unit="ms", note="theirs: model and tool alone"),
        compared("agent turn, LangChain", _each(theirs), goal=GOAL_RATIO, note="theirs: create_agent"),
        added("LangChain tool", tool, goal=GOAL_TOOL_MS, unit="ms", note="theirs: Connection.call_tool"),
        added(f"turn after {BEFORE} on disk", disk, goal=GOAL_DISK_MS, unit="ms", note="theirs: without a thread"),
        at_most("turn, shown live", live, GOAL_LIVE_MS, "ms"),
        at_most("first token, drawn", token, GOAL_TOKEN_MS, "ms", "the slowest, from the model to the display"),
    ]


async def _with_tools(tools: int, count: int) -> list[Result]:
    """Measure a turn with so many tools bound."""
    from mcp_magic.notebook import NotebookHost

    host = NotebookHost()
    host.consent.policy = "auto"
    connection = await host.connect_spec(servers.in_process(tools), "math")
    try:
        alone = await async_pairs(_graph(host), _alone(connection), count)
        theirs = await async_pairs(_graph(host), _create_agent(host), count)
    finally:
        await host.close()
    return [
        added(f"{tools:,} tools: turn", _each(alone), goal=GOAL_MS, unit="ms", note="theirs: model and tool alone"),
        compared(f"{tools:,} tools: LangChain", _each(theirs), goal=GOAL_RATIO, note="theirs: create_agent"),
    ]


def _each(taken: Pairs) -> Pairs:
    """Return the seconds of one turn."""
    return Pairs([each / TURNS for each in taken.ours], [each / TURNS for each in taken.theirs])


def _request() -> dict[str, Any]:
    from langchain_core.messages import HumanMessage

    return {"messages": [HumanMessage("go")]}


def _script() -> Any:
    from mcp_magic.agent.scripted import ScriptedModel

    return ScriptedModel([*([[(f"math:{servers.TOOL}", dict(servers.ADD))]] * TURNS), "done"])


def _graph(host: NotebookHost) -> Callable[[], Awaitable[Any]]:
    from mcp_magic.agent.graph import build_graph

    return lambda: build_graph(_script(), host).ainvoke(_request())


def _create_agent(host: NotebookHost) -> Callable[[], Awaitable[Any]]:
    from langchain.agents import create_agent

    tools = host.langchain_tools()
    limit: Any = {"recursion_limit": 10 * TURNS}
    return lambda: create_agent(_script(), tools).ainvoke(_request(), limit)


def _alone(connection: Connection) -> Callable[[], Awaitable[Any]]:
    from langchain_core.messages import ToolMessage

    async def work() -> None:
        model, messages = _script(), _request()["messages"]
        for _ in range(TURNS + 1):
            messages.append(answer := await model.ainvoke(messages))
            for call in answer.tool_calls:
                result = await connection.call_tool(servers.TOOL, call["args"])
                messages.append(ToolMessage(result.text, tool_call_id=call["id"]))

    return work


def _langchain_tool(connection: Connection) -> Callable[[], Awaitable[Any]]:
    from mcp_magic.langchain.tools import langchain_tools

    [tool] = [each for each in langchain_tools(connection) if (each.metadata or {})["tool"] == servers.TOOL]
    request = {"type": "tool_call", "id": "1", "name": tool.name, "args": dict(servers.ADD)}
    return lambda: tool.ainvoke(request)


def _call(connection: Connection) -> Callable[[], Awaitable[Any]]:
    return lambda: connection.call_tool(servers.TOOL, dict(servers.ADD))


async def _on_disk(host: NotebookHost, count: int) -> Pairs:
    """Return the seconds of turns after many others, with a thread on disk and without a thread."""
    from mcp_magic.agent.threads import open_threads

    taken = Pairs()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            async with open_threads(Path(folder) / "threads.sqlite", fall_back=False) as saver:
                taken.ours += await _turns(host, saver, f"thread {number}")
            taken.theirs += await _turns(host, None, "")
    return taken


async def _turns(host: NotebookHost, saver: Any, thread: str) -> list[float]:
    """Return the seconds from each turn of the model to the next."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from mcp_magic.agent.graph import build_graph
    from mcp_magic.agent.scripted import ScriptedModel

    before: list[Any] = [HumanMessage("go")]
    for number in range(BEFORE):
        call: Any = {"name": f"math__{servers.TOOL}", "args": dict(servers.ADD), "id": f"before{number}"}
        before += [
            AIMessage("I look further. " * 10, tool_calls=[call]),
            ToolMessage("3 " * 200, tool_call_id=call["id"]),
        ]
    marks: list[float] = []

    def turn(messages: list[Any]) -> Any:
        marks.append(time.perf_counter())
        return [(f"math:{servers.TOOL}", dict(servers.ADD))]

    graph = build_graph(ScriptedModel([*[turn] * TURNS, "done"]), host, checkpointer=saver)
    options: Any = {"config": {"configurable": {"thread_id": thread}}, "durability": "sync"} if saver else {}
    await graph.ainvoke({"messages": [*before, HumanMessage("go on")]}, **options)
    return [end - start for start, end in pairwise(marks[1:])]


async def _live(host: NotebookHost, count: int) -> tuple[float, float]:
    """Return the median milliseconds of a turn shown live, and the most from the first token to its display."""
    from mcp_magic.agent.graph import build_graph, run_agent
    from mcp_magic.agent.scripted import ScriptedModel
    from mcp_magic.agent.threads import open_threads

    turns, tokens = [], []
    for number in range(count):
        screen = _Screen()
        async with open_threads(":memory:") as saver:
            graph = build_graph(_script(), host, checkpointer=saver)
            started = time.perf_counter()
            await run_agent(graph, host, "go", thread=f"live {number}", screen=screen)
            turns.append((time.perf_counter() - started) / (TURNS + 1) * 1000)
            began: list[float] = []

            async def slow(messages: list[Any], began: list[float] = began) -> str:
                await asyncio.sleep(0.2)  # as long as a provider takes at least
                began.append(time.perf_counter())
                return "first token and some more"

            screen = _Screen()
            graph = build_graph(ScriptedModel([slow]), host, checkpointer=saver)
            await run_agent(graph, host, "go", thread=f"token {number}", screen=screen)
            shown = next(when for when, text in screen.shown if "first" in text)
            tokens.append((shown - began[0]) * 1000)
    return statistics.median(turns), max(tokens)


class _Screen:
    """The screen of a notebook, whose displays only note when they changed."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, str]] = []
        self._view: Any = None

    def _show(self, shown: dict[str, Any]) -> Any:
        self.shown.append((time.perf_counter(), shown["text/plain"]))
        return self._show

    def flush(self, transcript: Any) -> None:
        self._of(transcript).update()

    def changed(self, transcript: Any) -> None:
        self._of(transcript).changed()

    def _of(self, transcript: Any) -> Any:
        from mcp_magic.ipython.live import LIVE_INTERVAL, LiveView

        if self._view is None:
            self._view = LiveView(
                lambda: {index: transcript.render_segment(index) for index in sorted(transcript.dirty)},
                interval=LIVE_INTERVAL,
                show=self._show,
            )
        return self._view
