"""The ids of a turn's calls: each its own, in the whole conversation.

What is decided about a call, and what answers it, is known by its id. A model (or whoever speaks through it) that names
two calls the same would have one decided with the answer to the other, and providers refuse such a conversation.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.state import calls_of
from mcp_magic.wording import free_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["with_own_ids"]

MAX_ID = 40
"""Characters that every provider takes in the id of a call."""

_BLOCK_IDS = {"tool_use": "id", "tool_call": "id", "invalid_tool_call": "id", "function_call": "call_id"}
"""Blocks of a message's content that are calls, by their types -> where their id is."""


def with_own_ids(answer: AIMessage, before: Iterable[BaseMessage] = ()) -> AIMessage:
    """Give each call of a turn an id that no other has; the first of several keeps it.

    Args:
        answer: The turn.
        before: The conversation that it goes on with.

    >>> from langchain_core.messages import AIMessage
    >>> calls = [{"name": name, "args": {}, "id": "call_1"} for name in ("prod__delete", "test__delete")]
    >>> [call["id"] for call in with_own_ids(AIMessage("", tool_calls=calls)).tool_calls]
    ['call_1', 'call_1_2']
    """
    earlier: Iterable[Any] = (message for message in before if message.type == "ai")
    taken = {call["id"] for message in earlier for call in calls_of(message)}
    given: dict[str, list[str]] = defaultdict(list)

    def own(call: Any) -> Any:
        old = call.get("id") or ""
        new = free_name(old, taken, MAX_ID) if old else f"call_{uuid.uuid4().hex[:12]}"
        taken.add(new)
        given[old].append(new)
        return {**call, "id": new}

    changed = {name: [own(call) for call in getattr(answer, name)] for name in ("tool_calls", "invalid_tool_calls")}
    if all(new == [old] for old, new in given.items()):
        return answer
    if not isinstance(answer.content, str):
        changed["content"] = [_renamed(block, given) for block in answer.content]
    return answer.model_copy(update=changed)


def _renamed(block: Any, given: dict[str, list[str]]) -> Any:
    """Return a block of content with the id of its call: provider packages send those blocks as they are."""
    key = _BLOCK_IDS.get(block.get("type", "")) if isinstance(block, dict) else None
    new = given.get(block.get(key)) if key else None
    return {**block, key: new.pop(0)} if new else block
