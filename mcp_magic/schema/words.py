r"""How a `%mcp` line is split into words.

Spaces separate words, and quotes work as in a POSIX shell, with three differences:

- A JSON value after `name:=`, a JSON list or object after `name=`, a JSON object alone, a `{python expression}` and a
  Python dict are one word despite their quotes and spaces.
- A backslash escapes only a quote, so `C:\data` stays as it is. After `--`, as in a shell, it escapes any character.
- A `#` that stands alone begins a comment.
"""

from __future__ import annotations

import json
import re
import shlex

from mcp_magic.errors import CommandError
from mcp_magic.schema.commandline import python_source

_SPECIAL = re.compile(r"""["'\\#\[{]""")
_JSON_START = re.compile(r"""[^\s'"=:]+:=(?=[\[{"])|[^\s'"=:{]+=(?=[\[{])|(?=\{)""")
_EXPRESSION_START = re.compile(r"""(?:[^\s'"=:{]+=)?(?=\{)""")
_BACKSLASHES = re.compile(r"\\+")
_DECODER = json.JSONDecoder()


def split_line(line: str) -> list[str]:
    """Split a line into words. Raises CommandError if a quote is not closed."""
    return _split(line, "")[0] if _SPECIAL.search(line) else line.split()


def split_list(line: str) -> list[list[str]]:
    """Split a line into lists of words, at each comma that ends a word.

    >>> split_list('a x=1,2, b y=["c", "d"], e')
    [['a', 'x=1,2'], ['b', 'y=["c", "d"]'], ['e']]
    """
    return _split(line, ",")


def _split(line: str, separator: str) -> list[list[str]]:
    lists: list[list[str]] = [[]]
    position, in_command = 0, False
    while position < len(line):
        words = lists[-1]
        if line[position].isspace():
            position += 1
            continue
        if line[position] == "#" and _ends_here(line, position + 1):
            break
        if line[position] == separator and _ends_here(line, position + 1):
            lists.append([])
            position += 1
            continue
        end = _json_end(line, position, separator) or _expression_end(line, position, separator)
        if end:
            words.append(line[position:end])
        elif in_command:
            end = _shell_end(line, position)
            try:
                words += shlex.split(line[position:end])
            except ValueError as error:
                raise _unreadable(line[position:end], str(error).lower()) from None
        else:
            word, end = _word(line, position, separator)
            words.append(word)
            in_command = not separator and line[position:end] == "--"
        position = end
    return lists


def _ends_here(line: str, position: int, separator: str = "") -> bool:
    """Return whether a word ends at a position: at white space, the end of the line, or a separator before these."""
    if position == len(line) or line[position].isspace():
        return True
    return line[position] == separator and _ends_here(line, position + 1)


def _json_end(line: str, position: int, separator: str) -> int:
    if start := _JSON_START.match(line, position):
        try:
            _, end = _DECODER.raw_decode(line, start.end())
        except (ValueError, RecursionError):
            return 0  # quoted for a shell, or invalid; reading its words reports that
        if _ends_here(line, end, separator):
            return end
    return 0


def _expression_end(line: str, position: int, separator: str) -> int:
    if start := _EXPRESSION_START.match(line, position):
        end = line.find("}", start.end())
        while end != -1:
            if _ends_here(line, end + 1, separator) and python_source(line[start.end() : end + 1]):
                return end + 1
            end = line.find("}", end + 1)
    return 0


def _word(line: str, position: int, separator: str) -> tuple[str, int]:
    """Return the word at a position, without its quotes, and where it ends.

    As for a program on Windows, backslashes are special only before a quote: each pair stands for one, and an odd one
    makes the quote part of the word. In single quotes they are not special.
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
        elif not quote and _ends_here(line, position, separator):
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


def _unreadable(word: str, why: str) -> CommandError:
    return CommandError(f"cannot read {word[:60]!r}: {why}; a value with spaces goes in quotes: name='two words'")
