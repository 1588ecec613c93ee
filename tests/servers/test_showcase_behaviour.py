from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

import pytest
from mcp import Client, MCPError
from mcp_types import LoggingLevel

from tests.support import bundled
from tests.support.processes import start_http, stdio_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Open = Callable[..., AbstractAsyncContextManager[Client]]

WAIT = 60
"""Seconds that something may take which happens at once."""


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with start_http(bundled.command("showcase_server", "--transport", "http", "--port", "0")) as running:
        yield running.url


@pytest.fixture
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a session with the showcase's process; takes the options of `mcp.Client`."""

    @asynccontextmanager
    async def open_session(**options: Any) -> AsyncIterator[Client]:
        if request.param == "stdio":
            async with stdio_session(bundled.command("showcase_server"), tmp_path / "stderr", **options) as client:
                yield client
        else:
            async with Client(request.getfixturevalue("http_url"), **options) as client:
                yield client

    return open_session


ways = pytest.mark.parametrize(
    ("session", "mode"), [("stdio", "auto"), ("http", "auto"), ("http", "legacy")], indirect=["session"]
)


async def value(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@ways
async def test_call_reports_logs_and_counts_cancellation(session: Open, mode: str) -> None:
    logged: list[tuple[str, Any]] = []
    told: list[tuple[float, float | None, str | None]] = []
    started = asyncio.Event()

    async def take(message: Any) -> None:
        logged.append((message.level, message.data))

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        started.set()

    async def steps(**arguments: Any) -> list[tuple[float, float | None, str | None]]:
        told.clear()
        await client.call_tool("progress", {"delay": 0, **arguments}, progress_callback=tell)
        return list(told)

    async with session(mode=mode, logging_callback=take, log_level="debug") as client, asyncio.timeout(WAIT):
        assert await steps(steps=2) == [(1, 2, "step 1"), (2, 2, "step 2")]
        assert await steps(steps=1, total=False, messages=False) == [(1, None, None)]

        await client.call_tool("log_all", {})
        await client.call_tool("log", {"level": "alert", "message": "one"})
        levels = [(level, f"this is {level}") for level in get_args(LoggingLevel)]
        assert logged == [*levels, ("info", {"event": "done", "levels": 8}), ("alert", "one")]

        before = (await value(client, "cancellations"))["result"]
        started.clear()
        call = asyncio.create_task(client.call_tool("slow", {"seconds": 3000}, progress_callback=tell))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while (await value(client, "cancellations"))["result"] == before:
            pass  # each turn asks the server again
        counted = (await client.read_resource("showcase://cancellations")).contents[0].text
        assert counted == f'{{"cancelled": {before + 1}}}'
        assert await value(client, "slow", seconds=0) == {"result": "waited 0 s"}


@pytest.mark.parametrize("session", ["stdio"], indirect=True)
async def test_changed_lists_are_told_to_clients_of_the_handshake_era(session: Open) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        told.put_nowait(getattr(message, "method", ""))

    async def change(tool: str, **arguments: Any) -> str:
        await value(client, tool, **arguments)
        return await asyncio.wait_for(told.get(), WAIT)

    async with session(mode="legacy", message_handler=take) as client:
        assert await change("add_tool", name="legacy") == "notifications/tools/list_changed"
        assert "extra_legacy" in {tool.name for tool in (await client.list_tools()).tools}
        assert await value(client, "extra_legacy") == {"result": "I am legacy"}
        assert await change("remove_tool", name="legacy") == "notifications/tools/list_changed"
        assert "extra_legacy" not in {tool.name for tool in (await client.list_tools()).tools}
        assert await change("add_resource", name="legacy") == "notifications/resources/list_changed"
        assert await change("add_prompt", name="legacy") == "notifications/prompts/list_changed"
        assert await change("count") == "notifications/resources/updated"
        assert (await client.call_tool("add_prompt", {"name": "legacy"})).is_error


@pytest.mark.parametrize("session", ["http"], indirect=True)
async def test_changed_lists_are_told_to_clients_that_listen(session: Open) -> None:
    async with session() as client, asyncio.timeout(WAIT):
        wanted = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with client.listen(**wanted, resource_subscriptions=["showcase://counter"]) as events:
            told = aiter(events)
            for tool, arguments, event in (
                ("add_tool", {"name": "modern"}, "ToolsListChanged"),
                ("remove_tool", {"name": "modern"}, "ToolsListChanged"),
                ("add_resource", {"name": "modern"}, "ResourcesListChanged"),
                ("add_prompt", {"name": "modern"}, "PromptsListChanged"),
                ("count", {}, "ResourceUpdated"),
            ):
                await value(client, tool, **arguments)
                assert type(await anext(told)).__name__ == event
        assert (await client.read_resource("showcase://extra/modern")).contents[0].text == "I am modern"


async def test_process_tools_show_process_and_one_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    command, errlog = bundled.command("showcase_server"), tmp_path / "stderr"
    async with stdio_session(command, errlog, env={"SHOWCASE_COLOUR": "blue"}, cwd=folder) as client:
        seen = await value(client, "process")
        await value(client, "write_stderr", text="hello there")
        assert await value(client, "headers") == {}
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("die", {"code": 4, "message": "my last words"})
    assert seen["cwd"] == str(folder.resolve())
    assert seen["environment"] == {"SHOWCASE_COLOUR": "blue"}
    assert errlog.read_text() == "hello there\nmy last words\n"
    with pytest.raises(ProcessLookupError):
        os.kill(seen["pid"], 0)


async def test_headers_of_a_request_are_shown(http_url: str) -> None:
    async with Client(http_url) as client:
        assert (await value(client, "headers"))["content-type"] == "application/json"


async def test_process_tools_are_missing_in_the_kernel() -> None:
    async with Client(bundled.load("showcase_server").server) as client:
        assert {"die", "process", "headers"}.isdisjoint(tool.name for tool in (await client.list_tools()).tools)
