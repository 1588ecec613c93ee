"""What a server's `sampling/createMessage` says, whether that makes sense, and what is answered to it on the wire."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mcp_magic.core.sampling.sampling import SamplingRequest
from mcp_magic.results.badges import app_only
from mcp_magic.results.limits import size_text
from mcp_magic.results.safe import is_base64, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_types import CreateMessageRequestParams, CreateMessageResult, CreateMessageResultWithTools

    from mcp_magic.core.sampling.sampling import Sampled

__all__ = ["read_request", "recorded", "senseless", "wire_result"]


def read_request(server: str, params: CreateMessageRequestParams) -> SamplingRequest:
    """Return what a server asks for; tools that it offers to apps only are left out."""
    choice = params.tool_choice.mode if params.tool_choice is not None else None
    spoken_of = params.tools is not None or params.tool_choice is not None
    return SamplingRequest(
        server=server,
        messages=tuple(params.messages),
        max_tokens=params.max_tokens,
        system_prompt=params.system_prompt or "",
        temperature=params.temperature,
        stop_sequences=tuple(params.stop_sequences or ()),
        preferences=params.model_preferences,
        tools=tuple(tool for tool in params.tools or () if not app_only(tool)) if spoken_of else None,
        tool_choice=choice or "auto",
        include_context=params.include_context or "none",
        metadata=dict(params.metadata or {}),
    )


def senseless(asked: SamplingRequest, *, takes_tools: bool) -> str:
    """Return why a request cannot be answered by anybody; "" if it can.

    Source: specification 2025-11-25, "Sampling", error codes and message constraints.
    """
    if asked.tools is not None and not takes_tools:
        return "tools in a sampling request, but the capability sampling.tools was not announced"
    if not asked.messages:
        return "a sampling request without messages"
    if asked.max_tokens < 1:
        return f"maxTokens must be at least 1, not {asked.max_tokens}"
    if asked.temperature is not None and not (math.isfinite(asked.temperature) and asked.temperature >= 0):
        return f"temperature must be a number from 0 on, not {asked.temperature}"
    if not all(asked.stop_sequences):
        return "a stop sequence must not be empty"
    names = [tool.name for tool in asked.tools or ()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"two tools are called {one_line(twice, 100)!r}"
    if asked.tool_choice == "required" and not names:
        return "toolChoice is 'required', but there are no tools"
    return _broken_media(asked) or _unpaired(asked)


def _broken_media(asked: SamplingRequest) -> str:
    for number, message in enumerate(asked.messages, 1):
        for block in message.content_as_list:
            if block.type in ("image", "audio") and not is_base64(block.data):
                return f"the {block.type} in message {number} is not base64"
    return ""


def _unpaired(asked: SamplingRequest) -> str:
    """Return what is wrong between calls of tools and their results."""
    open_: set[str] = set()
    for number, message in enumerate(asked.messages, 1):
        results = [block.tool_use_id for block in message.content_as_list if block.type == "tool_result"]
        uses = [block.id for block in message.content_as_list if block.type == "tool_use"]
        if results and (message.role != "user" or len(results) < len(message.content_as_list)):
            return f"tool results mixed with other content in message {number}"
        if uses and message.role != "assistant":
            return f"a tool use in message {number}, which is no assistant's"
        if set(results) != open_ or len(results) != len(open_):
            return f"tool result missing in request: message {number} does not answer each tool use before it once"
        if len(set(uses)) < len(uses):
            return f"two tool uses of the same id in message {number}"
        open_ = set(uses)
    return "tool result missing in request: the last message asks for tools" if open_ else ""


def wire_result(asked: SamplingRequest, reply: Sampled) -> CreateMessageResult | CreateMessageResultWithTools:
    """Return a reply as the protocol has it: one block, or several where the server speaks of tools."""
    from mcp_types import CreateMessageResult, CreateMessageResultWithTools

    if asked.tools is not None:
        content: Any = list(reply.content)
        return CreateMessageResultWithTools(
            role="assistant", content=content, model=reply.model, stop_reason=reply.stop_reason
        )
    return CreateMessageResult(role="assistant", content=_one(reply), model=reply.model, stop_reason=reply.stop_reason)


def _one(reply: Sampled) -> Any:
    """Return the texts as one block, or the first that is no text."""
    from mcp_types import TextContent

    others = [block for block in reply.content if block.type in ("image", "audio")]
    return others[0] if others and not reply.text else TextContent(text=reply.text)


def recorded(asked: SamplingRequest, model: str, mask: Callable[[str], str]) -> dict[str, Any]:
    """Return a request for the audit: what was asked for, media by their size.

    Args:
        asked: What was asked for.
        model: The model that would answer, or "".
        mask: Masks the server's secrets in a text.
    """
    said: dict[str, Any] = {"model": model} if model else {}
    said |= {"systemPrompt": asked.system_prompt} if asked.system_prompt else {}
    said["messages"] = [
        {"role": message.role, "content": _blocks(message.content_as_list)} for message in asked.messages
    ]
    said["maxTokens"] = asked.max_tokens
    said |= {"tools": [tool.name for tool in asked.tools]} if asked.tools else {}
    hidden: dict[str, Any] = _masked(said, mask)
    return hidden


def _blocks(blocks: Sequence[Any]) -> list[Any]:
    shown: list[Any] = []
    for block in blocks:
        dumped = block.model_dump(mode="json", by_alias=True, exclude_none=True)
        if block.type in ("image", "audio"):
            dumped["data"] = size_text(len(block.data) * 3 // 4)
        if block.type == "tool_result":
            dumped["content"] = _blocks(block.content)
        shown.append(dumped)
    return shown


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _masked(inner, mask) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, mask) for inner in value]
    return mask(value) if isinstance(value, str) else value
