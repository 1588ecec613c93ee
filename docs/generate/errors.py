"""The page of the errors, from the tree in `mcp_magic/errors.py` and the docstrings there."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from mcp_magic import errors

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["pages"]


def pages(root: Path) -> dict[str, str]:
    """Return name on the site -> Markdown."""
    text = inspect.cleandoc(errors.__doc__ or "")
    first, rest = text.split("\n\n", 1)
    tree, _, rest = rest.partition("\n\n")
    lines = [line.removeprefix("    ") for line in tree.splitlines()]
    classes = [name for name in _in_tree(tree) if hasattr(errors, name)]
    parts = [
        "# Errors",
        first,
        "```text\n" + "\n".join(lines) + "\n```",
        rest,
        "All of them are in `mcp_magic`: `from mcp_magic import ToolError`.",
        *(
            f"::: mcp_magic.errors.{name}\n    options:\n      show_bases: true\n      inherited_members: false"
            for name in classes
        ),
    ]
    return {"errors.md": "\n\n".join(parts) + "\n"}


def _in_tree(tree: str) -> list[str]:
    """Return the names of the classes in the order of the tree."""
    return list(dict.fromkeys(re.findall(r"\b(?:MCPMagic|[A-Z]\w*)Error\b", tree)))
