"""Throughput and latency of one call at several numbers of calls in flight."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mcp_magic.calls.call import Call
from mcp_magic.display.document import Part, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import DeniedError, MCPMagicError, SessionClosedError
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.loops import together
from mcp_magic.map.run import new_figure
from mcp_magic.map.tally import percentile
from mcp_magic.results.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from mcp_magic.calls.caller import Caller
    from mcp_magic.flight.progress import Reports
    from mcp_magic.session.connection import Connection


@dataclass
class Level:
    """The figures at one number of calls in flight.

    Attributes:
        concurrency: Calls in flight.
        seconds: How long it was measured.
        latencies: Seconds of each call that succeeded, ascending.
        errors: Message -> count.
    """

    concurrency: int
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> dict[str, Any]:
        """A row of the table; latencies in milliseconds."""
        shares = {f"p{share} ms": percentile(self.latencies, share / 100) for share in (50, 95, 99)}
        return {
            "concurrency": self.concurrency,
            "calls": len(self.latencies),
            "calls/s": round(len(self.latencies) / self.seconds, 1) if self.seconds else 0.0,
            **{name: None if value is None else round(value * 1000, 2) for name, value in shares.items()},
            "errors": self.errors.total(),
        }


class Bench:
    """A tool's throughput and latency.

    Attributes:
        title: `"server:tool"`.
        levels: The figures by number of calls in flight.
    """

    def __init__(self, title: str, levels: Sequence[Level]) -> None:
        self.title = title
        self.levels = list(levels)

    @property
    def df(self) -> pd.DataFrame:
        """A row for each number of calls in flight: calls, calls a second, latencies in milliseconds, errors."""
        import pandas as pd

        return pd.DataFrame([level.row for level in self.levels])

    def plot(self) -> Any:
        """Return a figure: throughput, and latency (50th and 95th percentile), by calls in flight.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        rows = [level.row for level in self.levels]
        ticks = [row["concurrency"] for row in rows]
        figure = new_figure()
        throughput, latency = figure.subplots(1, 2)
        throughput.plot(ticks, [row["calls/s"] for row in rows], marker="o")
        throughput.set(xlabel="calls in flight", ylabel="calls/s", title=self.title, ylim=(0, None))
        for name in ("p50 ms", "p95 ms"):
            latency.plot(ticks, [row[name] for row in rows], marker="o", label=name)
        latency.set(xlabel="calls in flight", ylabel="milliseconds", ylim=(0, None))
        latency.legend()
        return figure

    def __repr__(self) -> str:
        figures = [
            f"{len(level.latencies) / level.seconds:.0f} calls/s at {level.concurrency}" for level in self.levels
        ]
        return f"<Bench {self.title}: {', '.join(figures)}>"

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: the table, and the errors by message."""
        errors = sum((level.errors for level in self.levels), Counter[str]())
        parts = Listing([level.row for level in self.levels], title=self.title, kind="levels").parts()
        if errors:
            rows = [{"calls": count, "error": text} for text, count in errors.most_common(10)]
            parts += Listing(rows, kind="errors").parts()
        return parts


async def run_bench(
    connection: Connection,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    levels: Sequence[int] = (1, 4, 16),
    seconds: float = 10.0,
    reports: Reports | None = None,
) -> Bench:
    """Call a tool again and again, for some seconds at each number of calls in flight.

    Raises:
        ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
        DeniedError: Consent refused the call.
        SessionClosedError: The session ended.
        CallCancelledError: You cancelled it; `reports` show that it runs.
    """
    bench = Bench(f"{connection.name}:{tool}", [])

    def under_way() -> str:
        return f"{bench.levels[-1].concurrency} in flight" if bench.levels else ""

    caller = connection.caller
    call = await caller.authorize(await caller.prepare(Call(connection, tool, arguments, is_shown=False)))
    with InFlightRequest(f"bench {bench.title}", connection.name, reports, look=Look(detail=under_way)):
        await caller.send(call)  # warms up
        call = replace(call, limits=Limits(waits_if_busy=False))
        for concurrency in levels:
            bench.levels.append(Level(concurrency))
            await _measure(caller, call, bench.levels[-1], seconds / len(levels))
    return bench


async def _measure(caller: Caller, call: Call, level: Level, seconds: float) -> None:
    started = time.perf_counter()

    async def calls() -> None:
        while time.perf_counter() < started + seconds:
            try:
                result = await caller.send(await caller.authorize(call))
            except (DeniedError, SessionClosedError):
                raise
            except MCPMagicError as error:
                level.errors[one_line(str(error), 200)] += 1
                await asyncio.sleep(0)
            else:
                if result.is_error:
                    level.errors[one_line(f"{call.tool} failed{reason(result)}", 200)] += 1
                else:
                    level.latencies.append(result.seconds)

    await together(calls() for _ in range(level.concurrency))
    level.seconds = time.perf_counter() - started
    level.latencies.sort()
