"""Metrics of sessions: counts and durations, in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf
from typing import Any

from mcp_magic._text import plural

# The counters: number, result and duration of calls, by server and tool. They need no dependency and no clock, and
# cost a call a few dictionary lookups. The counts stay in this process until they are read.

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds (OpenTelemetry semantic conventions, `mcp.client.operation.duration`)."""

LIMIT = 2000  # most pairs of server and tool with their own counters, because a model may invent any number of names

OVERFLOW = "(other)"  # the name under which the pairs beyond the limit are counted

MAX_NAME = 200  # most characters of a name that are kept; the specification allows a tool 128


class Series:
    """The calls of one tool of one server.

    `errors` counts failures by kind: the class of the error, `"tool_error"` if the tool reported it, or `"cancelled"`.
    """

    __slots__ = ("buckets", "calls", "errors", "longest", "seconds", "shortest")

    def __init__(self) -> None:
        self.calls = 0
        self.errors: dict[str, int] = {}
        self.seconds = 0.0
        self.longest = 0.0
        self.shortest = inf
        self.buckets = [0] * (len(BUCKETS) + 1)

    @property
    def failed(self) -> int:
        """How many calls failed."""
        return sum(self.errors.values())

    def quantile(self, share: float) -> float:
        """Return the seconds within which a share of the calls ended, interpolated linearly in its bucket."""
        rank, below, low = share * self.calls, 0, 0.0
        for high, count in zip((*BUCKETS, self.longest), self.buckets, strict=True):
            if count and below + count >= rank:
                low, top = max(low, self.shortest), min(high, self.longest)
                return low + (top - low) * (rank - below) / count
            below, low = below + count, high
        return self.longest


class Metrics(Mapping[tuple[str, str], Series]):
    """The counters of one host: a mapping from (server, tool) to the series of its calls.

    Read `host.metrics["math", "add"].calls`. The counters continue when a session is reopened under its name.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}

    def __repr__(self) -> str:
        failures = sum(self.errors.values())
        return f"<Metrics: {plural(self.calls, 'calls')} of {plural(len(self), 'tools')}, {failures:,} failed>"

    def record(self, server: str, tool: str, seconds: float, error: str = "") -> None:
        """Count a call that has ended; `error` is the kind of its failure, or ""."""
        series = self._series.get((server, tool))
        if series is None:
            key = (server[:MAX_NAME], tool[:MAX_NAME])
            if len(self._series) >= LIMIT and key not in self._series:
                key = (OVERFLOW, OVERFLOW)
            series = self._series.setdefault(key, Series())
        series.calls += 1
        series.seconds += seconds
        if seconds > series.longest:
            series.longest = seconds
        if seconds < series.shortest:
            series.shortest = seconds
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        if error:
            series.errors[error] = series.errors.get(error, 0) + 1

    def clear(self) -> None:
        """Reset all counters to zero."""
        self._series.clear()

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return sum(series.calls for series in self.values())

    @property
    def errors(self) -> dict[str, int]:
        """The number of all failures, by kind."""
        return dict(sum((Counter(series.errors) for series in self.values()), Counter()))

    @property
    def seconds(self) -> float:
        """The total duration of all calls."""
        return sum(series.seconds for series in self.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each tool that was called; times in milliseconds."""
        return [
            {
                "server": server,
                "tool": tool,
                "calls": series.calls,
                "failed": series.failed,
                "errors": ", ".join(f"{kind} {count}" for kind, count in sorted(series.errors.items())),
                "mean ms": round(series.seconds / series.calls * 1000, 2),
                "p50 ms": round(series.quantile(0.5) * 1000, 1),
                "p95 ms": round(series.quantile(0.95) * 1000, 1),
                "longest ms": round(series.longest * 1000, 2),
            }
            for (server, tool), series in self.items()
        ]

    def text(self) -> str:
        """Return all metrics in the Prometheus text format, version 0.0.4, for a scraper or a `.prom` file."""
        bounds = [*(f"{limit:g}" for limit in BUCKETS), "+Inf"]
        calls, errors, seconds = [], [], []
        for (server, tool), series in self.items():
            of = {"server": server, "tool": tool}
            calls.append(_sample("mcp_magic_calls_total", of, series.calls))
            errors += [_sample("mcp_magic_errors_total", {**of, "error": kind}, n) for kind, n in series.errors.items()]
            for le, count in zip(bounds, accumulate(series.buckets), strict=True):
                seconds.append(_sample("mcp_magic_call_seconds_bucket", {**of, "le": le}, count))
            seconds.append(_sample("mcp_magic_call_seconds_sum", of, series.seconds))
            seconds.append(_sample("mcp_magic_call_seconds_count", of, series.calls))
        families = (
            ("mcp_magic_calls_total", "counter", "Tool calls that were sent and have ended.", calls),
            ("mcp_magic_errors_total", "counter", "Tool calls that failed, by kind of failure.", errors),
            ("mcp_magic_call_seconds", "histogram", "Seconds from a tool call to its answer.", seconds),
        )
        lines = [
            line
            for name, kind, about, samples in families
            for line in (f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples)
        ]
        return "\n".join(lines) + "\n"

    def __getitem__(self, key: tuple[str, str]) -> Series:
        return self._series[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(list(self._series))

    def __len__(self) -> int:
        return len(self._series)


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    """Return one line of the text format."""
    pairs = []
    for label, text in labels.items():
        text = text.encode("utf-8", "replace").decode("utf-8")  # UTF-8 cannot encode a lone surrogate
        escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        pairs.append(f'{label}="{escaped}"')
    return f"{name}{{{','.join(pairs)}}} {value!r}"
