"""In a browser: the magics in JupyterLite's kernel under Pyodide, run by Node in the place of a page."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.pyodide.environment import HERE, mounted, node, runtime
from tests.support.bundled import command
from tests.support.processes import start_http

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif("MCP_MAGIC_PYODIDE" not in os.environ, reason="`make lite` runs it")

SERVER = '''%%mcp_server shop
def price(item: str, pieces: int = 1) -> float:
    "Tells the price of an item."
    return {"pen": 1.5, "book": 12.0}[item] * pieces
@resource("data://stock")
def stock() -> str:
    return "item,left\\npen,3"'''

CELLS = {
    "load": "%load_ext mcp_magic",
    "server": SERVER,
    "list": "%mcp",
    "call": "%mcp call shop:price item=pen pieces=4",
    "wrong": "%mcp call shop:price item=pen pieces=x",
    "crash": "%mcp call shop:price item=ink",
    "read": "%mcp read data://stock",
    "function": "def f():\n    return get_ipython().run_line_magic('mcp', 'call shop:price item=book')\nf()",
    "python": "from mcp_magic import host\nawait host['shop'].tools.price('book', pieces=2)",
    "http": "%mcp connect URL --name far",
    "far": "%mcp call far:forecast location=London days=2",
    "doctor": "%mcp doctor URL",
    "nobody": "%mcp connect http://127.0.0.1:9/mcp --name nobody",
    "stdio": "%mcp connect -- python server.py",
    "ws": "%mcp connect ws://127.0.0.1:9/mcp",
    "serve": "%mcp serve shop",
    "agent": "%%mcp_agent\nwhat is a pen?",
    "unload": "%unload_ext mcp_magic",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_http(command("weather_server", "--transport", "http", "--port", "0")) as running:
        yield running.url


@pytest.fixture(scope="module")
def shown(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each cell shows, of one kernel."""
    file = tmp_path_factory.mktemp("lite") / "cells.json"
    file.write_text(json.dumps([cell.replace("URL", url) for cell in CELLS.values()]))
    program = [*node(), str(HERE / "kernel.mjs"), str(file), str(runtime()), *map(str, mounted())]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(CELLS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("cell", ["load", "server", "read", "http", "unload"])
def test_cells_run_without_an_error(shown: dict[str, dict[str, Any]], cell: str) -> None:
    assert shown[cell]["error"] == ""


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ("list", "in-process"),
        ("call", "6.0"),
        ("read", "pen"),
        ("function", "12.0"),
        ("python", "24.0"),
        ("far", "2 rows"),
        ("doctor", "the browser makes the connection"),
        ("doctor", "healthy"),
    ],
)
def test_answers_are_shown(shown: dict[str, dict[str, Any]], cell: str, part: str) -> None:
    assert part in shown[cell]["text"], shown[cell]["error"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("wrong", "pieces: expected integer, got 'x'"),
        ("crash", "shop:price failed: KeyError: 'ink'"),
        ("nobody", "does it allow pages of other sites (CORS) to call it?"),
        ("stdio", "this Python runs in a browser and starts no programs. Connect to the URL"),
        ("ws", "this Python runs in a browser and opens no sockets. Connect to the URL"),
        ("serve", "%mcp serve: this Python runs in a browser, where no other program can reach it."),
        ("agent", "agents need LangGraph, and a Python in a browser has no package of it."),
    ],
)
def test_what_a_browser_lacks_is_said(shown: dict[str, dict[str, Any]], cell: str, message: str) -> None:
    assert message in shown[cell]["error"]
