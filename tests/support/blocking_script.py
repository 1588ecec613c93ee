"""Calls tools without `await`, from everywhere; run as a program, because it patches asyncio."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from mcp_magic import loops
from mcp_magic.notebook import NotebookHost
from tests.support.bundled import command, load

loops.BUSY_SECONDS = 0.5


async def connected(target: Any) -> tuple[NotebookHost, Any]:
    """Return a host with one session, and its tool that adds."""
    host = NotebookHost()
    host.consent.policy = "auto"
    await host.connect(target, name="math")
    return host, next(tool for tool in host.langchain_tools() if tool.name == "math__add")


async def nested(target: Any) -> None:
    """Call inside of the running loop, as a cell does."""
    host, add = await connected(target)
    message = add.invoke({"type": "tool_call", "id": "1", "name": add.name, "args": {"a": 1, "b": 2}})
    assert (message.content, message.artifact["structured_content"]) == ("3", {"result": 3})
    assert [add.invoke({"a": n, "b": n}) for n in range(3)] == ["0", "2", "4"]
    await host.close()


async def threads() -> None:
    """Call from other threads while the loop runs, several at a time."""
    host, add = await connected(command("math_server"))
    answers = await asyncio.gather(*(asyncio.to_thread(add.invoke, {"a": n, "b": n}) for n in range(5)))
    assert answers == ["0", "2", "4", "6", "8"]
    assert await asyncio.to_thread(lambda: asyncio.run(add.ainvoke({"a": 1, "b": 1}))) == "2", "another loop"
    await host.close()


def idle() -> None:
    """Call while no loop runs: here, and from the threads of a graph."""
    loop = asyncio.new_event_loop()
    host, add = loop.run_until_complete(connected(command("math_server")))
    assert add.invoke({"a": 1, "b": 2}) == "3"
    calls = [{"name": add.name, "args": {"a": n, "b": n}, "id": str(n)} for n in range(4)]
    graph = StateGraph(MessagesState)
    graph.add_node("act", ToolNode([add]))
    graph.add_edge(START, "act")
    graph.add_edge("act", END)
    state = graph.compile().invoke({"messages": [AIMessage("", tool_calls=calls)]})
    assert [message.content for message in state["messages"][1:]] == ["0", "2", "4", "6"]
    loop.run_until_complete(host.close())
    loop.close()
    fails(add, "has stopped")


def fails(add: Any, why: str) -> None:
    """Call what must say to the program why it cannot be called: a model could do nothing about it."""
    arguments = {"a": 1, "b": 2}
    for call in (arguments, {"type": "tool_call", "id": "1", "name": add.name, "args": arguments}):
        said = ""
        try:
            add.invoke(call)
        except ToolException as error:
            said = str(error)
        assert why in said, said


async def busy() -> None:
    """Block the loop with waiting for a thread that needs it."""
    host, add = await connected(load("math_server").server)
    thread = threading.Thread(target=fails, args=(add, "`await agent.ainvoke(...)` instead of"))
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for ever"
    await host.close()


if __name__ == "__main__":
    asyncio.run(threads())
    asyncio.run(busy())
    idle()
    asyncio.run(nested(load("math_server").server))
    asyncio.run(nested(command("math_server")))
    print("done")
