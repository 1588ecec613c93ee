"""Arguments as the `%mcp` line that gives them, the inverse of `parse_arguments`."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.arguments import parse_arguments
from mcp_magic.schema.describe import shorten
from mcp_magic.schema.items import escape_name, escape_text, escape_word
from mcp_magic.schema.merge import json_equal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["as_command", "as_word", "call_line", "line_or_comment", "prompt_line"]

MAX_REPEATED = 4
"""Items of a list that are written as repeated `name=`; longer lists are JSON."""

_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null"))


def call_line(
    tool: str,
    arguments: Mapping[str, Any],
    command: str = "%mcp call",
    *,
    schema: Mapping[str, Any] | None = None,
) -> str:
    r"""Return the line that calls a tool; `parse_arguments` reads exactly these arguments back.

    The names come from a server: where one of an argument cannot be typed, all are a JSON object, and where that of
    the tool cannot, the line is a comment (see `line_or_comment`).

    Args:
        tool: `server:tool`.
        arguments: JSON values.
        command: The magic and its subcommand.
        schema: The tool's input schema. With it the simplest spelling is chosen that it reads back; without
            it only texts that look like nothing else are written as text.

    Raises:
        ArgumentsError: A value is no JSON.

    >>> call_line("math:add", {"a": 1, "note": "it's"})
    '%mcp call math:add a:=1 \'note=it\'"\'"\'s\''
    >>> call_line("math:add", {"a": 1}, schema={"properties": {"a": {"type": "integer"}}})
    '%mcp call math:add a=1'
    """
    if all(map(str.isprintable, arguments)):
        items = [item for name, value in arguments.items() for item in _items(name, value, schema)]
    else:
        items = [_json("arguments", dict(arguments))]
    return line_or_comment(" ".join([command, *map(shlex.quote, [tool, *items])]))


def line_or_comment(line: str, *, typed: bool = True) -> str:
    r"""Return a line, or a comment in its place if it cannot be typed as one.

    Line ends would begin a line of their own, and what does not show (bidirectional controls, zero-width spaces)
    is not what is read.

    Args:
        line: The line.
        typed: Whether its words can be typed as they are meant.

    >>> line_or_comment("%mcp read 'a\n!rm x'")
    "# cannot be typed: %mcp read 'a\\n!rm x'"
    """
    if typed and line.isprintable():
        return line
    written = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return f"# cannot be typed: {written}"


def as_word(text: str) -> str | None:
    r"""Return a text as one word of a line, which a command takes as it is; None if it cannot be typed.

    >>> as_word("note://x"), as_word("{x}"), as_word("a b"), as_word("--all"), as_word("a\n!rm x")
    ('note://x', "'\\{x}'", "'a b'", None, None)
    """
    return shlex.quote(escape_word(text)) if text.isprintable() and not text.startswith("-") else None


def as_command(words: Iterable[str]) -> str:
    r"""Return a command as it is typed behind `--`: its words are read back as they are.

    >>> as_command(["python", "my server.py", "-v", "{x}"])
    "python 'my server.py' -v '\\{x}'"
    """
    return " ".join(shlex.quote(escape_word(word)) for word in words)


def prompt_line(prompt: str, arguments: Mapping[str, str], command: str = "%mcp prompt") -> str:
    """Return the line that gets a prompt.

    >>> prompt_line("docs:review", {"code": "x = 1"})
    "%mcp prompt docs:review 'code=x = 1'"
    """
    return call_line(prompt, arguments, command, schema={"additionalProperties": {"type": "string"}})


def _items(name: str, value: Any, schema: Mapping[str, Any] | None) -> list[str]:
    """The items for one argument, the simplest spelling that reads back."""
    written = escape_name(name)
    exact = [f"{written}:={_json(name, value)}"]
    if schema is None:
        plain = isinstance(value, str) and value.isprintable() and not _looks_like_json(value)
        return [f"{written}={escape_text(value)}"] if plain else exact
    return next((items for items in _simpler(written, value) if _reads_back(items, name, value, schema)), exact)


def _simpler(written: str, value: Any) -> Iterator[list[str]]:
    if (text := _as_text(value)) is not None:
        yield [f"{written}={text}"]
    if isinstance(value, list) and 0 < len(value) <= MAX_REPEATED:
        texts = [text for text in map(_as_text, value) if text is not None]
        if len(texts) == len(value):
            yield [f"{written}={text}" for text in texts]
    if isinstance(value, dict) and 0 < len(value) <= MAX_REPEATED:
        pairs = [(str(key), _as_text(item)) for key, item in value.items()]
        if all(text is not None and key.isprintable() for key, text in pairs):
            yield [f"{written}.{escape_name(key)}={text}" for key, text in pairs]


def _as_text(value: Any) -> str | None:
    """A scalar as it is typed, or None for what only JSON can write on one line."""
    if isinstance(value, str):
        return escape_text(value) if value.isprintable() else None
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _reads_back(items: list[str], name: str, value: Any, schema: Mapping[str, Any]) -> bool:
    try:
        read = parse_arguments(items, schema)
    except ArgumentsError:
        return False
    return json_equal(read, {name: value}) and repr(read) == repr({name: value})


def _looks_like_json(text: str) -> bool:
    """Whether some schema could read a text as something else: a number, a word for a value, a list."""
    if text.lower() in _WORDS or text.lstrip()[:1] in ("[", "{"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json(name: str, value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(f"{name}: no JSON value: {shorten(str(error), 100)}") from None
    # Line separators of any kind would end the magic's line; in ASCII they are escaped.
    return text if text.isprintable() else json.dumps(value, allow_nan=False)
