"""Parses JSON and displays it, as text or as a tree that opens and closes without JavaScript.

Both displays stop at their limit, so a large value costs no more time than a small one.
"""

from __future__ import annotations

import json
import math
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean
from mcp_magic.display import document
from mcp_magic.display.document import Markup, details, escape, tag
from mcp_magic.display.text import cut, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

_OPEN_DEPTH = 2
_DEEPEST = 20  # most levels shown: real answers have fewer than ten, and Python's stack has to hold them
_WRITABLE_BITS = 10_000
_STRING = 300  # most characters of a string in the tree
NOT_JSON = object()  # the result of `loads` for text that is not JSON; None would be a JSON value


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_no_constant)
_nan_decoder = json.JSONDecoder()


def loads(text: str, *, nan: bool = False) -> Any:
    """Return the value of JSON text, or `NOT_JSON`.

    NaN and Infinity, which Python and JavaScript write, are not JSON (RFC 8259, section 6); with `nan` they are read.
    """
    text = text.removeprefix("\ufeff")  # a byte-order mark, which files of Windows begin with
    start = text[:100].lstrip()[:1]
    if start and start not in '{["-0123456789tfn':
        return NOT_JSON
    try:
        return (_nan_decoder if nan else _decoder).decode(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def loads_beginning(text: str, start: int, *, nan: bool = False) -> tuple[Any, int]:
    """Return the JSON value that begins at `start`, and where it ends; `NOT_JSON` and `start` if there is none."""
    try:
        return (_nan_decoder if nan else _decoder).raw_decode(text, start)
    except (ValueError, RecursionError):
        return NOT_JSON, start


def pretty(value: Any, limit: int, *, indent: int | None = 2) -> tuple[str, bool]:
    """Return a value as cleaned JSON text of at most `limit` characters, and whether the text is complete."""
    beginning = _beginning(value, [limit + 1], 0)
    # Rows that Python has printed may hold values that JSON lacks, such as dates.
    text = json.dumps(beginning, ensure_ascii=False, indent=indent, default=lambda item: cut(str(item), _STRING))
    text = clean(text)
    return text[:limit], len(text) <= limit


def _beginning(value: Any, room: list[int], depth: int) -> Any:
    """Return the beginning of a value that fills `room` characters; `json.dumps` would write all of the value."""
    room[0] -= 1
    if isinstance(value, str):
        start = value[: max(room[0], 0) + 1]
        room[0] -= len(start)
        return start
    if isinstance(value, (dict, list)) and depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {
            _beginning(str(key), room, depth): _beginning(child, room, depth + 1)
            for key, child in takewhile(lambda _: room[0] >= 0, value.items())
        }
    if isinstance(value, (list, tuple)):
        return [_beginning(child, room, depth + 1) for child in takewhile(lambda _: room[0] >= 0, value)]
    if isinstance(value, int) and value.bit_length() > _WRITABLE_BITS:  # Python refuses to write more than 4,300 digits
        return f"an integer of about {int(value.bit_length() * math.log10(2)):,} digits"
    return value


def brief(value: Any, limit: int) -> str:
    """Return a value on one line of at most `limit` characters: a string unchanged, any other value as JSON."""
    if isinstance(value, str):
        return shorten(value[: limit * 2], limit)
    text, is_complete = pretty(value, limit, indent=None)
    return text if is_complete else text[: limit - 1] + "…"


def tree(
    value: Any,
    size: int,
    *,
    left_out: Callable[[dict[str, Any] | list[Any]], int | None] = lambda value: None,
    rest: str = ".data has them",
) -> Markup:
    """Return a value as a collapsible tree of at most about `size` bytes.

    Args:
        value: The value.
        size: The limit.
        left_out: Returns how many items of a container are not in it, which its last item says; None if it is whole.
        rest: What to say of what does not fit.
    """
    nodes = document.display.json_nodes

    def node(label: Markup, value: Any, depth: int) -> Markup:
        nonlocal nodes, size
        nodes -= 1
        is_branch = isinstance(value, (dict, list)) and len(value) > 0
        if is_branch:
            missing = left_out(value)
            count = len(value) if missing is None else len(value) - 1 + missing
            number = f"{{{count}}}" if isinstance(value, dict) else f"[{count}]"
            markup = Markup(f"{label}<small>{number}</small>")
        else:
            text = f'"{brief(value, _STRING)}"' if isinstance(value, str) else brief(value, _STRING)
            markup = Markup(f"{label}{tag('code', text)}")
        size -= len(markup.encode())
        return branch(markup, value, depth) if is_branch else markup

    def branch(summary: Markup, value: dict[str, Any] | list[Any], depth: int) -> Markup:
        lines: list[str] = []
        missing = left_out(value)
        items = value.items() if isinstance(value, dict) else enumerate(value)
        length = len(value) if missing is None else len(value) - 1
        for number, (key, child) in enumerate(islice(items, length)):
            if nodes <= 0 or size <= 0 or depth >= _DEEPEST:
                lines.append(tag("li", f"… {length - number:,} more: {rest}"))
                break
            name = Markup(f"{tag('b', shorten(str(key), 100))}: ")
            lines.append(f"<li>{node(name, child, depth + 1)}</li>")
        if missing is not None:
            lines.append(tag("li", f"… {missing:,} more: not kept, cut when it was recorded"))
        opened = depth < _OPEN_DEPTH and len(value) <= 50
        return details(summary, tag("ul", Markup("".join(lines)), style="list-style:none"), opened=opened)

    return node(escape(""), value, 0)
