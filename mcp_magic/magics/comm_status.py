"""Reports the messages of widgets as done that reach the kernel while a cell awaits.

ipykernel 7.4 hands them to the running cell, but publishes no status for them. In the page, ipywidgets keeps back the
second change of a field until it hears that the first one is done: of a word that is typed into a field, one letter
would arrive, and nothing more from that field, also after the cell, until the page is loaded again.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_magic.magics.cells import Cells

    Handler = Any

__all__ = ["CommStatus"]

KINDS = ("comm_open", "comm_msg", "comm_close")


class CommStatus:
    """Follows the handlers of a kernel's comm messages.

    Args:
        cells: Knows the kernel, and the cell that is running.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._handlers: dict[str, tuple[Handler, Handler]] = {}

    def install(self) -> None:
        """Report from now on; a kernel that is none of ipykernel's is left alone."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind in set(KINDS) & set(handlers):
            ours = partial(self._handle, handlers[kind])
            self._handlers[kind] = (handlers[kind], ours)
            handlers[kind] = ours

    def uninstall(self) -> None:
        """Report no longer, unless somebody else has put a handler around this one."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind, (before, ours) in self._handlers.items():
            if handlers.get(kind) is ours:
                handlers[kind] = before
        self._handlers.clear()

    def _handle(self, handler: Handler, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        # how the kernel was asked stands nowhere else; kernels that report everything have no such argument
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        unreported = caller is not None and bool(caller.f_locals.get("concurrent", False))
        try:
            return handler(stream, ident, message)
        finally:
            if unreported:
                self._publish("idle", message)
                self._publish("busy", self._cells.running or message)  # it is, and a page shows what it heard last

    def _publish(self, state: str, parent: dict[str, Any]) -> None:
        kernel = self._cells.kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)
