"""Requests of the SDK's client, with what it has no options for; and calls of tools without its models.

The SDK's client takes no progress callback for reads and prompts, and fixes the log level when it is made; so
`ClientSession.send_request` is replaced.

The SDK builds three models of a `tools/call`, reads each once, and lets five functions pass its answer on. Here a
call is one object. Only an unusual first answer goes that way: the server asks for input, makes a task of the call,
or wants its tools to be listed again.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mcp_magic._sdk import patch_send_request
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.request import InFlightRequest, current_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp import Client
    from mcp_types import CallToolResult


CALL = "tools/call"


_RICH = frozenset((CALL, "resources/read", "prompts/get"))
"""Requests that ask for progress notifications, and whose results may have images."""


PAGES_FIRST = -32042  # JSON-RPC error code: the user must visit pages first


HEADER_MISMATCH = -32020  # JSON-RPC error code: the tools must be listed before the call


_first_answer: ContextVar[Any] = ContextVar("mcp_magic_first_answer", default=None)
"""The answer to a call, or its error, with which the SDK's client is to go on."""


class HasLevel(Protocol):
    """Has the least severe level of log messages that the user wants; None for the default."""

    level: str | None


class AnyResult:
    """The type of a result that is returned as it came, a dict."""

    @staticmethod
    def model_validate(raw: dict[str, Any], *, by_name: bool) -> dict[str, Any]:
        """Return the result."""
        return raw


class ReadsResults(Protocol):
    """Reads what the SDK's models refuse, and tidies what they take."""

    def result(self, request: Any, raw: dict[str, Any], problem: Exception, unusable: list[Any]) -> Any:
        """Return the result of a request that the models refused with `problem`, or raise why not."""

    def tidied(self, result: Any) -> Any:
        """Return a result whose media are tidied."""


class ExtendedRequests:
    """Lets each request of a client's session ask for logs, and each call for progress.

    A result that the SDK's models refuse is read by `reader`. A request that a server refuses because pages must be
    visited first is sent again after the visit (specification 2025-11-25, "URL Elicitation Required Error").
    """

    def __init__(
        self,
        client: Client,
        calls: list[InFlightRequest],
        logs: HasLevel,
        reader: ReadsResults,
        visit: Callable[[Any], Awaitable[bool]],
    ) -> None:
        self._client = client
        self._calls = calls
        self._logs = logs
        self._reader = reader
        self._visit = visit
        self._send = patch_send_request(client.session, self)

    async def __call__(self, request: Any, result_type: Any, *arguments: Any, **options: Any) -> Any:
        """Send a request, as `ClientSession.send_request` does."""
        is_call = type(request) is ToolCall
        if not is_call and (first := _first_answer.get()) is not None:
            return self._answer_again(first, request, result_type)
        call = current_request.get()
        if call is not None and (call.is_over or call not in self._calls):
            call = None
        if self._logs.level is not None and self._client.session.discover_result is not None:
            _name_level(request, self._logs.level)
        if call is not None and request.method in _RICH and options.get("progress_callback") is None:
            options["progress_callback"] = call.on_progress
        send = partial(self._call if is_call else self._request, request, result_type, *arguments, **options)
        try:
            answer = await send()
        except Exception as error:
            if call is None or result_type is AnyResult or getattr(error, "code", None) != PAGES_FIRST:
                raise
            if not await self._visit(getattr(error, "data", None)):
                raise
            answer = await send()
        if is_call and isinstance(answer, dict | Exception):
            return await self._go_on(request, answer)
        return answer

    async def _call(self, call: ToolCall, *arguments: Any, **options: Any) -> Any:
        """Return the result of a call, or the answer with which the SDK's client goes on."""
        try:
            answer = await self._send(call, *arguments, **options)
        except ValueError as error:  # pydantic's
            return self._read(call, error)
        except Exception as error:
            if getattr(error, "code", None) == HEADER_MISMATCH:
                return error
            raise
        return answer if isinstance(answer, dict) else self._reader.tidied(answer)

    async def _request(self, request: Any, result_type: Any, *arguments: Any, **options: Any) -> Any:
        token = current_attempt.set(current_attempt.get() or Attempt())
        try:
            answer = await self._send(request, result_type, *arguments, **options)
        except ValueError as error:
            return self._read(request, error, as_it_came=result_type is AnyResult)
        finally:
            current_attempt.reset(token)
        if request.method in _RICH and not isinstance(answer, dict):
            return self._reader.tidied(answer)
        return answer

    def _read(self, request: Any, error: Exception, *, as_it_came: bool = False) -> Any:
        """Read a result that the SDK's models refuse."""
        attempt = current_attempt.get()
        if attempt is None or not isinstance(attempt.result, dict):
            raise error
        return attempt.result if as_it_came else self._reader.result(request, attempt.result, error, attempt.unusable)

    async def _go_on(self, call: ToolCall, first: dict[str, Any] | Exception) -> CallToolResult:
        """Let the SDK's client go on after the first answer to a call: it asks the user, or lists the tools again."""
        token = _first_answer.set(first)
        try:
            return await self._client.call_tool(call.name, {**call.arguments})
        finally:
            _first_answer.reset(token)

    def _answer_again(self, first: dict[str, Any] | Exception, request: Any, result_type: Any) -> Any:
        """Answer the call that the SDK's client makes to go on."""
        _first_answer.set(None)
        if isinstance(first, Exception):
            raise first
        try:
            return result_type.validate_python(first, by_name=False)
        except ValueError as problem:
            return self._reader.result(request, first, problem, [])


def _name_level(request: Any, level: str) -> None:
    """Add the log level to a request of a 2026-07-28 session, unless it names one itself."""
    from mcp_types import LOG_LEVEL_META_KEY

    params: Any = getattr(request, "params", None)
    if hasattr(params, "meta"):
        params.meta = {LOG_LEVEL_META_KEY: level, **(params.meta or {})}


@dataclass(slots=True)
class ToolCall:
    """A `tools/call` request as a session of the SDK takes it; it is its own `params`. Its arguments are JSON.

    It takes the place of the SDK's models, which would add about 4.7 microseconds to each call.
    """

    name: str
    arguments: Mapping[str, Any]
    meta: dict[str, Any] | None = None
    method: ClassVar = CALL
    name_param: ClassVar = None

    @property
    def params(self) -> ToolCall:
        """What a log level is added to."""
        return self

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the message, with a copy of the arguments: a server in this process may change them."""
        copied, _ = _sdk()
        params = {"name": self.name, "arguments": copied(self.arguments)}
        if self.meta is not None:
            params["_meta"] = {**self.meta}
        return {"method": CALL, "params": params}


@cache
def _sdk() -> tuple[Callable[[Any], Any], Any]:
    """Return what copies JSON, and the type of the answer to a `ToolCall`: a tool's result, or it as it came."""
    from mcp_types import CallToolResult
    from pydantic_core import to_jsonable_python

    class Answer:
        @staticmethod
        def model_validate(raw: dict[str, Any], *, by_name: bool) -> Any:
            if raw.get("resultType", "complete") == "complete":
                return CallToolResult.model_validate(raw, by_name=by_name)
            return raw

    return to_jsonable_python, Answer


def call_tool(client: Client, tool: str, arguments: Mapping[str, Any]) -> Awaitable[CallToolResult]:
    """Call a tool as `client.call_tool` does."""
    session: Any = client.session
    _, answer = _sdk()
    return session.send_request(ToolCall(tool, arguments), answer)  # type: ignore[no-any-return]
