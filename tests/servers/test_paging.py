import pytest
from mcp import Client, MCPError

from tests.support import bundled
from tests.support.asgi import serving
from tests.support.processes import stdio_session


def server(**pages):
    module = bundled.load("paging_server")
    return module.make_server(module.Pages(**pages))


async def cursors_and_names(client, pages=10):
    """Follow the cursors of the tools for at most `pages` pages."""
    cursors = []
    names = []
    cursor = None
    for _ in range(pages):
        listed = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in listed.tools]
        cursor = listed.next_cursor
        cursors.append(cursor)
        if not cursor:
            break
    return cursors, names


ALL = [f"tool_{number:03}" for number in range(25)]


async def test_lists_come_in_pages_that_end_without_cursor_or_empty(tmp_path):
    async with serving(server().streamable_http_app()) as url, Client(f"{url}/mcp") as client:
        assert await cursors_and_names(client) == (["10", "20", None], ALL)
    async with stdio_session(bundled.command("paging_server", "--empty-cursor"), tmp_path / "stderr") as client:
        assert await cursors_and_names(client) == (["10", "20", ""], ALL)
        assert (await client.call_tool("tool_017", {})).structured_content == {"number": 17}


async def test_an_endless_list_always_has_one_more_page():
    async with Client(server(endless=True)) as client:
        cursors, names = await cursors_and_names(client, pages=50)
    assert None not in cursors
    assert len(set(names)) == 500


async def test_resources_templates_and_prompts_are_paged_too():
    async with Client(server(size=3, page=2)) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        names = [resource.name for resource in first.resources + second.resources]
        assert names == ["number 0", "number 1", "number 2"]
        assert second.next_cursor is None
        assert (await client.list_resource_templates(cursor="2")).resource_templates[0].name == "times 2"
        assert (await client.list_prompts(cursor="2")).prompts[0].name == "prompt_002"
        assert (await client.read_resource("paging://number/2")).contents[0].text == "2"
        assert (await client.read_resource("paging://times/2/21")).contents[0].text == "42"
        assert (await client.get_prompt("prompt_002")).messages[0].content.text == "Say 2."


async def test_what_the_server_does_not_know_is_an_error():
    async with Client(server()) as client:
        with pytest.raises(MCPError, match="Unknown cursor 'x'"):
            await client.list_tools(cursor="x")
        with pytest.raises(MCPError, match="Unknown name 'tool_025'"):
            await client.call_tool("tool_025", {})
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("paging://number/x")


async def test_result_breaking_its_schema_is_noticed_by_client():
    async with Client(server(wrong_output=True)) as client:
        with pytest.raises(RuntimeError, match="Invalid structured content returned by tool tool_003"):
            await client.call_tool("tool_003", {})
