"""A tool over a table: what a map gives back, as a DataFrame, a figure and a display."""

from __future__ import annotations

import asyncio
import math
from itertools import chain
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clause, duration, plural
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.arguments import hidden_arguments
from mcp_magic.display.document import Part, show_parts
from mcp_magic.display.listing import Listing
from mcp_magic.errors import ArgumentsError, CallCancelledError, MCPMagicError, MissingDependencyError
from mcp_magic.flight.progress import SIGNS, State
from mcp_magic.loops import on_own_loop
from mcp_magic.map.execution import Execution, RowQueue
from mcp_magic.map.pace import read_rate
from mcp_magic.map.plan import HEAD_ROWS, YOU, MapItem, Origin, Plan, Step, check_count, read_options, short_values
from mcp_magic.map.rows import read_table, records
from mcp_magic.map.tally import DENIED, DONE, FAILED, INVALID, UNKNOWN, WAITING, commonest, kind_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    import pandas as pd

    from mcp_magic.map.pace import Pace
    from mcp_magic.map.plan import MapOptions
    from mcp_magic.results.results import ToolResult
    from mcp_magic.session.services import Services

PLOTTED = 100  # bars of a plot


class MapRun:
    """A tool called for each row of a table.

    Attributes:
        steps: The tools.
        items: The rows, in order; with `keep=False` only those that did not succeed.
        problem: Why it stopped before the end, or "".
        answers: When each answer came, in seconds of running.
        refusals: When the server refused a call, in seconds of running.
        name: Returns the name of the variable that holds it, for the lines that the display proposes.
    """

    def __init__(self, plan: Plan, services: Services, origin: Origin = YOU, pace: Pace | None = None) -> None:
        self.steps = plan.steps
        self.items = plan.items
        self.problem = ""
        self.answers = plan.tally.answers
        self.refusals = plan.tally.refusals
        self.name: Callable[[], str] = lambda: "out"
        self._plan = plan
        self._tally = plan.tally
        self._services = services
        self._origin = origin
        self._pace = pace
        self._queue: RowQueue | None = None
        self._execution: Execution | None = None
        self._outcome: State = "running"
        self._error: MCPMagicError | None = None  # that stopped it

    @property
    def options(self) -> MapOptions:
        """How it runs."""
        return self._plan.options

    @property
    def note(self) -> str:
        """A remark about the journal or the columns, or ""."""
        return self._plan.note

    @property
    def title(self) -> str:
        """The tools: `"weather:forecast"`."""
        return self._plan.title

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions."""
        return self.steps[0].connection.loop

    def plan(self) -> Listing:
        """Return what would be called: the first rows with their arguments or their problem. Nothing is sent."""
        return self._plan.preview()

    async def run(self) -> MapRun:
        """Make the calls, and return this object.

        Raises:
            ArgumentsError: Rows do not fit the schema, with `skip_invalid` all of them; nothing was sent.
            ConfigError: The journal cannot be used; nothing was sent.
            DeniedError: All calls were denied; nothing was sent.
        """
        invalid = self._plan.check()
        if invalid and not (self.options.skip_invalid and len(invalid) < len(self.items)):
            raise ArgumentsError(self._plan.misfits(invalid))
        await self._execute([item for item in self.items if item.state in (INVALID, WAITING)])
        return self

    async def stream(self) -> AsyncGenerator[MapItem, None]:
        """Make the calls as `run` does, and yield each row with its outcome. Leaving the loop cancels the rest.

        Rows that were yielded are not kept. Raises what `run` raises, and the error that stops it before the end.
        """
        self._queue = queue = RowQueue(self.options.concurrency)
        running = asyncio.create_task(self.run())
        running.add_done_callback(lambda _: queue.end())
        try:
            while (item := await queue.get()) is not None:
                yield item
            await running
            if self._error is not None:
                raise self._error
        finally:
            self._queue = None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @on_own_loop
    async def retry(
        self,
        *,
        repeat_unknown: bool = False,
        explode: bool = False,
        limit: int | None = None,
        rate: str | float | None = None,
        concurrency: int | None = None,
        sessions: int | None = None,
        timeout: float | None = None,
    ) -> MapRun:
        """Call again for the rows that failed or were not called, and return this object.

        A row that may have run stays `"unknown"`, unless `repeat_unknown` says that it may run twice. `explode` makes
        each item of an answer a row of `.df`. Only the first `limit` of the rows are called. The other options are
        those of `host.map`. All but `limit` hold from now on, and None leaves an option as it was.

        Raises:
            ArgumentsError: The map still runs, or an option makes no sense.
        """
        if self._execution is not None and self._outcome == "running":
            raise ArgumentsError(f"the map {self.title} still runs: await its end, or `.cancel()` it")
        check_count("limit", limit or 0, 0)
        self._plan.change(
            rate=None if rate is None else read_rate(rate),
            concurrency=concurrency,
            sessions=sessions,
            timeout=timeout,
            explode=explode or None,
            repeat_unknown=repeat_unknown or None,
        )
        final = (DONE, INVALID) if self.options.repeat_unknown else (DONE, INVALID, UNKNOWN)
        rest = [item for item in self.items if item.state not in final][:limit]
        for item in rest:
            if item.state != WAITING:
                self._tally.remove(item.state, item.error)
            item.state, item.error, item.attempts = WAITING, "", 0
            if item.arguments is None:
                self._plan.prepare(item)
        await self._execute(rest, None if limit is None else limit - len(rest))
        return self

    def cancel(self) -> None:
        """Stop: calls in flight are cancelled, and the rest is not sent. `retry()` goes on."""
        if self._execution is not None:
            self._execution.cancel()

    async def _execute(self, items: Sequence[MapItem], unread: int | None = None) -> None:
        """Make the calls of some rows and of those that are not read yet, at most `unread` of these."""
        self._error, self.problem, self._outcome = None, "", "running"
        self._execution = execution = Execution(
            self._plan, self._services, self._origin, self._advice, self._pace, self._queue, self._seconds
        )
        try:
            await execution.run(items, unread)
            self._outcome = self._tally.outcome
        except asyncio.CancelledError:
            self.problem = self._outcome = "interrupted"
            raise
        except MCPMagicError as error:
            is_cancelled = isinstance(error, CallCancelledError)
            self.problem = "cancelled" if is_cancelled else str(error)
            self._outcome = "cancelled" if is_cancelled else "failed"
            if not is_cancelled and error is not execution.problem:
                raise
            self._error = error
        finally:
            if self._outcome == "running":  # another error, which is a bug
                self._outcome = "failed"

    @property
    def _seconds(self) -> float:
        return 0.0 if self._execution is None else self._execution.seconds

    # The values

    @property
    def results(self) -> list[ToolResult | None]:
        """The results in the order of the rows (of a pipeline, those of the last step); None for rows without any."""
        last = self.steps[-1].name
        return [item.results.get(last) for item in self.items]

    @property
    def ok(self) -> bool:
        """Whether each row has an answer."""
        return all(item.state == DONE for item in self.items)

    @property
    def failed(self) -> pd.DataFrame:
        """The rows that have no answer: the input's index and columns, `state` and `error`."""
        return _frame(self._plan, [item for item in self.items if item.state != DONE], answers=False)

    @property
    def df(self) -> pd.DataFrame:
        """The input's index and columns, the columns of the answers, then `error`, `attempts` and `seconds`."""
        return _frame(self._plan, self.items, answers=True)

    @property
    def stats(self) -> dict[str, Any]:
        """Rows by state, calls, refusals, seconds, calls a second, and latencies in seconds (50th, 95th percentile).

        The states together are all rows. The rate is the calls over the seconds, at most the option `rate`.
        """
        return self._tally.stats(self._seconds)

    @property
    def failure_summary(self) -> str:
        """The rows by state and the most common error; "" if every row has an answer."""
        return self._tally.failure_summary

    @property
    def state(self) -> str:
        """`"running"`, `"done"`, or why it stopped."""
        if self._execution is not None and self._execution.is_running:
            return "running"
        return self.problem or "done"

    def plot(self) -> Any:
        """Return a figure of the answers and refused calls a second over time.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        figure = new_figure()
        axes = figure.subplots()
        width = max(self._seconds / PLOTTED, 0.25)
        edges = [width * number for number in range(math.ceil(self._seconds / width) + 1)]
        for label, times in (("answers", self.answers), ("refused", self.refusals)):
            if times:
                axes.hist(times, edges, weights=[1 / width] * len(times), histtype="stepfilled", alpha=0.7, label=label)
        axes.set(xlabel="seconds", ylabel="calls/s", title=self.title)
        axes.legend()
        return figure

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"<MapRun {'; '.join(filter(None, [f'{self.title}: {self.summary}', self._python_advice]))}>"

    @property
    def summary(self) -> str:
        """The figures and the most common error in a line: `"20 of 20 rows done, 1.1 s, 17 calls/s"`."""
        return "; ".join([self._figures, *self._tally.lines()])

    @property
    def _figures(self) -> str:
        tally = self._tally
        resumed = [f"{tally.resumed:,} from the journal"] if tally.resumed else []
        return ", ".join([*tally.rows(), *resumed, duration(self._seconds), *tally.rate_text(self._seconds)])

    _repr_mimebundle_ = show_parts

    def parts(self) -> list[Part]:
        """Return the parts to display: the figures, the errors by message, and the first rows."""
        parts = [Part.note(f"{SIGNS[self._outcome]} {self.title}: {self._figures}")]
        if self.problem:
            states = self._tally.states()
            has_rest = self._tally.size is None or any(states[state] for state in (FAILED, DENIED, WAITING))
            rest = f"; `await {self.name()}.retry()` goes on with the rest" if self.options.keep and has_rest else ""
            why, _, stderr = self.problem.partition("\n")
            parts.append(Part.note(f"It stopped: {clause(why)}{rest}"))
            if stderr:
                parts.append(Part.prose(dedent(stderr)))
        parts += [Part.note(text) for text in (self._python_advice, self.note) if text]
        parts += self._errors()
        if any(item.state == DONE for item in self.items):
            head = _frame(self._plan, self.items[:HEAD_ROWS], answers=True).iloc[:, :-2]  # without attempts and seconds
            answers = records(head.astype(object).where(head.notna(), ""))
            more = len(self.items) - len(head)
            values = (short_values(hidden_arguments(answer, None)) for answer in answers)
            rows = [{"row": label, **answer} for label, answer in zip(head.index, values, strict=True)]
            parts += Listing(rows, note=f"… {plural(more, 'more rows')}: .df has all" if more > 0 else "").parts()
        results = [result for item in self.items[:HEAD_ROWS] for result in item.results.values()]
        if not self.options.explode and any(isinstance(result.data, list) for result in results):
            line = f"`%mcp map --resume ${self.name()} --explode`"
            parts.append(Part.note(f"Answers are lists: {line} makes each item a row of .df."))
        return parts

    def _errors(self) -> list[Part]:
        """Return the errors by kind, without the reason of the stop, which has a line of its own."""
        kinds = dict(self._tally.kinds)
        if self._error is not None:
            kinds.pop(kind_of(self._error.whole), None)
        rows = [
            {"rows": kind.rows, "values": "differ" if kind.is_varied else "", "error": kind.text}
            for kind in commonest(kinds.values(), HEAD_ROWS)
        ]
        more = len(kinds) - HEAD_ROWS
        note = f"… {plural(more, 'more kinds')}: .failed has all" if more > 0 else ""
        return Listing(rows, kind="errors", note=note).parts() if rows else []

    @property
    def _unknown(self) -> int:
        """The number of rows that may have run, if somebody gets this object to call them again."""
        is_held = self._queue is None and self._origin.asker == PERSON
        return self._tally.states()[UNKNOWN] if is_held else 0

    def _advice(self) -> str:
        """Return the line that calls unknown rows again, or ""."""
        name = "RUN" if self.name() == "_" else self.name()
        return f"`%mcp map --resume ${name} --repeat-unknown` repeats unknown rows" if self._unknown else ""

    @property
    def _python_advice(self) -> str:
        """How unknown rows are called again, by a line or in Python; "" if there are none."""
        if not self._unknown:
            return ""
        name = self.name()
        line = f"`%mcp map --resume ${name} --repeat-unknown` or `await {name}.retry(repeat_unknown=True)`"
        return f"{line} repeats the {plural(self._unknown, 'calls')} that may have run"


# The answers as a DataFrame


def _frame(plan: Plan, items: Sequence[MapItem], *, answers: bool) -> pd.DataFrame:
    """Return the input's index and columns, then the columns of the answers, and how each row ended."""
    import pandas as pd

    from mcp_magic.display.frames import escaped
    from mcp_magic.display.tables import Records, typed

    inputs = list(dict.fromkeys([*plan.table.columns, *(name for item in items for name in item.row)]))
    keys = dict.fromkeys(key for item in items for key in chain(*_answers(plan, item))) if answers else {}
    prefix = plan.steps[-1].name or plan.steps[-1].tool.name  # in front of names that would collide
    names = {(step, name): f"{step or prefix}.{name}" if step or name in inputs else name for step, name in keys}
    last = ("error", "attempts", "seconds") if answers else ("state", "error")
    taken_names = {*inputs, *names.values()}
    ends = {name: f"{prefix}.{name}" if name in taken_names else name for name in last}
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for item in items:
        end = {column: getattr(item, name) for name, column in ends.items()}
        end[ends["error"]] = item.error or None
        for answer in _answers(plan, item) if answers else [{}]:
            numbers.append(item.number)
            rows.append({**{names[key]: value for key, value in answer.items()}, **end})
    after = pd.DataFrame(rows, columns=[*dict.fromkeys(names.values()), *ends.values()])
    with_gaps = {}  # columns with integers, and not in each row: pandas would make floats of them
    for name in names.values():
        types = {type(row.get(name)) for row in rows}
        if types == {int, type(None)}:
            with_gaps[name] = "integer"
    after = typed(after, Records(values=rows), with_gaps)
    if (frame := plan.table.frame) is None:
        before = pd.DataFrame([dict(item.row) for item in items], columns=inputs, index=[item.number for item in items])
        before = before.loc[numbers]
    else:
        before = frame.iloc[numbers].set_axis(inputs, axis="columns")
    return escaped(pd.concat([before, after.set_index(before.index)], axis="columns"))


def _answers(plan: Plan, item: MapItem) -> list[dict[tuple[str, str], Any]]:
    """Return the answer of a row as columns by (step, name); several with `explode`."""
    answers: list[dict[tuple[str, str], Any]] = [{}]
    for step in plan.steps:
        if (result := item.results.get(step.name)) is not None:
            rows = _rows_of(result, explode=plan.options.explode)
            answers = [
                {**answer, **{(step.name, name): value for name, value in row.items()}}
                for answer in answers
                for row in rows
            ]
    return answers


def _rows_of(result: ToolResult, *, explode: bool) -> list[dict[str, Any]]:
    """Return an answer as rows: an object's members are columns, any other value is the column `result`."""
    data = result.data if result.data is not None else result.text
    if explode and isinstance(data, list):
        return [item if isinstance(item, dict) else {"result": item} for item in data] or [{}]
    return [data if isinstance(data, dict) else {"result": data}]


def new_figure() -> Any:
    """Return an empty figure of Matplotlib, which IPython shows; pyplot is not involved.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("a plot needs Matplotlib: pip install matplotlib") from None
    return Figure(figsize=(8, 3), layout="constrained")


def map_steps(
    steps: Sequence[Step],
    rows: Any,
    services: Services,
    *,
    limit: int | None = None,
    origin: Origin = YOU,
    pace: Pace | None = None,
    **options: Any,
) -> MapRun:
    """Return a map that has not begun. `services` are the host's, and `options` those of `MapOptions`.

    Raises:
        ArgumentsError: These are no rows, or an option makes no sense.
    """
    check_count("limit", limit or 0, 0)
    values = read_options(options)
    return MapRun(Plan(steps, read_table(rows).first(limit), values), services, origin, pace)
