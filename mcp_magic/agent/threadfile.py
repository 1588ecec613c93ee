"""Threads in a SQLite file. Of each only the latest checkpoint is kept, which holds all messages.

LangGraph stores the whole thread again at each step: a run of many steps would fill the disk with copies.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
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

__all__ = ["FileThreads", "open_file", "why"]

LOCKED_SECONDS = 2.0
"""Seconds to wait for another process that writes to the file."""

FREE_PAGES = 256
"""Pages, of 4 KiB, that may stay unused in the file."""

_ANOTHER = "`%config MCPMagics.threads` names another file"
_NEWEST = (
    "SELECT thread_id, metadata, MAX(checkpoint_id) AS latest FROM checkpoints "
    "WHERE checkpoint_ns = '' GROUP BY thread_id ORDER BY latest DESC LIMIT ?"
)
_LATEST = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
_INSERT = (
    "INSERT OR REPLACE INTO checkpoints "
    "(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
# An id begins with the time, and the clock may have been set back: what is older is not known by its id.
_DROP_OTHERS = "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id != ?"
_DROP_WRITES = (
    "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND (checkpoint_id < ? OR checkpoint_id = ?)"
)
_sound: set[Path] = set()


class FileThreads(AsyncSqliteSaver):
    """LangGraph's checkpointer for SQLite; each checkpoint takes the place of the one before.

    It reads messages and plain values only: a file from somebody else must not run code.
    """

    def __init__(self, connection: aiosqlite.Connection) -> None:
        super().__init__(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._stored: dict[str, str] = {}

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, and drop those before it; one without new messages is not worth it.

        Raises:
            ThreadError: Another kernel has gone on with the thread.
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
        return {
            "configurable": {**dict(zip(("thread_id", "checkpoint_ns"), key, strict=True)), "checkpoint_id": row[2]}
        }

    async def _replace(self, key: tuple[str, str], new: str, before: str, row: tuple[Any, ...]) -> None:
        if self.conn.in_transaction:  # of a run that was interrupted
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
        """Give the space of what was dropped back, if there is much of it and nobody else writes."""
        with suppress(sqlite3.Error):
            await self.conn.execute("PRAGMA busy_timeout = 0")
            ((free,),) = await self.conn.execute_fetchall("PRAGMA freelist_count")
            if free > FREE_PAGES:
                await self.conn.executescript("PRAGMA incremental_vacuum")  # `execute` frees one page only

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and the metadata of their checkpoints, the latest thread first."""
        async with self.lock:
            rows = await self.conn.execute_fetchall(_NEWEST, (most,))
        return [(thread, json.loads(about or b"{}")) for thread, about, _ in rows]


async def open_file(file: Path, stack: AsyncExitStack) -> FileThreads:
    """Open a file, or make one that only its owner may read.

    Raises:
        ThreadError: It cannot be used, in words that say why.
    """
    problem = ""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        connection = aiosqlite.connect(file, timeout=LOCKED_SECONDS)
        _let_the_kernel_end(connection)
        saver = FileThreads(await stack.enter_async_context(connection))
        await _make_tables(saver)
        await connection.execute("PRAGMA synchronous = NORMAL")  # safe in WAL mode
        problem = await _damage(connection, file)
        await connection.execute("BEGIN IMMEDIATE")
        await connection.rollback()
        stack.push_async_callback(saver.shrink)
    except (OSError, ValueError, sqlite3.Error) as error:
        problem = why(error) or str(error)
    if problem:
        raise ThreadError(f"threads cannot be kept in {file}: {problem}")
    return saver


async def _make_tables(saver: FileThreads) -> None:
    """Make what is not there yet; SQLite does not wait for somebody who makes the same new file at the same time."""
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


def _let_the_kernel_end(connection: aiosqlite.Connection) -> None:
    """Make the connection's thread one that no exit waits for: a kernel may end in the middle of a run."""
    thread: Any = getattr(connection, "_thread", connection)  # before aiosqlite 0.22 a connection was a thread
    thread.daemon = True


async def _damage(connection: aiosqlite.Connection, file: Path) -> str:
    """Return what is wrong with a file, or ""; it is read whole, so once in a kernel."""
    if file in _sound:
        return ""
    rows = list(await connection.execute_fetchall("PRAGMA quick_check(1)"))
    if rows != [("ok",)]:
        return "it is damaged; move it away, and a new one is made"
    _sound.add(file)
    return ""


def why(error: Exception) -> str:
    """Return what an error of the file means and what to do, or "" if it is none of the file's."""
    if not isinstance(error, OSError | sqlite3.Error):
        return ""
    text = str(error)
    if "locked" in text or "busy" in text:
        return f"another process has locked it; {_ANOTHER}"
    if "not a database" in text or "malformed" in text:
        return "it is damaged, or no SQLite file; move it away, and a new one is made"
    reason = error.strerror or text if isinstance(error, OSError) else text
    return f"{reason}; {_ANOTHER}"
