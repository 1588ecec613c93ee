"""The first connect of a process starts a stdio server before heavy imports: the SDK, and in a line the host too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from mcp.client import stdio

from mcp_magic.config.specs import StdioSpec
from mcp_magic.stderr import INHERITED, started_early
from tests.environments import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started early on POSIX")

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


def seen_by(
    program: str, target: str = str(ROOT / "notebooks" / "servers" / "math_server.py"), **variables: str
) -> Any:
    command = [sys.executable, "-c", SPY + program, target]
    env = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=ROOT, env=env)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", [PROGRAM, LINES], ids=["program", "lines"])
def test_server_starts_before_heavy_imports_and_answers(program: str) -> None:
    seen = seen_by(program)

    assert len(seen["at import"]) == 1
    assert seen == {"at import": seen["running"], "data": 3, "running": seen["running"]}


def test_no_server_starts_where_a_cassette_answers(tmp_path: Path) -> None:
    seen = seen_by(FAILING, MCP_MAGIC_CASSETTE=str(tmp_path / "missing.jsonl"), MCP_MAGIC_CASSETTE_MODE="replay")

    assert seen == {"at import": [[]], "error": "CassetteError"}


def test_invalid_target_is_refused_before_sdk_import() -> None:
    assert seen_by(FAILING, "nowhere") == {"at import": [], "error": "TargetError"}


async def test_early_server_ends_if_no_session_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "mcp")  # as before the first connect
    before = set(psutil.Process().children())
    async with started_early(StdioSpec(command=sys.executable, args=("-c", "input()"))):
        (server,) = set(psutil.Process().children()) - before
    assert not server.is_running()


def test_it_gets_the_variables_that_the_sdk_passes_on() -> None:
    assert list(INHERITED) == stdio.DEFAULT_INHERITED_ENV_VARS
