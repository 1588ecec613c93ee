"""One turn of a model, streamed, with the arguments of its calls read to the letter, and each call under its own id.

LangChain completes arguments that end in the middle (a stream that broke off, a limit of tokens) to what looks whole:
`{"path": "/home/me/pro` becomes a path, and a tool would be called with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks

from mcp_magic.agent.callids import with_own_ids
from mcp_magic.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.messages.tool import ToolCallChunk
    from langchain_core.runnables import Runnable

__all__ = ["exact", "take_turn"]

_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS")
"""What OpenAI, Anthropic and Google say of an answer that reached its limit of tokens."""


async def take_turn(model: Runnable[Any, Any], messages: Sequence[BaseMessage]) -> AIMessage:
    """Return what a model answers; calls whose arguments are not whole are in `invalid_tool_calls`.

    Args:
        model: The model.
        messages: The conversation; no call gets an id that one of it has.

    Raises:
        ModelError: It answered nothing at all.
    """
    parts = [part async for part in model.astream(list(messages))]
    if not parts:
        raise ModelError("the model answered nothing; try again")
    chunks = [part for part in parts if isinstance(part, AIMessageChunk)]
    if len(chunks) < len(parts):  # a model that does not stream gives its whole message
        whole = parts[-1] if isinstance(parts[-1], AIMessage) else AIMessage(str(getattr(parts[-1], "content", "")))
        return with_own_ids(whole, messages)
    return with_own_ids(exact(add_ai_message_chunks(chunks[0], *chunks[1:])), messages)


def exact(answer: AIMessageChunk) -> AIMessage:
    """Return a streamed answer as a message, with those calls only whose arguments are JSON objects as they stand.

    >>> cut = {"name": "delete", "args": '{"path": "/home/me/pro', "id": "1", "index": 0, "type": "tool_call_chunk"}
    >>> whole = exact(AIMessageChunk("", tool_call_chunks=[cut]))
    >>> whole.tool_calls, whole.invalid_tool_calls[0]["args"]
    ([], '{"path": "/home/me/pro')
    """
    message = message_chunk_to_message(answer)
    assert isinstance(message, AIMessage)
    if not answer.tool_call_chunks:
        return message
    metadata = answer.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("status")
    # at its limit, or OpenAI's without a word why it ends
    unfinished = reason in _CUT_OFF or (not reason and metadata.get("model_provider") == "openai")
    whole = [_arguments(chunk, unfinished) for chunk in answer.tool_call_chunks]
    if all(arguments is not None for arguments in whole):
        return message
    message.tool_calls, message.invalid_tool_calls = [], []
    for chunk, arguments in zip(answer.tool_call_chunks, whole, strict=True):
        call: dict[str, Any] = {"name": chunk["name"] or "", "id": chunk["id"]}
        if arguments is not None:
            message.tool_calls.append({**call, "args": arguments, "type": "tool_call"})  # type: ignore[typeddict-item]
        else:
            cut: dict[str, Any] = {"args": chunk["args"] or "", "error": "the arguments are not whole"}
            message.invalid_tool_calls.append({**call, **cut, "type": "invalid_tool_call"})  # type: ignore[typeddict-item]
    return message


def _arguments(chunk: ToolCallChunk, unfinished: bool) -> dict[str, Any] | None:
    if not chunk["args"]:
        return None if unfinished else {}
    try:
        arguments = json.loads(chunk["args"], strict=False)  # a line end inside of a text is whole
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None
