"""What is done ahead, so that the first call is not slow."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

from mcp.server.mcpserver import MCPServer

from mcp_magic.core.host import Host
from mcp_magic.core.warmup import start_imports


def server_with(schema):
    """A server with a tool that declares an output schema nobody wrote a type for."""
    server = MCPServer("outputs", log_level="ERROR")

    def tool() -> dict[str, int]:
        return {"a": 1}

    server.add_tool(tool, name="tool0")
    server._tool_manager.get_tool("tool0").fn_metadata.output_schema = schema
    return server


async def connected(server):
    host = Host()
    return host, await host.connect(server, name="outputs")


async def test_a_schema_that_is_no_schema_does_not_keep_a_server_from_connecting():
    host, connection = await connected(server_with({"type": "no such type"}))

    assert connection.state == "open"
    await host.close()


async def test_an_interrupted_connect_leaves_the_imports_to_the_others():
    waiting = asyncio.ensure_future(asyncio.shield(start_imports()))
    waiting.cancel()
    await asyncio.wait({waiting})

    await asyncio.shield(start_imports())

    assert "jsonschema" in sys.modules


def test_the_imports_are_complete_when_a_connection_is_open():
    program = """
        import asyncio, sys
        from mcp.server.mcpserver import MCPServer
        from mcp_magic.core.host import Host

        async def main():
            sys.modules.pop("jsonschema", None)
            host = Host()
            await asyncio.gather(*(host.connect(MCPServer(f"s{n}"), name=f"s{n}") for n in range(4)))
            assert sys.modules["jsonschema"].Draft202012Validator
            await host.close()

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stderr == ""
