"""A button below a call that waits: shows what is hidden of its arguments, and hides it again.

What was shown is in no output, and goes with the panel: a notebook has it only if it is saved at that moment together
with the state of its widgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets

from mcp_magic.core.hidden import revealed_html
from mcp_magic.widgets.look import FORM_STYLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.hidden import Hidden
    from mcp_magic.widgets.shop import Shop

    Post = Callable[[Callable[[], None]], None]

__all__ = ["Revealing"]

_SHOW = ("Show hidden", "eye", "show what would be sent in place of ***; it stays in no output")
_HIDE = ("Hide", "eye-slash", "hide it again")


class Revealing:
    """Show hidden, Hide.

    Args:
        shop: Makes the widgets.
        parts: Returns what is hidden now.
        post: Runs what a click does.

    Attributes:
        widget: What is shown.
    """

    def __init__(self, shop: Shop, parts: Callable[[], list[Hidden]], post: Post) -> None:
        self._parts = parts
        self._open = False
        self._button = shop.make(ipywidgets.Button, "button")
        self._button.on_click(lambda _: post(self._toggle))
        self._text = shop.make(ipywidgets.HTML, "label")
        self.widget = shop.make(ipywidgets.VBox, "row", children=[self._button, self._text])
        self.refresh()

    def _toggle(self) -> None:
        self._open = not self._open
        self.refresh()

    def refresh(self) -> None:
        """Show what is hidden now, where it is to be shown."""
        what, icon, tooltip = _HIDE if self._open else _SHOW
        self._button.description, self._button.icon, self._button.tooltip = what, icon, tooltip
        self._text.value = FORM_STYLE + revealed_html(self._parts()) if self._open else ""
