"""Tools as the offline model sees them: their names, words and fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.purposes import labels
from mcp_magic.agent.offline.words import STOP, name_words, stem, words
from mcp_magic.schema import root_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.schema import Field

__all__ = ["Known", "known_tools"]

MAX_FIELDS = 200
"""Arguments of one tool that a request is read for."""


@dataclass(frozen=True, eq=False)
class Known:
    """A tool that was bound.

    Attributes:
        name: The provider's name, which a call uses.
        server: The server's name, or "".
        tool: The tool's own name.
        title: Its title, or "".
        description: Its description, or "".
        schema: Its input schema.
    """

    name: str
    server: str
    tool: str
    title: str
    description: str
    schema: Mapping[str, Any]

    @property
    def person(self) -> str:
        """The name for people: "server:tool"."""
        return f"{self.server}:{self.tool}" if self.server else self.tool

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Its arguments."""
        return root_field(self.schema).children[:MAX_FIELDS]

    @cached_property
    def name_stems(self) -> tuple[str, ...]:
        """The stems of its name, in order."""
        return tuple(stem(word) for word in name_words(self.tool))

    @cached_property
    def own_stems(self) -> frozenset[str]:
        """The stems of its name, title and description that say something."""
        said = [*name_words(self.tool), *name_words(self.title)]
        said += [word.low for word in words(self.description)]
        return frozenset(stem(word) for word in said if word not in STOP) | frozenset(self.name_stems)

    @cached_property
    def spoken_stems(self) -> frozenset[str]:
        """The stems by which a request may point at its arguments."""
        return frozenset(label for field in self.fields for label in labels(field))

    @cached_property
    def argument_stems(self) -> frozenset[str]:
        """The stems of its arguments' names."""
        return frozenset(stem(word) for field in self.fields for word in name_words(field.name))


def known_tools(bound: Iterable[Mapping[str, Any]]) -> list[Known]:
    """Return tools from definitions as `bind_tools` keeps them.

    Args:
        bound: OpenAI's form; "server" and "tool" beside "function" say what the name `server__tool` may not.
    """
    return [_known(each) for each in bound if isinstance(each.get("function"), dict)]


def _known(bound: Mapping[str, Any]) -> Known:
    function = bound["function"]
    name = str(function["name"])
    server, parted, tool = name.partition("__")
    if not parted:
        server, tool = "", name
    schema = function.get("parameters")
    return Known(
        name=name,
        server=str(bound.get("server") or server),
        tool=str(bound.get("tool") or tool),
        title=str(bound.get("title") or ""),
        description=str(function.get("description") or ""),
        schema=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
    )
