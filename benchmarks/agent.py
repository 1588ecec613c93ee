"""A turn of the agent against a turn of LangChain's own: with few and many tools, on disk, live; a LangChain tool."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import servers
from benchmarks.timing import Pairs, Result, async_pairs, at_most, compared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.notebook import NotebookHost
    from mcp_magic.session.connection import Connection

__all__ = ["run"]

TURNS = 20
"""Turns of a sample, each with one call."""

GOAL_TURN, GOAL_MANY, GOAL_TOOL, GOAL_DISK, GOAL_LIVE = 1.3, 0.25, 1.3, 1.0, 1.8
GOAL_TOKEN_MS = 100

BEFORE = 200
"""Turns that a thread on disk has already."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure turns of the graph, and a LangChain tool."""
    return asyncio.run(_measured(quick))


async def _measured(quick: bool) -> list[Result]:
    results = [
        await _with_tools(3, 1 if quick else 15, GOAL_TURN),
        await _with_tools(10, 1 if quick else 9, GOAL_TURN),
        await _with_tools(1000, 1 if quick else 5, GOAL_MANY),
        await _with_tools(1000, 1 if quick else 5, searched=True),
    ]
    async with _host() as host:
        results += await _others(host, 1 if quick else 5)
    return results


def _host() -> NotebookHost:
    from mcp_magic.notebook import NotebookHost

    host = NotebookHost()
    host.consent.policy = "auto"
    return host


async def _with_tools(number: int, count: int, goal: float | None = None, *, searched: bool = False) -> Result:
    """Measure a turn with so many tools, all of which the reference gives to its model, and ours unless `searched`."""
    options: dict[str, Any] = {} if searched else {"search_above": None}
    async with _host() as host:
        await host.connect_spec(servers.in_process(number), "math")
        tools = host.langchain_tools()
        assert len(tools) == number, len(tools)
        taken = await async_pairs(
            lambda: _graph(host, **options).ainvoke(_request()),
            lambda: _create_agent(tools).ainvoke(_request(), _LIMIT),
            count,
            warm_up=2,
        )
    name = f"agent turn, {number:,} tools{', searched' if searched else ''}"
    return compared(name, _per_turn(taken), goal=goal, note="against create_agent")


async def _others(host: NotebookHost, count: int) -> list[Result]:
    connection = await host.connect_spec(servers.in_process(), "math")
    tools = host.langchain_tools()
    tool = await async_pairs(_langchain_tool(connection), _bare_tool(connection), 60 * count)
    disk = await _on_disk(host, tools, count)
    live = await async_pairs(lambda: _shown_live(host), lambda: _streamed(tools), 3 * count)
    tokens = [await _first_token(host) for _ in range(count)]
    token, slowest = statistics.median(tokens), max(tokens)
    return [
        compared("LangChain tool", tool, goal=GOAL_TOOL, note="against a StructuredTool of Connection.call_tool"),
        compared(f"turn after {BEFORE} on disk", disk, goal=GOAL_DISK, note="against create_agent on AsyncSqliteSaver"),
        compared("turn, shown live", _per_turn(live), goal=GOAL_LIVE, note="against create_agent's stream, not shown"),
        at_most(
            "first token, drawn", token, GOAL_TOKEN_MS, "ms", f"from the model to the display; {slowest:.1f} at most"
        ),
    ]


def _per_turn(taken: Pairs) -> Pairs:
    """Return the seconds of one turn."""
    return Pairs([seconds / TURNS for seconds in taken.ours], [seconds / TURNS for seconds in taken.theirs])


_LIMIT: Any = {"recursion_limit": 10 * TURNS}


def _request() -> dict[str, Any]:
    from langchain_core.messages import HumanMessage

    return {"messages": [HumanMessage("go")]}


def _script(turn: Any = None) -> Any:
    """Return a model that makes the same call in each turn, or what a function returns."""
    from mcp_magic.agent.scripted import ScriptedModel

    return ScriptedModel([*[turn or _CALL] * TURNS, "done"])


_CALL = [(f"math:{servers.TOOL}", dict(servers.ADD))]


def _graph(host: NotebookHost, model: Any = None, **options: Any) -> Any:
    from mcp_magic.agent.graph import build_graph

    return build_graph(model or _script(), host, **options)


def _create_agent(tools: list[Any], model: Any = None, **options: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(model or _script(), tools, **options)


def _langchain_tool(connection: Connection) -> Callable[[], Awaitable[Any]]:
    from mcp_magic.langchain.tools import langchain_tools

    [tool] = [tool for tool in langchain_tools(connection) if (tool.metadata or {})["tool"] == servers.TOOL]
    return _invoked(tool)


def _bare_tool(connection: Connection) -> Callable[[], Awaitable[Any]]:
    from langchain_core.tools import StructuredTool

    async def add(a: float, b: float) -> tuple[str, Any]:
        """Add two numbers."""
        result = await connection.call_tool(servers.TOOL, {"a": a, "b": b})
        return result.text, result

    return _invoked(StructuredTool.from_function(coroutine=add, response_format="content_and_artifact"))


def _invoked(tool: Any) -> Callable[[], Awaitable[Any]]:
    request = {"type": "tool_call", "id": "1", "name": tool.name, "args": dict(servers.ADD)}
    return lambda: tool.ainvoke(request)


async def _on_disk(host: NotebookHost, tools: list[Any], count: int) -> Pairs:
    """Return the seconds of turns after many others, with a thread on disk: of ours, and of LangGraph's own saver."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from mcp_magic.agent.threads import open_threads

    taken = Pairs()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            async with open_threads(Path(folder) / f"{number}.sqlite", fall_back=False) as saver:
                taken.ours += await _turns(lambda model, saver=saver: _graph(host, model, checkpointer=saver))
            async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / f"bare{number}.sqlite")) as saver:
                taken.theirs += await _turns(lambda model, saver=saver: _create_agent(tools, model, checkpointer=saver))
    return taken


async def _turns(make: Callable[[Any], Any]) -> list[float]:
    """Return the seconds from each turn of the model to the next."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

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
        return _CALL

    config = {**_LIMIT, "configurable": {"thread_id": "thread"}}
    request = {"messages": [*before, HumanMessage("go on")]}
    await make(_script(turn)).ainvoke(request, config, durability="sync")
    return [end - start for start, end in pairwise(marks[1:])]


async def _shown_live(host: NotebookHost, model: Any = None) -> _Screen:
    from mcp_magic.agent.graph import run_agent
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.agent.threads import open_threads

    screen = _Screen()
    async with open_threads(":memory:") as saver:
        graph = _graph(host, model, checkpointer=saver)
        await run_agent(graph, host, AgentRun("go", f"live {time.perf_counter()}"), screen=screen)
    return screen


async def _streamed(tools: list[Any]) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    graph = _create_agent(tools, checkpointer=InMemorySaver())
    config = {**_LIMIT, "configurable": {"thread_id": "streamed"}}
    async for _ in graph.astream(_request(), config, stream_mode=["messages", "updates"]):
        pass


async def _first_token(host: NotebookHost) -> float:
    """Return the milliseconds from the first token of a model to its display."""
    from mcp_magic.agent.scripted import ScriptedModel

    began: list[float] = []

    async def slow(messages: list[Any]) -> str:
        await asyncio.sleep(0.2)  # as long as a provider takes at least
        began.append(time.perf_counter())
        return "first token and some more"

    screen = await _shown_live(host, ScriptedModel([slow]))
    return (next(when for when, text in screen.shown if "first" in text) - began[0]) * 1000


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

    def update(self, transcript: Any) -> None:
        self._of(transcript).request_update()

    def _of(self, transcript: Any) -> Any:
        from mcp_magic.ipython.live import LIVE_INTERVAL, LiveView

        if self._view is None:
            self._view = LiveView(
                lambda: {index: transcript.render_segment(index) for index in sorted(transcript.dirty)},
                interval=LIVE_INTERVAL,
                show=self._show,
            )
        return self._view
