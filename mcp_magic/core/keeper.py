"""Who holds a session open, as its transport knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Keeper"]


@dataclass(frozen=True)
class Keeper:
    """What the way to the server tells whoever holds the session open.

    Attributes:
        doubted: Told that a request found nobody, or that a stream was cut.
        forgotten: Told that the server does not have the session any more.
        back: Returns when the server answers again; raises an MCPMagicError if it will not.
    """

    doubted: Callable[[BaseException], None]
    forgotten: Callable[[], None]
    back: Callable[[], Awaitable[None]]
