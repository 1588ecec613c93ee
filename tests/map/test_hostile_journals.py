"""Journals of maps that a stranger made: tables that have no end, answers that are none, more than can be held."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

from mcp_magic import ConfigError, Host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
VIEW = f"CREATE VIEW calls AS {ENDLESS} SELECT x AS tool, x AS key, 0 AS number, '' AS answer FROM n"
TOOLS = "CREATE TABLE tools (id INTEGER PRIMARY KEY, server TEXT, tool TEXT, definition TEXT);"
COLUMNS = "tool INTEGER, key BLOB, number INTEGER, answer TEXT"
MARKS = "PRAGMA application_id = 0x6D63706D; PRAGMA user_version = 1;"

SCHEMAS = {
    "an endless view": TOOLS + VIEW,
    "an endless view of tools": f"CREATE VIEW tools AS {ENDLESS} SELECT x AS id, '' AS server FROM n",
    "a trigger": f"{TOOLS} CREATE TABLE calls ({COLUMNS}, PRIMARY KEY (tool, key, number)) WITHOUT ROWID; "
    "CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END",
    "a computed column": f"{TOOLS} CREATE TABLE calls ({COLUMNS}, more AS (zeroblob(60000000)))",
    "a check that computes": f"{TOOLS} CREATE TABLE calls ({COLUMNS} CHECK (length(hex(zeroblob(30000000))) > 1))",
    "a virtual table": f"{TOOLS} CREATE VIRTUAL TABLE calls USING fts5(tool, key, number, answer)",
}

ANSWERS: dict[str, object] = {
    "no JSON": "{",
    "no pair": "[1]",
    "a number": "5",
    "no seconds": '["a", {"content": []}]',
    "no result": '[1.0, {"content": 5}]',
    "deep": "[" * 100_000,
    "bytes": b"[1.0, {}]",
}


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    server: MCPServer = MCPServer("s")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def double(n: int) -> int:
        return 2 * n

    async with Host() as made:
        await made.connect(server, name="s", trust=True)
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def change(file: Path, script: str, *values: object) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(script, values) if values else connection.executescript(script)
        connection.commit()


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_a_journal_with_other_things_is_refused(host: Host, file: Path, kind: str) -> None:
    change(file, MARKS + SCHEMAS[kind])
    async with asyncio.timeout(30):
        with pytest.raises(ConfigError) as caught:
            await host.map("s:double", [{"n": 1}], journal=file)
    assert str(caught.value) == (
        f"the journal {file}: it has more or other things than the tables of a journal; choose another file; "
        "nothing was called"
    )


@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_wrong_answer_names_its_row(host: Host, file: Path, kind: str) -> None:
    rows = [{"n": 1}]
    await host.map("s:double", rows, journal=file)
    change(file, "UPDATE calls SET answer = ?", ANSWERS[kind])
    run = await host.map("s:double", rows, journal=file)
    problem = "bytes, not text" if kind == "bytes" else "not one of a tool"
    assert run.problem == (f"the journal {file}: an answer is {problem} (row 0); choose another file with --journal")


async def test_too_long_an_answer_is_not_read(host: Host, file: Path) -> None:
    rows = [{"n": 1}]
    await host.map("s:double", rows, journal=file)
    change(file, "UPDATE calls SET answer = CAST(zeroblob(?) AS TEXT)", 70_000_000)
    run = await host.map("s:double", rows, journal=file)
    assert "a value has more than 64,000,000 bytes (row 0)" in run.problem


async def test_a_long_answer_is_taken_up(host: Host, file: Path) -> None:
    rows = [{"n": 1}]
    await host.map("s:double", rows, journal=file)
    text = "x" * 2_000_000
    change(file, "UPDATE calls SET answer = ?", json.dumps([1.0, {"content": [{"type": "text", "text": text}]}]))
    run = await host.map("s:double", rows, journal=file)
    assert run.items[0].result is not None
    assert run.items[0].result.text == text


async def test_pages_in_a_circle_are_refused(host: Host, file: Path) -> None:
    change(file, f"PRAGMA page_size = 512; {MARKS}{TOOLS}")
    change(file, f"{ENDLESS} INSERT INTO tools SELECT x, hex(zeroblob(100)), '', ? FROM n LIMIT 2000", "")
    with closing(sqlite3.connect(file)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tools'")
    data = bytearray(file.read_bytes())
    start = (root - 1) * 512
    assert data[start] == 5  # an inner page: all that is under it becomes the page itself
    for number in range(int.from_bytes(data[start + 3 : start + 5])):
        cell = start + int.from_bytes(data[start + 12 + 2 * number : start + 14 + 2 * number])
        data[cell : cell + 4] = root.to_bytes(4)
    data[start + 8 : start + 12] = root.to_bytes(4)
    file.write_bytes(data)
    async with asyncio.timeout(30):
        with pytest.raises(ConfigError, match="it is damaged; choose another file"):
            await host.map("s:double", [{"n": 1}], journal=file)
