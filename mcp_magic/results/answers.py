"""Judgements about the texts of an answer: why it failed, whether they say anything new, what it is as an argument."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import limits
from .jsontree import NOT_JSON, loads
from .safe import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["names_the_text", "reason", "repeats", "told"]


def reason(texts: list[str], tool: str, clue: str = "") -> str:
    r"""Return what follows "failed": at most two lines of what the tool said.

    >>> reason(["Error executing tool divide: division by zero"], "divide")
    ': division by zero'
    >>> reason(["one\ntwo\nthree"], "")
    ': one\ntwo … (.result.text has all of it)'
    >>> reason(["Error executing tool divide"], "divide", ": ZeroDivisionError: division by zero")
    ': ZeroDivisionError: division by zero'

    Args:
        texts: What the tool said.
        tool: Its name.
        clue: What follows instead where it said nothing, or only that it failed, as MCPServer does.
    """
    whole = "\n".join(text.strip() for text in texts)
    # MCPServer puts this before what the tool said, and the message names the tool already.
    said = whole.removeprefix(f"Error executing tool {tool}: ")
    lines = [line for line in cut(said, 2000).splitlines() if line.strip()]
    if not lines or (clue and whole == f"Error executing tool {tool}"):
        return clue or " and did not say why"
    shown = [one_line(line, 300) for line in lines[:2]]
    is_whole = len(lines) <= 2 and len(said) <= 600
    rest = "" if is_whole else " … (.result.text has all of it)"
    return ": " + "\n".join(shown) + rest


def repeats(texts: list[str], structured: Any, data: Any) -> bool:
    """Whether texts say only what the structured content says.

    The specification asks for that ("SHOULD also return the serialized JSON in a TextContent block");
    MCPServer sends a list as one block an item, and some servers send but one member, without its name.

    >>> repeats(['[{"name": "Ada"}]'], {"entities": [{"name": "Ada"}]}, {"entities": [{"name": "Ada"}]})
    True
    >>> repeats(["2 rows"], {"rows": 2}, {"rows": 2})
    False
    """
    members = structured.values() if isinstance(structured, dict) else ()
    if len(texts) == 1 and _same(texts[0], structured, data, *members):
        return True
    if not isinstance(data, list):
        return False
    items = list(islice(_items(data), len(texts) + 1))
    return len(items) == len(texts) and all(_same(text, item) for text, item in zip(texts[:3], items[:3], strict=True))


def _items(values: list[Any]) -> Iterator[Any]:
    """The items of a list and of the lists in it, as MCPServer sends them."""
    for value in values:
        yield from _items(value) if isinstance(value, list) else (value,)


def names_the_text(texts: list[str], data: Any) -> bool:
    """Whether the structured content is the text under a name and nothing else, as the filesystem server's.

    >>> names_the_text(["one line"], {"content": "one line"}), names_the_text(["42"], {"n": 42})
    (True, False)
    """
    return len(texts) == 1 and isinstance(data, dict) and list(data.values()) == texts


def told(data: Any, texts: list[str], wanted: str) -> Any:
    """Return what of an answer is meant where a value of the kind `wanted` is: its text for a text, else its data.

    >>> told([1, 2], ["[1, 2]"], "array"), told([1, 2], ["[1, 2]"], "string"), told(None, ["tea"], "any")
    ([1, 2], '[1, 2]', 'tea')
    """
    if len(texts) == 1 and (data is None or (wanted == "string" and not isinstance(data, str))):
        return texts[0]
    return texts if data is None and texts else data


def _same(text: str, *values: Any) -> bool:
    if len(text) > limits.display.parse:
        return text[:100].lstrip()[:1] in ("{", "[")
    value = loads(text)
    if value is NOT_JSON and "NaN" in text:
        value = _with_null(text)
    return any(value == candidate or text == candidate for candidate in values)


def _with_null(text: str) -> Any:
    """Return the value of JSON with NaN in it, which is null in structured content."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return NOT_JSON
