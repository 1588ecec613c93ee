"""The services that a host shares with each of its connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping  # noqa: TC003
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mcp_magic.ask.elicitation import ElicitationSettings
from mcp_magic.ask.sampling import SamplingSettings
from mcp_magic.auth.login import LogIns
from mcp_magic.calls.caller import Caller
from mcp_magic.flight.progress import Reports
from mcp_magic.session.events import Events
from mcp_magic.session.reconnect import Reconnection
from mcp_magic.session.transports import Opener, open_transport
from mcp_magic.trace.trace import Tap, Trace

if TYPE_CHECKING:
    import asyncio

    from mcp_magic.config.specs import Spec


class HoldsConnections(Protocol):
    """The part of a host that its connections use."""

    @property
    def connections(self) -> Mapping[str, object]:
        """Name -> connection."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions."""

    async def reconnect(self, name: str, *, by_hand: bool = True) -> object:
        """Open a session again."""


@dataclass(frozen=True)
class Services:
    """What a host shares with each of its connections. The defaults suit a connection without a host.

    `caller` makes the calls. `taps` returns further listeners to the messages of a connection, given its name and its
    spec; `protocols` are the specs of servers that support only the handshake. `clock` returns seconds, by which
    answers are kept.
    """

    caller: Caller = field(default_factory=Caller)
    elicitation: ElicitationSettings = field(default_factory=ElicitationSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    logins: LogIns = field(default_factory=LogIns)
    protocols: list[Spec] = field(default_factory=list)
    reconnection: Reconnection = field(default_factory=Reconnection)
    reports: Reports = field(default_factory=Reports)
    trace: Trace = field(default_factory=Trace)
    events: Events = field(default_factory=Events)
    taps: Callable[[str, Spec], Iterable[Tap]] = lambda name, spec: ()
    open_transport: Opener = open_transport
    host: HoldsConnections | None = None
    clock: Callable[[], float] = time.time
