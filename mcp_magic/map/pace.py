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

RECOVERY = 0.02  # rate increase per step after a refusal, as a fraction of the limit

PATIENCE = 120  # seconds below the limit before it is exceeded by 3 %, for each second that a refusal costs

SOON = 5.0  # seconds within which a second refusal means that the limit is lower than its estimate

LOWERED = 0.95  # factor of the estimate when the second refusal came soon

BUNCH = 0.02  # decrease of the limit after a single refusal, as a fraction, divided by the seconds that the limit held

CATCH_UP = 0.1  # maximum delay in seconds that the next calls make up for; a longer one would cause a burst

PAUSE, MOST_PAUSE = 0.5, 30.0  # seconds without calls if the server names none: the first pause, doubled up to the last

PATIENT_SECONDS = 150.0  # seconds without an accepted call after which the server counts as stuck

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


class LimitEstimate:
    """What a server accepts: the number of calls that it took in the second before a refusal.

    Attributes:
        rate: The limit in calls a second; infinite while unknown.
        trust: 1 if it was counted over most of a second, and twice.
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self.trust = 0.0
        self._accepted: deque[float] = deque()  # when the accepted calls of the last second were sent
        self._first = math.inf  # when the first accepted call after the last cut was sent
        self._window = (0.0, 0.0)  # the second in which calls were counted
        self._held = False  # whether the limit held for some time before the last refusal

    def accept(self, sent_at: float) -> int:
        """Count an accepted call; return the number of the last second."""
        self._first = min(self._first, sent_at)
        self._accepted.append(sent_at)
        while self._accepted[0] < sent_at - 1:
            self._accepted.popleft()
        return len(self._accepted)

    def accept_late(self, sent_at: float) -> None:
        """Count an accepted call whose answer took longer than the refusal of a later call."""
        start, end = self._window
        self.rate += start < sent_at <= end

    def restart(self) -> None:
        """Count anew after a refusal."""
        self._first = math.inf
        self._accepted.clear()

    def is_measurable(self, sent_at: float) -> bool:
        """Whether calls were counted for long enough before a call that was refused."""
        if sent_at - self._first >= STEP_SECONDS:
            return True
        self._window = (0.0, 0.0)
        return False

    def measure(self, sent_at: float, opened: float) -> None:
        """Estimate the limit when a call was refused; `opened` is the end of the pause after the refusal before."""
        self._window = sent_at - 1, sent_at
        rate = float(sum(sent_at - 1 < time <= sent_at for time in self._accepted))
        trust = min(1.5 * (sent_at - self._first), 1.0) ** 3
        was_stable = sent_at - opened >= SOON
        if self.trust < 0.5 and not self.rate * CUT < rate < self.rate / CUT:
            trust = min(trust, 0.2)  # it may have been busy for a moment only
        elif was_stable or self._held:  # a bunch of calls: the limit stands, unless the next refusal is soon
            rate, trust = max(rate, self.rate * (1 - BUNCH / max(sent_at - opened, 1.0))), 1.0
        elif self.trust >= 0.5 and rate < self.rate / CUT:  # too high: the server had saved up unused calls
            rate, trust = min(rate, self.rate * LOWERED), 0.5
            self._window = (0.0, 0.0)
        self.rate, self.trust, self._held = max(rate, 1.0), trust, was_stable


class Pace:
    """Lets calls go out at a rate that the server accepts.

    What adapts is the rate and not the number of calls in flight: at 2 ms a call, a single call in flight is 400 a
    second. After the first refusal the rate stays just below the estimated limit, and exceeds it after a time that is
    long in comparison with the pause that a refusal costs.

    Args:
        most: The highest rate, in calls a second.
        adaptive: Whether the server may refuse calls.

    Attributes:
        rate: The present rate, in calls a second; infinite for no limit.
        is_stuck: Whether the server has refused every call for minutes.
    """

    def __init__(self, most: float = math.inf, *, adaptive: bool = True) -> None:
        self.rate = min(START, most) if adaptive else most
        self.is_stuck = False
        self._limit = LimitEstimate()
        self._refusals = 0  # since the last accepted call
        self._refused_since = 0.0
        self._most = most
        self._adaptive = adaptive
        self._growth = GROWTH
        self._turn = asyncio.Lock()
        self._sent: deque[float] = deque()  # when calls went out in the last second
        self._next = 0.0  # when the next call may go out
        self._cut_at = self._opens = self._stepped = 0.0
        self._pause = PAUSE

    @classmethod
    def of(cls, spec: Spec, most: float) -> Pace:
        """Return the pace for a server. Only over HTTP can it refuse calls."""
        return cls(most, adaptive=isinstance(spec, HttpSpec))

    @property
    def rest(self) -> float:
        """Seconds until calls go out again after a refusal."""
        return max(self._opens - asyncio.get_running_loop().time(), 0.0)

    async def turn(self) -> float:
        """Wait until the next call may go out; return the loop's time, for `accepted` or `refused`."""
        clock = asyncio.get_running_loop().time
        if self.rate == math.inf and not self._next:
            return clock()
        async with self._turn:  # a single call sleeps, the others wait for it
            while True:
                now, when, most = clock(), self._next, math.ceil(self.rate)
                if len(self._sent) >= most:  # in any second, also where a delay is made up for
                    when = max(when, self._sent[-most] + 1)
                if when <= now:
                    break
                await asyncio.sleep(when - now)
            gap = 1 / self.rate if self._refusals < 2 else 1.0  # a single call tries whether calls are accepted again
            self._next = max(self._next or now, now - CATCH_UP) + gap
            self._sent.append(now)
            while self._sent[0] < now - 1:
                self._sent.popleft()
        return now

    def accepted(self, sent_at: float) -> None:
        """Take the news that the server accepted a call that went out at this time."""
        if not self._adaptive:
            return
        if sent_at < self._cut_at:
            self._limit.accept_late(sent_at)
            return
        self._refusals = 0
        used = self._limit.accept(sent_at) / self.rate
        now = asyncio.get_running_loop().time()
        if now - self._stepped >= STEP_SECONDS and used >= (0.2 if self._limit.rate == math.inf else 0.5):
            # The rate is what limits the calls. While it grows fast, the last second had fewer.
            self._stepped = now
            self.rate = min(self._most, self._next_rate(now))

    def _next_rate(self, now: float) -> float:
        limit = self._limit.rate
        high = limit * BELOW
        if limit == math.inf:
            return self.rate * self._growth
        if self.rate < high:
            return min(self.rate + limit * RECOVERY, high)
        patience = (now - self._opens) / (self._pause * max(PATIENCE * self._limit.trust, 2.0))
        return high * math.exp(0.03 * patience**3)  # 3 % more at 1, 27 % at 2, then ever faster

    def refused(self, sent_at: float, wait: float | None = None) -> None:
        """Take the news that the server refused a call that went out at this time, and asks for `wait` seconds."""
        now = asyncio.get_running_loop().time()
        if sent_at < self._cut_at:  # the calls of a burst are refused together
            self._next = max(self._next, now + (wait or 0.0))
            return
        if not self._refusals:  # where the server takes nothing at all, further refusals say nothing about its limit
            self._refused_since = now
            if self._limit.is_measurable(sent_at):
                self._limit.measure(sent_at, self._opens)
                self.rate = min(self.rate, self._limit.rate * CUT)
            else:
                self.rate /= 2
        self._refusals += 1
        self.is_stuck = self._refusals > 3 and now - self._refused_since > PATIENT_SECONDS
        self._growth = SEARCH
        self._pause = wait or min(PAUSE * 2 ** (self._refusals - 1), MOST_PAUSE)
        self._cut_at = self._stepped = now
        self._next = self._opens = now + self._pause
        self._limit.restart()
