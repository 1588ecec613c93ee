"""The widget that shows an app in a notebook.

A synchronised trait would be saved with the widget's state. So a page says hello and gets the HTML as a message
(`App._greet`): a page that is loaded again gets the view again while the kernel lives, and a saved notebook has the
result as text and HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.display.comms import keep_in_order
from mcp_magic.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.apps.app import App

FOLDER = Path(__file__).parent


class AppWidget:
    """Shows an app; a page that draws it asks for the view, so neither the widget's state nor the notebook holds it."""

    def __init__(self, app: App) -> None:
        app.prefetch()
        self._app = app
        self.widget = _widget_class()()
        keep_in_order(self.widget)
        self.widget.on_msg(lambda widget, message, buffers: app.receive(message, self))

    def send(self, message: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message to all pages that show the widget."""
        if self.widget.comm is not None:
            self.widget.send(message, list(buffers))

    def close(self) -> None:
        """End the view, and close the widget. Idempotent."""
        self._app.pages.end_in(self)
        self.widget.layout.close()
        self.widget.close()


@cache
def _widget_class() -> type[Any]:
    try:
        import anywidget
    except ImportError:
        raise MissingDependencyError("the view of a tool needs anywidget: pip install 'mcp-magic[apps]'") from None

    class MCPApp(anywidget.AnyWidget):
        _esm = (FOLDER / "host.js").read_text(encoding="utf-8")
        _css = (FOLDER / "host.css").read_text(encoding="utf-8")

    return MCPApp
