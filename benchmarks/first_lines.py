"""The first `%mcp connect` and `%%mcp_agent` of a kernel: after idle seconds, and at once, as in Run All."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from benchmarks.kernels import frontend
from benchmarks.servers import CALCULATOR
from benchmarks.timing import Pairs, Result, compared, seconds_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.support.frontends import Frontend

__all__ = ["run"]

KERNELS = 3
"""Kernels of each of three kinds; one takes some three seconds."""

IDLE_SECONDS, IDLE_IMPORTS = 2.0, 4.0
"""How long a kernel is idle: so long, and on a slow machine so many times as long as the import of the SDK."""

GOAL_CONNECT, GOAL_AGENT, GOAL_RUN_ALL = 1.5, 0.35, 1.2

LOAD = "%load_ext mcp_magic"
CONNECT = f"%mcp connect {CALCULATOR} --name math"
AGENT = "%%mcp_agent\nadd 3 and 4"

BARE_IMPORT = "from mcp import Client, StdioServerParameters"
BARE_CONNECT = f"""
client = await Client(StdioServerParameters(command={sys.executable!r}, args=[{str(CALCULATOR)!r}])).__aenter__()
await client.list_tools()
"""
BARE_AGENT = """
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall

class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self

async def add(a: float, b: float) -> float:
    "Add two numbers."
    return (await client.call_tool("add", {"a": a, "b": b})).structured_content["result"]

answers = [AIMessage("", tool_calls=[ToolCall(name="add", args={"a": 3, "b": 4}, id="1")]), AIMessage("7")]
await create_agent(Model(messages=iter(answers)), [add]).ainvoke({"messages": [("human", "add 3 and 4")]})
"""


def run(*, quick: bool = False) -> list[Result]:
    """Measure kernels of their own, from sending the cells until the kernel is idle again."""
    connects, agents, run_all = Pairs(), Pairs(), Pairs()
    for _ in range(1 if quick else KERNELS):
        with _kernel() as shown:
            imports = _seconds(shown, BARE_IMPORT)
            connects.theirs.append(_seconds(shown, BARE_CONNECT))
            run_all.theirs.append(imports + connects.theirs[-1])
            agents.theirs.append(_seconds(shown, BARE_AGENT))
        with _kernel(LOAD) as shown:
            time.sleep(max(IDLE_SECONDS, IDLE_IMPORTS * imports))
            connects.ours.append(_seconds(shown, CONNECT))
            agents.ours.append(_seconds(shown, AGENT))
        with _kernel() as shown:
            run_all.ours.append(_seconds(shown, LOAD, CONNECT))
    return [
        compared("connect after idle seconds", connects, goal=GOAL_CONNECT, unit="s", note="bare client, mcp imported"),
        compared(
            "%%mcp_agent after it",
            agents,
            goal=GOAL_AGENT,
            unit="s",
            note="against a first create_agent, with its imports",
        ),
        compared(
            "load and connect, Run All", run_all, goal=GOAL_RUN_ALL, unit="s", note="against import and bare client"
        ),
    ]


def _kernel(*cells: str) -> AbstractContextManager[Frontend]:
    return frontend("pass", *cells, plain=True, MCP_MAGIC_PRELOAD="true")


def _seconds(shown: Frontend, *cells: str) -> float:
    """Return the seconds that cells take together."""
    return seconds_of(lambda: [shown.kernel.ok(cell) for cell in cells])
