"""The facts below a session: standard error, status, stray output, exit, and where an error happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_magic.auth.login import LogIns
from mcp_magic.config.specs import StdioSpec
from mcp_magic.inflight import Outcome
from mcp_magic.protocol import named
from mcp_magic.session.negotiation import Probe
from mcp_magic.stderr import Position, cause, how_ended, not_passed_on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.config.specs import Spec
    from mcp_magic.stderr import ErrorLog
    from mcp_magic.trace.trace import Recorder

__all__ = ["NOT_RECORDED", "Keeper", "Place", "Wire", "not_recorded", "text_of"]


# Who an error is about, and what it says.

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


# What is known of the way to a server, below the session.

GARBAGE_LINES, GARBAGE_CHARACTERS = 5, 200
"""Lines that are no MCP messages, and characters of each, that are kept for errors."""


@dataclass(frozen=True)
class Keeper:
    """What a transport tells the supervisor of an open session.

    Attributes:
        doubted: Told that a request found no server, or that a stream was cut.
        forgotten: Told that the server does not have the session any more.
        back: Returns when the server answers again; raises an MCPMagicError if it will not.
    """

    doubted: Callable[[BaseException], None]
    forgotten: Callable[[], None]
    back: Callable[[], Awaitable[None]]


@dataclass
class Wire:
    """What a transport learns of its server, and what the session above tells the transport.

    Attributes:
        recorder: Writes the messages into the trace.
        logins: How a person logs in, and where tokens are kept.
        ended: Called when the server ends the stream: its process exits, or a socket is closed.
        warn: Told in words of answers that no request asked for.
        errlog: The server's stderr, for stdio.
        opening: How the server answered when a session was last opened, or asked whether it is there; None before.
        stray: The first of the answers that no request asked for, in words.
        garbage: Lines that are no MCP messages, the first few.
        open: Whether there has been a session; what fails later must not end it.
        modern: Whether the session is one of 2026-07-28.
        keeper: Who is told of the open session; None while there is none.
        replayed: Whether a cassette answers.
        exited: How the process ended that the cassette tells of, or "".
        probe: What became of the first question of the session.
    """

    recorder: Recorder
    logins: LogIns = field(default_factory=LogIns)
    ended: Callable[[], None] = lambda: None
    warn: Callable[[str], None] = lambda text: None
    errlog: ErrorLog | None = None
    opening: Outcome | None = None
    stray: str = ""
    garbage: list[str] = field(default_factory=list)
    open: bool = False
    modern: bool = False
    keeper: Keeper | None = None
    replayed: bool = False
    exited: str = ""
    probe: Probe = field(default_factory=Probe)

    def asks(self) -> Outcome:
        """Return what notes how the server answers the question that comes next."""
        self.opening = Outcome()
        return self.opening

    def begins(self, probe: Probe) -> Outcome:
        """Note that a session is being opened; return what notes how the server answers."""
        self.probe = probe
        return self.asks()

    def opened(self, keeper: Keeper, *, modern: bool) -> None:
        """Note that a session is open, and who is told of it."""
        self.keeper, self.modern, self.open = keeper, modern, True
        self.recorder.opened()

    def left(self) -> None:
        """Note that the session is being left."""
        self.keeper = None

    def began_in_vain(self) -> None:
        """Forget what a server did whose session could not be opened; it is begun in another way now."""
        self.garbage.clear()
        self.stray = ""
        self.recorder.ended()
        if self.errlog is not None:
            self.errlog.hide()

    def strayed(self, text: str) -> None:
        """Note an answer that no request asked for."""
        self.stray = self.stray or text
        self.warn(text)

    def wrote_garbage(self, text: str) -> None:
        """Note a line that is no MCP message."""
        if len(self.garbage) < GARBAGE_LINES and text.strip():
            self.garbage.append(text.strip()[:GARBAGE_CHARACTERS])

    def replays(self, errlog: ErrorLog) -> None:
        """Note that a cassette answers, which writes to `errlog` what the server wrote to its stderr."""
        self.replayed, self.errlog = True, errlog
