"""Text of our own: help and hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .html import preformatted
from .parts import Part, bundle

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Text"]


class Text:
    """Text that a cell shows as it is written.

    No `str`: IPython shows those by their `repr`, whatever mimebundle they have.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Text of {len(self.text)} characters>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([Part(self.text, preformatted(self.text))], include, exclude)
