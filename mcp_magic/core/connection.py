"""One server: its owner task, its session, its calls.

`mcp.Client` must be left by the task that entered it, and every cell of a notebook is a task of its
own. So one task owns a connection: it enters the client, hands it out, waits, and leaves it. Any
task of the same loop calls through it meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.border import Place, closed_error, connect_error
from mcp_magic.core.callables import ToolNamespace
from mcp_magic.core.card import connection_part
from mcp_magic.core.catalog import Catalog
from mcp_magic.core.elicitation import Elicitors, Questions
from mcp_magic.core.foreign import is_closed
from mcp_magic.core.notices import Notices
from mcp_magic.core.requests import Requests
from mcp_magic.core.roots import Roots
from mcp_magic.core.trace_record import Recorder
from mcp_magic.core.transports import open_line
from mcp_magic.core.warmup import build_models, compile_outputs, quiet_sdk_logging, start_imports
from mcp_magic.results.parts import bundle

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp import Client
    from mcp_types import Implementation, ServerCapabilities

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.consent import Consent
    from mcp_magic.core.host import Host
    from mcp_magic.core.transports import Line
    from mcp_magic.errors import SessionClosedError

__all__ = ["Connection"]

DRAIN_SECONDS = 5.0
"""Seconds that requests under way on a forgotten session have to be answered, before it is left: each of
them learns by its own 404 that it never reached a tool, and may be repeated then."""

DEATH_SECONDS = 0.5
"""Seconds between a failed request and the end of its server's process, which has the last words."""

CLOSE_SECONDS = 10.0
"""Seconds an orderly close may take; the SDK's own steps (end of input, SIGTERM, SIGKILL) need about six."""


class Connection(Requests):
    """An open session to one MCP server.

    Made by `Host.connect`. It outlives the cell that opened it and closes with the kernel.

    Attributes:
        name: Its name in the host.
        spec: Where the server is.
        tools: The server's tools as awaitable functions: `await connection.tools.add(a=1, b=2)`.
        notices: What the server said unasked: log messages, changes.
        consent: The host's rules about who may call what, or None where nothing is asked.
        roots: The directories that the server is told of.
        host: The host that holds it, or None.
        trace: What it said and was told; `.entries`.
        loop: The event loop it was opened on, or None before.
    """

    def __init__(
        self, name: str, spec: Spec, consent: Consent | None = None, elicitors: Elicitors | None = None
    ) -> None:
        super().__init__()
        self.consent = consent
        self.name = name
        self.spec = spec
        self.trace = Recorder(name, spec)
        self.catalog = Catalog(self._list)
        self.roots = Roots(self._roots_changed)
        self.notices = Notices(self.catalog.changed, self.roots)
        self.notices.questions = Questions(name, elicitors or Elicitors(), self._may_ask, self.notices.log)
        self.tools = ToolNamespace(self)
        self.host: Host | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.opened_at: float | None = None
        self.connect_seconds = 0.0
        self._place = Place(name, spec)
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self._closing = self._renewing = False
        self._lost: SessionClosedError | None = None

    # What is known of the session

    @property
    def state(self) -> str:
        """`"connecting"`, `"open"`, `"lost"` (the server ended it) or `"closed"`."""
        if self._client is not None:
            return "open"
        if self._owner is not None and not self._owner.done() and not self._closing:
            return "connecting"
        return "lost" if self._lost is not None else "closed"

    @property
    def client(self) -> Client:
        """The SDK's client, for what this class does not have.

        Raises:
            SessionClosedError: The session is not open.
        """
        if self._client is None:
            raise self._gone()
        return self._client

    @property
    def protocol_version(self) -> str | None:
        """The negotiated protocol version, or None while there is no session."""
        return self._client.protocol_version if self._client else None

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do."""
        return self._client.server_capabilities if self._client else None

    @property
    def server_info(self) -> Implementation | None:
        """The server's own name and version, if it gave them."""
        return self._client.server_info if self._client else None

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models, or None."""
        return self._client.instructions if self._client else None

    def stderr(self) -> str:
        """Return the end of what a stdio server wrote to its standard error, secrets masked."""
        line = self._place.line
        return self.spec.masked(line.errlog.tail()) if line and line.errlog else ""

    def __repr__(self) -> str:
        return f"<Connection {self.name!r} {self.state}: {self.spec.transport} {self.spec.where}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([connection_part(self)], include, exclude)

    # Opening and closing

    async def open(self) -> None:
        """Open the session; when this fails nothing is left running.

        Raises:
            ConnectError: Why there is none, in words.
        """
        quiet_sdk_logging()
        self.loop = loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._closing, self._lost = False, None
        self._leave.clear()
        started = time.perf_counter()
        self._owner = loop.create_task(self._own(), name=f"mcp_magic connection {self.name}")
        try:
            await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            self._closing = True
            self._owner.cancel()  # it ends its server by itself; whoever interrupted need not wait for that
            raise
        self.connect_seconds = time.perf_counter() - started

    async def close(self) -> None:
        """Close the session and end the server, if it is ours. Closing twice is fine."""
        self._closing = True
        self._leave.set()
        if (owner := self._owner) is None or owner.done():
            return
        await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
        if not owner.done():
            owner.cancel()
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)

    async def renew(self, client: Client) -> None:
        """Replace a session that the server has forgotten by a new one over the same HTTP client.

        Args:
            client: The client that noticed; if it was replaced already nothing happens.
        """
        if self._client is client:
            self._client, self._renewing = None, True
            self._ready = asyncio.get_running_loop().create_future()
            self._leave.set()
        if self._ready is not None:
            await asyncio.shield(self._ready)

    async def _own(self) -> None:
        """The owner task: everything that is entered here is left here."""
        failure: Exception | None = None
        try:
            async with open_line(self.spec, self.trace) as line:
                self._place.line = line
                line.ended = self._leave.set
                await self._sessions(line)
        except Exception as error:
            failure = error
        finally:
            self._client = None
            await self.catalog.close()
        if not self._closing:
            self._lost = closed_error(self._place, failure)
        if self._ready is not None and not self._ready.done():
            failed = connect_error(failure or EOFError("closed"), self._place)
            failed.__context__ = failed.__cause__ = None
            self._ready.set_exception(failed)
            self._ready.exception()  # seen, should nobody wait for it any more

    async def _sessions(self, line: Line) -> None:
        """Hold a session open until it is to be left; then, if the server has forgotten it, the next."""
        self._renewing = True
        while self._renewing and not self._closing:
            self._renewing = False
            self._leave.clear()
            leaving = False
            imports = start_imports()  # while the server starts
            try:
                async with self.notices.session(line.make(), self.spec.timeout, line.prepare) as client:
                    await asyncio.shield(imports)
                    build_models(client.protocol_version)
                    self._client = client
                    self.opened_at = time.time()
                    if self._ready is not None and not self._ready.done():
                        self._ready.set_result(None)
                    await self._leave.wait()
                    leaving = self._closing or self._renewing
                    self._client = None
                    if self._renewing:
                        await self._idle(DRAIN_SECONDS)
            except Exception:
                if not leaving:  # what goes wrong while a session is left on purpose concerns nobody
                    raise

    # What requests stand on

    async def _list(self, kind: str) -> list[Any]:
        items = await super()._list(kind)
        if kind == "tools" and self._client is not None:
            await compile_outputs(self._client.session, items)
        return items

    async def _open_client(self) -> Client:
        if self._client is None and self._renewing and self._ready is not None:
            await asyncio.shield(self._ready)
        return self.client

    def _gone(self) -> Exception:
        gone = closed_error(self._place) if self._lost is None else type(self._lost)(*self._lost.args)
        gone.sent = False
        return gone

    async def _after_failure(self, failure: Exception) -> None:
        """Give the owner a moment to notice that the server is gone, so that state and last words are there."""
        owner = self._owner
        if owner is None or owner.done() or not (self._leave.is_set() or is_closed(failure)):
            return
        await asyncio.wait({owner}, timeout=DEATH_SECONDS)
