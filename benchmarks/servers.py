"""The servers that are measured against: a calculator over each transport, and one that is slow to start."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client

    from mcp_magic.config.specs import Spec

__all__ = [
    "ADD",
    "CALCULATOR",
    "PAIRS",
    "TOOL",
    "bare",
    "http",
    "in_process",
    "over_each_transport",
    "slow_to_start",
    "stdio",
]

CALCULATOR = Path(__file__).with_name("calculator.py")

TOOL, ADD = "add", {"a": 3, "b": 4}
"""The call that is timed: its answer is small, it has an output schema, and it takes the server no time."""

PAIRS = {"in-process": 2560, "stdio": 1280, "http": 960}
"""An in-process call takes 0.2 ms and varies by some hundredths of one: the shorter a call, the more of them."""


def in_process(tools: int = 0) -> InProcessSpec:
    """Return a new calculator as an object of this process, with so many tools in all if it has fewer."""
    from benchmarks.calculator import OWN_TOOLS, calculator

    server = calculator()
    for number in range(tools - OWN_TOOLS):

        def other(text: str, count: int = 1) -> str:
            """Repeat a text, as often as you like."""
            return text * count

        server.add_tool(other, name=f"other_{number}")
    return InProcessSpec(server=server)


def stdio() -> StdioSpec:
    """Return the calculator as a program."""
    return StdioSpec(command=sys.executable, args=(str(CALCULATOR),))


def bare(spec: Spec) -> Client:
    """Return a client of the SDK with a session of its own; in-process with a server of its own.

    An open session of ours answers for what tools raise, so it stands before the calls of its server's other clients.
    """
    from mcp import Client, StdioServerParameters

    if isinstance(spec, StdioSpec):
        return Client(StdioServerParameters(command=spec.command, args=list(spec.args)))
    if isinstance(spec, HttpSpec):
        return Client(spec.url)
    from benchmarks.calculator import calculator

    return Client(calculator())


@contextmanager
def http(*words: str | Path) -> Iterator[HttpSpec]:
    """Run the calculator, or another program, behind a free port of this machine."""
    from tests.support.processes import start_http

    with start_http([sys.executable, *map(str, words or (CALCULATOR, "http"))]) as running:
        yield HttpSpec(url=running.url)


@contextmanager
def over_each_transport() -> Iterator[tuple[Spec, ...]]:
    """Yield the calculator in this process, as a program, and behind a port."""
    with http() as spec:
        yield in_process(), stdio(), spec


def slow_to_start(seconds: float) -> StdioSpec:
    """Return a server that waits before it answers the handshake, as one does that installs or logs in first.

    It is written without the SDK, since importing that is work: eight of them would compete for the
    processor, and the time that this takes is no matter of the host.
    """
    script = Path(__file__).with_name("slow_server.py")
    return StdioSpec(command=sys.executable, args=("-S", "-E", str(script), str(seconds)))
