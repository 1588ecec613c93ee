"""The texts of a sampling request and of its reply, to be changed by the person.

Images and the like stay as they are. A text that is emptied is left out, and so is a message that nothing is left of.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.jsontext import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mcp_types import Tool

    from mcp_magic.core.sampling.sampling import Sampled, SamplingRequest

__all__ = ["Text", "reply_texts", "request_texts", "with_reply_texts", "with_request_texts"]


class Text(NamedTuple):
    """One text.

    Attributes:
        label: What it is.
        text: What it says.
    """

    label: str
    text: str


def request_texts(asked: SamplingRequest) -> list[Text]:
    """Return the system prompt, "" if there is none, and the texts of the messages."""
    texts = [Text("system prompt", asked.system_prompt)]
    for number, message in enumerate(asked.messages, 1):
        blocks = [block for block in message.content_as_list if block.type == "text"]
        texts += [Text(f"message {number}, {message.role}", block.text) for block in blocks]
    return texts


def with_request_texts(asked: SamplingRequest, texts: Sequence[str]) -> SamplingRequest:
    """Return a request with other texts; the very same one if they are no others.

    Args:
        asked: The request.
        texts: As many as `request_texts` returns.

    Raises:
        ArgumentsError: Nothing would be asked.
    """
    if [each.text for each in request_texts(asked)] == list(texts):
        return asked
    system, rest = texts[0], iter(texts[1:])
    messages = []
    for message in asked.messages:
        blocks = list(_replaced(message.content_as_list, rest))
        if blocks:
            messages.append(message.model_copy(update={"content": blocks if len(blocks) > 1 else blocks[0]}))
    if not messages:
        raise ArgumentsError("no message is left: nothing would be asked")
    return replace(asked, system_prompt=system, messages=tuple(messages))


def _replaced(blocks: Iterable[Any], texts: Iterator[str]) -> Iterator[Any]:
    for block in blocks:
        if block.type != "text":
            yield block
        elif text := next(texts):
            yield block if text == block.text else block.model_copy(update={"text": text})


def reply_texts(reply: Sampled) -> list[Text]:
    """Return the texts of a reply, and the arguments of the tools that it calls as JSON."""
    texts = []
    for block in reply.content:
        if block.type == "text":
            texts.append(Text("reply", block.text))
        elif block.type == "tool_use":
            written = json.dumps(block.input, ensure_ascii=False, indent=2, default=str)
            texts.append(Text(f"arguments of {block.name}, JSON", written))
    return texts


def with_reply_texts(reply: Sampled, texts: Sequence[str], tools: Iterable[Tool]) -> Sampled:
    """Return a reply with other texts; the very same one if they are no others.

    Args:
        reply: The reply.
        texts: As many as `reply_texts` returns; without its arguments a call is left out.
        tools: The tools that may be called.

    Raises:
        ArgumentsError: Arguments are no JSON object, or do not fit the tool's schema.
    """
    if [each.text for each in reply_texts(reply)] == list(texts):
        return reply
    known, rest = {tool.name: tool for tool in tools}, iter(texts)
    content: list[Any] = []
    for block in reply.content:
        text = next(rest) if block.type in ("text", "tool_use") else ""
        if block.type == "text":
            content += [block.model_copy(update={"text": text})] if text else []
        elif block.type != "tool_use":
            content.append(block)
        elif text.strip():
            arguments = _arguments(block.name, text, known.get(block.name))
            content.append(block.model_copy(update={"input": arguments}))
    if not content:
        raise ArgumentsError("nothing is left of the reply; refuse it instead")
    calls = any(block.type == "tool_use" for block in content)
    reason = "endTurn" if reply.stop_reason == "toolUse" and not calls else reply.stop_reason
    return replace(reply, content=tuple(content), stop_reason=reason)


def _arguments(name: str, text: str, tool: Tool | None) -> dict[str, Any]:
    problem = ""
    try:
        value = read_json(text)
    except ValueError as error:
        problem = f"the arguments of {name} are no JSON: {error}"
    else:
        if not isinstance(value, dict):
            problem = f"the arguments of {name} are a JSON object, not {type(value).__name__}"
    if problem:
        raise ArgumentsError(problem)
    if tool is not None:
        schema.check_arguments(value, tool.input_schema)
    return dict(value)
