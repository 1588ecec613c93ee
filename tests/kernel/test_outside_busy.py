"""A kernel that runs a cell: an agent outside is told what its call waits for, and gets its answer afterwards."""

from __future__ import annotations

import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.kernel_servers import LOAD
from tests.support.outside_kernel import served

SHOP = "%%mcp_server shop\ndef price(item: str) -> float:\n    return 2.0"
SETUP = [LOAD, "from pathlib import Path", SHOP, "%mcp allow shop:price --for outside --first"]


async def test_call_waits_for_a_cell_and_says_so(kernel, folder):
    url, token = served(kernel)
    busy, free = folder / "busy", folder / "free"
    cell = f"Path({str(busy)!r}).touch()\nwhile not Path({str(free)!r}).exists():\n    pass"
    told = []

    async def progressed(progress, total, message):
        told.append(message)
        free.touch()

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await client.list_tools()
        running = asyncio.create_task(asyncio.to_thread(kernel.ok, cell))
        while not busy.exists():
            await client.list_tools()
        assert "shop__price" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("shop__price", {"item": "tea"}, progress_callback=progressed)
        await running
    assert (result.is_error, result.structured_content) == (False, {"result": 2.0})
    assert told[0] == "the kernel runs a cell, for 1 s"
