"""A tool's message, back as the value that the tool answered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.transcript.reading import failed
from mcp_magic.results import ToolResult

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage

    from mcp_magic.agent.transcript.entries import Called

__all__ = ["result_value"]

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def result_value(message: ToolMessage, called: Called) -> ToolResult:
    """Return what a tool answered: from the artifact of our bridge, else from the message's content."""
    artifact = message.artifact
    if isinstance(artifact, ToolResult):
        return artifact
    if isinstance(artifact, dict) and "content" in artifact and "tool" in artifact:
        from mcp_magic.langchain.content import result_of

        result = result_of(message)
    else:
        result = _from_content(message, called)
    if result.output_schema is None and called.definition is not None:
        result.output_schema = called.definition.output_schema
    return result


def _from_content(message: ToolMessage, called: Called) -> ToolResult:
    from mcp_types import CallToolResult

    content: Any = message.content
    blocks = [content] if isinstance(content, str) else list(content)
    raw = CallToolResult(content=[_block(block) for block in blocks if block], is_error=failed(message))
    return ToolResult(raw, server=called.server, tool=called.tool, seconds=called.seconds or 0.0)


def _block(block: Any) -> Any:
    from mcp_types import ImageContent, TextContent

    if isinstance(block, str):
        return TextContent(text=block)
    kind = str(block.get("type", "")) if isinstance(block, dict) else ""
    if kind in ("text", "output_text"):
        return TextContent(text=str(block.get("text", "")))
    image = _image(block) if kind in ("image", "image_url") else None
    if image is not None:
        return ImageContent(mime_type=image[0], data=image[1])
    return TextContent(text=f"[{kind or 'content'}, not shown]")


def _image(block: dict[str, Any]) -> tuple[str, str] | None:
    """Return the MIME type and base64 data of an image in LangChain's, OpenAI's or Anthropic's format."""
    if isinstance(block.get("base64"), str):
        return str(block.get("mime_type", "image/png")), block["base64"]
    url = block.get("image_url", block.get("url"))
    found = _DATA_URL.fullmatch(str(url.get("url") if isinstance(url, dict) else url))
    if found:
        return found[1], found[2]
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return str(source.get("media_type", "image/png")), str(source.get("data", ""))
    return None
