"""JSON as people write it: comments and trailing commas (VS Code's "JSON with Comments") are read too.

What JSON does not have is blanked out, character by character, before the standard parser sees the text;
so the positions in its errors are those in the file.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LARGEST", "LARGEST_DATA", "parse_json", "read_bytes", "read_text", "write_text"]

LARGEST = 1_000_000
"""Bytes of the largest configuration that is read. A file of a stranger may be of any size."""

LARGEST_DATA = 64_000_000
"""Bytes of the largest file with data that is read: answers, schemas, snapshots."""

# Each is read once: a string or comment that never ends is a match as well, or each of its quotes would begin a search.
_STRING = r'"(?:\\.|[^"\\\n])*+"?'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def _blank_comment(match: re.Match[str]) -> str:
    found = match[0]
    never_ends = found.startswith("/*") and not (len(found) > 3 and found.endswith("*/"))
    return found if found.startswith('"') or never_ends else re.sub(r"[^\n]", " ", found)


def _blank_comma(match: re.Match[str]) -> str:
    if match[0] != ",":
        return match[0]
    before = match.start()
    while before and match.string[before - 1].isspace():
        before -= 1
    # a comma must follow a value, or it is a mistake
    return "," if match.string[before - 1 : before] in ("", "[", "{", ",", ":") else " "


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
    except ValueError:
        problem = f"{source}: a number has more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        problem = f"{source}: nested too deeply"
    raise ConfigError(problem)


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """Read a file, but no more of it than is wanted.

    Raises:
        OSError: It cannot be read, is no regular file (a pipe may never end), or has more bytes than `largest`.
    """
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        found = file.read(largest + 1)
        if len(found) > largest:
            size = max(len(found), status.st_size)
            raise OSError(0, f"it has {size:,} bytes, and at most {largest:,} are read")
    return found


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Read a UTF-8 file, with or without a byte order mark.

    Raises:
        ConfigError: when there is no such file, it may not be read, is too large, or is not UTF-8.
    """
    try:
        return read_bytes(path, largest).decode("utf-8-sig").replace("\r\n", "\n")
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
