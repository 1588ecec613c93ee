"""What is displayed of an evaluation: a table of shares with intervals, differences, errors, and wrong cases."""

from __future__ import annotations

import html
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp_magic._text import clean, join_names, plural
from mcp_magic.agent.transcript import STYLE
from mcp_magic.display import document
from mcp_magic.display.arguments import call_line
from mcp_magic.display.document import Markup, Part, aligned, details, joined, tag, terminal_width
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.evaluation.cases import NO_CALL
from mcp_magic.evaluation.matching import PARTS
from mcp_magic.evaluation.statistics import adjust, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.agent.run import AgentRun
    from mcp_magic.evaluation.run import Plan, Trial


SHOWN_CASES = 10  # cases with wrong runs that are shown

SHOWN_ERRORS = 5  # errors of runs that are shown

CALLS = 300  # characters of the calls of a run in a table


def outcome_parts(plan: Plan) -> list[Part]:
    """Return the parts with what came of the runs."""
    parts = [_table(plan)] if any(trial.match for trial in plan.trials.values()) else []
    for notes in (_differences(plan), errors(plan)):
        parts += [Part.stack(*map(Part.note, notes))] if notes else []
    if any(trial.opinion is not None for trial in plan.trials.values()):
        parts.append(Part.note(_about_judges(plan.ended)))
    return [*parts, *_wrong(plan)]


def _table(plan: Plan) -> Part:
    """Return the share of each model and variant, with its interval as a bar."""
    has_variants = any(arm.variant for arm in plan.arms)
    headers = [
        "model",
        *(["variant"] if has_variants else []),
        "right",
        "95 % interval",
        "tool",
        "arguments",
        "runs",
    ]
    plain: list[list[object]] = []
    rich: list[list[object]] = []
    for number, arm in enumerate(plan.arms):
        shares = [plan.share(number, part) for part in PARTS]
        texts = [f"{share.value:.0%}" if share else "-" for share in shares]
        share = shares[0]
        interval = f"{share.low:.0%} to {share.high:.0%}" if share else "-"
        names = [one_line(name, 60) for name in (arm.model, *([arm.variant] if has_variants else []))]
        drawn = bar(share.low, share.high, share.value, str(share)) if share else Markup()
        made, scored = len(plan.of(number)), share.runs if share else 0
        start, end = [*names, texts[0]], [*texts[1:], made if scored == made else f"{scored:,} of {made:,}"]
        plain.append([*start, interval, *end])
        rich.append([*start, joined([interval, drawn], " "), *end])
    markup, _ = document.table(headers, rich, limit=document.display.bytes)
    return Part(clean(aligned(headers, plain, total=terminal_width())), document.reflowing(markup, headers))


def _differences(plan: Plan) -> list[str]:
    """Return how further variants compare with the first, with each model, and further models with the first."""
    base, *others = plan.arms
    numbers = {(arm.model, arm.variant): number for number, arm in enumerate(plan.arms)}
    pairs = []
    for number, arm in enumerate(others, 1):
        first = numbers[arm.model, base.variant] if arm.variant != base.variant else 0
        with suppress(ArgumentsError):  # they have no case in common yet
            pairs.append((arm, plan.arms[first], compare(plan.outcomes(first), plan.outcomes(number))))
    adjusted = adjust([difference for *_, difference in pairs])
    texts = [f"{arm} against {first}: {other}" for (arm, first, _), other in zip(pairs, adjusted, strict=True)]
    return [one_line(text, 200) for text in texts]


def errors(plan: Plan) -> list[str]:
    """Return the errors of runs, the most common first."""
    counts = Counter(trial.error for trial in plan.trials.values() if trial.error)
    commonest = counts.most_common(SHOWN_ERRORS)
    lines = [f"{plural(count, 'runs')}: {one_line(error, 200)}" for error, count in commonest]
    more = len(counts) - SHOWN_ERRORS
    return [*lines, *([f"… {plural(more, 'other errors')}"] if more > 0 else [])]


def _wrong(plan: Plan) -> list[Part]:
    """Return the cases with wrong runs, those with most first; a click opens the first of these runs."""
    wrong, scored = _wrong_trials(plan)
    if not wrong:
        return []
    cases = [*wrong]
    shown = [wrong[case][0] for case in cases[:SHOWN_CASES]]
    room, blocks, lines = document.display.bytes, [Markup(STYLE)], []
    runs: list[AgentRun | None]
    try:
        runs = [*plan.runs(shown)]
    except ConfigError:  # the journal is gone, or in use by another evaluation
        runs = [None] * len(shown)
    for trial, run in zip(shown, runs, strict=True):
        summary = _why(plan, trial, wrong[trial.case], scored[trial.case])
        lines.append(f"✗ {summary}")
        body = run.transcript.part().html if run is not None and room > 0 else _calls_of(trial)
        blocks.append(details(summary, body))
        room -= len(body)
    more = len(cases) - len(shown)
    rest = f"… {plural(more, 'more cases')}: .df has all" if more > 0 else ""
    title = f"Wrong in {len(wrong):,} of {plural(len(plan.cases), 'cases')}"
    plain = clean("\n".join(filter(None, [f"{title}:", *lines, rest])))
    return [Part(plain, joined([tag("p", tag("b", title)), *blocks, *([tag("p", rest)] if rest else [])]))]


def _wrong_trials(plan: Plan) -> tuple[dict[int, list[Trial]], Counter[int]]:
    """Return the wrong runs of each case, the case with most first, and how many runs of each case are scored."""
    wrong: dict[int, list[Trial]] = {}
    scored = Counter(trial.case for trial in plan.trials.values() if trial.match)
    for trial in plan.ended:
        if trial.right is False:
            wrong.setdefault(trial.case, []).append(trial)
    return dict(sorted(wrong.items(), key=lambda item: (-len(item[1]) / scored[item[0]], item[0]))), scored


def wrong_cases(plan: Plan) -> list[str]:
    """Return a line for each case with wrong runs: how many, and why the first is wrong."""
    wrong, scored = _wrong_trials(plan)
    return [_why(plan, trials[0], trials, scored[case]) for case, trials in wrong.items()]


def _why(plan: Plan, trial: Trial, trials: Sequence[Trial], scored: int) -> str:
    arms = dict.fromkeys(str(plan.arms[other.arm]) for other in trials)
    by = "" if len(plan.arms) == 1 or len(arms) == len(plan.arms) else f" with {join_names(arms, 3)}"
    why = one_line(str(trial.match), 300)
    return f"{one_line(plan.cases[trial.case].name, 80)} ({len(trials)} of {scored} wrong{by}): {why}"


def _about_judges(trials: Sequence[Trial]) -> str:
    """Return how many runs were judged by a model, and how many tokens and dollars judges took in all."""
    judges = [one_line(trial.opinion.judge, 60) for trial in trials if trial.opinion is not None]
    tokens, dollars = (sum(getattr(trial.judging, name) for trial in trials) for name in ("tokens", "dollars"))
    figures = [*([f"{tokens:,} tokens"] if tokens else []), *([f"${dollars:.2g}"] if dollars else [])]
    used = f", for {' and '.join(figures)}" if figures else ""
    return f"In {plural(len(judges), 'runs')} an opinion of {join_names(dict.fromkeys(judges), 4)} decides{used}"


def called(trial: Trial) -> str:
    """Return the calls of a run as a line."""
    return one_line(", ".join(f"{tool}({call_line(arguments, None)})" for tool, arguments in trial.calls), CALLS)


def _calls_of(trial: Trial) -> Markup:
    """Return the calls of a run, in place of its transcript."""
    return tag("p", called(trial) or NO_CALL)


def bar(low: float, high: float, at: float, label: str, *, middle: bool = False) -> Markup:
    """Return an interval as a bar from 0 to 1, with a mark at its figure, and one in the middle if that means zero."""
    low, high, at = (100 * value for value in (low, high, at))
    band, mark, zero = "rgba(66,133,244,.45)", "currentColor", "rgba(127,127,127,.7)"
    left, right = max(at - 1, 0), min(at + 1, 100)
    stops = f"transparent {low:.1f}%,{band} {low:.1f}%,{band} {left:.1f}%,{mark} {left:.1f}%,{mark} {right:.1f}%,"
    stops += f"{band} {right:.1f}%,{band} {high:.1f}%,transparent {high:.1f}%"
    ground = f"linear-gradient(to right,{stops})"
    if middle:
        ground += f",linear-gradient(to right,transparent 49.5%,{zero} 49.5%,{zero} 50.5%,transparent 50.5%)"
    style = "display:inline-block;width:9em;height:.7em;border:1px solid rgba(127,127,127,.5);"
    return Markup(f'<span role="img" aria-label="{html.escape(label)}" style="{style}background:{ground}"></span>')
