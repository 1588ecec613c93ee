"""Input for objects: the properties that the schema lists, and names of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET, Field
from mcp_magic.widgets.entry import Entry
from mcp_magic.widgets.inputs import MAX_NODES, Input, Path, Place, Unread, register
from mcp_magic.widgets.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ObjectInput"]

MAX_OPEN = 4
"""Levels of objects that are open at first. A schema may require itself, and has no end then."""


@register("object", rank=0)
class ObjectInput(Input):
    """An object. One inside of another is made when it is opened."""

    blank: ClassVar[Any] = {}

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._entries: dict[str, Entry] = {}
        self._names: Names | None = None
        self._built: Any = None
        self._held: Any = UNSET
        self._toggle: Any = None
        if place.depth == 0:
            self.widget = self._build()
            return
        self._toggle = self.shop.make(
            ipywidgets.ToggleButton, "button", description=self._summary(), icon="caret-right"
        )
        self._toggle.observe(self._toggled, "value")
        self.widget = self.shop.make(ipywidgets.VBox, "", children=(self._toggle,))
        if place.required and place.depth < MAX_OPEN and not self.shop.crowded:
            self.reveal()

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether its properties can be shown one by one."""
        return len(field.children) <= MAX_NODES

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Any object fits: every name gets an entry."""
        return isinstance(value, dict)

    def _summary(self) -> str:
        count = len(self.field.children)
        inside = f"{count} field{'s' if count != 1 else ''}" if count else "names and values"
        return f"{inside} of {one_line(self.place.name, 60)}" if self.place.name else inside

    # Open and closed

    def _toggled(self, change: Any) -> None:
        """Show or hide the inside; made when it is shown first."""
        inside = (self._build(),) if change["new"] else ()
        self._toggle.icon = "caret-down" if change["new"] else "caret-right"
        self.widget.children = (self._toggle, *inside)

    def reveal(self) -> None:
        """Open it."""
        if self._toggle is not None:
            self._toggle.value = True

    def _build(self) -> Any:
        if self._built is not None:
            return self._built
        for child in self.field.children:
            entry = Entry(child, self.shop, child.name, required=child.required, depth=self.place.depth + 1)
            entry.on_change(self._changed)
            self._entries[child.name] = entry
        widgets = [entry.widget for entry in self._entries.values()]
        if self._takes_names:
            widgets.append(self._others().widget)
        layout = "inside" if self.place.depth else ""
        self._built = self.shop.make(ipywidgets.VBox, layout, children=tuple(widgets))
        held, self._held = self._held, UNSET
        if held:
            self._write(held)
        return self._built

    @property
    def _takes_names(self) -> bool:
        """Whether names are asked for: of arguments only if the schema says so, not because it says nothing."""
        said = self.field.schema.get("additionalProperties"), self.field.schema.get("patternProperties")
        return self.field.is_open and (self.place.depth > 0 or any(said))

    def _others(self) -> Names:
        if self._names is None:
            self._names = Names(self.field, self.shop, self.place.depth, taken=self._entries)
            self._names.on_change(self._changed)
        return self._names

    # Its value

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The entries that hold something."""
        if self._built is None:
            return {} if self._held is UNSET else dict(self._held)
        value = {}
        for name, entry in self.entries():
            inner = entry.read((*path, name), unread)
            if inner is not UNSET:
                value[name] = inner
        return value

    def set(self, value: Any) -> None:
        """Show an object. What is closed stays closed if there is nothing in it to see."""
        if self._built is None and (self.shop.crowded or not (value and isinstance(value, dict))):
            self._held = value
            return
        self.reveal()
        self._write({} if value is UNSET else value, fresh=value is UNSET)

    def _write(self, value: dict[str, Any], *, fresh: bool = False) -> None:
        for name, entry in self._entries.items():
            if fresh:
                entry.restore()
            else:
                entry.set(value.get(name, UNSET))
        others = {name: inner for name, inner in value.items() if name not in self._entries}
        if not others and self._names is None:
            return
        names = self._others()
        names.set(others)
        if names.widget not in self._built.children:
            self._built.children = (*self._built.children, names.widget)

    def at(self, key: str | int) -> Entry | None:
        """Return the entry of a property."""
        if not isinstance(key, str):
            return None
        return self._entries.get(key) or (self._names.at(key) if self._names is not None else None)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield the listed properties, then the names of one's own."""
        yield from self._entries.items()
        if self._names is not None:
            yield from self._names.entries()
