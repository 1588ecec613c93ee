"""A server as a typed module, whatever its tools are called."""

from __future__ import annotations

import importlib.util
import inspect
import json
from typing import TYPE_CHECKING, Any

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic.notebook import host as notebook_host
from mcp_magic.server.stubs import stubs
from tests.support.bundled import load
from tests.support.shadows import SHADOWS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic._host import Host


@pytest.fixture
async def notebook() -> AsyncIterator[Host]:
    """The host that stubs call."""
    yield notebook_host
    await notebook_host.close()


def module(folder: Path, text: str) -> Any:
    file = folder / "made.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


async def test_stubs_call_the_session_of_their_name(notebook: Host, tmp_path: Path) -> None:
    connection = await notebook.connect(load("math_server").server, name="math")
    tools = await connection.listing("tools")
    made = module(tmp_path, stubs("math", tools))
    assert len(made.__all__) == len(tools)
    assert await made.add(3, 4) == 7
    assert await made.primes(10) == [2, 3, 5, 7]
    assert (await made.statistics([1, 2, 3]))["mean"] == 2
    assert "a (integer or number): The left number" in made.add.__doc__
    assert "n (integer, 0 to 1000): A whole number" in made.factorial.__doc__


async def test_stubs_of_tools_that_are_called_like_python_call_them(notebook: Host, tmp_path: Path) -> None:
    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.model_copy(update={"output_schema": None}) for tool in SHADOWS])

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=json.dumps([params.name, params.arguments]))])

    await notebook.connect(Server("shadows", on_list_tools=tools, on_call_tool=called), name="shadows")
    made = module(tmp_path, stubs("shadows", SHADOWS))
    assert len(set(made.__all__)) == len(SHADOWS)
    for name, tool in zip(made.__all__, SHADOWS, strict=True):
        function, arguments = getattr(made, name), {argument: [] for argument in tool.input_schema["properties"]}
        passed = {parameter: [] for parameter in inspect.signature(function).parameters}
        assert await function(**passed) == [tool.name, arguments]


async def test_the_text_of_a_server_is_no_code_in_its_stubs(notebook: Host, tmp_path: Path) -> None:
    server = MCPServer("hostile", log_level="ERROR")
    words = 'See.\n\n\\"\\"\\" + __import__("os").abort() + \\"\\"\\"\n'.replace("\\", "")

    @server.tool(title="<script>alert(1)</script>", description=words)
    def look(path: str = "|") -> str:
        return path

    connection = await notebook.connect(server, name="hostile")
    made = module(tmp_path, stubs("hostile", await connection.listing("tools")))
    assert made.__all__ == ["look"]
    assert await made.look() == "|"
    assert await made.look(path="x") == "x"
