from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp import Client

from mcp_magic.apps.view import view_of, view_uri
from tests.support import bundled
from tests.support.processes import stdio_session

if TYPE_CHECKING:
    from pathlib import Path


async def test_harvest_view_loads_nothing_and_calls_its_tool(tmp_path: Path) -> None:
    async with stdio_session(bundled.command("orchard_server"), tmp_path / "stderr") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        uri = view_uri(tools["harvest"])
        view = view_of(uri, (await client.read_resource(uri)).contents)
        result = await client.call_tool("harvest", {"year": 2024})
        counted = await client.call_tool("count_trees", {"fruit": "plums"})
    assert not any(view.domains.values())
    assert re.findall(r"https?:|src=|@import", view.html) == []
    assert tools["count_trees"].meta == {"ui": {"resourceUri": uri, "visibility": ["app"]}}
    assert result.structured_content == {
        "year": 2024,
        "tonnes": {"apples": 41.5, "pears": 18.2, "plums": 7.9, "cherries": 3.1},
    }
    assert counted.structured_content == {"result": 140}


async def test_listings_and_prices_are_cacheable_and_survey_reports() -> None:
    reports: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    async with Client(bundled.load("orchard_server").server) as client:
        assert (await client.list_tools()).ttl_ms == 3_600_000
        assert (await client.read_resource("orchard://prices")).ttl_ms == 60_000
        survey = await client.call_tool("survey", {"seconds": 0}, progress_callback=note)
    assert survey.structured_content == {"apples": 520, "pears": 260, "plums": 140, "cherries": 95}
    assert reports == ["apples", "pears", "plums", "cherries"]
