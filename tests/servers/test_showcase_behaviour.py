"""The showcase as a process: reports, logs, cancellation, changed lists, and what it sees of itself."""

import asyncio
import os
from typing import get_args

import pytest
from mcp import Client, MCPError
from mcp_types import LoggingLevel

from tests.support import bundled
from tests.support.processes import start_http, stdio_session

SERVER = "showcase_server"
COMMAND = bundled.command(SERVER)
WAIT = 60
"""Seconds that something may take which happens at once."""


@pytest.fixture(scope="module")
def url():
    with start_http([*COMMAND, "--transport", "http", "--port", "0"]) as running:
        yield running.url


async def value(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "legacy")])
async def test_call_reports_logs_and_counts_cancellation(url, tmp_path, transport, mode):
    logged = []
    told = []
    started = asyncio.Event()

    async def take(message):
        logged.append((message.level, message.data))

    async def tell(progress, total, message):
        told.append((progress, total, message))
        started.set()

    async def steps(**arguments):
        told.clear()
        await client.call_tool("progress", {"delay": 0, **arguments}, progress_callback=tell)
        return list(told)

    options = {"mode": mode, "logging_callback": take, "log_level": "debug"}
    opened = stdio_session(COMMAND, tmp_path / "stderr", **options) if transport == "stdio" else Client(url, **options)
    async with opened as client, asyncio.timeout(WAIT):
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


async def test_changed_lists_are_told_to_clients_of_the_handshake_era(tmp_path):
    told = asyncio.Queue()

    async def take(message):
        told.put_nowait(getattr(message, "method", ""))

    async def change(tool, **arguments):
        await value(client, tool, **arguments)
        return await asyncio.wait_for(told.get(), WAIT)

    async def names():
        return {tool.name for tool in (await client.list_tools()).tools}

    async with stdio_session(COMMAND, tmp_path / "stderr", mode="legacy", message_handler=take) as client:
        assert await change("add_tool", name="legacy") == "notifications/tools/list_changed"
        assert "extra_legacy" in await names()
        assert await value(client, "extra_legacy") == {"result": "I am legacy"}
        assert await change("remove_tool", name="legacy") == "notifications/tools/list_changed"
        assert "extra_legacy" not in await names()
        assert await change("add_resource", name="legacy") == "notifications/resources/list_changed"
        assert await change("add_prompt", name="legacy") == "notifications/prompts/list_changed"
        assert await change("count") == "notifications/resources/updated"
        assert (await client.call_tool("add_prompt", {"name": "legacy"})).is_error


async def test_changed_lists_are_told_to_clients_that_listen(url):
    wanted = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    async with Client(url) as client, asyncio.timeout(WAIT):
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
        assert (await value(client, "headers"))["content-type"] == "application/json"


async def test_process_tools_show_process_and_one_ends_it(tmp_path):
    folder, errlog = tmp_path / "folder", tmp_path / "stderr"
    folder.mkdir()
    async with stdio_session(COMMAND, errlog, env={"SHOWCASE_COLOUR": "blue"}, cwd=folder) as client:
        seen = await value(client, "process")
        await value(client, "write_stderr", text="hello there")
        assert await value(client, "headers") == {}
        with pytest.raises(MCPError, match="Connection closed"):
            await client.call_tool("die", {"code": 4, "message": "my last words"})
    assert (seen["cwd"], seen["environment"]) == (str(folder.resolve()), {"SHOWCASE_COLOUR": "blue"})
    assert errlog.read_text() == "hello there\nmy last words\n"
    with pytest.raises(ProcessLookupError):
        os.kill(seen["pid"], 0)


async def test_process_tools_are_missing_in_the_kernel():
    async with Client(bundled.load(SERVER).server) as client:
        assert {"die", "process", "headers"}.isdisjoint(tool.name for tool in (await client.list_tools()).tools)
