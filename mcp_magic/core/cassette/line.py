"""How a connection is led through the cassette that is in, instead of, or on its way to, its server."""

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
from mcp_magic.errors import CassetteError, listed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AsyncExitStack

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.cassette import Cassette
    from mcp_magic.core.transports import Line

__all__ = ["through_cassette"]


async def through_cassette(
    cassette: Cassette,
    spec: Spec,
    line: Line,
    stack: AsyncExitStack,
    opener: Callable[[Any, Line, AsyncExitStack], Awaitable[None]],
) -> None:
    """Prepare a line as the cassette's mode wants it: to the server and recorded, replayed, or left alone.

    Args:
        cassette: The cassette that is in.
        spec: Where the server is.
        line: The line.
        stack: What is entered for it.
        opener: Prepares it to the server.

    Raises:
        CassetteError: It only replays, and the server is not in it.
    """
    name = line.recorder.server
    line.recorder.take = None
    if cassette.replays and isinstance(spec, InProcessSpec) and cassette.in_process == "live":
        await opener(spec, line, stack)
    elif cassette.replays and cassette.has(name) and examining.get() is None:
        await _replayed(cassette, spec, line, stack, opener if cassette.records else None)
    elif cassette.records:
        await opener(spec, line, stack)
        _recorded(cassette, spec, line, stack)
    else:
        known = f"it has {listed(cassette.servers)}" if cassette.servers else "it has no server"
        raise CassetteError(f"{name} is not in the cassette {cassette.path}; {known}. {cassette.adds} adds it.")


def _recorded(cassette: Cassette, spec: Spec, line: Line, stack: AsyncExitStack) -> None:
    make, number = line.make, examining.get()
    marks = {"doctor": number} if number is not None else {}

    def begin() -> Take:
        return Take(cassette, line.recorder.server, spec, line, secrets=line.recorder.secrets, **marks)

    def recorded() -> Any:
        line.recorder.take = begin()
        return make()

    def left(kind: object, error: BaseException | None, traceback: object) -> None:
        if line.recorder.take is not None and line.errlog is not None:
            line.recorder.take.exited(how_ended(line.errlog.file))
        if isinstance(error, Exception) and not cassette.ejected:
            take = line.recorder.take = line.recorder.take or begin()
            if not take.opened:
                line.recorder.stderr(last=True)
                take.failed(error)

    line.make = recorded
    stack.push(left)


async def _replayed(cassette: Cassette, spec: Spec, line: Line, stack: AsyncExitStack, opener: Any) -> None:
    line.replayed = True
    line.errlog = stack.enter_context(ErrorLog())
    line.recorder.follow(line.errlog)
    stack.callback(line.recorder.follow, None)
    make: Callable[[], Any] | None = None
    if opener is not None:
        await opener(spec, line, stack)
        make = _real(spec, line.make)
        line.prepare = lambda client: None

    def replayed() -> Any:
        server, session = cassette.session_of(line.recorder.server, in_process=isinstance(spec, InProcessSpec))
        recorded = server.sessions[session]
        if recorded.failed is not None:
            cassette.played += 1
            retell(recorded, line.recorder, line.errlog)
            raise failure_of(recorded.failed, spec.masked(line.errlog.tail()) if line.errlog else "")
        line.exited = recorded.exited
        through = Through(make, cassette, spec, Place(server.name, spec, line)) if make is not None else None
        return Watched(Replay(cassette, server, session, line, through), line)

    line.make = replayed


def _real(spec: Spec, make: Callable[[], Any]) -> Callable[[], Any]:
    """Return what makes the transport to the server itself, whose messages nobody else notes."""
    if not isinstance(spec, InProcessSpec):
        return lambda: make().transport

    def in_memory() -> Any:
        from mcp.client._memory import InMemoryTransport

        return InMemoryTransport(spec.server)

    return in_memory
