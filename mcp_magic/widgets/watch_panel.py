"""The live form of a watch: what it shows, and buttons below."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.parts import mimebundle
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.watching.watch import Watch

__all__ = ["WatchPanel"]

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class WatchPanel:
    """Shows a watch, with a button that stops it, and one that lets it go on while other cells run.

    A click may arrive on another thread; it is posted to the loop that made the panel.

    Args:
        watch: What it shows.
        detach: Lets the cell end; None where it does not wait.

    Attributes:
        widget: The panel.
    """

    def __init__(self, watch: Watch, detach: Callable[[], None] | None = None) -> None:
        self._watch = watch
        self._shop = Shop()
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._text = self._shop.make(ipywidgets.HTML, "label")
        stop = self._button("Stop", "stop", f"watch {watch.uri[:80]} no more", lambda: watch.stop("stopped by you"))
        self._detach = (
            self._button("Go on in the background", "arrow-down", "let this cell end and go on watching", detach)
            if detach is not None
            else None
        )
        buttons = [stop] if self._detach is None else [stop, self._detach]
        self._line = self._shop.make(ipywidgets.HBox, "line", children=buttons)
        self.widget = self._shop.make(ipywidgets.VBox, "row", children=[self._text, self._line])
        self.refresh()

    def _button(self, text: str, icon: str, tooltip: str, do: Callable[[], None]) -> Any:
        button = self._shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
        button.on_click(lambda _: self._loop.call_soon_threadsafe(do, context=self._context))
        return button

    def bundle(self) -> dict[str, Any]:
        """Return the mimebundle: the panel where it can be shown, else what it says."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {WIDGET_VIEW: view, **mimebundle(self._watch)}

    def refresh(self) -> None:
        """Show what has changed."""
        self._text.value = mimebundle(self._watch)["text/html"]

    def detached(self) -> None:
        """The cell has ended: there is nothing left to detach."""
        self._line.children = self._line.children[:1]

    def close(self) -> None:
        """Close every widget."""
        self._shop.close()
