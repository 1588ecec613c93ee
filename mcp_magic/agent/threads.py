"""Threads: the stored conversations of agents, in a file, a database or memory."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
import uuid
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.entries import is_turn
from mcp_magic.agent.graph import AgentState
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.masking import mask_text
from mcp_magic.config.parsing import working_path
from mcp_magic.display.text import one_line
from mcp_magic.errors import MissingDependencyError, ThreadError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple


# The place of threads: a SQLite file, PostgreSQL, memory, or any LangGraph checkpointer.
# A place that cannot be used does not stop a run: the run goes on in memory and says so.

MEMORY = ":memory:"  # the place of threads that end with the kernel

TAB_SECONDS = 0.05  # seconds that Tab may wait for a file that is locked

READING_SECONDS = 0.3  # seconds that Tab may read a file

_DATABASE = re.compile(r"postgres(ql)?://")
_names_by_place: dict[Any, dict[str, None]] = {}


def default_file() -> Path:
    """Return the default file, in Jupyter's data directory."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "threads.sqlite"


def new_thread_name(request: str) -> str:
    """Return a new thread name: the first words of the request and a random suffix."""
    words = re.findall(r"[a-z0-9]+", request.lower().replace("'", ""))[:4]
    return "-".join([*(word[:16] for word in words), uuid.uuid4().hex[:4]])


@asynccontextmanager
async def open_threads(where: Any = None, *, fall_back: bool = True) -> AsyncIterator[FallbackSaver]:
    """Open the place of threads for one run or one listing; without `fall_back`, ThreadError if it cannot be used."""
    where = _place(where)
    problem = ""
    async with AsyncExitStack() as stack:
        try:
            saver = await _open(where, stack, strict=not fall_back)
        except ThreadError as error:
            problem = str(error)
        if problem and not fall_back:
            raise ThreadError(problem)
        yield FallbackSaver(None, memory_threads(), "memory", problem=problem) if problem else saver


async def _open(where: Any, stack: AsyncExitStack, *, strict: bool) -> FallbackSaver:
    options: dict[str, Any] = {"strict": strict, "names": _names_by_place.setdefault(_key(where), {})}
    saver: Any = None
    why: Callable[[Exception], str] = str
    if not isinstance(where, str | Path | None):
        if not isinstance(where, BaseCheckpointSaver):
            expected = f"a file, {MEMORY}, postgresql://..., or a LangGraph checkpointer"
            raise ThreadError(f"threads cannot be kept in {one_line(repr(where), 40)}: {expected} is expected")
        label, saver, why = type(where).__name__, where, _foreign
    elif (text := str(where or "")) == MEMORY:
        label = "memory"
    elif _DATABASE.match(text):
        label = mask_text(text)
        try:
            from mcp_magic.agent.postgres import open_database, why
        except ImportError:
            needs = f"{label} needs PostgreSQL's checkpointer: `pip install 'mcp-magic[postgres]'`"
            raise MissingDependencyError(needs) from None
        saver = await open_database(text, label, stack)
        options["prunes"] = True
    else:
        from mcp_magic.agent import sqlite

        file = working_path(text) if text else default_file()
        label, saver, why = str(file), await sqlite.open_file(file, stack), sqlite.why
    return FallbackSaver(saver, memory_threads(), label, why=why, **options)


def _foreign(error: Exception) -> str:
    from mcp_magic.agent.failures import without_secrets

    return one_line(without_secrets(str(error) or type(error).__name__), 200)


def _place(where: Any) -> Any:
    """Return the place of threads: memory with a cassette, as other kernels' messages match no recording."""
    return MEMORY if where is None and deck.cassette is not None else where


@cache
def memory_threads() -> MemoryThreads:
    """Return the threads of this kernel."""
    return MemoryThreads()


def _key(where: Any) -> Any:
    return str(where or "") if isinstance(where, str | Path | None) else id(where)


def thread_names(where: Any = None) -> list[str]:
    """Return names of threads without opening the place: those in a file; elsewhere those that this kernel has seen."""
    where = _place(where)
    text = str(where or "")
    if not isinstance(where, str | Path | None) or text == MEMORY or _DATABASE.match(text):
        return sorted(_names_by_place.get(_key(where), ()))
    query = (
        "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' AND length(thread_id) <= 1000 "
        "GROUP BY thread_id ORDER BY MAX(checkpoint_id)"
    )
    names: list[str] = []
    with suppress(sqlite3.Error, OSError, ValueError):
        file = working_path(text) if text else default_file()
        uri = f"{file.as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=TAB_SECONDS)) as connection:
            until = time.monotonic() + READING_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            connection.execute("PRAGMA trusted_schema = OFF")
            names = [str(name) for (name,) in connection.execute(f"{query} DESC LIMIT 1000")]
    return names


# The summary that a listing shows of each thread. Checkpoints store it, so a listing reads no conversation.

SUMMARY = "mcp_magic"  # the key of the summary in a checkpoint's metadata

LAST = 80  # characters of the last request in a summary


def summary_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return a thread's summary as JSON: `requests`, `turns`, `last` (request), `changed`."""
    messages = checkpoint["channel_values"].get("messages", [])
    requests = [message for message in messages if getattr(message, "type", "") == "human"]
    return {
        "requests": len(requests),
        "turns": sum(is_turn(message) for message in messages if isinstance(message, BaseMessage)),
        "last": one_line(requests[-1].text, LAST) if requests else "",
        "changed": checkpoint["ts"],
    }


def messages_in(stored: CheckpointTuple | None) -> list[BaseMessage]:
    """Return the messages of a checkpoint."""
    messages: list[BaseMessage] = stored.checkpoint["channel_values"].get("messages", []) if stored else []
    return messages


async def newest_of(saver: BaseCheckpointSaver[Any], most: int) -> list[tuple[str, dict[str, Any]]]:
    """Return names of threads and the metadata of their latest checkpoints, newest first."""
    if hasattr(saver, "newest"):
        newest: list[tuple[str, dict[str, Any]]] = await saver.newest(most)
        return newest
    rows = [
        (str(stored.config["configurable"]["thread_id"]), {SUMMARY: summary_of(stored.checkpoint)})
        async for stored in saver.alist(None)
        if not stored.config["configurable"].get("checkpoint_ns")
    ]
    latest: dict[str, dict[str, Any]] = {}
    for thread, about in sorted(rows, key=lambda row: str(row[1][SUMMARY]["changed"]), reverse=True):
        latest.setdefault(thread, about)
    return list(latest.items())[:most]


# The checkpointer of runs: it goes on in memory when its place fails, and lists threads cheaply.
# It wraps any LangGraph checkpointer.


class FallbackSaver(BaseCheckpointSaver[Any]):
    """A checkpointer that goes on in memory when the wrapped one fails."""

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any] | None,
        spare: MemoryThreads,
        where: str,
        *,
        why: Callable[[Exception], str] = str,
        prunes: bool = False,
        strict: bool = False,
        names: dict[str, None] | None = None,
        problem: str = "",
    ) -> None:
        saver = spare if inner is None else inner
        super().__init__(serde=saver.serde)
        self.where, self.problem = where, problem
        self._saver, self._spare, self._inner = saver, spare, inner
        self._why, self._prunes, self._strict = why, prunes, strict
        self._names = {} if names is None else names
        self._lock = asyncio.Lock()
        self.get_next_version = saver.get_next_version  # type: ignore[method-assign]

    def with_allowlist(self, extra_allowlist: Any) -> FallbackSaver:
        """Return itself: the wrapped serializer decides which types it reads."""
        return self

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the latest checkpoint of a thread."""
        thread = config["configurable"]["thread_id"]
        stored: CheckpointTuple | None = await self._try(
            lambda: _newest_readable(self._saver, config), lambda: self._spare.aget_tuple(config), thread
        )
        if self._inner is None or self.problem or self._strict:
            return stored
        in_memory = await self._spare.aget_tuple(config)
        ids = [message.id for message in messages_in(stored)]
        continues = ids == [message.id for message in messages_in(in_memory)[: len(ids)]]
        return in_memory if in_memory is not None and continues else stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint with the thread's summary."""
        thread = config["configurable"]["thread_id"]
        self._names[thread] = None
        about: Any = {**metadata, SUMMARY: summary_of(checkpoint)}

        placed: RunnableConfig = await self._try(
            lambda: self._saver.aput(config, checkpoint, about, new_versions),
            lambda: self._spare.aput(config, checkpoint, about, new_versions),
            thread,
        )
        if self._inner is not None and not self.problem:
            await self._spare.adelete_thread(thread)
        return placed

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save the writes of a node."""
        await self._try(
            lambda: self._saver.aput_writes(config, writes, task_id, task_path),
            lambda: self._spare.aput_writes(config, writes, task_id, task_path),
            config["configurable"]["thread_id"],
        )

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the latest first."""
        async for stored in (self._spare if self.problem else self._saver).alist(config, **options):
            yield stored

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self._try(lambda: self._saver.adelete_thread(thread_id), None, thread_id)
        await self._spare.adelete_thread(thread_id)
        self._names.pop(thread_id, None)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all checkpoints but the latest, if `prunes` is set; a checkpointer of the user keeps them all."""
        if self._prunes and not self.problem:
            with suppress(Exception):  # another kernel may be writing; the next prune drops them
                await self._saver.aprune(thread_ids, strategy=strategy)

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and their summaries, newest first; ThreadError if they cannot be read."""
        threads = await self._try(lambda: newest_of(self._spare if self.problem else self._saver, most), None)
        self._names.update((thread, None) for thread, _ in threads)
        return [(thread, about.get(SUMMARY) or {}) for thread, about in threads]

    async def _try(self, do: Callable[[], Awaitable[Any]], instead: Any, thread: str = "") -> Any:
        async with self._lock:  # without the lock, each call would wait for a locked file in turn
            if not (self.problem and instead):
                try:
                    return await do()
                except Exception as error:  # checkpointers share no error class
                    problem = self._explain(error, thread)
                if self._strict or instead is None or self._inner is None:
                    raise ThreadError(problem)
                self.problem = problem
        return await instead()

    def _explain(self, error: Exception, thread: str) -> str:
        if isinstance(error, ThreadError):
            return str(error)
        if why := self._why(error):
            return f"threads cannot be kept in {self.where}: {why}"
        advice = f"`%mcp agent --delete {thread}` deletes it"
        return f"the thread {thread!r} cannot be read: it is damaged; {advice}"


async def _newest_readable(saver: BaseCheckpointSaver[Any], config: RunnableConfig) -> CheckpointTuple | None:
    """Read a checkpoint. Damaged data may decode without an error to other values, so the messages are checked."""
    stored = await saver.aget_tuple(config)
    if not all(isinstance(message, BaseMessage) for message in messages_in(stored)):
        raise ValueError
    return stored


class MemoryThreads(InMemorySaver):
    """Threads that end with the kernel. Each keeps only its latest checkpoint, which holds all messages."""

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint in place of the earlier ones."""
        self.delete_thread(config["configurable"]["thread_id"])
        return super().put(config, checkpoint, metadata, checkpoint["channel_versions"])


# Operations on stored threads: list, read, fork at an earlier turn, delete.

MOST = 1000  # the most threads in a listing


class ThreadSummary(NamedTuple):
    """A thread in a listing."""

    thread: str
    requests: int
    turns: int
    last: str
    changed_at: str


async def list_threads(saver: FallbackSaver) -> list[ThreadSummary]:
    """Return the threads, most recently used first; ThreadError if they cannot be read."""
    return [
        ThreadSummary(
            thread, about.get("requests", 0), about.get("turns", 0), about.get("last", ""), about.get("changed", "")
        )
        for thread, about in await saver.newest(MOST)
    ]


async def messages_of(saver: FallbackSaver, thread: str) -> list[BaseMessage]:
    """Return the messages of a thread; ThreadError if there is none or it cannot be read."""
    messages = await _messages(saver, thread)
    if not messages:
        await _check_known(saver, thread)
    return messages


async def _check_known(saver: FallbackSaver, thread: str) -> None:
    names = [summary.thread for summary in await list_threads(saver)]
    if thread not in names:
        there = f"There are: {join_names(names)}" if names else "`%%mcp_agent` begins one."
        raise ThreadError(f"no thread {thread!r}.{did_you_mean(thread, names)} {there}")


async def fork_thread(saver: FallbackSaver, thread: str, turn: int | None, name: str) -> int:
    """Copy a thread up to one of its turns and return how many turns the copy has; ThreadError if that cannot be."""
    messages = until_turn(await messages_of(saver, thread), turn, thread)
    if await _messages(saver, name):
        raise ThreadError(f"there is a thread {name!r} already; `%mcp agent --delete {name}` deletes it")
    graph = StateGraph(AgentState).add_node("keep", lambda state: {}).add_edge(START, "keep")
    writer = graph.compile(checkpointer=saver)  # LangGraph writes the state of a thread through a graph
    await writer.aupdate_state({"configurable": {"thread_id": name}}, {"messages": messages}, as_node="keep")
    return sum(map(is_turn, messages))


def until_turn(messages: Sequence[BaseMessage], turn: int | None, thread: str) -> list[BaseMessage]:
    """Return the messages up to a turn of the model and the answers to its calls."""
    if turn is None:
        return list(messages)
    places = [index for index, message in enumerate(messages) if is_turn(message)]
    if not 1 <= turn <= len(places):
        there = f"it has the turns 1 to {len(places)}" if places else "no model has answered in it yet"
        raise ThreadError(f"the thread {thread!r} has no turn {turn}; {there}")
    end = places[turn - 1] + 1
    while end < len(messages) and messages[end].type == "tool":
        end += 1
    return list(messages[:end])


async def delete_thread(saver: FallbackSaver, thread: str) -> None:
    """Delete a thread; ThreadError if there is none."""
    await _check_known(saver, thread)
    await saver.adelete_thread(thread)


async def _messages(saver: FallbackSaver, thread: str) -> list[BaseMessage]:
    return messages_in(await saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}))
