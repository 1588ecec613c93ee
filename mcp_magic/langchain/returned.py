"""What a LangChain tool returned or raised, as the result of an MCP tool."""

from __future__ import annotations

import functools
import json
import math
from typing import TYPE_CHECKING, Any

from mcp_magic.core.foreign import leaf
from mcp_magic.errors import ArgumentsError, MCPMagicError, ToolError
from mcp_magic.langchain.content import result_of
from mcp_magic.results import ToolResult
from mcp_magic.schema.values import to_json_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import BaseMessage
    from mcp_types import CallToolResult, ContentBlock
    from pydantic import TypeAdapter

__all__ = ["to_error", "to_result"]

_OURS = {"server", "tool", "is_error", "content", "structured_content"}
"""Keys of the artifact that our own tools leave in a message (`langchain/content.py`)."""

_NOT_JSON: Any = object()


def to_result(returned: Any) -> CallToolResult:
    """Return a tool's value as an MCP result.

    Text is a text block, a list of text and content blocks one block each. Other values are JSON, as text and as
    structured content, which is an object: what is none comes as `{"result": ...}`. Of a message the content
    becomes the blocks, and the artifact, where it has a JSON form, the structured content.

    Raises:
        ToolError: The value is a command to a graph, and there is none.
    """
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.tool import ToolOutputMixin

    if isinstance(returned, BaseMessage):
        return _of_message(returned)
    if any(isinstance(each, ToolOutputMixin) for each in (returned if isinstance(returned, list) else [returned])):
        kind = type(returned).__name__
        raise ToolError(f"the tool answered with a {kind} for a LangGraph graph, which an MCP client cannot carry out.")
    return _of_value(returned)


def to_error(error: Exception) -> CallToolResult:
    """Return an exception as an MCP result: its message, without a traceback; of a failed MCP tool its own result."""
    from langchain_core.messages import ToolMessage
    from mcp_types import CallToolResult, TextContent

    found = leaf(error)
    artifact = getattr(found, "artifact", None)
    if _is_ours(artifact):
        content: Any = getattr(found, "content", str(found))
        return _of_message(ToolMessage(content, artifact=artifact, status="error", tool_call_id=""))
    return CallToolResult(content=[TextContent(text=_reason(found))], is_error=True)


def _reason(found: BaseException) -> str:
    from langchain_core.tools import ToolException
    from pydantic import ValidationError

    if not str(found) and found.__cause__ is not None:
        found = found.__cause__  # what LangChain makes of a StopIteration
    if isinstance(found, ValidationError):
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ") for each in found.errors()]
        return f"{found.title} cannot take these values: {'; '.join(problems)}"
    if isinstance(found, ToolException | MCPMagicError) and str(found):
        return str(found)
    return f"{type(found).__name__}: {found}".removesuffix(": ")


def _is_ours(artifact: Any) -> bool:
    return isinstance(artifact, dict) and artifact.keys() >= _OURS


def _of_message(message: BaseMessage) -> CallToolResult:
    from langchain_core.messages import ToolMessage

    artifact = getattr(message, "artifact", None)
    failed = getattr(message, "status", "success") == "error"
    raw = _raw(artifact)
    if isinstance(message, ToolMessage) and _is_ours(artifact):
        raw = result_of(message).raw
    if raw is not None:
        return raw.model_copy(update={"is_error": raw.is_error or failed})
    result = _of_value(message.content)
    structured = None if artifact is None else _boxed(_plain(artifact))
    return result.model_copy(update={"structured_content": structured, "is_error": failed})


def _of_value(value: Any) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    raw = _raw(value)
    if raw is not None:
        return raw
    blocks = [] if value is None else _blocks(value)
    if blocks is not None:
        return CallToolResult(content=blocks)
    plain = _plain(value)
    if plain is _NOT_JSON or isinstance(plain, str):
        return CallToolResult(content=[TextContent(text=_text(value) if plain is _NOT_JSON else plain)])
    text = json.dumps(plain, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=_boxed(plain))


def _raw(value: Any) -> CallToolResult | None:
    """Return the MCP result that a value is, or holds."""
    from mcp_types import CallToolResult

    held = value.raw if isinstance(value, ToolResult) else value
    return held if isinstance(held, CallToolResult) else None


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return _NOT_JSON  # in a list or a table it is null; alone it is what the tool has to say
    try:
        return to_json_value(value)
    except ArgumentsError:
        return _NOT_JSON


def _boxed(plain: Any) -> dict[str, Any] | None:
    """Return a JSON value as structured content: an object, since protocol versions before 2026-07-28 take no other."""
    if plain is _NOT_JSON:
        return None
    return plain if isinstance(plain, dict) else {"result": plain}


def _text(value: Any) -> str:
    """Return what LangChain would show a model of a value that is no JSON."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _blocks(value: Any) -> list[ContentBlock] | None:
    """Return the content blocks that a value is; None if it is data."""
    if isinstance(value, dict):
        return None
    items = value if isinstance(value, list | tuple) else [value]
    blocks = [_block(item, number) for number, item in enumerate(items, 1)]
    found = [block for block in blocks if block is not None]
    return found if found and len(found) == len(blocks) else None


def _block(item: Any, number: int) -> ContentBlock | None:
    from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    if isinstance(item, TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource):
        return item
    if type(item) is str:
        return TextContent(text=item)
    if isinstance(item, dict) and isinstance(item.get("type"), str):
        return _wire_block(item) or _langchain_block(item, number)
    return None


def _wire_block(item: dict[str, Any]) -> ContentBlock | None:
    """Return a dict that is an MCP content block as it stands."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(item)
    except ValidationError:
        return None


@functools.cache
def _adapter() -> TypeAdapter[ContentBlock]:
    from mcp_types import ContentBlock
    from pydantic import TypeAdapter

    return TypeAdapter(ContentBlock)


def _langchain_block(item: dict[str, Any], number: int) -> ContentBlock | None:
    """Return a content block of LangChain, or of a provider LangChain can read, as MCP has it."""
    from langchain_core.messages import HumanMessage
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent

    block: Mapping[str, Any] = next(iter(HumanMessage([item]).content_blocks), {})
    kind, mime = block.get("type", ""), block.get("mime_type")
    if isinstance(block.get("text"), str):
        return TextContent(text=block["text"])
    if isinstance(block.get("url"), str):
        return ResourceLink(name=f"{kind} {number}", uri=block["url"], mime_type=mime)
    if not isinstance(block.get("base64"), str):
        return None
    if kind == "image":
        return ImageContent(data=block["base64"], mime_type=mime or "image/png")
    if kind == "audio":
        return AudioContent(data=block["base64"], mime_type=mime or "audio/wav")
    contents = BlobResourceContents(uri=f"attachment:{number}", mime_type=mime, blob=block["base64"])
    return EmbeddedResource(resource=contents)
