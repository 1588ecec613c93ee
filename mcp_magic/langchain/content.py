"""What a tool answered, for the model that asked and for whoever looks at it later.

The model reads text, and pictures if it can. Everything else stays in the artifact of the message, which is plain JSON:
conversations are stored. What the message's content holds whole is not kept twice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.langchain.reading import LIMIT, Reader
from mcp_magic.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import ToolMessage

__all__ = ["LEVELS", "LIMIT", "Content", "artifact_of", "result_of", "storable", "to_content"]

Content = str | list[str | dict[str, Any]]

SAID_NOTHING = "The tool reported an error and did not say what went wrong."

LEVELS = 200
"""Levels of lists and objects that the stores of conversations can hold, and a little less."""

_INT64, _UINT64 = -(2**63), 2**64 - 1
"""What the stores of conversations can hold of an integer (MessagePack); exact text is kept beside larger ones."""


def to_content(result: ToolResult, *, images: bool = False, limit: int = LIMIT) -> tuple[Content, dict[str, Any]]:
    """Return what the model reads of a result, and the artifact that keeps the rest.

    Args:
        result: What a tool answered.
        images: Whether the model takes images in a tool's message; otherwise it reads that there is one.
        limit: Characters that it reads at most; of what is longer it reads the beginning and how long the whole is.

    Returns:
        A string, a list of strings (and image blocks) if there are several blocks, "" if there are none. The
        artifact has `server`, `tool`, `seconds`, `is_error`, `content`, `structured_content` and `meta`.
    """
    reader = Reader(images=images, limit=limit)
    if result.raw.structured_content is not None and not result.texts:
        reader.add_text(json.dumps(result.data, ensure_ascii=False))
    kept = [_kept(block, reader) for block in result.raw.content]
    items = reader.finish()
    for block in kept:
        if "at" in block:
            block["at"] -= len(items)
    artifact = artifact_of(result.server, result.tool, seconds=result.seconds, is_error=result.is_error)
    artifact |= {"content": kept, "structured_content": storable(result.raw.structured_content)}
    if artifact["structured_content"] != result.raw.structured_content:
        artifact["structured_json"] = json.dumps(result.raw.structured_content)
    artifact["meta"] = storable(result.raw.meta)
    if result.is_error and not items:
        return SAID_NOTHING, artifact
    if len(items) == 1 and isinstance(items[0], str):
        return items[0], artifact
    return items or "", artifact


def _kept(block: Any, reader: Reader) -> dict[str, Any]:
    """Show a block to the reader, and return it as JSON without what the reader has whole."""
    dumped: dict[str, Any] = storable(block.model_dump(mode="json", by_alias=True, exclude_none=True))
    index = reader.add(block)
    if index is None:
        return dumped
    if block.type == "text":
        length = len(dumped.pop("text"))
        return {**dumped, "at": index, "length": length}
    if block.type == "image":
        del dumped["data"]
        dumped["at"] = index
    return dumped


def artifact_of(server: str, tool: str, *, seconds: float = 0.0, is_error: bool = True) -> dict[str, Any]:
    """Return the artifact of a call whose answer is the text of its message, for example of one that failed."""
    return {
        "server": server,
        "tool": tool,
        "seconds": round(seconds, 4),
        "is_error": is_error,
        "content": [{"type": "text"}],
        "structured_content": None,
        "meta": None,
    }


def result_of(message: ToolMessage) -> ToolResult:
    """Return the value that a tool answered, from its message; also from one that was stored.

    A message without an artifact of ours gives its text.
    """
    from mcp_types import CallToolResult, TextContent
    from pydantic import ValidationError

    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    failed = bool(artifact.get("is_error", message.status == "error"))
    seconds, exact = artifact.get("seconds"), artifact.get("structured_json")
    try:
        structured = json.loads(exact) if isinstance(exact, str) else artifact.get("structured_content")
        raw = CallToolResult.model_validate(
            {
                "content": [_restored(block, message.content) for block in artifact["content"]],
                "structuredContent": structured,
                "isError": failed,
                "_meta": artifact.get("meta"),
            }
        )
    except (KeyError, TypeError, ValueError, ValidationError):  # not ours, or damaged
        raw = CallToolResult(content=[TextContent(text=message.text)], is_error=failed)
    return ToolResult(
        raw,
        server=str(artifact.get("server", "")),
        tool=str(artifact.get("tool", message.name or "")),
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
    )


def _restored(block: Mapping[str, Any], content: Any) -> dict[str, Any]:
    """Put back into a block what the message's content holds of it."""
    restored = {key: value for key, value in block.items() if key not in ("at", "length")}
    if block["type"] == "text" and "text" not in block:
        text = _text_at(content, block.get("at", -1))
        # whoever adds a note puts it before the text
        restored["text"] = text[len(text) - block["length"] :] if 0 <= block.get("length", -1) <= len(text) else text
    elif block["type"] == "image" and "data" not in block:
        restored["data"] = content[block["at"]]["base64"]
    return restored


def _text_at(content: Any, at: int) -> str:
    item = content if isinstance(content, str) else content[at] if -len(content) <= at < 0 else ""
    return item if isinstance(item, str) else str(item.get("text", ""))


def storable(value: Any, levels: int = LEVELS) -> Any:
    """Return a JSON value with integers that no store can hold as their digits, and "…" for what is nested deeper.

    >>> storable({"n": [1, 2**80]}), storable([[[1]]], levels=2)
    ({'n': [1, '1208925819614629174706176']}, [['…']])
    """
    if isinstance(value, dict | list | tuple) and not levels:
        return "…"
    if isinstance(value, dict):
        return {str(key): storable(each, levels - 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable(each, levels - 1) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and not _INT64 <= value <= _UINT64:
        return str(value)
    return value
