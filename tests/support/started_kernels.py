"""Kernels with somebody before them, for the fixtures of modules."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.environments import kernel_python
from tests.support.frontends import Frontend
from tests.support.kernels import Kernel, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["THIS_KERNEL", "started"]

THIS_KERNEL = "this kernel"
"""The ipykernel of the environment that runs the tests; others by the names of `tests.environments.KERNEL_PACKAGES`."""


@contextmanager
def started(
    folder: Path, cells: Sequence[str], kernel: str = THIS_KERNEL, *, plain: bool = False, **variables: str
) -> Iterator[Frontend]:
    """Start a kernel in a folder, run cells in it, and show its widgets to somebody; end it at the end."""
    python = sys.executable if kernel == THIS_KERNEL else kernel_python(kernel)
    running = Kernel(folder, environment(folder, **variables), python, plain=plain)
    try:
        for code in cells:
            running.ok(code)
        yield Frontend(running)
    finally:
        running.shutdown()
