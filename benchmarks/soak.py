"""Many calls over servers that are killed again and again: `python -m benchmarks.soak`.

Eight servers (stdio, streamable HTTP, in this process) answer calls that come a few at a time. A seeded generator
kills server processes in between; the sessions come back by themselves. Asked is that memory stays flat, that the
event loop stays responsive, that no answer is wrong and that no call is made twice.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.soak_fleet import SERVERS, fleet
from mcp_magic.errors import MCPMagicError

if TYPE_CHECKING:
    from benchmarks.soak_fleet import Fleet

__all__ = ["Soak", "main", "soak"]

AT_ONCE = 8
"""Calls under way at the same time."""

BEAT = 0.02
"""Seconds between two beats of the heart that measures how long the loop is held up."""

GOAL_GROWTH = 20_000_000
"""Bytes that the process may grow by after the warm-up."""

GOAL_DELAY = 0.5
"""Seconds of work for which the loop may be held up at most."""


@dataclass
class Soak:
    """What came of it.

    Attributes:
        calls: How many were made.
        answered: How many had the right answer.
        errors: The others, by class.
        wrong: Answers that were not the right ones.
        twice: Calls that a server was given more than once.
        lost: Calls that had a right answer and that no server knows.
        kills: How often a server process was killed.
        seconds: How long it took.
        memory: Resident bytes at the end of the warm-up, and at the end.
        delay: The longest time in seconds for which the event loop did not come round.
        busy: The longest time in seconds for which it worked meanwhile; the rest of a delay is other processes'.
        left: Processes, tasks and connections that were left over.
    """

    calls: int = 0
    answered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    twice: int = 0
    lost: int = 0
    kills: int = 0
    seconds: float = 0.0
    memory: tuple[int, int] = (0, 0)
    delay: float = 0.0
    busy: float = 0.0
    left: list[str] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """Bytes by which the process grew after the warm-up."""
        return self.memory[1] - self.memory[0]

    @property
    def problems(self) -> list[str]:
        """What is not as it should be."""
        judged = {
            f"{self.wrong} wrong answers": self.wrong,
            f"{self.twice} calls made twice": self.twice,
            f"{self.lost} calls answered that nobody ran": self.lost,
            f"memory grew by {self.growth / 1e6:.1f} MB": self.growth > GOAL_GROWTH,
            f"the loop was held up for {self.busy:.2f} s": self.busy > GOAL_DELAY,
            f"left over: {', '.join(self.left)}": self.left,
            "nobody answered": not self.answered,
        }
        return [problem for problem, is_one in judged.items() if is_one]

    def __str__(self) -> str:
        failed = ", ".join(f"{count:,} {kind}" for kind, count in self.errors.most_common()) or "none"
        return (
            f"{self.calls:,} calls in {self.seconds:.0f} s ({self.calls / self.seconds:.0f} a second), "
            f"{self.kills} kills\n"
            f"answered {self.answered:,}; errors: {failed}; wrong {self.wrong}, twice {self.twice}, lost {self.lost}\n"
            f"memory {self.memory[0] / 1e6:.1f} -> {self.memory[1] / 1e6:.1f} MB ({self.growth / 1e6:+.1f}); "
            f"longest delay of the loop {self.delay * 1000:.0f} ms, longest work in it {self.busy * 1000:.0f} ms; "
            f"left over: {', '.join(self.left) or 'nothing'}"
        )


async def soak(
    calls: int,
    warm_up: int,
    seed: int,
    *,
    every: int = 100,
    servers: tuple[int, int, int] = SERVERS,
    told: Any = None,
) -> Soak:
    """Make the calls.

    Args:
        calls: How many.
        warm_up: After how many of them memory is measured for the first time.
        seed: What is killed when.
        every: Calls between two kills, on average.
        servers: How many over stdio, over HTTP and in this process.
        told: Called with a line now and then.
    """
    found = Soak(calls=calls)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder)
        heart = asyncio.create_task(_beat(found))
        try:
            async with fleet(log, servers) as ships:
                started = time.monotonic()
                answered = await _calls(found, ships, random.Random(seed), calls, warm_up, every, told)
                found.seconds = time.monotonic() - started
        finally:
            heart.cancel()
        found.left += ships.left
        _judge(found, answered, log)
    return found


async def _calls(
    found: Soak, servers: Fleet, chance: random.Random, calls: int, warm_up: int, every: int, told: Any
) -> list[int]:
    """Make the calls, a few at a time, and kill in between; return the numbers of those that were answered."""
    answered: list[int] = []
    numbers = iter(range(calls))

    async def worker() -> None:
        for number in numbers:
            await _one(found, servers, servers.names[number % len(servers.names)], number, answered)
            if number == warm_up:
                found.memory = (_memory(), 0)
            if chance.random() < 1 / every:
                found.kills += await servers.kill_one(chance)
            if told is not None and number and number % max(1, calls // 10) == 0:
                told(f"{number:,} calls, {_memory() / 1e6:.1f} MB, longest delay {found.delay * 1000:.0f} ms")

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    found.memory = (found.memory[0], _memory())
    return answered


async def _one(found: Soak, servers: Fleet, name: str, number: int, answered: list[int]) -> None:
    try:
        result = await servers.host[name].call_tool(
            "echo", {"number": number, "text": "x" * (number % 500)}, timeout=30
        )
    except MCPMagicError as error:
        found.errors[type(error).__name__] += 1
        return
    if result.data == {"number": number, "length": number % 500}:
        found.answered += 1
        answered.append(number)
    else:
        found.wrong += 1


async def _beat(found: Soak) -> None:
    last, worked = time.perf_counter(), time.thread_time()
    while True:
        await asyncio.sleep(BEAT)
        now, work = time.perf_counter(), time.thread_time()
        found.delay = max(found.delay, now - last - BEAT)
        found.busy = max(found.busy, min(now - last, work - worked))
        last, worked = now, work


def _memory() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def _judge(found: Soak, answered: list[int], log: Path) -> None:
    """Hold what servers wrote down against what was answered."""
    ran = Counter(int(line) for file in log.iterdir() for line in file.read_text().split())
    found.twice = sum(count > 1 for count in ran.values())
    found.lost = sum(number not in ran for number in answered)


def main() -> int:
    """Run what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--warm-up", type=int, default=2_000, help="calls before memory is measured")
    parser.add_argument("--seed", type=int, default=1, help="what is killed when")
    given = parser.parse_args()
    found = asyncio.run(soak(given.calls, given.warm_up, given.seed, told=lambda line: print(line, flush=True)))
    print(found)
    for problem in found.problems:
        print(f"NOT MET: {problem}")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
