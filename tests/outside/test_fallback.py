"""What the proxy answers itself while no kernel serves."""

from __future__ import annotations

import mcp_types.version
import pytest
from mcp import Client, MCPError

from mcp_magic import Host
from mcp_magic.outside import fallback
from mcp_magic.outside.choice import none_serves
from mcp_magic.outside.gateway import KernelServer
from tests.support.stdio_proxy import connected, serving, text, tools

pytestmark = pytest.mark.usefixtures("folder")


async def test_without_a_kernel_a_tool_says_what_to_do(folder, mode):
    async with connected(folder, mode=mode) as client:
        assert await tools(client) == ["find_kernels"]
        assert text(await client.call_tool("find_kernels", {})) == none_serves()
        other = await client.call_tool("list_values", {})
        assert (other.is_error, text(other)) == (True, none_serves())
        assert none_serves() in (client.instructions or "")
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="no kernel serves"):
            await client.read_resource("none://x")
        async with serving():
            assert text(await client.call_tool("who", {})) == "one"


async def test_what_it_can_is_what_a_kernel_can(folder, mode):
    async with Host() as host, connected(folder, mode=mode) as alone:
        assert await tools(alone) == ["find_kernels"]
        async with Client(KernelServer(host).server, mode=mode) as kernel:
            assert alone.server_capabilities == kernel.server_capabilities
            assert alone.server_info == kernel.server_info


def test_versions_are_those_of_the_sdk():
    assert fallback.HANDSHAKES == mcp_types.version.HANDSHAKE_PROTOCOL_VERSIONS
    assert fallback.MODERN == mcp_types.version.MODERN_PROTOCOL_VERSIONS
