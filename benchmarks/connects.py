"""Eight connects in parallel against the slowest of them."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from benchmarks import servers
from benchmarks.timing import Pairs, Result, compared
from mcp_magic._host import Host
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["run"]

GOAL = 1.3
SERVERS = 8

WAIT = 1.0
"""Seconds that the slow servers wait before they answer."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure servers whose start is waiting; then, for information, ones whose start is work."""
    return asyncio.run(_run(quick))


async def _run(quick: bool) -> list[Result]:
    slow, few = (0.2, 3) if quick else (WAIT, 12)
    waiting = servers.slow_to_start(slow)
    await opened(waiting, 1)  # imports the SDK, which no other connect does again
    together = [await opened(waiting, SERVERS) for _ in range(few)]
    alone = [(await opened(waiting, 1))[0] for _ in range(3)]
    working = [await opened(servers.stdio(), 2 if quick else SERVERS) for _ in range(1 if quick else 2)]
    return [
        compared(
            f"{SERVERS} connects, servers that wait {slow:g} s",
            _pairs(together),
            goal=GOAL,
            unit="s",
            note=f"against the slowest of the same run; one alone takes {statistics.median(alone):.2f} s",
        ),
        compared(
            f"{2 if quick else SERVERS} connects, Python servers",
            _pairs(working),
            unit="s",
            note="for information: they compete for the processor",
        ),
    ]


def _pairs(runs: list[tuple[float, float]]) -> Pairs:
    return Pairs([whole for whole, _ in runs], [slowest for _, slowest in runs])


async def opened(spec: Spec, count: int) -> tuple[float, float]:
    """Connect to `count` servers at once; return the seconds of all together and of the slowest one."""
    async with Host() as host:
        started = time.perf_counter()
        outcomes = await host.connect_many({f"server{number}": spec for number in range(count)})
        whole = time.perf_counter() - started
        for outcome in outcomes.values():
            if isinstance(outcome, MCPMagicError):
                raise outcome
        return whole, max(connection.supervisor.connect_seconds for connection in host.connections.values())
