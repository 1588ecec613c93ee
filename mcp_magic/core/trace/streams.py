"""Where the trace listens: at the streams of a transport, and at the calls of a server in this kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from mcp_magic.core.trace.record import being_sent
from mcp_magic.core.trace.trace import IN, OUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from mcp_magic.core.trace.record import Recorder

__all__ = ["TracedWrite", "Wrapped", "members", "trace_in_process"]


def members(message: Any) -> dict[str, Any]:
    """Return the members of a JSON-RPC message of the SDK, not copied."""
    given = {name: value for name, value in message.__dict__.items() if value is not None}
    if "error" in given:
        error = given["error"]
        given["error"] = {"code": error.code, "message": error.message}
        if error.data is not None:
            given["error"]["data"] = error.data
    return given


class Wrapped:
    """A stream that is another one, except for what a subclass does differently."""

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


class TracedWrite(Wrapped):
    """A write stream that records what is sent."""

    def __init__(self, stream: Any, recorder: Recorder) -> None:
        super().__init__(stream)
        self._recorder = recorder

    async def send(self, item: Any) -> None:
        """Record a message and send it."""
        token = being_sent.set(self._recorder.message(OUT, members(item.message)))
        try:
            await self._stream.send(item)
        finally:
            being_sent.reset(token)


def trace_in_process(client: Any, recorder: Recorder) -> None:
    """Let a client that has its server in this process record what both say.

    There the SDK calls the server's functions without streams; what goes between is recorded as the messages
    that it would be on a wire, with ids counted here.
    """
    connect = client._connect

    async def traced(*arguments: Any) -> Any:
        return _TracedCalls(await connect(*arguments), recorder)

    client._connect = traced


class _TracedCalls:
    """A dispatcher of the SDK that records requests, answers and notifications."""

    def __init__(self, dispatcher: Any, recorder: Recorder) -> None:
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._ids = {OUT: 0, IN: 0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    def _note(self, direction: str, method: str, params: Any, number: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if number is not None:
            message["id"] = number
        if params is not None:
            message["params"] = params
        self._recorder.message(direction, message)

    async def _exchange(self, direction: str, method: str, params: Any, asked: Any, wanted: Any = None) -> Any:
        """Record a request, let it be answered, record the answer."""
        back = IN if direction == OUT else OUT
        self._ids[direction] += 1
        number = wanted if wanted is not None else self._ids[direction]
        self._note(direction, method, params, number)
        try:
            answer = await asked
        except Exception as error:
            code, data = getattr(error, "code", -32603), getattr(error, "data", None)
            told = {"code": code, "message": str(error), **({"data": data} if data is not None else {})}
            self._recorder.message(back, {"jsonrpc": "2.0", "id": number, "error": told})
            raise
        self._recorder.message(back, {"jsonrpc": "2.0", "id": number, "result": answer})
        return answer

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> Any:
        wanted = opts.get("request_id") if opts else None
        if opts and (told := opts.get("on_progress")) is not None:
            opts = {**opts, "on_progress": self._progress(told, wanted or self._ids[OUT] + 1)}
        asked = self._dispatcher.send_raw_request(method, params, opts)
        return await self._exchange(OUT, method, params, asked, wanted)

    def _progress(self, told: Any, token: Any) -> Any:
        async def traced(progress: float, total: float | None, message: str | None) -> None:
            said = {"progressToken": token, "progress": progress, "total": total, "message": message}
            self._note(IN, "notifications/progress", {k: v for k, v in said.items() if v is not None})
            await told(progress, total, message)

        return traced

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        self._note(OUT, method, params)
        await self._dispatcher.notify(method, params, opts)

    async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **options: Any) -> None:
        async def requested(context: Any, method: str, params: Any) -> Any:
            return await self._exchange(IN, method, params, on_request(context, method, params))

        def told(method: str, params: Any) -> bool:
            self._note(IN, method, params)
            return bool(on_notify_intercept is not None and on_notify_intercept(method, params))

        await self._dispatcher.run(requested, on_notify, told, **options)
