"""Threads in a SQLite file, each with only its latest checkpoint, which holds all messages.

LangGraph stores the whole thread again at each step: a run of many steps would fill the disk with copies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiosqlite
from langgraph.checkpoint.base import get_checkpoint_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from mcp_magic.errors import ThreadError

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata


LOCKED_SECONDS = 2.0
"""Seconds to wait while another process writes to the file."""

FREE_PAGES = 256
"""Pages of 4 KiB that may stay unused in the file."""

LARGEST = 64_000_000
"""Bytes of the largest value (a conversation) to read from or write to the file."""

STATEMENT_SECONDS = 30.0
"""Seconds that a statement may take."""

_PAUSE = 1.0
_STEPS = 100_000
_AWAY = "move it away, and a new one is made"
_STORED = re.compile(r"CREATE (TABLE|(UNIQUE )?INDEX)\b", re.IGNORECASE)
_ANOTHER = "`%config MCPMagics.threads` names another file"
_NEWEST = (
    "SELECT thread_id, CASE WHEN length(metadata) <= 100000 THEN metadata END, MAX(checkpoint_id) AS latest "
    "FROM checkpoints WHERE checkpoint_ns = '' AND length(thread_id) <= 1000 "
    "GROUP BY thread_id ORDER BY latest DESC LIMIT ?"
)
_LATEST = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
_INSERT = (
    "INSERT OR REPLACE INTO checkpoints "
    "(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
# Ids begin with the time, and the clock may have been set back: so a lower id need not be an older checkpoint.
_DROP_OTHERS = "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id != ?"
_DROP_WRITES = (
    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND (checkpoint_id < ? OR checkpoint_id = ?)"
)
_sound: set[Path] = set()
# its messages quote names from the file, which may control a terminal; unreadable data raises an error anyway
logging.getLogger("langgraph.checkpoint.serde.jsonplus").addFilter(lambda record: False)


class _BoundedConnection(sqlite3.Connection):
    """A connection to a file that may be hostile: its schema cannot call functions, and no statement runs forever."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._since = self._last = 0.0
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
        self.set_progress_handler(self._takes_too_long, _STEPS)
        self.execute("PRAGMA trusted_schema = OFF")

    def _takes_too_long(self) -> bool:
        now = time.monotonic()
        if now - self._last > _PAUSE:  # another statement
            self._since = now
        self._last = now
        return now - self._since > STATEMENT_SECONDS


class _MessagesOnly(JsonPlusSerializer):
    """Reads only msgpack with messages and plain values; LangGraph's old JSON can create any of LangChain's objects."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] == "json":
            raise NotImplementedError
        return super().loads_typed(data)


class FileThreads(AsyncSqliteSaver):
    """LangGraph's checkpointer for SQLite; each checkpoint replaces the one before.

    It reads only messages and plain values: a file from somebody else must not run code.
    """

    def __init__(self, connection: aiosqlite.Connection) -> None:
        super().__init__(connection, serde=_MessagesOnly())
        self._stored: dict[str, str] = {}

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint and drop the earlier ones; a checkpoint without new messages is not written.

        Raises:
            ThreadError: Another kernel has continued the thread.
        """
        place = config["configurable"]
        key = (str(place["thread_id"]), place["checkpoint_ns"])
        placed: Any = {"thread_id": key[0], "checkpoint_ns": key[1], "checkpoint_id": checkpoint["id"]}
        before = place.get("checkpoint_id") or ""
        before = self._stored.get(before, before)
        if "messages" not in new_versions:
            self._stored[checkpoint["id"]] = before
            return {"configurable": placed}
        about = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "replace")
        row = (*key, checkpoint["id"], place.get("checkpoint_id"), *self.serde.dumps_typed(checkpoint), about)
        async with self.lock:
            try:
                await self._replace(key, checkpoint["id"], before, row)
            except BaseException:
                await self.conn.rollback()
                raise
        return {"configurable": placed}

    async def _replace(self, key: tuple[str, str], new: str, before: str, row: tuple[Any, ...]) -> None:
        if self.conn.in_transaction:  # left open by an interrupted run
            await self.conn.commit()
        await self.conn.execute("BEGIN IMMEDIATE")
        async with self.conn.execute(_LATEST, key) as cursor:
            (latest,) = await cursor.fetchone() or (None,)
        if latest is not None and before < latest != new:
            raise ThreadError(f"another kernel has gone on with the thread {key[0]!r} meanwhile")
        await self.conn.execute(_INSERT, row)
        await self.conn.execute(_DROP_OTHERS, (*key, new))
        await self.conn.execute(_DROP_WRITES, (*key, new, latest if latest != new else None))
        await self.conn.commit()

    async def shrink(self) -> None:
        """Return free space to the disk, if there is much and no other process writes."""
        with suppress(sqlite3.Error):
            await self.conn.execute("PRAGMA busy_timeout = 0")
            ((free,),) = await self.conn.execute_fetchall("PRAGMA freelist_count")
            if free > FREE_PAGES:
                await self.conn.executescript("PRAGMA incremental_vacuum")  # `execute` frees one page only

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and the metadata of their checkpoints, newest thread first."""
        async with self.lock:
            rows = await self.conn.execute_fetchall(_NEWEST, (most,))
        return [(thread, json.loads(about or b"{}")) for thread, about, _ in rows]


async def open_file(file: Path, stack: AsyncExitStack) -> FileThreads:
    """Open a file, or create one that only its owner may read.

    Raises:
        ThreadError: The file cannot be used; the message says why.
    """
    problem = ""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        connection = aiosqlite.connect(file, timeout=LOCKED_SECONDS, factory=_BoundedConnection)
        thread: Any = getattr(connection, "_thread", connection)  # before aiosqlite 0.22 a connection was a thread
        thread.daemon = True  # a kernel that ends during a run must not wait for it
        saver = FileThreads(await stack.enter_async_context(connection))
        problem = await _damage(connection, file)
        if not problem:
            await _make_tables(saver)
            await connection.execute("PRAGMA synchronous = NORMAL")  # safe in WAL mode
            await connection.execute("BEGIN IMMEDIATE")
            await connection.rollback()
            stack.push_async_callback(saver.shrink)
    except (OSError, ValueError, sqlite3.Error) as error:
        problem = why(error) or str(error)
    if problem:
        raise ThreadError(f"threads cannot be kept in {file}: {problem}")
    return saver


async def _make_tables(saver: FileThreads) -> None:
    """Create missing tables; retry, as SQLite does not wait while another process creates the same file."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LOCKED_SECONDS
    while True:
        try:
            await saver.conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
            return await saver.setup()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or loop.time() > until:
                raise
        await saver.conn.rollback()
        await asyncio.sleep(0.01)


async def _damage(connection: aiosqlite.Connection, file: Path) -> str:
    """Return why a file is unusable, or ""; each file is read whole once in a kernel.

    The check comes before any query of its tables: a query of a table with cyclic pages may never end.
    """
    if not await _only_stores(connection):
        return f"it has more than plain tables, a view or a trigger, which no file of threads has; {_AWAY}"
    if file in _sound:
        return ""
    rows = list(await connection.execute_fetchall("PRAGMA quick_check(1)"))
    if rows != [("ok",)]:
        return f"it is damaged; {_AWAY}"
    _sound.add(file)
    return ""


async def _only_stores(connection: aiosqlite.Connection) -> bool:
    """Whether the file has only tables and indexes: a view, a trigger or a computed column may never end."""
    statements = await connection.execute_fetchall("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 1000")
    if not all(isinstance(sql, str) and _STORED.match(sql) for (sql,) in statements):
        return False
    listed = await connection.execute_fetchall("PRAGMA main.table_list")
    if any(row[2] != "table" for row in listed):
        return False
    for table in ("checkpoints", "writes"):
        columns = await connection.execute_fetchall(f"PRAGMA main.table_xinfo({table})")
        if any(column[-1] for column in columns):  # hidden: computed
            return False
    return True


def why(error: Exception) -> str:
    """Return what an error of the file means and what to do, or "" for any other error."""
    if not isinstance(error, OSError | sqlite3.Error):
        return ""
    text = str(error)
    if "locked" in text or "busy" in text:
        return f"another process has locked it; {_ANOTHER}"
    if "not a database" in text or "malformed" in text:
        return f"it is damaged, or no SQLite file; {_AWAY}"
    if text == "interrupted":
        return f"a statement took more than {STATEMENT_SECONDS:g} seconds; {_AWAY}"
    reason = error.strerror or text if isinstance(error, OSError) else text
    return f"{reason}; {_ANOTHER}"
