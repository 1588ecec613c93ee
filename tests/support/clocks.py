"""Work that grows no faster than what it is done on, pauses that are noted, and an event loop of virtual time."""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["VirtualLoop", "assert_linear", "in_virtual_time", "jump", "sixteenth", "slept", "spent"]

TIMES = 16
"""How many times as much the larger of two things is; quadratic work takes 256 times as long on it."""

MOST = 4 * TIMES

LEAST_SECONDS = 0.002
"""Less than this is as much: it is what a garbage collection takes."""


def sixteenth(text: str) -> str:
    """Return both ends of a text."""
    return text[: len(text) // TIMES // 2] + text[-len(text) // TIMES // 2 :]


def assert_linear(
    work: Callable[[Any], object], less: Any, more: Any, make: Callable[[Any], Any] = lambda on: on
) -> None:
    """Assert that work on 16 times as much takes about 16 times the CPU time of this thread, and not its square.

    `make` makes what the work is on, anew for each time. That does not count: new memory takes longer than used memory.
    """
    most = MOST * max(LEAST_SECONDS, min(spent(work, make(less)) for _ in range(3)))
    seconds = [most]
    while len(seconds) < 4 and min(seconds) >= most:  # others may be at work here
        seconds.append(spent(work, make(more)))
    assert min(seconds) < most, f"{min(seconds):.2f} s, where a sixteenth takes {most / MOST:.4f} s"


def spent(work: Callable[[Any], object], on: Any) -> float:
    """Return the CPU time of this thread in seconds that some work takes."""
    began = time.thread_time()
    work(on)
    return time.thread_time() - began


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds for which this package has slept in coroutines; it really sleeps a moment."""
    pauses, sleep = list[float](), asyncio.sleep

    def short(seconds: float, result: Any = None) -> Any:
        if not sys._getframe(1).f_globals["__name__"].startswith("mcp_magic."):
            return sleep(seconds, result)
        pauses.append(seconds)
        return sleep(min(seconds, 0.01), result)

    monkeypatch.setattr(asyncio, "sleep", short)
    return pauses


def jump(seconds: float) -> None:
    """Set the clock of this loop ahead: what was due until then is done next."""
    loop = asyncio.get_running_loop()
    usual = loop.time
    loop.time = lambda: usual() + seconds  # type: ignore[method-assign]


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self.now = 1000.0
        outer = self

        class Jump(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> list[Any]:
                outer.now += timeout or 0.0
                return []

        super().__init__(Jump())

    def time(self) -> float:
        return self.now


def in_virtual_time(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
