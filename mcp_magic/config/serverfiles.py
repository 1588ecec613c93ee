"""Server files: a path in place of a command."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from pathlib import Path

from mcp_magic.config.names import name_of_command
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import TargetError, listed
from mcp_magic.schema.lines import as_command

__all__ = ["is_path", "is_server_file", "spec_of_file"]

NODE_SUFFIXES = (".js", ".mjs", ".cjs")


def spec_of_file(path: Path, directory: Path | None) -> tuple[StdioSpec, str]:
    """Run a server file with this kernel's Python, or with node.

    Raises:
        TargetError: when there is no such file, with its absolute path, or it is no server's.
    """
    path = ((directory or Path.cwd()) / path.expanduser()).absolute()
    if not path.is_file():
        raise TargetError(
            f"no server file at {path}{' (it is a folder)' if path.is_dir() else ''}.{_near(path, directory)}"
        )
    suffix = path.suffix.lower()
    if suffix != ".py" and suffix not in NODE_SUFFIXES:
        raise TargetError(f"{path} is no server file (.py, .js, .mjs, .cjs). {_how_to_use(path, directory)}")
    program = sys.executable if suffix == ".py" else "node"
    return StdioSpec(command=program, args=(str(path),)), name_of_command(program, [str(path)])


def _near(path: Path, directory: Path | None) -> str:
    """Name the server file beside it that may be meant; in a folder, those that are in it."""
    if path.is_dir():
        inside = [file.name for file in _server_files(path)]
        return f" In it are: {listed(inside)}" if inside else ""
    close = get_close_matches(path.name, [file.name for file in _server_files(path.parent)], n=1)
    return f" Did you mean {_as_typed(path.with_name(close[0]), directory)!r}?" if close else ""


def _as_typed(path: Path, directory: Path | None) -> str:
    """Return a path as short as it can be typed."""
    here = directory or Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _server_files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in (".py", *NODE_SUFFIXES))
    except OSError:
        return []


def _how_to_use(path: Path, directory: Path | None) -> str:
    name = _as_typed(path, directory)
    match path.suffix.lower():
        case ".json":
            return f"For the servers of a config file: %mcp connect --config {as_command([name])}"
        case ".toml":
            return f"For a declaration: %mcp up {as_command([name])}"
        case ".ts" | ".mts":
            return f"Run it as a command: %mcp connect -- {as_command(['npx', 'tsx', name])}"
    program = as_command([name if os.path.dirname(name) else f"{os.curdir}{os.sep}{name}"])  # noqa: PTH120
    if not os.access(path, os.X_OK):
        return f"Is it a program? Then make it executable (chmod +x) and run it as a command: %mcp connect -- {program}"
    return f"Run it as a command: %mcp connect -- {program}"


def is_server_file(text: str) -> bool:
    """Tell the name of a file that is a server or lists servers, by its suffix."""
    return Path(text).suffix.lower() in (".py", ".ts", ".mts", ".json", ".toml", *NODE_SUFFIXES)


def is_path(text: str) -> bool:
    """Tell a path from a name: it has a folder or the suffix of a file."""
    return is_server_file(text) or text.startswith((".", "~")) or (("/" in text or "\\" in text) and " " not in text)
