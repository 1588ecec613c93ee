"""Files where the cursor is: those that a line can mean, which is less than IPython offers."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from mcp_magic.magics.typed_words import meant
from mcp_magic.schema import as_word
from mcp_magic.schema.items import unescape_word

__all__ = ["DECLARATIONS", "SERVER_FILES", "paths"]

DECLARATIONS = (".toml", ".json")
"""The suffixes of files that `%mcp up` reads."""

SERVER_FILES = (".py", ".js", ".mjs", ".cjs")
"""The suffixes of files that `%mcp connect` runs."""

_INLINE = re.compile(r"\$[^\W\d]|\{.+\}|\\[${]")
"""What some commands would read as a variable or an expression, also in the middle of a word."""

MAX_NAMES = 2000
"""Names of a folder that are looked at: Tab has to be quick."""


def paths(fragment: str, suffixes: tuple[str, ...] = (), *, folders_only: bool = False) -> list[str]:
    """Return words for the files and folders that begin with what is typed; a folder ends with `/`.

    Args:
        fragment: What is typed, which may have a folder and an open quote.
        suffixes: Those of the files; none for any.
        folders_only: Whether files are left out.
    """
    folder, slash, begun = unescape_word(meant(fragment)).rpartition("/")
    try:
        inside = list(islice(Path(folder + slash or ".").expanduser().iterdir(), MAX_NAMES))
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, no path at all
        return []
    found = []
    for path in sorted(inside):
        hidden = path.name.startswith(".") and not begun.startswith(".")
        is_folder = path.is_dir()
        fits = is_folder or not (folders_only or (suffixes and path.suffix.lower() not in suffixes))
        left_out = hidden or path.name.startswith("__") or _INLINE.search(path.name)
        if path.name.startswith(begun) and fits and not left_out:
            found.append(as_word(f"{folder}{slash}{path.name}{'/' if is_folder else ''}"))
    return [word for word in found if word]
