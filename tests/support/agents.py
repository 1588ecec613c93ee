"""What tests of agents share: a shop, runs of scripted models in it, and what was said in them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.program import Programs
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.transcript import Transcript
from mcp_magic.consent.consent import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import Request

THREAD: Any = {"configurable": {"thread_id": "t"}}
BUY: list[tuple[str, dict[str, Any]]] = [("shop:buy", {"item": "pear"})]
PRICE: list[tuple[str, dict[str, Any]]] = [("shop:price", {"item": "pear"})]


class Shop:
    """A server whose tools can be watched from a test."""

    def __init__(self) -> None:
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.together = 0
        self.most_together = 0
        self.server = MCPServer("shop", log_level="ERROR")
        self.server.add_tool(self.price, annotations=ToolAnnotations(read_only_hint=True))
        for tool in (self.buy, self.wait, self.fail):
            self.server.add_tool(tool)

    def price(self, item: str) -> float:
        """Tells the price of an item."""
        self.called.append(("price", {"item": item}))
        return {"apple": 1.5, "pear": 2.0}[item]

    def buy(self, item: str, count: int = 1) -> str:
        """Buys items."""
        self.called.append(("buy", {"item": item, "count": count}))
        return f"bought {count} {item}"

    async def wait(self, name: str, ctx: Context) -> str:
        """Waits until the test lets it go on."""
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        await ctx.report_progress(1, 2, "half")
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.together -= 1
        return f"{name} waited"

    def fail(self, reason: str) -> str:
        """Fails."""
        raise ToolError(reason)


async def add_server(host: Host, name: str, *functions: Callable[..., Any], **more: Any) -> MCPServer:
    """Connect a server in this process with these functions as tools."""
    server = MCPServer(name, log_level="ERROR", **more)
    for function in functions:
        server.add_tool(function)
    await host.connect(server, name=name)
    return server


def ask(host: Host, answer: Decision | Callable[[Request], Decision] | None = None) -> list[Request]:
    """Let a person answer about each call, who approves if nothing else is said; return what they are asked."""
    requests: list[Request] = []

    async def approver(request: Request) -> Decision:
        requests.append(request)
        return answer(request) if callable(answer) else answer or Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    return requests


def asked(text: str = "go") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def answers(messages: Any) -> list[tuple[str, str]]:
    """Return the status and text of each answer of a tool, in messages, a state or a run."""
    messages = messages["messages"] if isinstance(messages, dict) else getattr(messages, "messages", messages)
    return [(message.status, message.text) for message in messages if message.type == "tool"]


def bound(model: ScriptedModel) -> list[list[str]]:
    """Return the names of the tools that a model was given at each turn."""
    return [[tool["function"]["name"] for tool in seen.tools] for seen in model.seen]


class Played(NamedTuple):
    """What came of a request."""

    model: ScriptedModel
    messages: list[BaseMessage]

    @property
    def answers(self) -> list[tuple[str, str]]:
        return answers(self.messages)

    @property
    def answer(self) -> str:
        return self.messages[-1].text


async def play(host: Host, *turns: Any, request: str = "go", **options: Any) -> Played:
    """Let a model play its turns for one request."""
    model = ScriptedModel(list(turns))
    state = await build_graph(model, host, **options).ainvoke(asked(request))
    return Played(model, state["messages"])


class Screen:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.flushed: list[str] = []

    def update(self, transcript: Transcript) -> None:
        self.shown.append(str(transcript))

    def flush(self, transcript: Transcript) -> None:
        self.flushed.append(str(transcript))


class Agent:
    """Runs requests in one thread."""

    def __init__(self, host: Host, *turns: Any, model: Any = None, **options: Any) -> None:
        self.host = host
        self.model = model or ScriptedModel(list(turns))
        self.saver = options.setdefault("checkpointer", InMemorySaver())
        self.graph = build_graph(self.model, host, **options)
        self.screen: Any = Screen()
        self.over: list[AgentRun] = []

    async def run(self, request: str = "go", thread: str = "t", **options: Any) -> AgentRun:
        run = AgentRun(request, thread, options.pop("model", "scripted"), Transcript(show=options.pop("show", "full")))
        self.over.append(run)
        return await run_agent(self.graph, self.host, run, **{"screen": self.screen, **options})

    async def messages(self, thread: str = "t") -> list[Any]:
        return list((await self.graph.aget_state({"configurable": {"thread_id": thread}})).values["messages"])


def coder(host: Host, *codes: str, programs: Programs | None = None, **options: Any) -> Agent:
    """Return an agent whose model writes these programs."""
    turns = [[("run_program", {"code": code})] for code in codes]
    return Agent(host, *turns, "done", programs=programs or Programs(), **options)


async def interrupt(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
