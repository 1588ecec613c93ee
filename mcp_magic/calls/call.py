"""The call of a tool: one value with all that is known before it goes out, and who is told what becomes of it."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mcp_magic.consent.consent import PERSON, Decision, Request
from mcp_magic.display.text import one_line
from mcp_magic.flight.request import NOBODY, Answerers, Limits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import Tool

    from mcp_magic.calls.task import TaskState
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.values import ValueNote
    from mcp_magic.errors import ArgumentsError
    from mcp_magic.results.results import ToolResult


logger = logging.getLogger(__name__)


class Server(Protocol):
    """The session that a call goes to: a `Connection`."""

    name: str
    spec: Spec

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the session."""

    @property
    def protocol_version(self) -> str | None:
        """The protocol version that it speaks."""

    @property
    def makes_tasks(self) -> bool:
        """Whether it announces that it makes tasks of calls."""

    async def define(self, tool: str, timeout: float | None, *, must_be_there: bool) -> Tool | None:
        """Return the definition of a tool."""

    def explained(self, error: ArgumentsError) -> ArgumentsError:
        """Return an error that also says if the programs of the server have changed."""

    async def send_call(self, call: Call, observers: Sequence[CallObserver]) -> ToolResult:
        """Send a call, and return its result."""

    async def resume_call(self, call: Call, task: str, observers: Sequence[CallObserver]) -> ToolResult:
        """Wait for the task that a call has become, and return its result."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        connection: The session that it goes to.
        tool: The name of the tool on this server.
        arguments: Its arguments: objects that convert to JSON, and JSON once it is prepared.
        definition: The tool as it was listed when the call was prepared, or None.
        filled: Required arguments that were left out, by path, with the schema's default that is sent.
        asker: Who makes the call, for consent: `PERSON`, `"agent"`, `"server NAME"`, `"app NAME"`, `"outside NAME"`.
        run: The run of an agent that makes it, or None.
        limits: How long it may take, and when it may be sent again.
        answerers: Who answers the server's questions meanwhile.
        is_shown: Whether it is shown below the cell while it waits: its progress and log messages.
        variant: How the tool that the caller has read differs from the tool, or "".
        values: The values of the notebook that are in its arguments.
        decision: What consent decided about it, sealed to the definition of the tool; None before.
    """

    connection: Server
    tool: str
    arguments: Mapping[str, Any]
    definition: Tool | None = None
    filled: Mapping[str, Any] = field(default_factory=dict)
    asker: str = PERSON
    run: str | None = None
    limits: Limits = Limits()
    answerers: Answerers = NOBODY
    is_shown: bool = True
    variant: str = ""
    values: Sequence[ValueNote] = ()
    decision: Decision | None = None

    @property
    def name(self) -> str:
        """`"server:tool"`."""
        return f"{self.connection.name}:{self.tool}"

    @property
    def request(self) -> Request:
        """The request to consent."""
        server = self.connection
        about = (self.definition, server.spec.trust, self.run)
        return Request(
            server.name, self.tool, self.arguments, self.asker, *about, variant=self.variant, values=self.values
        )


# Who takes part in a call: views, jobs, spans, counters and cards.


class CallObserver:
    """Is told what happens to a call, in this order. Its methods do nothing, so that an observer has what it needs.

    Attributes:
        shows_progress: Whether it shows the progress of the call, which then is not shown below the cell.
    """

    shows_progress: ClassVar[bool] = False

    @property
    def leaves_task(self) -> bool:
        """Whether a task of the server goes on when nobody waits for it any more; else it is cancelled."""
        return False

    def sent(self, call: Call) -> None:
        """Note that the call goes out: consent has been given."""

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a progress notification."""

    def task_changed(self, call: Call, state: TaskState) -> None:
        """Take the first state of the task that the server makes of the call, and each that differs."""

    def ended(self, call: Call, outcome: ToolResult | BaseException) -> None:
        """Take the result, also of a tool that reports an error, or why there is none."""


def tell(hear: Callable[..., None], call: Call, *about: Any) -> None:
    """Tell an observer something about a call. Its failure is logged, and fails no call."""
    try:
        hear(call, *about)
    except Exception:
        logger.exception("%s of %s failed", hear.__qualname__, one_line(call.name, 200))


def task_is_left(observers: Sequence[CallObserver]) -> bool:
    """Whether an observer leaves the task of a call at its server."""
    for observer in observers:
        with suppress(Exception):  # it is cancelled then
            if observer.leaves_task:
                return True
    return False


def progress_of(call: Call, observers: Sequence[CallObserver]) -> ProgressFnT | None:
    """Return what takes the progress of a call; None if no observer shows it."""

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        for observer in observers:
            try:
                await observer.progressed(progress, total, message)
            except Exception:
                logger.exception("%s.progressed of %s failed", type(observer).__qualname__, one_line(call.name, 200))

    for observer in observers:
        if observer.shows_progress:
            return progressed
    return None


class Progress(CallObserver):
    """Passes the progress of a call on to a function."""

    shows_progress = True

    def __init__(self, on_progress: ProgressFnT) -> None:
        self._on_progress = on_progress

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass it on."""
        await self._on_progress(progress, total, message)
