"""The services that a host shares with each of its connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.calls.caller import Caller
from mcp_magic.flight.progress import Reports
from mcp_magic.flight.questions import QuestionQueue
from mcp_magic.session.events import Events
from mcp_magic.session.reconnect import Reconnection
from mcp_magic.session.secrets import AskInput, ask_nobody
from mcp_magic.session.transports import Opener, open_transport
from mcp_magic.session.wire import Authenticator, ErrorContext, no_log_in
from mcp_magic.trace.trace import Tap, Trace

if TYPE_CHECKING:
    import asyncio

    from mcp_magic.config.specs import Spec


class Questions(Protocol):
    """Answers what the server of one session asks the user or a model."""

    def client_options(self) -> dict[str, Any]:
        """Return the options of a client that is made now: its callbacks, and the capabilities that they announce."""

    async def visited(self, required: Any) -> bool:
        """Whether the user visits the pages in the data of error -32042; False if there are none."""


class NoQuestions:
    """Announces no questions, so that the server asks none."""

    def client_options(self) -> dict[str, Any]:
        """Return no options."""
        return {}

    async def visited(self, required: Any) -> bool:
        """Return False: there is nobody to ask."""
        return False


MakeQuestions = Callable[
    [ErrorContext, QuestionQueue, Callable[[str, str], None], Callable[[Mapping[str, Any]], None]], Questions
]
"""Makes the `Questions` of one session, given its place, its queue, its log, which gets a level and a text, and a
function that masks the secrets among the values of an answer."""


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

    So the rooms above this one take part in a session: by `questions` a server asks the user and models, `authenticate`
    adds the log-in to an HTTP client, `inputs` asks for the inputs of a configuration, and `skills` makes
    `connection.skills`.

    `caller` makes the calls. `taps` returns further listeners to the messages of a connection, given its name and its
    spec. `max_questions` is how many a server may ask during one call. `protocols` are the specs of servers that
    support only the handshake. `clock` returns seconds, by which answers are kept.
    """

    caller: Caller = field(default_factory=Caller)
    questions: MakeQuestions = lambda place, queue, log, conceal: NoQuestions()
    max_questions: Callable[[], int] = lambda: 0
    authenticate: Authenticator = no_log_in
    inputs: AskInput = ask_nobody
    skills: Callable[[Any], Any] = lambda connection: None
    protocols: list[Spec] = field(default_factory=list)
    reconnection: Reconnection = field(default_factory=Reconnection)
    reports: Reports = field(default_factory=Reports)
    trace: Trace = field(default_factory=Trace)
    events: Events = field(default_factory=Events)
    taps: Callable[[str, Spec], Iterable[Tap]] = lambda name, spec: ()
    open_transport: Opener = open_transport
    host: HoldsConnections | None = None
    clock: Callable[[], float] = time.time
