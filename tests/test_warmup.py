"""What is done ahead, so that the first call is not slow."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host


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


async def test_invalid_schema_does_not_prevent_connecting():
    host, connection = await connected(server_with({"type": "no such type"}))

    assert connection.state == "open"
    await host.close()


def test_a_connect_imports_what_checks_a_call_and_not_jsonschema():
    program = """
        import asyncio, sys
        from mcp.server.mcpserver import MCPServer
        from mcp_magic._host import Host

        server = MCPServer("s", log_level="ERROR")

        @server.tool()
        def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}

        async def main():
            host = Host()
            connection = await host.connect(server, name="s")
            print("jsonschema_rs" in sys.modules)
            await connection.call_tool("add", {"a": 1, "b": 2})
            print("jsonschema" in sys.modules)
            await host.close()

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout.split(), ran.stderr) == (["True", "False"], "")
