"""The first connect of a process starts a stdio server before it imports the SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import psutil
import pytest
from mcp.client import stdio

from mcp_magic.stderr import INHERITED, ErrorLog, started_early
from tests.environments import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started early on POSIX")

PROGRAM = """
import asyncio, json, sys
import psutil
from mcp_magic import host

at_import = []

class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            at_import.append([child.pid for child in psutil.Process().children()])

async def main():
    sys.meta_path.insert(0, Spy())
    connection = await host.connect(sys.argv[1])
    data = (await connection.call("add", a=1, b=2)).data
    running = [child.pid for child in psutil.Process().children()]
    await host.close()
    print(json.dumps({"at import": at_import[0], "data": data, "running": running}))

asyncio.run(main())
"""


def test_the_server_starts_while_the_sdk_is_imported_and_is_the_one_that_answers() -> None:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "notebooks" / "servers" / "math_server.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=ROOT)
    seen = json.loads(done.stdout)

    assert len(seen["at import"]) == 1
    assert seen == {"at import": seen["running"], "data": 3, "running": seen["running"]}


async def test_a_server_that_was_started_early_ends_if_no_session_takes_it_over() -> None:
    before = set(psutil.Process().children())
    with ErrorLog() as errlog:
        async with started_early([sys.executable, "-c", "input()"], {}, None, errlog.file):
            (server,) = set(psutil.Process().children()) - before
        assert not server.is_running()


def test_it_gets_the_variables_that_the_sdk_passes_on() -> None:
    assert list(INHERITED) == stdio.DEFAULT_INHERITED_ENV_VARS
