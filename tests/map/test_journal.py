"""The journal: nothing is called twice, nothing that came back is lost, and no file of a stranger is believed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from mcp_types import ToolAnnotations

from mcp_magic import ConfigError, Host
from mcp_magic.map.journal import Journal
from tests.support.damage import ENDLESS, circle_pages
from tests.support.mapped import offer
from tests.support.processes import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 600


async def killed_in_the_middle(log: Path, journal: Path, chance: random.Random) -> bool:
    """Start the program, kill it at a random time, and return whether it had ended before."""
    words = ["-m", "tests.support.mapping_program", str(log), str(journal), str(ROWS)]
    program = await asyncio.create_subprocess_exec(
        PYTHON, *words, stdout=asyncio.subprocess.PIPE, start_new_session=True
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


async def test_kills_repeat_no_row_and_leave_few_unknown(tmp_path):
    log, journal = tmp_path / "calls.txt", tmp_path / "journal.sqlite"
    chance, kills = random.Random(3), 0
    while kills < 4 and not await killed_in_the_middle(log, journal, chance):
        kills += 1
    async with Host() as host:
        await host.connect([PYTHON, "-m", "tests.support.counting_server", str(log)], name="c")
        run = await host.map("c:count", ({"n": n} for n in range(ROWS)), journal=journal)
    called = Counter(log.read_text().split())
    assert max(called.values()) == 1
    assert run.stats["done"] + run.stats["unknown"] == ROWS
    assert run.stats["unknown"] <= 8 * kills
    done = [item for item in run.items if item.state == "done"]
    assert set(called) >= {str(item.row["n"]) for item in done}
    assert [item.result.data for item in run.items if item.result] == [2 * item.row["n"] for item in done]


async def test_a_repeated_map_takes_answers_from_the_journal(host, calls, tmp_path):
    rows = [{"a": 1}, {"a": 1}, {"a": 2}]
    first = await host.map("s:add", rows, journal=tmp_path / "j")
    again = await host.map("s:add", rows, journal=tmp_path / "j")
    assert calls["add"] == 3  # equal rows are calls of their own
    assert again.df["result"].tolist() == first.df["result"].tolist() == [11, 11, 12]
    assert [again.stats[key] for key in ("resumed", "calls")] == [3, 0]
    other = await host.map("s:days", [{"n": 1}], journal=tmp_path / "j")
    assert other.note == "passed by name: n; the journal has 3 answers of other tools; they are not used"
    for _ in range(2):  # what failed is called again
        await host.map("s:weather", [{"city": "Oslo"}, {"city": "Atlantis"}], journal=tmp_path / "k")
    assert calls["weather"] == 3


async def test_changed_definition_outdates_old_answers(host, tmp_path):
    async def twice(n: int) -> int:
        return 2 * n

    for text in ("Doubles.", "Doubles, or not."):
        await offer(host, twice, description=text)
        run = await host.map("s:twice", [{"n": 1}], journal=tmp_path / "j")
        await host.disconnect("s")
        assert [run.stats[key] for key in ("resumed", "calls")] == [0, 1]
    assert "the journal has 1 answer of another version of twice; they are not used" in run.note


async def test_retry_calls_failed_row_and_borrows_no_equal_answer(host, tmp_path):
    calls = list[int]()

    async def book(n: int) -> int:
        calls.append(n)
        if len(calls) == 2:
            raise ValueError("sold out")
        return len(calls)

    await offer(host, book)
    run = await host.map("s:book", [{"n": 1}] * 3, journal=tmp_path / "j", concurrency=1)
    assert run.df["error"].notna().tolist() == [False, True, False]
    await run.retry()
    assert run.df["result"].tolist() == [1, 4, 3]
    again = await host.map("s:book", [{"n": 1}] * 3, journal=tmp_path / "j", concurrency=1)
    assert again.df["result"].tolist() == [1, 4, 3]
    assert len(calls) == 4


async def test_without_keep_answers_are_in_the_journal_only(host, calls, tmp_path):
    run = await host.map("s:add", ({"a": n} for n in range(50)), journal=tmp_path / "j", keep=False)
    assert run.stats["done"] == 50
    assert run.items == []
    again = await host.map("s:add", ({"a": n} for n in range(50)), journal=tmp_path / "j")
    assert again.df["result"].tolist() == [n + 10 for n in range(50)]
    assert calls["add"] == 50


async def test_retried_rows_of_a_generator_count_once(host, tmp_path):
    called: list[int] = []

    def work(n: int) -> int:
        called.append(n)
        if n % 5 == 0:
            raise ValueError("five")
        return n

    await offer(host, work)
    run = await host.map("s:work", ({"n": n} for n in range(10)), journal=tmp_path / "j", keep=False)
    for _ in range(2):
        await run.retry()
    assert [called.count(n) for n in (0, 5, 1)] == [3, 3, 1]
    assert [run.stats[state] for state in ("rows", "done", "failed", "waiting")] == [10, 8, 2, 0]
    assert len(run.failed) == 2


async def test_full_disk_ends_map_and_keeps_answers(host, tmp_path):
    async def text(n: int) -> str:
        return "x" * 100_000

    await offer(host, text)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        run = await host.map("s:text", [{"n": n} for n in range(30)], journal=tmp_path / "j", concurrency=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 < run.stats["done"] < 30
    assert run.problem.startswith(f"the journal {tmp_path / 'j'}: ")
    assert all(item.result for item in run.items if item.state == "done")


async def test_a_file_that_is_no_journal_is_refused_at_once(host, calls, tmp_path):
    (tmp_path / "text").write_text("this is no database " * 100)
    change(tmp_path / "stranger", "CREATE TABLE x (y)")
    (tmp_path / "folder").mkdir()
    with closing(Journal(tmp_path / "used")):
        for name, words in {
            "text": "is not a journal: choose another file; nothing was called",
            "stranger": "it is a database of another program",
            "folder": "cannot be written; nothing was called",
            "j\0x": "embedded null byte; nothing was called",
            "used": "is in use by another map or evaluation",
        }.items():
            with pytest.raises(ConfigError) as raised:
                await host.map("s:add", [{"a": 1}], journal=tmp_path / name)
            assert words in str(raised.value)
    assert not calls


VIEW = f"CREATE VIEW calls AS {ENDLESS} SELECT x AS tool, x AS key, 0 AS number, '' AS answer FROM n"
TOOLS = "CREATE TABLE tools (id INTEGER PRIMARY KEY, server TEXT, tool TEXT, definition TEXT);"
COLUMNS = "tool INTEGER, key BLOB, number INTEGER, answer TEXT"
MARKS = "PRAGMA application_id = 0x6D63706D; PRAGMA user_version = 1;"
SCHEMAS = {
    "endless view": TOOLS + VIEW,
    "endless tools": f"CREATE VIEW tools AS {ENDLESS} SELECT x AS id, '' AS server FROM n",
    "trigger": f"{TOOLS} CREATE TABLE calls ({COLUMNS}, PRIMARY KEY (tool, key, number)) WITHOUT ROWID; "
    "CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END",
    "computed column": f"{TOOLS} CREATE TABLE calls ({COLUMNS}, more AS (zeroblob(60000000)))",
    "check": f"{TOOLS} CREATE TABLE calls ({COLUMNS} CHECK (length(hex(zeroblob(30000000))) > 1))",
    "virtual table": f"{TOOLS} CREATE VIRTUAL TABLE calls USING fts5(tool, key, number, answer)",
}
ANSWERS: dict[str, object] = {
    "no JSON": "{",
    "no pair": "[1]",
    "number": "5",
    "no seconds": '["a", {"content": []}]',
    "no result": '[1.0, {"content": 5}]',
    "deep": "[" * 100_000,
    "bytes": b"[1.0, {}]",
}


@pytest.fixture
async def doubling(host):
    def double(n: int) -> int:
        return 2 * n

    await offer(host, double, annotations=ToolAnnotations(read_only_hint=True))
    return host


def change(file: Path, script: str, *values: object) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(script, values) if values else connection.executescript(script)
        connection.commit()


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_a_journal_with_other_things_is_refused(doubling, tmp_path, kind):
    file = tmp_path / "journal.sqlite"
    change(file, MARKS + SCHEMAS[kind])
    async with asyncio.timeout(30):
        with pytest.raises(ConfigError) as caught:
            await doubling.map("s:double", [{"n": 1}], journal=file)
    assert str(caught.value) == (
        f"the journal {file}: it has more or other things than the tables of a journal; choose another file; "
        "nothing was called"
    )


async def test_a_wrong_answer_names_its_row(doubling, tmp_path):
    file, rows = tmp_path / "journal.sqlite", [{"n": 1}]
    await doubling.map("s:double", rows, journal=file)
    for kind, answer in ANSWERS.items():
        change(file, "UPDATE calls SET answer = ?", answer)
        run = await doubling.map("s:double", rows, journal=file)
        problem = "bytes, not text" if kind == "bytes" else "not one of a tool"
        assert run.problem == f"the journal {file}: an answer is {problem} (row 0); choose another file with --journal"
    change(file, "UPDATE calls SET answer = CAST(zeroblob(?) AS TEXT)", 70_000_000)
    run = await doubling.map("s:double", rows, journal=file)
    assert "a value has more than 64,000,000 bytes (row 0)" in run.problem
    text = "x" * 2_000_000
    change(file, "UPDATE calls SET answer = ?", json.dumps([1.0, {"content": [{"type": "text", "text": text}]}]))
    run = await doubling.map("s:double", rows, journal=file)
    assert run.items[0].result is not None
    assert run.items[0].result.text == text


async def test_pages_in_a_circle_are_refused(doubling, tmp_path):
    file = tmp_path / "journal.sqlite"
    change(file, f"PRAGMA page_size = 512; {MARKS}{TOOLS}")
    change(file, f"{ENDLESS} INSERT INTO tools SELECT x, hex(zeroblob(100)), '', ? FROM n LIMIT 2000", "")
    circle_pages(file, "tools")
    async with asyncio.timeout(30):
        with pytest.raises(ConfigError, match="it is damaged; choose another file"):
            await doubling.map("s:double", [{"n": 1}], journal=file)
