"""What progress costs: calls that report nothing, and a call whose server reports ten thousand times."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from benchmarks import servers
from benchmarks.timing import Result, async_pairs, compared
from mcp_magic._host import Host
from mcp_magic.config.specs import StdioSpec
from mcp_magic.ipython.live import LiveBoard
from tests.support.notebooks import NOTEBOOKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.config.specs import Spec
    from mcp_magic.flight.progress import Report

__all__ = ["run"]

GOAL_SILENT, GOAL_BUSY = 1.1, 1.2

PAIRS = {"in-process": 1500, "stdio": 500}

BUSY_PAIRS, NOTIFICATIONS = 5, 10_000

SERVER = NOTEBOOKS / "servers" / "showcase_server.py"


def run(*, quick: bool = False) -> list[Result]:
    """Measure calls without progress over two transports, and one with much of it."""
    results = [asyncio.run(_silent(spec, quick)) for spec in (servers.in_process(), servers.stdio())]
    return [*results, asyncio.run(_busy(quick))]


async def _silent(spec: Spec, quick: bool) -> Result:
    async with Host() as host:
        connection = await host.connect_spec(spec, "math")

        async def call(reporter: Callable[[Report], Any] | None) -> None:
            host.reports.reporter = reporter
            await connection.call(servers.TOOL, servers.ADD)

        taken = await async_pairs(lambda: call(_Shown()), lambda: call(None), 3 if quick else PAIRS[spec.transport])
    return compared(f"call that reports nothing, {spec.transport}", taken, goal=GOAL_SILENT)


async def _busy(quick: bool) -> Result:
    shown = _Shown()
    arguments = {"steps": 100 if quick else NOTIFICATIONS, "delay": 0}

    async def ignore(progress: float, total: float | None, message: str | None) -> None:
        pass

    async with Host() as host:
        host.reports.reporter = shown
        connection = await host.connect_spec(StdioSpec(command=sys.executable, args=(str(SERVER),)), "show")
        taken = await async_pairs(
            lambda: connection.call("progress", arguments),
            lambda: connection.client.call_tool("progress", arguments, progress_callback=ignore),
            2 if quick else BUSY_PAIRS,
            warm_up=1,
        )
    note = f"{shown.bundles} updates, {shown.bytes / 1000:.0f} kB, in {len(taken.ours) + 1} calls"
    return compared(f"call with {arguments['steps']:,} reports", taken, goal=GOAL_BUSY, note=note)


class _Shown:
    """A reporter that renders as a notebook's does, into nothing."""

    def __init__(self) -> None:
        self.bundles = self.bytes = 0

    def __call__(self, report: Report) -> Callable[[], None]:
        return LiveBoard(_no_clicks, self._show).add(report)

    def _show(self, bundle: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
        self._count(bundle)
        return self._count

    def _count(self, bundle: dict[str, Any]) -> None:
        self.bundles += 1
        self.bytes += len(json.dumps(bundle))


async def _no_clicks() -> bool:
    return False
