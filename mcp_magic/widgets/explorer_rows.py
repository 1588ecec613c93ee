"""Long lists, a page at a time.

Widgets are made for the rows that are shown and filled anew for every page and every keystroke: ten thousand
tools have as many widgets as twenty-five.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import ipywidgets

from mcp_magic.results.badges import tool_badges
from mcp_magic.results.html import Markup, joined, tag
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.results.badges import Badge
    from mcp_magic.widgets.explorer_items import Item
    from mcp_magic.widgets.shop import Shop

__all__ = ["ItemRow", "Look", "Pages", "Row"]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Look(NamedTuple):
    """How an item is shown: whether it is the chosen one, whether its server's hints are believed, badges besides."""

    chosen: bool = False
    trusted: bool = False
    marks: tuple[Badge, ...] = ()


class Row(Protocol[T_contra]):
    """A row of widgets that can show one item after the other.

    Attributes:
        widget: What is shown.
    """

    widget: Any

    def fill(self, item: T_contra) -> None:
        """Show this item."""


class Pages(Generic[T]):
    """One page of a list, and buttons to the page before and after.

    Args:
        shop: Makes the widgets.
        make_row: Makes one more row.
        size: Rows of a page.
        what: What the rows are, for the buttons' tooltips.
        on_turn: What to do before a page is turned, handed the turning: brings it to the right thread.
    """

    def __init__(
        self,
        shop: Shop,
        make_row: Callable[[], Row[T]],
        *,
        size: int,
        what: str,
        on_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._make_row, self._size = make_row, size
        self._items: Sequence[T] = ()
        self._start = 0
        self._rows: list[Row[T]] = []
        self._note = ""
        self.box = shop.make(ipywidgets.VBox, "")
        self.label = shop.make(ipywidgets.HTML, "label")
        self.previous = shop.make(
            ipywidgets.Button, "button", description="← Previous", tooltip=f"the page of {what} before"
        )
        self.next = shop.make(ipywidgets.Button, "button", description="Next →", tooltip=f"the next page of {what}")
        self.bar = shop.make(ipywidgets.HBox, "line", children=(self.label,))
        self.widget = shop.make(ipywidgets.VBox, "", children=(self.box, self.bar))
        self.previous.on_click(lambda _: on_turn(lambda: self.turn(-1)))
        self.next.on_click(lambda _: on_turn(lambda: self.turn(1)))

    @property
    def shown(self) -> Sequence[T]:
        """The items of this page."""
        return self._items[self._start : self._start + self._size]

    def show(self, items: Sequence[T], note: str, *, from_start: bool) -> None:
        """Show a list.

        Args:
            items: All of it.
            note: How many there are, in words.
            from_start: Whether to begin at the first page; otherwise the page stays, as far as there is one.
        """
        self._items, self._note = items, note
        last = max(len(items) - 1, 0) // self._size * self._size
        self._start = 0 if from_start else min(self._start, last)
        self._draw()

    def turn(self, pages: int) -> None:
        """Go to a later or, with a negative number, an earlier page."""
        start = self._start + pages * self._size
        if 0 <= start < len(self._items):
            self._start = start
            self._draw()

    def redraw(self) -> None:
        """Fill the rows again, with what is shown."""
        self._draw()

    def _draw(self) -> None:
        shown = self.shown
        while len(self._rows) < len(shown):
            self._rows.append(self._make_row())
        for row, item in zip(self._rows, shown, strict=False):
            row.fill(item)
        self.box.children = tuple(row.widget for row in self._rows[: len(shown)])
        self._draw_bar(len(shown))

    def _draw_bar(self, count: int) -> None:
        total = len(self._items)
        range_ = f"{self._start + 1:,}\u2013{self._start + count:,} of " if total > self._size else ""
        self.label.value = tag("div", f"{range_}{self._note}", class_="mcp-explorer-note", role="status")
        self.previous.disabled = self._start == 0
        self.next.disabled = self._start + count >= total
        self.bar.children = (self.label, self.previous, self.next) if total > self._size else (self.label,)


class ItemRow:
    """A tool, resource, template or prompt: a button with its name, and what is said of it.

    Args:
        shop: Makes the widgets.
        choose: Called with the item when the button is clicked.
        state: Says of an item how it is to be shown.
    """

    def __init__(self, shop: Shop, choose: Callable[[Item], None], state: Callable[[Item], Look]) -> None:
        self._state = state
        self.item: Item | None = None
        self.button = shop.make(ipywidgets.Button, "", _dom_classes=("mcp-explorer-name",))
        self.about = shop.make(ipywidgets.HTML, "label", _dom_classes=("mcp-explorer-about",))
        self.widget = shop.make(ipywidgets.HBox, "", children=(self.button, self.about))
        self.button.on_click(lambda _: choose(self.item) if self.item is not None else None)

    def fill(self, item: Item) -> None:
        """Show this item."""
        look = self._state(item)
        self.item = item
        definition = item.definition
        with self.button.hold_sync():
            # a sign, and not the colour alone, says which one is chosen
            self.button.description = one_line(f"▸ {item.label}" if look.chosen else item.label, 120)
            self.button.tooltip = one_line(f"show {item.label} {definition.title or ''}", 300)
            self.button.button_style = "primary" if look.chosen else ""
        self.about.value = about(item, look)


def about(item: Item, look: Look) -> Markup:
    """Return what a row says of its item: the hints of a tool, the type of a resource, the first words about it."""
    definition = item.definition
    signs: list[object] = []
    if item.kind == "tools":
        badges = [*look.marks, *tool_badges(definition, trusted=look.trusted)]
        signs = [badge.html() for badge in badges]
    elif item.kind in ("resources", "templates"):
        signs = [tag("span", one_line(f"{item.server}: {definition.mime_type or 'any type'}", 80), class_="mcp-note")]
    said = one_line(definition.description or definition.title or "", 160)
    return tag("div", joined([*signs, said], " "), class_="mcp-magic")
