"""Growing pauses, for all that is done again: after a failure, or because a message causes it."""

from __future__ import annotations

import math
import random
import time

LASTED_SECONDS = 60.0  # after something that lasted this many seconds, the next pause is the first again


class Backoff:
    """The pauses between attempts, in seconds: each is twice as long as the one before, up to the longest.

    `jitter` is the random part of a pause, `total` the time after which to give up, and `next` when the next attempt is
    due (`time.monotonic()`); None while one is running.
    """

    def __init__(self, first: float, longest: float, *, jitter: float = 0.0, total: float = math.inf) -> None:
        self.attempts = 0
        self.next: float | None = None
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._total = total
        self._started = time.monotonic()

    @property
    def away(self) -> float:
        """Seconds since the first failure."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float:
        """Seconds until it is given up."""
        return max(0.0, self._total - self.away)

    def pause(self, lasted: float = 0.0) -> float:
        """Note a failed attempt, or the end of what lasted so many seconds; return the seconds until the next."""
        if lasted > LASTED_SECONDS:
            self.attempts = 0
        pause: float = min(self._first * 2.0 ** min(self.attempts, 60), self._longest)
        pause *= 1 + random.uniform(-self._jitter, self._jitter)  # needs no cryptographic randomness
        self.attempts += 1
        self.next = time.monotonic() + pause
        return pause


QUIET_SECONDS = 10.0  # after so many seconds without a repetition, the next one is immediate again


class Pacing:
    """The pauses between what a server's messages make this host repeat: none at first, then growing ones.

    A server that causes the next repetition by each answer is so asked ever more rarely, and never at full speed.
    """

    def __init__(self, first: float = 0.1, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._due = -math.inf
        self._backoff = Backoff(first, longest)

    def pause(self) -> float:
        """Note a repetition; return the seconds until it may begin."""
        now = time.monotonic()
        if now - self._due > QUIET_SECONDS:
            self._backoff, self._due = Backoff(self._first, self._longest), now
            return 0.0
        pause = self._backoff.pause()
        self._due = now + pause
        return pause
