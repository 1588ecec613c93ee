"""Imports once what kernels import, and forks a program for each that asks at its socket: `zygote.py SOCKET PID`.

A program is a module that `python -m` runs: a kernel, or IPython in a terminal. It finds all of the tests' third-party
packages imported; mcp_magic it imports itself. The zygote goes on in the background as soon as it listens, and ends
with the process PID; its kernels end with it, as ipykernel's do when their parent has gone.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import termios
import threading
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

IMPORTS = (
    "IPython.terminal.ipapp ipykernel.kernelapp ipykernel.zmqshell ipykernel.debugger ipywidgets jedi httpx2 "
    "jsonschema markdown_it mcp.client.stdio mcp.client.streamable_http mcp.client.sse mcp.server.lowlevel "
    "mcp.server.mcpserver pandas uvicorn starlette.applications "
    "langchain_core.messages langchain_core.tools langgraph.graph"
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
            if asked and not os.fork():
                listener.close()
                if "script" in asked:
                    serve(connection, asked, streams)
                else:
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
    """Read what is asked for, and the three streams that the program is to have; nothing of somebody who only looks."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as file:
        return json.loads(file.readline() or "{}"), streams


def run(connection: socket.socket, asked: dict[str, Any], streams: list[int]) -> None:
    """Become the program, as `python -m` does; answer with the process id."""
    begin(asked, streams)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    module, *arguments = asked["argv"]
    if module == "ipykernel_launcher":
        arguments.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    sys.argv = [module, *arguments]
    with connection:
        connection.sendall(str(os.getpid()).encode())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def begin(asked: dict[str, Any], streams: list[int]) -> None:
    """Take the streams, the folder and the variables of a program."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])


def serve(connection: socket.socket, asked: dict[str, Any], streams: list[int]) -> None:
    """Run a script in a fork; answer with its process id, and with its exit code when it has ended.

    The script is killed if the launcher (`launcher.py`) that asked for it ends before it.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        connection.close()
        script(asked, streams)
    for descriptor in streams:
        os.close(descriptor)
    with connection:
        connection.sendall(f"{pid}\n".encode())
        ended = os.pidfd_open(pid)
        if ended not in select.select([ended, connection], [], [])[0]:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):
            connection.sendall(f"{code}\n".encode())
    os._exit(0)


def script(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Become a script, as `python SCRIPT` does."""
    begin(asked, streams)
    sys.argv = list(asked["script"])
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    path = Path(sys.argv[0])
    sys.path.insert(0, str(path.parent.absolute()))
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    code = 1
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end, but for its memory
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    del sys.path[0]  # this folder
    main(sys.argv[1], int(sys.argv[2]))
