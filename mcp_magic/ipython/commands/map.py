"""`%mcp map` calls a tool for each row of a table; `%mcp bench` measures one call."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._text import join_names
from mcp_magic.display.text import LOOPBACK, one_line
from mcp_magic.errors import ArgumentsError, CommandError, DeniedError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import Asking
from mcp_magic.ipython.commandline import (
    ONE_TOOL,
    Argument,
    Implementation,
    Invocation,
    Tab,
    option_text,
    seconds_typed,
    variable_typed,
)
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.map.cluster import Cluster
from mcp_magic.map.pace import read_rate
from mcp_magic.map.plan import CONCURRENCY, Step
from mcp_magic.map.rows import FILES, PerRow, column_source, read_table
from mcp_magic.map.run import MapRun, map_steps
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.commandline import parse_arguments, read_item
from mcp_magic.schema.convert import to_json_value
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Sequence

    from mcp_magic.display.listing import Listing
    from mcp_magic.map.bench import Bench
    from mcp_magic.map.rows import Row

_STEP = re.compile(r"([^\W\d]\w*)\s*=\s*(\S+)\s*(.*)", re.DOTALL)
_INLINE = re.compile(r"\{([^{}]+)\}")
_COLUMN = re.compile(r"""row(?:\.([^\W\d]\w*)|\[["']?([^"'\]]+)["']?\])""")  # a line may have lost the quotes

_RESUMED = ("limit", "rate", "concurrency", "sessions", "timeout", "repeat_unknown", "explode")
"""The options of a map that can be other ones when it is resumed."""


async def _map(invocation: Invocation, arguments: argparse.Namespace) -> MapRun | Listing:
    if arguments.resume:
        return await _resumed(invocation, arguments)
    if arguments.rows is None:
        raise CommandError("%mcp map: --rows says which rows: --rows $df, or --rows cities.csv")
    if (arguments.tool is None) == (invocation.body is None):
        raise CommandError(
            "%mcp map takes SERVER:TOOL on the line; %%mcp map takes one step a line in the cell: "
            "NAME = SERVER:TOOL NAME=VALUE ..."
        )
    rows = invocation.value(arguments.rows)
    if arguments.dry_run and isinstance(rows, Iterator):
        raise ArgumentsError("--dry-run would take rows from an iterator, which gives each only once; give a list")
    lines = [("", arguments.tool, arguments.arguments)] if invocation.body is None else _lines(invocation.body)
    if isinstance(rows, str):
        rows = invocation.path(rows)
    if bare := [word for *_, words in lines for word in words if _COLUMN.fullmatch(_text_of(word))]:
        rows = read_table(rows)
        _check_braces(bare, rows.columns)
    steps = [await _step(invocation, *line, [name for name, *_ in lines[:at]]) for at, line in enumerate(lines)]
    timeout = invocation.settings.call_timeout if arguments.timeout is None else arguments.timeout
    run = map_steps(
        steps,
        rows,
        invocation.host.services,
        limit=arguments.limit,
        rate=math.inf if arguments.rate is None else arguments.rate,
        journal=None if arguments.journal is None else invocation.path(invocation.text(arguments.journal)),
        on=None if arguments.on is None else Cluster(invocation.value(arguments.on)),
        concurrency=CONCURRENCY if arguments.concurrency is None else arguments.concurrency,
        sessions=1 if arguments.sessions is None else arguments.sessions,
        timeout=timeout,
        repeat_unknown=arguments.repeat_unknown,
        skip_invalid=arguments.skip_invalid,
        keep=not arguments.no_keep,
        explode=arguments.explode,
    )
    plan = run.plan() if arguments.dry_run else None
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = run if plan is None else plan
    if plan is not None:
        return plan
    run.name = partial(_name, invocation.variables, run)
    with until_interrupted():
        await run.run()
    return run


def _name(variables: Mapping[str, Any], run: MapRun) -> str:
    """Return the name of the variable that holds a map; `_`, the latest output, if none does."""
    return next((name for name, value in variables.items() if value is run and not name.startswith("_")), "_")


async def _resumed(invocation: Invocation, arguments: argparse.Namespace) -> MapRun:
    run = invocation.value(arguments.resume)
    if not isinstance(run, MapRun):
        raise ArgumentsError(f"--resume takes a MapRun, for example --resume $out, not {type(run).__name__}")
    typed = {
        name: value for name, value in vars(arguments).items() if not (value is None or value is False or value == [])
    }
    others = [_on_the_line(name) for name in typed if name not in (*_RESUMED, "resume", "out")]
    if invocation.body is not None:
        others.append("the cell")
    if others:
        options = ", ".join(map(_on_the_line, _RESUMED))
        names = join_names(others)
        raise CommandError(
            f"%mcp map: --resume goes on with the map as it is: leave out {names}. It takes {options} and -o."
        )
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = run
    with until_interrupted():
        await run.retry(**{name: typed[name] for name in _RESUMED if name in typed})
    return run


def _on_the_line(name: str) -> str:
    """Return how an argument is written on the line."""
    return {"tool": "SERVER:TOOL", "arguments": "NAME=VALUE"}.get(name) or option_text(name)


def _lines(body: str) -> list[tuple[str, str, list[str]]]:
    """Read the lines of a pipeline, `NAME = SERVER:TOOL NAME=VALUE ...`: the name, the tool, and the arguments."""
    lines: list[tuple[str, str, list[str]]] = []
    for line in body.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _STEP.fullmatch(line.strip())
        if match is None:
            raise CommandError(
                f"%%mcp map: cannot read {one_line(line, 80)!r}; a step is NAME = SERVER:TOOL NAME=VALUE ..."
            )
        name, tool, rest = match.groups()
        if name == "row" or name in [earlier for earlier, *_ in lines]:
            raise CommandError(f"%%mcp map: the name {name!r} is taken; choose another for this step")
        lines.append((name, tool, split_line(rest)))
    if not lines:
        raise CommandError("%%mcp map: the cell has no step; write NAME = SERVER:TOOL NAME=VALUE ...")
    return lines


async def _step(invocation: Invocation, name: str, tool: str, words: Sequence[str], earlier: Collection[str]) -> Step:
    connection, definition = await invocation.tool(tool, words)
    with connection.explain_misfits():
        values = _arguments(invocation, words, definition.input_schema, earlier)
    return Step(name, connection, definition, values)


def _arguments(
    invocation: Invocation, words: Sequence[str], schema: Mapping[str, Any], earlier: Collection[str]
) -> dict[str, Any]:
    """Return the arguments of a step; what mentions `row` or an earlier step is computed for each row."""
    names = {"row", *earlier}
    variables = dict(invocation.variables)
    inline: dict[str, PerRow] = {}

    def per_row(source: str) -> PerRow:
        code = compile(source, "<argument>", "eval")

        def compute(row: Row, results: Mapping[str, Any]) -> Any:
            variables.update(results, row=row)
            return eval(code, variables)

        return PerRow(source, compute)

    def evaluate(source: str) -> Any:
        if source in inline:
            return inline[source]
        return per_row(source) if _mentions(source, names) else invocation.evaluate(source)

    def convert(value: Any, field: Any, path: str) -> Any:
        return value if isinstance(value, PerRow) else to_json_value(value, field, path)

    opened = re.compile(rf"\{{\s*(?:{'|'.join(map(re.escape, names))})\b[^{{}}]*$")
    read = []
    for word in words:
        text = _text_of(word)
        if opened.search(text):
            raise ArgumentsError(f"{word}: the expression has no end; write `{word}}}`")
        parts = [part for part in _INLINE.finditer(text) if _mentions(part[1], names)]
        if parts:  # "weather in {row.city}": a text with expressions in it
            token = f"__text_{len(inline)}"
            inline[token] = _joined(text, parts, per_row)
            word = f"{word[: len(word) - len(text)]}{{{token}}}"
        read.append(word)
    return parse_arguments(read, schema, evaluate=evaluate, convert=convert)


def _check_braces(words: Sequence[str], columns: Collection[str]) -> None:
    """Raise ArgumentsError for a text `row.city` where there is a column `city`: its braces were forgotten."""
    for word in words:
        match = _COLUMN.fullmatch(text := _text_of(word))
        if match is not None and (column := match[1] or match[2]) in columns:
            name = word.removesuffix(text)
            raise ArgumentsError(
                f"{word} sends the text {text!r} in each row. For the column write {name}{{{column_source(column)}}}, "
                f"for the text {name}{{{text!r}}}"
            )


def _text_of(word: str) -> str:
    """Return the text of an argument that is text; "" for other arguments."""
    try:
        item = read_item(word)
    except ArgumentsError:
        return ""
    return item.text if item.source == "text" and word.endswith(item.text) else ""


def _joined(text: str, parts: Sequence[re.Match[str]], per_row: Any) -> PerRow:
    values = [per_row(part[1]) for part in parts]

    def compute(row: Row, results: Mapping[str, Any]) -> str:
        pieces, end = [], 0
        for part, value in zip(parts, values, strict=True):
            pieces += [text[end : part.start()], str(value.compute(row, results))]
            end = part.end()
        return "".join([*pieces, text[end:]])

    return PerRow(text, compute)


def _mentions(source: str, names: Collection[str]) -> bool:
    """Whether an expression uses one of the names."""
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))


def _variables(tab: Tab, fits: Callable[[Any], bool]) -> list[str]:
    names = [f"${name}" for name, value in tab.namespace.items() if not name.startswith("_") and fits(value)]
    return completion.starting(tab, names)


def _complete_rows(tab: Tab) -> list[str]:
    """Return the variables that are tables, and files with rows."""

    def is_table(value: Any) -> bool:
        if type(value).__name__ in ("DataFrame", "LazyFrame"):
            return True
        return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)

    return [*_variables(tab, is_table), *completion.paths(tab, FILES)]


MAP = Implementation(
    _map,
    (
        Argument(
            "tool", nargs="?", metavar="SERVER:TOOL", help="you can leave out the server while the name is unique"
        ),
        Argument(
            "arguments", nargs="*", default=[], metavar="NAME=VALUE", help="as for `%%mcp call`, with {row.COLUMN}"
        ),
        Argument(
            "--rows",
            metavar="ROWS",
            complete=_complete_rows,
            help="$df, a list of dicts, or a CSV, JSON Lines or Parquet file",
        ),
        Argument("--concurrency", type=int, metavar="N", help=f"most calls in flight (default: {CONCURRENCY})"),
        Argument("--rate", metavar="RATE", help="most calls to each server in a time: 10/s, 100/min"),
        Argument("--sessions", type=int, metavar="N", help="sessions to the server, for this map only"),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds that a call may take"),
        Argument("--journal", metavar="FILE", help="keep each answer: the same line later calls only the missing rows"),
        Argument(
            "--repeat-unknown", action="store_true", help="call again the rows that may have run when a kernel died"
        ),
        Argument("--skip-invalid", action="store_true", help="leave out rows that do not fit the schema"),
        Argument("--limit", type=int, metavar="N", help="only the first rows; with --resume, of those that are left"),
        Argument("--dry-run", action="store_true", help="show the first calls, and send nothing"),
        Argument("--no-keep", action="store_true", help="keep the answers in the journal only"),
        Argument("--explode", action="store_true", help="an answer of several rows becomes several rows of .df"),
        Argument(
            "--on",
            metavar="$CLIENT",
            complete=lambda tab: _variables(tab, lambda value: type(value).__name__ == "Client"),
            help="a Dask client whose workers make the calls",
        ),
        Argument(
            "--resume",
            metavar="$RUN",
            complete=lambda tab: _variables(tab, lambda value: isinstance(value, MapRun)),
            help="go on with the rows of a MapRun that have no answer",
        ),
        Argument("-o", "--out", type=variable_typed, metavar="NAME", help="the variable that gets the MapRun"),
    ),
    examples=(
        "out = %mcp map weather:forecast --rows $cities location={row.city} days=3",
        "%mcp map weather:forecast --rows cities.csv --rate 10/s --journal forecasts.sqlite",
        "%mcp map --resume $out",
    ),
    details="An argument with {...} that uses `row` is computed for each row; without any argument the columns "
    "named like parameters are passed. All rows are checked before the first call. The rate grows until the"
    " server refuses calls (HTTP 429 or 503), then stays below that rate. Interrupt or Cancel ends the map, "
    "keeps the answers, and lets the cell go on. The MapRun has .df, .failed, .results, .stats, and "
    "`await out.retry()`.\n\n"
    "%%mcp map takes a pipeline: one step a line below it, such as `place = geo:locate "
    "query={row.address}`. A later step uses the result of an earlier one by its name: {place.data['lat']}.",
    takes_body=True,
)


async def _bench(invocation: Invocation, arguments: argparse.Namespace) -> Bench:
    from mcp_magic.map.bench import (
        CONCURRENCY,
        MOST_CONCURRENT,
        MOST_IN_FLIGHT,
        read_latencies,
        read_share,
        run_bench,
    )

    connection, tool = await invocation.tool(arguments.tool, arguments.arguments)
    with connection.explain_misfits():
        values = invocation.arguments(arguments.arguments, tool.input_schema)
    rate = None if arguments.rate is None else read_rate(arguments.rate)
    under = {} if arguments.under is None else read_latencies(arguments.under)
    errors = None if arguments.errors is None else read_share(arguments.errors)
    levels = list(CONCURRENCY if rate is None else (MOST_IN_FLIGHT,))
    if arguments.concurrency is not None:
        texts = arguments.concurrency.split(",")
        levels = [int(text) for text in texts if text.isdecimal()]
        if len(levels) < len(texts) or min(levels) < 1 or max(levels) > MOST_CONCURRENT:
            raise CommandError(
                "%mcp bench: --concurrency takes numbers of calls in flight, from 1 to "
                f"{MOST_CONCURRENT:,}: --concurrency 1,4,16"
            )
    address = getattr(connection.spec, "url", "")
    if address and urlsplit(address).hostname not in LOOPBACK:
        pace = f"{max(levels)} at a time" if rate is None else f"{rate:g} a second"
        calls = f"{connection.name}:{tool.name} for {arguments.seconds:g} s, {pace}"
        text = f"Call {calls}? The server is not on this machine."
        if not await Asking(invocation.cells, invocation.settings, invocation.host).confirm(text):
            raise DeniedError(
                f"{connection.name}:{tool.name} was not measured: it is not on this machine, and you did not approve."
            )
    timeout = invocation.settings.call_timeout if arguments.timeout is None else arguments.timeout
    options = {"levels": levels, "rate": rate, "seconds": arguments.seconds, "timeout": timeout}
    options["reports"] = invocation.host.reports
    bench = await run_bench(connection, tool.name, values, **options)
    try:
        return bench.check(under, errors)
    except CheckFailedError:
        invocation.show(bench)
        raise


BENCH = Implementation(
    _bench,
    (
        ONE_TOOL,
        Argument("arguments", nargs="*", default=[], metavar="NAME=VALUE", help="as for `%%mcp call`"),
        Argument("--concurrency", metavar="N,N", help="calls in flight, one number after the other (default: 1,4,16)"),
        Argument("--rate", metavar="RATE", help="calls that go out in a time, however long the answers take: 50/s"),
        Argument("--seconds", type=seconds_typed, default=10.0, metavar="S", help="seconds in all (default: 10)"),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds that a call may take"),
        Argument("--under", metavar="pN=TIME", help="what the latency must be below: p95=200ms, or p50=20ms,p99=1s"),
        Argument("--errors", metavar="N%", help="the most calls that may fail: 1%%"),
    ),
    examples=(
        "%mcp bench math:add a=1 b=2",
        "b = %mcp bench math:add a=1 b=2 --concurrency 1,8 --seconds 4",
        "%mcp bench math:add a=1 b=2 --rate 50/s --under p95=200ms --errors 1%",
    ),
    details="The table has calls a second and the latency of the 50th, 95th and 99th percentile. `.plot()` draws it. "
    "At a rate, the latency counts from when a call was due; at most 256 calls, or --concurrency, are in flight.\n\n"
    "Where a bound of --under or --errors is broken, at any number of calls in flight, the line raises an "
    "AssertionError with the figures, so Run All, papermill and nbval stop there; `error.result` is the bench.",
)
