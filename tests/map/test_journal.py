"""The journal: nothing is called twice, nothing that came back is lost, also when the process is killed."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from mcp.server import MCPServer

from mcp_magic import ConfigError, Host
from mcp_magic.map.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 600


async def killed_in_the_middle(log: Path, journal: Path, chance: random.Random) -> bool:
    """Start the program, kill it at a random time, and return whether it had ended before."""
    words = ["-m", "tests.support.mapping_program", str(log), str(journal), str(ROWS)]
    program = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert program.stdout is not None
    assert await program.stdout.readline() == b"open\n"
    try:
        await asyncio.wait_for(program.wait(), chance.uniform(0.01, 0.4))
    except TimeoutError:
        os.killpg(program.pid, signal.SIGKILL)  # the server is killed too
        await program.wait()
        return False
    return True


async def test_kills_repeat_no_row_and_leave_few_unknown(tmp_path: Path) -> None:
    log, journal = tmp_path / "calls.txt", tmp_path / "journal.sqlite"
    chance, kills = random.Random(3), 0
    while kills < 4 and not await killed_in_the_middle(log, journal, chance):
        kills += 1
    async with Host() as host:
        await host.connect([sys.executable, "-m", "tests.support.counting_server", str(log)], name="c")
        run = await host.map("c:count", ({"n": n} for n in range(ROWS)), journal=journal)
    called = Counter(log.read_text().split())
    assert max(called.values()) == 1
    stats = run.stats
    assert stats["done"] + stats["unknown"] == ROWS
    assert stats["unknown"] <= 8 * kills
    assert set(called) >= {str(item.row["n"]) for item in run.items if item.state == "done"}
    assert [item.result.data for item in run.items if item.result] == [
        2 * item.row["n"] for item in run.items if item.state == "done"
    ]


async def test_repeated_map_takes_all_answers_from_journal(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": 1}, {"a": 2}]
    first = await host.map("s:add", rows, journal=tmp_path / "j")
    again = await host.map("s:add", rows, journal=tmp_path / "j")
    assert calls["add"] == 3  # equal rows are calls of their own
    assert again.df["result"].tolist() == first.df["result"].tolist() == [11, 11, 12]
    assert [again.stats[key] for key in ("resumed", "calls")] == [3, 0]


async def test_failed_rows_are_called_again(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    rows = [{"city": "Oslo"}, {"city": "Atlantis"}]
    await host.map("s:weather", rows, journal=tmp_path / "j")
    await host.map("s:weather", rows, journal=tmp_path / "j")
    assert calls["weather"] == 3


async def test_answers_of_other_tools_are_unused_and_noted(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    await host.map("s:add", [{"a": 1}], journal=tmp_path / "j")
    other = await host.map("s:days", [{"n": 1}], journal=tmp_path / "j")
    assert other.note == "passed by name: n; the journal has 1 answer of other tools; they are not used"


async def test_changed_definition_outdates_old_answers(host: Host, tmp_path: Path) -> None:
    for text in ("Doubles.", "Doubles, or not."):
        server = MCPServer("s")

        @server.tool(description=text)
        async def twice(n: int) -> int:
            return 2 * n

        await host.connect(server, name="s")
        run = await host.map("s:twice", [{"n": 1}], journal=tmp_path / "j")
        await host.disconnect("s")
        assert [run.stats[key] for key in ("resumed", "calls")] == [0, 1]
    assert "the journal has 1 answer of another version of twice; they are not used" in run.note


async def test_retry_calls_failed_row_and_borrows_no_equal_answer(host: Host, tmp_path: Path) -> None:
    server, calls = MCPServer("s"), list[int]()

    @server.tool()
    async def book(n: int) -> int:
        calls.append(n)
        if len(calls) == 2:
            raise ValueError("sold out")
        return len(calls)

    await host.connect(server, name="s")
    run = await host.map("s:book", [{"n": 1}] * 3, journal=tmp_path / "j", concurrency=1)
    assert run.df["error"].notna().tolist() == [False, True, False]
    await run.retry()
    assert run.df["result"].tolist() == [1, 4, 3]
    again = await host.map("s:book", [{"n": 1}] * 3, journal=tmp_path / "j", concurrency=1)
    assert again.df["result"].tolist() == [1, 4, 3]
    assert len(calls) == 4


async def test_without_keep_the_answers_are_in_the_journal_only(
    host: Host, calls: Counter[str], tmp_path: Path
) -> None:
    run = await host.map("s:add", ({"a": n} for n in range(50)), journal=tmp_path / "j", keep=False)
    assert run.stats["done"] == 50
    assert run.items == []
    again = await host.map("s:add", ({"a": n} for n in range(50)), journal=tmp_path / "j")
    assert again.df["result"].tolist() == [n + 10 for n in range(50)]
    assert calls["add"] == 50


def make_text(path: Path) -> None:
    path.write_text("this is no database " * 100)


def make_stranger(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE x (y)")


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (make_text, "is not a journal of %mcp map: choose another file; nothing was called"),
        (make_stranger, "it is a database of another program"),
        (make_folder, "cannot be written; nothing was called"),
    ],
)
async def test_non_journal_file_is_refused_before_sending(
    host: Host, calls: Counter[str], tmp_path: Path, make: object, text: str
) -> None:
    make(tmp_path / "j")  # type: ignore[operator]
    with pytest.raises(ConfigError) as raised:
        await host.map("s:add", [{"a": 1}], journal=tmp_path / "j")
    assert text in str(raised.value)
    assert not calls


async def test_a_journal_with_a_nul_in_its_path_is_refused(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="embedded null byte; nothing was called"):
        await host.map("s:add", [{"a": 1}], journal=tmp_path / "j\0x")
    assert not calls


async def test_two_maps_do_not_share_a_journal(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    try:
        with pytest.raises(ConfigError, match="is in use by another map"):
            await host.map("s:add", [{"a": 1}], journal=tmp_path / "j")
    finally:
        journal.close()
    assert not calls


async def test_full_disk_ends_map_and_keeps_answers(host: Host, tmp_path: Path) -> None:
    server = MCPServer("s")

    @server.tool()
    async def text(n: int) -> str:
        return "x" * 100_000

    await host.connect(server, name="s")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        run = await host.map("s:text", [{"n": n} for n in range(30)], journal=tmp_path / "j", concurrency=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 < run.stats["done"] < 30
    assert run.problem.startswith(f"the journal {tmp_path / 'j'}: ")
    assert all(item.result for item in run.items if item.state == "done")
