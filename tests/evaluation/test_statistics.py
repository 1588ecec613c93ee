"""The statistics of evaluations: known values, and simulations with fixed seeds of what the intervals promise."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.evaluation.statistics import (
    FEWEST,
    Comparison,
    adjust,
    compare,
    effective_size,
    missed_share,
    share_of,
    t_probability,
    t_quantile,
    wilson_interval,
)

SIMULATIONS = 2000
EFFECT = 0.75  # times as often right

# Cases as a model finds them: its chance in each, as a beta distribution.
EASY, MIDDLING, MIXED = (9, 1), (6, 4), (0.5, 0.5)
KINDS = [pytest.param(EASY, id="easy"), pytest.param(MIDDLING, id="middling"), pytest.param(MIXED, id="mixed")]


def chances(generator, kind, cases, simulations=SIMULATIONS):
    return generator.beta(*kind, (simulations, cases))


def counts_of(generator, chance, runs):
    return generator.binomial(runs, chance)


def comparisons(first, second, runs):
    """Return the comparison of each simulation, from how many runs of each case were right; equal ones are shared."""
    cases = first.shape[1]
    differences = second - first
    noise = sum((side * (runs - side)).sum(1) for side in (first, second))
    figures = np.stack([differences.sum(1), (differences**2).sum(1), noise], 1)
    unique, inverse = np.unique(figures, axis=0, return_inverse=True)
    values = []
    for total, squares, within in unique.tolist():
        deviation = math.sqrt((squares - total * total / cases) / (cases - 1)) / runs
        part = within / runs**2 / (runs - 1) / cases if runs > 1 else None
        values.append(Comparison(total / cases / runs, deviation, cases, runs, part))
    return values, inverse.reshape(-1)


def mean_of(values, inverse, function):
    """Return the share of simulations of which something is true."""
    return float(np.mean(np.array([function(value) for value in values], dtype=float)[inverse]))


# Known values.


@pytest.mark.parametrize(
    ("level", "freedom", "value"),
    [
        (0.90, 1, 6.3138),
        (0.95, 1, 12.7062),
        (0.99, 2, 9.9248),
        (0.95, 3, 3.1824),
        (0.95, 4, 2.7764),
        (0.95, 9, 2.2622),
        (0.999, 9, 4.7809),
        (0.95, 30, 2.0423),
        (0.99, 60, 2.6603),
        (0.95, 120, 1.9799),
        (0.95, 1000, 1.9623),
        (0.999, 1000, 3.3003),
    ],
)
def test_t_quantiles_are_those_of_the_tables(level, freedom, value):
    assert t_quantile(level, freedom) == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize("freedom", [201, 202, 500, 1001])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_t_expansion_agrees_with_the_exact_probability(freedom, level):
    assert t_probability(t_quantile(level, freedom), freedom) == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize(
    ("right", "size", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (9, 9, 0.7009, 1),
    ],
)
def test_wilson_intervals_are_those_of_the_tables(right, size, low, high):
    assert wilson_interval(right / size, size) == pytest.approx((low, high), abs=5e-5)


def test_share_of_single_runs_has_the_interval_of_wilson():
    share = share_of([[1]] * 7 + [[0]] * 3)
    assert (share.low, share.high) == wilson_interval(0.7, 10)
    assert (share.value, share.cases, share.runs) == (0.7, 10, 10)


def test_share_counts_cases_if_all_runs_of_a_case_are_alike():
    alike = share_of([[1] * 5] * 7 + [[0] * 5] * 3)
    assert (alike.low, alike.high) == pytest.approx(wilson_interval(0.7, 10))
    unlike = share_of([[1, 0, 1, 1, 0]] * 10)
    assert (unlike.low, unlike.high) == pytest.approx(wilson_interval(0.6, 50))


def test_effective_size_is_between_cases_and_runs():
    assert effective_size([1.0, 0.0, 1.0], 15) == pytest.approx(3)
    assert effective_size([0.5] * 400, 800) == 800
    assert 20 < effective_size([1.0] * 19 + [0.8], 100) < 100


def test_each_case_has_the_same_weight_in_a_share():
    assert share_of([[1] * 9, [0], []]).value == 0.5
    assert str(share_of([[1] * 9, [0], []])) == "50% [9%, 91%]"


def test_a_share_of_nothing_is_an_error():
    with pytest.raises(ArgumentsError, match=r"^no case has a run, so there is no share of right ones$"):
        share_of([[], []])


# Comparisons.


def test_comparison_uses_the_paired_t_interval():
    first, second = [[0, 1], [1, 1], [0, 0], [1, 0]], [[1, 1], [1, 1], [0, 1], [1, 1]]
    comparison = compare(first, second)
    half = t_quantile(0.95, 3) * 0.25 / math.sqrt(4)  # differences 0.5, 0, 0.5, 0.5
    assert comparison.interval == pytest.approx((0.375 - half, 0.375 + half))
    assert comparison.noise == pytest.approx((0.25 + 0 + 0 + 0.25 + 0 + 0.25) / 4)


def test_p_is_where_the_interval_ends_at_zero():
    for comparison in (Comparison(0.2, 0.5, 30), Comparison(-0.2, 0.0, 30), Comparison(1.0, 0.0, 12)):
        at = Comparison(comparison.difference, comparison.deviation, comparison.cases, level=1 - comparison.p)
        assert min(map(abs, at.interval)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("comparison", "verdict", "effect"),
    [
        pytest.param(Comparison(0.5, 0.3, 20), "better", "helps", id="better"),
        pytest.param(Comparison(-0.5, 0.3, 20), "worse", "hurts", id="worse"),
        pytest.param(Comparison(0.01, 0.1, 50), "no difference seen", "no effect seen", id="no difference"),
        pytest.param(Comparison(0.0, 0.0, 40), "no difference seen", "no effect seen", id="all zero"),
        pytest.param(
            Comparison(0.0, 0.0, 10, 5, 0.0),
            "cannot tell (about 25 more cases)",
            "cannot tell (about 120 more runs)",
            id="few zeros",
        ),
        pytest.param(Comparison(1.0, 0.0, 6), "better", "helps", id="all better"),
        pytest.param(
            Comparison(1.0, 0.0, 5, 2, 0.0),
            "cannot tell (about 1 more case)",
            "cannot tell (about 2 more runs)",
            id="few better",
        ),
    ],
)
def test_verdict_follows_from_the_interval(comparison, verdict, effect):
    assert (comparison.verdict, comparison.effect) == (verdict, effect)
    assert repr(comparison) == f"<Comparison of {comparison.cases} cases: {comparison}>"


def test_equal_differences_leave_room_for_missed_cases():
    missed = missed_share(12)
    assert Comparison(0.0, 0.0, 12).interval == pytest.approx((-missed, missed))
    low, high = Comparison(1.0, 0.0, 12).interval
    assert (low, high) == pytest.approx((1 - 2 * missed, 1))
    assert Comparison(0.2, 0.0, 12).interval[0] < 0


def test_no_verdict_is_given_for_few_cases():
    few = compare([[0]] * (FEWEST - 1), [[1]] * (FEWEST - 1))
    assert few.sign is None
    assert compare([[0]] * FEWEST, [[1]] * FEWEST).verdict == "better"
    single = compare([[0]], [[1]])
    assert single.sign is None
    assert single.interval[0] < 0


def test_decided_comparisons_need_nothing_more():
    comparison = Comparison(0.5, 0.3, 20, 5, 0.01)
    assert (comparison.further_cases, comparison.further_runs, comparison.more_runs) == (0, 0, 0)


def test_more_runs_are_advised_only_where_they_can_decide():
    noisy, different = (Comparison(0.05, 0.3, 20, 2, noise) for noise in (0.09, 0.0))
    assert noisy.more_runs
    assert noisy.further_runs <= noisy.more_runs * 20
    assert different.more_runs is None
    assert different.further_runs == different.further_cases * 2
    assert Comparison(0.05, 0.3, 20).more_runs is None  # of one run each nobody knows


def test_large_numbers_of_further_cases_have_two_digits():
    comparison = Comparison(0.051, 0.6, 20)
    assert comparison.further_cases % 10
    assert re.fullmatch(r"cannot tell \(about [1-9]\d0 more cases\)", comparison.verdict)


def test_cases_without_runs_on_a_side_are_left_out():
    assert compare([[1], [], [1], [0]], [[1], [1], [], [1]]).cases == 2
    with pytest.raises(ArgumentsError, match=r"^no case has runs on both sides, so there is nothing to compare$"):
        compare([[1], []], [[], [1]])
    with pytest.raises(ArgumentsError, match=r"^the same cases are compared in pairs, but there are 1 and 2$"):
        compare([[1]], [[1], [1]])


def test_adjusted_verdicts_are_those_of_holm():
    comparisons = [Comparison(difference, 0.3, 30) for difference in (0.15, 0.02, 0.3, -0.13, 0.12)]
    risks = [1 - comparison.level for comparison in adjust(comparisons)]
    order = sorted(comparisons, key=lambda comparison: comparison.p)
    rejected = []
    for rank, comparison in enumerate(order):
        if comparison.p > 0.05 / (len(order) - rank):
            break
        rejected.append(comparison.difference)
    assert [c.difference for c in adjust(comparisons) if c.sign in (1, -1)] == [0.15, 0.3]
    assert sorted(rejected) == [0.15, 0.3]
    assert risks == pytest.approx([0.05 / 4, 0.05 / 3, 0.05 / 5, 0.05 / 3, 0.05 / 3])


def test_a_single_comparison_is_not_adjusted():
    assert adjust([Comparison(0.2, 0.3, 30)])[0].level == pytest.approx(0.95)
    assert adjust([]) == []


# Simulations.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cases", [10, 20, 50, 100])
@pytest.mark.parametrize("runs", [1, 2, 3, 5])
def test_intervals_cover_and_equal_models_seem_equal(kind, cases, runs):
    generator = np.random.default_rng([39, cases, runs, *map(int, kind)])
    chance = chances(generator, kind, cases)
    equal, at = comparisons(*(counts_of(generator, chance, runs) for _ in range(2)), runs)
    alarms = mean_of(equal, at, lambda value: value.sign in (1, -1))
    assert alarms <= 0.065
    truth = (EFFECT - 1) * kind[0] / sum(kind)
    pairs = (counts_of(generator, chance * factor, runs) for factor in (1, EFFECT))
    unequal, at = comparisons(*pairs, runs)
    covered = mean_of(unequal, at, lambda value: value.interval[0] <= truth <= value.interval[1])
    assert 0.91 <= covered <= 0.97
    assert mean_of(unequal, at, lambda value: value.sign == 1) <= 0.005


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cases", [FEWEST, 8])
def test_few_cases_raise_no_more_false_alarms(kind, cases):
    generator = np.random.default_rng(cases)
    for runs in (1, 5):
        chance = chances(generator, kind, cases)
        equal, at = comparisons(*(counts_of(generator, chance, runs) for _ in range(2)), runs)
        assert mean_of(equal, at, lambda value: value.sign in (1, -1)) <= 0.065


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runs", [1, 2, 5])
def test_intervals_of_shares_cover(kind, runs):
    generator = np.random.default_rng(runs)
    shares = []
    for cases in (10, 20, 50):
        counts = counts_of(generator, chances(generator, kind, cases), runs)
        truth, covered = kind[0] / sum(kind), 0
        for row in (counts / runs).tolist():
            low, high = wilson_interval(math.fsum(row) / cases, effective_size(row, cases * runs))
            covered += low <= truth <= high
        shares.append(covered / SIMULATIONS)
    assert min(shares) >= 0.91
    assert sum(shares) / 3 <= 0.98  # Wilson's interval itself covers up to 99 % with ten single runs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runs", [1, 3, 5])
@pytest.mark.parametrize("factor", [1, EFFECT])
def test_advised_further_cases_decide_most_often(kind, runs, factor):
    generator = np.random.default_rng([runs, *map(int, kind)])
    asked = decided = alarms = 0
    chance = chances(generator, kind, 20, 300)
    first, second = counts_of(generator, chance, runs), counts_of(generator, chance * factor, runs)
    values, at = comparisons(first, second, runs)
    further = np.array([value.further_cases for value in values])[at]
    for number in np.flatnonzero(further).tolist():
        more = chances(generator, kind, int(further[number]), 1)
        sides = [
            np.concatenate([side[number : number + 1], counts_of(generator, more * part, runs)], axis=1)
            for side, part in ((first, 1), (second, factor))
        ]
        (value,), _ = comparisons(*sides, runs)
        asked += 1
        decided += value.sign is not None
        alarms += value.sign in ((1, -1) if factor == 1 else (0, 1))
    assert decided / asked > 0.6
    assert alarms / asked < 0.1  # looking twice raises more false alarms than looking once


@pytest.mark.parametrize("kind", KINDS)
def test_advised_further_runs_decide_most_often(kind):
    generator = np.random.default_rng(7)
    runs, asked, decided = 3, 0, 0
    chance = chances(generator, kind, 20, 300)
    first, second = counts_of(generator, chance, runs), counts_of(generator, chance * EFFECT, runs)
    values, at = comparisons(first, second, runs)
    more_runs = np.array([value.more_runs or 0 for value in values])[at]
    for number in np.flatnonzero(more_runs).tolist():
        more = int(more_runs[number])
        sides = [
            (side[number] + counts_of(generator, chance[number] * part, more))[None]
            for side, part in ((first, 1), (second, EFFECT))
        ]
        (value,), _ = comparisons(*sides, runs + more)
        asked += 1
        decided += value.sign is not None
    assert decided / asked > 0.6


def test_holm_keeps_false_alarms_of_many_comparisons_rare():
    generator = np.random.default_rng(12)
    sentences, cases, runs, alarms, single = 12, 20, 3, 0, 0
    for _ in range(500):
        chance = chances(generator, MIXED, cases, 1)
        full = counts_of(generator, chance, runs)
        rows = [comparisons(counts_of(generator, chance, runs), full, runs)[0][0] for _ in range(sentences)]
        alarms += any(row.sign in (1, -1) for row in adjust(rows))
        single += any(row.sign in (1, -1) for row in rows)
    assert alarms / 500 <= 0.065
    assert single / 500 > 0.2
