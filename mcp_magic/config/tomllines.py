"""TOML of strangers within bounds, and the line on which it says something, which `tomllib` does not tell.

The document is cut into statements by letting `tomllib` itself say when one is complete; strings over
several lines, quoted and dotted keys, inline tables and arrays of tables are then its work, not ours.
"""

from __future__ import annotations

import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_line", "parse_toml"]

Path = tuple[str | int, ...]

MAX_STATEMENT_LINES = 200
"""A longer statement is given up: each of its lines is one more try."""

MAX_TRIED = 500_000
"""Characters that are parsed to find a line. After that the line is not told."""

MAX_PARTS = 32
"""Parts of the name of a key: `tomllib` takes a time that grows with their square."""

_PART = r"""(?:[\w-]++|"[^"\n]*"|'[^'\n]*')[ \t]*+"""
_LONG_NAME = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{{MAX_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises:
        tomllib.TOMLDecodeError: It is none, or is made to keep a parser busy.
    """
    if (found := _LONG_NAME.search(text)) is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise tomllib.TOMLDecodeError(f"A name has more than {MAX_PARTS} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        problem = f"A number has more than {sys.get_int_max_str_digits():,} digits"
    except RecursionError:
        problem = "Nested too deeply"
    raise tomllib.TOMLDecodeError(problem)


def find_line(text: str, path: Path) -> int | None:
    r"""Return the number of the line that sets `path`, or else the nearest table around it.

    >>> find_line("[a]\nx = 1\n[[b]]\n[[b]]\ny.z = 2", ("b", 1, "y", "z"))
    5
    >>> find_line("[a]\nx = 1", ("a", "missing"))
    1
    """
    statements = list(_statements(text))
    for length in range(len(path), 0, -1):
        for line, chunk, table, value in statements:
            rest = _inside(path[:length], table)
            if rest is not None and _has(value, rest):
                return line + _offset(chunk, path[length - 1])
    return None


def _statements(text: str) -> Iterator[tuple[int, str, Path, Any]]:
    """Yield line, source, the table it stands in and the value of each statement."""
    table: Path = ()
    arrays: dict[Path, int] = {}
    for line, chunk, value in _chunks(text):
        if chunk.lstrip().startswith("[["):
            name = _header(value)
            table = _indexed(name[:-1], arrays)
            arrays[(*table, name[-1])] = arrays.get((*table, name[-1]), -1) + 1
            table = _indexed(name, arrays)
            yield line, chunk, table, {}
        elif chunk.lstrip().startswith("["):
            table = _indexed(_header(value), arrays)
            yield line, chunk, table, {}
        elif value:
            yield line, chunk, table, value


def _chunks(text: str) -> Iterator[tuple[int, str, Any]]:
    """Cut into the shortest runs of lines that are TOML by themselves."""
    lines = text.replace("\r\n", "\n").split("\n")
    start = tried = 0
    while start < len(lines):
        for end in range(start + 1, min(len(lines), start + MAX_STATEMENT_LINES) + 1):
            chunk = "\n".join(lines[start:end])
            tried += len(chunk)
            if tried > MAX_TRIED:
                return
            try:
                value = parse_toml(chunk)
            except tomllib.TOMLDecodeError:
                continue
            yield start + 1, chunk, value
            start = end
            break
        else:
            start += 1


def _header(value: Any) -> tuple[str, ...]:
    """Return the name in a table's header, from what the header alone parses to."""
    name: list[str] = []
    while value:
        if isinstance(value, list):
            value = value[0]
        else:
            [(key, value)] = value.items()
            name.append(key)
    return tuple(name)


def _indexed(name: tuple[str, ...], arrays: dict[Path, int]) -> Path:
    """Put the number of the current element after each name of an array of tables."""
    path: Path = ()
    for part in name:
        path = (*path, part)
        if path in arrays:
            path = (*path, arrays[path])
    return path


def _inside(path: Path, table: Path) -> Path | None:
    """Return what is left of `path` in `table`; a header as deep as the path sets the path itself."""
    if path == table[: len(path)]:
        return ()
    return path[len(table) :] if path[: len(table)] == table else None


def _has(value: Any, path: Path) -> bool:
    for part in path:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return False
    return True


def _offset(chunk: str, key: str | int) -> int:
    """Return on which line of a statement over several lines the key stands, 0 when that is not clear."""
    lines = chunk.split("\n")
    wanted = re.compile(rf"""(^|[\s{{,."'\[]){re.escape(str(key))}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(lines) if wanted.search(line)), 0)
