"""The first `%mcp connect` and `%%mcp_agent` of a kernel: after two idle seconds, and at once, as in Run All."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from typing import Any

from benchmarks.cells import execute, kernel
from benchmarks.servers import CALCULATOR
from benchmarks.timing import Pairs, Result, at_most, seconds_of

__all__ = ["run"]

KERNELS = 5
"""Kernels of each kind; one takes some five seconds."""

IDLE_SECONDS = 2.0

CONNECT_GOAL, AGENT_GOAL, RUN_ALL_GOAL = 0.7, 0.25, 1.1
"""Seconds."""

LOAD = "%load_ext mcp_magic"
CONNECT = f"%mcp connect {CALCULATOR} --name math"
AGENT = "%%mcp_agent\nadd 3 and 4"
BARE = f"""
from mcp import Client, StdioServerParameters
client = await Client(StdioServerParameters(command={sys.executable!r}, args=[{str(CALCULATOR)!r}])).__aenter__()
await client.list_tools()
"""


def run(*, quick: bool = False) -> list[Result]:
    """Measure kernels of their own, from sending the cells until the kernel is idle again."""
    connects, agents, run_all = list[float](), list[float](), Pairs()
    for _ in range(1 if quick else KERNELS):
        connect, agent = _in_kernel([LOAD], IDLE_SECONDS, [CONNECT], [AGENT])
        connects.append(connect)
        agents.append(agent)
        run_all.ours += _in_kernel([], 0.0, [LOAD, CONNECT])
        run_all.theirs += _in_kernel([], 0.0, [BARE])
    ours, theirs = statistics.median(run_all.ours), statistics.median(run_all.theirs)
    met = ours <= RUN_ALL_GOAL
    return [
        at_most(
            "connect after 2 idle seconds", statistics.median(connects), CONNECT_GOAL, "s", "stdio, %load_ext before"
        ),
        at_most("%%mcp_agent after it", statistics.median(agents), AGENT_GOAL, "s", "offline model, one turn"),
        Result("load and connect, Run All", ours, theirs, run_all.ratio, f"at most {RUN_ALL_GOAL:g} s", "s", met),
    ]


def _in_kernel(before: list[str], idle: float, *timed: list[str]) -> list[float]:
    """Run cells in a new kernel; return the seconds that each of the `timed` groups takes."""

    def run_cells(cells: list[str], client: Any) -> None:
        for cell in cells:
            execute(client, cell)

    with tempfile.TemporaryDirectory() as folder, kernel(folder) as client:
        run_cells(["pass", *before], client)
        time.sleep(idle)
        return [seconds_of(lambda cells=cells: run_cells(cells, client)) for cells in timed]
