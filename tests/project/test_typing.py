"""What type checkers see: the public names, and stubs of servers. One run of mypy, which reads nothing but ours."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest_asyncio

import mcp_magic
from mcp_magic.notebook import host as notebook_host
from mcp_magic.server.stubs import stubs
from tests.environments import ROOT, cache
from tests.support.bundled import load
from tests.support.shadows import SHADOWS

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = f"""
from mcp_magic import {", ".join(mcp_magic.__all__)}
from mcp_magic import Conection  # type: ignore[attr-defined]
import mcp_magic
mcp_magic.hots  # type: ignore[attr-defined]
mcp_magic.host.cal  # type: ignore[attr-defined]
"""

CONFIG = """
[mypy]
strict = true
follow_imports = skip
cache_dir = {cache}

[mypy-mcp_magic.*]
follow_imports = silent
"""
"""`make lint` checks the package itself: here its names are what matters, and no other package."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checked(tmp_path_factory):
    """What mypy says of a program and of the stubs of all bundled servers, a line each."""
    folder: Path = tmp_path_factory.mktemp("typed")
    modules = {"program": PROGRAM, "shadows": stubs("shadows", SHADOWS)}
    for name in ("math_server", "weather_server", "showcase_server"):
        opened = await notebook_host.connect(load(name).server, name=name.partition("_")[0])
        modules[opened.name] = stubs(opened.name, await opened.listing("tools"))
    await notebook_host.close()
    config = folder / "mypy.ini"
    config.write_text(CONFIG.format(cache=cache() / "mypy"))
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), *map(str, folder.glob("*.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=ROOT)
    assert f"{len(modules)} source files" in done.stdout, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_type_checkers_know_every_public_name_and_no_other(checked):
    assert [line for line in checked if "program.py" in line] == []


def test_stubs_are_modules_that_type_check(checked):
    assert [line for line in checked if ": error: " in line and "program.py" not in line] == []
