"""Threads in a SQLite file, each with only its latest checkpoint and one row for each message.

LangGraph stores the whole thread again at each step. Here a step adds the rows of its own messages. Files in which a
checkpoint holds all messages are read, and the next step of such a thread writes its rows.

The file is readable by its owner alone, and reading it runs no code from it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from itertools import takewhile
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langgraph.checkpoint.base import get_checkpoint_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from mcp_magic.errors import ThreadError
from mcp_magic.sqlite import LARGEST, STATEMENT_SECONDS, BoundedConnection, is_sound, only_stores

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AsyncExitStack
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple


T = TypeVar("T")

LOCKED_SECONDS = 2.0  # seconds to wait while another process writes to the file

FREE_PAGES = 256  # pages of 4 KiB that may stay unused in the file

_AWAY = "move it away, and a new one is made"
_TABLES = ("checkpoints", "writes", "thread_messages")
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
_MESSAGES = """
CREATE TABLE IF NOT EXISTS thread_messages (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, position INTEGER NOT NULL, message BLOB NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, position)
)
"""
_SIZE = "SELECT SUM(length(message)) FROM thread_messages WHERE thread_id = ? AND checkpoint_ns = ?"
_READ = "SELECT message FROM thread_messages WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY position"
_CUT = "DELETE FROM thread_messages WHERE thread_id = ? AND checkpoint_ns = ? AND position >= ?"
_APPEND = "INSERT INTO thread_messages VALUES (?, ?, ?, ?)"
_sound: set[Path] = set()
# its messages quote names from the file, which may control a terminal; unreadable data raises an error anyway
logging.getLogger("langgraph.checkpoint.serde.jsonplus").addFilter(lambda record: False)


class _MessagesOnly(JsonPlusSerializer):
    """Reads only msgpack with messages and plain values; LangGraph's old JSON can create any of LangChain's objects."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] == "json":
            raise NotImplementedError
        return super().loads_typed(data)


class _Known(NamedTuple):
    """The messages that a thread has in the file at a checkpoint, and the bytes that they take there."""

    checkpoint: str
    messages: list[Any]
    size: int


class FileThreads(SqliteSaver):
    """LangGraph's checkpointer for SQLite; each checkpoint replaces the one before.

    It reads only messages and plain values: a file from somebody else must not run code. A thread of its own does the
    work, each operation in one piece. A kernel that ends does not wait for it.
    """

    def __init__(self, file: Path) -> None:
        connection = sqlite3.connect(file, timeout=LOCKED_SECONDS, factory=BoundedConnection, check_same_thread=False)
        super().__init__(connection, serde=_MessagesOnly())
        self._closed = False
        self._stored: dict[str, str] = {}
        self._known: dict[tuple[str, str], _Known] = {}
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work_off, name="mcp_magic threads", daemon=True).start()

    def _work_off(self) -> None:
        while (item := self._work.get()) is not None:
            future, do = item
            try:
                future.set_result(do())
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self.conn.rollback()
                future.set_exception(error)

    async def run(self, do: Callable[[], T]) -> T:
        """Run a function on the thread of the file; a cancelled one is still run to its end."""
        if self._closed:
            raise sqlite3.ProgrammingError("the file is closed")
        future: Future[T] = Future()
        self._work.put((future, do))
        return await asyncio.shield(asyncio.wrap_future(future))

    async def close(self) -> None:
        """Close the file, and end its thread."""
        await self.run(self.conn.close)
        self._closed = True
        self._work.put(None)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the latest checkpoint of a thread with its messages."""
        return await self.run(lambda: self._read(config))

    def _read(self, config: RunnableConfig) -> CheckpointTuple | None:
        self.conn.execute("BEGIN")  # another kernel may write meanwhile
        try:
            stored = self.get_tuple(config)
            if stored is None or "messages" in stored.checkpoint["channel_values"]:
                return stored
            key, checkpoint = _key(stored.config), stored.checkpoint["id"]
            cached = self._known.get(key)
            if cached is None or cached.checkpoint != checkpoint:
                ((size,),) = self.conn.execute(_SIZE, key)
                _check_size(size or 0)
                messages = [
                    self.serde.loads_typed(("msgpack", message)) for (message,) in self.conn.execute(_READ, key)
                ]
                cached = self._known[key] = _Known(checkpoint, messages, size or 0)
        finally:
            self.conn.rollback()
        if "messages" in stored.checkpoint["channel_versions"]:
            stored.checkpoint["channel_values"]["messages"] = list(cached.messages)
        return stored

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield the only checkpoint of a thread."""
        stored = await self.aget_tuple(config) if config else None
        if stored is not None:
            yield stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint and drop the earlier ones; a checkpoint without new messages is not written."""
        key, parent = _key(config), config["configurable"].get("checkpoint_id")
        placed: Any = {"thread_id": key[0], "checkpoint_ns": key[1], "checkpoint_id": checkpoint["id"]}
        before = self._stored.get(parent or "", parent or "")
        if "messages" not in new_versions:
            self._stored[checkpoint["id"]] = before
            return {"configurable": placed}
        about = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "replace")
        values = dict(checkpoint["channel_values"])
        messages = list(values.pop("messages", ()))
        stored = self.serde.dumps_typed({**checkpoint, "channel_values": values})
        row = (*key, checkpoint["id"], parent, *stored, about)
        await self.run(lambda: self._replace(key, messages, before, row))
        return {"configurable": placed}

    def _replace(self, key: tuple[str, str], messages: list[Any], before: str, row: tuple[Any, ...]) -> None:
        new = row[2]
        self.conn.execute("BEGIN IMMEDIATE")
        ((latest,),) = self.conn.execute(_LATEST, key)
        if latest is not None and before < latest != new:
            raise ThreadError(f"another kernel has gone on with the thread {key[0]!r} meanwhile")
        cached = self._known.pop(key, None)
        if cached is None or cached.checkpoint != latest:
            cached = _Known("", [], 0)
            self.conn.execute(_CUT, (*key, 0))
        pairs = zip(cached.messages, messages, strict=False)
        count, size = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs)), cached.size
        if count < len(cached.messages):
            self.conn.execute(_CUT, (*key, count))
            ((size,),) = self.conn.execute(_SIZE, key)
        added = [self.serde.dumps_typed(message)[1] for message in messages[count:]]
        size = (size or 0) + sum(map(len, added))
        _check_size(size)
        self.conn.executemany(_APPEND, [(*key, count + number, message) for number, message in enumerate(added)])
        self.conn.execute(_INSERT, row)
        self.conn.execute(_DROP_OTHERS, (*key, new))
        self.conn.execute(_DROP_WRITES, (*key, new, latest if latest != new else None))
        self.conn.commit()
        self._known[key] = _Known(new, messages, size)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save the writes of a node."""
        await self.run(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""

        def delete() -> None:
            self.conn.execute("DELETE FROM thread_messages WHERE thread_id = ?", (thread_id,))
            self.delete_thread(thread_id)

        await self.run(delete)

    def shrink(self) -> None:
        """Return free space to the disk, if there is much and no other process writes."""
        with suppress(sqlite3.Error):
            self.conn.execute("PRAGMA busy_timeout = 0")
            ((free,),) = self.conn.execute("PRAGMA freelist_count")
            if free > FREE_PAGES:
                self.conn.executescript("PRAGMA incremental_vacuum")  # `execute` frees one page only

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and the metadata of their checkpoints, newest thread first."""
        rows = await self.run(lambda: self.conn.execute(_NEWEST, (most,)).fetchall())
        return [(thread, json.loads(about or b"{}")) for thread, about, _ in rows]

    def prepare(self, file: Path) -> None:
        """Check the file, and make missing tables; retry, as SQLite does not wait while others create the same file."""
        until = time.monotonic() + LOCKED_SECONDS
        while True:
            try:
                return self._prepare(file)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
            self.conn.rollback()
            time.sleep(0.01)

    def _prepare(self, file: Path) -> None:
        if problem := _damage(self.conn, file):
            raise ThreadError(problem)
        self.conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self.setup()
        self.conn.execute(_MESSAGES)
        self.conn.commit()
        self.conn.execute("PRAGMA synchronous = NORMAL")  # safe in WAL mode
        self.conn.execute("BEGIN IMMEDIATE")
        self.conn.rollback()


def _key(config: RunnableConfig) -> tuple[str, str]:
    place = config["configurable"]
    return str(place["thread_id"]), str(place.get("checkpoint_ns", ""))


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise sqlite3.DataError("string or blob too big")


async def open_file(file: Path, stack: AsyncExitStack) -> FileThreads:
    """Open a file, or create one that only its owner may read; ThreadError if it cannot be used."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        saver = FileThreads(file)
        stack.push_async_callback(saver.close)
        await saver.run(lambda: saver.prepare(file))
    except (OSError, ValueError, sqlite3.Error, ThreadError) as error:
        problem = f"threads cannot be kept in {file}: {why(error) or error}"
    else:
        stack.push_async_callback(saver.run, saver.shrink)
        return saver
    raise ThreadError(problem)


def _damage(connection: sqlite3.Connection, file: Path) -> str:
    """Return why a file is unusable, or ""; each file is read whole once in a kernel.

    The check comes before any query of its tables: a query of a table with cyclic pages may never end.
    """
    if not only_stores(connection, _TABLES):
        return f"it has more than plain tables, a view or a trigger, which no file of threads has; {_AWAY}"
    if file in _sound:
        return ""
    if not is_sound(connection):
        return f"it is damaged; {_AWAY}"
    _sound.add(file)
    return ""


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
