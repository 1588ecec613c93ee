"""What tests in a kernel connect to: lines for `%mcp connect`, one a transport."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments import ROOT
from tests.support.bundled import FOLDER

if TYPE_CHECKING:
    from tests.support.kernels import Kernel

__all__ = ["HERE", "MATH", "SHOWCASE", "SMALL", "WEATHER", "command", "connect_in_process"]

HERE = Path(__file__).parent
MATH, SHOWCASE, WEATHER = (FOLDER / f"{name}_server.py" for name in ("math", "showcase", "weather"))
SMALL = [sys.executable, str(ROOT / "benchmarks" / "slow_server.py"), "0"]
"""The command of a server that starts in a few milliseconds; its only tool is `echo`."""


def command(name: str, *options: str) -> list[str]:
    """Return the command that starts a server of this folder."""
    return [sys.executable, str(HERE / f"{name}.py"), *options]


def connect_in_process(kernel: Kernel, script: Path, name: str) -> None:
    """Import a server file into the kernel and connect its `server` as `name`."""
    kernel.ok(f"import sys\nsys.path.insert(0, {str(script.parent)!r})\nfrom {script.stem} import server as {name}")
    kernel.ok(f"%mcp connect {name}")
