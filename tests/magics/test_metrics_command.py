"""`%mcp metrics` and the setting `telemetry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_magic.errors import ConfigError, ToolError, UnknownServerError
from mcp_magic.ipython.settings import Settings
from mcp_magic.notebook import host
from mcp_magic.telemetry.telemetry import telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def from_zero() -> Iterator[None]:
    host.metrics.clear()
    yield
    telemetry.export("")


async def test_metrics_lists_calls_by_server_and_tool(magic: Any) -> None:
    await magic("call math:add a=1 b=2")
    await magic("call math:add a=1 b=2")
    with pytest.raises(ToolError):
        await magic("call math:divide a=1 b=0")
    listing = await magic("metrics")
    rows = {row["tool"]: row for row in listing}
    assert (rows["add"]["calls"], rows["add"]["failed"]) == (2, 0)
    assert (rows["divide"]["failed"], rows["divide"]["errors"]) == (1, "tool_error 1")
    assert rows["add"]["longest ms"] >= rows["add"]["mean ms"] > 0
    assert list(listing.df["server"]) == ["math", "math"]


async def test_metrics_before_any_call_says_so(magic: Any) -> None:
    assert "no tool was called yet" in str(await magic("metrics"))
    assert len(await magic("metrics math")) == 0
    with pytest.raises(UnknownServerError):
        await magic("metrics maths")


async def test_metrics_are_written_for_prometheus(magic: Any, tmp_path: Path) -> None:
    await magic("call math:add a=1 b=2")
    listing = await magic("metrics --export mcp.prom")
    assert "written to mcp.prom" in str(listing)
    assert 'mcp_magic_calls_total{server="math",tool="add"} 1' in (tmp_path / "mcp.prom").read_text()
    with pytest.raises(ConfigError, match=r"^/.*cannot be written: No such file or directory$"):
        await magic("metrics --export nowhere/mcp.prom")


async def test_metrics_begin_again_at_zero(magic: Any) -> None:
    await magic("call math:add a=1 b=2")
    assert len(await magic("metrics --clear")) == 0


async def test_the_setting_exports_spans_and_the_listing_says_so(magic: Any) -> None:
    exporter = InMemorySpanExporter()
    magic.settings.telemetry = exporter
    await magic("call math:add a=1 b=2")
    assert telemetry.flush()
    assert "execute_tool add" in [span.name for span in exporter.get_finished_spans()]
    assert "spans went to InMemorySpanExporter" in str(await magic("metrics"))
    magic.settings.telemetry = ""
    assert "spans went" not in str(await magic("metrics"))


def test_invalid_telemetry_is_refused_and_old_one_kept() -> None:
    settings = Settings()
    with pytest.raises(ConfigError, match="Did you mean 'otlp'"):
        settings.telemetry = "oltp"
    assert settings.telemetry == ""
    with pytest.raises(ConfigError, match="Did you mean 'otlp'"):
        settings.read_environment({"MCP_MAGIC_TELEMETRY": "oltp"})
