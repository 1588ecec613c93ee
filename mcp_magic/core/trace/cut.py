"""Cuts messages that are too long to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["KEPT_BYTES", "LONGEST", "Cut"]

KEPT_BYTES = 20_000
"""Bytes of a message that are kept whole; a longer one is cut to about as many."""

KEPT_NODES = 400
"""Values kept of a message that is cut."""

VALUE_BYTES = 100
"""Bytes that a value takes besides its characters."""

LONGEST = 2000
"""Characters of the longest secret that is found where a text is cut through it."""

DEEPEST = 40
"""Levels of a message that are kept; Python's stack has to hold them."""


class Cut:
    """The beginning of a message: as many of its values and characters as are left.

    Args:
        hide: Masks the known secrets in a text.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._nodes = KEPT_NODES
        self._characters = KEPT_BYTES

    @property
    def size(self) -> int:
        """About how many bytes were kept."""
        return KEPT_BYTES - max(self._characters, 0) + VALUE_BYTES * (KEPT_NODES - self._nodes)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return a value, or the beginning of it."""
        self._nodes -= 1
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= DEEPEST or self._nodes <= 0:
            return f"… ({len(value):,} more)"
        if isinstance(value, dict):
            return {self._text(str(name)): self.value(inner, depth + 1) for name, inner in self._some(value.items())}
        return [self.value(inner, depth + 1) for inner in self._some(value)]

    def _some(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if self._nodes <= 0:
                return
            yield value

    def _text(self, text: str) -> str:
        limit = max(self._characters, 0)
        self._characters -= len(text)
        if len(text) <= limit:
            return text
        # a secret that the cut goes through is masked before: half of it is secret too
        return f"{self._hide(text[: limit + LONGEST])[:limit]}… ({len(text):,} characters)"
