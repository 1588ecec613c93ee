"""Programs that were written anew while their server runs: it goes on as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import listed

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["edited"]

PROGRAMS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".jar", ".sh", ".rb", ".php", ".pl", ".r", ".jl", ".lua")
"""Suffixes of programs: what else a command names may be a file that the server itself writes."""


def edited(server: str, spec: Spec, opened: float | None) -> str:
    """Say which programs of a server's command have changed since its session was opened; "" if none has.

    Args:
        server: The connection's name.
        spec: Where the server is.
        opened: When the session was opened (`time.time()`), or None.
    """
    if not isinstance(spec, StdioSpec) or opened is None:
        return ""
    paths = [Path(spec.cwd or ".", word) for word in (spec.command, *spec.args) if word.lower().endswith(PROGRAMS)]
    newer = [path.name for path in paths if _written(path) > opened]
    if not newer:
        return ""
    have = "has" if len(newer) == 1 else "have"
    return f"{listed(newer)} {have} changed since it was started; `%mcp reconnect {server}` starts it again"


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
