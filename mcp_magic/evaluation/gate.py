"""What lets an evaluation fail in CI: bounds of its figures, and what has become worse than an earlier one.

An earlier evaluation is a JSON file with the outcomes of each case. The same cases are compared in pairs, so a fall is
a failure only where its interval leaves out zero; what one cannot tell is no failure.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import junit
from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.config.parsing import LARGEST_DATA, parse_json, read_text
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.evaluation.display import wrong_cases
from mcp_magic.evaluation.evaluation import FORMAT
from mcp_magic.evaluation.judge import Judge
from mcp_magic.evaluation.statistics import compare
from mcp_magic.results.results import CheckFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

    from mcp_magic.evaluation.evaluation import Evaluation

SHARES = ("right", "low", "high", "right_tool", "right_arguments")
MEASURES = (*SHARES, "failed", "tokens", "cost", "seconds")
"""What a gate can bound: the columns of `Evaluation.summary`."""

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

_BOUND = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*")

SHOWN = 5  # cases that an error names


class Bound(NamedTuple):
    """A bound of a figure."""

    measure: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.measure} {self.sign} {self.limit:g}"


def read_gate(text: str) -> list[Bound]:
    """Return the bounds in a text.

    Raises:
        ArgumentsError: It has something else.

    >>> [str(bound) for bound in read_gate("right >= 90% and cost < 0.5")]
    ['right >= 0.9', 'cost < 0.5']
    """
    bounds = []
    for part in re.split(r"\band\b|,", text):
        match = _BOUND.fullmatch(part)
        if match is None:
            raise ArgumentsError(f"cannot read the gate {one_line(part, 60)!r}; write 'right >= 0.9 and cost < 0.5'")
        measure, sign, number, percent = match.groups()
        if measure not in MEASURES:
            near = did_you_mean(measure, MEASURES)
            raise ArgumentsError(f"the gate names {measure!r}.{near} There are {join_names(MEASURES, 20)}.")
        bound = Bound(measure, sign, float(number) / (100 if percent else 1))
        if measure in SHARES and not any(OPERATORS[sign](share, bound.limit) for share in (0, 1)):
            near = f"; write {measure} {sign} {bound.limit / 100:g}" if 2 <= bound.limit <= 100 else ""
            raise ArgumentsError(f"nothing meets the gate {str(bound)!r}: {measure} is a share from 0 to 1{near}")
        bounds.append(bound)
    return bounds


def misses(evaluation: Evaluation, bounds: Sequence[Bound]) -> list[str]:
    """Return which bounds are broken by which model and variant. A run without an outcome breaks each of a share."""
    names = [str(arm) for arm, _ in evaluation.outcomes()]
    problems = [
        (name, _miss(row, bound)) for name, row in zip(names, _rows(evaluation), strict=True) for bound in bounds
    ]
    return [f"{name}: {problem}" for name, problem in problems if problem]


def _rows(evaluation: Evaluation) -> list[dict[Hashable, Any]]:
    """Return the summary of each model and variant, with the number of runs that have no outcome in `open`."""
    open_runs = _open_runs(evaluation)
    return [row | {"open": open_runs[arm]} for arm, row in enumerate(evaluation.summary.to_dict("records"))]


def _open_runs(evaluation: Evaluation) -> Counter[int]:
    """Return how many runs of each model and variant have no outcome: they failed, or were not begun."""
    return Counter(arm for _, arm, _ in evaluation.plan.waiting())


def _miss(row: Mapping[Hashable, Any], bound: Bound) -> str:
    """Return how a row of the summary breaks a bound, or ""."""
    value = row[bound.measure]
    if bound.measure in SHARES and row["open"]:
        return f"{plural(row['open'], 'runs')} without an outcome, so {bound} is not shown"
    if value is None or value != value:
        return f"{bound.measure} is not known"
    if OPERATORS[bound.sign](value, bound.limit):
        return ""
    interval = f" [{row['low']:.0%}, {row['high']:.0%}]" if bound.measure == "right" else ""
    shown = f"{value:.0%}" if bound.measure in SHARES else f"{value:g}"
    return f"{bound.measure} is {shown}{interval}, not {bound.sign} {bound.limit:g}"


# Earlier evaluations in a file


Outcomes = dict[str, list[float]]


def read_saved(path: Path) -> dict[tuple[str, str], Outcomes]:
    """Return the outcomes of each case, by model and variant.

    Raises:
        ConfigError: The file has no evaluation, or is of a later version.
    """
    content = parse_json(read_text(path, LARGEST_DATA), source=str(path))
    try:
        version, arms = content["mcp_magic"], content["evaluation"]
        if isinstance(version, int) and version > FORMAT:
            raise ConfigError(f"{path} is of version {version}, and this one reads {FORMAT}; update mcp-magic")
        saved = {(str(arm["model"]), str(arm["variant"])): _outcomes(arm["outcomes"]) for arm in arms}
    except (TypeError, KeyError, ValueError, AttributeError):
        saved = {}
    if not saved:
        raise ConfigError(f"{path} is no saved evaluation; `scores.save({str(path)!r})` or --save writes one")
    return saved


def _outcomes(by_case: Mapping[str, Any]) -> Outcomes:
    return {str(case): [*map(_outcome, values)] for case, values in by_case.items()}


def _outcome(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 1:  # NaN is neither
        raise ValueError
    return float(value)


def falls(evaluation: Evaluation, saved: dict[tuple[str, str], Outcomes], source: str) -> list[str]:
    """Return what has become worse than in a saved evaluation: the difference, its interval, and the cases.

    A run without an outcome is a problem, too: it might have been worse.

    Raises:
        ArgumentsError: They have no case, or no model and variant, in common.
    """
    arms = [*evaluation.outcomes()]
    open_runs, pairs = _open_runs(evaluation), 0
    problems = [
        f"{arm}: {plural(open_runs[number], 'runs')} without an outcome, which cannot be compared with {source}"
        for number, (arm, _) in enumerate(arms)
        if open_runs[number]
    ]
    for arm, outcomes in arms:
        before = saved.get((arm.model, arm.variant))
        if before is None and len(arms) == len(saved) == 1:
            [before] = saved.values()
        names = [case.name for case in evaluation.cases]
        common = [number for number, name in enumerate(names) if before is not None and before.get(name)]
        common = [number for number in common if outcomes[number]]
        if before is None or not common:
            continue
        pairs += 1
        difference = compare([before[names[number]] for number in common], [outcomes[number] for number in common])
        if difference.sign == -1:
            cases = [names[number] for number in common if fmean(outcomes[number]) < fmean(before[names[number]])]
            more = f" and {len(cases) - SHOWN:,} more" if len(cases) > SHOWN else ""
            texts = ", ".join(repr(one_line(name, 60)) for name in cases[:SHOWN])
            problems.append(f"{arm}: {difference} than in {source}: {texts}{more}")
    if not pairs and not problems:
        raise ArgumentsError(f"{source} has no case of these models and variants, so nothing can be compared")
    return problems


def refuse_opinions(evaluation: Evaluation, bounds: Sequence[Bound], *, against: bool = False) -> None:
    """Raise ArgumentsError if shares are bounded, or compared, that rest on nothing but the opinions of judges."""
    gates = [f"the gate {str(bound)!r}" for bound in bounds if bound.measure in SHARES]
    gates += ["the comparison with an earlier evaluation"] if against else []
    judged = {trial.case for trial in evaluation.trials if trial.opinion is not None}
    are_opinions = [
        case.expected is None and (isinstance(case.check, Judge) or number in judged)
        for number, case in enumerate(evaluation.cases)
    ]
    if gates and all(are_opinions):
        raise ArgumentsError(
            f"{gates[0]} would rest on nothing but opinions of models: a judge alone decides each case. Give cases "
            "expected calls or a function as their check, or bound failed, tokens, cost or seconds"
        )


def check(evaluation: Evaluation, bounds: Sequence[Bound] = (), problems: Sequence[str] = ()) -> None:
    """Raise CheckFailedError if a bound is broken, or if there are problems; its `result` is the evaluation."""
    refuse_opinions(evaluation, bounds)
    if problems := [*misses(evaluation, bounds), *problems]:
        wrong = [f"wrong: {text}" for text in wrong_cases(evaluation.plan)[:SHOWN]]
        raise CheckFailedError("\n  ".join([f"the evaluation fails: {'; '.join(problems)}", *wrong]), evaluation)


# JUnit


def suites(evaluation: Evaluation, bounds: Sequence[Bound] = ()) -> list[junit.Suite]:
    """Return a suite for each model and variant: a case fails if one of its runs is wrong or has no outcome."""
    found = []
    rows = _rows(evaluation)
    for number, (arm, _) in enumerate(evaluation.outcomes()):
        name, cases = f"evaluation {arm}", []
        for place, case in enumerate(evaluation.cases):
            trials = [trial for trial in evaluation.trials if (trial.case, trial.arm) == (place, number)]
            bad = [trial for trial in trials if not trial.right]
            failure = skipped = ""
            if bad:
                why = bad[0].error if bad[0].match is None else str(bad[0].match)
                failure = f"{len(trials) - len(bad)} of {plural(len(trials), 'runs')} right: {why}"
            elif not trials:
                skipped = "it was not run"
            seconds = sum(trial.seconds for trial in trials)
            cases.append(junit.Case(case.name, name, seconds, failure, skipped))
        cases += [junit.Case(f"gate {bound}", name, failure=_miss(rows[number], bound)) for bound in bounds]
        found.append(junit.Suite(name, cases))
    return found
