from __future__ import annotations

import asyncio

import pytest

from mcp_magic.errors import ProtocolError, RequestTimeoutError, SessionClosedError, SessionError, ToolError
from mcp_magic.langchain.calls import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("weather", clock=clock)


def attempt(breaker: Breaker, error: BaseException | None = None, session: object = None) -> None:
    try:
        with breaker.attempt(session):
            if error is not None:
                raise error
    except BaseException as caught:
        if caught is not error:
            raise


def test_three_failures_in_a_row_open_it(breaker: Breaker) -> None:
    for _ in range(2):
        attempt(breaker, SessionClosedError("gone"))
    assert not breaker.is_open
    attempt(breaker, RequestTimeoutError("late"))
    assert breaker.is_open


def test_a_success_in_between_starts_the_count_again(breaker: Breaker) -> None:
    for error in (
        SessionClosedError("a"),
        SessionClosedError("b"),
        None,
        SessionClosedError("c"),
        SessionClosedError("d"),
    ):
        attempt(breaker, error)
    assert not breaker.is_open


@pytest.mark.parametrize("error", [ProtocolError("refused", -32602), ToolError("failed"), asyncio.CancelledError()])
def test_errors_unrelated_to_the_session_do_not_count(breaker: Breaker, error: BaseException) -> None:
    for _ in range(5):
        attempt(breaker, error)
    assert not breaker.is_open


def test_calls_that_fail_with_one_session_count_once(breaker: Breaker) -> None:
    for _ in range(5):
        attempt(breaker, SessionClosedError("gone"), session="first")
    assert not breaker.is_open
    attempt(breaker, SessionClosedError("gone"), session="second")
    attempt(breaker, SessionClosedError("gone"), session="third")
    assert breaker.is_open


def test_an_open_one_says_since_when_and_what_to_do(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        attempt(breaker, SessionClosedError("weather: the session has ended.\n  stderr: secret"))
        clock.now += 5
    with pytest.raises(SessionError) as caught:
        breaker.check()
    assert not isinstance(caught.value, SessionClosedError)
    assert str(caught.value) == (
        "weather: not called: its session has failed 3 times in a row since 15 s ago; "
        "`%mcp reconnect weather` opens it again, else the next call after 25 s tries it.\n"
        "  last: weather: the session has ended."
    )


def test_breaker_retries_after_30_seconds_and_reopens_on_failure(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        attempt(breaker, SessionClosedError("gone"))
    clock.now += 30
    assert not breaker.is_open
    attempt(breaker, SessionClosedError("gone"))
    assert breaker.is_open
    clock.now += 30
    attempt(breaker, asyncio.CancelledError())
    attempt(breaker)
    assert not breaker.is_open
