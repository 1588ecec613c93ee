"""The spelling of one argument on a command line, as httpie writes them.

`name=text`, `name:=json`, `name=$variable`, `name={expression}`, `name=@file`, `name:=@file`, where `@cell` is the cell
below the line; without a name `$dict`, `{expression}` and a JSON object are all arguments. In a name, a backslash makes
the next character ordinary; in front of a value it keeps `$`, `{` and `@` as text.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.describe import shorten
from mcp_magic.schema.jsontext import read_json
from mcp_magic.schema.secretnames import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CELL",
    "REFERENCE",
    "Item",
    "escape_name",
    "escape_text",
    "escape_word",
    "is_stray",
    "python_source",
    "read_item",
    "stray_error",
    "unescape_word",
]

Source = Literal["text", "json", "python", "file", "json file"]

CELL = "cell"
"""What `@` is followed by where the cell below the line is meant."""

MAX_SUGGESTED = 200
"""Characters of a text that a message repeats, quoted; of a longer one it says only how."""

_VARIABLE = re.compile(r"\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_ESCAPED = re.compile(r"\\+[${@]")

_WITH_APOSTROPHE = re.compile(r"""[^"\\]*'[^"\\]*""")
"""A text that reads better in double quotes."""

_SPELLINGS = "write name=value, name:=json, or $dict for all arguments"

REFERENCE = re.compile(r"\$([^\W\d]\w*)|\{(.+)\}", re.DOTALL)
"""A word of its own, no argument, that stands for an object: the variable or the expression."""


@dataclass(frozen=True)
class Item:
    """One argument as it was written.

    Attributes:
        parts: The name, split at its dots; none for all arguments at once.
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
        ArgumentsError: There is no `=` in it, and it is no object either.

    >>> read_item("a.b:=[1]")
    Item(parts=('a', 'b'), source='json', text='[1]')
    >>> read_item("n={x + 1}")
    Item(parts=('n',), source='python', text='x + 1')
    >>> read_item("$settings")
    Item(parts=(), source='python', text='settings')
    """
    if written[:1] in ("$", "{") and (whole := _whole(written, objects)):
        return whole
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
    raise ArgumentsError(f"cannot read {shorten(written)!r} as an argument: {_SPELLINGS}")


def is_stray(word: str) -> bool:
    """Return whether a word gives no argument, because there is no `=` in it.

    >>> is_stray("Oslo"), is_stray("city=Oslo"), is_stray('{"city": "Oslo"}')
    (True, False, False)
    """
    if word[:1] in ("$", "{") and _whole(word, objects=True):
        return False
    try:
        _read_name(word)
    except ArgumentsError:
        return True
    return False


def stray_error(words: Sequence[str], index: int) -> ArgumentsError:
    """Return the error for a stray word, with what to type: the text that it belongs to in quotes.

    >>> print(stray_error(["query=Ada", "Lovelace"], 1))
    cannot read 'Lovelace' as an argument; quote it: query='Ada Lovelace'
    >>> print(stray_error(["query", "=", "Ada"], 0))
    cannot read 'query' as an argument; without spaces around the =: query=Ada
    """
    problem = f"cannot read {shorten(words[index])!r} as an argument"
    if index + 1 < len(words) and words[index + 1].startswith(("=", ":=")):
        equals, _, first = words[index + 1].partition("=")
        name, rest = f"{words[index]}{equals}=", words[index + 2 :]
        advice = "without spaces around the ="
    elif index and not is_stray(words[index - 1]):
        _, end, is_json = _read_name(words[index - 1])
        name, first, rest = words[index - 1][:end], words[index - 1][end:], words[index:]
        advice = "quote it" if first else "without spaces around the ="
        if is_json or first[:1] in ("$", "{", "@"):
            return ArgumentsError(f"{problem}: {_SPELLINGS}")
    else:
        return ArgumentsError(f"{problem}: {_SPELLINGS}")
    # In a shell, a backslash before a space makes it part of the word; here it stays, and is not what is meant.
    texts = [word.removesuffix("\\") for word in (first, *itertools.takewhile(is_stray, rest)) if word]
    text = " ".join(texts)
    if is_secret_name(name.rstrip(":=")):
        return ArgumentsError(f"cannot read what follows {name!r} as one argument; {advice}: {name}'...'")
    if text.startswith("["):
        return ArgumentsError(f'{problem}; a list is JSON: {name}["a", "b"], or Python in braces: {name}{{[a, b]}}')
    if len(text) > MAX_SUGGESTED:
        return ArgumentsError(f"{problem}; {advice}: {name}'...'")
    quoted = f'"{text}"' if _WITH_APOSTROPHE.fullmatch(text) else shlex.quote(text)
    return ArgumentsError(f"{problem}; {advice}: {name}{quoted}")


def _whole(written: str, objects: bool) -> Item | None:
    """All arguments in one word, or None if it is something else, such as a name with a dollar in it."""
    if _is_json(written):
        return Item((), "json", written)
    match = _VARIABLE.fullmatch(written)
    source = match[1] if match else python_source(written)
    return Item((), "python", source) if objects and source else None


def _python(value: str) -> str | None:
    """The Python source in a value, or None. A JSON object in braces is no expression."""
    if match := _VARIABLE.fullmatch(value):
        return match[1]
    if not _in_braces(value) or _is_json(value):
        return None
    return python_source(value) or value[1:-1].strip() or None


def python_source(value: str) -> str | None:
    """Return the expression in a pair of braces, which may be a dict's own; None if there is none.

    >>> python_source("{x + 1}"), python_source("{'x': x, **more}"), python_source('{"x": 1}'), python_source("{x +}")
    ('x + 1', "{'x': x, **more}", None, None)
    """
    if not _in_braces(value) or _is_json(value):
        return None
    return next((source for source in (value[1:-1].strip(), value) if _is_expression(source)), None)


def _in_braces(value: str) -> bool:
    return len(value) > 2 and value.startswith("{") and value.endswith("}")


def _is_expression(source: str) -> bool:
    try:
        ast.parse(source, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _is_json(value: str) -> bool:
    try:
        read_json(value)
    except ValueError:
        return False
    return True


def escape_name(name: str) -> str:
    r"""Write a property's name so that it is read back as one part.

    >>> escape_name("a.b")
    'a\\.b'
    """
    escaped = re.sub(r"[\\.=]|:(?==|$)", r"\\\g<0>", name)
    # A dash would make an option of it, and what begins as an object does may be read as all arguments.
    return f"\\{escaped}" if escaped[:1] in ("-", "$", "{") else escaped


def escape_text(text: str) -> str:
    r"""Write a text so that it is read back as it is.

    >>> escape_text("$5"), escape_text("5 $")
    ('\\$5', '5 $')
    """
    return f"\\{text}" if re.match(r"\\*[${@]", text) else text


def escape_word(text: str) -> str:
    r"""Write a text so that a command reads it back as it is, not as a variable or an expression.

    >>> escape_word("{x}"), escape_word("$x"), escape_word("note://{x}")
    ('\\{x}', '\\$x', 'note://{x}')
    """
    return f"\\{text}" if REFERENCE.fullmatch(text.lstrip("\\")) else text


def unescape_word(word: str) -> str:
    r"""Return the text of a word, the inverse of `escape_word`.

    >>> unescape_word(r"\{x}"), unescape_word(r"\x")
    ('{x}', '\\x')
    """
    return word[1:] if word.startswith("\\") and escape_word(word[1:]) == word else word
