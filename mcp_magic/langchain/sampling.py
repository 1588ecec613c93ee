"""Conversion of sampling requests to LangChain messages, and of a model's message to the reply."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.ask.sampling import Sampled
from mcp_magic.langchain.content import Reader
from mcp_magic.langchain.names import provider_name
from mcp_magic.lint import MAX_NAME
from mcp_magic.results.content import message_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from mcp_types import ToolUseContent

    from mcp_magic.ask.sampling import SamplingRequest

__all__ = ["Own", "Renamed", "Takes", "called", "to_messages", "to_sampled", "unread"]


# A sampling request as LangChain messages.
# For media that the model does not take (images, sound, types that no provider takes) it reads a line of text.

WHOLE = 1_000_000_000
"""Limit of characters without effect: the model reads all that the user has seen."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")


class Takes(NamedTuple):
    """The media that a model reads beside text.

    Attributes:
        images: Images in messages.
        audio: Sound in messages.
        tool_images: Images in results of tools.
    """

    images: bool = False
    audio: bool = False
    tool_images: bool = False


class Renamed(NamedTuple):
    """The names that the model gets for a tool.

    Attributes:
        name: The tool's name for the model.
        arguments: The model's names of renamed arguments -> the tool's own names.
    """

    name: str
    arguments: Mapping[str, str]


def called(name: str) -> str:
    """Return a tool's name for the model: its own if providers accept that.

    >>> called("add"), called("files/read it")
    ('add', 'tool__files_read_it_9c3280')
    """
    return name if _NAME.fullmatch(name) else provider_name("tool", name)


def to_messages(asked: SamplingRequest, takes: Takes, tools: Mapping[str, Renamed]) -> list[BaseMessage]:
    """Return the conversation of a request.

    Args:
        asked: The request.
        takes: The media that the model reads.
        tools: The tools' own names -> the model's names.
    """
    from langchain_core.messages import SystemMessage

    messages: list[BaseMessage] = [SystemMessage(asked.system_prompt)] if asked.system_prompt else []
    for message in asked.messages:
        blocks = message.content_as_list
        if message.role == "assistant":
            messages.append(_assistant(blocks, tools))
        elif blocks and blocks[0].type == "tool_result":
            messages += [_result(block, takes) for block in blocks]
        else:
            messages.append(_user(blocks, takes))
    return messages


def _user(blocks: Sequence[Any], takes: Takes) -> BaseMessage:
    from langchain_core.messages import HumanMessage

    return HumanMessage(content=_content(blocks, takes))


def _assistant(blocks: Sequence[Any], tools: Mapping[str, Renamed]) -> BaseMessage:
    """Return a turn of the model, without media, since providers take none there."""
    from langchain_core.messages import AIMessage

    calls: list[Any] = []
    for block in blocks:
        if block.type == "tool_use":
            known = tools.get(block.name) or Renamed(called(block.name), {})
            given = {own: name for name, own in known.arguments.items()}
            arguments = {given.get(name, name): value for name, value in block.input.items()}
            calls.append({"name": known.name, "args": arguments, "id": _id(block.id), "type": "tool_call"})
    return AIMessage(content=_content([b for b in blocks if b.type != "tool_use"], Takes()), tool_calls=calls)


def _result(block: Any, takes: Takes) -> BaseMessage:
    from langchain_core.messages import ToolMessage

    content = _content(block.content, Takes(images=takes.tool_images))
    if not content and block.structured_content is not None:
        content = json.dumps(block.structured_content, ensure_ascii=False)
    status: Any = "error" if block.is_error else "success"
    return ToolMessage(content=content, tool_call_id=_id(block.tool_use_id), status=status)


def _content(blocks: Iterable[Any], takes: Takes) -> Any:
    """Return a single text as a string, anything else as content blocks."""
    parts = [_part(block, takes) for block in blocks]
    if all(part["type"] == "text" for part in parts) and len(parts) < 2:
        return parts[0]["text"] if parts else ""
    return parts


def _part(block: Any, takes: Takes) -> dict[str, Any]:
    if block.type == "audio" and takes.audio:
        return message_block(block)
    reader = Reader(images=takes.images, limit=WHOLE)
    reader.add(block)
    [read] = reader.finish()
    return {"type": "text", "text": read} if isinstance(read, str) else read


def _id(given: str) -> str:
    """Return a call's id in a form that providers accept; it is the same for a call and its result."""
    return given if _ID.fullmatch(given) else f"call_{hashlib.sha256(given.encode()).hexdigest()[:24]}"


def unread(asked: SamplingRequest, takes: Takes) -> list[str]:
    """Return notes about media that the model cannot read.

    >>> from mcp_types import ImageContent, SamplingMessage
    >>> image = ImageContent(data="aGk=", mime_type="image/png")
    >>> from mcp_magic.ask.sampling import SamplingRequest
    >>> unread(SamplingRequest("s", (SamplingMessage(role="user", content=image),), 10), Takes())
    ['1 image is not shown to the model']
    """
    missed: Counter[str] = Counter()
    for message in asked.messages:
        reads = takes if message.role == "user" else Takes()
        for block in message.content_as_list:
            inner, seen = (block.content, Takes(takes.tool_images)) if block.type == "tool_result" else ([block], reads)
            media = (each for each in inner if each.type in ("image", "audio"))
            missed.update(each.type for each in media if _part(each, seen)["type"] == "text")
    kinds = {"image": ("image is", "images are"), "audio": ("sound is", "sounds are")}
    return [f"{count} {kinds[kind][count > 1]} not shown to the model" for kind, count in missed.items()]


# The reply to a sampling request, from a model's message.

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
"""Finish reasons of OpenAI, Anthropic, Google and others -> the protocol's."""


Own = Callable[[str, Mapping[str, Any]], tuple[str, dict[str, Any]]]
"""Returns a tool's own name and arguments for the model's."""


def to_sampled(
    message: AIMessage,
    *,
    model: str,
    stop_sequences: Sequence[str] = (),
    own: Own | None = None,
    notes: Sequence[str] = (),
) -> Sampled:
    """Return the reply for a model's message.

    Args:
        message: The model's message.
        model: The model's name, if the message has none.
        stop_sequences: Texts that end the reply, even if the provider ignored them.
        own: Returns the server's names; None if the model may call no tool.
        notes: Which parts of the request were not followed.
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
    """Return the images and sounds of a model's message."""
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
