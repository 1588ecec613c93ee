"""Judgements about the texts of an answer: why it failed, whether they say anything new, what it is as an argument."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import limits
from .jsontree import NOT_JSON, loads
from .safe import cut, shorten
from .texttables import json_in_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ = 200_000
"""Characters of an error that are looked at."""

_LINES = 6
"""Lines of an error that are shown."""

_WORDS = ("error", "errors", "message", "msg", "detail", "details")
"""Members of an error in JSON that hold words for a person."""

_DEEPEST = 5
"""Levels at which those are looked for."""

_FLAGS = ("success", "ok", "status", "is_error", "isError")

__all__ = ["argument_value", "names_the_text", "reason", "repeats"]


def reason(texts: list[str], tool: str, clue: str = "", rest: str = "…") -> str:
    r"""Return what follows "failed": what the tool said, at most six lines of it.

    >>> reason(["Error executing tool divide: division by zero"], "divide")
    ': division by zero'
    >>> reason(['{\n  "success": false,\n  "error": "no such table: x"\n}'], "query")
    ': no such table: x'
    >>> reason(["one\ntwo\n3\n4\n5\n6\n7"], "")
    ': one\ntwo\n3\n4\n5\n6\n…'
    >>> reason(["Error executing tool divide"], "divide", ": ZeroDivisionError: division by zero")
    ': ZeroDivisionError: division by zero'

    Args:
        texts: What the tool said.
        tool: Its name.
        clue: What follows instead where it said nothing, or only that it failed, as MCPServer does.
        rest: The last line where that is not all of it.
    """
    whole = "\n".join(text.strip() for text in texts)
    # MCPServer and FastMCP put this before what the tool said, and the message names the tool already.
    said = whole.removeprefix(f"Error executing tool {tool}: ").removeprefix(f"Error calling tool '{tool}': ")
    read, is_whole = _in_json(said[:_READ])
    is_whole = is_whole and len(said) <= _READ
    lines = [line.rstrip() for line in cut(read, 4000).splitlines() if line.strip()]
    if not lines or (clue and whole == f"Error executing tool {tool}"):
        return clue or " and did not say why"
    shown = [shorten(line, 300) for line in lines[:_LINES]]
    is_whole = is_whole and shown == lines and len(read) <= 4000
    return ": " + "\n".join(shown if is_whole else [*shown, rest])


def _in_json(said: str) -> tuple[str, bool]:
    """Return the words for a person in an error that is or has JSON, and whether they are all of it."""
    start, value = json_in_text(said)
    words = _words(value)
    if not words:
        return said, True
    members = value if isinstance(value, dict) else {}
    others = [key for key, member in members.items() if key not in (*_WORDS, *_FLAGS) and member is not None]
    return f"{said[:start].strip()} {words}".strip(), not others and said.rstrip().endswith(("}", "]"))


def _words(value: Any, depth: int = 0) -> str:
    """Return what an error says in its `error`, `message` or `detail`, also where those are objects or lists of such.

    >>> _words({"error": {"code": -1, "message": "no such table"}}), _words({"detail": [{"msg": "Field required"}]})
    ('no such table', 'Field required')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and depth <= _DEEPEST:
        return "; ".join(words for item in value[:_LINES] if (words := _words(item, depth + 1)))
    if not isinstance(value, dict) or depth > _DEEPEST:
        return ""
    found = [_words(value[key], depth + 1) for key in _WORDS if key in value]
    return ": ".join(dict.fromkeys(words for words in found if words))


def repeats(texts: list[str], structured: Any, data: Any) -> bool:
    """Whether texts say only what the structured content says.

    The specification asks for that ("SHOULD also return the serialized JSON in a TextContent block");
    MCPServer sends a list as one block an item, and some servers send but one member, without its name.

    >>> repeats(['[{"name": "Ada"}]'], {"entities": [{"name": "Ada"}]}, {"entities": [{"name": "Ada"}]})
    True
    >>> repeats(["2 rows"], {"rows": 2}, {"rows": 2})
    False
    """
    members = [data, *structured.values()] if isinstance(structured, dict) else [data]
    if len(texts) == 1 and _same(texts[0], structured, *members):
        return True
    return any(_has_items(texts, member) for member in members if isinstance(member, list))


def _has_items(texts: list[str], values: list[Any]) -> bool:
    """Whether texts are the items of a list, without the images and so on, which are blocks of their own."""
    items = list(islice((item for item in _items(values) if not _is_block(item)), len(texts) + 1))
    return len(items) == len(texts) and all(_same(text, item) for text, item in zip(texts[:3], items[:3], strict=True))


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("image", "audio", "resource", "resource_link")


def _items(values: list[Any]) -> Iterator[Any]:
    """The items of a list and of the lists in it, as MCPServer sends them."""
    for value in values:
        yield from _items(value) if isinstance(value, list) else (value,)


def names_the_text(texts: list[str], data: Any) -> bool:
    r"""Whether the structured content is the text under a name, as the filesystem server's, or that and some words.

    >>> names_the_text(["one line"], {"content": "one line"}), names_the_text(["42"], {"n": 42})
    (True, False)
    >>> names_the_text(["two\nlines"], {"kind": "page", "text": "two\nlines"})
    True
    >>> names_the_text(["Ada"], {"name": "Ada", "age": 36})
    False
    """
    if len(texts) != 1 or not isinstance(data, dict) or texts[0] not in data.values():
        return False
    return len(data) == 1 or (
        "\n" in texts[0].strip()
        and all(value is None or isinstance(value, str | int | float) for value in data.values())
    )


def argument_value(data: Any, texts: list[str], wanted: str) -> Any:
    """Return what of an answer is meant where a value of the kind `wanted` is: its text for a text, else its data.

    >>> argument_value([1, 2], ["[1, 2]"], "array"), argument_value([1, 2], ["[1, 2]"], "string")
    ([1, 2], '[1, 2]')
    >>> argument_value(None, ["tea"], "any")
    'tea'
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
