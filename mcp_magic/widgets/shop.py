"""Makes widgets, and closes what it made.

A widget is a comm that lives until it is closed, and so are its layout and its style: three for one text field.
Here they are shared, which makes a form three times as fast to build, and every one of them is known, so that
closing a form leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.widgets.routing import answer_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    Offer = Callable[[list[str]], None]
    Complete = Callable[[str, str, Offer], None]

__all__ = ["Shop"]

_LAYOUTS: dict[str, dict[str, str]] = {
    "": {},
    "line": {"align_items": "center", "flex_flow": "row wrap", "overflow": "visible"},
    "form": {"padding": "0 6px", "overflow": "visible"},
    "row": {"margin": "0 0 6px 0", "overflow": "visible", "flex": "1 1 auto", "min_width": "0"},
    "inside": {
        "margin": "0 0 0 8px",
        "padding": "4px 0 0 12px",
        "border_left": "2px solid var(--jp-border-color2,#999)",
    },
    "field": {"width": "min(36em, 97%)"},
    "area": {"width": "min(48em, 97%)", "height": "7em"},
    "wide": {"width": "min(60em, 97%)"},
    "page": {"width": "min(60em, 97%)", "height": "20em"},
    "label": {"margin": "0", "height": "auto"},
    "check": {"width": "auto", "margin": "0 0 0 12px"},
    "button": {"width": "auto", "align_self": "flex-start"},
    "small": {"width": "34px", "padding": "0"},
    "bar": {"width": "16em"},
}
"""Name -> traits of a layout. What is named here is shared by all widgets of a form."""


CROWDED = 1000
"""Widgets. A form of a hundred fields has some 350; a schema that doubles at each level would have millions."""


@dataclass
class Shared:
    """What all widgets of a form share.

    Attributes:
        layouts: By name.
        styles: By class of widget.
        count: How many widgets there are.
    """

    layouts: dict[str, Any] = field(default_factory=dict)
    styles: dict[type[Any], Any] = field(default_factory=dict)
    count: int = 0

    def layout(self, name: str) -> Any:
        """Return a layout of `_LAYOUTS`; the first who asks makes it."""
        if name not in self.layouts:
            self.layouts[name] = ipywidgets.Layout(**_LAYOUTS[name])
        return self.layouts[name]

    def close(self) -> None:
        """Close the layouts and the styles."""
        for widget in (*self.layouts.values(), *self.styles.values()):
            widget.close()
        self.layouts.clear()
        self.styles.clear()


class Shop:
    """Makes the widgets of one part of a form.

    Args:
        shared: What it shares with the shop of the whole form; None for that shop itself, which closes it.
        on_close: Called when it was closed.

    Attributes:
        complete: Called with an argument's name, its text and who wants to know how it may go on; None where nobody
            can say.
    """

    def __init__(self, shared: Shared | None = None, on_close: Callable[[Shop], None] = lambda shop: None) -> None:
        self._is_whole = shared is None
        self._shared = shared or Shared()
        self._on_close = on_close
        self._made: dict[int, Any] = {}
        self._inner: dict[int, Shop] = {}
        self.complete: Complete | None = None

    @property
    def crowded(self) -> bool:
        """Whether so many widgets were made already that more are made only if somebody asks for them."""
        return self._shared.count > CROWDED

    def part(self) -> Shop:
        """Return a shop for a part that may be closed before the rest."""
        inner = Shop(self._shared, on_close=self._forget)
        inner.complete = self.complete
        self._inner[id(inner)] = inner
        return inner

    def _forget(self, inner: Shop) -> None:
        self._inner.pop(id(inner), None)

    def make(self, kind: type[Any], layout: str = "", **traits: Any) -> Any:
        """Return a new widget.

        Args:
            kind: Its class.
            layout: A name of `_LAYOUTS`.
            **traits: Its traits.
        """
        traits["layout"] = self._shared.layout(layout)
        style = self._shared.styles.get(kind)
        if style is not None:
            traits["style"] = style
        widget = kind(**traits)
        answer_in_order(widget)
        if style is None and "style" in widget.keys:  # its synchronised traits
            self._shared.styles[kind] = widget.style
        self._made[id(widget)] = widget
        self._shared.count += 1
        return widget

    def close(self) -> None:
        """Close all that was made here and in the parts of it. Closing twice is fine."""
        for inner in list(self._inner.values()):
            inner.close()
        for widget in self._made.values():
            widget.close()
        self._shared.count -= len(self._made)
        self._made.clear()
        self._on_close(self)
        if self._is_whole:
            self._shared.close()
