"""Everything mcp_magic raises on purpose.

    MCPMagicError
    ├── CommandError            a %mcp line that cannot be read
    ├── ConfigError             a config file or declaration is wrong
    ├── TargetError             a target that names no server, or a server described incompletely
    ├── MissingDependencyError  an optional package is not installed (also ImportError)
    ├── ConnectError            no session could be opened
    │   ├── CommandNotFoundError
    │   ├── ServerExitedError       the server's process ended before it answered
    │   ├── UnreachableError        nobody listens, no such host, TLS refused
    │   ├── HTTPStatusError         the server answered, with an HTTP error
    │   ├── NotAnMCPServerError     something answered, but not MCP
    │   └── ConnectTimeoutError     (also TimeoutError)
    ├── SessionError            an open session failed
    │   ├── SessionClosedError      it is gone: `%mcp reconnect NAME`
    │   ├── RequestTimeoutError     (also TimeoutError)
    │   ├── ProtocolError           the server answered with a JSON-RPC error
    │   └── InvalidResponseError    the server broke the protocol
    ├── NotFoundError           (also LookupError)
    │   ├── UnknownServerError, UnknownToolError, UnknownResourceError, UnknownPromptError
    │   └── AmbiguousNameError
    ├── ArgumentsError          arguments that do not fit a schema (also ValueError)
    ├── DeniedError             a call that consent refused; nothing was sent
    ├── ToolError               a tool ran and reported an error
    ├── ModelError              a chat model cannot be made, or its provider refused or failed
    ├── ThreadError             a kept conversation cannot be read or written
    └── NoTableError            a result holds no rows (also ValueError)

Messages are one or two lines: what, where, what would be valid, what to do next. Errors of the
SDK, of sockets and of processes are translated at one border (`core/border.py`); an
`ExceptionGroup` never leaves the package, because on ipykernel 7 a group raised from an awaited
cell is shown as a stream instead of an error, and nbclient then waits for its time-out.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AmbiguousNameError",
    "ArgumentsError",
    "CommandError",
    "CommandNotFoundError",
    "ConfigError",
    "ConnectError",
    "ConnectTimeoutError",
    "DeniedError",
    "HTTPStatusError",
    "InvalidResponseError",
    "MCPMagicError",
    "MissingDependencyError",
    "ModelError",
    "NoTableError",
    "NotAnMCPServerError",
    "NotFoundError",
    "ProtocolError",
    "RequestTimeoutError",
    "ServerExitedError",
    "SessionClosedError",
    "SessionError",
    "TargetError",
    "ThreadError",
    "ToolError",
    "UnknownPromptError",
    "UnknownResourceError",
    "UnknownServerError",
    "UnknownToolError",
    "UnreachableError",
]

_RED, _RESET = "\x1b[31m", "\x1b[0m"


class MCPMagicError(Exception):
    """Base of all errors of this package; a notebook shows it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback (its hook for errors that explain themselves)."""
        return [f"{_RED}{type(self).__name__}{_RESET}: {self}"]


class CommandError(MCPMagicError):
    """A `%mcp` line that cannot be read."""


class ConfigError(MCPMagicError):
    """A config file or declaration is wrong."""


class TargetError(MCPMagicError):
    """A target that names no server, or a server described incompletely."""


class MissingDependencyError(MCPMagicError, ImportError):
    """An optional package is not installed; the message has the pip line."""


class ConnectError(MCPMagicError):
    """No session could be opened."""


class CommandNotFoundError(ConnectError):
    """The command of a stdio server cannot be started."""


class ServerExitedError(ConnectError):
    """The process of a stdio server ended before it answered."""


class UnreachableError(ConnectError):
    """Nobody listens there, the host is unknown, or TLS was refused."""


class HTTPStatusError(ConnectError):
    """The server answered the first request with an HTTP error.

    Attributes:
        status: The HTTP status code.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotAnMCPServerError(ConnectError):
    """Something answered, but it does not speak MCP."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The handshake was not answered in time."""


class SessionError(MCPMagicError):
    """An open session failed."""


class SessionClosedError(SessionError):
    """The session is gone; the message says how to open it again.

    Attributes:
        sent: Whether the request may have reached the server; False where it certainly did not.
    """

    sent: bool = True


class RequestTimeoutError(SessionError, TimeoutError):
    """A request was not answered in time; the server has been told that nobody waits."""


class ProtocolError(SessionError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The JSON-RPC error code, for example -32602.
        data: The error's `data` member, or None.
    """

    def __init__(self, message: str, code: int, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class InvalidResponseError(SessionError):
    """The server broke the protocol, or a result does not fit its own output schema."""


class NotFoundError(MCPMagicError, LookupError):
    """A name that no open session knows."""


class UnknownServerError(NotFoundError):
    """No session has this name."""


class UnknownToolError(NotFoundError):
    """No open session offers this tool."""


class UnknownResourceError(NotFoundError):
    """No open session offers this resource."""


class UnknownPromptError(NotFoundError):
    """No open session offers this prompt."""


class AmbiguousNameError(NotFoundError):
    """Several sessions offer this name; say `server:name`."""


class ArgumentsError(MCPMagicError, ValueError):
    """Arguments that do not fit a schema; raised before anything is sent."""


class ToolError(MCPMagicError):
    """A tool ran and reported an error.

    Attributes:
        result: The `ToolResult`, with `is_error` set, or None.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class DeniedError(MCPMagicError):
    """A call that consent refused; nothing was sent.

    Attributes:
        reason: Why, in the words of whoever refused, or "".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ModelError(MCPMagicError):
    """A chat model cannot be made, or its provider refused or failed; never with a key in it."""


class ThreadError(MCPMagicError):
    """A kept conversation cannot be read or written."""


class NoTableError(MCPMagicError, ValueError):
    """A result holds no rows to make a DataFrame of; the message says what was found."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest valid name, or an empty string.

    >>> did_you_mean("waether", ["math", "weather"])
    " Did you mean 'weather'?"
    >>> did_you_mean("zzz", ["math"])
    ''
    """
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Join names for a message, at most `limit` of them.

    >>> listed(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    >>> listed([])
    'none'
    """
    names = list(names)
    if not names:
        return "none"
    shown = ", ".join(names[:limit])
    rest = len(names) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
