"""The border where foreign errors become ours.

Errors of the SDK, of httpx2, of sockets and of processes arrive wrapped in nested ExceptionGroups
(`foreign.leaf` finds the one that says what happened). Two tables say what it means, one while a session is
opened and one while it is used. Nothing else in the package looks at foreign error types.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from mcp_magic import errors
from mcp_magic.config.specs import InProcessSpec, StdioSpec
from mcp_magic.core.foreign import (
    CLOSED,
    chain_text,
    is_closed,
    is_mcp_error,
    is_transport_error,
    leaf,
    named,
    waited_in_vain,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.transports import Line

__all__ = ["CODES", "Place", "closed_error", "connect_error", "request_error"]

CODES = {
    -32700: "parse error",
    -32600: "invalid request",
    -32601: "method not found",
    -32602: "invalid params",
    -32603: "internal error",
    -32002: "resource not found",
    -32020: "header mismatch",
    -32021: "missing client capability",
    -32022: "unsupported protocol version",
    -32042: "URL elicitation required",
}
"""JSON-RPC and MCP error codes in words (specification, "Error Handling"; SDK `mcp_types.jsonrpc`)."""

_TIMED_OUT = -32001
"""The SDK's code for a request that was not answered in time."""

_STATUS_HELP = {
    400: "the server did not understand the request; is this its MCP endpoint?",
    401: "it wants credentials, for example --header 'Authorization: Bearer TOKEN'",
    403: "it refuses these credentials, or this host name",
    404: "nothing is served under this path; it often ends in /mcp or /sse",
    405: "this path takes no POST; is it the MCP endpoint?",
    407: "a proxy on the way wants credentials",
    429: "it is asked too often; wait and try again",
    502: "a proxy could not reach the server behind it",
    503: "the server is not ready; try again",
    504: "a proxy waited in vain for the server behind it",
}


class Place:
    """Who an error is about: the connection's name, its spec, and what its line has seen."""

    def __init__(self, name: str, spec: Spec, line: Line | None = None) -> None:
        self.name = name
        self.spec = spec
        self.line = line

    def said(self, count: int = 3) -> str:
        """The server's last stderr lines as further lines of a message, secrets masked."""
        errlog = self.line.errlog if self.line else None
        lines = errlog.last_lines(count) if errlog else []
        return "".join(f"\n  stderr: {self.spec.masked(line)[:300]}" for line in lines)

    def garbage(self) -> str:
        """The first thing the server wrote that is no MCP message, or an empty string."""
        return self.spec.masked(self.line.garbage[0])[:120] if self.line and self.line.garbage else ""


def connect_error(error: BaseException, place: Place) -> Exception:
    """Say why no session could be opened.

    Returns:
        One of the `ConnectError`s, or the error itself if it is one of ours already.
    """
    found = leaf(error)
    if isinstance(found, errors.MCPMagicError):
        return found
    if waited_in_vain(found):
        return _handshake_timeout(place)
    for matches, explain in _CONNECT:
        if matches(found, place):
            return explain(found, place)
    return errors.ConnectError(f"{place.name}: cannot connect to {place.spec.where}: {_text(found, place)}")


def request_error(error: BaseException, place: Place, what: str, seconds: float | None = None) -> Exception:
    """Say why a request on an open session failed.

    Args:
        error: What the SDK raised.
        place: The connection.
        what: What was asked, for example `"weather:forecast"`.
        seconds: The time-out that was in force.
    """
    found = leaf(error)
    if isinstance(found, errors.MCPMagicError):
        return found
    code = getattr(found, "code", None)
    if code == _TIMED_OUT or waited_in_vain(found):
        after = f" within {seconds:g} s" if seconds is not None else " in time"
        return errors.RequestTimeoutError(f"{what}: no answer{after}; the server has been told that nobody waits.")
    if is_closed(found):
        return closed_error(place, found)
    if is_mcp_error(found):
        return _protocol_error(found, place, what)
    if isinstance(found, ValueError | RuntimeError):  # pydantic's ValidationError, a result that breaks its schema
        reason = _text(found, place)
        return errors.InvalidResponseError(f"{what}: the server's answer breaks the protocol: {reason}")
    return errors.SessionError(f"{what}: {type(found).__name__}: {_text(found, place)}")


def closed_error(place: Place, reason: BaseException | None = None) -> errors.SessionClosedError:
    """Say that a session is gone, why if that is known, and how to open it again."""
    because = ""
    if place.line and place.line.status:
        because = f" after HTTP {place.line.status}"
    elif reason is not None and is_transport_error(reason):
        because = f" ({_text(reason, place)})"
    return errors.SessionClosedError(
        f"{place.name}: the session has ended{because}; `%mcp reconnect {place.name}` opens it again.{place.said()}"
    )


def _protocol_error(found: Any, place: Place, what: str) -> Exception:
    status = place.line.status if place.line else None
    text = _text(found, place)
    if status is not None and found.code in (-32603, -32600) and text.startswith(("Server returned", "Session term")):
        help_text = _STATUS_HELP.get(status, "the server failed" if status >= 500 else "the server refused")
        return errors.ProtocolError(f"{what}: HTTP {status}: {help_text}.", found.code, found.data)
    meaning = CODES.get(found.code, "server error")
    return errors.ProtocolError(f"{what}: {text} ({found.code}, {meaning})", found.code, found.data)


def _handshake_timeout(place: Place) -> Exception:
    where, seconds = place.spec.where, place.spec.timeout
    if garbage := place.garbage():
        text = f"{place.name}: {where} writes {garbage!r}, which is no MCP message, and did not answer in {seconds:g} s"
        return errors.NotAnMCPServerError(f"{text}.{place.said()}")
    text = f"{place.name}: {where} did not answer the handshake within {seconds:g} s (--timeout S waits longer)."
    return errors.ConnectTimeoutError(text + place.said())


def _no_command(found: BaseException, place: Place) -> Exception:
    spec = place.spec
    assert isinstance(spec, StdioSpec)
    if spec.cwd is not None and not os.path.isdir(spec.cwd):  # noqa: PTH112
        return errors.CommandNotFoundError(f"{place.name}: the working directory {str(spec.cwd)!r} does not exist.")
    if isinstance(found, FileNotFoundError):
        near = errors.did_you_mean(spec.command, (c for c in ("python", "python3", "node", "npx", "uvx", "uv", "deno")))
        near = near if near and shutil.which(near.split("'")[1]) else ""
        return errors.CommandNotFoundError(
            f"{place.name}: the command {spec.command!r} is not found; is it installed and on PATH?{near}"
        )
    reason = getattr(found, "strerror", None) or str(found)
    return errors.CommandNotFoundError(f"{place.name}: the command {spec.command!r} cannot be started: {reason}.")


def _exited(found: BaseException, place: Place) -> Exception:
    if isinstance(place.spec, StdioSpec):
        garbage = f" It wrote {garbage!r}, which is no MCP message." if (garbage := place.garbage()) else ""
        text = f"{place.name}: {place.spec.where} ended before it answered.{garbage}{place.said()}"
        return errors.ServerExitedError(text)
    return errors.NotAnMCPServerError(f"{place.name}: {place.spec.where} closed the connection before it answered.")


def _unreachable(found: BaseException, place: Place) -> Exception:
    where, text = place.spec.where, chain_text(found)
    if "CERTIFICATE_VERIFY_FAILED" in text or "SSL" in text:
        reason = text.partition("failed: ")[2].split(" (_ssl")[0] or text
        return errors.UnreachableError(
            f"{place.name}: TLS to {where} failed: {reason} (verify = 'CA.pem' names the authority to trust)."
        )
    if "Name or service not known" in text or "getaddrinfo" in text or "No address" in text:
        return errors.UnreachableError(f"{place.name}: no such host: {where}")
    if "imeout" in type(found).__name__:
        return errors.UnreachableError(f"{place.name}: no connection to {where} in time; is a firewall between?")
    return errors.UnreachableError(f"{place.name}: nobody listens at {where}; is the server running?")


def _http_status(found: BaseException, place: Place) -> Exception:
    status = getattr(getattr(found, "response", None), "status_code", None) or (place.line and place.line.status) or 0
    help_text = _STATUS_HELP.get(status, "the server failed" if status >= 500 else "the server refused")
    return errors.HTTPStatusError(f"{place.name}: {place.spec.where} answered HTTP {status}: {help_text}.", status)


def _no_mcp(found: BaseException, place: Place) -> Exception:
    kind = place.line.content_type.partition(";")[0] if place.line else ""
    said = f" with {kind}" if kind and "json" not in kind and "event-stream" not in kind else ""
    text = f"{place.name}: {place.spec.where} answered{said}, but not as an MCP server: {_text(found, place)}"
    return errors.NotAnMCPServerError(f"{text}{place.said()}")


def _bad_url(found: BaseException, place: Place) -> Exception:
    return errors.TargetError(f"{place.name}: {place.spec.where!r} is no usable URL: {_text(found, place)}")


def _in_process(found: BaseException, place: Place) -> Exception:
    return errors.ConnectError(f"{place.name}: {place.spec.where} failed to start: {_text(found, place)}")


def _refused(error: BaseException, place: Place) -> bool:
    if named(error, "httpx2", "ConnectError", "ConnectTimeout", "ProxyError", "PoolTimeout"):
        return True
    return isinstance(error, OSError) and not isinstance(place.spec, StdioSpec)


def _answered_status(error: BaseException, place: Place) -> bool:
    if named(error, "httpx2", "HTTPStatusError"):
        return True
    return place.line is not None and place.line.status is not None and is_mcp_error(error)


_CONNECT: list[tuple[Callable[[BaseException, Place], bool], Callable[[BaseException, Place], Exception]]] = [
    (lambda e, p: isinstance(e, OSError) and isinstance(p.spec, StdioSpec), _no_command),
    (lambda e, p: isinstance(p.spec, InProcessSpec), _in_process),
    (_answered_status, _http_status),
    (_refused, _unreachable),
    (lambda e, p: getattr(e, "code", None) == CLOSED, _exited),
    (lambda e, p: named(e, "httpx2", "UnsupportedProtocol", "InvalidURL"), _bad_url),
    (lambda e, p: named(e, "websockets", "InvalidURI"), _bad_url),
    (lambda e, p: named(e, "websockets", "InvalidStatus"), _http_status),
    (lambda e, p: named(e, "websockets", "WebSocketException"), _no_mcp),
    (lambda e, p: is_transport_error(e), _exited),
    (lambda e, p: is_mcp_error(e) or isinstance(e, RuntimeError | ValueError), _no_mcp),
]
"""What an error means while a session is opened; the first row that matches explains it."""


def _text(error: BaseException, place: Place) -> str:
    text = str(error).strip() or type(error).__name__
    if named(error, "pydantic_core", "ValidationError"):
        first = error.errors()[0]  # type: ignore[attr-defined]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return place.spec.masked(text.splitlines()[0])[:300]
