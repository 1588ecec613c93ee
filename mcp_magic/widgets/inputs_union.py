"""Input for a value of one of several types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET
from mcp_magic.widgets.entry import Entry
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, choose, fallback, register
from mcp_magic.widgets.inputs_choice import nothing_label, option_labels
from mcp_magic.widgets.matching import matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.schema import Field

__all__ = ["UnionInput"]


@register("union", rank=0)
class UnionInput(Input):
    """A menu of the variants, and the input of the one that is chosen."""

    states = True

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._variants = field.variants
        self._inner: Entry | None = None
        labels = [nothing_label(field, place), *_labels(field.variants), *(["null"] if field.nullable else [])]
        self._menu = self.shop.make(
            ipywidgets.Dropdown, "field", options=option_labels(labels), value=0, tooltip=self.hint
        )
        self._menu.observe(self._chosen, "value")
        self.widget = self.shop.make(ipywidgets.VBox, "", children=(self._menu,))

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether there is a variant for the value."""
        return (value is None and field.nullable) or _variant(field, value) is not None

    def _chosen(self, change: Any) -> None:
        if self._quiet:
            return
        kept = _entered(self._inner) if self._inner is not None else UNSET
        self._show(change["new"])
        if self._inner is not None:
            self._inner.restore()
            if self._inner.get() is UNSET:
                self._inner.give()
            self._keep(kept, self._inner)
        self._changed()

    def _keep(self, entered: Any, inner: Entry) -> None:
        """Put into another variant what was entered before, as far as it has a place there."""
        if isinstance(entered, dict) and isinstance(begun := inner.get(), dict):
            fields = {name: inner.field.listed(name) for name in entered}
            shared = {name: entered[name] for name, each in fields.items() if each and matches(each, entered[name])}
            if shared:
                inner.set({**begun, **shared})
        elif entered is not UNSET and matches(inner.field, entered):
            inner.set(entered)

    def _show(self, number: int) -> None:
        """Show the input of a variant; it is made now, as variants may contain the union itself."""
        old, self._inner = self._inner, None
        if 0 < number <= len(self._variants):
            variant = self._variants[number - 1]
            self._inner = Entry(variant, self.shop, spoken=self.place.name, required=True, depth=self.place.depth + 1)
            self._inner.on_change(self._changed)
        self.widget.children = (self._menu, *([self._inner.widget] if self._inner else []))
        if old is not None:
            old.close()

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The value of the variant that is chosen."""
        if self._inner is None:
            return UNSET if self._menu.value == 0 else None
        value = self._inner.read(path, unread)
        if value is UNSET:
            unread.append(Unread(path, f"expected {self._inner.field.type_text}, got nothing"))
        return value

    def set(self, value: Any) -> None:
        """Show a value in the first variant that it fits."""
        if value is UNSET or (value is None and self.field.nullable):
            number = 0 if value is UNSET else len(self._variants) + 1
        else:
            number = (_variant(self.field, value) or 0) + 1
        if self._inner is None or self._menu.value != number:
            with self._silently():
                self._menu.value = number
            self._show(number)
        if self._inner is not None:
            self._inner.set(value)

    def at(self, key: str | int) -> Entry | None:
        """Return the entry of a property or an item of the variant."""
        return self._inner.at(key) if self._inner is not None else None

    def entries(self) -> Iterator[tuple[str | int, Entry]]:
        """Yield the entries of the variant."""
        if self._inner is not None:
            yield from self._inner.input.entries()


def _entered(entry: Entry) -> Any:
    """What a person entered: of an object without what stands there by itself."""
    value = entry.get()
    if not isinstance(value, dict):
        return value
    defaults = {child.name: child.default for child in entry.field.children}
    return {name: inner for name, inner in value.items() if defaults.get(name, UNSET) != inner}


def _variant(field: Field, value: Any) -> int | None:
    """The first variant that a value is meant for, or else the first whose input holds it."""
    meant = [number for number, each in enumerate(field.variants) if matches(each, value)]
    drawn = (
        number
        for number, variant in enumerate(field.variants)
        if variant.kind == "any" or choose(variant, value) is not fallback()
    )
    return next(iter(meant), next(drawn, None))


def _labels(variants: tuple[Field, ...]) -> list[str]:
    """Name each variant: by its title, or what it is; by both where titles repeat."""
    texts = [one_line(each.type_text, 80) for each in variants]
    titles = [one_line(each.title, 60) for each in variants]
    names = [title or text for title, text in zip(titles, texts, strict=True)]
    counts = Counter(names)
    labels = [
        f"{name}: {text}" if counts[name] > 1 and name != text else name
        for name, text in zip(names, texts, strict=True)
    ]
    return [
        _with_kind(label, each) if labels.count(label) > 1 else label
        for label, each in zip(labels, variants, strict=True)
    ]


def _with_kind(label: str, field: Field) -> str:
    """Tell objects apart that have neither title nor type: by their constants, else by their properties."""
    fixed = [f"{child.name} {child.choices[0][1]}" for child in field.children if len(child.choices) == 1]
    names = [child.name for child in field.children]
    return one_line(f"{label}: {', '.join(fixed or names)}", 80) if names else label
