"""Loads the extension into a shell (`%load_ext`) and removes it (`%unload_ext`)."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from mcp_magic import _startup as startup
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.execution import MAGICS, AwaitMagics, run_nested
from mcp_magic.ipython.extension import MCPMagics, help_asked
from mcp_magic.results.results import ToolCrashError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load", "unload"]


def load(shell: InteractiveShell) -> None:
    """Register the magics, the transformer that awaits them, and the completer. Idempotent."""
    if _magics(shell) is not None:
        return
    from mcp_magic.ipython.completion import install

    magics = MCPMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_post.append(AwaitMagics(shell))
    shell.input_transformers_cleanup.append(help_asked)
    magics.history.install()
    magics.cells.install()
    magics.comm_status.install()
    install(shell, magics, magics.state)
    magics.follow_colours()
    shell.observe(magics.follow_colours, "colors")
    ToolCrashError.show = lambda crash: _traceback(shell, crash)
    startup.callbacks.append(magics.prepare)
    if "mcp_magic.notebook" in sys.modules:
        magics.prepare()


def unload(shell: InteractiveShell) -> None:
    """Close all sessions and remove everything that `load` added, even if closing fails or is interrupted."""
    magics = _magics(shell)
    if magics is None:
        return
    try:
        _close(magics)
    finally:
        _leave_the_host(magics)
        _leave(shell, magics)


def _close(magics: MCPMagics) -> None:
    from mcp_magic.notebook import host

    magics.telemetry = ""
    for serving in magics.state.served.values():
        run_nested(serving.stop())
    if len(host):
        run_nested(host.close())


def _leave_the_host(magics: MCPMagics) -> None:
    """Remove our callbacks from the host; callbacks that the user has set stay."""
    from mcp_magic.ipython.progress import Reporting
    from mcp_magic.notebook import host

    startup.callbacks.remove(magics.prepare)
    host.consent.magics = False
    if magics.asking is not None:
        magics.asking.uninstall()
    if isinstance(host.reports.reporter, Reporting):
        host.reports.reporter = None
    ToolCrashError.show = traceback.format_exception


def _leave(shell: InteractiveShell, magics: MCPMagics) -> None:
    """Remove everything from the shell."""
    from mcp_magic.ipython.completion import uninstall
    from mcp_magic.ipython.live import shown_again

    shell.unobserve(magics.follow_colours, "colors")
    MCPMagicError.coloured = True
    magics.comm_status.uninstall()
    magics.cells.uninstall()
    magics.history.uninstall()
    transformers = shell.input_transformers_post
    transformers[:] = [one for one in transformers if not isinstance(one, AwaitMagics)]
    asked = shell.input_transformers_cleanup
    asked[:] = [one for one in asked if one is not help_asked]
    for name in MAGICS:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(MCPMagics.__name__, None)
    shell.configurables.remove(magics)  # type: ignore[arg-type]
    uninstall(shell)
    shown_again(shell)


def _traceback(shell: InteractiveShell, crash: BaseException) -> list[str]:
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(crash), crash, crash.__traceback__)
    return lines


def _magics(shell: InteractiveShell) -> MCPMagics | None:
    found = shell.magics_manager.registry.get(MCPMagics.__name__)
    return found if isinstance(found, MCPMagics) else None
