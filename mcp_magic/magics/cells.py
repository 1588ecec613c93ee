"""Which cell asks, and what is known of the frontend that runs it.

ipykernel keeps, for each task, the message that caused it (its "parent"). The message of a cell says
whether its frontend takes input, and frontends with cells name the cell in it: those are the ones that show widgets.
A console or a script that executes code names none.
"""

from __future__ import annotations

import sys
from contextvars import Context, copy_context
from dataclasses import dataclass
from inspect import currentframe, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["Cells", "Circumstances", "kernel_version", "loops_on_this_stack"]


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Where a question comes up.

    Attributes:
        kernel: The version of ipykernel; None in a terminal.
        running: Whether the cell that asks is still running. A task that outlives its cell asks as well.
        nested: Whether the cell waits in a nested event loop: called from a function, by `%time`, by plain Python.
        allow_stdin: Whether somebody can be asked with `input()`.
        widgets: Whether the frontend shows widgets.
        subshells: Whether it sends their messages to a subshell.
    """

    kernel: tuple[int, ...] | None = None
    running: bool = True
    nested: bool = False
    allow_stdin: bool = False
    widgets: bool = False
    subshells: bool = False


class Cells:
    """Follows the cells of a shell.

    Attributes:
        latest: The context of the latest cell: what is shown from there appears below it.
        started: Called whenever a cell has begun.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._running: dict[str, dict[str, Any]] = {}
        self._with_widgets: set[str] = set()
        self.latest: Context | None = None
        self.started: list[Callable[[], None]] = []
        self._starts()  # the cell that loads the extension is running already

    def install(self) -> None:
        """Follow the cells from now on."""
        self._shell.events.register("pre_run_cell", self._starts)
        self._shell.events.register("post_run_cell", self._ends)

    def uninstall(self) -> None:
        """Follow them no longer."""
        self._shell.events.unregister("pre_run_cell", self._starts)
        self._shell.events.unregister("post_run_cell", self._ends)

    def _starts(self, *_: Any) -> None:
        parent = self.parent()
        header = parent.get("header", {})
        if header.get("msg_type") != "execute_request":
            return
        self._running[header["msg_id"]] = parent
        self.latest = copy_context()
        if _names_a_cell(parent):
            self._with_widgets.add(header.get("session", ""))
        for told in list(self.started):
            told()

    def _ends(self, *_: Any) -> None:
        self._running.pop(self.parent().get("header", {}).get("msg_id", ""), None)

    @property
    def kernel(self) -> Any:
        """The kernel, or None in a terminal."""
        return getattr(self._shell, "kernel", None)

    @property
    def running(self) -> dict[str, Any]:
        """The message of the cell that is running, or {}."""
        return next(reversed(self._running.values()), {})

    def parent(self) -> dict[str, Any]:
        """Return the message that caused what runs now."""
        get_parent = getattr(self.kernel, "get_parent", None)
        if get_parent is None:
            return {}
        # JupyterLite's kernel has one channel, and does not know their names
        return (get_parent("shell") if signature(get_parent).parameters else get_parent()) or {}

    def asks_from_a_cell(self) -> bool:
        """Whether a cell caused what runs now, and not a click."""
        return bool(self.parent().get("header", {}).get("msg_type") == "execute_request")

    def circumstances(self) -> Circumstances:
        """Return what holds for whoever asks now; whether there are subshells has to be found out, see `asking`."""
        if self.kernel is None:
            return Circumstances(allow_stdin=sys.stdin is not None and sys.stdin.isatty())
        parent = self.parent()
        header = parent.get("header", {})
        allowed = parent.get("content", {}).get("allow_stdin", getattr(self.kernel, "_allow_stdin", False))
        return Circumstances(
            kernel=kernel_version(),
            running=header.get("msg_id") in self._running,
            nested=loops_on_this_stack() > 1,
            allow_stdin=bool(allowed),
            widgets=_names_a_cell(parent) if self.asks_from_a_cell() else self._shows_widgets(header),
        )

    def _shows_widgets(self, header: dict[str, Any]) -> bool:
        """Whether the frontend that sent a message, a click, has named the cells that it ran."""
        return header.get("session", "") in self._with_widgets


def _names_a_cell(parent: dict[str, Any]) -> bool:
    """Whether a message to execute code says which cell it is in (`cellId`: JupyterLab, Notebook, VS Code)."""
    return bool((parent.get("metadata") or {}).get("cellId"))


def kernel_version() -> tuple[int, ...]:
    """Return the version of ipykernel; (0,) for a kernel that is none."""
    version = getattr(sys.modules.get("ipykernel"), "version_info", (0,))
    return tuple(part for part in version if isinstance(part, int))


def loops_on_this_stack() -> int:
    """Return how many event loops are running, one inside the other, on this thread's stack."""
    count = 0
    frame = currentframe()
    while frame is not None:
        count += frame.f_code.co_name == "_run_once"  # what asyncio and nest_asyncio2 call a turn of the loop
        frame = frame.f_back
    return count
