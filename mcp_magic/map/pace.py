"""How fast calls go out: a rate that grows until the server refuses, then stays just below."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec
from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

START = 100.0  # calls a second at the beginning

STEP_SECONDS = 0.25  # seconds between two changes of the rate

GROWTH, CREEP, CUT = 1.5, 1.01, 0.85  # factors of the rate: a step before the first refusal, one after it, a refusal

BURST_SECONDS = 0.5  # refusals within this time count as one: the calls of a burst are refused together

_UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}


def read_rate(text: str | float) -> float:
    """Return calls a second.

    Raises:
        ArgumentsError: The text is no rate.

    >>> read_rate("10/s"), read_rate("90/min"), read_rate(5)
    (10.0, 1.5, 5.0)
    """
    if text == math.inf:
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*([a-z]+))?\s*", str(text))
    if match and (match[2] or "s") in _UNITS and float(match[1]) > 0:
        return float(match[1]) / _UNITS[match[2] or "s"]
    raise ArgumentsError(f"{text!r} is not a rate; write 10/s, 100/min or 1000/h")


class Pace:
    """Lets calls go out at a rate.

    What adapts is the rate and not the number of calls in flight: at 2 ms a call, one in flight is 400 a second.

    Args:
        most: The highest rate, in calls a second.
        adaptive: Whether the server may refuse, so that the rate has to be found.

    Attributes:
        rate: The present rate, in calls a second; infinite for no limit.
        cuts: How often the rate was cut.
    """

    def __init__(self, most: float = math.inf, *, adaptive: bool = True) -> None:
        self.rate = min(START, most) if adaptive else most
        self.cuts = 0
        self._most = most
        self._next = self._closed_until = self._stepped = self._cut_at = 0.0
        self._accepted: deque[float] = deque()
        self._adaptive = adaptive

    @classmethod
    def of(cls, spec: Spec, most: float) -> Pace:
        """Return the pace for a server: only over HTTP it can refuse calls."""
        return cls(most, adaptive=isinstance(spec, HttpSpec))

    async def turn(self) -> None:
        """Wait until the next call may go out."""
        while self.rate != math.inf or self._closed_until:
            now = time.monotonic()
            when = max(self._next, self._closed_until)
            if when <= now:
                # Up to 50 ms that were slept too long are made up for, and no more: no burst after a pause.
                self._next = max(self._next, now - 0.05) + 1 / self.rate
                return
            await asyncio.sleep(when - now)

    def accepted(self) -> None:
        """Note that the server took a call."""
        if not self._adaptive:
            return
        now = time.monotonic()
        self._accepted.append(now)
        self._forget(now)
        if now - self._stepped >= STEP_SECONDS:
            self._stepped = now
            if len(self._accepted) >= self.rate / 8:  # the rate is what limits, not the calls in flight
                self.rate = min(self._most, self.rate * (CREEP if self.cuts else GROWTH))

    def refused(self, wait: float | None = None) -> None:
        """Note that the server refused a call, and asks for `wait` seconds of rest."""
        now = time.monotonic()
        pause = BURST_SECONDS if wait is None else wait
        if self.cuts and now - self._cut_at < max(pause, BURST_SECONDS):
            return
        self._forget(now)
        self._cut_at = self._stepped = now
        self.cuts += 1
        self.rate = min(self._most, max(1.0, min(self.rate, len(self._accepted) or 1.0) * CUT))
        self._closed_until = now + pause
        self._accepted.clear()

    def _forget(self, now: float) -> None:
        while self._accepted and self._accepted[0] < now - 1:
            self._accepted.popleft()
