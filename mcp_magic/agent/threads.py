"""Where conversations are kept: a SQLite file, PostgreSQL, memory, or any LangGraph checkpointer.

A place that cannot be used does not stop a run: it goes on in memory, and says so.
"""

from __future__ import annotations

import re
import sqlite3
import time
import uuid
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.masking import mask_text
from mcp_magic.core.cassette.deck import deck
from mcp_magic.errors import MissingDependencyError, ThreadError
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.agent.keeping import Keeper
    from mcp_magic.agent.memory import MemoryThreads

__all__ = ["MEMORY", "Opened", "default_file", "new_thread_name", "open_threads", "prune", "thread_names"]

MEMORY = ":memory:"
"""Threads that end with the kernel."""

TAB_SECONDS = 0.05
"""Seconds that Tab may wait for a file that is locked."""

READING_SECONDS = 0.3
"""Seconds that Tab may read one."""

_DATABASE = re.compile(r"postgres(ql)?://")
_memory: list[MemoryThreads] = []
_seen: dict[Any, dict[str, None]] = {}


@dataclass(frozen=True)
class Opened:
    """Threads that can be used now.

    Attributes:
        saver: LangGraph's checkpointer.
        where: What to call the place.
    """

    saver: Keeper
    where: str

    @property
    def problem(self) -> str:
        """Why it is the memory instead of the place that was asked for, or ""; that may come late."""
        return self.saver.problem


def default_file() -> Path:
    """Return the file in Jupyter's data directory."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "threads.sqlite"


def new_thread_name(request: str) -> str:
    """Return a name for the thread of a request: its first words, and something that makes it unique.

    >>> new_thread_name("What's the weather in Oslo today?")[:-5]
    'whats-the-weather-in'
    """
    words = re.findall(r"[a-z0-9]+", request.lower().replace("'", ""))[:4]
    return "-".join([*(word[:16] for word in words), uuid.uuid4().hex[:4]])


@asynccontextmanager
async def open_threads(where: Any = None, *, fall_back: bool = True) -> AsyncIterator[Opened]:
    """Open the place where threads are kept, for one run or one listing.

    Args:
        where: A file, `":memory:"`, `"postgresql://..."`, a LangGraph checkpointer, or None for the default file.
        fall_back: Whether to go on in memory if the place cannot be used, or fails later.

    Raises:
        ThreadError: It cannot be used; only without `fall_back`.
        MissingDependencyError: PostgreSQL's package is not installed.
    """
    from mcp_magic.agent.keeping import Keeper

    where = _place(where)
    problem = ""
    async with AsyncExitStack() as stack:
        try:
            opened = await _open(where, stack, strict=not fall_back)
        except ThreadError as error:
            problem = str(error)
        if problem and not fall_back:
            raise ThreadError(problem)
        yield Opened(Keeper(None, _in_memory(), problem=problem), "memory") if problem else opened


async def _open(where: Any, stack: AsyncExitStack, *, strict: bool) -> Opened:
    from mcp_magic.agent.keeping import Keeper

    options: dict[str, Any] = {"strict": strict, "names": _seen.setdefault(_key(where), {})}
    async with AsyncExitStack() as opening:
        if not isinstance(where, str | Path | None):
            called, saver = type(where).__name__, _checkpointer(where)
            options["explain"] = lambda error: _foreign(called, error)
        elif (text := str(where or "")) == MEMORY:
            called, saver = "memory", None
        elif _DATABASE.match(text):
            called = mask_text(text)
            saver, why = await _open_database(text, called, opening)
            options |= {"explain": lambda error: _said(called, why(error)), "prunes": True}
        else:
            from mcp_magic.agent.threadfile import open_file, why

            file = _file(text)
            called, saver = str(file), await open_file(file, opening)
            options["explain"] = lambda error: _said(called, why(error))
        stack.push_async_exit(opening.pop_all())
    return Opened(Keeper(saver, _in_memory(), **options), called)


def _checkpointer(where: Any) -> Any:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    if isinstance(where, BaseCheckpointSaver):
        return where
    expected = f"a file, {MEMORY}, postgresql://..., or a LangGraph checkpointer"
    raise ThreadError(f"threads cannot be kept in {one_line(repr(where), 40)}: {expected} is expected")


async def _open_database(url: str, where: str, stack: AsyncExitStack) -> tuple[Any, Any]:
    try:
        from mcp_magic.agent.threaddatabase import open_database, why
    except ImportError:
        pass
    else:
        return await open_database(url, where, stack), why
    raise MissingDependencyError(f"{where} needs PostgreSQL's checkpointer: `pip install 'mcp-magic[postgres]'`")


def _foreign(called: str, error: Exception) -> str:
    from mcp_magic.agent.modelerrors import without_secrets

    return _said(called, one_line(without_secrets(str(error) or type(error).__name__), 200))


def _said(called: str, why: str) -> str:
    return f"threads cannot be kept in {called}: {why}" if why else ""


def _place(where: Any) -> Any:
    """Return where threads are kept: with a cassette in, and no place named, in memory.

    What another kernel has left of a thread would be in each request to a model, and none would be the recorded one.
    """
    return MEMORY if where is None and deck.cassette is not None else where


def _file(text: str) -> Path:
    return Path(text).expanduser().absolute() if text else default_file()


def _in_memory() -> MemoryThreads:
    from mcp_magic.agent.memory import MemoryThreads

    if not _memory:
        _memory.append(MemoryThreads())
    return _memory[0]


def _key(where: Any) -> Any:
    return str(where or "") if isinstance(where, str | Path | None) else id(where)


def thread_names(where: Any = None) -> list[str]:
    """Return names of threads without opening the place: those in a file, elsewhere those seen by this kernel.

    Args:
        where: As for `open_threads`.
    """
    where = _place(where)
    text = str(where or "")
    if not isinstance(where, str | Path | None) or text == MEMORY or _DATABASE.match(text):
        return sorted(_seen.get(_key(where), ()))
    query = (
        "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' AND length(thread_id) <= 1000 "
        "GROUP BY thread_id ORDER BY MAX(checkpoint_id)"
    )
    names: list[str] = []
    with suppress(sqlite3.Error, OSError, ValueError):
        uri = f"{_file(text).as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=TAB_SECONDS)) as connection:
            until = time.monotonic() + READING_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
            connection.execute("PRAGMA trusted_schema = OFF")
            names = [str(name) for (name,) in connection.execute(f"{query} DESC LIMIT 1000")]
    return names


async def prune(saver: Any, thread: str) -> None:
    """Drop all checkpoints of a thread but the latest, which holds all messages, where that does not happen anyway.

    Each step stores the whole thread again: a run of many steps would fill the disk with copies.
    """
    with suppress(NotImplementedError):
        await saver.aprune([thread], strategy="keep_latest")
