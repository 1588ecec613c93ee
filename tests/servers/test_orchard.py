import re

from mcp import Client

from mcp_magic.apps.view import view_of, view_uri
from tests.support import bundled

TREES = {"apples": 520, "pears": 260, "plums": 140, "cherries": 95}
TONNES = {"apples": 41.5, "pears": 18.2, "plums": 7.9, "cherries": 3.1}


async def test_harvest_view_loads_nothing_and_tools_report_and_cache():
    reports = []

    async def note(progress, total, message):
        reports.append(message)

    async with Client(bundled.load("orchard_server").server) as client:
        listing = await client.list_tools()
        tools = {tool.name: tool for tool in listing.tools}
        uri = view_uri(tools["harvest"])
        view = view_of(uri, (await client.read_resource(uri)).contents)
        result = await client.call_tool("harvest", {"year": 2024})
        counted = await client.call_tool("count_trees", {"fruit": "plums"})
        prices = await client.read_resource("orchard://prices")
        survey = await client.call_tool("survey", {"seconds": 0}, progress_callback=note)
    assert not any(view.domains.values())
    assert re.findall(r"https?:|src=|@import", view.html) == []
    assert tools["count_trees"].meta == {"ui": {"resourceUri": uri, "visibility": ["app"]}}
    assert result.structured_content == {"year": 2024, "tonnes": TONNES}
    assert counted.structured_content == {"result": 140}
    assert (listing.ttl_ms, prices.ttl_ms) == (3_600_000, 60_000)
    assert (survey.structured_content, reports) == (TREES, [*TREES])
