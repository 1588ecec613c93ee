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

from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.request import InFlightRequest, current_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp import Client
    from mcp_types import CallToolResult


CALL = "tools/call"


_REPORTING = frozenset((CALL, "resources/read", "prompts/get"))  # requests that ask for progress notifications


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


def attend(client: Client, calls: list[InFlightRequest], logs: HasLevel, reader: ReadsResults) -> None:
    """Let each request of a client's session ask for logs, and each call for progress.

    A result that the SDK's models refuse is read by `reader`. A request that a server refuses because pages must be
    visited first is sent again after the visit (specification 2025-11-25, "URL Elicitation Required Error").
    """
    session: Any = client.session
    usual = session.send_request

    async def send_request(request: Any, result_type: Any, *arguments: Any, **options: Any) -> Any:
        is_call = type(request) is ToolCall
        if not is_call and (first := _first_answer.get()) is not None:
            return _answer_again(first, result_type, partial(reader.result, request))
        call = current_request.get()
        if call is not None and (call.ended or call not in calls):
            call = None
        if logs.level is not None and session.discover_result is not None:
            _name_level(request, logs.level)
        if call is not None and request.method in _REPORTING and options.get("progress_callback") is None:
            options["progress_callback"] = call.on_progress
        send = usual if is_call else partial(_read, usual, reader)  # what a call gets is read below
        try:
            answer = await send(request, result_type, *arguments, **options)
        except Exception as error:
            if is_call and (isinstance(error, ValueError) or getattr(error, "code", None) == HEADER_MISMATCH):
                answer = _read_again(reader, request, error)
            elif await _has_visited(call, error):
                answer = await send(request, result_type, *arguments, **options)
            else:
                raise
        if not is_call:
            return answer
        return await _go_on(client, request, answer) if isinstance(answer, dict | Exception) else reader.tidied(answer)

    session.send_request = send_request


_MEDIA = frozenset((CALL, "resources/read", "prompts/get"))  # requests whose results may have images


async def _read(
    usual: Callable[..., Awaitable[Any]],
    reader: ReadsResults,
    request: Any,
    result_type: Any,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Send a request by the SDK's session; let the reader read a result that the SDK's models refuse."""
    attempt = current_attempt.get()
    token = None
    if attempt is None:
        attempt = Attempt()
        token = current_attempt.set(attempt)
    try:
        answer = await usual(request, result_type, *arguments, **options)
    except ValueError as error:  # pydantic's
        if not isinstance(attempt.result, dict):
            raise
        if result_type is AnyResult:
            return attempt.result
        return reader.result(request, attempt.result, error, attempt.unusable)
    finally:
        if token is not None:
            current_attempt.reset(token)
    if request.method in _MEDIA and not isinstance(answer, dict):
        return reader.tidied(answer)
    return answer


def _read_again(reader: ReadsResults, request: Any, error: Exception) -> Any:
    """Read the result of a call that the SDK's models refuse, or raise their error; return another error."""
    if not isinstance(error, ValueError):
        return error
    attempt = current_attempt.get()
    if attempt is None or not isinstance(attempt.result, dict):
        raise error
    return reader.result(request, attempt.result, error, attempt.unusable)


async def _has_visited(call: InFlightRequest | None, error: Exception) -> bool:
    """Whether the user has visited the pages that a server wants visited before a call."""
    if call is None or call.answerers.visit is None or getattr(error, "code", None) != PAGES_FIRST:
        return False
    return await call.answerers.visit(getattr(error, "data", None))


def _answer_again(first: dict[str, Any] | Exception, result_type: Any, read: Callable[..., Any]) -> Any:
    _first_answer.set(None)
    if isinstance(first, Exception):
        raise first
    try:
        return result_type.validate_python(first, by_name=False)
    except ValueError as problem:
        return read(first, problem, [])


async def _go_on(client: Client, call: ToolCall, first: dict[str, Any] | Exception) -> CallToolResult:
    """Let the SDK's client go on after the first answer to a call: it asks the user, or lists the tools again."""
    token = _first_answer.set(first)
    try:
        return await client.call_tool(call.name, {**call.arguments})
    finally:
        _first_answer.reset(token)


def _name_level(request: Any, level: str) -> None:
    """Add the log level to a request of a 2026-07-28 session, unless it names one itself."""
    from mcp_types import LOG_LEVEL_META_KEY

    params: Any = getattr(request, "params", None)
    if hasattr(params, "meta"):
        params.meta = {LOG_LEVEL_META_KEY: level, **(params.meta or {})}


@dataclass(slots=True)
class ToolCall:
    """A `tools/call` request as a session of the SDK takes it; it is its own `params`. Its arguments are JSON."""

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
