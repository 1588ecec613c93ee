from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from tests.kernel.servers import MATH, SHOWCASE, connect_in_process

if TYPE_CHECKING:
    from tests.kernel.driving import Kernel

COUNTS = (
    "ip = get_ipython()\n"
    "(sum(type(t).__name__ == 'AwaitMagics' for t in ip.input_transformers_post),"
    " sum(getattr(m, 'matcher_identifier', '') == 'mcp_magic' for m in ip.Completer.custom_matchers),"
    " sum(type(c).__name__ == 'MCPMagics' for c in ip.configurables),"
    " 'mcp' in ip.magics_manager.magics['line'], 'mcp' in ip.magics_manager.magics['cell'])"
)


@pytest.fixture
def calculator(kernel: Kernel) -> Kernel:
    """The kernel, with the extension loaded and a session open."""
    if "mcp" not in kernel.ok("%lsmagic").text:
        kernel.ok("%load_ext mcp_magic")
    connect_in_process(kernel, MATH, "calculator")
    return kernel


def test_loading_imports_nothing_heavy(kernel: Kernel) -> None:
    heavy = "{'mcp', 'pandas', 'langgraph', 'langchain_core', 'jsonschema', 'pydantic', 'httpx2'}"

    assert kernel.ok(f"import sys\nsorted({heavy} & set(sys.modules))").text == "[]"


def test_loading_twice_adds_everything_once_and_keeps_the_sessions(calculator: Kernel) -> None:
    cell = calculator.ok("%load_ext mcp_magic")

    assert cell.outputs == []
    assert "already loaded" in cell.stdout
    assert calculator.ok(COUNTS).text == "(1, 1, 1, True, True)"
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"


def test_reloading_leaves_everything_there_once(calculator: Kernel) -> None:
    calculator.ok("%reload_ext mcp_magic")

    assert calculator.ok(COUNTS).text == "(1, 1, 1, True, True)"
    calculator.ok("%mcp connect calculator")
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"


def test_unloading_takes_everything_away_and_ends_the_servers(calculator: Kernel) -> None:
    calculator.ok(f"%mcp connect {SHOWCASE}")
    servers = calculator.process.children(recursive=True)
    assert len(servers) == 1

    cell = calculator.ok("%unload_ext mcp_magic")

    assert cell.streams == {}
    assert psutil.wait_procs(servers, timeout=3)[1] == []
    assert calculator.ok(COUNTS).text == "(0, 0, 0, False, False)"
    assert calculator.ok("from mcp_magic import host\nlen(host)").text == "0"
    assert "not found" in str(calculator.run("%mcp").streams)
    assert calculator.complete("%mcp connect cal") == []


def test_after_unloading_it_can_be_loaded_and_used_again(calculator: Kernel) -> None:
    calculator.ok("%unload_ext mcp_magic")

    calculator.ok("%load_ext mcp_magic")

    assert calculator.ok("%mcp").text.splitlines()[1].startswith("no server is connected")
    calculator.ok("%mcp connect calculator")
    assert calculator.ok("r = %mcp call calculator:add a=1 b=2\nr.data").text == "3"
    assert calculator.ok(COUNTS).text == "(1, 1, 1, True, True)"
