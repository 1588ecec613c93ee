"""Starts a bundled server that speaks HTTP, for a notebook; it ends with the kernel."""

import atexit
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

FOLDER = Path(__file__).parent


def start(name: str, *options: str) -> str:
    """Start a server of this folder on a free port of 127.0.0.1 and return its URL.

    It runs in a session of its own, because an interrupt of the kernel goes to all processes of the kernel's group.
    It ends with its input, which the system closes when the kernel is gone, however that ended.

    Where a cassette answers in its place (`MCP_MAGIC_CASSETTE_MODE=replay`), nothing is started.
    """
    if os.environ.get("MCP_MAGIC_CASSETTE_MODE") == "replay":
        return "http://127.0.0.1:9/mcp"
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / name), "--port", "0", "--attached", *options],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(process.terminate)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            # what it writes from now on must not fill the pipe
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found[0]
    raise RuntimeError(f"{name} ended before it listened")
