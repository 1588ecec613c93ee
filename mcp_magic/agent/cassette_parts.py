"""Answers of chat models as lines of a cassette, and lines as answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from mcp_magic.core.cassette.take import masked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.agent.cassette_turns import Turn
    from mcp_magic.core.cassette import Cassette

__all__ = ["chunks", "hidden", "message_fields", "whole"]

_KEPT = ("content", "additional_kwargs", "response_metadata", "usage_metadata", "id", "name", "chunk_position")
_CALLS = ("tool_calls", "invalid_tool_calls")


def message_fields(message: Any) -> dict[str, Any]:
    """Return a message, or a chunk of one, as a line has it."""
    names = (*_KEPT, "tool_call_chunks") if isinstance(message, AIMessageChunk) else (*_KEPT, *_CALLS)
    found = {name: getattr(message, name, None) for name in names}
    return {name: value for name, value in found.items() if value or name == "content"}


def hidden(cassette: Cassette, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what came with its secrets masked; chunks that one is spread over become one answer."""
    if not parts or "answer" in parts[0]:
        return [{**part, "answer": _masked(cassette, part["answer"])} for part in parts]
    message = _joined([part["chunk"] for part in parts])
    whole = message_fields(message)
    if (hidden := _masked(cassette, whole)) != json.loads(json.dumps(whole, default=str)):
        return [{"answer": hidden}]
    return [{**part, "chunk": _masked(cassette, part["chunk"])} for part in parts]


def _masked(cassette: Cassette, kept: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its secrets masked; counts of tokens are none, whatever they are called."""
    found: dict[str, Any] = masked(cassette, kept, "")
    plain = json.loads(json.dumps(kept, default=str))
    for name in ("usage_metadata", "response_metadata"):
        for inner, value in plain.get(name, {}).items():
            if name == "usage_metadata" or "usage" in inner:
                found[name][inner] = value
    return found


def _joined(chunks: list[dict[str, Any]]) -> AIMessage:
    first, *others = [AIMessageChunk(**chunk) for chunk in chunks]
    message = message_chunk_to_message(add_ai_message_chunks(first, *others))
    assert isinstance(message, AIMessage)
    return message


def whole(turn: Turn) -> ChatResult:
    """Return a turn as a whole answer."""
    answers: list[dict[str, Any]] = [part["answer"] for part in turn.parts if "answer" in part]
    if not turn.parts:
        message = AIMessage(content="")
    else:
        message = AIMessage(**answers[0]) if answers else _joined([part["chunk"] for part in turn.parts])
    return ChatResult(generations=[ChatGeneration(message=message)])


def chunks(turn: Turn) -> Iterator[tuple[float, ChatGenerationChunk]]:
    """Yield a turn's chunks, each with the pause before it."""
    for part in turn.parts:
        chunk = AIMessageChunk(**part["chunk"]) if "chunk" in part else _one_chunk(AIMessage(**part["answer"]))
        yield float(part.get("pause", 0.0)), ChatGenerationChunk(message=chunk)


def _one_chunk(message: AIMessage) -> AIMessageChunk:
    calls: list[Any] = [
        {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": number}
        for number, call in enumerate(message.tool_calls)
    ]
    calls += [{**call, "index": len(calls) + number} for number, call in enumerate(message.invalid_tool_calls)]
    kept = {name: value for name, value in message_fields(message).items() if name not in _CALLS}
    return AIMessageChunk(**{**kept, "tool_call_chunks": calls, "chunk_position": "last"})
