"""The plan of a map: the calls that the rows of a table become, before anything is sent."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.consent.consent import PERSON
from mcp_magic.display.arguments import hidden_arguments, short_value
from mcp_magic.display.listing import Listing
from mcp_magic.errors import ArgumentsError
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.map.pace import read_rate
from mcp_magic.map.rows import fill, matching
from mcp_magic.map.tally import INVALID, WAITING, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.consent.consent import Approver
    from mcp_magic.map.rows import Row, Table
    from mcp_magic.results.results import ToolResult
    from mcp_magic.session.connection import Connection

CONCURRENCY = 64  # default maximum number of calls in flight

HOPELESS = 1_000  # rows of an unknown number after which a map stops if none of them fits the schema

HEAD_ROWS = 10  # rows of the tables that are displayed, and problems in an error


@dataclass(frozen=True)
class MapOptions:
    """How a map runs.

    Attributes:
        concurrency: Most calls in flight.
        rate: Most calls a second, or text such as `"100/min"`.
        sessions: Sessions to each server, opened for the time of the map.
        timeout: Seconds that a call may take; None for no limit.
        journal: A file that keeps each answer, so that the same map later calls only what is missing.
        repeat_unknown: Whether to call again what was under way when an earlier kernel died.
        skip_invalid: Whether to leave out rows that do not fit the schema; otherwise nothing is sent.
        keep: Whether the answers stay in memory; without it they are in the journal only.
        explode: Whether an answer of several rows becomes several rows of `.df`.
        on: The workers of a cluster that make the calls, each over a session of its own, or None.

    Raises:
        ArgumentsError: An option makes no sense.
    """

    concurrency: int = CONCURRENCY
    rate: float = math.inf
    sessions: int = 1
    timeout: float | None = None
    journal: Path | None = None
    repeat_unknown: bool = False
    skip_invalid: bool = False
    keep: bool = True
    explode: bool = False
    on: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", read_rate(self.rate))
        if self.journal is not None:
            object.__setattr__(self, "journal", Path(self.journal))
        check_count("concurrency", self.concurrency, 1)
        check_count("sessions", self.sessions, 1)
        check_seconds("map", timeout=self.timeout)
        if not self.keep and self.journal is None:
            raise ArgumentsError("--no-keep needs --journal FILE, which has the answers")


OPTIONS = tuple(option.name for option in fields(MapOptions))


def read_options(values: Mapping[str, Any]) -> MapOptions:
    """Return options by name. Raises ArgumentsError if there is no such option, or if one makes no sense."""
    for name in values:
        if name not in OPTIONS:
            raise ArgumentsError(
                f"{name!r} is no option of a map.{did_you_mean(name, OPTIONS)} There are {join_names(OPTIONS, 20)}."
            )
    return MapOptions(**values)


def check_count(name: str, value: object, least: int) -> None:
    """Raise ArgumentsError for an option that is no whole number, or too small."""
    if not isinstance(value, Integral) or int(value) < least:
        raise ArgumentsError(f"{name}={value!r}: expected a whole number, at least {least}")


@dataclass(frozen=True)
class Origin:
    """Who maps: you, or an agent.

    Attributes:
        asker: Who calls, for consent.
        run: The agent run that maps, or None.
        policy: Decides where no consent rule does, unless you map yourself; None for the host's.
        approver: Is asked instead of the host's approver, or None.
        on_progress: Awaited with the number of rows that have an outcome and of all rows, instead of showing them
            below the cell.
    """

    asker: str = PERSON
    run: str | None = None
    policy: str | None = None
    approver: Approver | None = None
    on_progress: ProgressFnT | None = None


YOU = Origin()


@dataclass
class Step:
    """One tool of a map.

    Attributes:
        name: Its name in a pipeline; "" if it is the only step.
        connection: The session.
        tool: The tool.
        arguments: Its arguments, with `PerRow` values.
    """

    name: str
    connection: Connection
    tool: Tool
    arguments: Any

    @property
    def title(self) -> str:
        """`"server:tool"`."""
        return f"{self.connection.name}:{self.tool.name}"

    @property
    def read_only(self) -> bool:
        """Whether the server marks the tool as read-only."""
        hints = self.tool.annotations
        return hints is not None and hints.read_only_hint is True


@dataclass(slots=True)
class MapItem:
    """One row of a map.

    Attributes:
        number: Its position in the table.
        row: The row.
        state: `"waiting"`, `"done"`, `"failed"`, `"denied"`, `"invalid"` or `"unknown"`.
        arguments: The checked arguments of the present step, or None.
        results: Step -> result.
        error: Why it failed, or "".
        attempts: How often its calls were sent.
        seconds: How long the last call of each step took together.
        step: The number of the present step.
        nth: Its position among equal calls of the step, for the journal; -1 while unknown.
        is_listed: Whether `MapRun.items` has it. Rows of a generator get there with their outcome.
    """

    number: int
    row: Row
    state: str = WAITING
    arguments: dict[str, Any] | None = None
    results: dict[str, ToolResult] = field(default_factory=dict)
    error: str = ""
    attempts: int = 0
    seconds: float = 0.0
    step: int = 0
    nth: int = -1
    is_listed: bool = False

    @property
    def result(self) -> ToolResult | None:
        """The result of the last step that has one."""
        return next(reversed(self.results.values()), None)

    def __repr__(self) -> str:
        return f"<MapItem {self.number}: {self.state}{f', {self.error}' if self.error else ''}>"

    def end(self, state: str, error: str = "") -> None:
        """Set the outcome of the row."""
        self.state, self.error, self.arguments = state, error, None

    def advance(self, step: Step, result: ToolResult) -> None:
        """Take the result of the present step, and go on to the next."""
        self.results[step.name] = result
        self.step += 1
        self.arguments, self.nth = None, -1


class Plan:
    """Rows of a table as calls of a tool, or of the tools of a pipeline.

    A first step without arguments gets the columns that are named like parameters.

    Attributes:
        steps: The tools.
        table: The rows.
        options: How they are called.
        tally: Counts the rows.
        items: The rows that were read, in order.
        note: A remark about the columns or the journal, or "".
        occurrences: For each step, how often a call was planned, by the start of its key.
    """

    def __init__(self, steps: Sequence[Step], table: Table, options: MapOptions) -> None:
        self.steps = list(steps)
        self.table = table
        self.options = options
        self.tally = Tally(table.size, options.rate)
        self.items: list[MapItem] = []
        self.note = ""
        self.occurrences: list[Counter[int]] = [Counter() for _ in steps]
        first = self.steps[0]
        if first.arguments == {} and (table.columns or table.size):
            first.arguments = matching(table.columns, first.tool.input_schema)
            self.add_note(f"passed by name: {', '.join(name for name in table.columns if name in first.arguments)}")

    def add_note(self, text: str) -> None:
        """Add a remark; "" and a remark that is there add nothing."""
        self.note = "; ".join(dict.fromkeys(filter(None, (self.note, text))))

    @property
    def title(self) -> str:
        """The tools: `"weather:forecast"`."""
        return " → ".join(step.title for step in self.steps)

    @property
    def is_hopeless(self) -> bool:
        """Whether the first thousand of rows of unknown number do not fit the schema."""
        return self.table.size is None and self.tally.read >= HOPELESS and self.tally.is_invalid

    def label(self, item: MapItem) -> Any:
        """Return a row's label in the index of its DataFrame, or its number."""
        frame = self.table.frame
        return item.number if frame is None else frame.index[item.number]

    def read(self) -> Iterator[MapItem]:
        """Read the rows that are not read yet, and prepare their calls.

        Raises:
            ArgumentsError: The next row cannot be read.
        """
        for row in self.table.rows:
            item = MapItem(self.tally.read, row)
            self.tally.read += 1
            self.prepare(item)
            yield item
        self.tally.size = self.tally.read

    def prepare(self, item: MapItem) -> bool:
        """Compute and check the arguments of a row's present step; return whether they fit."""
        step = self.steps[item.step]
        try:
            values = fill(step.arguments, item.row, item.results)
            item.arguments, _ = schema.prepare_arguments(values, step.tool.input_schema)
        except ArgumentsError as error:
            item.end(INVALID, str(error))
        return item.state != INVALID

    def check(self) -> list[MapItem]:
        """Read a table of known size, check the arguments of the first step, and return the rows that do not fit.

        Rows of unknown number are checked as they come.
        """
        if self.table.size is not None and not self.items:
            self.items += self.read()
        return [item for item in self.items if item.state == INVALID]

    def misfits(self, invalid: Sequence[MapItem]) -> str:
        """Return the message about rows that do not fit; those with the same problem share a line."""
        rows: dict[str, list[str]] = {}
        for item in invalid:
            rows.setdefault(item.error.replace("\n", "; "), []).append(str(self.label(item)))
        lines = [
            f"  row{'s' if len(labels) > 1 else ''} {join_names(labels, 4)}: {problem}"
            for problem, labels in rows.items()
        ]
        more = [f"  … and {plural(len(lines) - HEAD_ROWS, 'more problems')}"] if len(lines) > HEAD_ROWS else []
        head = f"{_do_not_fit(len(invalid), len(self.items))} {self.title}; nothing was sent."
        if len(invalid) < len(self.items):
            head += " --skip-invalid leaves them out."
        return "\n".join([head, *lines[:HEAD_ROWS], *more])

    def preview(self) -> Listing:
        """Return the first rows with their arguments or their problem."""
        invalid = self.check()
        items = self.items or list(islice(self.read(), HEAD_ROWS))
        first = {item.number: item for item in [*items[:HEAD_ROWS], *invalid[:HEAD_ROWS]]}
        rows = []
        for item in first.values():
            arguments = hidden_arguments(item.arguments or {}, self.steps[0].tool)
            problem = {"problem": item.error} if item.error else {}
            rows.append({"row": self.label(item), **short_values(arguments), **problem})
        total = "as many calls as there are rows"
        if self.table.size is not None:
            total = plural(len(items) - len(invalid), "calls")
        more = f"; {_do_not_fit(len(invalid))}" if invalid else ""
        return Listing(rows, title=f"{self.title}: {total}{more}", note=self.note, kind="calls")

    def change(self, **options: Any) -> None:
        """Change options; None leaves one as it is. Raises ArgumentsError if one makes no sense."""
        self.options = replace(self.options, **{name: value for name, value in options.items() if value is not None})
        self.tally.most = self.options.rate


def _do_not_fit(invalid: int, rows: int | None = None) -> str:
    """Return how many rows do not fit.

    >>> _do_not_fit(1, 19), _do_not_fit(2)
    ('1 row of 19 does not fit', '2 rows do not fit')
    """
    of = "" if rows is None else f" of {rows:,}"
    return f"{plural(invalid, 'rows')}{of} {'does' if invalid == 1 else 'do'} not fit"


def short_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row as they are displayed: floats rounded, lists and objects as JSON on a line."""
    return {name: _short(value) for name, value in row.items()}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    try:
        return short_value(value) if isinstance(value, list | dict) else value
    except (TypeError, ValueError, RecursionError):  # a column may hold what is no JSON
        return value
