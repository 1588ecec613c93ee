"""The messages of widgets, in order and on the main shell's thread.

ipykernel 7.4 passes a frontend's message to the shell from which the widget last sent something. For a widget that a
cell has shown this is the main shell; once the echo of typed text was sent, it is JupyterLab's subshell, which is
another thread. So a field and a button of one form may be on different threads. While a cell keeps the main thread
busy, the click on Run may overtake the text typed before it, or later text the click: the call has arguments that
the user did not submit. ipykernel 7.0 to 7.3 handle all messages of a frontend in order on its subshell.

So the widgets of this package stay with the main shell. A click or a typed text during `time.sleep` is handled after
it, once. To handle it at once was rejected: the sessions live on the main loop, so only live validation would gain, and
a second thread would run beside cells that use the same form.
"""

from __future__ import annotations

from typing import Any

_ROUTE = "_reply_subshell_for"
"""The method of ipykernel's comms that chooses the shell. It is private: if it is absent, nothing is changed."""


def keep_in_order(widget: Any) -> None:
    """Let the main shell handle all messages of a widget."""
    if hasattr(widget.comm, _ROUTE):
        setattr(widget.comm, _ROUTE, lambda data, default: None)  # None is the id of the main shell
