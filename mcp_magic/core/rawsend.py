"""Sends any request or notification as it is, for whoever debugs a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.consent.consent import PERSON, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.core.connection import Connection

__all__ = ["send_notification", "send_request"]

_CALL = "tools/call"


async def send_request(
    connection: Connection,
    method: str,
    params: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    max_total_timeout: float | None = None,
) -> dict[str, Any]:
    """Send a request and return the `result` of its answer, nothing checked or turned into something else.

    The session adds what its protocol version asks for in `_meta`. `tools/call` goes through consent as the
    person's own call.

    Args:
        connection: The session.
        method: The method.
        params: Its parameters, Python objects that JSON can hold.
        timeout: Seconds to wait for the answer, or None for as long as it takes; as of `Connection.call_tool`.
        max_total_timeout: Seconds that it may take all the same.

    Raises:
        ArgumentsError: The parameters cannot be sent.
        DeniedError: Consent refused the call; nothing was sent.
        ProtocolError: The answer is a JSON-RPC error.
        SessionError: The session failed.
    """
    from mcp_types import Request as AnyRequest
    from pydantic import TypeAdapter

    given = await _allowed(connection, method, schema.json_arguments(params or {}))
    request: Any = AnyRequest[Any, str](method=method, params=given)
    answer: Any = TypeAdapter(dict[str, Any])

    def send(client: Any) -> Any:
        return client.session.send_request(request, answer)

    what = f"{connection.name}: {method}"
    found: dict[str, Any] = await connection._send_call(what, send, timeout, max_total=max_total_timeout, pages=False)
    return found


async def send_notification(connection: Connection, method: str, params: Mapping[str, Any] | None = None) -> None:
    """Send a notification; there is no answer.

    Raises:
        ArgumentsError: The parameters cannot be sent.
        SessionError: The session failed.
    """
    from mcp_types import Notification

    notification: Any = Notification[Any, str](method=method, params=schema.json_arguments(params or {}))
    await connection._send(f"{connection.name}: {method}", lambda c: c.session.send_notification(notification))


async def _allowed(connection: Connection, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method != _CALL or connection.consent is None or not isinstance(params.get("name"), str):
        return params
    name, arguments = params["name"], params.get("arguments")
    known = next((tool for tool in connection.catalog.cached("tools") if tool.name == name), None)
    asked = Request(
        connection.name, name, arguments if isinstance(arguments, dict) else {}, PERSON, known, connection.spec.trust
    )
    allowed = await connection.consent.check(asked)
    return {**params, "arguments": dict(allowed)} if isinstance(arguments, dict) else params
