"""What `%load_ext mcp_magic` adds to the start of IPython, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.timing import Result, at_most, compared, pairs

__all__ = ["run"]

GOAL = 1.4

HEAVY = ("mcp", "mcp_types", "pandas", "numpy", "langgraph", "langchain_core", "jsonschema", "httpx2", "pydantic")
"""Modules that loading the extension must not import."""

LOAD = "%load_ext mcp_magic"
LOADED = f"{LOAD}\nimport sys\nprint(' '.join(name for name in {HEAVY!r} if name in sys.modules))"


def run(*, quick: bool = False) -> list[Result]:
    """Measure whole processes of terminal IPython."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "IPYTHONDIR": folder}
        taken = pairs(lambda: ipython(LOAD, env), lambda: ipython("pass", env), 3 if quick else 12)
        before = set(ipython(LOADED.removeprefix(LOAD), env).split())
        imported = sorted(set(ipython(LOADED, env).split()) - before)
    return [
        compared("%load_ext mcp_magic", taken, goal=GOAL, unit="s", note="against ipython -c pass"),
        at_most("%load_ext: heavy imports", len(imported), 0, "modules", " ".join(imported) or "no mcp, pandas, ..."),
    ]


def ipython(code: str, env: dict[str, str]) -> str:
    """Run a line in an IPython of its own and return what it prints."""
    command = [sys.executable, "-m", "IPython", "-c", code]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    if "rror" in done.stderr + done.stdout:
        raise RuntimeError(done.stderr + done.stdout)
    return done.stdout
