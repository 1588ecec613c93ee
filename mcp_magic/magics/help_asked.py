"""`%mcp call?`: IPython would look for a Python object `call`."""

from __future__ import annotations

import re

__all__ = ["help_asked"]

_ASKED = re.compile(r"(?P<before>\s*(?:[^\W\d]\w*\s*=\s*)?)%{1,2}mcp\s+(?P<name>[a-z]+)\s*\?{1,2}(?P<end>\s*)")


def help_asked(lines: list[str]) -> list[str]:
    """Turn a cell that is `%mcp SUBCOMMAND?` into `%mcp SUBCOMMAND --help`; for `ip.input_transformers_cleanup`."""
    found = _ASKED.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        return lines
    from mcp_magic.magics.commands import COMMANDS

    return [f"{found['before']}%mcp {found['name']} --help{found['end']}"] if found["name"] in COMMANDS else lines
