"""Kernels that start in a moment: forked from a process that has imported what they import (`zygote.py`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from traitlets import Unicode, default

from tests.environments import locked

if TYPE_CHECKING:
    from jupyter_client.connect import KernelConnectionInfo

__all__ = ["ForkingManager", "Specs"]

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
    """A forked kernel as its provisioner sees it: it is no child of this process."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return None if self.is_running() else 0

    def send_signal(self, sig: int) -> None:
        with suppress(psutil.NoSuchProcess):  # as `Popen` does
            super().send_signal(sig)


class Forked(LocalProvisioner):
    """Has the zygote of a kernel's Python fork it."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> KernelConnectionInfo:
        python, _, module, *arguments = cmd
        asked = {
            "argv": [module, *arguments],
            "cwd": str(options.get("cwd") or Path.cwd()),
            "env": dict(options.get("env") or os.environ),
        }
        with connected(python) as connection:
            socket.send_fds(connection, [b" "], [1, 2])
            connection.sendall(json.dumps(asked).encode())
            connection.shutdown(socket.SHUT_WR)
            self.pid = self.pgid = int(connection.recv(20))
        self.process = Process(self.pid)
        self.cwd = asked["cwd"]
        return self.connection_info


def connected(python: str) -> socket.socket:
    """Connect to the zygote of a Python, which all workers of a test run share, and the first that asks starts."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir(), f"mcp_magic_kernels_{run}_{Path(python).parents[1].name}")
    path = str(folder / "socket")
    connection = socket.socket(socket.AF_UNIX)
    with locked(folder / "lock"):
        try:
            connection.connect(path)
        except OSError:
            Path(path).unlink(missing_ok=True)
            subprocess.run(
                [python, "-Xfrozen_modules=off", ZYGOTE, path, str(run)], stdin=subprocess.DEVNULL, check=True
            )
            connection.connect(path)
    return connection


group = KernelProvisionerFactory.GROUP_NAME
KernelProvisionerFactory.instance().provisioners[Forked.__name__] = EntryPoint(
    Forked.__name__, f"{__name__}:{Forked.__name__}", group
)
