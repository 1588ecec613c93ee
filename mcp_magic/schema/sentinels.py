"""Two words that JSON has no value for."""

from __future__ import annotations

from typing import Final

__all__ = ["MISSING", "UNSET", "Sentinel"]


class Sentinel:
    """A named object that is false and only equal to itself.

    >>> UNSET
    unset
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        # Copies and unpickled ones must be the same object, or `is UNSET` fails.
        return self._name.upper()


MISSING: Final = Sentinel("missing")
"""A schema states no default (`None` would be the default null)."""

UNSET: Final = Sentinel("unset")
"""An argument that is left out (`None` would be sent as null)."""
