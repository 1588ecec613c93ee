"""Clients of both eras are told when servers come and go."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

from mcp_magic.outside.gateway import KernelServer
from tests.support.hosts import host as host
from tests.support.outside import served


def server_of(*tools: str) -> MCPServer:
    server = MCPServer("some", log_level="ERROR")
    for name in tools:
        server.add_tool(lambda: "done", name=name)
    return server


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def test_client_of_the_handshake_sees_servers_come_and_go(host):
    changes = asyncio.Queue()

    async def take(message):
        changes.put_nowait(getattr(message, "method", ""))

    async with served(KernelServer(host)) as url, Client(url, mode="legacy", message_handler=take) as client:
        await host.connect(server_of("read"), name="one")
        while "one__read" not in await names(client):
            assert await asyncio.wait_for(changes.get(), 30) == "notifications/tools/list_changed"
        await host.disconnect("one")
        while "one__read" in await names(client):
            await asyncio.wait_for(changes.get(), 30)


async def test_client_that_listens_sees_servers_come(host):
    async with (
        served(KernelServer(host)) as url,
        Client(url) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        await host.connect(server_of("read"), name="one")
        async for _ in events:
            if "one__read" in await names(client):
                break


async def test_client_sees_tools_that_a_server_adds(host):
    server = server_of("read")
    await host.connect(server, name="one")
    async with (
        served(KernelServer(host)) as url,
        Client(url) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        server.add_tool(lambda: "done", name="write")
        await host["one"].listing("tools", refresh=True)
        async for _ in events:
            if "one__write" in await names(client):
                break


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_changes_of_resources_themselves_are_not_promised(host):
    async with served(KernelServer(host)) as url:
        async with Client(url, mode="legacy") as client:
            assert client.server_capabilities.resources.subscribe is False
            with pytest.raises(MCPError, match="Method not found"):
                await client.subscribe_resource("x://a")
        async with Client(url) as client:
            assert client.server_capabilities.resources.subscribe is False
            async with client.listen(tools_list_changed=True, resource_subscriptions=["x://a"]) as events:
                assert (events.honored.tools_list_changed, events.honored.resource_subscriptions) == (True, None)
