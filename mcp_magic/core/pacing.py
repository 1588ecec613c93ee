"""How often something may happen within a minute."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["Pace"]

SECONDS = 60.0


class Pace:
    """Counts what happens.

    >>> pace = Pace()
    >>> [pace.allows(2) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def allows(self, most: int) -> bool:
        """Whether it may happen once more, when it may happen `most` times within a minute; if so it counts."""
        now = time.monotonic()
        while self._times and now - self._times[0] > SECONDS:
            self._times.popleft()
        if len(self._times) >= most:
            return False
        self._times.append(now)
        return True
