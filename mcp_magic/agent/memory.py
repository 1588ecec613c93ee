"""Threads in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.memory import InMemorySaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

__all__ = ["MemoryThreads"]


class MemoryThreads(InMemorySaver):
    """Threads that end with the kernel; of each only the latest checkpoint, which holds all messages."""

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, and drop those before it."""
        placed = super().put(config, checkpoint, metadata, new_versions)
        thread, namespace = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        stored = self.storage[thread][namespace]
        for each in [each for each in stored if each < checkpoint["id"]]:
            del stored[each]
        for place in [p for p in self.writes if p[:2] == (thread, namespace) and p[2] < checkpoint["id"]]:
            del self.writes[place]
        current = checkpoint["channel_versions"]
        for blob in [b for b in self.blobs if b[:2] == (thread, namespace) and current.get(b[2]) != b[3]]:
            del self.blobs[blob]
        return placed
