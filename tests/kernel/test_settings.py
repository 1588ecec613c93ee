"""The settings of a kernel: `%config`, variables of the environment, a profile, and what they change."""

import pytest

from tests.support.kernel_servers import LOAD

SERVER = """
import asyncio
from typing import Any
from mcp.server.mcpserver import MCPServer

long = MCPServer("long", log_level="ERROR")

@long.tool()
def rows(count: int) -> list[dict[str, Any]]:
    "Returns rows."
    return [{"row": f"row-{i:04}"} for i in range(count)]

@long.tool()
def text(count: int) -> str:
    "Returns text."
    return "".join(f"<{i:05}>" for i in range(count))

@long.tool()
async def wait() -> str:
    "Never answers."
    await asyncio.sleep(3600)
"""
SETUP = [LOAD, SERVER, "%mcp connect long"]


@pytest.fixture(autouse=True)
def defaults(kernel):
    yield
    for line in ("display_rows = 20", "display_characters = 10000", "call_timeout = None", "timeout = 30.0"):
        kernel.ok(f"%config MCPMagics.{line}")


def rows_shown(kernel):
    """Count the rows of a table of 100 in the text and in the page."""
    data = kernel.ok("%mcp call long:rows count=100").data
    return data["text/plain"].count("row-0"), data["text/html"].count("row-0")


def test_how_much_is_shown_can_be_set(kernel):
    assert rows_shown(kernel) == (20, 20)
    assert 9_000 < len(kernel.ok("%mcp call long:text count=5000").text) < 11_000
    kernel.ok("%config MCPMagics.display_rows = 4\n%config MCPMagics.display_characters = 700")
    assert rows_shown(kernel) == (4, 4)
    text = kernel.ok("%mcp call long:text count=5000").text
    assert 600 < len(text) < 1_000
    assert "35" in text.replace(",", "").partition("00099")[2]  # its whole size: 35,000 characters


def test_time_outs_of_calls_and_of_the_handshake_can_be_set(kernel):
    kernel.ok("%config MCPMagics.call_timeout = 0.1\n%config MCPMagics.timeout = 0.3")
    cell = kernel.run("%mcp call long:wait")
    assert (cell.ename, "0.1" in cell.evalue) == ("RequestTimeoutError", True)
    cell = kernel.run("%mcp connect -- sleep 60")
    assert (cell.ename, "0.3 s" in cell.evalue) == ("ConnectTimeoutError", True)


def test_invalid_value_is_refused_and_changes_nothing(kernel):
    # IPython's `%config` says what a trait raises on stderr, for every configurable
    for line in ("display_rows = 0", "display_rows = 'many'", "display_rows = 2.5", "display_characters = 1"):
        assert f"'{line.partition(' ')[0]}' trait of" in kernel.run(f"%config MCPMagics.{line}").streams["stderr"]
    assert "'timeout' trait of" in kernel.run("%config MCPMagics.timeout = -1").streams["stderr"]
    unknown = kernel.run("%config MCPMagics.display_row = 3").streams["stderr"]
    assert "`display_row` not recognized by `MCPMagics`" in unknown
    assert rows_shown(kernel) == (20, 20)


def test_config_lists_the_settings_with_their_help_and_no_secret(kernel):
    kernel.ok("%config MCPMagics.threads = 'postgresql://me:sesame@db.example/threads?password=sesame'")
    kernel.ok("class Model:\n    def __repr__(self):\n        return 'sesame'\n%config MCPMagics.model = Model()")
    listed = kernel.ok("%config MCPMagics").stdout
    masked = "'postgresql://***@db.example/threads?password=***'"
    assert kernel.ok("%config MCPMagics.threads").text == masked
    refused = kernel.run("%config MCPMagics.tokens = 'sesame'").streams["stderr"]
    read = kernel.ok("kept = %config MCPMagics.threads\nkept.count('sesame')").text
    kernel.ok("%config MCPMagics.threads = ''\n%config MCPMagics.model = ''")
    for name in ("display_rows", "display_characters", "timeout", "call_timeout"):
        assert f"MCPMagics.{name}=" in listed
    assert "Rows shown of a table." in listed
    assert f"Current: {masked}" in listed
    assert "Current: <Model>" in listed
    assert "expected any of ['auto', 'keyring', 'file', 'memory'], not the str '***'" in refused
    assert "sesame" not in listed + refused
    assert read == "2"


def test_profile_loads_extension_and_beats_environment(start, tmp_path):
    profile = tmp_path / ".ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(
        "c = get_config()\nc.InteractiveShellApp.extensions = ['mcp_magic']\nc.MCPMagics.display_rows = 5\n"
    )
    variables = {"ROWS": "9", "CHARACTERS": "500"}
    own = {f"MCP_MAGIC_DISPLAY_{name}": value for name, value in variables.items()}
    kernel = start(**own, MCP_MAGIC_CALL_TIMEOUT="0.2", MCP_MAGIC_TIMEOUT="12")
    kernel.ok(SERVER)
    kernel.ok("%mcp connect long")
    for name, value in {"display_rows": "5", "display_characters": "500", "timeout": "12.0"}.items():
        assert kernel.ok(f"%config MCPMagics.{name}").text == value
    assert "0.2" in kernel.run("%mcp call long:wait").evalue
    assert rows_shown(kernel) == (5, 5)
    kernel.ok("%config MCPMagics.display_rows = 6")
    assert rows_shown(kernel) == (6, 6)
