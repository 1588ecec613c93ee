"""A plugin of pytest: kernels of notebooks under nbval listen on files.

A free port may be taken by another program before a kernel that was given it listens there, which then dies.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import nbval.kernel
from jupyter_client import KernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import default


class OnFiles(KernelManager):
    """A manager of such a kernel."""

    @default("transport")
    def _files(self) -> str:
        return "ipc"

    @default("ip")
    def _path(self) -> str:
        return str(Path(jupyter_runtime_dir()) / uuid.uuid4().hex)


def pytest_configure() -> None:
    """Let nbval start its kernels with it."""
    nbval.kernel.KernelManager = OnFiles
