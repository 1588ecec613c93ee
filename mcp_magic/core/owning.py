"""The owner task of a connection: opens its session, opens it again when it is lost, and closes it.

`mcp.Client` must be left by the task that entered it, and every cell of a notebook is a task of its
own. So one task owns a connection: it enters the client, hands it out, waits, and leaves it. Any
task of the same loop calls through it meanwhile.

A session over streamable HTTP is no connection: while its server is away the session is kept, and the server is
asked again and again whether it is back. The others end with their stream, and a new one is opened.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic.config.specs import StdioSpec
from mcp_magic.core.border import connect_error
from mcp_magic.core.catalog import KINDS
from mcp_magic.core.endpoints import unless_listening
from mcp_magic.core.health import Answer, look
from mcp_magic.core.keeper import Keeper
from mcp_magic.core.lasting import Lasting
from mcp_magic.core.negotiation import Negotiation
from mcp_magic.core.outcome import Outcome, current
from mcp_magic.core.reconnection import is_hopeless
from mcp_magic.core.stdio_process import terminate
from mcp_magic.core.transports import open_line
from mcp_magic.core.warmup import build_models, quiet_sdk_logging

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from contextlib import AbstractAsyncContextManager

    from mcp import Client

    from mcp_magic.core.transports import Line

__all__ = ["Owning"]

DRAIN_SECONDS = 5.0
"""Seconds that requests under way on a forgotten session have to be answered, before it is left: each of
them learns by its own 404 that it never reached a tool, and may be repeated then."""

CLOSE_SECONDS = 10.0
"""Seconds an orderly close may take; the SDK's own steps (end of input, SIGTERM, SIGKILL) need about six."""


class Owning(Lasting):
    """The part of a `Connection` that its owner task runs."""

    async def open(self) -> None:
        """Open the session; when this fails nothing is left running.

        Raises:
            ConnectError: Why there is none, in words.
        """
        quiet_sdk_logging()
        self.loop = loop = asyncio.get_running_loop()
        self._begin()
        assert self._ready is not None
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
        """Close the session and end the server, if it is ours. Closing twice is fine.

        Whoever opens it again just now does not: the one who closes it has the last word.
        """
        self._closes += 1
        self._replacing = False
        await self._close()

    async def _close(self) -> None:
        self._closing = True
        self._lost = None
        self._leave.set()
        if (owner := self._owner) is None or owner.done():
            return
        if self._entering:  # nobody is to wait for a server that is not there
            owner.cancel()
        await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
        if not owner.done():
            owner.cancel()
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)

    async def reopen(self, *, by_hand: bool = True) -> None:
        """Close the session, if it is open, and open it again, at once; what was told about it is kept.

        Args:
            by_hand: Whether the person wants it so.

        Raises:
            ConnectError: Why it could not be opened; its state is `"lost"` then.
            SessionClosedError: It was closed meanwhile.
        """
        closes = self._closes
        async with self._reopening:
            if self._closes == closes:
                await self._close_for_another()
            if self._closes != closes:
                gone = self._gone()
                self._refuse(gone)
                raise gone
            self.opened_by_hand += by_hand
            await self.open()
            for kind in KINDS:
                self.catalog.changed(kind)

    async def _close_for_another(self) -> None:
        """Close the session; calls that wait for one wait on."""
        self._replacing = True
        try:
            await self._close()
        finally:
            self._replacing = False

    async def renew(self, client: Client) -> None:
        """Replace a session that the server has forgotten by a new one over the same HTTP client.

        Args:
            client: The client that noticed; if it was replaced already nothing happens.
        """
        self._forget(client)
        await self._back()

    async def _own(self) -> None:
        """The owner task: everything that is entered here is left here."""
        failure: BaseException | None = None
        try:
            while True:
                before = self._sessions
                failure = await self._hold()
                opened = self._sessions > before
                if not self._sessions or not self._goes_on or (not opened and is_hopeless(self._tried)):
                    break
                self._away(failure)
                self._leave.clear()
                if not (opened and self._lasted) and not await self._rest():
                    break
        finally:
            self._known = None
            await self.catalog.close()
            self._finish(failure)

    async def _hold(self) -> BaseException | None:
        """Prepare the line and hold sessions on it until it ends; return what went wrong, if anything did."""
        self._entering = True
        failure: BaseException | None = None
        try:
            async with open_line(self.spec, self.trace, self.logins) as line:
                self._place.line = line
                line.ended = self._end
                line.strange = self.notices.warn
                await self._hold_sessions(line)
        except Exception as error:
            failure = error
        finally:
            self._pause()
            self._left.set()
        if failure is not None and self._entering and self._sessions:
            self._tried = connect_error(failure, self._place)
            self._tried.__context__ = self._tried.__cause__ = None
        self._entering = False
        return failure

    async def _hold_sessions(self, line: Line) -> None:
        """Hold a session open until it is to be left; then, if the server has forgotten it, the next."""
        self._renewing = True
        negotiation = Negotiation(self.spec, self.protocols)
        while self._renewing and not self._closing:
            self._renewing, self._ended, self._entering = False, False, True
            self._leave.clear()
            leaving = False
            line.opening = Outcome()
            current.set(line.opening)
            line.probe = negotiation.probe(line.errlog)
            try:
                session = self.notices.session(line.make(), self.spec.timeout, line.prepare, negotiation.way)
                async with self._unless_listening(session, line) as client:
                    current.set(None)
                    build_models(client.protocol_version)
                    negotiation.opened(client)
                    self._opened(client, line)
                    await self._attend(client, line)
                    leaving = self._closing or self._renewing
                    line.keeper = None
                    self._pause()
                    if self._renewing:
                        await self._idle(DRAIN_SECONDS)
            except Exception as error:
                if self._entering and not self._closing and negotiation.another(error, line.probe):
                    line.begin_again()
                    self._renewing = True
                elif not leaving:  # what goes wrong while a session is left on purpose concerns nobody
                    raise

    @asynccontextmanager
    async def _unless_listening(
        self, session: AbstractAsyncContextManager[Client], line: Line
    ) -> AsyncIterator[Client]:
        """Enter a session; a program that turns out to listen at a URL instead is not waited for."""
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(session)
            if isinstance(self.spec, StdioSpec) and line.errlog is not None and not line.replayed:
                yield await unless_listening(entering, self._place.heard, partial(terminate, line.errlog.file))
            else:
                yield await entering

    def _opened(self, client: Client, line: Line) -> None:
        line.keeper = Keeper(self._doubt, lambda: self._forget(client), self._back)
        line.open = True
        if line.recorder.take is not None:
            line.recorder.take.opened = True
        line.modern = client.session.discover_result is not None
        self._entering = False
        self._left.clear()
        self.opened_at = time.time()
        self._sessions += 1
        self._resume(client, afresh=self._sessions > 1)

    async def _attend(self, client: Client, line: Line) -> None:
        """Wait until the session is to be left; meanwhile look after a server that may be gone."""
        while True:
            await self._leave.wait()
            if self._closing or self._renewing or self._ended:
                return
            self._leave.clear()
            if not await self._outlast(client, line):
                return

    async def _outlast(self, client: Client, line: Line) -> bool:
        """Ask a server that may be gone until it answers; return whether the session goes on."""
        failed = 0
        while not self._leave.is_set():
            line.opening = Outcome()
            found = await self._unless_left(look(client, self.reconnection.ping, line.opening))
            if found is None:
                break
            answer, why = found
            # since 2026-07-28 nothing says whether a server that was away is still the same
            anew = answer is Answer.HERE and failed and client.session.discover_result is not None
            if answer is Answer.FORGOTTEN or anew:
                self._renewing = True
                return False
            if answer is Answer.HERE:
                self._resume(client, afresh=failed > 0)
                return True
            failed += 1
            self._tried = why
            self._away(None)
            if answer is Answer.REFUSED or not self._goes_on:
                self._gave_up = True
                return False
            if not await self._rest():
                return False
        return False

    async def _unless_left(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """Await something, but not longer than until the session is to be left; None then."""
        asked, left = asyncio.ensure_future(asking), asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait({asked, left}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()
            left.cancel()

    async def _rest(self) -> bool:
        """Pause before the next attempt; return whether there is to be one."""
        assert self._backoff is not None
        pause = self._backoff.pause()
        if pause is None:
            self._gave_up = True
            return False
        self.on_state()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._leave.wait()
        self._backoff.next = None
        return not self._leave.is_set()
