"""How everything here is measured: in pairs, by medians, as ratios.

The two sides of a comparison take turns within one run, so whatever else the machine does slows both.
Which of them goes first changes with every pair. A comparison is the median of the ratios of its pairs,
which a few slow samples do not move. Python's garbage collector runs between samples, never in one: on
neither side.
"""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from mcp_magic.trace.trace import BATCH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = [
    "COLLECT_EVERY",
    "Pairs",
    "Result",
    "async_pairs",
    "at_most",
    "compared",
    "not_measured",
    "pairs",
    "seconds_of",
]

T = TypeVar("T")

WARM_UP = 5
"""Pairs that are run and not counted: imports, connection pools, and the processor's caches after a collection."""

COLLECT_EVERY = BATCH // 2
"""Pairs of short samples between two collections, which take longer than many samples and empty the processor's caches.
So many calls fill whole batches of the trace: no message of theirs is written in a sample of the other side."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report.

    Attributes:
        name: What was measured.
        ours: The figure of mcp_magic, in `unit`; None where it could not be measured.
        theirs: The figure that it is compared with, or None.
        ratio: The median of the pairs' ratios, or None where no ratio is asked for.
        goal: The limit in words, or "" if there is none.
        unit: The unit of `ours` and `theirs`.
        met: Whether the goal is met, or None if there is none.
        note: What else there is to know.
    """

    name: str
    ours: float | None
    theirs: float | None
    ratio: float | None
    goal: str
    unit: str
    met: bool | None
    note: str = ""


@dataclass(slots=True)
class Pairs:
    """Seconds of two sides that took turns; those at one index are a pair."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of ours/theirs.

        >>> Pairs(ours=[1.0, 2.0, 90.0], theirs=[1.0, 1.0, 30.0]).ratio
        2.0
        """
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def in_groups(self, size: int) -> Pairs:
        """Return the sums of so many pairs each, so that work which is done once for many calls counts.

        The processor has done something else in a sample that takes more than four times the median of its side.

        >>> Pairs(ours=[1.0, 3.0, 9.0], theirs=[1.0, 1.0, 90.0]).in_groups(2)
        Pairs(ours=[4.0, 9.0], theirs=[2.0, 4.0])
        """
        sums = []
        for side in (self.ours, self.theirs):
            longest = 4 * statistics.median(side)
            taken = [min(seconds, longest) for seconds in side]
            sums.append([sum(taken[start : start + size]) for start in range(0, len(taken), size)])
        return Pairs(*sums)


def compared(
    name: str, taken: Pairs, *, goal: float | None = None, unit: str = "ms", note: str = "", group: int = 1
) -> Result:
    """Return the result of a comparison whose goal is a ratio, that of the sums of `group` pairs each.

    >>> compared("x", Pairs([0.002], [0.001]), goal=1.1).met
    False
    """
    ours, theirs = _medians(taken, unit)
    limit = f"at most {goal:.2f}" if goal is not None else ""
    ratio = (taken.in_groups(group) if group > 1 else taken).ratio
    met = ratio <= goal if goal is not None else None
    return Result(name, ours, theirs, ratio, limit, unit, met, note)


def at_most(name: str, value: float, goal: float, unit: str, note: str = "") -> Result:
    """Return the result of a measurement with a limit of its own.

    >>> at_most("page", 210, 200, "kB").met
    False
    """
    return Result(name, value, None, None, f"at most {goal:g} {unit}", unit, value <= goal, note)


def not_measured(name: str, reason: str) -> Result:
    """Return what stands for a result that needs something which is not here.

    >>> not_measured("click", "no browser").note
    'not measured: no browser'
    """
    return Result(name, None, None, None, "", "", None, f"not measured: {reason}")


_UNITS = {"s": 1.0, "ms": 1e3, "tokens": 1.0}


def _medians(taken: Pairs, unit: str) -> tuple[float, float]:
    scale = _UNITS[unit]
    return statistics.median(taken.ours) * scale, statistics.median(taken.theirs) * scale


def pairs(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    count: int,
    *,
    warm_up: int = 1,
    settle: Callable[[], object] = lambda: None,
) -> Pairs:
    """Time two functions that each take long, `count` times, with a collection before each.

    `settle` is called after each: it closes what they have opened.
    """
    taken = Pairs()
    for number in range(-warm_up, count):
        sample = Pairs()
        for do, seconds in _in_turn(number, (ours, sample.ours), (theirs, sample.theirs)):
            seconds.append(seconds_of(do))
            settle()
        if number >= 0:
            taken.ours += sample.ours
            taken.theirs += sample.theirs
    return taken


def seconds_of(do: Callable[[], object]) -> float:
    """Return the seconds that a function takes; what it returns is freed after the clock has stopped."""
    with _no_collector():
        started = time.perf_counter()
        kept = do()
        seconds = time.perf_counter() - started
    del kept
    return seconds


async def async_pairs(
    ours: Callable[[], Awaitable[object]],
    theirs: Callable[[], Awaitable[object]],
    count: int,
    *,
    warm_up: int = WARM_UP,
    settle: Callable[[], None] = lambda: None,
) -> Pairs:
    """Time two coroutine functions that each take milliseconds, `count` times.

    After each collection `warm_up` pairs are not counted. `settle` does what they have left to do.
    """
    taken = Pairs()
    for start in range(0, count, COLLECT_EVERY):
        with _no_collector():
            await _taken(ours, theirs, range(warm_up))
            settle()
            part = await _taken(ours, theirs, range(start, min(start + COLLECT_EVERY, count)))
        taken.ours += part.ours
        taken.theirs += part.theirs
    return taken


async def _taken(
    ours: Callable[[], Awaitable[object]], theirs: Callable[[], Awaitable[object]], numbers: range
) -> Pairs:
    taken = Pairs()
    for number in numbers:
        for do, seconds in _in_turn(number, (ours, taken.ours), (theirs, taken.theirs)):
            started = time.perf_counter()
            await do()
            seconds.append(time.perf_counter() - started)
    return taken


def _in_turn(number: int, first: T, second: T) -> tuple[T, T]:
    """Return both in an order that changes with every pair.

    >>> _in_turn(0, "a", "b"), _in_turn(1, "a", "b")
    (('a', 'b'), ('b', 'a'))
    """
    return (second, first) if number % 2 else (first, second)


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
