"""What an input is, and the table of them.

    FIELDS: kind of field -> the inputs for it, the most special first

A new input is a class and a line `@register("string")` above it. Which one draws a field is decided by the field
and by the value that it has to show: the first that draws the one and holds the other; where there is none, the
value is edited as JSON.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mcp_magic.schema import UNSET
from mcp_magic.widgets.look import tooltip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_magic.schema import Field
    from mcp_magic.widgets.shop import Shop

    Listener = Callable[[], None]

__all__ = ["FIELDS", "MAX_NODES", "Input", "Path", "Place", "Unread", "choose", "count_nodes", "fallback", "register"]

MAX_NODES = 300
"""Values inside of one array or object that get a widget each. Longer ones are edited as JSON: nobody fills in a
thousand fields, and a frontend with ten thousand widgets does not answer."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """Where an input stands.

    Attributes:
        shop: Makes its widgets.
        name: What it is called; also of an item, which has no label.
        required: Whether there must be a value.
        depth: How many objects and arrays it is in.
    """

    shop: Shop
    name: str = ""
    required: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Unread:
    """Something typed that is no value.

    Attributes:
        path: Where.
        text: What to say of it.
    """

    path: Path
    text: str


class Input:
    """One value that a person enters. Subclasses make `self.widget` and read and write it.

    Attributes:
        field: What the schema expects.
        widget: The ipywidget, or a box of several.
        blank: The value of an input that nothing was entered in: "" of a text, [] of a list; UNSET if an empty
            input is no value, as for a number.
        rank: How special it is; see `register`.
        states: Whether it shows by itself that it is unset, and null; others get a box to tick for either.
    """

    blank: ClassVar[Any] = UNSET
    states: ClassVar[bool] = False
    rank: ClassVar[int] = 0

    widget: Any

    def __init__(self, field: Field, place: Place) -> None:
        self.field = field
        self.place = place
        self.shop = place.shop
        self._listeners: list[Listener] = []
        self._quiet = 0

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the input is made for a field of its kind."""
        return True

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether the input gives back exactly this value, once it was set."""
        return True

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """Return the value, or UNSET.

        Args:
            path: Where the value belongs.
            unread: Gets what cannot be read; then the value returned stands in for it.
        """
        raise NotImplementedError

    def get(self) -> Any:
        """Return the JSON value, or UNSET; of something that cannot be read, its text."""
        return self.read((), [])

    def set(self, value: Any) -> None:
        """Show a value that fits; UNSET clears."""
        raise NotImplementedError

    def clear(self) -> None:
        """Show nothing."""
        self.set(UNSET)

    def reveal(self) -> None:
        """Show what is inside."""

    def at(self, key: str | int) -> Any:
        """Return the entry of a property or an item, or None if there is none."""
        return None

    def entries(self) -> Iterator[tuple[str | int, Any]]:
        """Yield the entries inside that are drawn, each with its key."""
        yield from ()

    def on_change(self, callback: Listener) -> None:
        """Call `callback()` whenever the person changes the value."""
        self._listeners.append(callback)

    def close(self) -> None:
        """Close the widgets."""
        self.shop.close()

    # For subclasses

    @property
    def hint(self) -> str:
        """What the input is for, in words: a label is another widget, which a screen reader does not connect."""
        required = self.place.required and self.place.name == self.field.name
        return tooltip(self.field, self.place.name, required=required)

    @contextmanager
    def _silently(self) -> Iterator[None]:
        """Change widgets without telling anybody: it was not the person."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    def _changed(self, *_: Any) -> None:
        """Tell who listens, unless the change is our own."""
        if not self._quiet:
            for listener in self._listeners:
                listener()


FIELDS: dict[str, list[type[Input]]] = {}
"""Kind of field -> inputs for it, in the order in which they are tried."""

I = TypeVar("I", bound=type[Input])  # noqa: E741


def register(*kinds: str, rank: int = 100) -> Callable[[I], I]:
    """Add an input for fields of these kinds.

    Args:
        *kinds: Kinds of `Field`.
        rank: Those of a higher rank are tried first, and of one rank the later ones. Our own are below 100.
    """

    def add(cls: I) -> I:
        cls.rank = rank
        for kind in kinds:
            FIELDS[kind] = sorted([cls, *FIELDS.get(kind, ())], key=lambda each: -each.rank)
        return cls

    return add


def choose(field: Field, value: Any = UNSET) -> type[Input]:
    """Return the input that draws a field and holds a value exactly."""
    for cls in FIELDS.get(field.kind, ()):
        if cls.draws(field) and (value is UNSET or cls.fits(field, value)):
            return cls
    return fallback()


def fallback() -> type[Input]:
    """Return the input that holds any value: the least special one for "any"."""
    return FIELDS["any"][-1]


def count_nodes(value: Any, limit: int = MAX_NODES) -> int:
    """Return how many values are in a JSON value, itself included; counting stops above `limit`.

    >>> count_nodes([1, {"a": 2}])
    4
    """
    count, pending = 0, [value]
    while pending and count <= limit:
        node = pending.pop()
        count += 1
        if isinstance(node, dict):
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return count
