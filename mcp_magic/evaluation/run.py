"""The runs of an evaluation: each case, several times, with each model and variant of the tools, scored as it ends.

A run is one of an agent (`agent/graph.py`) on no thread, or with `tools_only` an agent's first turn, which
calls nothing. Each model has its own workers and its own pace, so a slow one holds up no other. First comes one run of
every case, then the second of every case: an evaluation that is interrupted has seen all cases.

A run without an outcome (the model failed, or the time was up) has no score and is made again on resuming. The calls of
a model are its choice whether or not they were approved, so a denied call is scored, and the run says that it was
denied.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import re
import time
import uuid
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.messages import HumanMessage, convert_to_messages, messages_from_dict, messages_to_dict
from mcp_types import Tool, ToolAnnotations

from mcp_magic._text import did_you_mean, free_name, join_names, plural
from mcp_magic.agent.builtin import SEARCH_TOOLS, WAIT_FOR_JOB
from mcp_magic.agent.calls import calls_of
from mcp_magic.agent.cost import cost_of
from mcp_magic.agent.entries import artifact_of, is_turn, stop_of
from mcp_magic.agent.failures import model_name
from mcp_magic.agent.graph import build_graph, first_turns, run_alone
from mcp_magic.agent.models import make_model
from mcp_magic.agent.run import AgentRun, usage_of
from mcp_magic.agent.settings import AgentSettings
from mcp_magic.agent.skills import LOAD_SKILL
from mcp_magic.agent.tools import Registry, instructions_of
from mcp_magic.agent.transcript import Transcript
from mcp_magic.consent.consent import PERSON, Request
from mcp_magic.consent.rules import Rule, exactly
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, MCPMagicError, ModelError
from mcp_magic.evaluation.judge import Judge, Opinion, Usage, measured
from mcp_magic.evaluation.matching import Match, Matcher
from mcp_magic.evaluation.statistics import Share, share_of
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.flight.progress import ProgressMeter, summed_up_in
from mcp_magic.flight.request import InFlightRequest, Look
from mcp_magic.langchain.functions import own_arguments
from mcp_magic.langchain.large_results import READ_RESULT
from mcp_magic.loops import together
from mcp_magic.map.journal import Journal, call_key
from mcp_magic.map.pace import Pace, read_rate
from mcp_magic.map.plan import check_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage

    from mcp_magic._host import Host
    from mcp_magic.evaluation.cases import Case
    from mcp_magic.evaluation.matching import ToolCall
    from mcp_magic.flight.progress import State
    from mcp_magic.langchain.variants import Variant

CONCURRENCY = 8  # default maximum number of runs of one model in flight

HOPELESS = 3  # first runs of a model that all fail, after which no other is begun: its key may be wrong

MAX_ERROR = 500  # characters of the error of a run

REFUSED = re.compile(r"\(HTTP (?:429|503|529)(?:, to be tried again in (\d+) s)?\)")
"""An error of a model whose provider wants fewer requests (`agent/failures.py`)."""

NO_TOOL = "(no such tool)"  # how the name of a tool ends that was not given to the model

UNJUDGED = "the judge gave no opinion"  # how the error of a run begins whose judge failed

ASKER = "agent evaluation"  # who calls the tools, for consent and the audit

OWN_TOOLS = (SEARCH_TOOLS, WAIT_FOR_JOB, READ_RESULT["name"], LOAD_SKILL)
"""The tools of the agent itself, whose calls no case expects."""

AGENT_OPTIONS = frozenset(option.name for option in fields(AgentSettings)) - {"max_tokens", "max_cost", "timeout"}


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How an evaluation runs.

    Attributes:
        runs: Runs of each case with each model and variant.
        tools_only: Whether only the choice of the first turn is scored, and nothing is called.
        concurrency: Most runs of one model in flight.
        rate: Most runs that each model begins in a time, in runs a second or as text such as `"100/min"`.
        timeout: Seconds that a run may take, in which time you may be asked, and then a check of it that is awaited;
            None for no limit.
        max_cost: US dollars for all runs together, where the prices of the models are known. No run is begun that
            would exceed them, judged by the others.
        max_tokens: Tokens for all runs together, read and written.
        journal: A file that keeps each run. The same evaluation later makes only the runs that are missing.
        agent: The settings of the agent.

    Raises:
        ArgumentsError: An option makes no sense.
    """

    runs: int = 1
    tools_only: bool = False
    concurrency: int = CONCURRENCY
    rate: float = math.inf
    timeout: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    journal: Path | None = None
    agent: AgentSettings = field(default_factory=AgentSettings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", read_rate(self.rate))
        if self.journal is not None:
            object.__setattr__(self, "journal", Path(self.journal))
        check_count("runs", self.runs, 1)
        check_count("concurrency", self.concurrency, 1)
        check_seconds("evaluate", timeout=self.timeout)
        for name in ("max_cost", "max_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ArgumentsError(f"{name}={value!r}: a number above 0 is expected")
        if self.agent.ask != "host":
            raise ArgumentsError(f"ask={self.agent.ask!r}: nobody resumes a run of an evaluation; leave it out")


OPTIONS = tuple(option.name for option in fields(EvaluationOptions))


def read_options(values: Mapping[str, Any], before: EvaluationOptions | None = None) -> EvaluationOptions:
    """Return options by name, which may also be those of `AgentSettings`. Raises ArgumentsError for any other."""
    options = before or EvaluationOptions()
    own = {name: value for name, value in values.items() if name in OPTIONS}
    others = {name: value for name, value in values.items() if name not in OPTIONS}
    for name in others:
        if name not in AGENT_OPTIONS:
            valid = [*OPTIONS, *sorted(AGENT_OPTIONS)]
            raise ArgumentsError(
                f"{name!r} is no option of an evaluation.{did_you_mean(name, valid)} There are {join_names(valid, 30)}."
            )
    options = replace(options, **own)
    return replace(options, agent=replace(options.agent, **others)) if others else options


# What is run: the cases with the models and variants.


@dataclass(frozen=True)
class Arm:
    """A model with a variant of the tools, which all cases run with.

    Attributes:
        model: The model's name.
        variant: The variant's name.
        chat: The model.
        surfaces: What the model reads of some servers in place of what they list.
    """

    model: str
    variant: str
    chat: BaseChatModel
    surfaces: tuple[Variant, ...] = ()

    def __str__(self) -> str:
        return f"{self.model} {self.variant}".strip()


@dataclass(slots=True)
class Trial:
    """One run of a case.

    Attributes:
        case: The place of the case among the cases.
        arm: The place of its model and variant among the arms.
        number: Which run of the case it is, from 1.
        match: How its calls compare with what is expected; None for a run without an outcome.
        calls: The calls of the model in order.
        turns: The turns of the model.
        tokens_in: Tokens that it read; 0 if the model counts none.
        tokens_out: Tokens that it wrote.
        cost: US dollars; None if the price is not known.
        seconds: How long it took.
        error: Why it has no outcome, or what kept it from its end; "" if nothing did.
        run: The run of the agent; None if the journal has it.
        opinion: What a judge says of it, if one was asked.
        judging: What judges have taken for it, also where they gave no opinion.
    """

    case: int
    arm: int
    number: int
    match: Match | None = None
    calls: tuple[ToolCall, ...] = ()
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    seconds: float = 0.0
    error: str = ""
    run: AgentRun | None = None
    opinion: Opinion | None = None
    judging: Usage = field(default_factory=Usage)

    @property
    def key(self) -> tuple[int, int, int]:
        """What identifies it."""
        return self.case, self.arm, self.number

    @property
    def right(self) -> bool | None:
        """Whether it is right; None if it has no outcome."""
        return None if self.match is None else self.match.right


def total_cost(trials: Iterable[Trial]) -> float | None:
    """Return what runs cost in US dollars; None if the price of any is not known."""
    costs = [trial.cost for trial in trials if trial.turns]
    prices = [cost for cost in costs if cost is not None]
    return sum(prices) if prices and len(prices) == len(costs) else None


@dataclass
class Plan:
    """What an evaluation runs, and what has come of it.

    Attributes:
        cases: The cases.
        arms: The models with the variants.
        options: How it runs.
        trials: The runs that have ended, by their key.
        remarks: What is to be said besides, such as about the journal.
        archive: The runs in the journal, if there is one.
    """

    cases: Sequence[Case]
    arms: Sequence[Arm]
    options: EvaluationOptions
    trials: dict[tuple[int, int, int], Trial] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    archive: Archive | None = None

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.cases) * len(self.arms) * self.options.runs

    def waiting(self) -> Iterator[tuple[int, int, int]]:
        """Yield the keys of the runs that have no outcome yet, one of each case after the other."""
        numbers = range(1, self.options.runs + 1)
        for number, case, arm in product(numbers, range(len(self.cases)), range(len(self.arms))):
            trial = self.trials.get((case, arm, number))
            if trial is None or trial.match is None:
                yield case, arm, number

    def runs(self, trials: Sequence[Trial]) -> Iterator[AgentRun | None]:
        """Yield the runs of agents; those that the journal has are read from it."""
        with nullcontext() if self.archive is None or all(trial.run for trial in trials) else self.archive:
            for trial in trials:
                is_kept = trial.run is None and self.archive is not None and trial.match is not None
                yield self.archive.find(trial.key, self.cases[trial.case]) if is_kept and self.archive else trial.run

    @property
    def ended(self) -> list[Trial]:
        """The runs that have ended, by case, model and variant."""
        return sorted(self.trials.values(), key=lambda trial: trial.key)

    def of(self, arm: int) -> list[Trial]:
        """Return the runs of a model and variant that have ended."""
        return [trial for trial in self.ended if trial.arm == arm]

    def share(self, arm: int, part: str = "right") -> Share | None:
        """Return the share of right runs of a model and variant; None if none has an outcome."""
        outcomes = self.outcomes(arm, part)
        return share_of(outcomes) if any(outcomes) else None

    def outcomes(self, arm: int, part: str = "right") -> list[list[float]]:
        """Return for each case the outcomes of its runs, 1 for right; those without an outcome are left out."""
        by_case: list[list[float]] = [[] for _ in self.cases]
        for trial in self.ended:
            value = getattr(trial.match, part) if trial.arm == arm and trial.match is not None else None
            if value is not None:
                by_case[trial.case].append(float(value))
        return by_case


def named_models(models: Any) -> dict[str, BaseChatModel]:
    """Return chat models by unique names.

    Args:
        models: A model as `make_model` takes it, several of them, or names and models.

    Raises:
        ArgumentsError, ModelError: There is none, or one cannot be used.
    """
    if isinstance(models, Mapping | list | tuple) and not models:
        raise ArgumentsError("there is no model to evaluate; give one, such as 'openai:gpt-5', or several")
    if isinstance(models, Mapping):
        return {str(name): make_model(model) for name, model in models.items()}
    named: dict[str, BaseChatModel] = {}
    for model in models if isinstance(models, list | tuple) else [models]:
        chat = make_model(model)
        named[free_name(model_name(chat), named)] = chat
    return named


# How a run is scored.


def matcher_of(registry: Registry) -> Matcher:
    """Return what compares calls of these tools, by their own names and schemas, with what is expected."""
    return Matcher({offer.person_name: offer.tool.input_schema for offer in registry.offers.values()})


class Scorer:
    """Scores runs by what their cases expect.

    Args:
        registry: The tools that the model is offered.
        timeout: Seconds that a function of a case may take; None for no limit.
    """

    def __init__(self, registry: Registry, timeout: float | None = None) -> None:
        self._registry = registry
        self._timeout = timeout
        self._matcher = matcher_of(registry)

    async def score(self, trial: Trial, case: Case, run: AgentRun, archive: Archive | None = None) -> None:
        """Set the figures of a run and its match, which is None if the model has not taken a turn.

        Without the answer of a judge, or the end of a function, it is None, too. A judge is asked only about a run that
        has the expected calls.
        """
        messages, usage = run.messages, usage_of(run.messages)
        trial.run, trial.seconds = run, run.seconds
        trial.calls = tuple(self._calls(messages))
        trial.turns = sum(map(is_turn, messages))
        trial.tokens_in, trial.tokens_out = usage["input_tokens"], usage["output_tokens"]
        trial.cost = cost_of(messages, run.model)
        if trial.error or not trial.turns:
            return
        trial.error = _hindrance(messages)
        match = Match(True, True, None)
        if case.expected is not None:
            match = self._matcher.match(case.expected, trial.calls)
        if case.check is not None and (match.right or not isinstance(case.check, Judge)):
            try:
                with measured(trial.judging):
                    problem = await self._check_problem(case, trial, run, archive)
            except ModelError as error:
                trial.error = one_line(f"{UNJUDGED}: {str(error).partition(chr(10))[0]}", MAX_ERROR)
                return
            except TimeoutError:
                trial.error = f"{TIMED_OUT}: no end of the check within {self._timeout or 0:g} s"
                return
            if problem:
                match = replace(match, right=False, differences=(*match.differences, problem))
        trial.match = match

    async def _check_problem(self, case: Case, trial: Trial, run: AgentRun, archive: Archive | None) -> str:
        """Return why a check of a case fails, or "".

        Raises:
            ModelError: A judge gives no opinion.
            TimeoutError: A function that is awaited takes too long.
        """
        check: Any = case.check
        if isinstance(check, Judge):
            outcome: Any = await check.opinion(run, archive)
        else:
            timer = asyncio.timeout(self._timeout)
            try:
                async with timer:
                    outcome = check(run)
                    outcome = await outcome if inspect.isawaitable(outcome) else outcome
            except AssertionError as error:
                text = one_line(str(error).partition(chr(10))[0], 200)
                return f"the check fails: {text or 'an assertion does not hold'}"
            except ModelError:  # of a judge that the function asks
                raise
            except Exception as error:
                if timer.expired():
                    raise
                return f"the check raises {type(error).__name__}: {one_line(str(error), 200)}"
        if isinstance(outcome, Opinion):
            trial.opinion = outcome
            return "" if outcome.yes else outcome.problem
        return "" if outcome or outcome is None else f"the check fails: it returns {outcome!r:.80}"

    def _calls(self, messages: Iterable[BaseMessage]) -> Iterator[ToolCall]:
        for call in (call for message in messages if is_turn(message) for call in calls_of(message)):
            name, arguments = str(call["name"] or ""), call["args"] if isinstance(call["args"], Mapping) else {}
            if (offer := self._registry.offers.get(name)) is not None:
                yield offer.person_name, own_arguments(arguments, offer.renamed)
            elif name not in OWN_TOOLS:  # it may be the name of a tool that this variant has by another name
                yield f"{self._registry.person_name(name) or 'a tool without a name'} {NO_TOOL}", arguments


def _hindrance(messages: Sequence[BaseMessage]) -> str:
    """Return what kept a run from its end: a denied call, or a bound."""
    for message in messages:
        approval = artifact_of(message).get("approval")
        if message.type == "tool" and isinstance(approval, dict) and approval.get("decision") == "deny":
            return one_line(message.text.removesuffix(" Do not try the same again."), MAX_ERROR)
    stop = stop_of(messages[-1])
    return f"ended by {stop} before the work was done" if stop else ""


# How the runs are kept in a journal: the messages of each, and how long it took.


class Archive:
    """The runs of an evaluation in a journal, by model, variant and what the model reads. A context opens the file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None
        self._numbers: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._journal = Journal(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()
        self._journal = None

    @property
    def journal(self) -> Journal:
        """The open file."""
        assert self._journal is not None
        return self._journal

    def find_arm(self, number: int, arm: Arm, definition: str) -> str:
        """Find an arm in the file by what its model reads; return a remark about runs that are not used, or ""."""
        server, tool = f"model {arm.model}", arm.variant or "the tools"
        self._numbers[number], note = self.journal.tool(server, tool, definition)
        return note.replace("answers", "runs").replace("answer ", "run ")

    def find(self, key: tuple[int, int, int], case: Case) -> AgentRun | None:
        """Return a run, or None if the file has none."""
        _, text = self.journal.find(self._numbers[key[1]], _case_key(case), key[2])
        if text is None:
            return None
        try:
            stored = json.loads(text)
            messages = messages_from_dict(stored["messages"])
            run = AgentRun(
                case.text, f"{case.name} #{key[2]}", str(stored["model"]), Transcript.from_messages(messages), messages
            )
            run.seconds, run.stopped = float(stored["seconds"]), stop_of(messages[-1])
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            problem = f"the journal {self._path}: a run cannot be read ({case.name}); choose another file"
            raise ConfigError(problem) from None
        return run

    def keep(self, key: tuple[int, int, int], case: Case, run: AgentRun) -> None:
        """Keep a run."""
        stored = {"model": run.model, "seconds": round(run.seconds, 4), "messages": messages_to_dict(run.messages)}
        self.journal.write(self._numbers[key[1]], _case_key(case), key[2], json.dumps(stored, default=str))

    def find_opinion(self, judge: Judge, key: bytes) -> str | None:
        """Return the answer of a judge about a run, or None."""
        return self.journal.find(self._judge_number(judge), key, 0)[1]

    def keep_opinion(self, judge: Judge, key: bytes, answer: str) -> None:
        """Keep the answer of a judge."""
        self.journal.write(self._judge_number(judge), key, 0, answer)

    def _judge_number(self, judge: Judge) -> int:
        number, _ = self.journal.tool(f"judge {judge.name}", judge.question, "")
        return number


def _case_key(case: Case) -> bytes:
    return call_key({"request": case.request if isinstance(case.request, str) else _dumped(case.request)})


def _dumped(messages: Iterable[Any]) -> list[dict[str, Any]]:
    return messages_to_dict(convert_to_messages(list(messages)))


# The execution.


class RunMeter(ProgressMeter):
    """The progress of an evaluation on the screen.

    Args:
        plan: What it shows.
        in_flight: Returns how many runs are under way.
    """

    ends_without_error = True  # its failures are rows

    def __init__(self, plan: Plan, in_flight: Callable[[], int]) -> None:
        super().__init__()
        self._plan = plan
        self._in_flight = in_flight
        self._right = self._scored = self._failed = 0

    def add(self, trial: Trial, now: float) -> None:
        """Take a run that has ended."""
        self._scored += trial.match is not None
        self._failed += trial.match is None
        self._right += bool(trial.right)
        self.note(self.done + 1, self._plan.size, None, now)

    def figures(self, *, running: bool = True) -> list[str]:
        """Return the number of runs, the share of right ones, and while running the remaining time."""
        texts = [f"{self.done:,.0f} of {self._plan.size:,} runs"]
        if self._scored:
            texts.append(f"{self._right / self._scored:.0%} right")
        return [*texts, *(self.time_left if running else [])]

    def remark(self, state: State) -> str:
        """Return how many runs have failed, and while running how many are under way."""
        failed = [f"{self._failed:,} failed"] if self._failed else []
        return " · ".join([*failed, *([f"{self._in_flight()} in flight"] if state == "running" else [])])


@dataclass
class Spent:
    """What runs have taken: their number, tokens and US dollars."""

    runs: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def add(self, trial: Trial) -> None:
        """Add a run."""
        self.runs += 1
        self.tokens += trial.tokens_in + trial.tokens_out + trial.judging.tokens
        self.dollars += (trial.cost or 0.0) + trial.judging.dollars


def registry_of(host: Host, settings: AgentSettings) -> Registry:
    """Return the tools that an agent with these settings may use."""
    return Registry(host, servers=settings.servers, tools=settings.tools, surfaces=settings.surfaces)


class _Bench:
    """An arm while the evaluation runs: its graph, and how it scores."""

    def __init__(self, arm: Arm, host: Host, options: EvaluationOptions, whole: str) -> None:
        surfaces = (*options.agent.surfaces, *arm.surfaces)
        bounds: Any = {"max_cost": options.max_cost, "max_tokens": options.max_tokens}
        settings = replace(options.agent, surfaces=surfaces, **bounds)
        self.arm = arm
        self._whole = whole
        self._graph: Any = None
        self._first_turn: Callable[[Sequence[BaseMessage]], Awaitable[AIMessage]] | None = None
        self.registry = registry_of(host, settings)
        self._settings = settings
        self._timeout = options.timeout
        if options.tools_only:
            self._first_turn = first_turns(arm.chat, host, settings)
        else:
            self._graph = build_graph(arm.chat, host, settings)

    async def prepare(self) -> Scorer:
        """Read the tools, and return what scores the calls of them."""
        await self.registry.refresh()
        return Scorer(self.registry, self._timeout)

    @property
    def definition(self) -> str:
        """A digest of what the model reads, and of what decides how it goes on."""
        offers = self.registry.offers.values()
        connections = {offer.connection.name: offer.connection for offer in offers}
        settings = self._settings
        parts = [
            [offer.openai_tool for offer in offers],
            [*map(instructions_of, connections.values())],
            [settings.system, settings.max_turns, settings.search_above, self._first_turn is not None],
        ]
        return hashlib.blake2b(json.dumps(parts, default=str).encode(), digest_size=16).hexdigest()

    async def run(self, case: Case, run: AgentRun) -> None:
        """Make a run. Raises what the model raises; `run` has what came of it."""
        before: list[Any] = []
        if not isinstance(case.request, str):
            before = convert_to_messages(list(case.request))[:-1]
        if self._first_turn is not None:
            request, start = HumanMessage(run.request, id=uuid.uuid4().hex), time.perf_counter()
            run.messages = [request]
            try:
                run.messages.append(await self._first_turn([*before, request]))
            finally:
                run.seconds = time.perf_counter() - start
                run.transcript = Transcript.from_messages(run.messages)
            return
        await run_alone(self._graph, run, before, asker=ASKER, whole=self._whole)


def _summarised(tools: Sequence[Tool], title: str) -> Tool | None:
    """Return one definition for tools that a question names together: what all of them say. None if that is nothing."""
    if len(tools) == 1:
        return tools[0]
    if not all(tool.annotations is not None and tool.annotations.read_only_hint is True for tool in tools):
        return None
    return Tool(name=title, input_schema={"type": "object"}, annotations=ToolAnnotations(read_only_hint=True))


class _Lane:
    """The runs of one model: those that wait, its pace, and whether it works at all."""

    def __init__(self, rate: float) -> None:
        self.waiting: deque[tuple[int, int, int]] = deque()
        self.pace = Pace(rate)
        self.failures = 0  # since the beginning; -1 once a run has an outcome
        self.problem = ""

    def count(self, trial: Trial) -> None:
        """Take note of an outcome, or of a failure of the model."""
        if trial.match is not None:
            self.failures = -1
        elif self._is_failure(trial) and self.failures >= 0 and not trial.error.startswith(TIMED_OUT):
            self.failures += 1
            if self.failures >= HOPELESS:
                self.problem = trial.error

    @staticmethod
    def _is_failure(trial: Trial) -> bool:
        """Whether the model has failed, or the judge, without whom no run has an outcome."""
        return not trial.turns or trial.error.startswith(UNJUDGED)


TIMED_OUT = "timed out"


class Execution:
    """Makes the runs of a plan that have no outcome yet.

    Args:
        plan: What is run.
        host: The host of the sessions.
        on_trial: Called with each run that has ended.

    Attributes:
        problems: Why runs were not begun, if any were not.
    """

    def __init__(self, plan: Plan, host: Host, on_trial: Callable[[Trial], None] = lambda trial: None) -> None:
        self.problems: list[str] = []
        self._plan = plan
        self._host = host
        self._on_trial = on_trial
        self._whole = uuid.uuid4().hex
        self._benches: list[_Bench] = []
        self._scorers: list[Scorer] = []
        self._in_flight = 0
        self._spent = Spent()
        for trial in plan.trials.values():
            self._spent.add(trial)
        self._meter = RunMeter(plan, lambda: self._in_flight)

    async def run(self) -> None:
        """Make the runs. Interrupt keeps those that have ended.

        Raises:
            ArgumentsError, ConfigError: A case expects what is not offered, or the journal cannot be used.
            CallCancelledError: You cancelled it.
            MCPMagicError: A model cannot be used.
        """
        options = self._plan.options
        self._benches = [_Bench(arm, self._host, options, self._whole) for arm in self._plan.arms]
        tools = registry_of(self._host, replace(options.agent, surfaces=()))
        await tools.check()
        await tools.refresh()
        matcher_of(tools).check(self._plan.cases)
        self._scorers = [await bench.prepare() for bench in self._benches]
        with ExitStack() as stack:
            if options.journal is not None:
                archive = self._plan.archive = Archive(options.journal)
                await asyncio.to_thread(archive.__enter__)
                stack.push(archive)
                await self._take_up(archive)
            lanes = self._lanes()
            if not any(lane.waiting for lane in lanes):
                return
            stack.callback(self._host.consent.forget_run, self._whole)
            if not options.tools_only:
                await self._decide_together()
            progress = InFlightRequest("evaluation", "", self._host.reports, look=Look(meter=self._meter))
            with progress:
                with summed_up_in(progress.report):
                    await together(self._work(lane) for lane in lanes for _ in range(options.concurrency))
                failed = any(trial.match is None for trial in self._plan.trials.values())
                progress.conclude("partly failed" if failed or self.problems else "done")
        for problem in dict.fromkeys(lane.problem for lane in lanes if lane.problem):
            self.problems.append(f"the first {plural(HOPELESS, 'runs')} failed: {problem}")

    async def _take_up(self, archive: Archive) -> None:
        """Take the runs that the journal has, scored by what the cases expect now."""
        for number, bench in enumerate(self._benches):
            if (note := archive.find_arm(number, bench.arm, bench.definition)) and note not in self._plan.remarks:
                self._plan.remarks.append(note)
        for key in [*self._plan.waiting()]:
            case = self._plan.cases[key[0]]
            if (run := archive.find(key, case)) is not None:
                trial = Trial(*key)
                await self._scorers[key[1]].score(trial, case, run, archive)
                self._end(trial)
                await asyncio.sleep(0)

    def _lanes(self) -> list[_Lane]:
        lanes: dict[int, _Lane] = {}
        for key in self._plan.waiting():
            self._plan.trials.pop(key, None)
            model = id(self._plan.arms[key[1]].chat)
            lanes.setdefault(model, _Lane(self._plan.options.rate)).waiting.append(key)
        return [*lanes.values()]

    # Consent, once for all tools that change nothing

    async def _decide_together(self) -> None:
        """Ask once whether the models may call the tools that only read, or that a cassette answers.

        Other calls are decided about one by one, as an agent's are.
        """
        consent, requests = self._host.consent, {}
        for offer in (offer for bench in self._benches for offer in bench.registry.offers.values()):
            connection, hints = offer.connection, offer.tool.annotations
            trusted = connection.spec.trust
            request = Request(connection.name, offer.tool.name, {}, ASKER, offer.tool, trusted, run=self._whole)
            is_harmless = (hints is not None and hints.read_only_hint is True) or connection.place.replayed
            if is_harmless and consent.verdict(request, self._plan.options.agent.approve) == "ask":
                requests[request.name] = request
        if not requests:
            return
        about: dict[str, Any] = {
            "tools": [*requests],
            "arguments": "whatever the models choose",
            "runs": f"{self._plan.size:,} of {plural(len(self._plan.cases), 'cases')}",
        }
        first = next(iter(requests.values()))
        names = [one_line(request.tool, 60) for request in requests.values() if request.server == first.server]
        more = len(requests) - len(names)
        title = join_names(names, 4) + (f" and {plural(more, 'tools')} of other servers" if more else "")
        definition = _summarised([request.definition for request in requests.values() if request.definition], title)
        trusted = all(request.trusted for request in requests.values())
        summary = Request(first.server, title, about, ASKER, definition, trusted, run=self._whole, calls=0)
        decision = await self._host.caller.decide_set(
            [*requests.values()], policy=self._plan.options.agent.approve, summary=summary
        )
        if decision.by == "default":
            return  # nobody can be asked: each call is denied, and says so
        action: Literal["allow", "deny"] = "allow" if decision.approved else "deny"
        by = "you" if decision.by == PERSON else decision.by
        reason = "" if decision.approved else decision.reason or f"denied by {by}"
        for request in requests.values():
            rule = Rule(action, exactly(request.name), reason=reason, run=self._whole, since=consent.definitions.count)
            asking = consent.rule_for(request)
            consent.rules.insert(consent.rules.index(asking) if asking else len(consent.rules), rule)

    # Work

    async def _work(self, lane: _Lane) -> None:
        while lane.waiting and not lane.problem and not self._is_spent():
            key = lane.waiting.popleft()
            self._in_flight += 1
            try:
                trial = await self._try(lane, key)
            finally:
                self._in_flight -= 1
            lane.count(trial)
            self._end(trial)

    def _is_spent(self) -> bool:
        """Whether one more run may exceed a bound of the evaluation."""
        options, spent = self._plan.options, self._spent
        after = 1 + (self._in_flight + 1) / max(spent.runs, 1)  # runs take as much as those before
        problem = ""
        if options.max_cost is not None and spent.dollars * after > options.max_cost:
            problem = f"${spent.dollars:.4g} of ${options.max_cost:g} are spent, and one more run may exceed them"
        elif options.max_tokens is not None and spent.tokens * after > options.max_tokens:
            problem = f"{spent.tokens:,} of {options.max_tokens:,} tokens are used, and one more run may exceed them"
        if problem:
            self.problems[:] = [problem]
        return bool(problem)

    async def _try(self, lane: _Lane, key: tuple[int, int, int]) -> Trial:
        """Make a run, and again while its provider wants fewer requests and nothing was called."""
        case, bench = self._plan.cases[key[0]], self._benches[key[1]]
        while True:
            trial = Trial(*key)
            run = AgentRun(case.text, uuid.uuid4().hex, model_name(bench.arm.chat))
            sent_at = await lane.pace.turn()
            is_refused = False
            try:
                async with asyncio.timeout(self._plan.options.timeout):
                    await bench.run(case, run)
                lane.pace.accepted(sent_at)
            except TimeoutError:
                trial.error = f"{TIMED_OUT}: no end within {self._plan.options.timeout or 0:g} s"
            except MCPMagicError as error:
                trial.error = one_line(str(error).partition("\n")[0], MAX_ERROR)
                if isinstance(error, ModelError) and (refusal := REFUSED.search(str(error))):
                    lane.pace.refused(sent_at, float(refusal[1]) if refusal[1] else None)
                    is_refused = not lane.pace.is_stuck
            except Exception as error:  # a bug of the model's class, or of a server: it is this run's
                trial.error = one_line(f"{type(error).__name__}: {error}", MAX_ERROR)
            await self._scorers[key[1]].score(trial, case, run, self._plan.archive)
            if not is_refused or trial.calls:
                if self._plan.archive is not None and trial.match is not None:
                    self._plan.archive.keep(key, case, run)  # before it counts
                run.thread = f"{case.name} #{trial.number}"
                return trial

    def _end(self, trial: Trial) -> None:
        """Take a run that has ended. What the journal has is not in memory, too."""
        if self._plan.archive is not None and trial.match is not None:
            trial.run = None
        self._plan.trials[trial.key] = trial
        self._spent.add(trial)
        self._meter.add(trial, asyncio.get_running_loop().time())
        self._on_trial(trial)
