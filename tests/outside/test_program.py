"""The command line of the proxy, and what it imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcp_magic.outside import program
from tests.support.stdio_proxy import serving, started, text

pytestmark = pytest.mark.usefixtures("folder")


async def test_line_names_the_kernel_and_says_what_is_wrong(folder, tmp_path, capsys):
    async with (
        serving("one", JPY_SESSION_NAME="one.ipynb"),
        serving("two", JPY_SESSION_NAME="two.ipynb"),
        started(tmp_path, "--folder", str(folder), "--kernel=two") as client,
    ):
        assert text(await client.call_tool("who", {})) == "two"
    for words, problem in (
        (["--port", "1"], "takes --folder FOLDER and --kernel NOTEBOOK, not '--port'"),
        (["--kernel"], "--kernel takes a value"),
        (["--folder", "~nobody-has-this-name"], "--folder FOLDER names another"),
    ):
        assert program.main(words) == 2
        out, problems = capsys.readouterr()
        assert out == ""
        assert problem in problems


def test_proxy_imports_nothing_heavy():
    heavy = ("mcp", "mcp_types", "pandas", "IPython", "pydantic", "starlette", "uvicorn", "langchain_core")
    code = f"import mcp_magic.outside.program, sys; print(*(name for name in {heavy} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"\n"


def test_help_says_what_it_is(capsys):
    assert program.main(["--help"]) == 0
    assert "An MCP server over stdio that is the running kernel of this folder" in capsys.readouterr().out
