"""Which failed requests are sent again, and how often."""

from __future__ import annotations

import pytest

from mcp_magic.errors import (
    HTTPStatusError,
    ProtocolError,
    RequestTimeoutError,
    SessionClosedError,
    SessionError,
    UnreachableError,
)
from mcp_magic.flight.request import Limits
from mcp_magic.flight.retry import MODEL, ROWS, Failure, Retries, failure_of


def with_facts(error, **facts):
    vars(error).update(facts)
    return error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (with_facts(SessionClosedError("lost"), sent=True), Failure.DROPPED),
        (with_facts(SessionClosedError("lost"), sent=False), Failure.UNSENT),
        (RequestTimeoutError("late"), Failure.LATE),
        (UnreachableError("nobody listens"), Failure.UNSENT),
        (HTTPStatusError("a proxy", 502), Failure.UNSENT),
        (HTTPStatusError("no credentials", 401), Failure.FINAL),
        (ProtocolError("busy", -32000, status=429), Failure.BUSY),
        (ProtocolError("an error", -32000, status=500), Failure.FINAL),
        (SessionError("another"), Failure.FINAL),
        (ValueError("another"), Failure.FINAL),
    ],
    ids=lambda value: value.name if isinstance(value, Failure) else None,
)
def test_errors_say_whether_the_request_may_have_run(error, failure):
    assert failure_of(error) is failure


@pytest.mark.parametrize("failure", [Failure.DROPPED, Failure.LATE])
@pytest.mark.parametrize("policy", [MODEL, ROWS])
def test_only_harmless_requests_that_may_have_run_are_repeated(policy, failure):
    assert policy.allows(failure, 0, is_harmless=True)
    assert not policy.allows(failure, 0, is_harmless=False)
    assert policy.allows(Failure.UNSENT, 0, is_harmless=False)
    assert not policy.allows(failure, policy.most[failure], is_harmless=True)
    assert not policy.allows(Failure.FINAL, 0, is_harmless=True)


@pytest.mark.parametrize(
    ("limits", "waits", "pauses"),
    [
        (Limits(), [20.0, 30.0, 1.0], [20.0, 30.0, None]),
        (Limits(), [61.0], [None]),
        (Limits(), [None], [None]),
        (Limits(timeout=25), [20.0, 6.0], [20.0, None]),
        (Limits(waits_if_busy=False), [0.0], [None]),
    ],
)
def test_a_busy_server_is_waited_for_twice(limits, waits, pauses):
    retries = Retries(limits, is_harmless=False)
    assert [retries.pause(Failure.BUSY, wait) for wait in waits] == pauses
