"""Counters: what is counted, and what Prometheus reads of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcp_magic import errors
from mcp_magic.telemetry.metrics import BUCKETS, LIMIT, OVERFLOW, Metrics
from tests.support.bundled import load
from tests.support.clocks import assert_linear


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Read Prometheus text: (name, label=value, ...) -> value."""
    values: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (f"{name}={value}" for name, value in sample.labels.items())
            values[sample.name, *labels] = sample.value
    return values


async def test_metrics_count_calls_and_failures_by_server_and_tool(host):
    show = await host.connect(load("showcase_server").server, name="show")
    await host.connect(load("math_server").server, name="math")
    for n in range(3):
        await host.call("math:add", a=n, b=1)
    with pytest.raises(errors.ToolError):
        await show.call("fail_error")
    with pytest.raises(errors.ProtocolError):
        await show.call("fail_protocol")
    with pytest.raises(errors.RequestTimeoutError):
        await show.call_tool("slow", {"seconds": 30}, timeout=0.05)
    with pytest.raises(errors.ArgumentsError):
        await host.call("math:add", a="three")
    metrics = host.metrics
    assert metrics["math", "add"].calls == 3, "what was never sent is no call"
    assert (metrics["math", "add"].errors, metrics["show", "fail_error"].errors) == ({}, {"tool_error": 1})
    assert metrics["show", "fail_protocol"].errors == {"ProtocolError": 1}
    assert metrics["show", "slow"].errors == {"RequestTimeoutError": 1}
    assert metrics["show", "slow"].longest >= 0.05
    assert (metrics.calls, sum(metrics.errors.values())) == (6, 3)


async def test_a_cancelled_call_is_counted_as_one(host):
    connection = await host.connect(load("showcase_server").server, name="show")
    started = asyncio.Event()

    async def progressed(*_: Any) -> None:
        started.set()

    call = asyncio.create_task(connection.call_tool("slow", {"seconds": 30}, on_progress=progressed))
    await asyncio.wait_for(started.wait(), 60)
    call.cancel()
    await asyncio.wait({call})
    assert host.metrics["show", "slow"].errors == {"cancelled": 1}


async def test_prometheus_reads_the_text_of_all_sessions(host):
    await host.connect(load("math_server").server, name="math")
    await host.call("math:add", a=1, b=1)
    await host.reconnect("math")
    await host.call("math:add", a=1, b=1)
    host.metrics.record("math", "add", 0.3, "ToolError")
    values = samples(host.metrics.text())
    of = ("server=math", "tool=add")
    assert values["mcp_magic_calls_total", *of] == host.metrics["math", "add"].calls == 3
    assert values["mcp_magic_errors_total", *of, "error=ToolError"] == 1
    assert values["mcp_magic_call_seconds_count", *of] == 3
    for bound, count in (("0.2", 2), ("0.5", 3), ("+Inf", 3)):
        assert values["mcp_magic_call_seconds_bucket", *of, f"le={bound}"] == count
    assert values["mcp_magic_call_seconds_sum", *of] == pytest.approx(host.metrics["math", "add"].seconds)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "Ünïcode 工具", "a{b}", "\ud800", "a" * 10_000, ""])
def test_any_name_of_a_tool_makes_valid_text(name):
    metrics = Metrics()
    assert samples(metrics.text()) == {}
    metrics.record("s", name, 0.1, "ToolError")
    tools = {key[2] for key in samples(metrics.text()) if key[0] == "mcp_magic_calls_total"}
    assert tools == {f"tool={name[:200]}".replace("\ud800", "?")}
    metrics.text().encode("utf-8")


def test_made_up_names_do_not_fill_the_memory():
    metrics = Metrics()
    for n in range(LIMIT + 500):
        metrics.record("s", f"tool{n}", 0.01)
    assert len(metrics) == LIMIT + 1
    assert metrics[OVERFLOW, OVERFLOW].calls == 500
    assert metrics.calls == LIMIT + 500


def test_quantiles_are_right_to_a_bucket():
    metrics = Metrics()
    for n in range(1, 101):
        metrics.record("s", "t", n / 100)
    series = metrics["s", "t"]
    for share in (0.5, 0.95):
        low = max((bound for bound in BUCKETS if bound < share), default=0)
        high = min(bound for bound in BUCKETS if bound >= share)
        assert low <= series.quantile(share) <= high
    assert series.quantile(1.0) == pytest.approx(1.0)
    metrics.record("math", "add", 0.0361)
    assert [metrics["math", "add"].quantile(share) for share in (0.01, 0.5, 0.95, 1.0)] == [0.0361] * 4


def test_a_record_costs_as_little_as_the_first():
    metrics = Metrics()
    assert_linear(lambda count: [metrics.record("server", "tool", 0.0123) for _ in range(count)], 1000, 16_000)
