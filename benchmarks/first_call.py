"""The first call after connect against the tenth, each time in a fresh process.

`python -m benchmarks.first_call ours` (or `bare`, the SDK alone) is such a process: it prints the seconds of the
connect and of each call as JSON.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks import servers
from benchmarks.timing import Pairs, Result, compared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["run"]

GOAL = 3.0
CALLS = 11

PROCESSES = 5
"""Processes of each kind; one takes some three seconds, which is why there are not thirty."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure mcp_magic, then the bare SDK for comparison."""
    ours, bare, whole = Pairs(), Pairs(), Pairs()
    for _ in range(1 if quick else PROCESSES):
        for side, taken, total in (("ours", ours, whole.ours), ("bare", bare, whole.theirs)):
            connect, calls = _process(side)
            taken.ours.append(calls[0])
            taken.theirs.append(statistics.median(calls[-3:]))  # a single short call may be any
            total.append(connect + calls[0])
    return [
        compared("first call: mcp_magic", ours, goal=GOAL, note=f"against the tenth; {_environment()}"),
        compared("first call: bare SDK", bare, note="against the tenth; for information"),
        compared("connect and first call", whole, unit="s", note="against the bare SDK, import mcp left out of both"),
    ]


def _environment() -> str:
    """Say whether jsonschema has the extras that come with JupyterLab and make its import slow."""
    found = importlib.util.find_spec("rfc3987_syntax") is not None
    return "with JupyterLab's jsonschema extras" if found else "WITHOUT JupyterLab's jsonschema extras: install [lab]"


def _process(side: str) -> tuple[float, list[float]]:
    """Run a fresh process; return the seconds of its connect and of its calls."""
    from tests.environments import ROOT

    command = [sys.executable, "-m", "benchmarks.first_call", side]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer["connect"], answer["calls"]


async def ours() -> dict[str, Any]:
    """Connect and call as users of mcp_magic do."""
    from mcp_magic._host import Host

    started = time.perf_counter()
    async with Host() as host:
        connection = await host.connect_spec(servers.stdio(), "math")
        connect = time.perf_counter() - started
        return {"connect": connect, "calls": await _calls(lambda: connection.call(servers.TOOL, servers.ADD))}


async def bare() -> dict[str, Any]:
    """Connect and call as the SDK's documentation does."""
    opened = servers.bare(servers.stdio())
    started = time.perf_counter()
    async with opened as client:
        connect = time.perf_counter() - started
        return {"connect": connect, "calls": await _calls(lambda: client.call_tool(servers.TOOL, servers.ADD))}


async def _calls(call: Callable[[], Awaitable[object]]) -> list[float]:
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    import mcp  # noqa: F401  # both sides have it before the clock starts

    print(json.dumps(asyncio.run({"ours": ours, "bare": bare}[sys.argv[1]]())))
