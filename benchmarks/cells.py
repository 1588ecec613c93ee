"""A `%mcp call` cell against `await client.call_tool(...)` in a cell, in a real kernel, as a frontend sees them."""

from __future__ import annotations

import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.servers import CALCULATOR
from benchmarks.timing import Result, compared, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["run"]

SETUP = """
%load_ext mcp_magic
from mcp_magic import host
%mcp connect {server} --name math
client = host["math"].client
"""
OURS = "%mcp call math:add a=3 b=4"
THEIRS = 'await client.call_tool("add", {"a": 3, "b": 4})'

WAIT_SECONDS = 60.0


def run(*, quick: bool = False) -> list[Result]:
    """Measure from sending a cell until the kernel is idle again, the display of the result included."""
    with tempfile.TemporaryDirectory() as folder, kernel(folder) as client:
        execute(client, SETUP.format(server=CALCULATOR))
        if not (execute(client, OURS) and execute(client, THEIRS)):
            raise RuntimeError("a cell showed no result")
        taken = pairs(lambda: execute(client, OURS), lambda: execute(client, THEIRS), 3 if quick else 100)
    return [compared("cell: %mcp call", taken, note="against await client.call_tool() in a cell")]


@contextmanager
def kernel(folder: str) -> Iterator[Any]:
    """Run a kernel and yield a client to it that is ready."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=folder, stderr=subprocess.DEVNULL)  # it warns that it listens without encryption
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=WAIT_SECONDS)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def execute(client: Any, code: str) -> bool:
    """Run a cell until the kernel is idle again; return whether it showed a value.

    Raises:
        RuntimeError: The cell failed; the message is its traceback.
    """
    message_id = client.execute(code, allow_stdin=False)
    deadline = time.monotonic() + WAIT_SECONDS
    kinds: list[str] = []
    while True:
        message = client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.01))
        if message["parent_header"].get("msg_id") != message_id:
            continue
        kinds.append(message["msg_type"])
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(message["content"]["traceback"]))
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    client.get_shell_msg(timeout=max(deadline - time.monotonic(), 0.01))
    return "execute_result" in kinds
