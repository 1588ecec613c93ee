"""What the suite found out, as counts of checks, and the verdict.

A scenario in which a client does nothing has no failed check: six of the 48 "pass" so. Here a scenario passes only if a
check of its own succeeded, none failed or warned, and the client says that it did what the scenario needs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.conformance.client import DONE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

__all__ = ["Outcome", "Verdict", "judge", "read_outcomes", "share", "table"]

WIRE = ("wire-schema-valid", "wire-schema-harness-error")
"""Checks that the suite adds to each scenario: about the form of messages, not about what they are for."""

NEEDED = 45
"""Client scenarios, of 48, that have to pass."""


@dataclass(frozen=True)
class Outcome:
    """One scenario that was run.

    Attributes:
        scenario: Its name.
        succeeded: Checks that succeeded.
        failed: Checks that failed.
        warned: Checks that ended with a warning; the suite counts them as failures.
        skipped: Checks that did not apply.
        proved: Whether a check of the scenario's own succeeded.
        finished: Whether the client said that it did all it had to do.
        complaints: What was wrong, in the suite's words.
        code: The suite's own exit code, where it ran this scenario alone.
    """

    scenario: str
    succeeded: int = 0
    failed: int = 0
    warned: int = 0
    skipped: int = 0
    proved: bool = False
    finished: bool = False
    complaints: tuple[str, ...] = ()
    code: int = 0

    @property
    def passed(self) -> bool:
        """Whether it counts."""
        return self.proved and self.finished and not self.failed and not self.warned and not self.code

    @classmethod
    def of(cls, scenario: str, checks: Iterable[Mapping[str, Any]], said: str, errors: str = "") -> Outcome:
        """Count the checks of one run.

        Args:
            scenario: Its name.
            checks: The suite's `checks.json`.
            said: What the client printed.
            errors: What it printed to stderr.
        """
        checks = list(checks)
        statuses = Counter(check["status"] for check in checks)
        wrong = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
        complaints = [f"{check['id']}: {check.get('errorMessage') or check['description']}" for check in wrong]
        finished = DONE in said.splitlines()
        if not finished:
            complaints.append(f"the client did not finish: {(errors.strip().splitlines() or ['it said nothing'])[-1]}")
        proved = any(check["status"] == "SUCCESS" and check["id"] not in WIRE for check in checks)
        if not proved and not wrong:
            complaints.append("no check succeeded")
        return cls(
            scenario,
            statuses["SUCCESS"],
            statuses["FAILURE"],
            statuses["WARNING"],
            statuses["SKIPPED"],
            proved,
            finished,
            tuple(complaints),
        )


def read_outcomes(folder: Path) -> list[Outcome]:
    """Read what the suite left in its output folder: one folder a scenario, with the time behind its name."""
    found = []
    for file in sorted(folder.rglob("checks.json")):
        name = str(file.parent.relative_to(folder))
        scenario = name[: -len("-2026-01-01T00-00-00-000Z")]
        said, errors = (file.with_name(f"{stream}.txt").read_text() for stream in ("stdout", "stderr"))
        found.append(Outcome.of(scenario, json.loads(file.read_text()), said, errors))
    return found


@dataclass(frozen=True)
class Verdict:
    """What a whole run comes to.

    Attributes:
        passed: Scenarios that passed, of those run one by one.
        total: How many there are.
        checks: Checks that succeeded, and all that succeeded, failed or warned, over all runs.
        problems: Why the run as a whole has failed, a sentence each; none if it has not.
    """

    passed: int
    total: int
    checks: tuple[int, int]
    problems: tuple[str, ...]


def judge(
    single: Mapping[str, Outcome],
    required: Mapping[str, Mapping[str, Outcome]],
    wanted: Mapping[str, Collection[str]],
    exceptions: Mapping[str, str],
    codes: Mapping[str, int],
    needed: int = NEEDED,
) -> Verdict:
    """Judge a run.

    Args:
        single: The scenarios that were run one by one.
        required: By revision, all that was run for it.
        wanted: By revision the scenarios that it requires; `""` for those to be run one by one.
        exceptions: Scenarios that are known to fail, and why.
        codes: By revision, the exit code of the suite.
        needed: How many of those run one by one have to pass.
    """
    problems = [f"the suite ended with code {code} for {revision}" for revision, code in codes.items() if code]
    for leg, outcomes in (("", single), *required.items()):
        at = f" at {leg}" if leg else ""
        for scenario in wanted[leg]:
            outcome = outcomes.get(scenario)
            if outcome is None:
                problems.append(f"{scenario}{at} was not run")
            elif not outcome.passed and (leg or scenario not in exceptions):
                problems.append(f"{scenario}{at}: {'; '.join(outcome.complaints) or 'the suite says that it failed'}")
    for scenario in exceptions:
        if scenario not in wanted[""]:
            problems.append(f"{scenario} is an exception, and no scenario")
        elif scenario in single and single[scenario].passed:
            problems.append(f"{scenario} is an exception, and passes: take it off the list")
    passed = sum(outcome.passed for outcome in single.values())
    if passed < needed:
        problems.append(f"{passed} scenarios passed, {needed} have to")
    everything = [*single.values(), *(each for outcomes in required.values() for each in outcomes.values())]
    good = sum(outcome.succeeded for outcome in everything)
    bad = sum(outcome.failed + outcome.warned for outcome in everything)
    return Verdict(passed, len(wanted[""]), (good, good + bad), tuple(problems))


def share(outcomes: Mapping[str, Outcome], wanted: Collection[str]) -> str:
    """Say how many of the wanted scenarios passed.

    >>> share({"a": Outcome("a", 2, proved=True, finished=True)}, ["a", "b"])
    '1/2'
    """
    return f"{sum(name in outcomes and outcomes[name].passed for name in wanted)}/{len(wanted)}"


def table(outcomes: Iterable[Outcome], exceptions: Mapping[str, str]) -> str:
    """Lay outcomes out for a terminal."""
    rows = [("scenario", "passed", "failed", "warned", "skipped", "")]
    for each in outcomes:
        mark = "ok" if each.passed else "exception" if each.scenario in exceptions else "FAILED"
        counts = (str(count) for count in (each.succeeded, each.failed, each.warned, each.skipped))
        rows.append((each.scenario, *counts, mark))  # type: ignore[arg-type]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{name:{width}}{''.join(f'{cell:>10}' for cell in cells)}" for name, *cells in rows)
