"""What type checkers see: the public names, and stubs of servers. One run fills the cache of the next."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import mcp_magic
from mcp_magic.notebook import host as notebook_host
from mcp_magic.server.stubs import stubs
from tests.environments import ROOT
from tests.servers.bundled import load
from tests.serving.test_pages import SERVERS, SHADOWS

if TYPE_CHECKING:
    from pathlib import Path


def test_type_checkers_know_every_public_name_and_no_other(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"from mcp_magic import {', '.join(mcp_magic.__all__)}\n"
        "from mcp_magic import Conection  # type: ignore[attr-defined]\n"
        "import mcp_magic\n"
        "mcp_magic.hots  # type: ignore[attr-defined]\n"
        "mcp_magic.host.cal  # type: ignore[attr-defined]\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", program]  # with the cache of `make lint`
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stdout


async def test_stubs_are_modules_that_type_check(tmp_path: Path) -> None:
    files = []
    for name in SERVERS:
        opened = await notebook_host.connect(load(name).server, name=name.partition("_")[0])
        files.append(tmp_path / f"{opened.name}.py")
        files[-1].write_text(stubs(opened.name, await opened.listing("tools")))
    await notebook_host.close()
    files.append(tmp_path / "shadows.py")
    files[-1].write_text(stubs("shadows", SHADOWS))
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]  # with the cache of `make lint`
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stdout
