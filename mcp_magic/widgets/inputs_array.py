"""Input for arrays: items to add, to remove and to move."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET, Field, root_field
from mcp_magic.widgets.entry import Entry
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, register
from mcp_magic.widgets.look import note_markup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.widgets.shop import Shop

__all__ = ["ArrayInput"]

_ANYTHING = root_field(True)


_BUTTONS = (("arrow-up", "move {} up"), ("arrow-down", "move {} down"), ("trash", "remove {}"))
"""Icon and words of the buttons of an item."""


class _Row(NamedTuple):
    """An item with its buttons."""

    entry: Entry
    number: Any
    buttons: tuple[Any, ...]
    widget: Any
    shop: Shop


@register("array", rank=0)
class ArrayInput(Input):
    """A list of anything. Its items are made when they are added."""

    blank: ClassVar[Any] = []

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._rows: list[_Row] = []
        self._add = self.shop.make(
            ipywidgets.Button, "button", description="Add", icon="plus", tooltip=f"add a {self._item}"
        )
        self._add.on_click(self._added)
        self._none = self.shop.make(ipywidgets.HTML, "label", value=note_markup("no items"))
        self.widget = self.shop.make(ipywidgets.VBox, "inside", children=(self._none, self._add))

    @property
    def _item(self) -> str:
        return f"{one_line(self.place.name, 40)} item" if self.place.name else "item"

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Any list fits: every item gets an entry."""
        return isinstance(value, list)

    # Its value

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The items; one that is empty counts as null, and is told of."""
        values = []
        for index, row in enumerate(self._rows):
            value = row.entry.read((*path, index), unread)
            if value is UNSET:
                unread.append(Unread((*path, index), f"expected {row.entry.field.type_text}, got nothing"))
            values.append(None if value is UNSET else value)
        return values

    def set(self, value: Any) -> None:
        """Show the items of a list."""
        values = [] if value is UNSET else value
        dropped, self._rows = self._rows[len(values) :], self._rows[: len(values)]
        for index in range(len(self._rows), len(values)):
            self._rows.append(self._make(index))
        for row, item in zip(self._rows, values, strict=True):
            row.entry.set(item)
        self._arrange()
        for row in dropped:
            row.shop.close()

    def at(self, key: str | int) -> Entry | None:
        """Return the entry of an item."""
        return self._rows[key].entry if isinstance(key, int) and key < len(self._rows) else None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield the items."""
        for index, row in enumerate(self._rows):
            yield index, row.entry

    # What the person does

    def _added(self, _: Any) -> None:
        row = self._make(len(self._rows))
        row.entry.give()
        self._rows.append(row)
        self._arrange()
        self._changed()

    def _removed(self, row: _Row) -> None:
        position = self._rows.index(row)
        if self.field.prefix:  # those behind it become items of another kind
            values = [value for index, value in enumerate(self._values()) if index != position]
            self.set(values)
        else:
            del self._rows[position]
            self._arrange()
            row.shop.close()
        self._changed()

    def _moved(self, row: _Row, by: int) -> None:
        position = self._rows.index(row)
        other = position + by
        if not 0 <= other < len(self._rows):
            return
        if self.field.prefix:
            values = self._values()
            values[position], values[other] = values[other], values[position]
            self.set(values)
        else:
            self._rows[position], self._rows[other] = self._rows[other], self._rows[position]
            self._arrange()
        self._changed()

    def _values(self) -> list[Any]:
        return [row.entry.get() for row in self._rows]

    def _make(self, index: int) -> _Row:
        field = self.field.at(index) or Field("", True, resolver=_ANYTHING.resolver)
        shop = self.shop.part()
        entry = Entry(field, shop, spoken=self._item, required=True, depth=self.place.depth + 1)
        entry.on_change(self._changed)
        number = shop.make(ipywidgets.HTML, "label")
        buttons = tuple(shop.make(ipywidgets.Button, "small", icon=icon) for icon, _ in _BUTTONS)
        box = shop.make(ipywidgets.HBox, "", children=(number, *buttons, entry.widget))
        row = _Row(entry, number, buttons, box, shop)
        acts = (partial(self._moved, by=-1), partial(self._moved, by=1), self._removed)
        for button, act in zip(buttons, acts, strict=True):
            button.on_click(lambda _, act=act: act(row))
        return row

    def _arrange(self) -> None:
        for index, row in enumerate(self._rows):
            row.number.value = note_markup(f"{index}")
            for button, (_, does) in zip(row.buttons, _BUTTONS, strict=True):
                button.tooltip = does.format(f"{self._item} {index}")
        shown = tuple(row.widget for row in self._rows) or (self._none,)
        self.widget.children = (*shown, self._add)
