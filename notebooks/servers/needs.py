"""What a notebook needs besides Python: says so where it is missing, and skips the cells below."""

import os
import shutil
from pathlib import Path

from IPython.core.getipython import get_ipython

KEPT = Path(__file__).resolve().parents[2] / ".cache" / "node"
"""Where the tests of this repository keep packages of Node."""


def node() -> None:
    """Do nothing where Node's `npx` is installed; elsewhere the cells that follow say that they are skipped.

    Where a cassette answers (`MCP_MAGIC_CASSETTE_MODE=replay`), nothing is needed.
    """
    if shutil.which("npx") is None and os.environ.get("MCP_MAGIC_CASSETTE_MODE") != "replay":
        skip_the_rest("Node 18 or newer is not installed (no npx on PATH); get it at https://nodejs.org")


def skip_the_rest(reason: str) -> None:
    """Let each cell that follows print that it is skipped instead of running, until the kernel is restarted."""
    shell = get_ipython()
    print(f"{reason}. The cells below are skipped: restart the kernel when it is there.")
    if shell is not None:
        shell.input_transformers_cleanup.insert(0, lambda lines: ["print('skipped')\n"])


def npm_folder() -> str:
    """Return the folder in which `npx` looks for packages before it asks the registry."""
    return str(KEPT if (KEPT / "node_modules").is_dir() else Path.cwd())
