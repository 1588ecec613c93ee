"""A stdio server that tries what a sandbox refuses; of the standard library, so that it starts at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.plain import Plain

server = Plain("boxed")


@server.tool
def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


@server.tool
def write(path: str, text: str) -> str:
    """Write a file."""
    Path(path).write_text(text)
    return "written"


@server.tool
def connect(host: str, port: int) -> str:
    """Connect to a host."""
    with socket.create_connection((host, port), 10) as opened:
        return str(opened.getpeername()[1])


@server.tool
def run(command: str) -> str:
    """Run a command of the shell; return what it prints and its exit code."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}{done.returncode}"


@server.tool
def leave(command: str) -> int:
    """Start a command in a session of its own, and leave it running; return its process."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command.split(), start_new_session=True, **quiet).pid


@server.tool
def fill(size: int) -> int:
    """Take memory."""
    return len(bytearray(size))


@server.tool
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "")


if __name__ == "__main__":
    server.run()
