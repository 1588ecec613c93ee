"""Programs that start in a moment: forked from a process that has imported what they import (`zygote.py`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from importlib.metadata import EntryPoint, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from packaging.version import Version
from traitlets import Unicode, default

from tests.environments import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_client.connect import KernelConnectionInfo

__all__ = ["ForkingManager", "Process", "Specs", "fork"]

ZYGOTE = Path(__file__).with_name("zygote.py")


class Specs(KernelSpecManager):
    """The kernel of a Python, forked, whatever name it is asked for by."""

    python = Unicode(sys.executable)

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        how = {"kernel_provisioner": {"provisioner_name": Forked.__name__}}
        return KernelSpec(argv=argv, display_name=kernel_name, language="python", metadata=how)


class ForkingManager(AsyncKernelManager):
    """What `nbclient` starts its kernel with."""

    @default("kernel_spec_manager")
    def _forked(self) -> Specs:
        return Specs()


class Process(psutil.Process):
    """A forked program, which is no child of this process, as a kernel's provisioner sees one."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return None if self.is_running() else 0

    def send_signal(self, sig: int) -> None:
        with suppress(psutil.NoSuchProcess):  # as `Popen` does
            super().send_signal(sig)


class Forked(LocalProvisioner):
    """Has the zygote of a kernel's Python fork it.

    It listens on files: a free port may be taken by another program before a kernel that was given it listens there.
    Older kernels keep their ports: they are reached anew where they leave a request unread (`Kernel.wake`).
    """

    async def pre_launch(self, **options: Any) -> dict[str, Any]:
        python = self.kernel_spec.argv[0]
        is_new = python == sys.executable and Version(version("ipykernel")) >= Version("7.4")
        if is_new and self.parent.transport != "ipc":  # else it is started again
            self.parent.transport = "ipc"
            self.parent.ip = str(folder_for(python) / uuid.uuid4().hex)
        return await super().pre_launch(**options)

    async def launch_kernel(self, cmd: list[str], **options: Any) -> KernelConnectionInfo:
        python, _, module, *arguments = cmd
        self.cwd = options["cwd"]
        with Path(os.devnull).open() as nothing:
            streams = (nothing.fileno(), 1, 2)
            self.pid = self.pgid = fork([module, *arguments], self.cwd, options["env"], streams, python)
        self.process = Process(self.pid)
        return self.connection_info


def fork(
    argv: list[str],
    cwd: Path | str,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    python: str = sys.executable,
) -> int:
    """Have a program run as `python -m` runs it; return its process id.

    Args:
        argv: The module and its arguments.
        cwd: The working directory.
        env: The variables.
        streams: The descriptors of stdin, stdout and stderr; a terminal becomes its controlling one.
        python: The interpreter.
    """
    asked = {"argv": argv, "cwd": str(cwd), "env": dict(env)}
    with connected(python) as connection:
        socket.send_fds(connection, [b" "], streams)
        connection.sendall(json.dumps(asked).encode() + b"\n")
        return int(connection.recv(20))


def run_id() -> int:
    """Return the process of the test run, which all of its workers share."""
    return int(os.environ.get("TEST_RUN_PID", os.getpid()))


def folder_for(python: str) -> Path:
    """Return the folder of a Python's zygote, which removes it in the end."""
    prefix = f"mcp_magic_kernels_{run_id()}_"
    return Path(tempfile.gettempdir(), prefix + Path(python).parents[1].name.removeprefix(prefix))


def connected(python: str) -> socket.socket:
    """Connect to the zygote of a Python, which all workers of a test run share, and the first that asks starts."""
    path = str(folder_for(python) / "socket")
    connection = socket.socket(socket.AF_UNIX)
    with locked(folder_for(python) / "lock"):
        try:
            connection.connect(path)
        except OSError:
            Path(path).unlink(missing_ok=True)
            subprocess.run(_zygote(python), stdin=subprocess.DEVNULL, check=True)
            connection.connect(path)
    return connection


group = KernelProvisionerFactory.GROUP_NAME
KernelProvisionerFactory.instance().provisioners[Forked.__name__] = EntryPoint(
    Forked.__name__, f"{__name__}:{Forked.__name__}", group
)


def install_launcher() -> Callable[[], None]:
    """Let `sys.executable` be a program that has the zygote fork the scripts that it runs (`launcher.py`).

    Returns:
        What waits until the zygote has made its imports, which takes some seconds.
    """
    python, folder = sys.executable, folder_for(sys.executable)
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    launcher = Path(__file__).with_name("launcher.py")
    program.write_text(f'#!/bin/sh\nexec "{python}" -IS "{launcher}" "{python}" "{folder / "socket"}" "$@"\n')
    program.chmod(0o755)
    sys.executable = str(program)
    os.environ["TEST_PYTHON"] = python
    starting = subprocess.Popen(_zygote(python), stdin=subprocess.DEVNULL)

    def wait() -> None:
        if starting.wait():
            raise RuntimeError(f"{ZYGOTE} ended with code {starting.returncode}")

    return wait


def _zygote(python: str) -> list[str]:
    path = str(folder_for(python) / "socket")
    return [python, "-Xfrozen_modules=off", str(ZYGOTE), path, str(run_id())]
