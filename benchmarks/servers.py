"""The servers that are measured against: the bundled calculator over each transport, and one that is slow to start."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec, InProcessSpec, StdioSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ADD", "TOOL", "http", "in_process", "slow_to_start", "stdio"]

FOLDER = Path(__file__).resolve().parent.parent / "notebooks" / "servers"

TOOL, ADD = "add", {"a": 3, "b": 4}
"""The call that is timed: its answer is small, it has an output schema, and it takes the server no time."""

SERVE_HTTP = "import math_server, serving; serving.serve_http(math_server.server, 'http', '127.0.0.1', 0)"

END_SECONDS = 5.0


def in_process() -> InProcessSpec:
    """Return the calculator as an object of this process."""
    sys.path.insert(0, str(FOLDER))
    try:
        module = importlib.import_module("math_server")
    finally:
        sys.path.remove(str(FOLDER))
    return InProcessSpec(server=module.server)


def stdio() -> StdioSpec:
    """Return the calculator as a program."""
    return StdioSpec(command=sys.executable, args=(str(FOLDER / "math_server.py"),))


@contextmanager
def http() -> Iterator[HttpSpec]:
    """Run the calculator behind a free port of this machine."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE_HTTP],
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        if found is None:
            raise RuntimeError(f"the server did not start: {said}{process.stderr.read()}")
        yield HttpSpec(url=found[0])
    finally:
        process.terminate()
        process.wait(END_SECONDS)
        process.stderr.close()


def slow_to_start(seconds: float) -> StdioSpec:
    """Return a server that waits before it answers the handshake, as one does that installs or logs in first.

    It is written without the SDK, since importing that is work: eight of them would compete for the
    processor, and the time that this takes is no matter of the host.
    """
    script = Path(__file__).with_name("slow_server.py")
    return StdioSpec(command=sys.executable, args=("-S", "-E", str(script), str(seconds)))
