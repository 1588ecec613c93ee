"""Loads the extension into a shell (`%load_ext`) and removes it (`%unload_ext`)."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from mcp_magic import _startup as startup
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.execution import MAGICS, AwaitMagics, run_nested
from mcp_magic.ipython.extension import MCPMagics, help_asked
from mcp_magic.results.results import ToolCrashError

if TYPE_CHECKING:
    from types import TracebackType

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
    _hide_values(shell)
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
    from mcp_magic.ipython.ask import Asking, Eliciting, ask_no_more_in_replays, authorize_no_more, end_sampling
    from mcp_magic.ipython.progress import Reporting
    from mcp_magic.notebook import host

    startup.callbacks.remove(magics.prepare)
    authorize_no_more(host.logins)
    ask_no_more_in_replays()
    host.consent.magics = False
    if isinstance(host.approver, Asking):
        host.approver = None
    if isinstance(host.elicitor, Eliciting):
        host.elicitor = None
    if isinstance(host.reports.reporter, Reporting):
        host.reports.reporter = None
    end_sampling(host.sampling)
    ToolCrashError.show = traceback.format_exception


def _leave(shell: InteractiveShell, magics: MCPMagics) -> None:
    """Remove everything from the shell."""
    from mcp_magic.ipython.completion import uninstall
    from mcp_magic.ipython.live import shown_again

    vars(shell.InteractiveTB).pop("structured_traceback", None)
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


def _hide_values(shell: InteractiveShell) -> None:
    """Keep the values of our frames, which hold tokens and arguments, out of the tracebacks of `%xmode Verbose`."""
    tracebacks = shell.InteractiveTB
    format_all = tracebacks.structured_traceback

    def structured_traceback(etype: Any, evalue: Any = None, etb: Any = None, *args: Any, **options: Any) -> Any:
        if tracebacks.mode == "Verbose":
            _forget_values(evalue, etb)
        return format_all(etype, evalue, etb, *args, **options)

    vars(tracebacks)["structured_traceback"] = structured_traceback


def _forget_values(error: BaseException | None, traceback: TracebackType | None) -> None:
    """Clear the local variables of our frames and of what they called; the user's own cells keep theirs."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        below_ours = False
        for frame, _ in walk_tb(traceback):
            module = frame.f_globals.get("__name__", "")
            below_ours = below_ours or module.partition(".")[0] == "mcp_magic"
            if below_ours and module != "__main__":
                with suppress(RuntimeError):  # it still runs
                    frame.clear()
        error = error.__cause__ or error.__context__
        traceback = error.__traceback__ if error is not None else None


def _traceback(shell: InteractiveShell, crash: BaseException) -> list[str]:
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(crash), crash, crash.__traceback__)
    return lines


def _magics(shell: InteractiveShell) -> MCPMagics | None:
    found = shell.magics_manager.registry.get(MCPMagics.__name__)
    return found if isinstance(found, MCPMagics) else None
