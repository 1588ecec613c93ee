"""Runs of agents with threads kept somewhere."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import messages_of, open_threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_magic._host import Host

SAID = [("human", "go"), ("ai", ""), ("tool", "bought 1 pear"), ("ai", "done")]
"""What a thread has after a run of [BUY, "done"]."""

LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


async def run(
    host: Host, where: Any, turns: list[Any], request: str = "go", thread: str = "t", **options: Any
) -> tuple[AgentRun, str]:
    """Run an agent as the magic does; return the run, and why its thread is in memory."""
    async with open_threads(where) as opened:
        graph = build_graph(ScriptedModel(turns), host, checkpointer=opened, **options)
        made = await run_agent(graph, host, AgentRun(request, thread))
        return made, opened.problem


async def kept(where: Any, thread: str = "t") -> list[tuple[str, str]]:
    """Return the kind and text of each message of a thread that is kept."""
    async with open_threads(where, fall_back=False) as opened:
        return [(message.type, message.text) for message in await messages_of(opened, thread)]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Let another process lock a file."""
    command = [sys.executable, "-c", LOCKING, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            process.communicate("done\n", timeout=60)
