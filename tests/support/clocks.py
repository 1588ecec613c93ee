"""CPU time that a machine at half speed does not change, and an event loop whose time is virtual."""

from __future__ import annotations

import asyncio
import json
import re
import selectors
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

__all__ = ["CpuTime", "VirtualLoop", "cpu_time", "in_virtual_time"]

USUAL = 0.08
"""CPU seconds of `_reference` on the machine for which the limits of the tests hold: the least that was measured on a
machine of two cores (0.08 to 0.14, as its speed changes)."""


@dataclass
class CpuTime:
    """The CPU time of a block, in the seconds of the usual machine."""

    seconds: float = 0.0


@contextmanager
def cpu_time() -> Iterator[CpuTime]:
    """Measure the CPU time of this thread in a block, and the speed of the machine after it."""
    spent = CpuTime()
    began = time.thread_time()
    yield spent
    own = time.thread_time() - began
    spent.seconds = own * USUAL / min(_reference() for _ in range(3))


def _reference() -> float:
    """Do what Python does most, and return the CPU seconds that it took."""
    began = time.thread_time()
    rows = [{"id": number, "name": f"row {number}", "text": "x" * 40} for number in range(2000)]
    for _ in range(10):
        json.loads(json.dumps(rows))
    re.sub(r"(\w+) (\d)", r"\2 \1", "row 1 of 2, " * 20_000)
    return time.thread_time() - began


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
