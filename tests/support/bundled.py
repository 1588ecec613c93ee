"""Where the bundled servers are, and how tests reach them: as a process, or imported."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from tests.environments import ROOT

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = ROOT / "notebooks" / "servers"
_BELOW = f"{FOLDER}{os.sep}"  # making paths of the thousands of modules of a run takes longer than the import


def command(name: str, *options: str) -> list[str]:
    """Return the command that starts a bundled server, for example `command("math_server")`."""
    return [sys.executable, str(FOLDER / f"{name}.py"), *options]


def load(name: str) -> ModuleType:
    """Import a bundled server anew; its `server` shares no state with one that was imported before."""
    for imported, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(_BELOW):
            del sys.modules[imported]
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
