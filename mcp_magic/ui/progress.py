"""Progress bars and watches, as widgets."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets

from mcp_magic.display.document import mimebundle, page
from mcp_magic.ui.progress_text import bar_markup
from mcp_magic.ui.widgets import WIDGET_VIEW, WidgetScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.inflight import Report
    from mcp_magic.ui.progress_text import Board
    from mcp_magic.watch import Watch

__all__ = ["BoardPanel", "WatchPanel"]


# The live board: a bar and a Cancel button for each running call.


class Row(NamedTuple):
    """One call: its bar, its Cancel button, the box around both, and the shop that made them."""

    bar: Any
    button: Any
    widget: Any
    shop: WidgetScope


class BoardPanel:
    """Shows a board, and cancels a call when its button is clicked.

    A click may arrive on another thread; it is posted to the event loop that made the panel.

    Args:
        board: The board to show.

    Attributes:
        widget: The panel.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._shop = WidgetScope()
        self._rows: dict[int, Row] = {}
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._over = self._shop.make(ipywidgets.HTML, "label")
        self._messages = self._shop.make(ipywidgets.HTML, "label")
        self.widget = self._shop.make(ipywidgets.VBox, "row")
        self.refresh()

    def bundle(self) -> dict[str, Any]:
        """Return the mimebundle: the panel as a widget, with HTML and text for other readers."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {WIDGET_VIEW: view, **self._board.bundle()}

    def refresh(self) -> None:
        """Draw the changes."""
        live = {id(report): report for report in self._board.measured}
        gone = [self._rows.pop(key) for key in list(self._rows) if key not in live]
        for key, report in live.items():
            if key not in self._rows:
                self._rows[key] = self._row(report)
            _put(self._rows[key].bar, bar_markup(report))
        _put(self._over, self._board.over_markup())
        _put(self._messages, self._board.messages_markup())
        children = tuple(part for part in (self._over, *(row.widget for row in self._rows.values())) if _says(part))
        children += (self._messages,) if self._messages.value else ()
        if self.widget.children != children:
            self.widget.children = children
        for row in gone:
            row.shop.close()

    def close(self) -> None:
        """Close every widget."""
        self._shop.close()

    def _row(self, report: Report) -> Row:
        shop = self._shop.part()
        bar = shop.make(ipywidgets.HTML, "label")
        title = f"cancel {report.title[:80]}; the server is told"
        button = shop.make(ipywidgets.Button, "button", description="Cancel", icon="times", tooltip=title)
        row = Row(bar, button, shop.make(ipywidgets.HBox, "line", children=(bar, button)), shop)
        button.on_click(lambda _: self._loop.call_soon_threadsafe(_cancel, report, button, context=self._context))
        return row


def _cancel(report: Report, button: Any) -> None:
    report.cancel()
    if button.comm is not None:  # the call is still running
        button.disabled = True


def _says(part: Any) -> bool:
    return not isinstance(part, ipywidgets.HTML) or bool(part.value)


def _put(widget: Any, markup: str) -> None:
    value = page([markup]) if markup else ""  # type: ignore[list-item]
    if widget.value != value:
        widget.value = value


# The live watch: its content, with buttons below.


class WatchPanel:
    """Shows a watch, with a button that stops it, and one that detaches it from the cell.

    A click may arrive on another thread; it is posted to the event loop that made the panel.

    Args:
        watch: The watch to show.
        detach: Lets the cell end while the watch goes on; None if the cell does not wait for it.

    Attributes:
        widget: The panel.
    """

    def __init__(self, watch: Watch, detach: Callable[[], None] | None = None) -> None:
        self._watch = watch
        self._shop = WidgetScope()
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
        """Return the mimebundle: the panel as a widget, with HTML and text for other readers."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {WIDGET_VIEW: view, **mimebundle(self._watch)}

    def refresh(self) -> None:
        """Draw the changes."""
        self._text.value = mimebundle(self._watch)["text/html"]

    def detached(self) -> None:
        """Remove the detach button, because the cell has ended."""
        self._line.children = self._line.children[:1]

    def close(self) -> None:
        """Close every widget."""
        self._shop.close()
