"""What a person sees of a map whose rows have no answer: its line, its card and its figures."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp.server import MCPServer

from mcp_magic import ArgumentsError, Rule
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.errors import DeniedError
from mcp_magic.map.rows import col
from mcp_magic.map.run import Step, map_steps
from mcp_magic.map.tally import Tally
from mcp_magic.ui.progress import Board, outcome_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic import Host, MapRun
    from mcp_magic.inflight import Report

TYPO = "row has no dayz; it has city, days. Did you mean 'days'?"


@pytest.fixture
def board(host: Host) -> Board:
    """Return what the maps of the host show below their cell."""
    board = Board()

    def reporter(report: Report) -> Callable[[], None]:
        board.add(report)
        return lambda: board.end(report) if report.state != "running" else None

    host.services.reports.reporter = reporter
    return board


def line_of(board: Board) -> str:
    """Return the last line of the board without its times, which the page shows too."""
    text: str = board.bundle()["text/plain"].splitlines()[-1]
    assert text.split(" · ")[0] in re.sub(r"<[^>]*>", "", board.bundle()["text/html"])
    return re.sub(r" · [\d.,]+ (?:ms|s|calls/s)", "", text)


def card_of(run: MapRun) -> list[str]:
    """Return the lines of a map's display, without its times."""
    text = "\n".join(part.plain for part in run.parts())
    return re.sub(r", [\d.,]+ (?:ms|s|calls/s)", "", text).splitlines()


LOST = "weather failed: ValueError: no such city"

ENDS: dict[str, tuple[list[Any], str, str]] = {
    "all done": (["Oslo", "Rome"], "✓ map s:weather: 2 of 2 rows done", "✓ s:weather: 2 of 2 rows done"),
    "some fail": (
        ["Oslo", "Atlantis", "Atlantis"],
        f"! map s:weather: 1 of 3 rows done · 2 failed · {LOST} (2 rows)",
        "! s:weather: 1 of 3 rows done, 2 failed",
    ),
    "some do not fit": (
        ["Oslo", 7],
        "! map s:weather: 1 of 2 rows done · 1 invalid · city: expected string, got 7 (1 row)",
        "! s:weather: 1 of 2 rows done, 1 invalid",
    ),
    "all fail": (
        ["Atlantis"] * 3,
        f"✗ map s:weather: failed · 0 of 3 rows done · 3 failed · {LOST} (3 rows)",
        "✗ s:weather: 0 of 3 rows done, 3 failed",
    ),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("kind", ["list", "generator", "journal"])
async def test_a_map_ends_with_its_sign_and_reason(
    host: Host, calls: Counter[str], board: Board, tmp_path: Path, case: str, kind: str
) -> None:
    cities, line, card = ENDS[case]
    rows: Any = [{"city": city} for city in cities]
    if kind == "generator":
        rows = iter(rows)
    journal = tmp_path / "answers.sqlite" if kind == "journal" else None
    run = await host.map("s:weather", rows, skip_invalid=True, journal=journal)
    assert line_of(board) == line
    assert card_of(run)[0] == card
    if journal is not None:
        again = await host.map("s:weather", rows, skip_invalid=True, journal=journal)
        assert line_of(board) == line
        assert (
            card_of(again)[0].removesuffix(f", {cities.count('Oslo') + cities.count('Rome')} from the journal") == card
        )
    reason = line.partition(" · ")[2].rpartition(" · ")[2]
    assert reason in repr(run)


async def gated(host: Host) -> asyncio.Event:
    """Connect the server s, whose tool fails until the event is set."""
    server, open_ = MCPServer("s"), asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        if not open_.is_set():
            raise ValueError("closed")
        return n

    await host.connect(server, name="s")
    return open_


async def test_a_retry_that_succeeds_has_a_tick(host: Host, board: Board) -> None:
    open_ = await gated(host)
    run = await host.map("s:work", [{"n": n} for n in range(3)])
    assert line_of(board).startswith("✗ map s:work: failed · 0 of 3 rows done · 3 failed")
    open_.set()
    await run.retry()
    assert line_of(board) == "✓ map s:work: 3 of 3 rows done"
    assert "closed" not in repr(run)


async def test_the_line_and_the_card_have_one_time(host: Host, board: Board) -> None:
    open_ = await gated(host)
    run = await host.map("s:work", [{"n": n} for n in range(30)])
    first = times(board.text())
    assert first == times(run.parts()[0].plain)
    open_.set()
    await run.retry()
    both = [times(line) for line in board.text().splitlines()]
    assert both == [first, times(run.parts()[0].plain)]
    assert board.text().startswith("✗ map s:work: failed · 0 of 30 rows done · 30 failed")


def times(line: str) -> list[str]:
    """Return the times and the rate in a line."""
    return sorted(re.findall(r"[\d.,]+ (?:ms|s|calls/s)(?!\w)", line))


KINDS: dict[str, tuple[list[str], list[str]]] = {
    "numbers": (["no city 17", "no city 18", "no city -1.5"], ["no city 17 (3 rows, values differ)"]),
    "quoted": (["no 'Oslo' here", 'no "Rome" here'], ["no 'Oslo' here (2 rows, values differ)"]),
    "ids": (["no ab-12 here", "no 6f1ed002-ab55 here"], ["no ab-12 here (2 rows, values differ)"]),
    "same": (["no city 17.", "no city 17."], ["no city 17 (2 rows)"]),
    "words": (["it can't be", "it won't be"], ["it can't be (1 row)", "it won't be (1 row)"]),
}


@pytest.mark.parametrize("case", KINDS)
def test_errors_that_differ_in_values_are_one_kind(case: str) -> None:
    errors, lines = KINDS[case]
    tally = Tally(len(errors))
    for error in errors:
        tally.add("failed", error)
    assert tally.lines(5) == lines
    for error in errors:
        tally.remove("failed", error)
    assert tally.lines(5) == []


def test_the_kinds_of_errors_are_bounded() -> None:
    tally = Tally(None)
    for letters in itertools.product("abcdefghijkl", repeat=4):
        tally.add("failed", "".join(letters))
        tally.add("failed", "usual 3")
    assert len(tally.kinds) <= 1_000
    assert tally.lines() == ["usual 3 (20,736 rows)"]


async def test_a_card_counts_errors_by_kind(host: Host, board: Board) -> None:
    server = MCPServer("s")

    @server.tool()
    async def weather(city: int) -> int:
        raise ValueError(f"no city {city}")

    await host.connect(server, name="s")
    run = await host.map("s:weather", [{"city": n} for n in range(7)])
    error = "weather failed: ValueError: no city 0"
    assert line_of(board).endswith(f" · {error} (7 rows, values differ)")
    assert next(line.split(maxsplit=2) for line in card_of(run) if error in line) == ["7", "differ", error]


DIES = """
import os, sys, threading
sys.path.insert(0, {root!r})
from tests.support.plain import Plain

server, arrived = Plain("d"), threading.Semaphore(0)

@server.tool
def work(n: int) -> int:
    if n == 9:
        for _ in range(3):
            arrived.acquire()
        os._exit(3)
    if n > 5:
        arrived.release()
        threading.Event().wait()
    return n

server.run()
"""


async def test_a_lost_session_is_named_once(host: Host, board: Board, tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES.format(root=str(Path(__file__).parents[2])))
    await host.connect([sys.executable, str(program)], name="d", reconnect=False)
    run = await host.map("d:work", [{"n": n} for n in range(13)], concurrency=4)
    why = "d:work: the session has ended (exit code 3) before the answer came, so it may have run"
    line, (figures, stopped, *rest) = line_of(board), card_of(run)
    repeats = "`%mcp map --resume $out --repeat-unknown`"
    figures_shown = "✗ map d:work: failed · 6 of 13 rows done · 4 unknown · 3 waiting"
    assert (
        line == f"{figures_shown} · {repeats} repeats unknown rows · {why}; `%mcp reconnect d` opens it aga… (4 rows)"
    )
    assert figures == "✗ d:work: 6 of 13 rows done, 4 unknown, 3 waiting"
    assert stopped.startswith(f"It stopped: {why}; `%mcp reconnect d` opens it again; `await out.retry()` goes on")
    assert rest[0].startswith(f"{repeats} or `await out.retry(repeat_unknown=True)` repeats the 4 calls")
    assert not any(text.startswith("rows ") for text in rest)  # no table of errors
    assert "was cancelled" not in f"{line}{run.failed.to_string()}"


async def test_stderr_has_a_line_of_its_own(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    dying = DIES.format(root=str(Path(__file__).parents[2]))
    program.write_text(dying.replace("os._exit(3)", "os.write(2, b'fatal: out of <b>disk\\n')\n        os._exit(3)"))
    await host.connect([sys.executable, str(program)], name="d", reconnect=False)
    run = await host.map("d:work", [{"n": n} for n in range(6, 10)], concurrency=4)
    lines = card_of(run)
    assert "stderr: fatal: out of <b>disk" in lines
    assert next(line for line in lines if line.startswith("It stopped: ")).endswith("opens it again")  # nothing is left
    shown = run._repr_mimebundle_()["text/html"]
    assert ">stderr: fatal: out of &lt;b&gt;disk" in shown


async def test_each_display_of_unknown_rows_names_the_way_on(host: Host, board: Board) -> None:
    run = await interrupted(host, [{"n": n} for n in (5, 6, 7)])
    line = "`%mcp map --resume $out --repeat-unknown`"
    whole = f"{line} or `await out.retry(repeat_unknown=True)` repeats the 3 calls that may have run"
    assert f"3 unknown · {line} repeats unknown rows · " in line_of(board)
    await run.retry()
    assert f"3 unknown · {line} repeats unknown rows · " in line_of(board)
    assert whole in card_of(run)
    assert repr(run).endswith(f"; {whole}>")
    assert "goes on with the rest" not in "".join(card_of(run))


FAILING = """
import asyncio
from mcp.server import MCPServer

server, came, all_came = MCPServer("bad"), [], asyncio.Event()

@server.tool()
async def half(n: int) -> int:
    came.append(n)
    if len(came) == 6:
        all_came.set()
    await all_came.wait()
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n

server.run()
"""


async def test_failures_that_overlap_are_one_kind(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "bad.py"
    program.write_text(FAILING)
    await host.connect([sys.executable, str(program)], name="bad")
    run = await host.map("bad:half", [{"n": n} for n in range(6)])
    text = "half failed without saying why; calls overlapped, so `%mcp logs bad` has all reasons"
    assert text in set(run.failed["error"])
    assert not [error for error in run.failed["error"] if "did not say why" in error]


async def test_answers_and_arguments_with_lists_are_json(host: Host, calls: Counter[str]) -> None:
    server = MCPServer("t")

    @server.tool()
    async def days(n: list[dict[str, int]]) -> dict[str, Any]:
        return {"days": [{"high": 20, "token": "secret"}], "place": {"name": "Oslo"}, "name": "x"}

    await host.connect(server, name="t")
    steps = [Step("", host["t"], await host["t"].find_tool("days"), {"n": col("n")})]
    run = map_steps(steps, [{"n": [{"a": 1}]}], host.services)
    assert '[{"a": 1}]' in run.plan().parts()[0].plain
    await run.run()
    html, plain = (run._repr_mimebundle_()[kind] for kind in ("text/html", "text/plain"))
    for value in ('[{"a": 1}]', '[{"high": 20, "token": "***"}]', '{"name": "Oslo"}'):
        assert value in plain
        assert escape(value) in html


async def test_a_column_may_hold_what_is_no_json(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:add", [{"a": 1, "odd": {(1, 2): "three"}}])
    assert "{(1, 2): 'three'}" in card_of(run)[-1]


async def interrupted(host: Host, rows: Any, **options: Any) -> MapRun:
    """Map over rows of which n = 4 fails and those from 5 on wait, and interrupt the map when three of them wait."""
    server, waiting, all_wait = MCPServer("w"), [], asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        if n == 4:
            raise ValueError("four")
        if n > 4:
            waiting.append(n)
            if len(waiting) == 3:
                all_wait.set()
            await asyncio.Event().wait()
        return n

    await host.connect(server, name="w")
    steps = [Step("", host["w"], await host["w"].find_tool("work"), {"n": col("n")})]
    run = map_steps(steps, rows, host.services, concurrency=3, skip_invalid=True, **options)
    task = asyncio.create_task(run.run())
    await all_wait.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return run


ROWS = [*({"n": n} for n in range(10)), {"n": "x"}]

STATES = {"done": 4, "failed": 1, "denied": 0, "invalid": 1, "unknown": 3, "waiting": 2}


@pytest.mark.parametrize("journal", [False, True], ids=["memory", "journal"])
async def test_an_interrupted_map_accounts_for_all_rows(
    host: Host, board: Board, tmp_path: Path, journal: bool
) -> None:
    run = await interrupted(host, ROWS, journal=str(tmp_path / "answers.sqlite") if journal else None)
    assert {state: run.stats[state] for state in STATES} == STATES
    assert sum(STATES.values()) == run.stats["rows"] == 11
    line = line_of(board)
    assert line.startswith(
        "✗ map w:work: interrupted · 4 of 11 rows done · 1 failed · 1 invalid · 3 unknown · 2 waiting"
    )
    assert line.endswith("it was cancelled while it was under way, and may have run (3 rows)")
    assert card_of(run)[0] == "✗ w:work: 4 of 11 rows done, 1 failed, 1 invalid, 3 unknown, 2 waiting"
    assert run.failed["state"].value_counts().to_dict() == {"unknown": 3, "waiting": 2, "failed": 1, "invalid": 1}


async def test_rows_that_were_not_read_are_mentioned(host: Host, board: Board) -> None:
    run = await interrupted(host, ({"n": n} for n in itertools.count()))
    assert run.stats["rows"] == 8
    assert card_of(run)[0] == "✗ w:work: 4 of 8 rows done, 1 failed, 3 unknown, others not read"


# Expressions that fail for every row.


@pytest.mark.parametrize("kind", ["frame", "list", "generator"])
async def test_an_expression_that_never_works_sends_nothing(host: Host, calls: Counter[str], kind: str) -> None:
    frame = pd.DataFrame({"city": ["Oslo"] * 200, "days": 1})
    rows: Any = frame if kind == "frame" else frame.to_dict("records")
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:days", iter(rows) if kind == "generator" else rows, n=lambda row: row.dayz, skip_invalid=True)
    head, *problems = str(raised.value).splitlines()
    if kind == "generator":
        assert head == "No row fits s:days; nothing was sent."
        assert problems == [f"  {TYPO} (200 rows)"]
    else:
        assert head == "200 rows of 200 do not fit s:days; nothing was sent."
        assert problems == [f"  rows 0, 1, 2, 3 and 196 more: {TYPO}"]
    assert not calls


async def test_rows_without_end_that_never_fit_end_a_map(host: Host, calls: Counter[str], board: Board) -> None:
    rows = ({"city": "Oslo", "days": n} for n in itertools.count())
    with pytest.raises(ArgumentsError, match="No row fits s:days"):
        await host.map("s:days", rows, n=lambda row: row.dayz)
    assert (
        line_of(board)
        == f"✗ map s:days: failed · 0 of 1,000 rows done · 1,000 invalid · others not read · {TYPO} (1,000 rows)"
    )
    assert not calls


async def test_a_loop_over_rows_that_never_fit_raises(host: Host, calls: Counter[str]) -> None:
    rows = host.map_iter("s:days", iter([{"days": 1}] * 2), n=lambda row: row.dayz)
    assert [(await anext(rows)).state, (await anext(rows)).state] == ["invalid"] * 2
    with pytest.raises(ArgumentsError, match="No row fits s:days"):
        await anext(rows)


async def test_rows_without_calls_do_not_block_the_loop(host: Host, calls: Counter[str]) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    run = await host.map("s:add", iter([{"a": 1}, *[{"a": "x"}] * 5_000]))
    ticking.cancel()
    assert run.stats["invalid"] == 5_000
    assert ticks > 50  # the loop turns at least once for the rows of all workers together


# The rate.


RATES: dict[str, tuple[dict[str, int], float, float, list[str]]] = {
    "nothing sent": ({}, math.inf, 0.0, []),
    "one call": ({"s": 1}, math.inf, 0.0, []),
    "of the time beside it": ({"s": 6}, math.inf, 3.0, ["3 calls/s"]),
    "of the server with most": ({"s": 6, "t": 16}, math.inf, 8.0, ["8 calls/s"]),
    "few calls at a rate": ({"s": 6}, 2.5, 2.5, ["2.5 calls/s"]),
    "rounded above the rate": ({"s": 298}, 148.9, 148.9, ["149 calls/s"]),
}


@pytest.mark.parametrize("case", RATES)
def test_the_rate_is_that_of_the_time_shown(case: str) -> None:
    sent, most, rate, text = RATES[case]
    tally = Tally(None, most)
    for server, calls in sent.items():
        tally.send(server, calls)
    assert tally.rate(2.0, 3) == rate
    assert tally.rate_text(2.0) == text
    assert tally.rate(0.0, 3) == 0.0


async def test_the_time_of_the_last_answers_counts_for_the_rate(host: Host) -> None:
    server, came, all_came = MCPServer("s"), Counter[str](), asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        came["work"] += 1
        if came["work"] == 40:
            all_came.set()
        await all_came.wait()
        return n

    await host.connect(server, name="s")
    stats = (await host.map("s:work", [{"n": n} for n in range(40)])).stats
    assert stats["rate"] * stats["seconds"] == pytest.approx(40, rel=0.05)


async def test_the_rate_shown_is_not_above_that_asked_for(host: Host, calls: Counter[str]) -> None:
    lines: list[str] = []

    def reporter(report: Report) -> Callable[[], None]:
        return lambda: lines.append(outcome_text(report))

    host.services.reports.reporter = reporter
    run = await host.map("s:add", [{"a": n} for n in range(16)], rate="50/s")
    shown = [float(rate) for line in [*lines, run.summary] for rate in re.findall(r"([\d.]+) calls/s", line)]
    assert len(shown) > 10
    assert max(shown) <= 50
    assert 0 < run.stats["rate"] <= 50
    assert not [line for line in lines if re.search(r"[\d.]/s", line.replace("calls/s", ""))]


async def test_the_rate_of_a_pipeline_is_that_of_a_server(host: Host, calls: Counter[str]) -> None:
    other = MCPServer("t")

    @other.tool()
    async def twice(n: int) -> int:
        return 2 * n

    await host.connect(other, name="t")
    steps = [
        Step("one", host["s"], await host["s"].find_tool("add"), {"a": col("a")}),
        Step("two", host["t"], await host["t"].find_tool("twice"), {"n": col("a")}),
    ]
    run = await map_steps(steps, [{"a": n} for n in range(8)], host.services, rate="50/s").run()
    assert run.stats["calls"] == 16
    assert 0 < run.stats["rate"] <= 50


# Answers that are lists.


async def test_answers_that_are_lists_name_explode(host: Host, calls: Counter[str]) -> None:
    hint = "Answers are lists: `%mcp map --resume $out --explode` makes each item a row of .df."
    run = await host.map("s:days", [{"n": 2}, {"n": 3}])
    assert card_of(run)[-1] == hint
    await run.retry(explode=True)
    assert hint not in card_of(run)
    assert run.df["day"].tolist() == [0, 1, 0, 1, 2]
    assert calls["days"] == 2
    assert "explode" not in "".join(card_of(await host.map("s:add", [{"a": 1}])))


@pytest.mark.parametrize("first", [1_234_567, 2**53 + 1, 2**64], ids=["usual", "beyond floats", "beyond 64 bits"])
async def test_integers_stay_whole_beside_a_failed_row(host: Host, first: int) -> None:
    server = MCPServer("s")

    @server.tool()
    def identify(n: int) -> dict[str, int]:
        if n == 3:
            raise ValueError("bad station")
        return {"id": first + n}

    await host.connect(server, name="s")
    run = await host.map("s:identify", [{"n": n} for n in range(5)])
    whole = [first + n for n in (0, 1, 2, 4)]
    assert [int(value) for value in run.df["id"].dropna()] == whole
    assert run.df["id"].dtype in ("Int64", "object")
    card = "\n".join(part.plain for part in run.parts())
    assert all(str(number) in card for number in whole)


async def test_retried_rows_of_a_generator_count_once(host: Host, tmp_path: Path) -> None:
    server, called = MCPServer("s"), []

    @server.tool()
    def work(n: int) -> int:
        called.append(n)
        if n % 5 == 0:
            raise ValueError("five")
        return n

    await host.connect(server, name="s")
    run = await host.map("s:work", ({"n": n} for n in range(10)), journal=tmp_path / "j", keep=False)
    for _ in range(2):
        await run.retry()
    assert [called.count(n) for n in (0, 5, 1)] == [3, 3, 1]
    assert {state: run.stats[state] for state in ("rows", "done", "failed", "waiting")} == {
        "rows": 10,
        "done": 8,
        "failed": 2,
        "waiting": 0,
    }
    assert len(run.failed) == 2


async def test_a_retry_while_the_map_runs_is_refused(host: Host) -> None:
    server, called, goes_on = MCPServer("s"), [], asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        called.append(n)
        await goes_on.wait()
        return n

    await host.connect(server, name="s")
    run = map_steps(
        [Step("", host["s"], await host["s"].find_tool("work"), {"n": col("n")})], [{"n": 1}], host.services
    )
    running = asyncio.create_task(run.run())
    while not called:
        await asyncio.sleep(0)
    with pytest.raises(ArgumentsError, match="s:work still runs"):
        await run.retry()
    goes_on.set()
    await running
    assert called == [1]
    assert run.stats["done"] == 1


async def test_a_denied_map_has_its_reason(host: Host, calls: Counter[str]) -> None:
    async def deny(request: Request) -> Decision:
        return Decision.deny("not now")

    host.consent.approver = deny
    host.consent.add(Rule("ask", "s:weather"))
    steps = [Step("", host["s"], await host["s"].find_tool("weather"), {"city": col("city")})]
    run = map_steps(steps, [{"city": "Oslo"}], host.services)
    with pytest.raises(DeniedError):
        await run.run()
    assert calls.total() == 0
    assert card_of(run)[0].startswith("✗ s:weather: 0 of 1 rows done")
    assert "not now" in card_of(run)[1]
