"""The words of a `%mcp` line.

Words are those of a POSIX shell, with two comforts that a shell cannot give: after `name:=` a JSON
value is one word although it has quotes and spaces, so is a JSON object alone or after `name=`, and so
is a `{python expression}` or a Python dict. A `#` that stands alone begins a comment.
"""

from __future__ import annotations

import json
import re
import shlex

from mcp_magic.errors import CommandError
from mcp_magic.schema.items import escape_word, python_source

__all__ = ["split_line"]

_JSON_START = re.compile(r"""[^\s'"=:]+:=(?=[\[{"])|(?:[^\s'"=:{]+=)?(?=\{)""")
_EXPRESSION_START = re.compile(r"""(?:[^\s'"=:{]+=)?(?=\{)""")
_ESCAPED_START = re.compile(r"""([^\s'"\\=]+=)(?=\\+[${@])""")
_DECODER = json.JSONDecoder()


def split_line(line: str) -> list[str]:
    r"""Split a line into words.

    >>> split_line('call math:add a=1 note="two words"')
    ['call', 'math:add', 'a=1', 'note=two words']
    >>> split_line('call t rows:=[{"a": 1}, {"a": 2}] x={df[df.a > 1]}')
    ['call', 't', 'rows:=[{"a": 1}, {"a": 2}]', 'x={df[df.a > 1]}']
    >>> split_line(r"call t price=\$5")  # the backslash is for whoever reads the value
    ['call', 't', 'price=\\$5']
    >>> split_line("ping --timeout 1   # all of them")
    ['ping', '--timeout', '1']

    Raises:
        CommandError: A quotation is not closed.
    """
    words: list[str] = []
    position = 0
    while position < len(line):
        if line[position].isspace():
            position += 1
            continue
        if line[position] == "#" and _ends_here(line, position + 1):
            break
        end = _json_end(line, position) or _expression_end(line, position)
        if end:
            words.append(line[position:end])
        else:
            end = _word_end(line, position)
            words += _shell_word(line[position:end])
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


def _word_end(line: str, position: int) -> int:
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


def _shell_word(word: str) -> list[str]:
    escaped = _ESCAPED_START.match(word)
    kept = f"{escaped[1]}\\{word[escaped.end() :]}" if escaped else word
    try:
        words = shlex.split(kept)
        return [escape_word(words[0])] if word.startswith("\\") else words
    except ValueError as error:
        message = (
            f"cannot read {word[:60]!r}: {str(error).lower()}; a value with spaces goes in quotes: name='two words'"
        )
    raise CommandError(message)
