"""Who an error is about, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.config.specs import StdioSpec
from mcp_magic.core.errlog import Position
from mcp_magic.core.foreign import named
from mcp_magic.core.stderr import cause, not_passed_on
from mcp_magic.core.stdio_process import how_ended

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec
    from mcp_magic.core.wire import Wire

__all__ = ["NOT_RECORDED", "Place", "not_recorded", "text_of"]

NOT_RECORDED = "mcp_magic/cassette"
"""What `data` of an error says that answers a request of which a cassette has nothing."""


class Place:
    """Who an error is about: the connection's name, its spec, and what is known of its wire.

    Attributes:
        name: The connection's name.
        spec: Where its server is.
        wire: The way to it, once there is one.
        quiet: Up to where its stderr has nothing to do with what goes wrong now, or None.
    """

    def __init__(self, name: str, spec: Spec, wire: Wire | None = None) -> None:
        self.name = name
        self.spec = spec
        self.wire = wire
        self.quiet: Position | None = None

    def masked(self, text: str) -> str:
        """Return text that a server wrote, with the secrets masked that are known, tokens of its log-in too."""
        text = self.spec.masked(text)
        return self.wire.recorder.hide(text) if self.wire else text

    def position(self) -> Position | None:
        """Return how much its stderr has now, or None if it is not ours."""
        errlog = self.wire.errlog if self.wire else None
        return Position(errlog, errlog.end) if errlog else None

    def stderr(self, since: Position | None = None) -> str:
        """The end of its stderr since a position, secrets masked; of a process that was started later, all of it."""
        errlog = self.wire.errlog if self.wire else None
        if errlog is None:
            return ""
        return self.spec.masked(errlog.tail(since.end if since is not None and since.errlog is errlog else 0))

    def said(self, since: Position | None = None) -> str:
        """What its stderr says of a cause, since a position, as further lines of a message, secrets masked."""
        written = self.stderr(since)
        lines = cause(written)
        said = [f"stderr: {line[:300]}" for line in lines]
        if sum(bool(line.strip()) for line in written.splitlines()) > len(lines):
            said.append(f"more: `%mcp logs {self.name}`, or `.stderr` of this error")
        if isinstance(self.spec, StdioSpec) and not (self.wire is not None and self.wire.replayed):
            said += not_passed_on(written, self.spec.env, "connect")
        return "".join(f"\n  {line}" for line in said)

    def heard(self) -> str:
        """What its process has said, on its stderr and where it writes messages."""
        return "\n".join([self.stderr(), *(self.wire.garbage if self.wire else [])])

    def ended(self) -> str:
        """How its process ended, as ` (exit code 3)`, or "" if that is not known."""
        errlog = self.wire.errlog if self.wire else None
        how = (self.wire.exited if self.wire else "") or (how_ended(errlog.file) if errlog else "")
        return f" ({how})" if how else ""

    def garbage(self) -> str:
        """The first thing the server wrote that is no MCP message, or an empty string."""
        return self.masked(self.wire.garbage[0])[:120] if self.wire and self.wire.garbage else ""


def text_of(error: BaseException, place: Place) -> str:
    """Return what an error says, on one line, secrets masked."""
    text = str(error).strip() or type(error).__name__
    if named(error, "pydantic_core", "ValidationError"):
        first = error.errors()[0]  # type: ignore[attr-defined]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return place.masked(text.splitlines()[0])[:300]


def not_recorded(error: BaseException, place: Place) -> bool:
    """Whether a cassette answered because it has nothing recorded; a server cannot say that."""
    data = getattr(error, "data", None)
    return place.wire is not None and place.wire.replayed and isinstance(data, dict) and NOT_RECORDED in data
