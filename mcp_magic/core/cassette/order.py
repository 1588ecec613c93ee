"""The order in which what happened at the same time is played: that in which it was recorded."""

from __future__ import annotations

import asyncio

__all__ = ["Order"]


class Order:
    """Whose turn it is, of all scenes that are played at the same time in one session."""

    def __init__(self) -> None:
        self._next: dict[object, int] = {}
        self._moved = asyncio.Event()

    def awaits(self, who: object, number: int) -> None:
        """Say which step of a scene comes next; the others wait for it where theirs came later."""
        self._next[who] = number
        self._wake()

    def leaves(self, who: object) -> None:
        """Say that a scene has no further step, or waits for somebody else: nobody is to wait for it."""
        if self._next.pop(who, None) is not None:
            self._wake()

    async def turn(self, who: object, number: int) -> None:
        """Return when no other scene has a step that came before."""
        self.awaits(who, number)
        while any(other < number for one, other in self._next.items() if one is not who):
            await self._moved.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
