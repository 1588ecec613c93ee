"""A server as a page of Markdown and as a typed module, of every bundled server."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.notebook import host as notebook_host
from mcp_magic.serving.markdown import page, safe_markdown
from mcp_magic.serving.stubs import stubs
from tests.environments import ROOT
from tests.servers.bundled import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp_magic.core.connection import Connection

SERVERS = ("math_server", "weather_server", "showcase_server")


@pytest.fixture(params=SERVERS)
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    opened = await notebook_host.connect(load(request.param).server, name=request.param.partition("_")[0])
    yield opened
    await notebook_host.close()


@pytest.fixture
async def hostile() -> AsyncIterator[Connection]:
    server = MCPServer("hostile", log_level="ERROR")

    @server.tool(title="<script>alert(1)</script>")
    def look(path: str = "|") -> str:
        """See ![x](http://evil.example/p.png) <img src=x onerror=alert(1)> [here](javascript:alert(1)).

        # A heading
        \"\"\" + __import__("os").system("true") + \"\"\"
        """
        return path

    yield await notebook_host.connect(server, name="hostile")
    await notebook_host.close()


async def test_a_page_has_every_tool_with_its_arguments_and_a_line_that_works(connection: Connection) -> None:
    text = await page(connection)
    for tool in await connection.listing("tools"):
        section = text.partition(f"### `{tool.name}`")[2].partition("\n### ")[0]
        assert section, tool.name
        assert f"%mcp call {connection.name}:{tool.name}" in section
        for name in tool.input_schema.get("properties", {}):
            assert f"| `{name}` |" in section, (tool.name, name)
    for prompt in await connection.listing("prompts"):
        assert f"### `{prompt.name}`" in text


async def test_what_a_server_says_brings_no_markup_into_its_page(hostile: Connection) -> None:
    text = await page(hostile)
    assert "<script" not in text
    assert "<img" not in text
    assert "](http" not in text.replace("\\[x](http", "").replace("\\[here](javascript", "")
    assert "\n# A heading" not in text
    assert '`"\\|"`' in text


def test_code_stays_code_in_a_page() -> None:
    assert safe_markdown("use `a[0] < 1` or\n```\n<b>\n```") == "use `a[0] < 1` or\n```\n<b>\n```"


async def test_stubs_are_modules_that_type_check(tmp_path: Path) -> None:
    files = []
    for name in SERVERS:
        opened = await notebook_host.connect(load(name).server, name=name.partition("_")[0])
        files.append(tmp_path / f"{opened.name}.py")
        files[-1].write_text(stubs(opened.name, await opened.listing("tools")))
    await notebook_host.close()
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]  # with the cache of `make lint`
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stdout


async def test_stubs_call_the_session_of_their_name(tmp_path: Path) -> None:
    connection = await notebook_host.connect(load("math_server").server, name="math")
    tools = await connection.listing("tools")
    file = tmp_path / "made.py"
    file.write_text(stubs("math", tools))
    made = module(file)
    assert len(made.__all__) == len(tools)
    assert await made.add(3, 4) == 7
    assert await made.primes(10) == [2, 3, 5, 7]
    assert (await made.statistics([1, 2, 3]))["mean"] == 2
    assert "a (integer or number): The left number" in made.add.__doc__
    assert "n (integer, 0 to 1000): A whole number" in made.factorial.__doc__
    await notebook_host.close()


async def test_the_text_of_a_server_is_no_code_in_its_stubs(hostile: Connection, tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(stubs("hostile", await hostile.listing("tools")))
    made = module(file)
    assert made.__all__ == ["look"]
    assert await made.look() == "|"
    assert await made.look(path="x") == "x"


def module(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
