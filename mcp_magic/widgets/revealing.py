"""A button below a call that waits: shows values whole that the question hides or cuts, and closes them again.

What was shown is in no output, and goes with the panel: a notebook has it only if it is saved at that moment together
with the state of its widgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.hidden import page_html, pages
from mcp_magic.widgets.look import FORM_STYLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.widgets.approval_card import Post
    from mcp_magic.widgets.shop import Shop

    Values = list[tuple[str, Any]]

__all__ = ["Revealing"]


class Revealing:
    """Show, Show more as long as there is more, Hide.

    Args:
        shop: Makes the widgets.
        values: Returns the values as they are now, with their names.
        post: Runs what a click does.
        show: Returns what is on the button that shows the first page, and its tooltip.
        on_seen: Called with the names of all values when the last page is shown.

    Attributes:
        widget: What is shown.
    """

    def __init__(
        self,
        shop: Shop,
        values: Callable[[], Values],
        post: Post,
        show: Callable[[], tuple[str, str]],
        on_seen: Callable[[list[str]], None],
    ) -> None:
        self._values = values
        self._show = show
        self._on_seen = on_seen
        self._page: int | None = None
        self._button = shop.make(ipywidgets.Button, "button")
        self._button.on_click(lambda _: post(self._turn))
        self._text = shop.make(ipywidgets.HTML, "label")
        self.widget = shop.make(ipywidgets.VBox, "row", children=[self._button, self._text])
        self.refresh()

    def _turn(self) -> None:
        """Show the next page; behind the last one nothing is shown."""
        values = self._values()
        count = len(pages(values))
        self._page = 0 if self._page is None else self._page + 1
        if self._page >= count:
            self._page = None
        self.refresh()
        if self._page == count - 1:
            self._on_seen([name for name, _ in values])

    def refresh(self) -> None:
        """Show the values as they are now, where they are to be shown."""
        shown = pages(self._values())
        if self._page is None:
            self._button.icon = "eye"
            self._button.description, self._button.tooltip = self._show()
            self._text.value = ""
            return
        self._page = min(self._page, len(shown) - 1)
        rest = len(shown) - 1 - self._page
        self._button.icon = "eye" if rest else "eye-slash"
        self._button.description = f"Show more (part {self._page + 2} of {len(shown)})" if rest else "Hide"
        self._button.tooltip = "show the next part" if rest else "hide it again"
        self._text.value = FORM_STYLE + page_html(shown[self._page])
