"""The requests of a session as they go out, with what the SDK has no options for; and calls of tools without its models.

The SDK builds three models of a `tools/call`, reads each once, and lets five functions pass its answer on. Here a call
is one object, and only an unusual answer goes that way: the server asks for input, makes a task of the call, or wants
the tools to be listed again.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_jsonable_python

from mcp_magic.inflight import current_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp import Client
    from mcp_types import CallToolResult

    from mcp_magic.inflight import InFlightRequest

CALL = "tools/call"

_REPORTING = frozenset((CALL, "resources/read", "prompts/get"))  # requests that ask for progress notifications

PAGES_FIRST = -32042  # JSON-RPC error code: the user must visit pages first

HEADER_MISMATCH = -32020  # JSON-RPC error code: the tools must be listed before the call

_first_answer: ContextVar[Any] = ContextVar("mcp_magic_first_answer", default=None)
"""The answer to a call, or its error, with which the SDK's client is to go on."""


class HasLevel(Protocol):
    """Has the least severe level of log messages that the user wants; None for the default."""

    level: str | None


def attend(client: Client, calls: list[InFlightRequest], logs: HasLevel) -> None:
    """Let each request of a client's session ask for logs, and each call for progress.

    A request that a server refuses because pages must be visited first is sent again after the visit (specification
    2025-11-25, "URL Elicitation Required Error").
    """
    session: Any = client.session
    usual = session.send_request

    async def send_request(request: Any, result_type: Any, *arguments: Any, **options: Any) -> Any:
        if (first := _first_answer.get()) is not None:
            _first_answer.set(None)
            if isinstance(first, Exception):
                raise first
            return result_type.validate_python(first, by_name=False)
        call = current_request.get()
        if call is not None and (call.ended or call not in calls):
            call = None
        if logs.level is not None and session.discover_result is not None:
            _name_level(request, logs.level)
        if call is not None and request.method in _REPORTING and options.get("progress_callback") is None:
            options["progress_callback"] = call.on_progress
        try:
            return await usual(request, result_type, *arguments, **options)
        except Exception as error:
            visit = call.visit if call is not None and getattr(error, "code", None) == PAGES_FIRST else None
            if visit is None or not await visit(getattr(error, "data", None)):
                raise
        return await usual(request, result_type, *arguments, **options)

    session.send_request = send_request


def _name_level(request: Any, level: str) -> None:
    """Add the log level to a request of a 2026-07-28 session, unless it names one itself."""
    from mcp_types import LOG_LEVEL_META_KEY

    params: Any = getattr(request, "params", None)
    if hasattr(params, "meta"):
        params.meta = {LOG_LEVEL_META_KEY: level, **(params.meta or {})}


class ToolCall:
    """A `tools/call` request as a session of the SDK takes it; it is its own `params`. Its arguments are JSON."""

    __slots__ = ("arguments", "meta", "name")

    method = CALL
    name_param = None

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self.meta: dict[str, Any] | None = None

    @property
    def params(self) -> ToolCall:
        """What a log level is added to."""
        return self

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the message, with a copy of the arguments: a server in this process may change them."""
        params = {"name": self.name, "arguments": to_jsonable_python(self.arguments)}
        if self.meta is not None:
            params["_meta"] = {**self.meta}
        return {"method": CALL, "params": params}


@cache
def _answer_type() -> Any:
    """Return the type of the answer to a `ToolCall`: the result of the tool, or as it came if it is none."""
    from mcp_types import CallToolResult

    class Answer:
        @staticmethod
        def model_validate(raw: dict[str, Any], *, by_name: bool) -> Any:
            if raw.get("resultType", "complete") == "complete":
                return CallToolResult.model_validate(raw, by_name=by_name)
            return raw

    return Answer


async def call_tool(client: Client, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """Call a tool as `client.call_tool` does."""
    session: Any = client.session
    try:
        answer = await session.send_request(ToolCall(tool, arguments), _answer_type())
        if not isinstance(answer, dict):
            return answer  # type: ignore[no-any-return]
    except Exception as error:
        if getattr(error, "code", None) != HEADER_MISMATCH:
            raise
        answer = error
    token = _first_answer.set(answer)
    try:
        return await client.call_tool(tool, {**arguments})
    finally:
        _first_answer.reset(token)
