"""What a listing says of each thread: written beside each checkpoint, so that no conversation is read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from mcp_magic.agent.transcript.reading import is_turn
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint

__all__ = ["SUMMARY", "newest_of", "summary_of"]

SUMMARY = "mcp_magic"
"""The key of a summary in a checkpoint's metadata."""

LAST = 80
"""Characters of the last request."""


def summary_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what a listing says of a thread, as JSON: `requests`, `steps`, `last` request, `changed` (ISO 8601)."""
    messages = checkpoint["channel_values"].get("messages")
    messages = messages if isinstance(messages, list) else []
    asked = [message for message in messages if getattr(message, "type", "") == "human"]
    return {
        "requests": len(asked),
        "steps": sum(is_turn(message) for message in messages if isinstance(message, BaseMessage)),
        "last": one_line(asked[-1].text, LAST) if asked else "",
        "changed": checkpoint["ts"],
    }


async def newest_of(saver: BaseCheckpointSaver[Any], most: int) -> list[tuple[str, dict[str, Any]]]:
    """Return names of threads and the metadata of their latest checkpoints, the latest thread first.

    A checkpointer with a method `newest` does that itself; of any other every checkpoint is read.
    """
    if hasattr(saver, "newest"):
        known: list[tuple[str, dict[str, Any]]] = await saver.newest(most)
        return known
    latest: dict[str, dict[str, Any]] = {}
    async for found in saver.alist(None):
        place = found.config["configurable"]
        about = {SUMMARY: summary_of(found.checkpoint)}
        before = latest.get(place["thread_id"])
        if not place.get("checkpoint_ns") and (
            before is None or before[SUMMARY]["changed"] < about[SUMMARY]["changed"]
        ):
            latest[place["thread_id"]] = about
    return sorted(latest.items(), key=lambda item: str(item[1][SUMMARY]["changed"]), reverse=True)[:most]
