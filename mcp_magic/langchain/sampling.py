"""A sampling request as LangChain messages.

What a model does not take (images, sound, types that no provider takes) it reads a line about.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.langchain.names import MAX_NAME, provider_name
from mcp_magic.langchain.reading import Reader
from mcp_magic.results.content import message_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic.core.sampling.sampling import SamplingRequest

__all__ = ["Renamed", "Takes", "called", "to_messages", "unread"]

WHOLE = 1_000_000_000
"""Characters: what the person has seen is read whole."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")


class Takes(NamedTuple):
    """What a model reads beside text.

    Attributes:
        images: Images in messages.
        audio: Sound in messages.
        tool_images: Images in what tools answered.
    """

    images: bool = False
    audio: bool = False
    tool_images: bool = False


class Renamed(NamedTuple):
    """A tool as the model knows it.

    Attributes:
        name: Its name for the model.
        arguments: The tool's own names of arguments, by those that the model is given instead.
    """

    name: str
    arguments: Mapping[str, str]


def called(name: str) -> str:
    """Return the name under which a model knows a server's tool: its own, where providers take that.

    >>> called("add"), called("files/read it")
    ('add', 'tool__files_read_it_9c3280')
    """
    return name if _NAME.fullmatch(name) else provider_name("tool", name)


def to_messages(asked: SamplingRequest, takes: Takes, tools: Mapping[str, Renamed]) -> list[BaseMessage]:
    """Return the conversation.

    Args:
        asked: The request.
        takes: What the model reads.
        tools: By their own names, the tools as the model knows them.
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
    """Return a turn of the model; providers take no media in it."""
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
    """Return one text as a string, everything else as content blocks."""
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
    """Return an id of a call that providers take; the same for the call and for its result."""
    return given if _ID.fullmatch(given) else f"call_{hashlib.sha256(given.encode()).hexdigest()[:24]}"


def unread(asked: SamplingRequest, takes: Takes) -> list[str]:
    """Return what the model would only read a line about.

    >>> from mcp_types import ImageContent, SamplingMessage
    >>> image = ImageContent(data="aGk=", mime_type="image/png")
    >>> from mcp_magic.core.sampling.sampling import SamplingRequest
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
