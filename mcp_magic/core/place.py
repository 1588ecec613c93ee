"""Who an error is about, and what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.core.foreign import named

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec
    from mcp_magic.core.transports import Line

__all__ = ["NOT_RECORDED", "Place", "named_url", "not_recorded", "text_of"]

NOT_RECORDED = "mcp_magic/cassette"
"""What `data` of an error says that answers a request of which a cassette has nothing."""

_URL = re.compile(r"https?://[\w.:\[\]%/~-]{1,200}")


class Place:
    """Who an error is about: the connection's name, its spec, and what its line has seen."""

    def __init__(self, name: str, spec: Spec, line: Line | None = None) -> None:
        self.name = name
        self.spec = spec
        self.line = line

    def said(self, count: int = 3) -> str:
        """The server's last stderr lines as further lines of a message, secrets masked."""
        errlog = self.line.errlog if self.line else None
        lines = errlog.last_lines(count) if errlog else []
        return "".join(f"\n  stderr: {self.spec.masked(line)[:300]}" for line in lines)

    def garbage(self) -> str:
        """The first thing the server wrote that is no MCP message, or an empty string."""
        return self.spec.masked(self.line.garbage[0])[:120] if self.line and self.line.garbage else ""


def named_url(text: str) -> str:
    """Return the first HTTP URL in what a process says, or "": a server that listens there names it.

    >>> named_url("INFO: Uvicorn running on http://127.0.0.1:8000/mcp (Press CTRL+C to quit)")
    'http://127.0.0.1:8000/mcp'
    """
    found = _URL.search(text)
    return found[0].rstrip(".,;:") if found else ""


def text_of(error: BaseException, place: Place) -> str:
    """Return what an error says, on one line, secrets masked."""
    text = str(error).strip() or type(error).__name__
    if named(error, "pydantic_core", "ValidationError"):
        first = error.errors()[0]  # type: ignore[attr-defined]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    text = place.spec.masked(text.splitlines()[0])
    return (place.line.recorder.hide(text) if place.line else text)[:300]


def not_recorded(error: BaseException, place: Place) -> bool:
    """Whether a cassette answered because it has nothing recorded; a server cannot say that."""
    data = getattr(error, "data", None)
    return place.line is not None and place.line.replayed and isinstance(data, dict) and NOT_RECORDED in data
