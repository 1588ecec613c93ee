"""A request of a client that goes on in the kernel: what comes of it reaches the request of the client that waits.

In the era of the handshake that is one request. Since 2026-07-28 a question ends it with `input_required`, and the
client's next request goes on with the same exchange.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import secrets
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.connection import allowed_log_levels
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INVALID_PARAMS,
    InputRequiredResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    methods,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from mcp_magic._sdk import connection_of
from mcp_magic._text import duration
from mcp_magic.calls.call import Progress
from mcp_magic.calls.task import FINAL
from mcp_magic.loops import soon_on
from mcp_magic.outside.kernel import Turn
from mcp_magic.protocol import at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from mcp.server.context import ServerRequestContext

    from mcp_magic.calls.call import Call
    from mcp_magic.calls.task import TaskState
    from mcp_magic.outside.kernel import Kernel, Work

PULSE_SECONDS = 0.25  # seconds after which a request looks again whether the kernel comes round

TELL_SECONDS = 1.0  # seconds after which a client is told what its call waits for, and told again

BUSY = "the kernel runs a cell"  # what a request waits for that the kernel has not come round to

TASK = "the server works on it"  # what a call waits for whose server has made a task of it and says no more

MAX_ITEMS = 1000  # progress and log messages that wait for a slow client; more are dropped
MAX_MESSAGE = 2_000  # characters of a message with progress: more wait in memory for a client that is slow, 1,000 times

MOST = 1e15  # of progress: beyond, it is no number of steps or bytes, and could not grow

STEP = 1e-6  # what progress grows by where nothing else makes it grow: it must never stand still

LEVEL = "mcp_magic log level"  # the key in the state of a connection of the level that its client has set

USUAL = "info"  # the level of a client that has set none

ANSWER_SECONDS = 600.0  # seconds that a client has to go on with a call that asks it something

GONE = -1  # the code of the error in place of the answer of a client that has gone

MAX_OPEN = 256  # calls that may wait for the answers of clients

QUESTION = "question"  # the name of the one question in a result that asks for input


class _Members(BaseModel):
    """A result as it came."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class _Progress:
    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True)
class _Log:
    level: Any
    logger: str
    data: Any


@dataclass(frozen=True, eq=False)
class _Question:
    method: str
    params: dict[str, Any]
    answer: concurrent.futures.Future[dict[str, Any]] = field(default_factory=concurrent.futures.Future)

    def settle(self, outcome: dict[str, Any] | MCPError) -> None:
        """Set the answer, or why there is none, unless it is there already or nobody waits for it any more."""
        with suppress(concurrent.futures.InvalidStateError):
            if isinstance(outcome, MCPError):
                self.answer.set_exception(outcome)
            else:
                self.answer.set_result(outcome)


class Exchange:
    """A request that goes on in the kernel, for the request of a client that waits, on the loop of the server.

    Attributes:
        context: The request of the client.
        is_modern: Whether its protocol version is 2026-07-28 or later.
        stack: Is closed when it ends.
    """

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self.context = context
        self.is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.stack = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._turn: Turn | None = None
        self._question: _Question | None = None
        self._unanswered: set[_Question] = set()
        self._mute = ""  # why nothing can be asked any more
        self._asking: set[asyncio.Task[None]] = set()
        self._reported: float | None = None
        self._stage, self._since = BUSY, time.monotonic()
        self._told = 0

    def start(self, kernel: Kernel, work: Work) -> None:
        """Begin the work in the kernel. Raises SessionError if that has ended."""
        self._turn = kernel.begin(work, self._put)

    # From any thread

    def enter(self, stage: str) -> None:
        """Say what the request waits for now, other than its server: a text for the client, or ""."""
        self._stage, self._since, self._told = stage, time.monotonic(), 0

    def _put(self, item: Any) -> None:
        """Hand something over to the request that waits."""
        with suppress(RuntimeError):  # the server has ended
            soon_on(self._loop, lambda: self._items.put_nowait(item))

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on; a server may send any number, also none that JSON has."""
        amount = min(progress, MOST) if math.isfinite(progress) else 0.0
        goal = total if total is not None and math.isfinite(total) else None
        self._put_progress(_Progress(amount, goal, message))

    def enter_task(self, message: str) -> None:
        """Say that the request waits for a task of its server, which now says `message`, or ""."""
        self.enter(message or TASK)
        self._put_progress(_Progress(0.0, None, message or TASK))

    def _put_progress(self, progress: _Progress) -> None:
        if self._items.qsize() < MAX_ITEMS:
            self._put(progress)

    def log(self, level: str, logger: str, data: Any) -> None:
        """Pass a log message on."""
        if self._items.qsize() < MAX_ITEMS:
            self._put(_Log(level, logger, data))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client; return the members of its answer.

        Raises:
            MCPError: The client refuses, its answer is none, or it has gone.
        """
        question = _Question(method, params)
        self._unanswered.add(question)
        try:
            if self._mute:
                raise MCPError(GONE, self._mute)
            self._put(question)
            return await asyncio.wrap_future(question.answer)
        finally:
            self._unanswered.discard(question)

    def can_answer(self, *capability: str) -> bool:
        """Whether the client says that it has a capability, such as `"elicitation", "form"`."""
        value: Any = self.context.session.client_capabilities
        for name in capability:
            value = getattr(value, name, None)
        return value is not None

    # On the loop of the server

    def answer(self, context: ServerRequestContext[Any, Any], responses: Any) -> None:
        """Go on in another request of the client, which has answered the question."""
        self.context = context
        if (question := self._question) is not None:
            response = responses.get(QUESTION) if isinstance(responses, dict) else None
            if isinstance(response, BaseModel):
                response = response.model_dump(by_alias=True, mode="json", exclude_none=True)
            no_answer = MCPError(code=-1, message="the client did not answer")
            question.settle(response if isinstance(response, dict) else no_answer)
        self._question = None

    async def next(self, state: Callable[[], str]) -> Any:
        """Return the result, or what asks the client for input; `state` then returns the name to go on with.

        Raises what the work raises.
        """
        pulse = asyncio.get_running_loop().call_later(PULSE_SECONDS, self._items.put_nowait, None)
        try:
            while True:
                item = await self._items.get()
                if isinstance(item, Turn):
                    return item.result()
                if item is None:
                    pulse = self._loop.call_later(PULSE_SECONDS, self._items.put_nowait, None)
                    await self._wait()
                elif (result := await self._pass(item, state)) is not None:
                    return result
        finally:
            pulse.cancel()

    async def _wait(self) -> None:
        """Look whether the kernel comes round, and tell the client what it waits for."""
        assert self._turn is not None
        self._turn.check()
        seconds = time.monotonic() - self._since
        if self._stage and seconds >= TELL_SECONDS and round(seconds) > self._told:
            self._told = round(seconds)
            await self._report(_Progress(0.0, None, f"{self._stage}, for {duration(round(seconds))}"))

    async def _pass(self, item: Any, state: Callable[[], str]) -> InputRequiredResult | None:
        """Pass something on to the client; return the result that asks for input."""
        if isinstance(item, _Progress):
            await self._report(item)
        elif isinstance(item, _Log):
            await self._log(item)
        elif not self.is_modern:
            task = asyncio.create_task(self._request(item))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        elif not item.answer.done():
            self._question = item
            request = {"method": item.method, "params": item.params}
            return InputRequiredResult.model_validate({"inputRequests": {QUESTION: request}, "requestState": state()})
        return None

    def mute(self, why: str) -> None:
        """Ask nothing any more: whoever waits for an answer of the client learns why there is none. Idempotent."""
        self._mute = self._mute or why
        for question in [*self._unanswered]:
            question.settle(MCPError(GONE, why))

    def end(self, why: str = "the request has ended") -> None:
        """Cancel the work, unless it is done, and what is asked. Idempotent."""
        self.mute(why)  # first: the server and the audit get the reason while there is a call
        if self._turn is not None:
            self._turn.cancel()
        for asking in self._asking:
            asking.cancel()
        self.stack.close()

    async def _report(self, item: _Progress) -> None:
        """Send progress, if the client wants it; it must grow each time."""
        before = self._reported
        least = item.progress if before is None else max(before + STEP, math.nextafter(before, math.inf))
        self._reported = max(item.progress, least)
        await self.context.session.report_progress(self._reported, item.total, item.message)

    async def _log(self, item: _Log) -> None:
        """Send a log message, if the client wants it."""
        context = self.context
        if self.is_modern:
            is_wanted = item.level in allowed_log_levels(context.protocol_version, context.meta)
        else:
            is_wanted = at_least(item.level, connection_of(context.session).state.get(LEVEL, USUAL))
        if is_wanted:
            params = LoggingMessageNotificationParams(level=item.level, logger=item.logger or None, data=item.data)
            await context.session.send_notification(LoggingMessageNotification(params=params), context.request_id)

    async def _request(self, question: _Question) -> None:
        """Ask a client of the handshake era."""
        context = self.context
        try:
            request: Any = methods.parse_server_request(question.method, context.protocol_version, question.params)
            related = ServerMessageMetadata(related_request_id=context.request_id)
            answer = await context.session.send_request(request, _Members, metadata=related)
        except Exception as error:
            no_answer = error if isinstance(error, MCPError) else MCPError(code=-1, message="it cannot be asked that")
            question.settle(no_answer)
        else:
            question.settle(answer.model_dump(by_alias=True, mode="json", exclude_none=True))


class Relay(Progress):
    """Passes the progress of a call on to an exchange, and what the server says of the task that it makes of it.

    Its texts are cut, and secrets masked: `hide` does that.
    """

    def __init__(self, exchange: Exchange, hide: Callable[[str], str]) -> None:
        super().__init__(self._pass_on)
        self._exchange = exchange
        self._hide = hide

    async def _pass_on(self, progress: float, total: float | None, message: str | None) -> None:
        await self._exchange.progressed(progress, total, None if message is None else self._short(message))

    def _short(self, message: str) -> str:
        # masked before it is cut: half of a secret is secret, too
        return self._hide(message[: 2 * MAX_MESSAGE])[:MAX_MESSAGE]

    def task_changed(self, call: Call, state: TaskState) -> None:
        """Pass a state of the task on, unless it is the last."""
        if state.status in FINAL:
            self._exchange.enter("")
        else:
            self._exchange.enter_task(self._short(state.message))


class OpenQuestions:
    """Exchanges whose clients are asked for input (2026-07-28), by the name with which they go on."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Exchange, Hashable, asyncio.TimerHandle]] = {}

    def add(self, exchange: Exchange, owner: Hashable) -> str:
        """Keep an exchange until its `owner` goes on with it, for some minutes; return its new name."""
        while len(self._open) >= MAX_OPEN:
            self._give_up(next(iter(self._open)), "too many questions wait for clients")
        state = secrets.token_urlsafe(24)
        late = f"no answer within {duration(ANSWER_SECONDS)}"
        ends = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._give_up, state, late)
        self._open[state] = exchange, owner, ends
        exchange.stack.callback(self._drop, state)
        return state

    def take(self, state: str, owner: Hashable) -> Exchange:
        """Return the exchange of a name. Raises MCPError if its owner has none of this name (any more)."""
        exchange, holder, _ = self._open.get(state, (None, None, None))
        if exchange is None or holder != owner:
            raise MCPError(INVALID_PARAMS, "the question is no longer open, and its call was cancelled; call again")
        self._drop(state)
        return exchange

    def _drop(self, state: str) -> None:
        _, _, ends = self._open.pop(state, (None, None, None))
        if ends is not None:
            ends.cancel()

    def _give_up(self, state: str, why: str) -> None:
        exchange, _, _ = self._open[state]
        exchange.end(why)
