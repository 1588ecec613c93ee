"""Maps over further sessions with a server's process, and over servers that die."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING

from tests.environments import ROOT
from tests.support.mapped import prepared
from tests.support.processes import children
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


SECOND = "second = os.path.exists('first')\nos.path.exists('first') or os.mkdir('first')\n"
"""Tells the processes of two sessions apart."""


def command(folder: Path, tool: str, start: str = SECOND) -> list[str]:
    """Write a server with one tool, which runs in this folder, and return its command."""
    (folder / "server.py").write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.support.plain import Plain\n"
        f"os.chdir({str(folder)!r})\nserver = Plain('s')\n"
        "def wait(name):\n    while not os.path.exists(name):\n        time.sleep(0.01)\n"
        f"{start}@server.tool\ndef work(n: int) -> int:\n{tool}server.run()\n"
    )
    return [sys.executable, str(folder / "server.py")]


def rows(count: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(count)]


async def test_lost_server_stops_map_and_keeps_answers(host, tmp_path):
    work = "    if n == 7:\n        os._exit(3)\n    return n\n"
    await host.connect(command(tmp_path, work), name="d", reconnect=False)
    run = await host.map("d:work", rows(50), concurrency=1)
    assert [run.stats["done"], run.stats["unknown"]] == [7, 1]
    assert "d" in run.problem
    assert "exit code 3" in run.problem
    assert run.failed["state"].tolist() == ["unknown", *["waiting"] * 42]


async def test_an_extra_session_that_ends_is_left_out(host, tmp_path):
    work = (
        "    if second:\n        os.mkdir('ended')\n        os._exit(3)\n"
        "    wait('second')\n    os.path.exists('ended') or time.sleep(0.02)\n    return os.getpid()\n"
    )
    await host.connect(command(tmp_path, work, SECOND + "second and os.mkdir('second')\n"), name="f")
    run = await host.map("f:work", rows(200), sessions=2, concurrency=1)
    assert [run.stats[state] for state in ("done", "unknown")] == [199, 1]
    assert len({item.result.data for item in run.items if item.result}) == 1


async def test_the_first_rows_do_not_wait_for_extra_sessions(host, tmp_path):
    start = f"{SECOND}second and wait('called')\nsecond and os.mkdir('second')\n"
    work = "    n or os.mkdir('called')\n    n and wait('second')\n    time.sleep(0.02)\n    return second\n"
    await host.connect(command(tmp_path, work, start), name="f")
    run = await host.map("f:work", rows(300), sessions=2, concurrency=2)
    took = Counter(item.result.data for item in run.items if item.result)
    assert took.total() == 300
    assert run.items[0].result is not None
    assert run.items[0].result.data is False
    assert took[True] > 0


async def test_unopened_extra_session_is_noted_and_left_out(host, tmp_path):
    await host.connect(command(tmp_path, "    wait('noted')\n", f"{SECOND}second and os._exit(3)\n"), name="f")
    run = await prepared(host, "f:work", rows(10), "n", sessions=2, concurrency=2)
    task = asyncio.create_task(run.run())
    await until(lambda: bool(run.note))
    assert run.note.startswith("1 further session did not open: f: ")
    assert "\n" not in run.note
    (tmp_path / "noted").touch()
    await task
    assert run.stats["done"] == 10


async def test_a_map_that_ends_first_leaves_extra_sessions(host, tmp_path):
    await host.connect(command(tmp_path, "    return n\n", f"{SECOND}second and wait('never')\n"), name="f")
    run = await host.map("f:work", rows(10), sessions=2, concurrency=4)
    assert run.stats["done"] == 10
    assert "did not open" not in run.note
    assert len(children(str(tmp_path))) == 1


async def test_a_faster_session_gets_more_rows(host, tmp_path):
    """The first session answers once the second one has answered 150 rows: half of them each would never come."""
    work = (
        "    global answered\n    answered += 1\n    if second and answered == 150:\n        os.mkdir('enough')\n"
        "    second or wait('enough')\n    return second\n"
    )
    await host.connect(command(tmp_path, work, f"{SECOND}answered = 0\n"), name="u")
    run = await host.map("u:work", rows(200), sessions=2, concurrency=8)
    took = Counter(item.result.data for item in run.items if item.result)
    assert took[True] >= 150
    assert took[False] > 0
    assert took.total() == 200
