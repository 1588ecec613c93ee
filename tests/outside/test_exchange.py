"""A request that goes on in the kernel: what it waits for is told, and its end cancels it."""

from __future__ import annotations

import asyncio

from mcp import Client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent

from mcp_magic.outside.exchange import Exchange
from mcp_magic.outside.kernel import Kernel


async def test_what_a_call_waits_for_is_told_as_growing_progress():
    told, ended = [], asyncio.Event()

    async def call(context, params):
        exchange = Exchange(context)

        async def work():
            exchange.enter("the person is asked")
            await ended.wait()
            await exchange.progressed(0.0, 2.0, "begins")
            return CallToolResult(content=[TextContent(text="done")])

        exchange.start(Kernel(), work)
        return await exchange.next(str)

    async def progressed(progress, total, message):
        told.append((progress, message))
        ended.set()

    async def tools(context, params):
        return ListToolsResult(tools=[])

    async with Client(Server("slow", on_call_tool=call, on_list_tools=tools)) as client:
        await client.call_tool("wait", {}, progress_callback=progressed)
    assert [message for _, message in told] == ["the person is asked, for 1 s", "begins"]
    assert told[1][0] > told[0][0]
