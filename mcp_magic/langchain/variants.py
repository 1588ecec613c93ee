"""The tools of a server as a model reads them, where that differs from what the server lists.

What a model reads decides which tool it takes. So an evaluation gives it other words for the same tools. A call goes to
the real tool, with its own definition: consent, checks of arguments and cards know that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_types import Tool


class ToolVariant(NamedTuple):
    """A tool of a server, the tool as a model reads it, and what differs in that; "" if nothing does."""

    tool: Tool
    shown: Tool
    difference: str = ""


@runtime_checkable
class Variant(Protocol):
    """The tools of a server as a model reads them: a `Surface`."""

    @property
    def server(self) -> str:
        """The name of the server whose tools are called."""

    def copy(self) -> Variant:
        """Return a copy, which stays as it is when this one is edited."""

    def read(self, tools: Sequence[Tool]) -> list[ToolVariant]:
        """Return the tools that a model may read, given those that the server lists now."""

    def remarks(self, tools: Sequence[Tool]) -> list[str]:
        """Return what a user should know of this variant, given the tools that the server lists now."""


def variants_by_server(variants: Iterable[Variant]) -> dict[str, Variant]:
    """Return a copy of each variant, by its server.

    Raises:
        ArgumentsError: Something else is among them, or a server has two.
    """
    by_server: dict[str, Variant] = {}
    for variant in variants:
        if not isinstance(variant, Variant):
            raise ArgumentsError(f"expected a surface, as `await host.surface(...)` returns it, got {variant!r:.80}")
        if variant.server in by_server:
            raise ArgumentsError(f"a model can read one surface of a server at a time, but {variant.server} has two")
        by_server[variant.server] = variant.copy()
    return by_server


def as_listed(tools: Sequence[Tool]) -> list[ToolVariant]:
    """Return tools that a model reads as their server lists them."""
    return [ToolVariant(tool, tool) for tool in tools]
