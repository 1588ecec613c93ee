"""What is known of the way to a server, below the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_magic.auth.login import LogIns
from mcp_magic.core.negotiation import Probe
from mcp_magic.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.core.errlog import ErrorLog
    from mcp_magic.core.trace.record import Recorder

__all__ = ["Keeper", "Wire"]

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
