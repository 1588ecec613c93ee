"""Servers that nobody here wrote: they start, list and answer."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.sse import sse_client

from tests import environments
from tests.environments import needs_node
from tests.processes import free_port, start_http, stdio_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The first test that needs an environment makes it, with the network.
pytestmark = pytest.mark.timeout(2 * environments.BUILD_TIMEOUT)


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def text(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.content[0].text


async def check_everything(client: Client) -> None:
    assert client.protocol_version == "2025-11-25"
    assert {"echo", "get-sum", "get-tiny-image", "get-structured-content"} <= await names(client)
    assert await text(client, "echo", message="hi") == "Echo: hi"
    assert await text(client, "get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."
    weather = await client.call_tool("get-structured-content", {"location": "New York"})
    assert json.loads(weather.content[0].text) == weather.structured_content
    assert (await client.list_resources()).resources
    assert (await client.list_prompts()).prompts


@needs_node
async def test_everything_answers_over_stdio(tmp_path: Path) -> None:
    async with stdio_session(environments.everything_command(), tmp_path / "stderr") as client:
        await check_everything(client)


@pytest.fixture(params=["streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A target for `mcp.Client`: the everything server over HTTP."""
    command = environments.everything_command(request.param)
    with start_http(command, {"PORT": str(free_port())}, r"on port (?P<port>\d+)") as running:
        yield running.url if request.param == "streamableHttp" else sse_client(running.url.replace("/mcp", "/sse"))


@needs_node
async def test_everything_answers_over_http(everything: Any) -> None:
    async with Client(everything) as client:
        await check_everything(client)


async def test_time_answers_with_the_protocol_of_2026(tmp_path: Path) -> None:
    async with stdio_session(environments.time_command(), tmp_path / "stderr") as client:
        assert client.protocol_version == "2026-07-28"
        assert await names(client) == {"get_current_time", "convert_time"}
        zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
        converted = json.loads(await text(client, "convert_time", time="12:00", **zones))
        assert converted["target"]["datetime"].endswith("T21:00:00+09:00")
        unknown = await client.call_tool("get_current_time", {"timezone": "Nowhere/City"})
        assert unknown.is_error


async def test_git_answers_with_the_protocol_of_2026(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "trunk", str(repo)], check=True)
    (repo / "new.txt").write_text("new\n")
    async with stdio_session(environments.git_command(repo), tmp_path / "stderr") as client:
        assert client.protocol_version == "2026-07-28"
        assert {"git_status", "git_log", "git_commit"} <= await names(client)
        status = await text(client, "git_status", repo_path=str(repo))
        assert "On branch trunk" in status
        assert "new.txt" in status


async def test_sqlite_of_the_first_generation_answers_with_python_text_and_unmarked_errors(tmp_path: Path) -> None:
    async with stdio_session(environments.sqlite_command(tmp_path / "test.db"), tmp_path / "stderr") as client:
        assert client.protocol_version == "2025-11-25"
        assert {"read_query", "write_query", "create_table"} <= await names(client)
        await text(client, "create_table", query="create table fruit (name text, price real)")
        await text(client, "write_query", query="insert into fruit values ('apple', 1.5), ('pear', null)")
        rows = await text(client, "read_query", query="select * from fruit")
        assert rows == "[{'name': 'apple', 'price': 1.5}, {'name': 'pear', 'price': None}]"
        assert (await text(client, "read_query", query="selec")).startswith("Error: ")  # `text` saw no is_error
        resource = (await client.list_resources()).resources[0]
        assert resource.uri == "memo://insights"
