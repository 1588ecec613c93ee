"""The spelling of one argument on a command line, as httpie writes them.

`name=text`, `name:=json`, `name=$variable`, `name={expression}`, `name=@file`, `name:=@file`. In a name,
a backslash makes the next character ordinary; in front of a value it keeps `$`, `{` and `@` as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.describe import shorten
from mcp_magic.schema.jsontext import read_json

__all__ = ["Item", "escape_name", "escape_text", "read_item"]

Source = Literal["text", "json", "python", "file", "json file"]

_VARIABLE = re.compile(r"\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_ESCAPED = re.compile(r"\\+[${@]")


@dataclass(frozen=True)
class Item:
    """One argument as it was written.

    Attributes:
        parts: The name, split at its dots.
        source: Where the value comes from.
        text: The text, JSON, Python source or file name.
    """

    parts: tuple[str, ...]
    source: Source
    text: str

    @property
    def name(self) -> str:
        """The whole name, for messages."""
        return ".".join(self.parts)


def read_item(written: str, *, objects: bool = True) -> Item:
    """Take one argument apart.

    Args:
        written: For example `city=Oslo`.
        objects: Whether `$variable` and `{expression}` stand for Python objects; else they are text.

    Raises:
        ArgumentsError: There is no `=` in it.

    >>> read_item("a.b:=[1]")
    Item(parts=('a', 'b'), source='json', text='[1]')
    >>> read_item("n={x + 1}")
    Item(parts=('n',), source='python', text='x + 1')
    """
    parts, end, is_json = _read_name(written)
    value = written[end:]
    if is_json:
        return Item(parts, "json file", value[1:]) if value.startswith("@") else Item(parts, "json", value)
    if _ESCAPED.match(value):
        return Item(parts, "text", value[1:])
    if value.startswith("@") and len(value) > 1:
        return Item(parts, "file", value[1:])
    source = _python(value) if objects else None
    return Item(parts, "text", value) if source is None else Item(parts, "python", source)


def _read_name(written: str) -> tuple[tuple[str, ...], int, bool]:
    """Return the parts of the name, where the value starts, and whether it is JSON."""
    parts: list[str] = []
    part = ""
    index = 0
    while index < len(written):
        char = written[index]
        if char == "\\" and index + 1 < len(written):
            part += written[index + 1]
            index += 2
            continue
        if char == "=" or written.startswith(":=", index):
            is_json = char == ":"
            return (*parts, part), index + (2 if is_json else 1), is_json
        if char == ".":
            parts.append(part)
            part = ""
        else:
            part += char
        index += 1
    raise ArgumentsError(f"cannot read {shorten(written)!r} as an argument: write name=value or name:=json")


def _python(value: str) -> str | None:
    """The Python source in a value, or None. A JSON object in braces is no expression."""
    if match := _VARIABLE.fullmatch(value):
        return match[1]
    if len(value) < 3 or not (value.startswith("{") and value.endswith("}")):
        return None
    try:
        read_json(value)
    except ValueError:
        return value[1:-1].strip() or None
    return None


def escape_name(name: str) -> str:
    r"""Write a property's name so that it is read back as one part.

    >>> escape_name("a.b")
    'a\\.b'
    """
    escaped = re.sub(r"[\\.=]|:(?==|$)", r"\\\g<0>", name)
    # An argument that starts with a dash would be taken for an option of the command.
    return f"\\{escaped}" if escaped.startswith("-") else escaped


def escape_text(text: str) -> str:
    r"""Write a text so that it is read back as it is.

    >>> escape_text("$5"), escape_text("5 $")
    ('\\$5', '5 $')
    """
    return f"\\{text}" if re.match(r"\\*[${@]", text) else text
