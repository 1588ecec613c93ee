"""Where the kernel handles what is clicked and typed: in order, all on the thread of the cells.

ipykernel 7.4 hands a frontend's message to the shell from which the widget has last sent something. That is the
main shell for a widget that a cell has shown, and JupyterLab's subshell, which is another thread, once the echo of
something typed has gone out. So of one form the field may be on one thread and its button on the other, and while a
cell keeps the main thread busy the click on Run overtakes the text that was typed before it, or the other way round:
a call goes out with arguments that nobody submitted. ipykernel 7.0 to 7.3 know no such choice: all messages of a
frontend come in order on its subshell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ipywidgets

__all__ = ["answer_in_order"]

ROUTE = "_reply_subshell_for"
"""The method of ipykernel's comms that chooses the shell. It is private: without it nothing is changed."""


def answer_in_order(widget: ipywidgets.Widget) -> None:
    """Have the main shell handle the messages for a widget, as it does for those that have sent nothing yet."""
    if hasattr(widget.comm, ROUTE):
        setattr(widget.comm, ROUTE, _main_shell)


def _main_shell(data: Any, default: str | None) -> None:
    """Return the id of the main shell, which is None."""
