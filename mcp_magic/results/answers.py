"""Two judgements about the texts of a tool's answer: why it failed, and whether they say anything new."""

from __future__ import annotations

from typing import Any

from . import limits
from .jsontree import loads
from .safe import cut, one_line

__all__ = ["names_the_text", "reason", "repeats"]


def reason(texts: list[str], tool: str) -> str:
    r"""Return what follows "failed": at most two lines of what the tool said.

    >>> reason(["Error executing tool divide: division by zero"], "divide")
    ': division by zero'
    >>> reason(["one\ntwo\nthree"], "")
    ': one\ntwo … (.result.text has all of it)'
    """
    whole = "\n".join(text.strip() for text in texts)
    # MCPServer puts this before what the tool said, and the message names the tool already.
    said = whole.removeprefix(f"Error executing tool {tool}: ")
    lines = [line for line in cut(said, 2000).splitlines() if line.strip()]
    if not lines:
        return " and did not say why"
    shown = [one_line(line, 300) for line in lines[:2]]
    is_whole = len(lines) <= 2 and len(said) <= 600
    rest = "" if is_whole else " … (.result.text has all of it)"
    return ": " + "\n".join(shown) + rest


def repeats(texts: list[str], structured: Any, data: Any) -> bool:
    """Whether texts say only what the structured content says.

    The specification asks for that ("SHOULD also return the serialized JSON in a TextContent block");
    MCPServer sends a list as one block an item.
    """
    if len(texts) == 1:
        return _same(texts[0], structured, data)
    if isinstance(data, list) and len(texts) == len(data):
        return all(_same(text, item, item) for text, item in zip(texts[:3], data[:3], strict=True))
    return False


def names_the_text(texts: list[str], data: Any) -> bool:
    """Whether the structured content is the text under a name and nothing else, as the filesystem server's.

    >>> names_the_text(["one line"], {"content": "one line"}), names_the_text(["42"], {"n": 42})
    (True, False)
    """
    return len(texts) == 1 and isinstance(data, dict) and list(data.values()) == texts


def _same(text: str, *values: Any) -> bool:
    if len(text) > limits.display.parse:
        return text[:100].lstrip()[:1] in ("{", "[")
    value = loads(text)
    return any(value == candidate or text == candidate for candidate in values)
