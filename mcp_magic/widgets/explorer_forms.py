"""The forms of an explorer: what was typed into one is still there when its item is chosen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.connection import Connection
    from mcp_magic.widgets.explorer_items import Item

    MakeForm = Callable[[Connection, "Item"], Any]
    Where = tuple[str, str, str]

__all__ = ["KEPT", "Forms"]

KEPT = 10
"""Forms that are kept besides the one that is shown. One has ten to some hundred widgets."""


@dataclass
class _Open:
    connection: Connection
    item: Item
    form: Any
    first: dict[str, Any]
    changed: bool = False

    def change(self) -> None:
        self.changed = True

    @property
    def touched(self) -> bool:
        """Whether anything would be lost with it: what was typed, or what came of it."""
        form = self.form
        used = form.running or form.result is not None or form.error is not None
        return self.changed or used or form.form.draft != self.first


class Forms:
    """Makes forms, and keeps the last ones that somebody did something in.

    Args:
        make: Makes the form of an item.
    """

    def __init__(self, make: MakeForm) -> None:
        self._make = make
        self._open: dict[Where, _Open] = {}  # the one that was left last comes last

    def __contains__(self, item: Item) -> bool:
        return item.where in self._open

    def open(self, connection: Connection, item: Item) -> Any:
        """Return the form of an item: the one that is kept, or a new one.

        What was typed into a form of another session, or of a definition that has changed, is in the new one.

        Raises:
            ImportError: There are no forms.
        """
        known = self._open.get(item.where)
        if known is None:
            return self._new(connection, item)
        if known.form.running or (known.connection is connection and known.item.definition == item.definition):
            return known.form
        form = self._new(connection, item)
        if known.touched:
            form.set_arguments(known.form.form.draft)
        known.form.close()
        return form

    def _new(self, connection: Connection, item: Item) -> Any:
        form = self._make(connection, item)
        made = self._open[item.where] = _Open(connection, item, form, form.form.draft)
        form.form.on_change(made.change)
        return form

    def leave(self, item: Item) -> None:
        """Keep the form of an item if something was done in it, and close it otherwise."""
        left = self._open.pop(item.where, None)
        if left is None:
            return
        if not left.touched:
            left.form.close()
            return
        self._open[item.where] = left
        while len(self._open) > KEPT:
            # one that still runs is the last to go: that would cancel it
            oldest = min(self._open, key=lambda where: self._open[where].form.running)
            self._open.pop(oldest).form.close()

    def discard(self, item: Item) -> None:
        """Close the form of an item, with all that is in it."""
        left = self._open.pop(item.where, None)
        if left is not None:
            left.form.close()

    def close(self) -> None:
        """Close all forms."""
        while self._open:
            self._open.popitem()[1].form.close()
