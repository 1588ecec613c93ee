"""The pace of a map against limits of several kinds, in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import ArgumentsError
from mcp_magic.map.pace import Pace, read_rate
from tests.support.clocks import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

LATENCY = 0.02


def window(rate: int) -> Callable[[float], bool]:
    """So many calls in each second."""
    began, count = -1.0, 0

    def takes(now: float) -> bool:
        nonlocal began, count
        if now - began >= 1:
            began, count = now, 0
        count += 1
        return count <= rate

    return takes


def sliding(rate: int, seconds: float = 1.0) -> Callable[[float], bool]:
    """So many calls in any second."""
    taken: deque[float] = deque(maxlen=rate)

    def takes(now: float) -> bool:
        if len(taken) == rate and now - taken[0] < seconds:
            return False
        taken.append(now)
        return True

    return takes


def bucket(rate: int) -> Callable[[float], bool]:
    """So many calls a second on average; a second of them can be saved up."""
    tokens, at = float(rate), 1000.0

    def takes(now: float) -> bool:
        nonlocal tokens, at
        tokens, at = min(rate, tokens + (now - at) * rate), now
        if tokens < 1:
            return False
        tokens -= 1
        return True

    return takes


async def called(pace: Pace, rows: int, takes: Callable[[float], bool], wait: Any) -> tuple[float, list[float]]:
    """Call for each row until it is accepted; return the seconds, and when calls were refused."""
    loop = asyncio.get_running_loop()
    began, left, refusals = loop.time(), iter(range(rows)), list[float]()

    async def work() -> None:
        for _ in left:
            while True:
                sent = await pace.turn()
                await asyncio.sleep(LATENCY)
                if takes(loop.time()):
                    pace.accepted(sent)
                    break
                refusals.append(loop.time() - began)
                pace.refused(sent, wait)
                assert not pace.is_stuck

    await asyncio.gather(*(work() for _ in range(64)))
    return loop.time() - began, refusals


@pytest.mark.parametrize("wait", [1.0, None], ids=["Retry-After", "silent"])
@pytest.mark.parametrize("kind", [window, sliding, bucket])
@pytest.mark.parametrize(("rows", "goal"), [(1_000, 12.5), (10_000, 107.0)])
def test_a_limit_of_100_a_second_is_nearly_used_up(kind, wait, rows, goal):
    seconds, refusals = in_virtual_time(called(Pace(), rows, kind(100), wait))
    assert seconds <= goal
    assert sum(when > 2 for when in refusals) <= 0.02 * rows


@pytest.mark.parametrize("limit", [2, 20, 700])
def test_other_limits_are_nearly_used_up(limit):
    seconds, refusals = in_virtual_time(called(Pace(), 30 * limit, window(limit), 1.0))
    assert seconds <= 45
    assert len(refusals) <= 30 + 2 * limit


def test_a_limit_of_a_minute_costs_few_refusals():
    seconds, refusals = in_virtual_time(called(Pace(), 400, sliding(100, 60.0), None))
    assert seconds <= 300
    assert len(refusals) <= 60


def test_pace_recovers_soon_after_a_busy_moment_or_minute():
    without, _ = in_virtual_time(called(Pace(), 20_000, lambda _: True, None))
    seconds, _ = in_virtual_time(called(Pace(), 20_000, lambda now: not 1002 < now < 1002.1, None))
    assert seconds <= without + 10
    without, _ = in_virtual_time(called(Pace(), 5_000, lambda _: True, None))
    seconds, refusals = in_virtual_time(called(Pace(), 5_000, lambda now: not 1003 < now < 1063, 2.0))
    assert seconds <= 60 + without + 15
    assert len(refusals) <= 3 * 64 + 31  # a row is sent a few times only


def test_a_rate_is_kept_in_any_second():
    async def run() -> list[float]:
        pace = Pace(10.0, adaptive=False)
        turns = []
        for number in range(60):
            turns.append(await pace.turn())
            if number % 20 == 10:
                await asyncio.sleep(0.7)
        return turns

    turns = in_virtual_time(run())
    assert all(later - earlier >= 0.999 for earlier, later in zip(turns, turns[10:], strict=False))


def test_a_server_that_takes_nothing_is_given_up_after_minutes():
    async def run(wait: float | None) -> float:
        pace = Pace()
        while not pace.is_stuck:
            pace.refused(await pace.turn(), wait)
        return asyncio.get_running_loop().time() - 1000

    for wait in (None, 1.0, 20.0):
        assert 120 < in_virtual_time(run(wait)) < 240


@pytest.mark.parametrize("text", ["fast", "0/s", "10/day", "-1"])
def test_an_invalid_rate_is_refused(text):
    with pytest.raises(ArgumentsError, match="write 10/s, 100/min or 1000/h"):
        read_rate(text)
