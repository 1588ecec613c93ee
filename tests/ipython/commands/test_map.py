"""`%mcp map`, `%%mcp map` and `%mcp bench` as lines."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter

import pandas as pd
import pytest
from mcp.server import MCPServer

from mcp_magic import ArgumentsError, CommandError, Decision, DeniedError, MapRun, Rule, SessionClosedError, host
from mcp_magic.map.pace import Pace
from mcp_magic.map.plan import Step
from mcp_magic.map.run import map_steps
from mcp_magic.results.results import CheckFailedError
from tests.environments import ROOT
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.persons import Approver

ROWS = pd.DataFrame({"x": [1, 2, 3], "word": ["a", "b", "c"]}, index=["p", "q", "r"])
NAMED = ROWS.assign(**{"A word": "z"})


# Rows and expressions


async def test_expression_of_the_row_is_computed_for_each_row(magic):
    run = await magic("map math:add --rows $rows a={row.x} b={row['x'] * 10 + more}", rows=ROWS, more=1)
    assert isinstance(run, MapRun)
    assert run.df["result"].tolist() == [12, 23, 34]
    assert list(run.df.index) == ["p", "q", "r"]
    (magic.folder / "rows.csv").write_text("a,b,comment\n1,2,x\n3,4,y\n")
    run = await magic("map math:add --rows rows.csv -o out")
    assert run.note == "passed by name: a, b"
    assert run.df["result"].tolist() == [3, 7]


async def test_expression_that_raises_names_its_row(magic):
    rows = pd.DataFrame({"x": [1] * 17 + [0, 1]})
    error = await magic.error(ArgumentsError, "map math:add --rows $rows a={1 // row.x} b=1", rows=rows)
    assert error.splitlines() == [
        "1 row of 19 does not fit math:add; nothing was sent. --skip-invalid leaves them out.",
        "  row 17: {1 // row.x} raised ZeroDivisionError: integer division or modulo by zero",
    ]
    run = await magic("map math:add --rows $rows a={1 // row.x} b=1 --skip-invalid --limit 18", rows=rows)
    assert [run.stats[key] for key in ("rows", "done", "invalid")] == [18, 17, 1]


async def test_cell_is_a_pipeline_whose_steps_see_earlier_ones(magic):
    cell = "# two steps\nfirst = math:add a={row.x} b=1\nsecond = math:divide a={first.data} b={row.x - 1}\n"
    run = await magic("map --rows $rows --skip-invalid", cell, rows=ROWS)
    assert run.df["first.result"].tolist() == [2, 3, 4]
    assert run.df["second.result"].tolist()[1:] == [3.0, 2.0]
    assert run.failed.index.tolist() == ["p"]  # division by zero ends this row at its second step
    assert "zero" in run.failed["error"].iloc[0]
    for wrong, says in {
        "": "the cell has no step",
        "math:add a=1 b=2": "a step is NAME = SERVER:TOOL",
        "row = math:add a=1 b=2": "the name 'row' is taken",
        "x = math:add a=1 b=2\nx = math:add a=1 b=2": "the name 'x' is taken",
    }.items():
        assert says in await magic.error(CommandError, "map --rows $rows", wrong, rows=ROWS)


@pytest.fixture
def turns(monkeypatch):
    """How many calls went out at a rate, for each pace that was kept."""
    counts, turn = Counter[tuple[Pace, float]](), Pace.turn

    async def counted(pace: Pace) -> float:
        counts[pace, pace.rate] += 1
        return await turn(pace)

    monkeypatch.setattr(Pace, "turn", counted)
    return counts


async def test_journal_has_all_steps_and_rate_spans_steps(magic, turns):
    cell = "first = math:add a={row.x} b=1\nsecond = math:add a={first.data} b=2\n"
    rows = pd.DataFrame({"x": range(15)})
    run = await magic("map --rows $rows --rate 60/s --journal steps.sqlite", cell, rows=rows)
    assert run.df["second.result"].tolist() == [n + 3 for n in range(15)]
    assert [(rate, count) for (_, rate), count in turns.items()] == [(60, 30)], "no step has a rate of its own"
    again = await magic("map --rows $rows --journal steps.sqlite", cell, rows=rows)
    assert [again.stats[key] for key in ("done", "resumed", "calls")] == [15, 30, 0]


async def test_dry_run_shows_problems_and_spares_generators(magic):
    plan = await magic("map math:add --rows $rows a={row.x} b={1 // (row.x - 2)} --dry-run -o out", rows=ROWS)
    assert magic.settings.shell.user_ns["out"] is plan
    assert plan.rows[0] == {"row": "p", "a": 1, "b": -1}
    assert [row.get("b") for row in plan.rows] == [-1, None, 1]
    assert "ZeroDivisionError" in plan.rows[1]["problem"]
    assert plan.title == "math:add: 2 calls; 1 row does not fit"
    (magic.folder / "rows.jsonl").write_text('{"a": 1, "b": 2}\n' * 20)
    assert len((await magic("map math:add --rows rows.jsonl --dry-run")).rows) == 10
    rows = iter([{"a": 1, "b": 2}])
    error = await magic.error(ArgumentsError, "map math:add --rows $rows --dry-run", rows=rows)
    assert "--dry-run would take rows from an iterator" in error
    assert len(list(rows)) == 1


LINES: dict[str, tuple[type[Exception], str]] = {
    "map math:add a=1": (CommandError, "--rows says which rows: --rows $df"),
    "map math:add --rows $rows a={row.x b=1": (
        ArgumentsError,
        "a={row.x: the expression has no end; write `a={row.x}`",
    ),
    "map math:add --rows $rows a=n{row.x} b=1": (ArgumentsError, "row p: a: expected integer or number, got 'n1'"),
    "map --rows $rows": (CommandError, "%mcp map takes SERVER:TOOL on the line"),
    "map math:add --rows $rows --rate fast": (ArgumentsError, "'fast' is not a rate; write 10/s"),
    "map math:add --rows $rows --concurrency 0": (ArgumentsError, "concurrency=0: expected a whole number, at least 1"),
    "map math:add --rows $rows a={row.y} b=1": (ArgumentsError, "rows p, q, r: row has no y; it has x, word."),
    "map math:add --rows $rows a={row.xx} b=1 --skip-invalid": (
        ArgumentsError,
        "3 rows of 3 do not fit math:add; nothing was sent.\n"
        "  rows p, q, r: row has no xx; it has x, word. Did you mean 'x'?",
    ),
    "map math:add --rows $rows --no-keep a={row.x} b=1": (ArgumentsError, "--no-keep needs --journal FILE"),
    "map math:add --rows none.csv": (ArgumentsError, "none.csv: No such file"),
    "map math:add --rows $rows -o 1x": (CommandError, "argument -o/--out: expected a variable's name, got '1x'"),
    "map --resume $rows": (ArgumentsError, "--resume takes a MapRun"),
    "bench math:add a=1 b=2 --concurrency x": (CommandError, "--concurrency 1,4,16"),
    "bench math:add a=1 b=2 --rate fast": (ArgumentsError, "'fast' is not a rate; write 10/s"),
    "bench math:add a=1 b=2 --under 200": (ArgumentsError, "'200' is no bound of the latency; write p95=200ms"),
    "bench math:add a=1 b=2 --under p95=200": (ArgumentsError, "'p95=200' is no bound"),
    "bench math:add a=1 b=2 --under p95=1s,p95=2s": (ArgumentsError, "p95 has two bounds"),
    "bench math:add a=1 b=2 --concurrency 1000000": (CommandError, "from 1 to 10,000"),
    "bench math:add a=1 b=2 --errors 1": (ArgumentsError, "'1' is no share of the calls; write 1% or 0%"),
}


async def test_line_that_cannot_be_run_says_what_would_be_valid(magic):
    for line, (kind, text) in LINES.items():
        assert text in await magic.error(kind, line, rows=ROWS)


# Columns without braces


@pytest.fixture
async def words(magic):
    """Connect a server that repeats texts, and return those that it got."""
    server, called = MCPServer("words"), list[str]()

    @server.tool()
    async def repeat(text: str) -> str:
        called.append(text)
        return text

    await host.connect(server, name="words")
    return called


async def test_argument_is_written_in_these_ways(magic, words):
    for word, texts in {
        "text={row.word}": ["a", "b", "c"],
        "text=$row.word": ["a", "b", "c"],
        'text={row["A word"]}': ["z", "z", "z"],
        'text={row.get("none", "d")}': ["d", "d", "d"],
        "text={row.word + more}": ["a!", "b!", "c!"],
        '"text=the word {row.word}"': ["the word a", "the word b", "the word c"],
        "text=$more": ["!", "!", "!"],
        "text=row.city": ["row.city"] * 3,
        "text=a.word": ["a.word"] * 3,
        "text=row.word.x": ["row.word.x"] * 3,
        "'text=in row.word'": ["in row.word"] * 3,
        "text={'row.word'}": ["row.word"] * 3,
    }.items():
        run = await magic(f"map words:repeat --rows $rows {word}", rows=NAMED, more="!")
        assert run.df["result"].tolist() == sorted(words) == texts
        words.clear()


BARE = {
    "map words:repeat text=row.word": ("text=row.word", "text={row.word}", "text={'row.word'}"),
    "map math:add a=row.x b=1": ("a=row.x", "a={row.x}", "a={'row.x'}"),
    "map words:repeat text=row['A word']": ("text=row[A word]", 'text={row["A word"]}', "text={'row[A word]'}"),
    "map words:repeat text=row.word --dry-run": ("text=row.word", "text={row.word}", "text={'row.word'}"),
}


async def test_column_without_braces_is_an_error(magic, words):
    for line, (word, column, text) in BARE.items():
        sent = word.partition("=")[2]
        for rows in (NAMED, iter(NAMED.to_dict("records"))):
            if "--dry-run" not in line or rows is NAMED:
                assert await magic.error(ArgumentsError, f"{line} --rows $rows", rows=rows) == (
                    f"{word} sends the text '{sent}' in each row. For the column write {column}, for the text {text}"
                )
    cell = "one = math:add a=1 b=1\ntwo = words:repeat text=row.word"
    assert "write text={row.word}" in await magic.error(ArgumentsError, "map --rows $rows", cell, rows=ROWS)
    assert not words
    rows = iter(ROWS.to_dict("records"))
    await magic("map words:repeat --rows $rows text=row.city", rows=rows)
    assert words == ["row.city"] * 3, "of a generator, too, what is no column is a text"


# Resuming


@pytest.fixture
async def closed(magic):
    """Return a map of which each row failed, and the most calls that ran at a time since then; none fails any more."""
    server, most, active, is_open = MCPServer("w"), [0], [0], [False]

    @server.tool()
    async def work(x: int) -> int:
        if not is_open[0]:
            raise ValueError("closed")
        active[0] += 1
        most[0] = max(most[0], active[0])
        for _ in range(20):
            await asyncio.sleep(0)
        active[0] -= 1
        return x

    await host.connect(server, name="w")
    run = await magic("map w:work --rows $rows", rows=pd.DataFrame({"x": range(6)}))
    assert run.stats["failed"] == 6
    is_open[0] = True
    return run, most


async def test_resume_explodes_without_a_call(magic):
    server = MCPServer("days")

    @server.tool()
    async def days(n: int) -> list[int]:
        return list(range(n))

    await host.connect(server, name="days")
    run = await magic("map days:days --rows $rows n={row.x}", rows=ROWS)
    assert "`%mcp map --resume $_ --explode`" in run.parts()[-1].plain
    calls = host["days"].calls
    again = await magic("map --resume $out --explode", out=run)
    assert again.df["result"].tolist() == [0, 0, 1, 0, 1, 2]
    assert host["days"].calls == calls


async def test_limit_holds_for_a_resumed_map(magic, words, closed):
    run, _ = closed
    for done, failed in ((2, 4), (4, 2), (6, 0)):
        await magic("map --resume $out --limit 2", out=run)
        assert [run.stats["done"], run.stats["failed"], run.stats["calls"]] == [done, failed, 6 + done]
    rows = ({"text": letter} for letter in "abcde")  # not read yet
    run = map_steps([Step("", host["words"], await host["words"].find_tool("repeat"), {})], rows, host.services)
    for count in (2, 4, 5):
        await magic("map --resume $out --limit 2", out=run)
        assert sorted(words) == [*"abcde"[:count]]


async def test_rate_and_concurrency_hold_for_a_resumed_map(magic, closed, turns):
    run, most = closed
    await magic("map --resume $out --limit 3 --rate 20/s", out=run)
    assert [(rate, count) for (_, rate), count in turns.items()] == [(20, 3)]
    assert run.stats["rate"] <= 20
    most[0] = 0
    await magic("map --resume $out --concurrency 1 --sessions 2 -o again", out=run)
    assert (run.stats["done"], most, run.options.sessions) == (6, [1], 2)
    assert magic.settings.shell.user_ns["again"] is run


async def test_timeout_holds_for_a_resumed_map(magic):
    server = MCPServer("w")

    @server.tool()
    async def work(x: int) -> int:
        await asyncio.Event().wait()
        return x

    await host.connect(server, name="w", trust=True)
    first = await magic("map w:work --rows $rows --limit 1 --timeout 0.05", rows=ROWS)
    assert first.options.timeout == 0.05
    await magic("map --resume $out --repeat-unknown --timeout 0.06", out=first)
    assert "0.06 s" in first.failed["error"].iloc[0]


async def test_resume_refuses_other_options_and_bad_values(magic, closed):
    run, _ = closed
    for line, refused in {
        "--resume $out --journal answers.sqlite": "--journal",
        "--resume $out --skip-invalid --dry-run": "--skip-invalid, --dry-run",
        "--resume $out --no-keep": "--no-keep",
        "--resume $out --on $client": "--on",
        "--resume $out --rows $rows": "--rows",
        "w:work x=1 --resume $out": "SERVER:TOOL, NAME=VALUE",
    }.items():
        error = await magic.error(CommandError, f"map {line}", out=run)
        assert f"leave out {refused}. It takes --limit, --rate, " in error
    for option, says in {
        "--rate fast": "'fast' is not a rate",
        "--concurrency 0": "concurrency=0: expected a whole number, at least 1",
        "--limit -1": "limit=-1: expected a whole number, at least 0",
    }.items():
        assert says in await magic.error(ArgumentsError, f"map --resume $out {option}", out=run)
    assert (run.stats["calls"], run.stats["failed"]) == (6, 6)


async def test_map_is_recorded_and_replayed(magic):
    tables = []
    for mode in ("record", "replay"):
        await host.close()
        await magic(f"record tape.jsonl --mode {mode}")
        await host.connect(load("math_server").server, name="math")
        run = await magic("map math:add --rows $rows a={row.x} b=1", rows=ROWS)
        tables.append(run.df["result"].tolist())
        await magic("record --stop")
    assert tables == [[2, 3, 4], [2, 3, 4]]


# bench


async def test_bench_is_asked_about_once_for_all_concurrencies(magic, monkeypatch):
    approver = Approver(Decision.approve())
    host.consent.add(Rule("ask", "math:add"))
    monkeypatch.setattr(host, "approver", approver)
    bench = await magic("bench math:add a=1 b=2 --concurrency 1,3 --seconds 0.1")
    assert len(approver.asked) == len(host.consent.audit.records) == 1
    assert bench.df["concurrency"].tolist() == [1, 3]
    assert (bench.df["calls"] > 0).all()
    assert bench.df["errors"].tolist() == [0, 0]
    assert "at 3" in repr(bench)
    pytest.importorskip("matplotlib")
    assert [axes.get_xlabel() for axes in bench.plot().axes] == ["calls in flight"] * 2


@pytest.mark.parametrize("pace", ["--rate 1/s", "--concurrency 2"])
async def test_bench_makes_a_call_however_short_it_is(magic, pace):
    bench = await magic(f"bench math:add a=1 b=2 {pace} --seconds 0.000000001 --under p95=60s --errors 0%")
    assert bench.df.loc[0, "calls"] == 1


async def test_bench_at_a_rate_sends_so_many_and_no_more(magic):
    bench = await magic("bench math:add a=1 b=2 --rate 100/s --seconds 0.2 --under p50=60s,p99.9=60s --errors 0%")
    assert bench.df.loc[0, "rate"] == 100
    assert 1 <= bench.df.loc[0, "calls"] <= 20
    assert bench.df.loc[0, "calls/s"] <= 100
    bench = await host.bench("math:add", {"a": 1, "b": 2}, rate=50.0, seconds=0.1, levels=[2])
    assert bench.levels[0].concurrency <= 2
    assert bench.check({"p95": 60.0}, errors=0.0) is bench


async def test_bench_at_a_rate_counts_from_when_a_call_was_due(magic):
    server = MCPServer("slow", log_level="ERROR")
    gates: list[asyncio.Event] = []

    @server.tool()
    async def work() -> str:
        gates.append(asyncio.Event())
        if len(gates) == 2:  # the first warms up
            asyncio.get_running_loop().call_later(0.05, gates[1].set)
            await gates[1].wait()
        return "done"

    await host.connect(server, name="slow")
    bench = await host.bench("slow:work", rate=100.0, seconds=0.3, levels=[1])
    assert bench.levels[0].latencies[-2] >= 0.03, "the call behind the slow one, due 10 ms later, is late as well"


async def test_call_without_an_answer_in_time_is_an_error_of_the_bench(magic):
    server, calls = MCPServer("stuck"), []

    @server.tool()
    async def work() -> str:
        calls.append(1)
        if len(calls) > 1:
            await asyncio.Event().wait()
        return "done"

    await host.connect(server, name="stuck")
    line = "bench stuck:work --concurrency 2 --seconds 0.05 --timeout 0.1 --errors 50%"
    error = await magic.error(CheckFailedError, line)
    assert re.search(r"errors: (\d) of \1 calls \(100.00%\)", error)
    assert "stuck:work: timed out" in error


async def test_broken_bound_fails_the_cell_and_keeps_the_figures(magic):
    line = "bench math:add a=1 b=2 --concurrency 1,2 --seconds 0.1 --under p50=0.0001ms,p99=60s --errors 1%"
    with pytest.raises(AssertionError) as caught:
        await magic(line)
    assert isinstance(caught.value, CheckFailedError)
    one, two = str(caught.value).split("; at 2 in flight: ")
    assert re.fullmatch(r"math:add: at 1 in flight: p50: it is [\d.]+ ms; the limit is 0.0001 ms", one)
    assert two.startswith("p50: it is ")
    assert caught.value.result.df["concurrency"].tolist() == [1, 2]


async def test_calls_that_fail_break_the_bound_of_errors(magic):
    error = await magic.error(
        CheckFailedError, "bench math:divide a=1 b=0 --concurrency 1 --seconds 0.05 --under p95=60s --errors 1%"
    )
    assert re.match(
        r"math:divide: p95: no call succeeded; errors: ([\d,]+) of \1 calls \(100.00%\); the limit is 1%", error
    )
    assert "\n  the most common error: divide failed: " in error


async def test_bench_raises_why_its_session_ended(magic):
    program = magic.folder / "dying.py"
    program.write_text(
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.support.plain import Plain\n"
        "server, calls = Plain('d'), []\n@server.tool\ndef work() -> int:\n"
        "    calls.append(1)\n    if len(calls) > 20:\n        os._exit(3)\n    return 1\nserver.run()\n"
    )
    await host.connect([sys.executable, str(program)], name="d", reconnect=False)
    assert "exit code 3" in await magic.error(SessionClosedError, "bench d:work --concurrency 4 --seconds 5")


async def test_bench_asks_before_it_loads_a_server_elsewhere(magic, monkeypatch):
    app = load("math_server").server.streamable_http_app(transport_security=None)
    async with serving(app) as url:
        await host.connect(f"{url}/mcp", name="away")
        monkeypatch.setattr("mcp_magic.ipython.commands.map.LOOPBACK", ())
        error = await magic.error(DeniedError, "bench away:add a=1 b=2 --seconds 0.1")
        assert host["away"].calls == 0
    assert error == "away:add was not measured: it is not on this machine, and you did not approve."
