"""Throughput and latency of one call at several numbers of calls in flight, or at a rate.

At a rate, a call's latency counts from when it was due, not from when it went out: else a server that is too slow would
delay the very calls that show it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mcp_magic.calls.call import Call
from mcp_magic.display.document import Part, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, DeniedError, MCPMagicError, SessionClosedError
from mcp_magic.flight.request import InFlightRequest, Limits, Look
from mcp_magic.loops import together
from mcp_magic.map.run import new_figure
from mcp_magic.map.tally import percentile
from mcp_magic.results.reasons import reason
from mcp_magic.results.results import CheckFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from mcp_magic.calls.caller import Caller
    from mcp_magic.flight.progress import Reports
    from mcp_magic.session.connection import Connection

CONCURRENCY = (1, 4, 16)  # calls in flight, one number after the other

MOST_IN_FLIGHT = 256  # calls in flight at a rate
MOST_CONCURRENT = 10_000  # calls in flight that can be asked for

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
_LATENCY = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def read_latencies(text: str) -> dict[str, float]:
    """Return percentile -> seconds.

    Raises:
        ArgumentsError: The text is no list of bounds.

    >>> read_latencies("p50=20ms,p99=1s")
    {'p50': 0.02, 'p99': 1.0}
    """
    bounds: dict[str, float] = {}
    for item in text.split(","):
        name, _, bound = item.strip().partition("=")
        match = _LATENCY.fullmatch(bound.strip())
        if not _PERCENTILE.fullmatch(name) or match is None:
            raise ArgumentsError(f"{item.strip()!r} is no bound of the latency; write p95=200ms, or p50=20ms,p99=1s")
        if name in bounds:
            raise ArgumentsError(f"{name} has two bounds; leave one out")
        bounds[name] = float(match[1]) / (1000 if match[2] == "ms" else 1)
    return bounds


def read_share(text: str) -> float:
    """Return a share of the calls.

    Raises:
        ArgumentsError: The text is no percentage.

    >>> read_share("1%"), read_share("0.5 %")
    (0.01, 0.005)
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise ArgumentsError(f"{text!r} is no share of the calls; write 1% or 0%")
    return float(match[1]) / 100


@dataclass
class Level:
    """The figures at one number of calls in flight, or at a rate.

    Attributes:
        concurrency: Calls in flight; at a rate, the most at once.
        rate: Calls a second that go out, or None: as many as are answered.
        seconds: How long it was measured.
        latencies: Seconds of each call that succeeded, ascending.
        errors: Message -> count.
    """

    concurrency: int
    rate: float | None = None
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> dict[str, Any]:
        """A row of the table; latencies in milliseconds."""
        shares = {f"p{share} ms": percentile(self.latencies, share / 100) for share in (50, 95, 99)}
        return {
            **({} if self.rate is None else {"rate": round(self.rate, 3)}),
            "concurrency": self.concurrency,
            "calls": len(self.latencies),
            "calls/s": round(len(self.latencies) / self.seconds, 1) if self.seconds else 0.0,
            **{name: None if value is None else round(value * 1000, 2) for name, value in shares.items()},
            "errors": self.errors.total(),
        }

    @property
    def pace(self) -> str:
        """How the calls went out."""
        return f"{self.concurrency} in flight" if self.rate is None else f"{self.rate:g} calls/s"

    def misses(self, under: Mapping[str, float], errors: float | None) -> list[str]:
        """Return the bounds that the figures break."""
        texts: list[str] = []
        for name, bound in under.items():
            match = _PERCENTILE.fullmatch(name)
            if match is None:
                raise ArgumentsError(f"{name!r} is no percentile; write p50, p95 or p99.9")
            latency = percentile(self.latencies, float(match[1]) / 100)
            if latency is None:
                texts.append(f"{name}: no call succeeded")
            elif latency >= bound:
                texts.append(f"{name}: it is {latency * 1000:.4g} ms; the limit is {bound * 1000:g} ms")
        calls = len(self.latencies) + self.errors.total()
        if errors is not None and self.errors.total() > errors * calls:
            share = f"{self.errors.total():,} of {calls:,} calls ({self.errors.total() / calls:.2%})"
            texts.append(f"errors: {share}; the limit is {errors * 100:g}%")
        return texts


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

    def check(self, under: Mapping[str, float] | None = None, errors: float | None = None) -> Bench:
        """Return the bench itself if its figures are within bounds, at each number of calls in flight.

        Args:
            under: Percentile of the latency -> seconds that it is less than: `{"p95": 0.2}`.
            errors: The largest share of calls that fail: 0.01.

        Raises:
            CheckFailedError: A bound is broken, an AssertionError with the figures; its `result` is the bench.
        """
        misses = [(level, text) for level in self.levels for text in level.misses(under or {}, errors)]
        if misses:
            problems = [text if len(self.levels) == 1 else f"at {level.pace}: {text}" for level, text in misses]
            common = sum((level.errors for level, text in misses if level.errors), Counter[str]()).most_common(1)
            cause = f"\n  the most common error: {common[0][0]}" if common else ""
            raise CheckFailedError(f"{self.title}: {'; '.join(problems)}{cause}", self)
        return self

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
    levels: Sequence[int] | None = None,
    rate: float | None = None,
    seconds: float = 10.0,
    timeout: float | None = None,
    reports: Reports | None = None,
) -> Bench:
    """Call a tool again and again, for some seconds at each number of calls in flight.

    With a `rate` that many calls a second go out, however long the answers take, up to 256 in flight or `levels`.
    A call without an answer after `timeout` seconds is an error; None waits for it.

    Raises:
        ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
        DeniedError: Consent refused the call.
        SessionClosedError: The session ended.
        CallCancelledError: You cancelled it; `reports` show that it runs.
    """
    if rate is not None and not 0 < rate < math.inf:
        raise ArgumentsError(f"rate={rate!r}: calls a second above 0 are expected")
    bench = Bench(f"{connection.name}:{tool}", [])

    def under_way() -> str:
        return bench.levels[-1].pace if bench.levels else ""

    caller = connection.caller
    limits = Limits(timeout=timeout)
    call = Call(connection, tool, arguments, is_shown=False, limits=limits)
    call = await caller.authorize(await caller.prepare(call))
    with InFlightRequest(f"bench {bench.title}", connection.name, reports, look=Look(detail=under_way)):
        await caller.send(call)  # warms up
        call = replace(call, limits=replace(limits, waits_if_busy=False))
        numbers = levels or (CONCURRENCY if rate is None else (MOST_IN_FLIGHT,))
        for concurrency in numbers:
            bench.levels.append(Level(concurrency, rate))
            await _measure(caller, call, bench.levels[-1], seconds / len(numbers))
    return bench


async def _measure(caller: Caller, call: Call, level: Level, seconds: float) -> None:
    """Measure one level: each worker takes the next call that is due, so that at most so many are in flight.

    One call is always made, however short the time is.
    """
    started = time.perf_counter()
    numbers = itertools.count()
    in_flight = most = 0

    async def calls() -> None:
        nonlocal in_flight, most
        for number in numbers:  # of all workers
            now = time.perf_counter()
            due = now if level.rate is None else started + number / level.rate
            if number and max(now, due) >= started + seconds:
                return
            if due > time.perf_counter():
                await asyncio.sleep(due - time.perf_counter())
            in_flight += 1
            most = max(most, in_flight)
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
                    level.latencies.append(result.seconds if level.rate is None else time.perf_counter() - due)
            finally:
                in_flight -= 1

    await together(calls() for _ in range(level.concurrency))
    level.seconds = time.perf_counter() - started
    if level.rate is not None:
        level.concurrency, level.seconds = most, max(level.seconds, seconds)
    level.latencies.sort()
