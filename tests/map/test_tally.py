"""The kinds of errors of a map, and its rate."""

from __future__ import annotations

import itertools
import math

import pytest

from mcp_magic.map.tally import Tally

KINDS: dict[str, tuple[list[str], list[str]]] = {
    "numbers": (["no city 17", "no city 18", "no city -1.5"], ["no city 17 (3 rows, values differ)"]),
    "quoted": (["no 'Oslo' here", 'no "Rome" here'], ["no 'Oslo' here (2 rows, values differ)"]),
    "ids": (["no ab-12 here", "no 6f1ed002-ab55 here"], ["no ab-12 here (2 rows, values differ)"]),
    "same": (["no city 17.", "no city 17."], ["no city 17 (2 rows)"]),
    "words": (["it can't be", "it won't be"], ["it can't be (1 row)", "it won't be (1 row)"]),
}


@pytest.mark.parametrize("case", KINDS)
def test_errors_that_differ_in_values_are_one_kind(case):
    errors, lines = KINDS[case]
    tally = Tally(len(errors))
    for error in errors:
        tally.add("failed", error)
    assert tally.lines(5) == lines
    for error in errors:
        tally.remove("failed", error)
    assert tally.lines(5) == []


def test_the_kinds_of_errors_are_bounded():
    tally = Tally(None)
    for letters in itertools.product("abcdefgh", repeat=4):
        tally.add("failed", "".join(letters))
        tally.add("failed", "usual 3")
    assert len(tally.kinds) <= 1_000
    assert tally.lines() == ["usual 3 (4,096 rows)"]


RATES: dict[str, tuple[dict[str, int], float, float, list[str]]] = {
    "nothing sent": ({}, math.inf, 0.0, []),
    "one call": ({"s": 1}, math.inf, 0.0, []),
    "of the time beside it": ({"s": 6}, math.inf, 3.0, ["3 calls/s"]),
    "of the server with most": ({"s": 6, "t": 16}, math.inf, 8.0, ["8 calls/s"]),
    "few calls at a rate": ({"s": 6}, 2.5, 2.5, ["2.5 calls/s"]),
    "rounded above the rate": ({"s": 298}, 148.9, 148.9, ["149 calls/s"]),
}


@pytest.mark.parametrize("case", RATES)
def test_the_rate_is_that_of_the_time_shown(case):
    sent, most, rate, text = RATES[case]
    tally = Tally(None, most)
    for server, calls in sent.items():
        tally.send(server, calls)
    assert tally.rate(2.0, 3) == rate
    assert tally.rate_text(2.0) == text
    assert tally.rate(0.0, 3) == 0.0
