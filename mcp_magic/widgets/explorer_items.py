"""What there is to explore: every tool, resource, template and prompt as an item that can be searched for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.core.catalog import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.core.connection import Connection

__all__ = ["Index", "Item", "search"]

SEARCHED = 4000
"""Characters of a description that are searched: a keystroke stays fast whatever servers write."""


class Item(NamedTuple):
    """One thing that a server offers.

    Attributes:
        kind: "tools", "resources", "templates" or "prompts".
        server: The server's name.
        key: What it is asked for by: a name, a URI, a URI template.
        definition: As the SDK has it.
        names: Server, name, title and URI in lower case.
        haystack: The same with the description.
    """

    kind: str
    server: str
    key: str
    definition: Any
    names: str
    haystack: str

    @property
    def label(self) -> str:
        """How it is typed."""
        return self.key if self.kind in ("resources", "templates") else f"{self.server}:{self.key}"

    @property
    def where(self) -> tuple[str, str, str]:
        """What identifies it while its definition may change."""
        return self.kind, self.server, self.key


def make_item(kind: str, server: str, definition: Any) -> Item:
    """Return the item of a definition."""
    key = str(getattr(definition, "uri", "") or getattr(definition, "uri_template", "") or definition.name)
    names = "\n".join({f"{server}:{definition.name}", key, definition.title or ""}).casefold()
    description = (definition.description or "")[:SEARCHED].casefold()
    return Item(kind, server, key, definition, names, f"{names}\n{description}")


def search(items: Sequence[Item], text: str) -> list[Item]:
    """Return the items that have every word of `text`; those that have them in their names come first.

    Whoever types goes on typing: the words may stand anywhere and in any order.
    """
    words = text.casefold().split()
    if not words:
        return list(items)
    first, *rest = words
    found = [item for item in items if first in item.haystack]
    for word in rest:
        found = [item for item in found if word in item.haystack]
    named = [all(word in item.names for word in words) for item in found]
    return [item for item, is_ in zip(found, named, strict=True) if is_] + [
        item for item, is_ in zip(found, named, strict=True) if not is_
    ]


class Index:
    """The items of all open servers, made again only for the listings that changed."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], tuple[tuple[Any, ...], list[Item]]] = {}
        self._all: dict[str, list[Item]] = {kind: [] for kind in KINDS}

    def update(self, connections: Iterable[Connection]) -> None:
        """Take over what the open ones of `connections` have listed."""
        made = {}
        for connection in connections:
            if connection.state not in ("open", "connecting", "reconnecting"):
                continue
            for kind in KINDS:
                listed, known = connection.catalog.cached(kind), self._made.get((connection.name, kind))
                unchanged = known is not None and known[0] is listed
                items = known[1] if unchanged and known else [make_item(kind, connection.name, one) for one in listed]
                made[connection.name, kind] = (listed, items)
        self._made = made
        for kind in KINDS:
            self._all[kind] = [item for (_, of), (_, items) in made.items() if of == kind for item in items]

    def items(self, kind: str, server: str | None = None) -> Sequence[Item]:
        """Return the items of a kind, of all servers or of one."""
        if server is None:
            return self._all[kind]
        return self._made.get((server, kind), ((), []))[1]

    def counts(self, server: str | None = None) -> Mapping[str, int]:
        """Return how many items there are of each kind."""
        return {kind: len(self.items(kind, server)) for kind in KINDS}

    def at(self, where: tuple[str, str, str]) -> Item | None:
        """Return the item that is there now."""
        kind, server, _ = where
        return next((item for item in self.items(kind, server) if item.where == where), None)
