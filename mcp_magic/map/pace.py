"""How fast calls go out: a rate that grows until the server refuses, then stays just below.

Steady growth of 1 % a step was tried first. If each refusal costs a second, 10,000 calls at a limit of 100 a second
took 126 s instead of 106 (`tests/map/test_pace.py`). A limit that held for some seconds is not given up because of one
refusal: calls may have come in a bunch. Calls count by when they went out, so that late answers do not lower the limit,
and the refusals of one burst count once.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec
from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

START = 200.0  # calls a second at the beginning

STEP_SECONDS = 0.25  # seconds between two changes of the rate

GROWTH, SEARCH = 1.5, 1.1  # factors of the rate at each step: before the first refusal; later, without an estimate

CUT, BELOW = 0.85, 0.98  # shares of the limit: after a refusal, and then in the long run

RECOVERY = 0.02  # share of the limit by which the rate returns from the one to the other at each step

PATIENCE = 120  # seconds below the limit before it is exceeded by 3 %, for each second that a refusal costs

SOON = 5.0  # seconds within which two refusals in a row say that the limit is lower than it seemed

LOWERED = 0.95  # share of the limit that is left where the second of two refusals came soon

BUNCH = 0.02  # share of the limit that a single refusal takes off, divided by the seconds that the limit held

CATCH_UP = 0.1  # seconds that a call left too late are made up for; more would be a burst

PAUSE, MOST_PAUSE = 0.5, 30.0  # seconds of rest where the server asks for none; doubled while it takes nothing

PATIENT_SECONDS = 150.0  # seconds without an accepted call after which the server is given up

_UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}


def read_rate(text: str | float) -> float:
    """Return calls a second.

    Raises:
        ArgumentsError: The text is no rate.

    >>> read_rate("10/s"), read_rate("90/min"), read_rate(5)
    (10.0, 1.5, 5.0)
    """
    if isinstance(text, float) and text > 0:
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*([a-z]+))?\s*", str(text))
    if match and (match[2] or "s") in _UNITS and float(match[1]) > 0:
        return float(match[1]) / _UNITS[match[2] or "s"]
    raise ArgumentsError(f"{text!r} is not a rate; write 10/s, 100/min or 1000/h")


class Pace:
    """Lets calls go out at a rate that the server takes.

    What adapts is the rate and not the number of calls in flight: at 2 ms a call, one in flight is 400 a second. A
    refusal shows the limit: what the server accepted in the second before. From then on the rate stays just below it,
    and exceeds it after a time that is long in comparison with the rest that a refusal costs.

    Args:
        most: The highest rate, in calls a second.
        adaptive: Whether the server may refuse, so that the rate has to be found.

    Attributes:
        rate: The present rate, in calls a second; infinite for no limit.
        limit: What the server accepts, in calls a second; infinite while unknown.
        is_stuck: Whether the server has refused every call for minutes.
    """

    def __init__(self, most: float = math.inf, *, adaptive: bool = True) -> None:
        self.rate = min(START, most) if adaptive else most
        self.limit = math.inf
        self.is_stuck = False
        self._fruitless = 0  # cuts since the last accepted call
        self._stuck_since = 0.0
        self._most = most
        self._adaptive = adaptive
        self._growth = GROWTH
        self._turn = asyncio.Lock()
        self._sent: deque[float] = deque()  # when calls went out in the last second
        self._next = 0.0  # when the next call may go out
        self._cut_at = self._opens = self._stepped = 0.0
        self._pause = PAUSE
        self._accepted: deque[float] = deque()  # when those of the last second went out that the server took
        self._since = math.inf  # when the first call after the last cut went out that the server took
        self._measured = (0.0, 0.0)  # the second over which the limit is counted
        self._held = False  # whether the limit held for some time before the last refusal
        self._trust = 0.0  # 1 if the limit was counted over most of a second, and twice

    @classmethod
    def of(cls, spec: Spec, most: float) -> Pace:
        """Return the pace for a server: only over HTTP it can refuse calls."""
        return cls(most, adaptive=isinstance(spec, HttpSpec))

    @property
    def rest(self) -> float:
        """How many seconds no call goes out, because the server refused one."""
        return max(self._opens - asyncio.get_running_loop().time(), 0.0)

    async def turn(self) -> float:
        """Wait until the next call may go out, and return the time of the loop, to tell by it how the call ended."""
        clock = asyncio.get_running_loop().time
        if self.rate == math.inf and not self._next:
            return clock()
        async with self._turn:  # one call sleeps, the others wait for it
            while (when := self._when()) > (now := clock()):
                await asyncio.sleep(when - now)
            gap = 1 / self.rate if self._fruitless < 2 else 1.0  # one call tries whether it takes calls again
            self._next = max(self._next or now, now - CATCH_UP) + gap
            self._sent.append(now)
            while self._sent[0] < now - 1:
                self._sent.popleft()
        return now

    def _when(self) -> float:
        most = math.ceil(self.rate)  # in any second, also where a delay is made up for
        return self._next if len(self._sent) < most else max(self._next, self._sent[-most] + 1)

    def accepted(self, sent: float) -> None:
        """Note that the server took a call that went out at this time."""
        if not self._adaptive:
            return
        if sent < self._cut_at:
            first, last = self._measured
            self.limit += first < sent <= last  # its answer took longer than the refusal of a later call
            return
        self._since = min(self._since, sent)
        self._fruitless = 0
        self._accepted.append(sent)
        while self._accepted[0] < sent - 1:
            self._accepted.popleft()
        now = asyncio.get_running_loop().time()
        used = len(self._accepted) / self.rate
        if now - self._stepped >= STEP_SECONDS and used >= (0.2 if self.limit == math.inf else 0.5):
            # The rate is what limits the calls. While it grows fast, the last second had fewer.
            self._stepped = now
            self.rate = min(self._most, self._grown(now))

    def _grown(self, now: float) -> float:
        high = self.limit * BELOW
        if self.limit == math.inf:
            return self.rate * self._growth
        if self.rate < high:
            return min(self.rate + self.limit * RECOVERY, high)
        waited = (now - self._opens) / (self._pause * max(PATIENCE * self._trust, 2.0))
        return high * math.exp(0.03 * waited**3)  # 3 % more at 1, 27 % at 2, then ever faster

    def refused(self, sent: float, wait: float | None = None) -> None:
        """Note that the server refused a call that went out at this time, and asks for `wait` seconds of rest."""
        now = asyncio.get_running_loop().time()
        if sent < self._cut_at:  # the calls of a burst are refused together
            self._next = max(self._next, now + (wait or 0.0))
            return
        if not self._fruitless:
            self._stuck_since = now
            self._cut(sent)
        self._fruitless += 1
        self.is_stuck = self._fruitless > 3 and now - self._stuck_since > PATIENT_SECONDS
        self._growth = SEARCH
        self._pause = wait or min(PAUSE * 2 ** (self._fruitless - 1), MOST_PAUSE)
        self._cut_at = self._stepped = now
        self._next = self._opens = now + self._pause
        self._since = math.inf
        self._accepted.clear()

    def _cut(self, sent: float) -> None:
        """Cut the rate. Where the server takes nothing at all, further refusals say nothing about its limit."""
        if sent - self._since < STEP_SECONDS:  # too short for an estimate
            self.rate /= 2
            self._measured = (0.0, 0.0)
        else:
            self._estimate(sent)
            self.rate = min(self.rate, self.limit * CUT)

    def _estimate(self, sent: float) -> None:
        self._measured = sent - 1, sent
        limit = float(sum(sent - 1 < earlier <= sent for earlier in self._accepted))
        trust = min(1.5 * (sent - self._since), 1.0) ** 3
        held = sent - self._opens >= SOON
        if self._trust < 0.5 and not self.limit * CUT < limit < self.limit / CUT:
            trust = min(trust, 0.2)  # it may have been busy for a moment only
        elif held or self._held:  # calls that came in a bunch: the limit stands, unless the next refusal comes soon too
            limit, trust = max(limit, self.limit * (1 - BUNCH / max(sent - self._opens, 1.0))), 1.0
        elif self._trust >= 0.5 and limit < self.limit / CUT:  # too high: the server had saved up what was not used
            limit, trust = min(limit, self.limit * LOWERED), 0.5
            self._measured = (0.0, 0.0)
        self.limit, self._trust, self._held = max(limit, 1.0), trust, held
