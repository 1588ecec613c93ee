"""Facts that a transport learns below a session: stderr, status, stray output, exit; and the place of an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec, Spec, SseSpec, StdioSpec
from mcp_magic.flight.attempt import Attempt
from mcp_magic.protocol import has_type
from mcp_magic.results.reasons import MAX_LINE, with_data
from mcp_magic.session.negotiation import Probe
from mcp_magic.session.secrets import AskInput, ask_nobody
from mcp_magic.stderr import ErrorLog, Position, cause, how_ended, not_passed_on

if TYPE_CHECKING:
    import httpx2
    from mcp import Client

    from mcp_magic.trace.trace import Recorder


NOT_RECORDED = "mcp_magic/cassette"  # marks, in the `data` of an error, that a cassette has no answer to the request


class ErrorContext:
    """The connection that an error is about. Its stderr from `stderr_offset` on may tell the cause."""

    def __init__(self, name: str, spec: Spec, wire: Wire | None = None) -> None:
        self.name = name
        self.spec = spec
        self.wire = wire
        self.stderr_offset: Position | None = None

    def masked(self, text: str) -> str:
        """Return a server's text with all known secrets masked, including tokens of its log-in."""
        text = self.spec.masked(text)
        return self.wire.recorder.hide(text) if self.wire else text

    @property
    def errlog(self) -> ErrorLog | None:
        """The log of a stdio server's stderr, or None."""
        return self.wire.errlog if self.wire else None

    @property
    def replayed(self) -> bool:
        """Whether a cassette answers instead of the server."""
        return self.wire is not None and self.wire.replayed

    def position(self) -> Position | None:
        """Return the end of its stderr when its last message came, or None if this host does not have the stderr."""
        errlog = self.errlog
        return Position(errlog, errlog.seen) if errlog else None

    def stderr(self, since: Position | None = None) -> str:
        """Return its stderr since a position, secrets masked; all of it if the process was started later."""
        errlog = self.errlog
        if errlog is None:
            return ""
        return self.spec.masked(errlog.tail(since.end if since is not None and since.errlog is errlog else 0))

    def cause_lines(self, since: Position | None = None) -> str:
        """Return the lines of its stderr since a position that tell a cause, to append to a message, secrets masked."""
        stderr = self.stderr(since)
        lines = cause(stderr)
        parts = [f"stderr: {line[:300]}" for line in lines]
        if sum(bool(line.strip()) for line in stderr.splitlines()) > len(lines):
            parts.append(f"more: `%mcp logs {self.name}`, or `.stderr` of this error")
        if isinstance(self.spec, StdioSpec) and not self.replayed:
            parts += not_passed_on(stderr, self.spec.env, "connect")
            parts += filter(None, [self.refusal(stderr)])
        return "".join(f"\n  {line}" for line in parts)

    def refusal(self, text: str) -> str:
        """Return what the sandbox of a stdio server refused, by a text of the server, and what allows it; or ""."""
        if not isinstance(self.spec, StdioSpec) or self.replayed:
            return ""
        from mcp_magic.sandbox.denials import refusal

        return self.masked(refusal(text, self.spec, self.name))

    def last_line(self) -> str:
        """Return the last line of its stderr, secrets masked, or ""."""
        lines = self.stderr().strip().splitlines()
        return lines[-1] if lines else ""

    def output(self) -> str:
        """Return all output of its process: stderr, and stdout lines that are no messages."""
        return "\n".join([self.stderr(), *(self.wire.garbage if self.wire else [])])

    def exit_text(self) -> str:
        """Return how its process ended, as ` (exit code 3)`; "" if unknown."""
        errlog = self.errlog
        how = (self.wire.exited if self.wire else "") or (how_ended(errlog.file) if errlog else "")
        return f" ({how})" if how else ""

    def garbage(self) -> str:
        """Return the first output of the server that is no MCP message, or ""."""
        return self.masked(self.wire.garbage[0])[:120] if self.wire and self.wire.garbage else ""


def text_of(error: BaseException, place: ErrorContext) -> str:
    """Return the telling line of an error, with what the `data` of a JSON-RPC error says more, secrets masked."""
    text = str(error).strip() or type(error).__name__
    if has_type(error, "pydantic_core", "ValidationError"):
        first = error.errors()[0]  # type: ignore[attr-defined]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return place.masked(with_data(text, getattr(error, "data", None))[: 2 * MAX_LINE])[:MAX_LINE]


def not_recorded(error: BaseException, place: ErrorContext) -> bool:
    """Whether a cassette answered that it has no recording; a real server cannot cause this."""
    data = getattr(error, "data", None)
    return place.replayed and isinstance(data, dict) and NOT_RECORDED in data


GARBAGE_LINES, GARBAGE_CHARACTERS = 5, 200
"""Maximum number of lines that are no MCP messages, and most characters of each, to keep for errors."""


class Event(Enum):
    """What a transport or a request learns about the session."""

    STREAM_END = auto()
    """The server has ended the stream: its process exited, or a socket was closed."""
    FORGOTTEN = auto()
    """The server no longer knows the session."""
    UNINITIALIZED = auto()
    """The server wants the handshake, although it was discovered."""
    DOUBTED = auto()
    """A request could not connect, or a stream was cut: the server may be gone."""
    LOGGED_IN = auto()
    """The user, or the kernel itself, has logged in: what is kept may be another user's."""


Report = Callable[..., None]
"""Tells the supervisor of an event: `(event, session=None, why=None)`, the session that it is about, and its error."""


Authenticator = Callable[["httpx2.AsyncClient", HttpSpec | SseSpec, "Wire"], None]
"""Adds the log-in of a session to its HTTP client."""

LOG_IN = "mcp_magic_oauth"
"""Extension of requests that belong to a log-in. They are not traced and do not count as requests of the session."""


def no_log_in(client: httpx2.AsyncClient, spec: HttpSpec | SseSpec, wire: Wire) -> None:
    """Leave an HTTP client without a log-in."""


async def _never() -> None:
    await asyncio.Event().wait()


@dataclass
class Wire:
    """What a transport learns of its server, and what the session tells the transport.

    `warn` shows a text below the pending call. `remark` takes what was odd in a message that was understood, and if
    that is logged. `opening` is how the server answered the last opening or ping. Once it was `open`, failures do not
    end the session. `has_answered` is whether the session has answered a request after the handshake. `version` is what
    the handshake asks for, "" for the newest. `made_up` has the ids of the requests whose answers a transport makes up
    from an HTTP status. `ask` asks the user for an input of the configuration; `waits` takes what is waited for before
    the transport is open, such as a secret. `values` are the secrets of this opening, by their references.
    """

    recorder: Recorder
    authenticate: Authenticator = no_log_in
    report: Report = lambda event, session=None, why=None: None
    back: Callable[[], Awaitable[None]] = _never
    warn: Callable[[str], None] = lambda text: None
    remark: Callable[..., None] = lambda text, logged=True: None
    errlog: ErrorLog | None = None
    opening: Attempt | None = None
    stray: str = ""
    garbage: list[str] = field(default_factory=list)
    open: bool = False
    modern: bool = False
    session: Client | None = None
    replayed: bool = False
    has_answered: bool = False
    version: str = ""
    exited: str = ""
    probe: Probe = field(default_factory=Probe)
    made_up: set[int | str] = field(default_factory=set)
    ask: AskInput = ask_nobody
    waits: Callable[[str], None] = lambda text: None
    values: dict[str, str] = field(default_factory=dict, repr=False)

    def new_attempt(self) -> Attempt:
        """Return a new `Attempt` that records the answer to the next request."""
        self.opening = Attempt()
        return self.opening

    def start_opening(self, probe: Probe, version: str = "") -> Attempt:
        """Note that a session is being opened; return the `Attempt` that records the answer."""
        self.probe, self.version, self.has_answered = probe, version, False
        return self.new_attempt()

    def opened(self, session: Client) -> None:
        """Note that a session is open."""
        self.session, self.modern, self.open = session, session.session.discover_result is not None, True
        self.recorder.opened()

    def clear_session(self) -> None:
        """Note that the session is being left."""
        self.session = None

    def abandoned(self) -> None:
        """Note that the loop of the session was closed: what is still heard of it does not concern the next."""
        self.session = None
        self.report = lambda event, session=None, why=None: None

    def discard_failed_opening(self) -> None:
        """Forget a failed opening, because another way of opening is tried next."""
        self.garbage.clear()
        self.stray = ""
        self.recorder.ended()
        if self.errlog is not None:
            self.errlog.hide()

    def note_stray_reply(self, text: str) -> None:
        """Note a stray answer."""
        self.stray = self.stray or text
        self.warn(text)

    def wrote_garbage(self, text: str) -> None:
        """Note a line that is no MCP message."""
        if len(self.garbage) < GARBAGE_LINES and text.strip():
            self.garbage.append(text.strip()[:GARBAGE_CHARACTERS])

    def replays(self, errlog: ErrorLog) -> None:
        """Note that a cassette answers, which writes the recorded stderr to `errlog`."""
        self.replayed, self.errlog = True, errlog
