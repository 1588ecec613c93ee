"""How a connection is led through the cassette that is in: to its server and recorded, or replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.config.specs import InProcessSpec
from mcp_magic.core.cassette.deck import examining
from mcp_magic.core.cassette.failures import failure_of
from mcp_magic.core.cassette.replay import Replay
from mcp_magic.core.cassette.retelling import retell
from mcp_magic.core.cassette.take import Take
from mcp_magic.core.cassette.through import Through
from mcp_magic.core.errlog import ErrorLog
from mcp_magic.core.place import Place
from mcp_magic.core.stdio_process import how_ended
from mcp_magic.core.trace.watched import Watched
from mcp_magic.core.transports import Transport, open_transport
from mcp_magic.errors import CassetteError, listed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.wire import Wire

__all__ = ["open_through"]


async def open_through(cassette: Cassette, spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    """Prepare the way to a server as the cassette's mode wants it: recorded, replayed, or neither.

    Args:
        cassette: The cassette that is in.
        spec: Where the server is.
        wire: What is known of the way.
        stack: What is entered for it.

    Raises:
        CassetteError: It only replays, and the server is not in it.
    """
    name = wire.recorder.server
    if cassette.replays and isinstance(spec, InProcessSpec) and cassette.in_process == "live":
        return await open_transport(spec, wire, stack)
    if cassette.replays and cassette.has(name) and examining.get() is None:
        return await _replayed(cassette, spec, wire, stack)
    if cassette.records:
        recording = stack.enter_context(_Recording(cassette, spec, wire))
        transport = await open_transport(spec, wire, stack)
        stack.push(recording.left)

        def recorded() -> Any:
            recording.begin()
            return transport.make()

        return Transport(recorded, transport.prepare)
    known = f"it has {listed(cassette.servers)}" if cassette.servers else "it has no server"
    raise CassetteError(f"{name} is not in the cassette {cassette.path}; {known}. {cassette.adds} adds it.")


class _Recording:
    """Records what goes over a wire, each session as one of its own, as long as its context lasts.

    Args:
        cassette: Where it is written.
        spec: Where the server is.
        wire: The wire.
    """

    def __init__(self, cassette: Cassette, spec: Spec, wire: Wire) -> None:
        self._cassette = cassette
        self._spec = spec
        self._wire = wire
        number = examining.get()
        self._marks = {"doctor": number} if number is not None else {}
        self._take: Take | None = None

    def __enter__(self) -> _Recording:
        return self

    def __exit__(self, *details: object) -> None:
        self._stop()

    def begin(self) -> Take:
        """Record what comes from now on as a new session."""
        self._stop()
        recorder = self._wire.recorder
        self._take = Take(
            self._cassette, recorder.server, self._spec, self._wire, secrets=recorder.secrets, **self._marks
        )
        recorder.add(self._take)
        return self._take

    def _stop(self) -> None:
        if self._take is not None:
            self._wire.recorder.remove(self._take)

    def left(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Write how the server's process ended, or why there was no session."""
        if self._take is not None and self._wire.errlog is not None:
            self._take.exited(how_ended(self._wire.errlog.file))
        if isinstance(error, Exception) and not self._cassette.ejected:
            take = self._take or self.begin()
            if not take.is_open:
                self._wire.recorder.stderr(last=True)
                take.failed(error)


async def _replayed(cassette: Cassette, spec: Spec, wire: Wire, stack: AsyncExitStack) -> Transport:
    errlog = stack.enter_context(ErrorLog())
    wire.replays(errlog)
    wire.recorder.follow(errlog)
    stack.callback(wire.recorder.follow, None)
    make: Callable[[], Any] | None = None
    if cassette.records:
        make = _real(spec, (await open_transport(spec, wire, stack)).make)

    def replayed() -> Any:
        server, session = cassette.session_of(wire.recorder.server, in_process=isinstance(spec, InProcessSpec))
        recorded = server.sessions[session]
        if recorded.failed is not None:
            cassette.played += 1
            retell(recorded, wire.recorder, wire.errlog)
            raise failure_of(recorded.failed, spec.masked(wire.errlog.tail()) if wire.errlog else "")
        wire.exited = recorded.exited
        through = Through(make, cassette, spec, Place(server.name, spec, wire)) if make is not None else None
        return Watched(Replay(cassette, server, session, wire, through), wire)

    return Transport(replayed)


def _real(spec: Spec, make: Callable[[], Any]) -> Callable[[], Any]:
    """Return what makes the transport to the server itself, whose messages nobody else notes."""
    if not isinstance(spec, InProcessSpec):
        return lambda: make().transport

    def in_memory() -> Any:
        from mcp.client._memory import InMemoryTransport

        return InMemoryTransport(spec.server)

    return in_memory
