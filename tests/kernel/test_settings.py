from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_magic.errors import ConfigError
from mcp_magic.ipython.settings import Settings
from tests.support.kernel_servers import SHOWCASE, connect_in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.kernels import Kernel

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


@pytest.fixture(scope="module", autouse=True)
def servers(kernel: Kernel) -> None:
    kernel.ok(SERVER)
    kernel.ok("%mcp connect long")


@pytest.fixture(autouse=True)
def defaults(kernel: Kernel) -> Iterator[None]:
    yield
    for line in ("display_rows = 20", "display_characters = 10000", "call_timeout = None", "timeout = 30.0"):
        kernel.ok(f"%config MCPMagics.{line}")


def rows_shown(kernel: Kernel) -> tuple[int, int]:
    """Count the rows of a table of 100 in the text and in the page."""
    data = kernel.ok("%mcp call long:rows count=100").data
    return data["text/plain"].count("row-0"), data["text/html"].count("row-0")


def test_the_number_of_rows_can_be_set(kernel: Kernel) -> None:
    before = rows_shown(kernel)
    kernel.ok("%config MCPMagics.display_rows = 4")

    assert before[0] == before[1] == 20
    assert rows_shown(kernel) == (4, 4)


def test_the_number_of_characters_can_be_set(kernel: Kernel) -> None:
    before = kernel.ok("%mcp call long:text count=5000").text
    kernel.ok("%config MCPMagics.display_characters = 700")
    after = kernel.ok("%mcp call long:text count=5000").text

    assert 9_000 < len(before) < 11_000
    assert 600 < len(after) < 1_000
    assert "35" in after.replace(",", "").partition("00099")[2]  # its whole size: 35,000 characters


def test_the_time_out_of_calls_can_be_set(kernel: Kernel) -> None:
    kernel.ok("%config MCPMagics.call_timeout = 0.1")

    cell = kernel.run("%mcp call long:wait")

    assert cell.ename == "RequestTimeoutError"
    assert "0.1" in cell.evalue


def test_the_time_out_of_the_handshake_can_be_set(kernel: Kernel) -> None:
    kernel.ok("import sys\n%config MCPMagics.timeout = 0.3")

    cell = kernel.run("%mcp connect -- sleep 60")

    assert cell.ename == "ConnectTimeoutError"
    assert "0.3 s" in cell.evalue


@pytest.mark.parametrize(
    "line",
    ["display_rows = 0", "display_rows = 'many'", "display_rows = 2.5", "display_characters = 1", "timeout = -1"],
)
def test_invalid_value_is_refused_and_changes_nothing(kernel: Kernel, line: str) -> None:
    cell = kernel.run(f"%config MCPMagics.{line}")

    # IPython's `%config` says what a trait raises on stderr, for every configurable
    assert f"'{line.partition(' ')[0]}' trait of" in cell.streams["stderr"]
    assert rows_shown(kernel) == (20, 20)


def test_an_unknown_setting_is_said_to_be_unknown(kernel: Kernel) -> None:
    cell = kernel.run("%config MCPMagics.display_row = 3")

    assert "`display_row` not recognized by `MCPMagics`" in cell.streams["stderr"]


def test_config_lists_the_settings_with_their_help(kernel: Kernel) -> None:
    said = kernel.ok("%config MCPMagics").stdout

    for name in ("display_rows", "display_characters", "timeout", "call_timeout"):
        assert f"MCPMagics.{name}=" in said
    assert "Rows shown of a table." in said


def test_secret_setting_is_masked_but_readable_in_code(kernel: Kernel) -> None:
    kernel.ok("%config MCPMagics.threads = 'postgresql://me:sesame@db.example/threads?password=sesame'")
    kernel.ok("class Model:\n    def __repr__(self):\n        return 'sesame'\n%config MCPMagics.model = Model()")
    listed = kernel.ok("%config MCPMagics").stdout
    shown = kernel.ok("%config MCPMagics.threads").text
    refused = kernel.run("%config MCPMagics.tokens = 'sesame'").streams["stderr"]
    read = kernel.ok("found = %config MCPMagics.threads\nfound.count('sesame')").text
    kernel.ok("%config MCPMagics.threads = ''\n%config MCPMagics.model = ''")

    assert "Current: 'postgresql://***@db.example/threads?password=***'" in listed
    assert "Current: <Model>" in listed
    assert shown == "'postgresql://***@db.example/threads?password=***'"
    assert "expected any of ['auto', 'keyring', 'file', 'memory'], not the str '***'" in refused
    assert "sesame" not in listed + refused
    assert read == "2"


def test_environment_variables_set_what_nobody_else_did(start: Callable[..., Kernel]) -> None:
    kernel = start(MCP_MAGIC_DISPLAY_ROWS="7", MCP_MAGIC_CALL_TIMEOUT="0.2", MCP_MAGIC_TIMEOUT="12")
    kernel.ok("%load_ext mcp_magic")
    kernel.ok(SERVER)
    kernel.ok("%mcp connect long")

    assert rows_shown(kernel) == (7, 7)
    assert kernel.ok("%config MCPMagics.timeout").text == "12.0"
    assert "0.2" in kernel.run("%mcp call long:wait").evalue


def test_a_wrong_environment_variable_is_an_error_that_names_it(start: Callable[..., Kernel]) -> None:
    kernel = start(MCP_MAGIC_DISPLAY_ROWS="many")

    cell = kernel.run("%load_ext mcp_magic")

    assert (cell.status, cell.ename) == ("error", "ConfigError")
    assert "MCP_MAGIC_DISPLAY_ROWS: 'many' does not fit" in cell.evalue
    assert len(cell.shown_error.splitlines()) == 1


def test_secret_in_wrong_environment_variable_is_masked() -> None:
    settings = Settings()
    for name, value, shown in (
        ("TOKENS", "sesame-1234", "***"),
        ("APPROVAL", "https://me:sesame@auth.example.com", "'https://***@auth.example.com'"),
        ("TELEMETRY", "http://me:sesame@otel.example.com:4318", "'http://***@otel.example.com:4318' is none of"),
    ):
        with pytest.raises(ConfigError) as refused:
            settings.read_environment({f"MCP_MAGIC_{name}": value})
        assert shown in str(refused.value)
        assert "sesame" not in str(refused.value)


def test_profile_loads_extension_and_beats_environment(start: Callable[..., Kernel], tmp_path: Path) -> None:
    profile = tmp_path / ".ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(
        "c = get_config()\nc.InteractiveShellApp.extensions = ['mcp_magic']\nc.MCPMagics.display_rows = 5\n"
    )
    kernel = start(MCP_MAGIC_DISPLAY_ROWS="9", MCP_MAGIC_DISPLAY_CHARACTERS="500")
    connect_in_process(kernel, SHOWCASE, "showcase")

    assert kernel.ok("%config MCPMagics.display_rows").text == "5"
    assert kernel.ok("%config MCPMagics.display_characters").text == "500"
    kernel.ok(SERVER)
    kernel.ok("%mcp connect long")
    assert rows_shown(kernel) == (5, 5)
    kernel.ok("%config MCPMagics.display_rows = 6")
    assert rows_shown(kernel) == (6, 6)
