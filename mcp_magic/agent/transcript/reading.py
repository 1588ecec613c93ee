"""What messages hold, whoever made them: text, thoughts, pictures, calls, tokens, errors.

Pure functions over LangChain messages. Providers differ, and old threads hold the formats of their day.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.messages import BaseMessage

__all__ = [
    "TOKENS",
    "Wanted",
    "add_usage",
    "artifact_of",
    "failed",
    "images_of",
    "is_stop",
    "is_turn",
    "model_of",
    "seconds_of",
    "text_of",
    "thinking_of",
    "tokens_of",
    "wanted_by",
]

TOKENS = ("input_tokens", "output_tokens", "total_tokens")

_THOUGHTS = ("thinking", "reasoning", "reasoning_content", "redacted_thinking")
_MODELS = ("ai", "AIMessageChunk")
_PICTURES = ("image", "image_url", "input_image", "image_file")


class Wanted(NamedTuple):
    """A call that a message asks for.

    Attributes:
        id: The call's id, or "".
        name: The tool's name as the model says it.
        arguments: What it gives; `{"arguments": text}` if that is no JSON object.
    """

    id: str
    name: str
    arguments: dict[str, Any]


def _blocks(message: BaseMessage) -> list[Any]:
    content: Any = message.content
    return [content] if isinstance(content, str) else list(content or ())


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: its text blocks together, without thoughts and pictures.

    >>> from langchain_core.messages import AIMessage
    >>> text_of(AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, "b"]))
    'ab'
    """
    return "".join(block if isinstance(block, str) else _block_text(block) for block in _blocks(message))


def _block_text(block: Any) -> str:
    is_text = isinstance(block, dict) and block.get("type") in ("text", "output_text", "input_text", "refusal")
    return str(block.get("text") or block.get("refusal") or "") if is_text else ""


def thinking_of(message: BaseMessage) -> str:
    """Return what a model thought before it spoke, where the provider tells.

    >>> from langchain_core.messages import AIMessage
    >>> thinking_of(AIMessage([{"type": "reasoning", "summary": [{"text": "so"}]}, {"type": "text", "text": "a"}]))
    'so'
    """
    thoughts = [_thought(b) for b in _blocks(message) if isinstance(b, dict) and b.get("type") in _THOUGHTS]
    said = message.additional_kwargs.get("reasoning_content")
    return "\n\n".join(text for text in [*thoughts, str(said or "")] if text)


def _thought(block: Mapping[str, Any]) -> str:
    for key in ("thinking", "reasoning", "reasoning_content", "text", "summary"):
        value = block.get(key)
        if isinstance(value, dict):  # Bedrock: {"reasoning_content": {"text": ...}}
            value = value.get("text")
        if isinstance(value, list):  # OpenAI: {"summary": [{"text": ...}, ...]}
            value = "\n\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
        if value:
            return str(value)
    return ""


def images_of(message: BaseMessage) -> int:
    """Return how many pictures a message holds."""
    return sum(isinstance(block, dict) and block.get("type") in _PICTURES for block in _blocks(message))


def wanted_by(message: BaseMessage) -> list[Wanted]:
    """Return the calls of a model's turn: LangChain's, those whose arguments are no JSON, and OpenAI's old format.

    >>> from langchain_core.messages import BaseMessage
    >>> old = {"tool_calls": [{"id": "1", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
    >>> wanted_by(BaseMessage(content="", type="ai", additional_kwargs=old))
    [Wanted(id='1', name='add', arguments={'a': 1})]
    """
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    if calls:
        return [Wanted(str(c.get("id") or ""), str(c.get("name") or ""), _object(c.get("args"))) for c in calls]
    legacy = message.additional_kwargs.get("tool_calls")
    found = [call for call in (legacy if isinstance(legacy, list) else ()) if isinstance(call, dict)]
    return [_legacy(call) for call in found]


def _legacy(call: Mapping[str, Any]) -> Wanted:
    function: Any = call.get("function")
    said: Mapping[str, Any] = function if isinstance(function, dict) else call
    return Wanted(str(call.get("id") or ""), str(said.get("name") or ""), _object(said.get("arguments")))


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return {"arguments": value}
    if isinstance(value, dict):
        return {str(name): inner for name, inner in value.items()}
    return {} if value is None else {"arguments": value}


def artifact_of(message: BaseMessage) -> dict[str, Any]:
    """Return the artifact of a tool's message, as the bridge makes it; {} for one of another kind, or none."""
    artifact = getattr(message, "artifact", None)
    if isinstance(artifact, ToolResult):
        return {"server": artifact.server, "tool": artifact.tool, "seconds": artifact.seconds}
    return artifact if isinstance(artifact, dict) else {}


def seconds_of(artifact: Mapping[str, Any]) -> float | None:
    """Return how long the call took, or None where nobody knows."""
    seconds = artifact.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else None


def failed(message: BaseMessage) -> bool:
    """Whether a tool's message tells of an error: by its status, its artifact, or its first word.

    >>> from langchain_core.messages import ToolMessage
    >>> failed(ToolMessage("Error: no such city", tool_call_id="1")), failed(ToolMessage("ok", tool_call_id="1"))
    (True, False)
    """
    artifact = getattr(message, "artifact", None)
    if isinstance(artifact, dict) and isinstance(artifact.get("is_error"), bool):
        return bool(artifact["is_error"]) or getattr(message, "status", "") == "error"
    return getattr(message, "status", "") == "error" or text_of(message).lstrip().startswith("Error:")


def is_stop(message: BaseMessage) -> bool:
    """Whether a message is the words with which a run ends that has had all its turns: ours, not the model's."""
    return bool(message.type in _MODELS and message.response_metadata.get("stopped") == "max_steps")


def is_turn(message: BaseMessage) -> bool:
    """Whether a message is a turn of the model.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> stop = AIMessage("Stopped.", response_metadata={"stopped": "max_steps"})
    >>> [is_turn(message) for message in (HumanMessage("a"), AIMessage("b"), stop)]
    [False, True, False]
    """
    return message.type in _MODELS and not is_stop(message)


def tokens_of(message: BaseMessage) -> dict[str, int]:
    """Return input, output and total tokens of a turn; {} where the model tells none.

    >>> from langchain_core.messages import AIMessage
    >>> tokens_of(AIMessage("", response_metadata={"token_usage": {"prompt_tokens": 3, "completion_tokens": 2}}))
    {'input_tokens': 3, 'output_tokens': 2, 'total_tokens': 5}
    """
    metadata = message.response_metadata
    told: Any = getattr(message, "usage_metadata", None) or metadata.get("token_usage") or metadata.get("usage")
    if not isinstance(told, dict):
        return {}
    given = _count(told.get("input_tokens", told.get("prompt_tokens")))
    made = _count(told.get("output_tokens", told.get("completion_tokens")))
    total = _count(told.get("total_tokens")) or given + made
    return dict(zip(TOKENS, (given, made, total), strict=True)) if total else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def add_usage(usages: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of token counts; {} if there are none."""
    total: dict[str, int] = {}
    for usage in usages:
        for key, count in usage.items():
            total[key] = total.get(key, 0) + count
    return total


def model_of(message: BaseMessage) -> str:
    """Return the model's name as the provider says it, or ""."""
    metadata = message.response_metadata
    return str(metadata.get("model_name") or metadata.get("model") or metadata.get("model_id") or "")
