"""What the runs of some cases tell: shares and differences with their intervals, verdicts, and what would decide more.

The runs of one case are not independent: a case that is easy for a model is easy in each of its runs. So cases are
counted, not runs (Miller, "Adding error bars to evals", arXiv 2411.00640, section 2.2). Two models or variants are
compared by the differences within each case, as both got the same cases (there, section 4). No verdict is given
without an interval, and each verdict follows from its interval alone.

A claim that nothing differs needs a bound: `MARGIN`, the difference that does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

from mcp_magic._text import plural
from mcp_magic.errors import ArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Cases = Sequence[Sequence[float]]
    """For each case the outcomes of its runs: 1 for right, 0 for wrong, or something between."""

LEVEL = 0.95  # of an interval of a single share or difference
MARGIN = 0.1  # a difference of shares that does not matter
POWER = 0.8  # the chance that as many further cases as are advised decide, if what was measured is true

FEWEST = 6
"""Cases below which there is no verdict: of five, not even five that all speak for one side are significant in a sign
test (2 * 0.5**5 = 0.06; Dixon and Mood, 1946)."""

PSEUDO_CASES = 0.25
"""The weight of an all-right and of an all-wrong case that are added when it is estimated how alike the runs of a case
are. Without them, one wrong run in a hundred would seem to prove that runs are independent."""

MOST = 10_000_000  # cases that are computed with at most

MOST_RUNS = 100  # times the runs of a case above which more of them are not advised

NORMAL = NormalDist()


# Student's t distribution.


def t_probability(t: float, freedom: int) -> float:
    """Return the probability that |T| is at most |t|, for a whole number of degrees of freedom.

    Exact: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.

    >>> round(t_probability(2.2621571628, 9), 9), round(t_probability(1.0, 1), 9)
    (0.95, 0.5)
    """
    theta = math.atan(abs(t) / math.sqrt(freedom))
    cosine, is_odd = math.cos(theta), freedom % 2
    term = total = cosine if is_odd else 1.0
    if freedom == 1:
        total = 0.0
    for power in range(2 + is_odd, freedom - 1, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    total *= math.sin(theta)
    return (theta + total) * 2 / math.pi if is_odd else total


@lru_cache(maxsize=4096)
def t_quantile(level: float, freedom: int) -> float:
    """Return the t below which |T| stays with a probability of `level`.

    Up to 200 degrees of freedom by bisection of `t_probability`. Above, by the expansion in Abramowitz and Stegun,
    26.7.5, whose error is there below 1e-9.

    >>> round(t_quantile(0.95, 9), 4), round(t_quantile(0.95, 1), 3), round(t_quantile(0.99, 500), 4)
    (2.2622, 12.706, 2.5857)
    """
    z = NORMAL.inv_cdf((1 + level) / 2)
    if freedom > 200:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))
    low, high = 0.0, 2 * z
    while t_probability(high, freedom) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < level else (low, middle)
    return high


# Shares.


@dataclass(frozen=True)
class Share:
    """The share of right runs, each case with the same weight, and its interval."""

    value: float
    low: float
    high: float
    cases: int
    runs: int

    def __str__(self) -> str:
        return f"{self.value:.0%} [{self.low:.0%}, {self.high:.0%}]"


def wilson_interval(share: float, size: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's score interval for a share of `size` independent trials.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212; equation
    (4) in Brown, Cai and DasGupta, Statistical Science 16 (2001).

    >>> "{:.4f} {:.4f}".format(*wilson_interval(0.9, 10))
    '0.5958 0.9821'
    """
    z2 = NORMAL.inv_cdf((1 + level) / 2) ** 2
    middle = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = math.sqrt(z2 * (share * (1 - share) / size + z2 / (4 * size * size))) / (1 + z2 / size)
    return max(0.0, middle - half), min(1.0, middle + half)


def effective_size(shares: Sequence[float], runs: int) -> float:
    """Return how many independent runs tell as much as `runs` runs of these cases, from the share of each case.

    The cases times the variance of single runs over the variance of cases (Kish, Survey Sampling, 1965, section 8.2;
    used in Wilson's interval by Korn and Graubard, Survey Methodology 24, 1998), with `PSEUDO_CASES`. At least the
    cases: that is the size with one run of each, or if all runs of a case end alike; at most the runs.
    """
    weight = len(shares) + 2 * PSEUDO_CASES
    mean = (sum(shares) + PSEUDO_CASES) / weight
    between = (sum(share * share for share in shares) + PSEUDO_CASES) / weight - mean * mean
    return min(max(len(shares) * mean * (1 - mean) / between, len(shares)), runs)


def share_of(cases: Cases, level: float = LEVEL) -> Share:
    """Return the share of right runs by Wilson's interval of the effective size; cases without a run do not count.

    Raises:
        ArgumentsError: No case has a run.

    >>> print(share_of([[1], [1], [0], [1]])), print(share_of([[1, 1, 1], [0, 0, 0], [1, 1, 0]]))
    75% [30%, 95%]
    56% [18%, 88%]
    (None, None)
    """
    shares, runs = [fmean(case) for case in cases if case], sum(map(len, cases))
    if not shares:
        raise ArgumentsError("no case has a run, so there is no share of right ones")
    value = fmean(shares)
    return Share(value, *wilson_interval(value, effective_size(shares, runs), level), len(shares), runs)


# Differences between two models or variants.


@dataclass(frozen=True)
class Comparison:
    """The difference between two models or variants on the same cases, the second less the first.

    Attributes:
        difference: The mean over the cases of the difference of their shares.
        deviation: The standard deviation of these differences.
        cases: How many cases both have runs of.
        runs: The runs of each case and side, in the mean.
        noise: The part of the variance of the differences that comes from runs; None with one run each.
        level: The level of the interval.
        margin: The difference that does not matter.
    """

    difference: float
    deviation: float
    cases: int
    runs: float = 1
    noise: float | None = None
    level: float = LEVEL
    margin: float = MARGIN

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the difference.

        The paired t interval (Student, "The probable error of a mean", Biometrika 6, 1908) over the differences of the
        cases, within -1 and 1. If all differences are equal, it would be a point. Then `missed_share` bounds the cases
        that were missed and differ otherwise, each by at most a whole case: of n equal differences d that leaves
        d - u(1 + d) and d + u(1 - d).
        """
        if self._all_equal:
            missed = missed_share(self.cases, self.level)
            return self.difference - missed * (1 + self.difference), self.difference + missed * (1 - self.difference)
        half = t_quantile(self.level, self.cases - 1) * self.deviation / math.sqrt(self.cases)
        return max(-1.0, self.difference - half), min(1.0, self.difference + half)

    @property
    def p(self) -> float:
        """The level of significance at which the interval would just have zero at its end."""
        if self._all_equal:  # where u = |d| / (1 + |d|)
            return math.erfc(math.sqrt(self.cases * abs(self.difference) / 2))
        return 1 - t_probability(self.difference / self.deviation * math.sqrt(self.cases), self.cases - 1)

    @property
    def sign(self) -> int | None:
        """1 if the second is better, -1 if it is worse, 0 if no difference was seen, None if one cannot tell."""
        low, high = self.interval
        if self.cases < FEWEST:
            return None
        if low > 0 or high < 0:
            return 1 if low > 0 else -1
        return 0 if -self.margin <= low and high <= self.margin else None

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `no difference seen` or `cannot tell (about N more cases)`."""
        if self.sign is None:
            return f"cannot tell (about {_rounded(self.further_cases, 'more cases')})"
        return {1: "better", -1: "worse", 0: "no difference seen"}[self.sign]

    @property
    def effect(self) -> str:
        """`helps`, `hurts`, `no effect seen` or `cannot tell (about N more runs)`: of the text that the second has."""
        if self.sign is None:
            return f"cannot tell (about {_rounded(self.further_runs, 'more runs')})"
        return {1: "helps", -1: "hurts", 0: "no effect seen"}[self.sign]

    @property
    def further_cases(self) -> int:
        """About how many further cases, of as many runs, would decide; 0 if it is decided.

        So many that a verdict has a chance of `POWER`, in view of the cases so far: their predictive power
        (Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials 7, 1986). Of n cases and k further ones the
        mean difference is normal around d, with a variance of s**2 k / (n (n + k)); a verdict needs an interval without
        zero, or within the margin (as in Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987). As few cases
        may have a small deviation by chance, s is its upper limit at `POWER` (Browne, Statistics in Medicine 14, 1995).
        """
        if self.sign is not None:
            return 0
        cases = _least(self.cases, lambda cases: self._would_decide(cases, self.deviation), MOST)
        return (cases or MOST) - self.cases

    @property
    def further_runs(self) -> int:
        """About how many further runs of each side would decide, in all; 0 if it is decided.

        They are runs of the same cases if that needs fewer runs than further cases do. More runs of a case lessen only
        the part of the variance that comes from runs (Miller, section 3.1), which is known from two runs on.
        """
        if self.sign is not None:
            return 0
        by_cases = math.ceil(self.further_cases * self.runs)
        return by_cases if self.more_runs is None else min(by_cases, self.more_runs * self.cases)

    @property
    def more_runs(self) -> int | None:
        """About how many more runs of each of these cases would decide; None if no number would, or it is unknown."""
        if self.sign is not None:
            return 0
        if self.noise is None or self.cases < FEWEST:
            return None
        noise, between = min(self.noise, self.deviation**2), max(self.deviation**2 - self.noise, 0.0)

        def would_decide(runs: int) -> bool:
            return self._would_decide(self.cases, math.sqrt(between + noise * self.runs / runs))

        start = math.ceil(self.runs)
        runs = _least(start, would_decide, MOST_RUNS * start)
        return None if runs is None else max(1, runs - start)

    @property
    def _all_equal(self) -> bool:
        return self.cases == 1 or self.deviation < 1e-9

    def _would_decide(self, cases: int, deviation: float) -> bool:
        """Whether a verdict is likely with so many cases in all, and a deviation that their runs lessen."""
        if cases < FEWEST:
            return False
        size = abs(self.difference)
        if self._all_equal:  # as long as it goes on like that
            missed = missed_share(cases, self.level)
            return size > missed * (1 + size) or size + missed * (1 + size) <= self.margin
        caution = (self.cases - 1) / _chi_square(1 - POWER, self.cases - 1)
        half = t_quantile(self.level, cases - 1) * deviation * math.sqrt(caution / cases)
        variance = (self.deviation**2 / self.cases - deviation**2 / cases) * caution
        if half <= self.margin / 2:
            return True
        if variance <= 0:
            return False
        mean, within = NormalDist(size, math.sqrt(variance)), max(self.margin - half, 0.0)
        undecided = mean.cdf(half) - mean.cdf(within) + mean.cdf(-within) - mean.cdf(-half)
        return undecided <= 1 - POWER

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.difference:+.0f} points [{100 * low:+.0f}, {100 * high:+.0f}]: {self.verdict}"

    def __repr__(self) -> str:
        return f"<Comparison of {plural(self.cases, 'cases')}: {self}>"


def missed_share(cases: int, level: float = LEVEL) -> float:
    """Return which share of all cases may be otherwise though none of these is: Wilson's bound for none of n.

    >>> round(missed_share(10), 3), round(missed_share(100), 3)
    (0.278, 0.037)
    """
    return wilson_interval(0.0, cases, level)[1]


def compare(first: Cases, second: Cases, level: float = LEVEL, margin: float = MARGIN) -> Comparison:
    """Compare two models or variants on the same cases, given in the same order.

    A case without a run on one of the sides does not count.

    Raises:
        ArgumentsError: The numbers of cases differ, or no case has runs on both sides.

    >>> print(compare([[0], [0], [1], [0], [1], [0], [0], [1]], [[1], [1], [1], [1], [1], [1], [0], [1]]))
    +50 points [+5, +95]: better
    """
    if len(first) != len(second):
        raise ArgumentsError(f"the same cases are compared in pairs, but there are {len(first)} and {len(second)}")
    pairs = [(before, after) for before, after in zip(first, second, strict=True) if before and after]
    if not pairs:
        raise ArgumentsError("no case has runs on both sides, so there is nothing to compare")
    differences = [fmean(after) - fmean(before) for before, after in pairs]
    runs = fmean(len(side) for pair in pairs for side in pair)
    return Comparison(
        fmean(differences),
        math.sqrt(_variance(differences)) if len(differences) > 1 else 0.0,
        len(differences),
        runs,
        _noise([side for pair in pairs for side in pair], len(pairs)),
        level,
        margin,
    )


def _noise(sides: Sequence[Sequence[float]], cases: int) -> float | None:
    """Return the variance of the differences of cases that comes from runs, or None if some have one run only."""
    if min(map(len, sides)) < 2:
        return None
    return math.fsum(_variance(side) / len(side) for side in sides) / cases


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def adjust(comparisons: Sequence[Comparison], level: float = LEVEL) -> list[Comparison]:
    """Return comparisons that were made at once, each with an interval of the level at which Holm's method tests it.

    Of twelve sentences without effect, one or more seem to help or hurt in a third of all ablations if each is tested
    at 5 % (simulated; 46 % if they were independent). Holm's method ("A simple sequentially rejective test procedure",
    Scand. J. Statistics 6, 1979, section 3) keeps that at 5 % for all together: the smallest p is tested at 5 % / m,
    the next at 5 % / (m - 1), up to the first that fails. It misses fewer effects than Bonferroni's, and needs no
    independence, which sentences of one text have not. As each verdict is read from its interval, the intervals get
    these levels, instead of p values another column.
    """
    order = sorted(range(len(comparisons)), key=lambda number: comparisons[number].p)
    adjusted, rank, is_failed = list(comparisons), 0, False
    for number in order:
        risk = (1 - level) / (len(comparisons) - rank)
        adjusted[number] = replace(comparisons[number], level=1 - risk)
        is_failed = is_failed or comparisons[number].p > risk
        rank += not is_failed
    return adjusted


def _least(start: int, holds: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from `start` to `most` for which a condition holds that stays true from there on."""
    low, high = start - 1, start
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _chi_square(probability: float, freedom: int) -> float:
    """Return a quantile of the chi-square distribution, by Wilson and Hilferty (PNAS 17, 1931)."""
    step = 2 / (9 * freedom)
    return freedom * (1 - step + NORMAL.inv_cdf(probability) * math.sqrt(step)) ** 3


def _rounded(number: int, nouns: str) -> str:
    """Return a number with its noun, and with two digits that count: it is an estimate.

    >>> _rounded(1, "more cases"), _rounded(1234, "more cases")
    ('1 more case', '1,200 more cases')
    """
    return plural(round(number, 2 - len(str(number))) if number > 99 else number, nouns)
