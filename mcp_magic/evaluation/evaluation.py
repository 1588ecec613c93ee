"""An evaluation as a value: how often models choose the right tools, with intervals, and what went wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, duration, join_names, json_text, plural
from mcp_magic.config.parsing import write_text
from mcp_magic.display.document import Part, parts_text, show_parts
from mcp_magic.errors import ArgumentsError, CallCancelledError
from mcp_magic.evaluation.cases import NO_CALL, read_cases
from mcp_magic.evaluation.display import called, outcome_parts
from mcp_magic.evaluation.judge import Judge
from mcp_magic.evaluation.matching import PARTS
from mcp_magic.evaluation.run import Arm, Execution, Plan, Trial, named_models, read_options, total_cost
from mcp_magic.evaluation.statistics import Comparison, compare
from mcp_magic.flight.progress import SIGNS, State, Stopwatch
from mcp_magic.langchain.variants import variants_by_server
from mcp_magic.loops import on_own_loop
from mcp_magic.map.run import new_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas as pd

    from mcp_magic._host import Host
    from mcp_magic.agent.run import AgentRun
    from mcp_magic.evaluation.cases import Case
    from mcp_magic.langchain.variants import Variant

RESUMED = ("runs", "concurrency", "rate", "timeout", "max_cost", "max_tokens")
"""The options of an evaluation that can be other ones when it is resumed."""

FORMAT = 1  # the version of a saved evaluation, in its member "mcp_magic"


class Evaluation:
    """The runs of cases with models and variants of the tools; displays shares, intervals and what went wrong.

    Attributes:
        plan: What is run, and what has come of it.
        problem: Why it ended before all runs were made, or "".
        name: Returns the name of the variable that holds it.
    """

    def __init__(self, plan: Plan, host: Host) -> None:
        self.problem = ""
        self.name: Callable[[], str] = lambda: "EVALUATION"
        self.plan = plan
        self._host = host
        self._seconds = 0.0
        self._state: State = "running"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions."""
        return self._host.loop

    @property
    def cases(self) -> Sequence[Case]:
        """The cases."""
        return self.plan.cases

    @on_own_loop
    async def run(self) -> Evaluation:
        """Make all runs, and return this object. Interrupt keeps those that have ended; `resume` goes on.

        Raises:
            ArgumentsError, ConfigError: A case expects what is not offered, or the journal cannot be used.
            MCPMagicError: A model cannot be used.
        """
        execution = Execution(self.plan, self._host)
        self.problem, self._state, clock = "", "running", Stopwatch()
        try:
            await execution.run()
            self.problem = "; ".join(execution.problems)
            self._state = self._outcome()
        except CallCancelledError:
            self.problem, self._state = "cancelled", "cancelled"
        except asyncio.CancelledError:
            self.problem, self._state = "interrupted", "interrupted"
            raise
        finally:
            self._state = "failed" if self._state == "running" else self._state
            self._seconds += clock.seconds
        return self

    def _outcome(self) -> State:
        if not any(trial.match for trial in self.plan.trials.values()):
            return "failed"
        return "partly failed" if next(self.plan.waiting(), None) else "done"

    async def resume(self, **options: Any) -> Evaluation:
        """Make the runs that have no outcome yet, and return this object.

        Args:
            **options: Those of `RESUMED` that have other values from now on: `runs`, `max_cost` and others.

        Raises:
            ArgumentsError: It still runs, or an option is none that can change. Else what `run` raises.
        """
        if self._state == "running":
            raise ArgumentsError("the evaluation still runs: await its end first")
        if wrong := [name for name in options if name not in RESUMED]:
            raise ArgumentsError(f"{wrong[0]!r} stays as it is in an evaluation; {join_names(RESUMED)} can change")
        if options.get("runs", self.plan.options.runs) < self.plan.options.runs:
            raise ArgumentsError(
                f"there are {self.plan.options.runs:,} runs of each case already; give more, not fewer"
            )
        self.plan.options = read_options(options, self.plan.options)
        return await self.run()

    # The values

    @property
    def trials(self) -> list[Trial]:
        """The runs that have ended, by case, model and variant."""
        return self.plan.ended

    @property
    def ok(self) -> bool:
        """Whether each run has an outcome."""
        return next(self.plan.waiting(), None) is None

    @property
    def df(self) -> pd.DataFrame:
        """A row for each run.

        Its columns are case, model, variant, number (of the run), right, right_tool, right_arguments, calls (their
        number), turns, tokens_in, tokens_out, cost (US dollars), seconds, error, why (what is wrong), called,
        checked_by (the expected calls, a function, or the opinion of a judge), opinion (what the judge says) and run
        (the `AgentRun`). Without an outcome, `right` is missing.
        """
        import pandas as pd

        trials = self.trials
        rows = [{**self._facts(trial), "run": run} for trial, run in zip(trials, self.plan.runs(trials), strict=True)]
        columns = [*self._facts(None), "run"]
        frame = pd.DataFrame(rows, columns=columns)
        for name in PARTS:
            frame[name] = frame[name].astype("boolean" if frame[name].isna().any() else "bool")
        return frame.astype({"cost": "float64"})

    def _facts(self, trial: Trial | None) -> dict[str, Any]:
        trial = trial or Trial(0, 0, 0)
        arm, match = self.plan.arms[trial.arm], trial.match
        return {
            "case": self.cases[trial.case].name if self.cases else "",
            "model": arm.model,
            "variant": arm.variant,
            "number": trial.number,
            **{name: getattr(match, name, None) for name in PARTS},
            "calls": len(trial.calls),
            "turns": trial.turns,
            "tokens_in": trial.tokens_in,
            "tokens_out": trial.tokens_out,
            "cost": trial.cost,
            "seconds": round(trial.seconds, 4),
            "error": trial.error or None,
            "why": str(match) if match is not None and not match.right else None,
            "called": called(trial),
            "checked_by": checked_by(self.cases[trial.case], trial) if self.cases else "",
            "opinion": None if trial.opinion is None else str(trial.opinion),
        }

    def outcomes(self) -> Iterator[tuple[Arm, list[list[float]]]]:
        """Yield each model and variant with the outcomes of its runs by case: 1 for right, 0 for wrong."""
        for number, arm in enumerate(self.plan.arms):
            yield arm, self.plan.outcomes(number)

    def save(self, file: str | Path) -> None:
        """Write the outcomes of each case into a JSON file, which `--against` compares later evaluations with."""
        names = [case.name for case in self.cases]
        arms = [
            {"model": arm.model, "variant": arm.variant, "outcomes": dict(zip(names, outcomes, strict=True))}
            for arm, outcomes in self.outcomes()
        ]
        write_text(Path(file), f"{json_text({'mcp_magic': FORMAT, 'evaluation': arms}, indent=1)}\n")

    def run_of(self, trial: Trial) -> AgentRun | None:
        """Return the run of the agent, with its transcript; None if it never began."""
        return next(self.plan.runs([trial]))

    @property
    def summary(self) -> pd.DataFrame:
        """A row for each model and variant: shares of right runs with a 95 % interval (`low` to `high`), and costs.

        The cost is missing where the price of any of its runs is not known.
        """
        import pandas as pd

        rows = []
        for number, arm in enumerate(self.plan.arms):
            trials, share = self.plan.of(number), self.plan.share(number)
            rows.append(
                {
                    "model": arm.model,
                    "variant": arm.variant,
                    "right": share and share.value,
                    "low": share and share.low,
                    "high": share and share.high,
                    "right_tool": getattr(self.plan.share(number, "right_tool"), "value", None),
                    "right_arguments": getattr(self.plan.share(number, "right_arguments"), "value", None),
                    "cases": share.cases if share else 0,
                    "runs": share.runs if share else 0,
                    "failed": sum(trial.match is None for trial in trials),
                    "tokens": sum(trial.tokens_in + trial.tokens_out for trial in trials),
                    "cost": total_cost(trials),
                    "seconds": round(sum(trial.seconds for trial in trials), 3),
                }
            )
        shares = ("right", "low", "high", "right_tool", "right_arguments", "cost")
        return pd.DataFrame(rows).astype(dict.fromkeys(shares, "float64"))

    @property
    def confusion(self) -> pd.DataFrame:
        """How often each expected tool (a row) was answered with each tool (a column); `no call` is one of both."""
        import pandas as pd

        counts: Counter[tuple[str, str]] = Counter()
        for trial in self.plan.trials.values():
            if trial.match is not None and self.cases[trial.case].expected is not None:
                for expected, actual in trial.match.pairs or [(None, None)]:
                    counts[expected or NO_CALL, actual or NO_CALL] += 1
        rows, columns = (
            sorted({pair[side] for pair in counts}, key=lambda name: (name == NO_CALL, name)) for side in (0, 1)
        )
        values = [[counts[row, column] for column in columns] for row in rows]
        frame = pd.DataFrame(values, pd.Index(rows, name="expected"), pd.Index(columns, name="called"))
        return frame.astype("int64")

    def compare(self, first: str, second: str, part: str = "right") -> Comparison:
        """Compare two models or variants in pairs of cases; the difference is the second less the first.

        Args:
            first: The name of a model or of a variant, or both as `"MODEL VARIANT"`.
            second: The other one.
            part: `"right"`, `"right_tool"` or `"right_arguments"`.

        Raises:
            ArgumentsError: There is no such model or variant, or no case has runs of both.
        """
        if part not in PARTS:
            raise ArgumentsError(f"{part!r} is not scored.{did_you_mean(part, PARTS)} There are {join_names(PARTS)}.")
        return compare(self._outcomes_of(first, part), self._outcomes_of(second, part))

    def _outcomes_of(self, name: str, part: str) -> list[list[float]]:
        arms = self.plan.arms
        numbers = [number for number, arm in enumerate(arms) if name in (arm.model, arm.variant, str(arm))]
        if not numbers:
            names = dict.fromkeys(name for arm in arms for name in (arm.model, arm.variant) if name)
            raise ArgumentsError(
                f"{name!r} is neither a model nor a variant.{did_you_mean(name, names)} There are {join_names(names)}."
            )
        columns = [self.plan.outcomes(number, part) for number in numbers]
        return [[value for case in cases for value in case] for cases in zip(*columns, strict=True)]

    def plot(self) -> Any:
        """Return a figure: the share of right runs of each model and variant with its interval.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        figure = new_figure()
        axes = figure.subplots()
        shares = [(str(arm), self.plan.share(number)) for number, arm in enumerate(self.plan.arms)]
        known = [(name, share) for name, share in reversed(shares) if share is not None]
        for place, (_, share) in enumerate(known):
            ends = [[max(share.value - share.low, 0)], [max(share.high - share.value, 0)]]
            axes.errorbar([share.value], [place], xerr=ends, fmt="o", capsize=4)
        axes.set(xlim=(0, 1), xlabel="share of right runs, with a 95 % interval", title=self._title)
        axes.set_yticks(range(len(known)), [name for name, _ in known])
        return figure

    # The display

    def __len__(self) -> int:
        return len(self.plan.trials)

    def __repr__(self) -> str:
        return f"<Evaluation {self._title}: {', '.join(self._figures)}>"

    @property
    def _title(self) -> str:
        what = "first turns" if self.plan.options.tools_only else "runs"
        return f"{len(self):,} of {self.plan.size:,} {what} of {plural(len(self.cases), 'cases')}"

    @property
    def _figures(self) -> list[str]:
        trials = self.plan.trials.values()
        tokens = sum(trial.tokens_in + trial.tokens_out for trial in trials)
        dollars = sum(trial.cost or 0.0 for trial in trials)
        least = "at least " if total_cost(trials) is None else ""
        used = [*([f"{tokens:,} tokens"] if tokens else []), *([f"{least}${dollars:.2g}"] if dollars else [])]
        return [duration(self._seconds), *used]

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: shares with intervals, differences, errors, and the cases that went wrong."""
        return [*self.notes(), *outcome_parts(self.plan)]

    def notes(self) -> list[Part]:
        """Return what is said first: how many runs there are, why it stopped, and remarks."""
        parts = [Part.note(f"{SIGNS[self._state]} {self._title}, {', '.join(self._figures)}")]
        if self.problem:
            rest = sum(1 for _ in self.plan.waiting())
            goes_on = f"; `await {self.name()}.resume()` makes the other {plural(rest, 'runs')}" if rest else ""
            parts.append(Part.note(f"It stopped: {self.problem}{goes_on}"))
        return [*parts, *map(Part.note, self.plan.remarks)]


def new_evaluation(
    host: Host, cases: Any, models: Any, variants: Mapping[str, Any] | None = None, **options: Any
) -> Evaluation:
    """Return an evaluation that has not begun.

    Args:
        host: The host of the sessions.
        cases: Cases, or what `read_cases` reads.
        models: What `named_models` takes.
        variants: Names and surfaces, or lists of surfaces: the tools as the models read them. None: as the servers
            list them.
        **options: Those of `EvaluationOptions`, and of `AgentSettings`.

    Raises:
        ArgumentsError, ConfigError, ModelError: A case, a model or an option cannot be used.
    """
    arms = [
        Arm(name, str(variant), chat, tuple(surfaces.values()))
        for name, chat in named_models(models).items()
        for variant, surfaces in read_variants(variants or {"": None}).items()
    ]
    return Evaluation(Plan(read_cases(cases), arms, read_options(options)), host)


def read_variants(variants: Mapping[str, Any]) -> dict[str, dict[str, Variant]]:
    """Return copies of the surfaces of each variant, by server. Raises ArgumentsError if one is no surface."""
    return {
        name: variants_by_server(() if value is None else value if isinstance(value, list | tuple) else [value])
        for name, value in variants.items()
    }


def checked_by(case: Case, trial: Trial) -> str:
    """Return what decides whether a run is right; what a judge says is an opinion."""
    parts = ["expected calls"] if case.expected is not None else []
    if trial.opinion is not None:
        parts.append(f"opinion of {trial.opinion.judge}")
    elif case.check is not None and not isinstance(case.check, Judge):
        parts.append("function")
    return ", ".join(parts)
