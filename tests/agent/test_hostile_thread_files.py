"""Files of threads that a stranger made: tables that have no end, that do something, or that hold more than threads."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest

from mcp_magic.agent import threads
from mcp_magic.agent.threads import list_threads, open_threads, thread_names
from mcp_magic.errors import ThreadError

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (
    "thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, "
    "parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB"
)
TABLE = f"CREATE TABLE checkpoints ({COLUMNS}, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
VIEW = (
    f"CREATE VIEW checkpoints AS {ENDLESS} SELECT 't' || x AS thread_id, '' AS checkpoint_ns, x AS checkpoint_id, "
    "'' AS parent_checkpoint_id, 'msgpack' AS type, x'80' AS checkpoint, x'7b7d' AS metadata FROM n"
)

SCHEMAS = {
    "an endless view": VIEW,
    "an endless view of what was written": f"{TABLE} CREATE VIEW writes AS {ENDLESS} SELECT x AS thread_id FROM n",
    "an endless trigger": f"{TABLE} CREATE TRIGGER t AFTER INSERT ON checkpoints BEGIN "
    "INSERT INTO checkpoints SELECT new.thread_id || value, '', '1', '', '', '', '' FROM json_each('[1,2]'); END",
    "a computed column": f"CREATE TABLE checkpoints ({COLUMNS}, more AS (zeroblob(60000000)))",
    "a virtual table": f"{TABLE} CREATE VIRTUAL TABLE search USING fts5(a)",
    "a view under the name of a table": f"{TABLE} PRAGMA writable_schema = ON; "
    f"UPDATE sqlite_master SET sql = '{VIEW.replace(chr(39), chr(39) * 2)}'; PRAGMA writable_schema = OFF",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


@pytest.fixture(autouse=True)
def nothing_in_memory() -> None:
    threads.memory_threads.cache_clear()


def make(file: Path, schema: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(schema)
        connection.commit()


async def listed(file: Path) -> list[str]:
    async with open_threads(file, fall_back=False) as opened:
        return [summary.thread for summary in await list_threads(opened)]


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_a_file_with_more_than_plain_tables_is_refused(kind: str, file: Path) -> None:
    make(file, SCHEMAS[kind])
    async with asyncio.timeout(60):
        with pytest.raises(ThreadError) as caught:
            await listed(file)
        assert str(caught.value) in (
            f"threads cannot be kept in {file}: it has more than plain tables, a view or a trigger, "
            "which no file of threads has; move it away, and a new one is made",
            f"threads cannot be kept in {file}: it is damaged, or no SQLite file; move it away, and a new one is made",
        )
        async with open_threads(file) as opened:  # a run goes on in memory
            assert opened.where == "memory"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_tab_does_not_wait_for_an_endless_table(kind: str, file: Path) -> None:
    make(file, SCHEMAS[kind])
    before = time.process_time()
    assert thread_names(file) == []
    assert time.process_time() - before < 3


async def test_pages_that_are_in_a_circle_are_no_endless_table(file: Path) -> None:
    make(file, f"PRAGMA page_size = 512; {TABLE}")
    with closing(sqlite3.connect(file)) as connection:
        rows = [("t" * 100, "", f"{number:04}", "", "", b"", b"") for number in range(2000)]
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'checkpoints'")
    data = bytearray(file.read_bytes())
    start = (root - 1) * 512
    assert data[start] == 5  # an inner page: all that is under it becomes the page itself
    for number in range(int.from_bytes(data[start + 3 : start + 5])):
        cell = start + int.from_bytes(data[start + 12 + 2 * number : start + 14 + 2 * number])
        data[cell : cell + 4] = root.to_bytes(4)
    data[start + 8 : start + 12] = root.to_bytes(4)
    file.write_bytes(data)
    async with asyncio.timeout(60):
        with pytest.raises(ThreadError, match="it is damaged"):
            await listed(file)


def _ext(code: int, value: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(value))


def _nested(levels: int) -> bytes:
    inner: Any = [1]
    for _ in range(levels):
        inner = _ext(0, ["builtins", "set", inner])
    return ormsgpack.packb({"id": "1", "channel_values": {"messages": inner}})


CONTENTS: dict[str, tuple[str, bytes]] = {
    "an object of LangChain's core": (
        "json",
        b'{"id": "1", "channel_values": {"messages": [{"lc": 1, "type": "constructor", '
        b'"id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "x"}}]}}',
    ),
    "a pickle": ("pickle", b"cos\nsystem\n(S'exit 1'\ntR."),
    "a command": (
        "msgpack",
        ormsgpack.packb({"id": "1", "channel_values": {"messages": [_ext(0, ["os", "system", "exit 1"])]}}),
    ),
    "levels without end": ("msgpack", _nested(2000)),
    "lists without end": ("msgpack", b"\x91" * 100_000),
    "half a value": ("msgpack", b"\x92\x01"),
    "no map": ("msgpack", b"\x01"),
    "no kind": ("?", b""),
}


@pytest.mark.parametrize("kind", CONTENTS)
async def test_a_conversation_that_is_none_is_one_plain_error(kind: str, file: Path) -> None:
    make(file, TABLE)
    type_, content = CONTENTS[kind]
    with closing(sqlite3.connect(file)) as connection:
        row = ("t", "", "1", None, type_, content, b"{}")
        connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()
    async with open_threads(file, fall_back=False) as opened:
        with pytest.raises(ThreadError) as caught:
            await opened.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})
    expected = "the thread 't' cannot be read: it is damaged; `%mcp agent --delete t` deletes it"
    assert str(caught.value) == expected


async def test_a_value_above_64_mb_is_not_loaded(file: Path) -> None:
    make(file, TABLE)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'msgpack', zeroblob(70000000), x'7b7d')"
        )
        connection.commit()
    assert thread_names(file) == ["t"]
    assert await listed(file) == ["t"]
    async with open_threads(file, fall_back=False) as opened:
        with pytest.raises(ThreadError, match="too big"):
            await opened.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})


async def test_a_listing_loads_no_large_metadata_and_no_endless_names(file: Path) -> None:
    make(file, TABLE)
    with closing(sqlite3.connect(file)) as connection:
        insert = "INSERT INTO checkpoints VALUES (?, '', '1', NULL, 'msgpack', x'80', ?)"
        connection.executemany(insert, [("t", b"[" * 200_000), ("n" * 1_000_000, b"{}")])
        connection.commit()
    assert thread_names(file) == ["t"]
    assert await listed(file) == ["t"]
