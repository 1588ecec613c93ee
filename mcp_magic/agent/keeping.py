"""The checkpointer of runs: it goes on in memory when the place it writes to fails, and can list its threads cheaply.

What is behind it may be any LangGraph checkpointer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from mcp_magic.agent.summaries import SUMMARY, newest_of, summary_of
from mcp_magic.errors import ThreadError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

    from mcp_magic.agent.memory import MemoryThreads

__all__ = ["Keeper"]


class Keeper(BaseCheckpointSaver[Any]):
    """A checkpointer that goes on in memory when another one fails.

    Args:
        inner: Where threads belong; None: in memory.
        spare: The memory.
        explain: What to say of an error of `inner`, or "" for one that is about a single thread.
        prunes: Whether `inner` may be told to drop all checkpoints but the latest.
        strict: Whether to raise instead of going on in memory.
        names: Takes the names of the threads that were seen.
        problem: Why it is the memory already, or "".

    Attributes:
        problem: Why it went on in memory, or "".
    """

    def __init__(
        self,
        inner: BaseCheckpointSaver[Any] | None,
        spare: MemoryThreads,
        *,
        explain: Callable[[Exception], str] = str,
        prunes: bool = False,
        strict: bool = False,
        names: dict[str, None] | None = None,
        problem: str = "",
    ) -> None:
        saver = spare if inner is None else inner
        super().__init__(serde=saver.serde)
        self.problem = problem
        self._saver, self._spare, self._inner = saver, spare, inner
        self._explain, self._prunes, self._strict = explain, prunes, strict
        self._names = {} if names is None else names
        self._lock = asyncio.Lock()
        self.get_next_version = saver.get_next_version  # type: ignore[method-assign]

    def with_allowlist(self, extra_allowlist: Any) -> Keeper:
        """Return itself: what may be read is decided where it is read."""
        return self

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the latest checkpoint of a thread."""
        thread = config["configurable"]["thread_id"]
        found: CheckpointTuple | None = await self._try(
            lambda: _sound(self._saver, config), lambda: self._spare.aget_tuple(config), thread
        )
        if self._inner is None or self.problem or self._strict:
            return found
        kept = await self._spare.aget_tuple(config)
        return kept if kept is not None and _goes_on_from(kept, found) else found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, with what a listing says of the thread."""
        thread = config["configurable"]["thread_id"]
        self._names[thread] = None
        about: Any = {**metadata, SUMMARY: summary_of(checkpoint)}

        async def instead() -> RunnableConfig:
            before = config["configurable"].get("checkpoint_id")
            known = await self._spare.aget_tuple({"configurable": {"thread_id": thread}})
            goes_on = known is not None and known.config["configurable"]["checkpoint_id"] == before
            about[SUMMARY]["after"] = _base(known) if known and goes_on else before
            # the memory may have none of the channels yet, changed or not
            return await self._spare.aput(config, checkpoint, about, checkpoint["channel_versions"])

        placed: RunnableConfig = await self._try(
            lambda: self._saver.aput(config, checkpoint, about, new_versions), instead if self._inner else None, thread
        )
        if self._inner is not None and not self.problem:
            await self._spare.adelete_thread(thread)
        return placed

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote."""
        await self._try(
            lambda: self._saver.aput_writes(config, writes, task_id, task_path),
            lambda: self._spare.aput_writes(config, writes, task_id, task_path),
            config["configurable"]["thread_id"],
        )

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the latest first."""
        async for found in (self._spare if self.problem else self._saver).alist(config, **options):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self._try(lambda: self._saver.adelete_thread(thread_id), None, thread_id)
        await self._spare.adelete_thread(thread_id)
        self._names.pop(thread_id, None)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all checkpoints but the latest, where that does not happen anyway; somebody's own stay as they are."""
        if self._prunes and not self.problem:
            with suppress(Exception):  # another kernel writes: next time
                await self._saver.aprune(thread_ids, strategy=strategy)

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and what a listing says of them, the latest first.

        Raises:
            ThreadError: The place cannot be read.
        """
        found = await self._try(lambda: newest_of(self._spare if self.problem else self._saver, most), None)
        self._names.update((thread, None) for thread, _ in found)
        return [(thread, about.get(SUMMARY) or await self._summary(thread)) for thread, about in found]

    async def _summary(self, thread: str) -> dict[str, Any]:
        """Read a thread that somebody else's graph has left."""
        try:
            found = await self._saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
            return summary_of(found.checkpoint) if found else {}
        except Exception:  # damaged; the others are listed
            return {}

    async def _try(self, do: Callable[[], Awaitable[Any]], instead: Any, thread: str = "") -> Any:
        async with self._lock:  # what waits for a locked file together would wait one after the other
            if not (self.problem and instead):
                try:
                    return await do()
                except Exception as error:  # checkpointers have no errors in common
                    problem = self._why(error, thread)
                if self._strict or instead is None or self._inner is None:
                    raise ThreadError(problem)
                self.problem = problem
        return await instead()

    def _why(self, error: Exception, thread: str) -> str:
        if isinstance(error, ThreadError):
            return str(error)
        advice = f"`%mcp agent --delete {thread}` deletes it"
        return self._explain(error) or f"the thread {thread!r} cannot be read: it is damaged; {advice}"


async def _sound(saver: BaseCheckpointSaver[Any], config: RunnableConfig) -> CheckpointTuple | None:
    """Read a checkpoint; what is damaged may well be read without an error, as something else."""
    found = await saver.aget_tuple(config)
    if found is not None and not all(isinstance(m, BaseMessage) for m in _messages(found)):
        raise ValueError
    return found


def _messages(found: CheckpointTuple) -> list[Any]:
    messages: list[Any] = found.checkpoint["channel_values"].get("messages", [])
    return messages


def _base(found: CheckpointTuple) -> Any:
    """Return the checkpoint of the failed place with which a thread in memory goes on, if any."""
    about: Any = found.metadata.get(SUMMARY)
    return about.get("after") if isinstance(about, dict) else None


def _goes_on_from(kept: CheckpointTuple, found: CheckpointTuple | None) -> bool:
    """Whether a thread in memory is the one of the place that works again, and longer; ids are in order of time."""
    base = _base(kept)
    return found is None or (base is not None and str(found.config["configurable"]["checkpoint_id"]) <= base)
