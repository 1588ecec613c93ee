"""What is done ahead, so that the first call is not slow."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

from mcp.server.mcpserver import MCPServer

from mcp_magic.core.host import Host
from mcp_magic.core.warmup import COMPILE_SECONDS, start_imports


def nested(levels):
    schema = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema, "b": schema}}
    return schema


def doubling(levels):
    """A schema that takes 2**levels steps to validate anything: each reference leads to two."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**definitions, f"d{levels}": {}}, "$ref": "#/$defs/d0"}


def server_with(schema, count=1):
    """A server whose tools declare an output schema that nobody wrote a type for."""
    server = MCPServer("outputs", log_level="ERROR")
    for number in range(count):

        def tool() -> dict[str, int]:
            return {"a": 1}

        server.add_tool(tool, name=f"tool{number}")
        server._tool_manager.get_tool(f"tool{number}").fn_metadata.output_schema = schema
    return server


def validators(connection):
    return connection.client.session._tool_output_validators


async def connected(server):
    host = Host()
    return host, await host.connect(server, name="outputs")


async def test_output_schemas_are_compiled_before_the_first_call():
    host, connection = await connected(server_with({"type": "object"}, 3))

    assert set(validators(connection)) == {"tool0", "tool1", "tool2"}
    assert (await connection.call("tool0")).data == {"a": 1}
    await host.close()


async def test_large_schemas_and_those_with_references_are_left_to_the_call():
    for schema in (nested(8), doubling(40)):  # the second one would take years
        host, connection = await connected(server_with(schema))
        assert (await connection.find_tool("tool0")).output_schema == schema
        assert not validators(connection)
        await host.close()


async def test_a_schema_that_is_no_schema_does_not_keep_a_server_from_connecting():
    host, connection = await connected(server_with({"type": "no such type"}))

    assert connection.state == "open"
    await host.close()


async def test_many_tools_do_not_make_a_connect_slow():
    host, connection = await connected(server_with(nested(5), 200))

    assert 0 < len(validators(connection)) < 200
    assert COMPILE_SECONDS < 0.1
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
