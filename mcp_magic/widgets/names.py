"""The names of one's own in an object: what `additionalProperties` and `patternProperties` allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import Field, root_field
from mcp_magic.widgets.entry import Entry
from mcp_magic.widgets.look import problem_markup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from mcp_magic.widgets.shop import Shop

__all__ = ["Names"]

_ANYTHING = root_field(True)


class Names:
    """Names with a value each, to add and to remove.

    Args:
        field: The object's.
        shop: Makes the widgets.
        depth: How many objects and arrays it is in.
        taken: Names that are listed already.
    """

    def __init__(self, field: Field, shop: Shop, depth: int, taken: Collection[str]) -> None:
        self.field = field
        self._shop = shop
        self._depth = depth
        self._taken = taken
        self._rows: dict[str, tuple[Entry, Any]] = {}
        self._parts: dict[str, Shop] = {}
        self._listeners: list[Callable[[], None]] = []
        self._name = shop.make(ipywidgets.Text, "", placeholder="another name", tooltip="a name to add")
        self._add = shop.make(ipywidgets.Button, "button", description="Add", icon="plus", tooltip="add this name")
        self._problem = shop.make(ipywidgets.HTML, "label")
        self._line = shop.make(ipywidgets.HBox, "line", children=(self._name, self._add, self._problem))
        self.widget = shop.make(ipywidgets.VBox, "", children=(self._line,))
        self._add.on_click(self._added)
        self._name.observe(lambda _: self._complain(""), "value")

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the person changes something."""
        self._listeners.append(callback)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield the names and their entries."""
        for name, (entry, _) in self._rows.items():
            yield name, entry

    def at(self, name: str) -> Entry | None:
        """Return the entry of a name."""
        row = self._rows.get(name)
        return row[0] if row else None

    def set(self, values: Mapping[str, Any]) -> None:
        """Have exactly these names."""
        for name in [name for name in self._rows if name not in values]:
            self._drop(name)
        for name, value in values.items():
            if name not in self._rows:
                self._put(name)
            self._rows[name][0].set(value)
        self._arrange()

    def _added(self, _: Any) -> None:
        name = self._name.value
        if not name or name in self._rows or name in self._taken:
            self._complain(f"{name!r} is there already" if name else "write a name first")
            return
        self._put(name).give()
        self._name.value = ""
        self._arrange()
        self._tell()

    def _complain(self, text: str) -> None:
        self._problem.value = problem_markup(text)

    def _put(self, name: str) -> Entry:
        field = self.field.at(name) or Field(name, True, resolver=_ANYTHING.resolver)
        shop = self._shop.part()
        entry = Entry(field, shop, name or '""', required=True, depth=self._depth + 1)
        entry.on_change(self._tell)
        tooltip = f"remove {one_line(name, 60)}"
        remove = shop.make(ipywidgets.Button, "small", icon="trash", tooltip=tooltip)
        remove.on_click(lambda _: self._removed(name))
        row = shop.make(ipywidgets.HBox, "", children=(remove, entry.widget))
        self._rows[name] = (entry, row)
        self._parts[name] = shop
        return entry

    def _removed(self, name: str) -> None:
        self._drop(name)
        self._tell()

    def _drop(self, name: str) -> None:
        del self._rows[name]
        self._arrange()  # first: a box that holds a closed widget cannot be sent
        self._parts.pop(name).close()

    def _arrange(self) -> None:
        self.widget.children = (*(row for _, row in self._rows.values()), self._line)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
