"""The streams below a session: recorded in the trace, watched for their end, and checked for stray answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import ValidationError

from mcp_magic._sdk import patch_connect
from mcp_magic.display.text import one_line
from mcp_magic.flight.attempt import PendingReply, current_attempt
from mcp_magic.protocol import INTERNAL_ERROR, OPENINGS, assume_complete, note_said
from mcp_magic.session.failures import (
    instead_of,
    instead_of_strange,
    log_line,
    refusal_of,
    stand_in_line,
    unread_text,
    whole_answer,
)
from mcp_magic.session.reader import (
    Batch,
    mended_error,
    read_again,
    read_batch,
    read_handshake,
    read_notification,
    read_texts,
    read_within,
)
from mcp_magic.session.wire import Event, Wire
from mcp_magic.trace.trace import IN, OUT, Recorder, being_sent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextvars import Context
    from types import TracebackType

    from mcp_magic.session.negotiation import Probe


# Recording: the streams of a transport, and the calls of a server in this kernel.


def members(message: Any) -> dict[str, Any]:
    """Return the members of a JSON-RPC message of the SDK, as a dict that shares its values."""
    fields = {name: value for name, value in message.__dict__.items() if value is not None}
    if "error" in fields:
        error = fields["error"]
        fields["error"] = {"code": error.code, "message": error.message}
        if error.data is not None:
            fields["error"]["data"] = error.data
    return fields


def session_message(message: Any) -> Any:
    """Return what the SDK's streams carry for a JSON-RPC message."""
    from mcp.shared.message import SessionMessage

    return SessionMessage(message)


class Wrapped:
    """A stream that passes everything on to another stream; subclasses override parts."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self._stream.__aexit__(exc_type, exc, traceback)
        return leave

    def __getattr__(self, name: str) -> Any:  # last_context, which the HTTP streams have
        return getattr(self._stream, name)


def trace_in_process(client: Any, recorder: Recorder, remark: Callable[[str], None]) -> None:
    """Record the messages between a client and its server in the same process.

    There the SDK calls the server's functions without streams, or passes the messages of a session with a handshake
    through memory. They are recorded as the messages that a wire would carry, with ids counted here.
    """

    def trace(connect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def traced(*arguments: Any) -> Any:
            return _TracedCalls(await connect(*arguments), recorder, remark)

        return traced

    patch_connect(client, trace)


class _TracedCalls:
    """A dispatcher of the SDK that records requests, answers and notifications."""

    def __init__(self, dispatcher: Any, recorder: Recorder, remark: Callable[[str], None]) -> None:
        from mcp.shared.direct_dispatcher import DirectDispatcher

        self._dispatcher = dispatcher
        self._calls_back = isinstance(dispatcher, DirectDispatcher)  # for progress; others get a notification too
        self._recorder = recorder
        self._remark = remark
        self._ids = {OUT: 0, IN: 0}
        self._waits: set[Any] = set()  # an anyio.CancelScope for each request without an answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    def _note(self, direction: str, method: str, params: Any, number: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if number is not None:
            message["id"] = number
        if params is not None:
            message["params"] = params
        self._recorder.message(direction, message)

    async def _exchange(self, direction: str, method: str, params: Any, answering: Any, number_hint: Any = None) -> Any:
        """Record a request, await its answer and record that."""
        back = IN if direction == OUT else OUT
        self._ids[direction] += 1
        number = number_hint if number_hint is not None else self._ids[direction]
        self._note(direction, method, params, number)
        awaited = PendingReply(number, method)
        if direction == OUT and (attempt := current_attempt.get()) is not None:
            attempt.sends(awaited)
        try:
            answer = awaited.result = await (self._until_closed(answering) if direction == OUT else answering)
        except Exception as error:
            problem = {"code": getattr(error, "code", INTERNAL_ERROR), "message": str(error)}
            if (data := getattr(error, "data", None)) is not None:
                problem["data"] = data
            self._recorder.message(back, {"jsonrpc": "2.0", "id": number, "error": problem})
            raise
        self._recorder.message(back, {"jsonrpc": "2.0", "id": number, "result": answer})
        if direction == OUT:
            answer = awaited.result = read_texts(answer, self._remark)
        return answer

    async def _until_closed(self, answering: Awaitable[Any]) -> Any:
        """Await an answer, but not longer than the session: the SDK runs the server's function within the request."""
        from anyio import CancelScope
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        with CancelScope() as wait:
            self._waits.add(wait)
            try:
                return await answering
            finally:
                self._waits.discard(wait)
        raise MCPError(code=CONNECTION_CLOSED, message="Connection closed")

    def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> Awaitable[Any]:
        number = opts.get("request_id") if opts else None
        if self._calls_back and opts and (report := opts.get("on_progress")) is not None:
            opts = {**opts, "on_progress": self._traced_progress(report, number or self._ids[OUT] + 1)}
        return self._exchange(OUT, method, params, self._dispatcher.send_raw_request(method, params, opts), number)

    def _traced_progress(self, report: Any, token: Any) -> Any:
        async def traced(progress: float, total: float | None, message: str | None) -> None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            self._note(IN, "notifications/progress", {k: v for k, v in params.items() if v is not None})
            await report(progress, total, message)

        return traced

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        self._note(OUT, method, params)
        await self._dispatcher.notify(method, params, opts)

    async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **options: Any) -> None:
        def requested(context: Any, method: str, params: Any) -> Awaitable[Any]:
            return self._exchange(IN, method, params, on_request(context, method, params))

        def traced_intercept(method: str, params: Any) -> bool:
            self._note(IN, method, params)
            return bool(on_notify_intercept is not None and on_notify_intercept(method, params))

        def notified(context: Any, method: str, params: Any) -> Awaitable[None]:
            params = read_notification(method, read_texts(params, self._remark), self._remark)
            return on_notify(context, method, params)  # type: ignore[no-any-return]

        try:
            await self._dispatcher.run(requested, notified, traced_intercept, **options)
        finally:
            for wait in [*self._waits]:
                wait.cancel()


# Stray answers: answers whose id matches no pending request.
#
# The SDK accepts "7" for 7 and drops every other unexpected answer. Here the pending requests remember a stray answer
# for their error messages, and a request for which it is certainly meant ends.

WAITING = 10_000  # maximum number of pending requests to remember; a server that never answers must not fill the memory

MAX_WARNINGS = 10  # maximum number of stray answers per session to report; more would say nothing new

_SPELT = re.compile(r"[^\w]*0*(\d+)(\.0+)?[^\w]*", re.ASCII)  # A numeric id in a wrong spelling: `7.0`, `"#7"`, `[7]`

_NOTHING: dict[str, Any] = {}

_LISTEN = "subscriptions/listen"  # the request that waits as long as its session


class UnmatchedReplies:
    """The pending requests of one session, and the stray answers, of which `warn` gets a sentence each."""

    def __init__(self, warn: Callable[[str], None], masked: Callable[[str], str] = str) -> None:
        self._warn = warn
        self._masked = masked
        self._waiting: dict[int | str, PendingReply] = {}
        self._highest = 0
        self._count = 0
        self._notified = self._heeded = 0  # notifications that were sent, and those before a request with an answer

    def note_request(self, message: Any) -> None:
        """Note a message to the server. Runs in the context of the sender."""
        fields = message.__dict__
        number = fields.get("id")
        if number is None or "method" not in fields:
            self._notified += number is None
            return
        awaited = self._waiting[number] = PendingReply(number, fields["method"])
        awaited.attempt, awaited.notified = current_attempt.get(), self._notified
        if isinstance(number, int) and number > self._highest:
            self._highest = number
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]
        if (attempt := current_attempt.get()) is not None:
            attempt.sends(awaited)

    def came(self, message: Any, stream: Any) -> Any:
        """Note a message from the server; return the `SessionMessage` that the session gets instead, or None.

        Over HTTP the stream has the context in which the request was posted.
        """
        fields = message.__dict__
        if "method" in fields:
            return None
        if (awaited := self._waiting.pop(fields["id"], None)) is not None:
            awaited.result = fields.get("result")
            self._heeded = max(self._heeded, awaited.notified)
            return None
        return self._stray(fields["id"], fields.get("error"), stream)

    def is_stray(self, message: Any) -> bool:
        """Whether a message is an answer whose id no request has."""
        fields = {} if isinstance(message, Exception) else message.__dict__
        return "id" in fields and "method" not in fields and not self.pending_method(fields["id"])

    def pending_method(self, number: Any) -> str:
        """Return the method of the pending request with this id, or ""."""
        awaited = self._waiting.get(number) if isinstance(number, int | str) else None
        return awaited.method if awaited is not None else ""

    def unreadable(self, problem: Exception, stream: Any) -> Any:
        """Note an unreadable message, which may be an answer with an invalid id. Returns as `came`."""
        answer = whole_answer(problem)
        if answer is None or not answer.keys() & {"result", "error"}:
            return None
        error = None
        if answer.get("error") is not None:
            from mcp_types import ErrorData

            error = ErrorData.model_validate(mended_error(answer["error"]), by_name=False)
        return self._stray(answer.get("id", _NOTHING), error, stream)

    def _stray(self, number: Any, error: Any, stream: Any) -> Any:
        try:
            request = self._waiting.pop(int(number), None) if isinstance(number, str) else None
        except ValueError:
            request = None
        if request is not None:  # the SDK accepts this spelling too
            return None
        text = self._masked(_described(number, error, already=isinstance(number, int) and 0 < number <= self._highest))
        self._count += 1
        if self._count <= MAX_WARNINGS:
            self._warn(f"The server answered {text}")
        target = self._target(number, getattr(stream, "last_context", None))
        if target is not None:
            del self._waiting[target.number]
            return instead_of_strange(target.number, text)
        if error is not None and number in (None, _NOTHING) and (only := self._only()) is not None:
            from mcp_types import JSONRPCError

            del self._waiting[only.number]
            message = JSONRPCError(jsonrpc="2.0", id=only.number, error=error)
            note_said(message)
            return session_message(message)
        for awaited in self._waiting.values():
            awaited.note_stray(text)
        return None

    def _only(self) -> PendingReply | None:
        """Return the only request that waits for an answer, which an error without an id ends; None if it is not sure.

        The error may answer a notification before it: some servers refuse those that they do not know.
        """
        waiting = [reply for reply in self._waiting.values() if reply.method != _LISTEN and not reply.is_over]
        if len(waiting) != 1:
            return None
        if self._heeded < waiting[0].notified:
            self._heeded += 1
            return None
        return waiting[0]

    def _target(self, number: Any, context: Context | None) -> PendingReply | None:
        """Return the request for which an answer is certainly meant, or None."""
        attempt = context.get(current_attempt) if context is not None else None
        posted = attempt.awaited if attempt is not None else None
        if posted is not None and self._waiting.get(posted.number) is posted:
            return posted
        spelt = _SPELT.fullmatch(str(number)) if not isinstance(number, int) else None
        return self._waiting.get(int(spelt[1])) if spelt is not None else None


def _described(number: Any, error: Any, *, already: bool) -> str:
    """Describe the id of a stray answer.

    >>> _described("x", None, already=False), _described(3, None, already=True)
    ('with id "x", which no request has', 'with id 3, which had its answer already')
    >>> _described(_NOTHING, None, already=False)
    'without an id'
    """
    detail = f" (the error {one_line(error.message, 100)!r}, {error.code})" if error is not None else ""
    if number is _NOTHING:
        return f"without an id{detail}"
    id_text = one_line(json.dumps(number, ensure_ascii=False, default=str), 40)
    return f"with id {id_text}{detail}, which {'had its answer already' if already else 'no request has'}"


# Watching: when the server ends its stream, and which of its output is no message.

REFUSALS = 100
"""Maximum number of refusals of unreadable requests in progress; a server may send many and read no answer."""

PROBE_POLL_SECONDS = 0.05  # seconds between two checks of a process that has not answered the probe


class Watched:
    """A transport whose read stream reports its end and unreadable messages.

    At the end of the stream the SDK only fails the pending requests, so a dead server would look alive until the next
    call.
    """

    def __init__(self, transport: Any, wire: Wire, *, makes_up: bool = False) -> None:
        self.transport = transport
        self._wire = wire
        self._makes_up = makes_up  # whether it also answers with errors that no server sent, and marks the others

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self.transport.__aenter__()
        strays = UnmatchedReplies(self._wire.note_stray_reply, self._wire.recorder.hide)
        writes = WatchedWrite(write, self._wire, strays)
        return WatchedStream(read, self._wire, strays, writes.send, makes_up=self._makes_up), writes

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self.transport.__aexit__(exc_type, exc, traceback)
        return leave


class WatchedWrite(Wrapped):
    """The stream of the messages to the server."""

    def __init__(self, stream: Any, wire: Wire, strays: UnmatchedReplies) -> None:
        super().__init__(stream)
        self._recorder = wire.recorder
        self._strays = strays
        self._probe: Probe | None = wire.probe
        self._version = wire.version

    async def send(self, item: Any) -> None:
        """Record a message and send it."""
        self._strays.note_request(item.message)
        if self._probe is not None:
            self._probe.note_sent(item.message)
            self._probe = self._probe if self._probe.unanswered else None
        fields = item.message.__dict__
        if self._version and fields.get("method") == "initialize":
            fields["params"]["protocolVersion"] = self._version
        # The HTTP status of a notification or an answer is not that of the pending request.
        posted_for = None if "method" in fields and "id" in fields else current_attempt.set(None)
        token = being_sent.set(self._recorder.message(OUT, members(item.message)))
        try:
            await self._stream.send(item)
        finally:
            being_sent.reset(token)
            if posted_for is not None:
                current_attempt.reset(posted_for)


class WatchedStream(Wrapped):
    """The stream of the server's messages."""

    def __init__(
        self,
        stream: Any,
        wire: Wire,
        strays: UnmatchedReplies,
        answer: Callable[[Any], Awaitable[None]],
        *,
        makes_up: bool = False,
    ) -> None:
        super().__init__(stream)
        self._wire = wire
        self._makes_up = makes_up
        self._batch: deque[Any] = deque()  # the messages of a batch that come next
        self._answer = answer
        self._answering: set[asyncio.Task[None]] = set()
        self._unreadable = 0
        self._strays = strays
        self._next = self._first
        self._reading: asyncio.Future[Any] | None = None
        self._stand_in: Any = None

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            item = self._batch.popleft() if self._batch else self._first_of(await self._next())
        except StopAsyncIteration:
            if self._wire.session is not None:  # the server ended it, not the client
                self._wire.recorder.ended()
            self._wire.report(Event.STREAM_END)
            raise
        return item if item is self._stand_in else self._note(item)

    async def _first(self) -> Any:
        """Return the next message, or the replacement for the probe's answer; used until the probe is answered."""
        probe = self._wire.probe
        while self._reading is not None or probe.watched:
            self._reading = self._reading or asyncio.ensure_future(self._stream.__anext__())
            try:
                await asyncio.wait({self._reading}, timeout=PROBE_POLL_SECONDS if probe.watched else None)
            except asyncio.CancelledError:
                self._reading.cancel()
                raise
            if self._reading.done():
                reading, self._reading = self._reading, None
                item = reading.result()
                break
            if (item := probe.refusal()) is not None:
                self._stand_in = item
                self._wire.recorder.message(IN, members(item.message))
                return item
        else:
            item = await self._stream.__anext__()
        item = self._first_of(item)
        for part in (item, *self._batch):
            if not isinstance(part, Exception):
                probe.came(part.message)
        if not probe.unanswered and self._reading is None:
            self._next = self._stream.__anext__
        return item

    def _first_of(self, item: Any) -> Any:
        """Return an item of the stream; of a batch its first message, and keep the others."""
        messages: Sequence[Any] | None = None
        if isinstance(item, ValidationError):
            if (messages := read_batch(item)) is None:
                return self._first_within(item)
        elif not isinstance(item, Exception) and isinstance(item.message, Batch):
            messages = item.message.messages
        if messages is None:
            return item
        if len(messages) == 1 and isinstance(messages[0], Exception):
            self._wire.remark("it sends events that are no messages; they are skipped")
            return messages[0]
        self._wire.remark("it sends lists of messages (batches), which only 2025-03-26 has; each message is read")
        # Answers to nothing come last: over HTTP the first strange one would count as the answer to the request.
        messages = sorted(messages, key=self._strays.is_stray)
        self._batch.extend(part if isinstance(part, Exception) else session_message(part) for part in messages)
        return self._batch.popleft()

    def _first_within(self, item: Any) -> Any:
        """Return the first message in a line that has other text too, and keep the others; a line of text as it is."""
        messages, text = read_within(item, lambda number: bool(self._strays.pending_method(number)))
        if not messages:
            return item
        if text:
            excerpt = one_line(self._wire.recorder.hide(text), 60)
            self._wire.remark(f"it writes other text on the line of a message: {excerpt!r}; the message is read")
        else:
            self._wire.remark("it writes several messages on one line; each is read")
        self._batch.extend(map(session_message, messages))
        return self._batch.popleft()

    def _note(self, item: Any) -> Any:
        """Note an item of the stream, and return what the session gets."""
        if isinstance(item, ValidationError) and (message := read_again(item)) is not None:
            item = session_message(message)
        if not isinstance(item, Exception):
            if not self._makes_up and not self._is_made_up(item.message):
                note_said(item.message)
            original = getattr(item.message, "original", None)
            self._wire.recorder.message(IN, members(item.message) if original is None else original)
            if self._wire.modern:
                assume_complete(item.message)
            self._understand(item.message)
            self._log(stand_in_line(item.message, self._wire.recorder.server))
            return self._strays.came(item.message, self._stream) or item
        text = unread_text(item)
        instead = instead_of(item)
        if instead is None:
            instead = self._strays.unreadable(item, self._stream)
        else:
            instead = self._strays.came(instead.message, self._stream) or instead
        self._wire.recorder.garbage(text, members(instead.message) if instead is not None else None)
        self._wire.wrote_garbage(text)
        self._log(log_line(item, self._wire.recorder.server, self._wire.recorder.hide))
        if (refusal := refusal_of(item)) is not None and len(self._answering) < REFUSALS:
            # Not awaited: if the server reads nothing until it has written everything, both sides would block.
            task = asyncio.ensure_future(self._refuse(refusal))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        return instead or item

    def _is_made_up(self, message: Any) -> bool:
        """Whether a transport that passes a server's errors on has made this one up."""
        number = message.__dict__.get("id")
        made_up = number in self._wire.made_up
        self._wire.made_up.discard(number)
        return made_up

    def _understand(self, message: Any) -> None:
        """Mend the message for the SDK's models where they decide about more than its session asks for."""
        fields = message.__dict__
        method = fields.get("method")
        if method is None:
            if "result" in fields:
                if (method_of_request := self._strays.pending_method(fields["id"])) in OPENINGS:
                    message.result = read_handshake(method_of_request, fields["result"], self._wire.remark)
                elif method_of_request:
                    self._wire.has_answered = True
        elif "id" not in fields:
            params = fields.get("params")
            if (mended := read_notification(method, params, self._wire.remark)) is not params:
                message.params = mended
        for oddity in getattr(message, "oddities", ()):
            self._wire.remark(oddity)

    def _log(self, text: str) -> None:
        if text and self._unreadable < MAX_WARNINGS:
            self._unreadable += 1
            self._wire.warn(text)

    async def _refuse(self, refusal: Any) -> None:
        from anyio import BrokenResourceError, ClosedResourceError

        with suppress(BrokenResourceError, ClosedResourceError):
            await self._answer(refusal)
