"""The first connect of a process starts a stdio server before it imports the SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from mcp.client import stdio

from mcp_magic.stderr import INHERITED
from tests.environments import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started early on POSIX")

PROGRAM = """
import asyncio, json, sys
import psutil
from mcp_magic import host

fails = sys.argv[2] == "fails"
at_import = []

class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            at_import.append([child.pid for child in psutil.Process().children()])
            if fails:
                raise RuntimeError("no SDK")

async def main():
    sys.meta_path.insert(0, Spy())
    try:
        connection = await host.connect(sys.argv[1])
        said = (await connection.call("add", a=1, b=2)).data
        running = [child.pid for child in psutil.Process().children()]
        await host.close()
    except Exception as error:
        said, running = type(error).__name__, []
    left = [child.pid for child in psutil.Process().children() if child.status() != "zombie"]
    print(json.dumps({"at import": at_import[0], "said": said, "running": running, "left": left}))

asyncio.run(main())
"""


def connected(how: str) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "notebooks" / "servers" / "math_server.py"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=ROOT)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_the_server_starts_while_the_sdk_is_imported_and_is_the_one_that_answers() -> None:
    seen = connected("works")

    assert len(seen["at import"]) == 1
    assert seen == {"at import": seen["running"], "said": 3, "running": seen["running"], "left": []}


def test_a_server_that_was_started_early_ends_if_the_connect_fails() -> None:
    seen = connected("fails")

    assert len(seen["at import"]) == 1
    assert seen["left"] == []


def test_it_gets_the_variables_that_the_sdk_passes_on() -> None:
    assert list(INHERITED) == stdio.DEFAULT_INHERITED_ENV_VARS
