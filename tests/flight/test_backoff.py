"""Growing pauses: how they grow, up to which, and when they begin anew."""

from __future__ import annotations

from mcp_magic.flight import backoff
from mcp_magic.flight.backoff import LASTED_SECONDS, QUIET_SECONDS, Backoff, Pacing


def test_pauses_double_and_begin_anew_after_what_has_lasted():
    pauses = Backoff(0.5, 3)
    assert [pauses.pause(lasted) for lasted in (0, 1, LASTED_SECONDS, 0)] == [0.5, 1, 2, 3]
    assert pauses.pause(LASTED_SECONDS + 1) == 0.5
    assert pauses.attempts == 1


def test_pauses_differ_by_their_random_part():
    assert {0.9 <= Backoff(1, 1, jitter=0.1).pause() <= 1.1 for _ in range(100)} == {True}
    assert Backoff(1, 1, total=0).seconds_left == 0


def test_first_repetition_after_a_quiet_time_is_immediate(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(backoff.time, "monotonic", lambda: now)
    pacing = Pacing(0.1, 0.3)
    assert [pacing.pause() for _ in range(5)] == [0, 0.1, 0.2, 0.3, 0.3]
    now += QUIET_SECONDS + 1
    assert [pacing.pause(), pacing.pause()] == [0, 0.1]
