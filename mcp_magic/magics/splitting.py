r"""The words of a `%mcp` line.

Words are separated by spaces and quoted as in a POSIX shell, with three differences. A JSON value after `name:=`, a
JSON list or object after `name=`, a JSON object alone, a `{python expression}` and a Python dict are one word although
they have quotes and spaces. A backslash escapes a quote and nothing else, so `C:\data` is typed as it is; but what
follows `--` is a shell's, where it escapes any character. A `#` that stands alone begins a comment.
"""

from __future__ import annotations

import json
import re
import shlex

from mcp_magic.errors import CommandError
from mcp_magic.schema.items import python_source

__all__ = ["split_line"]

_JSON_START = re.compile(r"""[^\s'"=:]+:=(?=[\[{"])|[^\s'"=:{]+=(?=[\[{])|(?=\{)""")
_EXPRESSION_START = re.compile(r"""(?:[^\s'"=:{]+=)?(?=\{)""")
_BACKSLASHES = re.compile(r"\\+")
_DECODER = json.JSONDecoder()


def split_line(line: str) -> list[str]:
    r"""Split a line into words.

    >>> split_line('call math:add a=1 note="two words"')
    ['call', 'math:add', 'a=1', 'note=two words']
    >>> split_line('call t rows:=[{"a": 1}, {"a": 2}] x={df[df.a > 1]}')
    ['call', 't', 'rows:=[{"a": 1}, {"a": 2}]', 'x={df[df.a > 1]}']
    >>> split_line(r'call t path=C:\data tags=["a", "b"]')
    ['call', 't', 'path=C:\\data', 'tags=["a", "b"]']
    >>> split_line("ping --timeout 1   # all of them")
    ['ping', '--timeout', '1']

    Raises:
        CommandError: A quotation is not closed.
    """
    words: list[str] = []
    position, in_command = 0, False
    while position < len(line):
        if line[position].isspace():
            position += 1
            continue
        if line[position] == "#" and _ends_here(line, position + 1):
            break
        end = _json_end(line, position) or _expression_end(line, position)
        if end:
            words.append(line[position:end])
        elif in_command:
            end = _shell_end(line, position)
            words += _shell_words(line[position:end])
        else:
            word, end = _word(line, position)
            words.append(word)
            in_command = line[position:end] == "--"
        position = end
    return words


def _ends_here(line: str, position: int) -> bool:
    return position == len(line) or line[position].isspace()


def _json_end(line: str, position: int) -> int:
    if start := _JSON_START.match(line, position):
        try:
            _, end = _DECODER.raw_decode(line, start.end())
        except ValueError:
            return 0  # quoted for a shell, or wrong: its own words then say so
        if _ends_here(line, end):
            return end
    return 0


def _expression_end(line: str, position: int) -> int:
    if start := _EXPRESSION_START.match(line, position):
        end = line.find("}", start.end())
        while end != -1:
            if _ends_here(line, end + 1) and python_source(line[start.end() : end + 1]):
                return end + 1
            end = line.find("}", end + 1)
    return 0


def _word(line: str, position: int) -> tuple[str, int]:
    """Return the word that begins at a position, without its quotes, and where it ends.

    As for a program on Windows, backslashes mean something before a quote only: two stand for one, and one that is left
    makes the quote a character of the word. In single quotes they mean nothing.
    """
    start, text, quote = position, "", ""
    while position < len(line):
        if line[position] == "\\" and quote != "'":
            end = _BACKSLASHES.match(line, position).end()  # type: ignore[union-attr]
            count = end - position
            if line[end : end + 1] in (tuple(quote) or ("'", '"')):
                text += "\\" * (count // 2) + line[end] * (count % 2)
                position = end + count % 2
            else:
                text += "\\" * count
                position = end
            continue
        character = line[position]
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif not quote and character.isspace():
            break
        else:
            text += character
        position += 1
    if quote:
        raise _unreadable(line[start:position], "no closing quotation")
    return text, position


def _shell_end(line: str, position: int) -> int:
    quote = ""
    while position < len(line):
        character = line[position]
        if character == "\\" and quote != "'":
            position += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character.isspace():
            break
        position += 1
    return min(position, len(line))


def _shell_words(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError as error:
        raise _unreadable(word, str(error).lower()) from None


def _unreadable(word: str, why: str) -> CommandError:
    return CommandError(f"cannot read {word[:60]!r}: {why}; a value with spaces goes in quotes: name='two words'")
