"""What is imported, and which process is started, before the first connect and by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import psutil
import pytest
from mcp.client import stdio

from mcp_magic.config.specs import StdioSpec
from mcp_magic.stderr import INHERITED, started_early
from tests.environments import ROOT
from tests.support.bundled import FOLDER

POSIX = pytest.mark.skipif(os.name != "posix", reason="servers are started early on POSIX")

SPY = """
import asyncio, json, sys
import psutil

at_import = []

class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == BEFORE:
            at_import.append([child.pid for child in psutil.Process().children()])

sys.meta_path.insert(0, Spy())
"""

PROGRAM = """
BEFORE = "mcp"
from mcp_magic import host

async def main():
    connection = await host.connect(sys.argv[1])
    data = (await connection.call("add", a=1, b=2)).data
    running = [child.pid for child in psutil.Process().children()]
    await host.close()
    print(json.dumps({"at import": at_import[0], "data": data, "running": running}))

asyncio.run(main())
"""

LINES = """
BEFORE = "mcp_magic._host"
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "mcp_magic")
shell.run_line_magic("mcp", f"connect {sys.argv[1]} --name math")
data = shell.run_line_magic("mcp", "call math:add a=1 b=2").data
running = [child.pid for child in psutil.Process().children()]
shell.run_line_magic("mcp", "disconnect --all")
print(json.dumps({"at import": at_import[0], "data": data, "running": running}))
"""

FAILING = """
BEFORE = "mcp"
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "mcp_magic")
failed = shell.run_cell(f"%mcp connect {sys.argv[1]} --name math").error_in_exec
print(json.dumps({"at import": at_import, "error": type(failed).__name__}))
"""


def seen_by(program: str, target: str = str(FOLDER / "math_server.py"), **variables: str) -> Any:
    command = [sys.executable, "-c", SPY + program, target]
    env = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=ROOT, env=env)
    return json.loads(done.stdout.splitlines()[-1])


@POSIX
@pytest.mark.parametrize("program", [PROGRAM, LINES], ids=["program", "lines"])
def test_server_starts_before_heavy_imports_and_answers(program):
    seen = seen_by(program)
    assert len(seen["at import"]) == 1
    assert seen == {"at import": seen["running"], "data": 3, "running": seen["running"]}


@POSIX
def test_no_server_starts_for_a_cassette_or_an_invalid_target(tmp_path):
    seen = seen_by(FAILING, MCP_MAGIC_CASSETTE=str(tmp_path / "missing.jsonl"), MCP_MAGIC_CASSETTE_MODE="replay")
    assert seen == {"at import": [[]], "error": "CassetteError"}
    assert seen_by(FAILING, "nowhere") == {"at import": [], "error": "TargetError"}


@POSIX
async def test_early_server_ends_if_no_session_takes_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "mcp")  # as before the first connect
    before = set(psutil.Process().children())
    async with started_early(StdioSpec(command=sys.executable, args=("-c", "input()"))):
        (server,) = set(psutil.Process().children()) - before
    assert not server.is_running()
    assert list(INHERITED) == stdio.DEFAULT_INHERITED_ENV_VARS, "it gets the variables that the SDK passes on"


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
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["True", "False"], "")
