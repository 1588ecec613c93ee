"""What a person sees of a map whose rows have no answer: its line, its card and its figures."""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from mcp_magic import ArgumentsError
from mcp_magic.ipython.live import Board, outcome_text
from mcp_magic.map.run import map_steps
from tests.environments import ROOT
from tests.support.mapped import offer, prepared, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic import Host, MapRun
    from mcp_magic.flight.progress import Report

TYPO = "row has no dayz; it has city, days. Did you mean 'days'?"
REPEAT = "`%mcp map --resume $out --repeat-unknown`"


@pytest.fixture
def board(host):
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


def times(line: str) -> list[str]:
    """Return the times and the rate in a line."""
    return sorted(re.findall(r"[\d.,]+ (?:ms|s|calls/s)(?!\w)", line))


LOST = "weather failed: ValueError: no such city"
UNFIT = "city: expected string, got 7"
ENDS: dict[str, tuple[list[Any], str, str]] = {
    "done": (["Oslo", "Rome"], "✓ map s:weather: 2 of 2 rows done", "✓ s:weather: 2 of 2 rows done"),
    "some fail": (
        ["Oslo", "Atlantis", "Atlantis"],
        f"! map s:weather: 1 of 3 rows done · 2 failed · {LOST} (2 rows)",
        "! s:weather: 1 of 3 rows done, 2 failed",
    ),
    "unfit": (
        ["Oslo", 7],
        f"! map s:weather: 1 of 2 rows done · 1 invalid · {UNFIT} (1 row)",
        "! s:weather: 1 of 2 rows done, 1 invalid",
    ),
    "all fail": (
        ["Atlantis"] * 3,
        f"✗ map s:weather: failed · 0 of 3 rows done · 3 failed · {LOST} (3 rows)",
        "✗ s:weather: 0 of 3 rows done, 3 failed",
    ),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("kind", ["generator", "journal"])
async def test_a_map_ends_with_its_sign_and_reason(host, calls, board, tmp_path, case, kind):
    cities, line, card = ENDS[case]
    rows = [{"city": city} for city in cities]
    journal = tmp_path / "answers.sqlite" if kind == "journal" else None
    run = await host.map("s:weather", rows if journal else iter(rows), skip_invalid=True, journal=journal)
    assert line_of(board) == line
    assert card_of(run)[0] == card
    assert line.partition(" · ")[2].rpartition(" · ")[2] in repr(run)
    if journal is not None:
        again = await host.map("s:weather", rows, skip_invalid=True, journal=journal)
        assert line_of(board) == line
        resumed = f", {cities.count('Oslo') + cities.count('Rome')} from the journal"
        assert card_of(again)[0].removesuffix(resumed) == card


async def test_line_and_card_have_one_time_also_after_a_retry(host, board):
    opened = asyncio.Event()

    async def work(n: int) -> int:
        if not opened.is_set():
            raise ValueError("closed")
        return n

    await offer(host, work)
    run = await host.map("s:work", [{"n": n} for n in range(30)])
    first = times(board.bundle()["text/plain"])
    assert first == times(run.parts()[0].plain)
    opened.set()
    await run.retry()
    assert [times(line) for line in board.bundle()["text/plain"].splitlines()] == [first, times(run.parts()[0].plain)]
    assert board.bundle()["text/plain"].startswith("✗ map s:work: failed · 0 of 30 rows done · 30 failed")
    assert line_of(board) == "✓ map s:work: 30 of 30 rows done"
    assert "closed" not in repr(run)


async def test_a_card_counts_errors_by_kind(host, board):
    async def weather(city: int) -> int:
        raise ValueError(f"no city {city}")

    await offer(host, weather)
    run = await host.map("s:weather", [{"city": n} for n in range(7)])
    error = "weather failed: ValueError: no city 0"
    assert line_of(board).endswith(f" · {error} (7 rows, values differ)")
    assert next(line.split(maxsplit=2) for line in card_of(run) if error in line) == ["7", "differ", error]


DIES = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server, arrived = Plain("d"), threading.Semaphore(0)

@server.tool
def work(n: int) -> int:
    if n == 9:
        for _ in range(3):
            arrived.acquire()
        os.write(2, sys.argv[1].encode())
        os._exit(3)
    if n > 5:
        arrived.release()
        threading.Event().wait()
    return n

server.run()
"""


async def test_a_lost_session_is_named_once(host, board):
    await host.connect([sys.executable, "-c", DIES, ""], name="d", reconnect=False)
    run = await host.map("d:work", [{"n": n} for n in range(13)], concurrency=4)
    why = "d:work: the session has ended (exit code 3) before the answer came, so it may have run"
    line, (figures, stopped, *rest) = line_of(board), card_of(run)
    assert line == (
        f"✗ map d:work: failed · 6 of 13 rows done · 4 unknown · 3 waiting · {REPEAT} repeats unknown rows"
        f" · {why}; `%mcp reconnect d` opens it aga… (4 rows)"
    )
    assert figures == "✗ d:work: 6 of 13 rows done, 4 unknown, 3 waiting"
    assert stopped.startswith(f"It stopped: {why}; `%mcp reconnect d` opens it again; `await out.retry()` goes on")
    assert rest[0].startswith(f"{REPEAT} or `await out.retry(repeat_unknown=True)` repeats the 4 calls")
    assert not any(text.startswith("rows ") for text in rest)  # no table of errors
    assert "was cancelled" not in f"{line}{run.failed.to_string()}"


async def test_stderr_has_a_line_of_its_own(host):
    said = "fatal: out of <b>disk\n"
    await host.connect([sys.executable, "-c", DIES, said], name="d", reconnect=False)
    run = await host.map("d:work", [{"n": n} for n in range(6, 10)], concurrency=4)
    lines = card_of(run)
    assert "stderr: fatal: out of <b>disk" in lines
    assert next(line for line in lines if line.startswith("It stopped: ")).endswith("opens it again")  # nothing is left
    assert ">stderr: fatal: out of &lt;b&gt;disk" in run._repr_mimebundle_()["text/html"]


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


async def test_failures_that_overlap_are_one_kind(host):
    await host.connect([sys.executable, "-c", FAILING], name="bad")
    run = await host.map("bad:half", [{"n": n} for n in range(6)])
    text = "half failed without saying why; calls overlapped, so `%mcp logs bad` has all reasons"
    assert text in set(run.failed["error"])
    assert not [error for error in run.failed["error"] if "did not say why" in error]


async def test_lists_and_what_is_no_json_are_shown(host, calls):
    async def days(n: list[dict[str, int]]) -> dict[str, Any]:
        return {"days": [{"high": 20, "token": "secret"}], "place": {"name": "Oslo"}, "name": "x"}

    await offer(host, days, "t")
    run = await prepared(host, "t:days", [{"n": [{"a": 1}]}], "n")
    assert '[{"a": 1}]' in run.plan().parts()[0].plain
    await run.run()
    html, plain = (run._repr_mimebundle_()[kind] for kind in ("text/html", "text/plain"))
    for value in ('[{"a": 1}]', '[{"high": 20, "token": "***"}]', '{"name": "Oslo"}'):
        assert value in plain
        assert escape(value) in html
    odd = await host.map("s:add", [{"a": 1, "odd": {(1, 2): "three"}}])
    assert "{(1, 2): 'three'}" in card_of(odd)[-1]


async def interrupted(host: Host, rows: Any, **options: Any) -> MapRun:
    """Map over rows of which n = 4 fails and those from 5 on wait, and interrupt the map when three of them wait."""
    waiting, all_wait = list[int](), asyncio.Event()

    async def work(n: int) -> int:
        if n == 4:
            raise ValueError("four")
        if n > 4:
            waiting.append(n)
            if len(waiting) == 3:
                all_wait.set()
            await asyncio.Event().wait()
        return n

    await offer(host, work, "w")
    run = await prepared(host, "w:work", rows, "n", concurrency=3, skip_invalid=True, **options)
    task = asyncio.create_task(run.run())
    await all_wait.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return run


STATES = {"done": 4, "failed": 1, "denied": 0, "invalid": 1, "unknown": 3, "waiting": 2}


@pytest.mark.parametrize("journal", [False, True], ids=["memory", "journal"])
async def test_an_interrupted_map_counts_all_rows(host, board, tmp_path, journal):
    rows = [*({"n": n} for n in range(10)), {"n": "x"}]
    run = await interrupted(host, rows, journal=str(tmp_path / "answers.sqlite") if journal else None)
    assert {state: run.stats[state] for state in STATES} == STATES
    assert run.stats["rows"] == 11
    figures = "4 of 11 rows done · 1 failed · 1 invalid · 3 unknown · 2 waiting"
    assert line_of(board).startswith(f"✗ map w:work: interrupted · {figures}")
    assert line_of(board).endswith("it was cancelled while it was under way, and may have run (3 rows)")
    assert card_of(run)[0] == f"✗ w:work: {figures.replace(' · ', ', ')}"
    assert run.failed["state"].value_counts().to_dict() == {"unknown": 3, "waiting": 2, "failed": 1, "invalid": 1}


async def test_unknown_and_unread_rows_are_named_with_the_way_on(host, board):
    run = await interrupted(host, [{"n": n} for n in (5, 6, 7)])
    whole = f"{REPEAT} or `await out.retry(repeat_unknown=True)` repeats the 3 calls that may have run"
    assert f"3 unknown · {REPEAT} repeats unknown rows · " in line_of(board)
    await run.retry()
    assert f"3 unknown · {REPEAT} repeats unknown rows · " in line_of(board)
    assert whole in card_of(run)
    assert repr(run).endswith(f"; {whole}>")
    assert "goes on with the rest" not in "".join(card_of(run))
    await host.disconnect("w")
    run = await interrupted(host, ({"n": n} for n in itertools.count()))
    assert run.stats["rows"] == 8
    assert card_of(run)[0] == "✗ w:work: 4 of 8 rows done, 1 failed, 3 unknown, others not read"


@pytest.mark.parametrize("kind", ["frame", "list", "generator"])
async def test_an_expression_that_never_works_sends_nothing(host, calls, kind):
    frame = pd.DataFrame({"city": ["Oslo"] * 200, "days": 1})
    rows: Any = frame if kind == "frame" else frame.to_dict("records")
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:days", iter(rows) if kind == "generator" else rows, n=lambda row: row.dayz, skip_invalid=True)
    if kind == "generator":
        assert str(raised.value) == f"No row fits s:days; nothing was sent.\n  {TYPO} (200 rows)"
    else:
        problem = f"rows 0, 1, 2, 3 and 196 more: {TYPO}"
        assert str(raised.value) == f"200 rows of 200 do not fit s:days; nothing was sent.\n  {problem}"
    assert not calls


async def test_rows_without_end_that_never_fit_end_a_map(host, calls, board):
    rows = ({"city": "Oslo", "days": n} for n in itertools.count())
    with pytest.raises(ArgumentsError, match="No row fits s:days"):
        await host.map("s:days", rows, n=lambda row: row.dayz)
    figures = "0 of 1,000 rows done · 1,000 invalid · others not read"
    assert line_of(board) == f"✗ map s:days: failed · {figures} · {TYPO} (1,000 rows)"
    assert not calls


async def test_rows_without_calls_do_not_block_the_loop(host, calls):
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    run = await host.map("s:add", iter([{"a": 1}, *[{"a": "x"}] * 2_000]))
    ticking.cancel()
    assert run.stats["invalid"] == 2_000
    assert ticks > 20  # the loop turns at least once for the rows of all workers together


async def test_the_time_of_the_last_answers_counts_for_the_rate(host):
    came, all_came = list[int](), asyncio.Event()

    async def work(n: int) -> int:
        came.append(n)
        if len(came) == 40:
            all_came.set()
        await all_came.wait()
        return n

    await offer(host, work)
    stats = (await host.map("s:work", [{"n": n} for n in range(40)])).stats
    assert stats["rate"] * stats["seconds"] == pytest.approx(40, rel=0.05)


async def test_the_rate_shown_is_not_above_that_asked_for(host, calls):
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


async def test_the_rate_of_a_pipeline_is_that_of_a_server(host, calls):
    async def twice(a: int) -> int:
        return 2 * a

    await offer(host, twice, "t")
    steps = [await step(host, "s:add", "a", name="one"), await step(host, "t:twice", "a", name="two")]
    run = await map_steps(steps, [{"a": n} for n in range(8)], host.services, rate="50/s").run()
    assert run.stats["calls"] == 16
    assert 0 < run.stats["rate"] <= 50


@pytest.mark.parametrize("first", [1_234_567, 2**53 + 1, 2**64], ids=["usual", "beyond floats", "beyond 64 bits"])
async def test_integers_stay_whole_beside_a_failed_row(host, first):
    def identify(n: int) -> dict[str, int]:
        if n == 3:
            raise ValueError("bad station")
        return {"id": first + n}

    await offer(host, identify)
    run = await host.map("s:identify", [{"n": n} for n in range(5)])
    whole = [first + n for n in (0, 1, 2, 4)]
    assert [int(value) for value in run.df["id"].dropna()] == whole
    assert run.df["id"].dtype in ("Int64", "object")
    card = "\n".join(part.plain for part in run.parts())
    assert all(str(number) in card for number in whole)
