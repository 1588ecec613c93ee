"""What a connection knows of its session: whether it is open, lost, or being opened again; and who waits for it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic.config.specs import HttpSpec
from mcp_magic.core.border import closed_error, connect_error
from mcp_magic.core.catalog import KINDS
from mcp_magic.core.foreign import is_closed
from mcp_magic.core.lost import away, gave_up
from mcp_magic.core.reconnection import Backoff, Reconnection
from mcp_magic.core.requests import Requests
from mcp_magic.errors import SessionClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client
    from mcp_types import Implementation, ServerCapabilities

    from mcp_magic.auth.login import LogIns
    from mcp_magic.core.host import Host
    from mcp_magic.core.negotiation import KnownProtocols
    from mcp_magic.core.trace.record import Recorder

__all__ = ["Lasting"]

DEATH_SECONDS = 0.5
"""Seconds between a failed request and the end of its server's process, which has the last words."""


class Known(NamedTuple):
    """What a session's server said of itself; the SDK's client tells that only while it is open."""

    client: Client
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation | None
    instructions: str | None

    @classmethod
    def of(cls, client: Client) -> Known:
        """Ask an open session."""
        return cls(client, client.protocol_version, client.server_capabilities, client.server_info, client.instructions)


class Lasting(Requests):
    """The state of a `Connection`.

    Attributes:
        loop: The event loop it was opened on, or None before.
        opened_at: When the session was opened (`time.time()`), or None before.
        connect_seconds: How long the first opening took.
        reconnection: What is done when the session is lost.
        reconnects: How often it has come back by itself.
        opened_by_hand: How often the person had it opened again.
        on_state: Called whenever its state changes.
    """

    protocols: KnownProtocols
    trace: Recorder
    logins: LogIns | None
    host: Host | None

    def __init__(self) -> None:
        super().__init__()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.opened_at: float | None = None
        self.connect_seconds = 0.0
        self.reconnection = Reconnection()
        self.reconnects = self.opened_by_hand = 0
        self.on_state: Callable[[], None] = lambda: None
        self._client: Client | None = None
        self._known: Known | None = None
        self._owner: asyncio.Task[None] | None = None
        self._leave, self._left = asyncio.Event(), asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self._reopening = asyncio.Lock()
        self._closing = self._renewing = self._ended = self._entering = self._gave_up = self._replacing = False
        self._closes = 0
        self._sessions = 0
        self._up_since = self._up_for = 0.0
        self._backoff: Backoff | None = None
        self._lost: SessionClosedError | None = None
        self._why: BaseException | None = None
        self._tried: BaseException | None = None

    @property
    def state(self) -> str:
        """`"connecting"`, `"open"`, `"reconnecting"`, `"lost"` (the server ended it) or `"closed"`."""
        if self._client is not None:
            return "open"
        if self._owner is None or self._owner.done() or self._closing:
            return "lost" if self._lost is not None else "closed"
        if not self._sessions:
            return "connecting"
        return "reconnecting" if self._comes_back else "lost"

    @property
    def problem(self) -> str:
        """Why the session is not open, and what is done about it; "" while it is."""
        if self._client is not None or self._lost is None:
            return ""
        first = str(self._lost).partition("\n")[0]
        return f"{first} ({away(self._backoff)})" if self._backoff is not None and self._comes_back else first

    @property
    def _comes_back(self) -> bool:
        """Whether a session that is not open just now will be, or somebody is about to open it."""
        return self._reopening.locked() or self._goes_on

    @property
    def _goes_on(self) -> bool:
        """Whether the owner task is to open the session again."""
        if self._owner is None or self._owner.done() or self._closing or self._gave_up:
            return False
        return self._renewing or self.reconnection.covers(self.spec)

    @property
    def _lasted(self) -> bool:
        """Whether the session was open for long enough to be opened again without a pause."""
        return self._up_for >= self.reconnection.lasting

    # What the owner task says

    def _begin(self) -> None:
        assert self.loop is not None
        if self._ready is None or self._ready.done():
            self._ready = self.loop.create_future()
        self._closing = self._gave_up = False
        self._lost = self._backoff = self._why = self._tried = None
        self._sessions = 0

    def _pause(self) -> None:
        """There is no session now; whoever wants one waits."""
        if self._client is not None:
            self._client = None
            self._up_for = time.monotonic() - self._up_since
            if self._lasted:
                self._backoff = None
        if self._ready is None or self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # if nobody waits
        self.on_state()

    def _away(self, failure: BaseException | None) -> None:
        """The session is lost, or an attempt to have it back has failed."""
        if self._backoff is None:
            self._backoff = Backoff(self.reconnection)
        self._lost = closed_error(self._place, self._why or failure)
        self._pause()

    def _resume(self, client: Client, *, afresh: bool) -> None:
        """There is a session.

        Args:
            client: It.
            afresh: Whether the server may offer something else than before.
        """
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        self._client, self._known = client, Known.of(client)
        self._lost = self._why = self._tried = None
        self._up_since = time.monotonic()
        if afresh:
            self.reconnects += 1
            for kind in KINDS:
                self.catalog.changed(kind)
        self.on_state()

    def _finish(self, failure: BaseException | None) -> None:
        """There will be no session any more."""
        if not self._closing:
            self._lost = closed_error(self._place, self._why or failure)
            if self._gave_up and self._backoff is not None and self.reconnection.covers(self.spec):
                self._lost = gave_up(self._lost, self._backoff, self._last_attempt())
        if self._ready is not None and not self._ready.done() and not self._replacing:
            never = not self._sessions and not self._closing
            self._refuse(connect_error(failure or EOFError("closed"), self._place) if never else self._gone())
        self.on_state()

    def _refuse(self, failed: Exception) -> None:
        """Tell whoever waits for a session why there will be none."""
        failed.__context__ = failed.__cause__ = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(failed)
            self._ready.exception()  # seen, should nobody wait for it any more

    # What the transport and the requests notice

    def _forget(self, client: Client) -> None:
        """The server does not have this client's session any more."""
        if self._known is not None and self._known.client is client and not self._renewing and not self._closing:
            self._renewing = True
            self._pause()
            self._leave.set()

    def _doubt(self, why: BaseException) -> None:
        """The server may be gone: a request found nobody, or a stream was cut."""
        if self._client is None or self._leave.is_set():
            return
        self._why = why
        self._lost = closed_error(self._place, why)
        self._ended = not isinstance(self.spec, HttpSpec)
        self._pause()
        self._leave.set()

    def _stream_cut(self, why: BaseException) -> None:
        """A stream of notices was cut. Over HTTP that is the first sign that a server is gone."""
        if isinstance(self.spec, HttpSpec):
            self._doubt(why)

    def _end(self) -> None:
        """The server has ended the stream."""
        self._ended = True
        if not self._closing:
            self._lost = closed_error(self._place)
        self._pause()
        self._leave.set()

    async def _back(self) -> None:
        """Return when the session is open again.

        Raises:
            MCPMagicError: It will not be.
        """
        while self._client is None and self._comes_back and self._ready is not None:
            await asyncio.shield(self._ready)

    def _gone(self) -> SessionClosedError:
        if self._lost is not None:
            gone = type(self._lost)(*self._lost.args, stderr=self._lost.stderr)
        elif self._closing:
            known = self.host is not None and self.host.connections.get(self.name) is self
            again = f"`%mcp reconnect {self.name}` opens it again" if known else "`%mcp connect` opens one"
            gone = SessionClosedError(f"{self.name}: the session was closed; {again}.")
        else:
            gone = closed_error(self._place)
        gone.sent = False
        return gone

    def _last_attempt(self) -> str:
        if self._tried is None:
            return ""
        return str(connect_error(self._tried, self._place))

    async def _after_failure(self, client: Client, failure: BaseException) -> None:
        if self._client is client and is_closed(failure):
            self._doubt(failure)
        await self._last_words()

    async def _last_words(self) -> None:
        """Give the owner a moment to see how the server has ended, so that state and last words are there."""
        owner = self._owner
        if owner is None or owner.done() or self._left.is_set() or not self._leave.is_set():
            return
        if isinstance(self.spec, HttpSpec) and self._comes_back:
            return
        left = asyncio.ensure_future(self._left.wait())
        await asyncio.wait({owner, left}, timeout=DEATH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
