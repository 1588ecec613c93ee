"""A model's message as the reply to a sampling request."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic.core.sampling.sampling import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AIMessage
    from mcp_types import ToolUseContent

__all__ = ["Own", "to_sampled"]

_REASONS = {
    "stop": "endTurn",
    "end_turn": "endTurn",
    "completed": "endTurn",
    "length": "maxTokens",
    "max_tokens": "maxTokens",
    "max_output_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
}
"""What OpenAI, Anthropic, Google and others say of the end of an answer -> the protocol's word for it."""


Own = Callable[[str, Mapping[str, Any]], tuple[str, dict[str, Any]]]
"""Returns a tool's own name and arguments for those that a model knows."""


def to_sampled(
    message: AIMessage,
    *,
    model: str,
    stop_sequences: Sequence[str] = (),
    own: Own | None = None,
    notes: Sequence[str] = (),
) -> Sampled:
    """Return what a model said as the reply.

    Args:
        message: What it said.
        model: Its name, where the message does not say it.
        stop_sequences: Texts that end the reply, also where the provider has not seen to that.
        own: Tells the server's names; None where the model may call no tool.
        notes: What was not done as it was asked for.
    """
    from mcp_types import TextContent

    calls = [] if own is None else [_use(call, own) for call in message.tool_calls]
    text, stopped = (message.text, False) if calls else _stopped(message.text, stop_sequences)
    content: list[Any] = [TextContent(text=text)] if text else []
    content += [*([] if stopped else _media(message)), *calls]
    said = [*notes]
    if message.invalid_tool_calls:
        said.append("calls whose arguments were not whole were left out")
    if message.tool_calls and own is None:
        said.append("calls of tools that it may not call were left out")
    metadata = message.response_metadata
    reason = "toolUse" if calls else "stopSequence" if stopped else _reason(metadata)
    name = str(metadata.get("model_name") or metadata.get("model") or model)
    return Sampled(tuple(content) or (TextContent(text=""),), name, reason, tuple(said))


def _use(call: Mapping[str, Any], own: Own) -> ToolUseContent:
    from mcp_types import ToolUseContent

    name, arguments = own(call["name"], call["args"])
    return ToolUseContent(name=name, id=call["id"] or f"call_{uuid.uuid4().hex[:12]}", input=arguments)


def _stopped(text: str, stop_sequences: Sequence[str]) -> tuple[str, bool]:
    """Return a text up to the first stop sequence, and whether there is one.

    >>> _stopped("one, two END three", ["END", ","])
    ('one', True)
    """
    found = [at for at in (text.find(each) for each in stop_sequences if each) if at >= 0]
    return (text[: min(found)], True) if found else (text, False)


def _reason(metadata: Mapping[str, Any]) -> str:
    said = metadata.get("stop_reason") or metadata.get("finish_reason") or metadata.get("done_reason") or "stop"
    reason = _REASONS.get(str(said).lower(), str(said))
    return "endTurn" if reason == "toolUse" else reason


def _media(message: AIMessage) -> list[Any]:
    """Return images and sounds that the model has made."""
    from mcp_types import AudioContent, ImageContent

    if isinstance(message.content, str):
        return []
    kinds: dict[str, Any] = {"image": ImageContent, "audio": AudioContent}
    blocks: list[Any] = [block for block in message.content_blocks if block["type"] in kinds]
    usual = {"image": "image/png", "audio": "audio/wav"}
    return [
        kinds[block["type"]](data=block["base64"], mime_type=block.get("mime_type") or usual[block["type"]])
        for block in blocks
        if block.get("base64")
    ]
