"""JSON as people write it: comments and trailing commas (VS Code's "JSON with Comments") are read too.

What JSON does not have is blanked out, character by character, before the standard parser sees the text;
so the positions in its errors are those in the file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["parse_json", "read_text", "write_text"]

_STRING = r'"(?:\\.|[^"\\\n])*"'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def _blank_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _blank_comma(match: re.Match[str]) -> str:
    if match[0] != ",":
        return match[0]
    before = match.string[: match.start()].rstrip()[-1:]
    return "," if before in ("", "[", "{", ",", ":") else " "  # a comma must follow a value, or it is a mistake


def plain_json(text: str) -> str:
    """Return `text` with comments and trailing commas replaced by spaces; strings stay.

    >>> plain_json('{"a": 1, /* b */ "c": "// no,}",} // d')
    '{"a": 1,         "c": "// no,}" }     '
    """
    return _STRING_OR_LAST_COMMA.sub(_blank_comma, _STRING_OR_COMMENT.sub(_blank_comment, text))


def parse_json(text: str, *, source: str) -> Any:
    """Read JSON with comments and trailing commas.

    Args:
        text: The document.
        source: Its file, for messages.

    Raises:
        ConfigError: with `file:line:column` of the first mistake.
    """
    try:
        return json.loads(plain_json(text))
    except json.JSONDecodeError as error:
        problem = f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
    except RecursionError:
        problem = f"{source}: nested too deeply"
    raise ConfigError(problem)


def read_text(path: Path) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises:
        ConfigError: when there is no such file, it may not be read, or it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = f"{path}: cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        problem = f"{path}: not UTF-8 (byte {error.start})"
    raise ConfigError(problem)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, whatever the locale; half of a surrogate pair, which UTF-8 has not, as its escape sequence.

    Raises:
        ConfigError: when it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    except OSError as error:
        problem = error.strerror or str(error)
    except UnicodeEncodeError:
        problem = "the locale has no such characters for the name of a file; choose another, or set LANG=C.UTF-8"
    except ValueError as error:  # a null byte in the name
        problem = str(error)
    raise ConfigError(f"{path} cannot be written: {problem}")
