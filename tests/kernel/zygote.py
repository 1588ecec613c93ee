"""Imports once what kernels import, and forks a kernel for each that asks at its socket: `zygote.py SOCKET PID`.

It knows nothing of mcp_magic, which each kernel imports itself. It goes on in the background as soon as it listens, and
ends with the process PID; its kernels end with it, as ipykernel's do when their parent has gone.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

IMPORTS = (
    "ipykernel.kernelapp ipykernel.zmqshell ipykernel.debugger ipywidgets jedi httpx2 jsonschema markdown_it "
    "mcp.client.stdio mcp.client.streamable_http mcp.client.sse mcp.server.lowlevel mcp.server.mcpserver pandas "
    "uvicorn starlette.applications langchain_core.messages langchain_core.tools langgraph.graph"
)
"""What most kernels of the tests import and takes them longest; older kernels have not all of it."""

LOOK_SECONDS = 1.0
"""How often it looks whether the process that it works for is there."""


def main(path: str, owner: int) -> None:
    for name in IMPORTS.split():
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the memory that is not passed over is not copied into each kernel
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # kernels that have ended are no zombies
    while alive(owner):
        if select.select([listener], [], [], LOOK_SECONDS)[0]:
            connection, _ = listener.accept()
            asked, streams = read(connection)
            if not os.fork():
                listener.close()
                run(connection, asked, streams)
                return
            for descriptor in (*streams, connection.detach()):
                os.close(descriptor)
    shutil.rmtree(Path(path).parent, ignore_errors=True)


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def read(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read what is asked for, and the stdout and stderr that the kernel is to have."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 2)
    with connection.makefile() as file:
        return json.loads(file.read()), streams


def run(connection: socket.socket, asked: dict[str, Any], streams: list[int]) -> None:
    """Become a kernel, as `python -m ipykernel_launcher` is one; answer with the process id."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, *streams)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = [*asked["argv"], f"--IPKernelApp.parent_handle={os.getppid()}"]
    with connection:
        connection.sendall(str(os.getpid()).encode())
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


if __name__ == "__main__":
    del sys.path[0]  # this folder
    main(sys.argv[1], int(sys.argv[2]))
