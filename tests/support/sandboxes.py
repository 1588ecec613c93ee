"""Servers in sandboxes, and what tests of them need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcp_magic.sandbox.backends import Sandlock
from tests.support.processes import PYTHON

REPOSITORY = Path(__file__).parents[2]
BOXED = [PYTHON, str(Path(__file__).with_name("boxed_server.py"))]
"""The command of a server that tries what a sandbox refuses; it needs to read `REPOSITORY`."""

PROBLEM = Sandlock().problem()
needs_sandlock = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)

BIN = str(Path(PYTHON).parent)
needs_uv = pytest.mark.skipif(not shutil.which("uvx", path=BIN), reason="uv is not installed")


def boxed(*words: str) -> str:
    """Return the line of a sandbox in which the server runs."""
    return ",".join((f"read={REPOSITORY}", *words))
