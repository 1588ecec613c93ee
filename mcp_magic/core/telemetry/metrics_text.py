"""Counters as Prometheus reads them.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.trace.trace import OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.core.telemetry.metrics import Metrics, Series

__all__ = ["exposition"]


def exposition(metrics: Metrics) -> str:
    """Return counters as text; a metric of which there is nothing yet has its head only."""
    lines = [
        *_head("mcp_magic_calls_total", "counter", "Tool calls that were sent and have ended."),
        *(_sample("mcp_magic_calls_total", _of(key), series.calls) for key, series in metrics.items()),
        *_head("mcp_magic_errors_total", "counter", "Tool calls that failed, by kind of failure."),
        *(line for key, series in metrics.items() for line in _errors(key, series)),
        *_head("mcp_magic_call_seconds", "histogram", "Seconds from a tool call to its answer."),
        *(line for key, series in metrics.items() for line in _histogram(key, series)),
        *_traffic(metrics),
    ]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _of(key: tuple[str, str]) -> dict[str, str]:
    return {"server": key[0], "tool": key[1]}


def _errors(key: tuple[str, str], series: Series) -> Iterator[str]:
    for kind, count in series.errors.items():
        yield _sample("mcp_magic_errors_total", {**_of(key), "error": kind}, count)


def _histogram(key: tuple[str, str], series: Series) -> Iterator[str]:
    for bound, count in series.cumulative():
        yield _sample("mcp_magic_call_seconds_bucket", {**_of(key), "le": bound}, count)
    yield _sample("mcp_magic_call_seconds_sum", _of(key), series.seconds)
    yield _sample("mcp_magic_call_seconds_count", _of(key), series.calls)


def _traffic(metrics: Metrics) -> Iterator[str]:
    moved = [
        ({"server": server, "direction": "out" if direction == OUT else "in"}, counts)
        for (server, direction), counts in metrics.traffic.items()
    ]
    yield from _head("mcp_magic_messages_total", "counter", "JSON-RPC messages, while the trace is on.")
    yield from (_sample("mcp_magic_messages_total", labels, counts[0]) for labels, counts in moved)
    yield from _head("mcp_magic_bytes_total", "counter", "Bytes of JSON-RPC messages, while the trace is on.")
    yield from (_sample("mcp_magic_bytes_total", labels, counts[1]) for labels, counts in moved)


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    r"""Return one line.

    >>> _sample("calls", {"tool": 'a"b\\c\n'}, 3)
    'calls{tool="a\\"b\\\\c\\n"} 3'
    """
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value!r}"


def _escaped(text: str) -> str:
    # A lone surrogate cannot be written as UTF-8.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
